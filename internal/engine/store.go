package engine

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/warmpath/warmpath/internal/dialog"
)

// response is a kept answer of /v1/responses: the conversation up to and including it, and what GET returns.
type response struct {
	turns []dialog.Message
	whole []byte
}

// responseStore keeps the newest answers.
type responseStore struct {
	mu    sync.Mutex // guards the fields below
	max   int
	byID  map[string]response
	order []string // of arrival; ids that were deleted are still in it
}

func newResponseStore(max int) *responseStore {
	return &responseStore{max: max, byID: make(map[string]response)}
}

func (k *responseStore) get(id string) (response, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.byID[id]
	return r, ok
}

func (k *responseStore) put(id string, r response) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byID[id] = r
	k.order = append(k.order, id)
	for len(k.order) > k.max {
		delete(k.byID, k.order[0])
		k.order = k.order[1:]
	}
}

func (k *responseStore) remove(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.byID[id]
	delete(k.byID, id)
	return ok
}

func noResponse(id string) *dialog.Failure {
	return dialog.Fail(http.StatusNotFound, "invalid_request_error", "response_id", "Response with id '%s' not found.", id)
}

func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) {
	found, ok := s.responses.get(r.PathValue("id"))
	if !ok {
		writeFailure(w, r, noResponse(r.PathValue("id")))
		return
	}
	writeJSON(w, http.StatusOK, found.whole)
}

func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.responses.remove(id) {
		writeFailure(w, r, noResponse(id))
		return
	}
	// An id that was found is one of ours and needs no quoting.
	writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"id":"%s","object":"response","deleted":true}`, id))
}
