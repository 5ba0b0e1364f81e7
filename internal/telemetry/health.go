package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Engines say at GET /health whether they are well: vLLM 503 when its engine core died (500 before it had an exception of its own for that),
// though models and metrics are told on; SGLang 503 while it starts or stops, and when its scheduler gave no token within 20 s; TensorRT-LLM
// 503 after a fatal error, in later versions; llama.cpp 503 while it reads its model. Ollama, LM Studio and others have nothing of the kind.
// SGLang has a /health_generate besides: it makes a token even where /health does not, and an idle fleet is not to be kept busy by checks.
const healthPath = "/health"

// check asks an engine that is known whether it is well: every Refresh, and every round while it says no or does not tell its counts. No
// answer, or one that is neither yes nor no, says nothing: silence is judged by what else comes from the worker.
func (w *watch) check(ctx context.Context, failed error) {
	var e *Error
	troubled := errors.As(failed, &e) && e.Status >= http.StatusInternalServerError
	now := time.Now()
	if !w.known || !w.found.engine.health || !w.unwell && !troubled && now.Sub(w.checked) < w.opts.Refresh {
		return
	}
	w.checked = now
	err := w.healthy(ctx)
	t := *w.target.Load()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		w.unwell = false
		w.opts.OnHealth(t, nil)
	case unwell(err):
		w.unwell = true
		w.opts.OnHealth(t, err)
	}
}

func (w *watch) healthy(ctx context.Context) error {
	return w.client.get(ctx, healthPath, func(resp *http.Response) error {
		_, err := io.CopyN(io.Discard, resp.Body, 4<<10)
		if err == io.EOF {
			return nil
		}
		return err
	})
}

// unwell reports whether an answer is a no: a 5xx, save 501, which is of those who do not know the question.
func unwell(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status >= http.StatusInternalServerError && e.Status != http.StatusNotImplemented
}

// loading marks the failure of an engine that has not told yet what it is, and answers 503 here as well as there: it is not ready, which is
// no fault.
func (w *watch) loading(ctx context.Context, err error) {
	var e, health *Error
	if w.known || !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable {
		return
	}
	e.Loading = errors.As(w.healthy(ctx), &health) && health.Status == http.StatusServiceUnavailable
}
