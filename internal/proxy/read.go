package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/refusal"
)

// read takes the whole body in, bounded, and scans what routing needs. Retries and prefix keys need it whole; engines need it
// whole before they can begin, so nothing is lost by waiting for the end of it.
func (x *exchange) read() error {
	x.begun = x.r.ContentLength <= x.o.BodyBytesMax
	if shape := x.shape(); shape != plainJSON {
		return x.readOther(shape)
	}
	body, err := x.readBody()
	if err != nil {
		return err
	}
	x.body, x.text, x.unread = body, body, false
	if len(body) == 0 && x.api == llmapi.Other {
		x.req = llmapi.Request{N: 1, Prompts: 1} // it still holds what another request said
		return nil
	}
	if err := x.req.Scan(x.api, body); err != nil {
		return failed(refusal.Malformed(err))
	}
	x.scanned = true
	return nil
}

// takeShort takes a body that is here: there is no wait to bound.
func (x *exchange) takeShort(n int) ([]byte, error) {
	body := x.room.body[:n:n]
	_, err := io.ReadFull(x.r.Body, body)
	if err == nil {
		err = x.share.Hold(n)
	}
	if err != nil {
		return nil, x.brokenOff(err)
	}
	return body, nil
}

func (x *exchange) readBody() ([]byte, error) {
	limit := x.o.BodyBytesMax
	if n := x.r.ContentLength; n > limit {
		return nil, failed(refusal.TooLarge(fmt.Sprintf("%d bytes", n), limit))
	}
	if x.r.ContentLength == 0 {
		return nil, nil
	}
	if n := x.r.ContentLength; n > 0 && n <= int64(len(x.room.body)) && intake.Here(x.r.Body) {
		return x.takeShort(int(n))
	}
	up := x.upload()
	defer up.Leave()
	r := http.MaxBytesReader(x.down.ResponseWriter, up, limit)
	var body []byte
	var err error
	if n := x.r.ContentLength; n > 0 {
		body, err = intake.ReadWhole(r, n, x.room.body)
	} else {
		body, err = io.ReadAll(r)
	}
	if err == nil {
		return body, nil
	}
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return nil, failed(refusal.TooLarge("more", limit))
	}
	return nil, x.brokenOff(err)
}
