package engine

import (
	"fmt"
	"net/http"

	"github.com/warmpath/warmpath/internal/dialog"
)

func noResponse(id string) *dialog.Failure {
	return dialog.Fail(http.StatusNotFound, "invalid_request_error", "response_id", "Response with id '%s' not found.", id)
}

func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) {
	found, ok := s.responses.Get(r.PathValue("id"))
	if !ok {
		writeFailure(w, r, noResponse(r.PathValue("id")))
		return
	}
	writeJSON(w, http.StatusOK, found.Whole)
}

func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.responses.Remove(id) {
		writeFailure(w, r, noResponse(id))
		return
	}
	// An id that was found is one of ours and needs no quoting.
	writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"id":"%s","object":"response","deleted":true}`, id))
}
