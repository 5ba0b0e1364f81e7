package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/llmapi"
)

// read takes the whole body in, bounded, and scans what routing needs. Retries and prefix keys need it whole; engines need it
// whole before they can begin, so nothing is lost by waiting for the end of it.
func (x *exchange) read() error {
	x.api, x.dialect = llmapi.Route(x.r.Method, x.r.URL.Path)
	body, err := x.readBody()
	if err != nil {
		return err
	}
	x.body = body
	if !scannable(x.r.Header, x.api) || (len(body) == 0 && x.api == llmapi.Other) {
		x.req = llmapi.Request{} // it still holds what another request said
		return nil
	}
	if err := x.req.Scan(x.api, body); err != nil {
		return scanFailure(err)
	}
	x.scanned = true
	return nil
}

// scannable says whether a body is meant to be JSON. The JSON APIs take it as such whatever its type says, as the engines do,
// unless it is compressed or a form.
func scannable(h http.Header, api llmapi.API) bool {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return false
	}
	if strings.HasPrefix(h.Get("Content-Type"), "multipart/") {
		return false
	}
	return api != llmapi.Other || isJSON(h)
}

func isJSON(h http.Header) bool {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	t = strings.TrimSpace(t)
	return t == "" || strings.EqualFold(t, "application/json") || strings.HasSuffix(strings.ToLower(t), "+json")
}

func (x *exchange) readBody() ([]byte, error) {
	limit := x.p.o.BodyBytesMax
	if n := x.r.ContentLength; n > limit {
		x.w.Header().Set("Connection", "close")
		return nil, tooLarge(fmt.Sprintf("%d bytes", n), limit)
	}
	if x.r.ContentLength == 0 {
		return nil, nil
	}
	r := http.MaxBytesReader(x.w, x.r.Body, limit)
	var body []byte
	var err error
	if n := x.r.ContentLength; n > 0 {
		body = make([]byte, n)
		_, err = io.ReadFull(r, body)
	} else {
		body, err = io.ReadAll(r)
	}
	if err == nil {
		return body, nil
	}
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return nil, tooLarge("more", limit)
	}
	if x.ctx.Err() != nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &failure{status: http.StatusBadRequest, kind: llmapi.KindInvalid, message: "the request body ended early: " + err.Error(), outcome: OutcomeCancelled}
	}
	return nil, badRequest("", "the request body cannot be read: %v", err)
}

func tooLarge(got string, limit int64) *failure {
	return &failure{status: http.StatusRequestEntityTooLarge, kind: llmapi.KindTooLarge, outcome: OutcomeClientError,
		message: fmt.Sprintf("the request body has %s, the limit is %d bytes (setting body_bytes_max)", got, limit)}
}
