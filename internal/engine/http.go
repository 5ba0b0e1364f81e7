package engine

import (
	"context"
	json "encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/dialog"
)

// serverName is the Server header of every answer.
const serverName = "warmpath-sim"

// version is what /version answers; it claims no real engine's number.
const version = "0.0.0+warmpath-sim"

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.post(s.chat))
	mux.HandleFunc("POST /v1/completions", s.post(s.completions))
	mux.HandleFunc("POST /v1/embeddings", s.post(s.embeddings))
	mux.HandleFunc("POST /tokenize", s.post(s.tokenize))
	mux.HandleFunc("POST /v1/responses", s.post(s.respond))
	mux.HandleFunc("GET /v1/responses/{id}", s.getResponse)
	mux.HandleFunc("DELETE /v1/responses/{id}", s.deleteResponse)
	mux.HandleFunc("POST /v1/messages", s.post(s.messages))
	mux.HandleFunc("POST /v1/messages/count_tokens", s.post(s.countTokens))
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /version", s.version)
	mux.HandleFunc("GET /metrics", s.metrics)
	if e := s.options.Events; e != nil {
		mux.Handle("GET /kv_event_sources", e.Sources)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", serverName)
		mux.ServeHTTP(w, r)
	})
}

// post reads and checks a body, calls the API and maps its error: the only place that does.
func (s *Server) post(api func(http.ResponseWriter, *http.Request, *dialog.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := s.read(w, r)
		if err == nil {
			err = api(w, r, b)
		}
		var f *dialog.Failure
		switch {
		case err == nil:
		case errors.As(err, &f):
			writeFailure(w, r, f)
		case r.Context().Err() != nil:
			// The client left: nobody reads an answer.
		default:
			// The engine stopped under a request. What was sent so far must not look like a whole answer.
			panic(http.ErrAbortHandler)
		}
	}
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) (*dialog.Request, error) {
	limit := s.options.BodyBytesMax
	raw, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit)
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return nil, dialog.Fail(http.StatusRequestEntityTooLarge, "BadRequestError", "", "the request body is larger than %d bytes (BodyBytesMax)", limit)
	case err != nil:
		return nil, dialog.Refuse("", "the request body ended early: %v", err)
	}
	b, err := dialog.Parse(raw)
	if err != nil {
		return nil, dialog.Refuse("", "%v", err)
	}
	b.KeepIDs = s.options.Events != nil
	if b.Model != "" && b.Model != s.options.Model {
		return nil, dialog.Fail(http.StatusNotFound, "NotFoundError", "model", "The model `%s` does not exist. Valid aliases: %s.", b.Model, s.options.Model)
	}
	return b, nil
}

// readAll reads a body into one buffer of the announced size.
func readAll(r io.Reader, size, limit int64) ([]byte, error) {
	if size <= 0 || size > limit {
		return io.ReadAll(r)
	}
	buf := make([]byte, size)
	_, err := io.ReadFull(r, buf)
	return buf, err
}

func writeFailure(w http.ResponseWriter, r *http.Request, f *dialog.Failure) {
	writeJSON(w, f.Status, f.Body(strings.HasPrefix(r.URL.Path, "/v1/messages")))
}

func writeJSON(w http.ResponseWriter, status int, out []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	w.WriteHeader(status)
	_, _ = w.Write(out) // a client that left reads nothing
}

// models is GET /v1/models.
func (s *Server) models(w http.ResponseWriter, r *http.Request) {
	type model struct {
		ID         string  `json:"id"`
		Object     string  `json:"object"`
		Created    int64   `json:"created"`
		OwnedBy    string  `json:"owned_by"`
		Root       string  `json:"root"`
		Parent     *string `json:"parent"`
		ContextMax int     `json:"max_model_len"`
	}
	own := model{s.options.Model, "model", s.start.Unix(), serverName, s.options.Model, nil, s.options.ContextMax}
	out, err := json.Marshal([]model{own})
	if err != nil {
		writeFailure(w, r, dialog.Fail(http.StatusInternalServerError, "InternalServerError", "", "%v", err))
		return
	}
	writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"object":"list","data":%s}`, out))
}

// version is GET /version.
func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"version":"%s","simulated":true,"profile":"%s","max_num_seqs":%d}`, version, s.options.Profile.Name, s.options.Profile.BatchMax))
}

// finish runs a job to its end. A client that leaves takes the job with it.
func (s *Server) finish(ctx context.Context, j *job) error {
	if err := s.submit(j); err != nil {
		return err
	}
	defer s.abort(j)
	for !j.finished() {
		if err := s.wait(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// run sends a job through the engine and its answer to the client, whole or as a stream.
func (s *Server) run(w http.ResponseWriter, r *http.Request, j *job, f dialog.Form) error {
	if j.stream {
		return s.runStream(w, r, j, f)
	}
	if err := s.finish(r.Context(), j); err != nil {
		return err
	}
	j.keep()
	writeJSON(w, http.StatusOK, f.Whole(nil, j.usage()))
	return nil
}

// runStream sends the head at once and then every token as it comes; what came together is written together.
func (s *Server) runStream(w http.ResponseWriter, r *http.Request, j *job, f dialog.Form) error {
	if err := s.submit(j); err != nil {
		return err
	}
	defer s.abort(j)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil {
		return err
	}
	var buf []byte
	for ended := false; !ended; {
		if err := s.wait(r.Context(), j); err != nil {
			return err
		}
		if buf, ended = j.advance(buf[:0], f); ended {
			j.keep()
			buf = f.Close(buf, j.usage())
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
		if err := control.Flush(); err != nil {
			return err
		}
	}
	return nil
}
