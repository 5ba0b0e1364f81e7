package engine

import (
	json "encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
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
	mux.HandleFunc("POST /v1/responses", s.post(s.respond))
	mux.HandleFunc("GET /v1/responses/{id}", s.getResponse)
	mux.HandleFunc("DELETE /v1/responses/{id}", s.deleteResponse)
	mux.HandleFunc("POST /v1/messages", s.post(s.messages))
	mux.HandleFunc("POST /v1/messages/count_tokens", s.post(s.countTokens))
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"version": version, "simulated": true, "profile": s.options.Profile.Name})
	})
	mux.Handle("GET /metrics", s.meters.handler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", serverName)
		mux.ServeHTTP(w, r)
	})
}

// failure is an error with its HTTP status and the fields of vLLM's error object.
type failure struct {
	status               int
	kind, param, message string
}

func (f *failure) Error() string { return f.message }

func failf(status int, kind, param, format string, args ...any) *failure {
	return &failure{status, kind, param, fmt.Sprintf(format, args...)}
}

// post reads and checks a body, calls the API and maps its error: the only place that does.
func (s *Server) post(api func(http.ResponseWriter, *http.Request, *body) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := s.read(w, r)
		if err == nil {
			err = api(w, r, b)
		}
		var f *failure
		switch {
		case err == nil:
		case errors.As(err, &f):
			writeFailure(w, strings.HasPrefix(r.URL.Path, "/v1/messages"), f)
		case r.Context().Err() != nil:
			// The client left: nobody reads an answer.
		default:
			// The engine stopped under a request. What was sent so far must not look like a whole answer.
			panic(http.ErrAbortHandler)
		}
	}
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) (*body, error) {
	limit := s.options.BodyBytesMax
	raw, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit)
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return nil, failf(http.StatusRequestEntityTooLarge, "BadRequestError", "", "the request body is larger than %d bytes (BodyBytesMax)", limit)
	case err != nil:
		return nil, failf(http.StatusBadRequest, "BadRequestError", "", "the request body ended early: %v", err)
	}
	b, err := parse(raw)
	if err != nil {
		return nil, failf(http.StatusBadRequest, "BadRequestError", "", "%v", err)
	}
	if b.Model != "" && b.Model != s.options.Model {
		return nil, failf(http.StatusNotFound, "NotFoundError", "model", "The model `%s` does not exist. Valid aliases: %s.", b.Model, s.options.Model)
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

func writeFailure(w http.ResponseWriter, anthropic bool, f *failure) {
	if !anthropic {
		var param any
		if f.param != "" {
			param = f.param
		}
		writeJSON(w, f.status, map[string]any{"error": map[string]any{
			"message": f.message, "type": f.kind, "param": param, "code": f.status,
		}})
		return
	}
	kinds := map[int]string{
		http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusServiceUnavailable: "overloaded_error",
	}
	kind, ok := kinds[f.status]
	if !ok {
		kind = "invalid_request_error"
	}
	writeJSON(w, f.status, map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": f.message}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	out, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // values are made here, of strings and numbers
	}
	writeBytes(w, status, out)
}

func writeBytes(w http.ResponseWriter, status int, out []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	w.WriteHeader(status)
	w.Write(out)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.options.Model, "object": "model", "created": s.start.Unix(), "owned_by": serverName,
		"root": s.options.Model, "parent": nil, "max_model_len": s.options.ContextMax,
	}}})
}

// newID makes an answer's id; a client's X-Request-Id becomes part of it, as in vLLM.
func newID(r *http.Request, prefix string) string {
	if own := r.Header.Get("X-Request-Id"); own != "" && len(own) <= 128 && plain(own) {
		return prefix + own
	}
	return randomID(prefix)
}

// randomID makes an id that no other engine makes: answers that are kept are found by it.
func randomID(prefix string) string { return fmt.Sprintf("%s%016x", prefix, rand.Uint64()) }

// plain says that a string can stand in JSON as it is.
func plain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// limits reads a request's bounds on its answer and checks them against the context length; unsaid is the default when
// the request names no maximum, 0 for all the room there is.
func (s *Server) limits(b *body, promptTokens, unsaid int) (limits, error) {
	room := s.options.ContextMax - promptTokens
	if room < 1 {
		return limits{}, failf(http.StatusBadRequest, "BadRequestError", "input_tokens",
			"This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%d)",
			s.options.ContextMax, promptTokens, promptTokens)
	}
	l := limits{tokensMax: room, tokensMin: b.MinTokens, ignoreEnd: b.IgnoreEOS, seed: uint64(b.Seed)}
	if unsaid > 0 {
		l.tokensMax = min(unsaid, room)
	}
	for _, said := range []*int{b.MaxTokens, b.MaxOutputTokens, b.MaxCompletionTokens} {
		if said == nil {
			continue
		}
		if *said < 1 {
			return l, failf(http.StatusBadRequest, "BadRequestError", "max_tokens", "max_tokens must be at least 1, got %d.", *said)
		}
		if *said > room {
			return l, failf(http.StatusBadRequest, "BadRequestError", "input_tokens",
				"This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%d)",
				s.options.ContextMax, *said, promptTokens, *said+promptTokens, promptTokens)
		}
		l.tokensMax = *said
	}
	if l.tokensMin > l.tokensMax {
		return l, failf(http.StatusBadRequest, "BadRequestError", "min_tokens",
			"min_tokens must be less than or equal to max_tokens=%d, got %d.", l.tokensMax, l.tokensMin)
	}
	return l, nil
}

// choicesMax bounds n times prompts of one request.
const choicesMax = 1024

func (b *body) choices(prompts int) (int, error) {
	n := 1
	if b.N != nil {
		n = *b.N
	}
	if n < 1 || n*prompts > choicesMax {
		return 0, failf(http.StatusBadRequest, "BadRequestError", "n", "n must be between 1 and %d for %d prompts, got %d.", choicesMax/max(prompts, 1), prompts, n)
	}
	return n, nil
}
