package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/warmpath/warmpath/internal/inflight"
	"github.com/warmpath/warmpath/internal/intake"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/refusal"
)

// bodyShape is how a body is taken in.
type bodyShape uint8

const (
	plainJSON  bodyShape = iota
	packedJSON           // compressed
	formBody             // multipart, compressed or not
	rawBody              // anything else, an absent body included
)

// shape tells what a body is meant to be. The JSON APIs take it as JSON whatever its type says, as the engines do, unless it is
// compressed or a form.
func (x *exchange) shape() bodyShape {
	h := x.in
	if _, form := intake.Boundary(h.Get("Content-Type")); form {
		return formBody
	}
	if x.api == llmapi.Other && (x.r.ContentLength == 0 || !intake.IsJSON(h)) {
		return rawBody
	}
	if intake.Encoding(h.Get("Content-Encoding")) != "" {
		return packedJSON
	}
	return plainJSON
}

// readOther takes in a body that is not plain JSON. It is forwarded as it came; what the router needs of it is read on the side.
func (x *exchange) readOther(shape bodyShape) error {
	limits := intake.Limits{BytesMax: x.o.BodyBytesMax, SpoolBytes: x.o.SpoolBytes, SpoolDir: x.o.SpoolDir, Aside: x.share.Aside}
	if shape == packedJSON {
		limits.SpoolBytes = 0 // its text is held in memory anyway
	}
	x.req = llmapi.Request{N: 1, Prompts: 1} // it still holds what another request said
	up := x.upload()
	taken, err := intake.Take(up, x.r.ContentLength, limits)
	up.Leave()
	if err != nil {
		return x.brokenOff(err)
	}
	x.taken, x.body, x.unread = taken, taken.Bytes, false
	if taken.NoSpool != nil {
		x.p.log.Warn("a large body is held in memory: the folder for it takes no file (setting body_spool_dir)", "error", taken.NoSpool)
	}
	encoding := intake.Encoding(x.in.Get("Content-Encoding"))
	switch {
	case encoding != "" && !intake.Readable(encoding):
		x.unnamed = func(string) error { return failed(refusal.Unreadable(encoding)) }
	case shape == packedJSON:
		err = x.readPacked(encoding)
	case shape == formBody:
		err = x.readForm(encoding)
	case encoding == "":
		x.readRaw()
	}
	if err == nil && !x.req.HasModel && !x.scanned {
		x.req.Model = x.r.URL.Query().Get("model") // where a body has no place for it
		x.req.HasModel = x.req.Model != ""
	}
	return err
}

// readPacked scans a compressed body. What it unpacks to is bounded like a body that came plain.
func (x *exchange) readPacked(encoding string) error {
	text, err := intake.Inflate(encoding, x.body, x.o.BodyBytesMax, x.share.Hold)
	var large *intake.TooLargeError
	switch {
	case intake.NoRoom(err):
		return x.brokenOff(err)
	case errors.As(err, &large):
		return failed(refusal.TooLarge("unpacked "+large.Error(), large.BytesMax))
	case err != nil:
		return badRequest("", "the request body is not what its Content-Encoding %q says: %v", encoding, err)
	}
	x.text, x.packed = text, true
	if err := x.req.Scan(x.api, text); err != nil {
		return failed(refusal.Malformed(err))
	}
	x.scanned = true
	return nil
}

// readForm reads a form's fields wherever they stand. A broken form is the engine's to judge, unless its model cannot be known.
func (x *exchange) readForm(encoding string) error {
	boundary, _ := intake.Boundary(x.in.Get("Content-Type"))
	var form intake.Form
	in, err := intake.Inflater(encoding, x.taken.Reader())
	if err == nil {
		form, err = intake.ReadForm(io.LimitReader(in, x.o.BodyBytesMax), boundary)
	}
	x.req.Model, x.req.HasModel, x.req.Stream = form.Model, form.Model != "", form.Stream
	x.req.User, x.req.Session = form.User, form.User
	x.unnamed = func(models string) error {
		if err != nil {
			return badRequest("model", "the request names no model: its form cannot be read up to a part named model (%v), and there are several: %s", err, models)
		}
		return badRequest("model", "the request names no model: its form has no part named model, and there are several: %s", models)
	}
	return nil
}

// readRaw looks at a body of another type. Some clients send JSON without saying so; where it is none, nothing is wrong.
func (x *exchange) readRaw() {
	if text := bytes.TrimLeft(x.body, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		if x.scanned = x.req.Scan(x.api, x.body) == nil; x.scanned {
			x.text = x.body
			return
		}
		x.req = llmapi.Request{N: 1, Prompts: 1}
	}
	x.unnamed = func(models string) error {
		return badRequest("model", "the request names no model and there are several: %s; where a body is no JSON and no form, add ?model=NAME to the path", models)
	}
}

// upload is the client's body, bounded in time and memory. Somebody who cancels the request ends it, until Leave.
func (x *exchange) upload() *intake.Upload {
	up := &intake.Upload{ReadCloser: x.r.Body, Writer: x.down.ResponseWriter, Limit: x.o.ClientTimeout, Memory: &x.share, Context: x.ctx, Breaks: inflight.IsCancelled}
	up.Watch()
	return up
}

// bodyBytes is the length of the body as it came.
func (x *exchange) bodyBytes() int {
	if x.taken != nil {
		return int(x.taken.Size)
	}
	return len(x.body)
}

// brokenOff shapes why a body was not taken in.
func (x *exchange) brokenOff(err error) *failure {
	return failed(refusal.Body(err, x.r.ContentLength, x.ctx.Err() != nil))
}

// writeUnread answers while the client may still be sending; begun says that it was asked to.
func (f *failure) writeUnread(w http.ResponseWriter, r *http.Request, d llmapi.Dialect, begun bool) {
	intake.AnswerEarly(w, r, begun, func() { f.write(w, d) })
}
