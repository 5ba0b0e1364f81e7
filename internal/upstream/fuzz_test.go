package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/warmpath/warmpath/internal/leash"
)

// parseAll runs the parser without a connection over everything r has.
func parseAll(method string, from io.Reader) (head, []byte, error) {
	const headBytesMax = 4096
	r := reader{src: from}
	r.take()
	defer r.release()
	x := exchange{client: &lean{o: Options{HeadBytesMax: headBytesMax}}, c: &conn{rd: r}, req: &Request{Method: method}}
	for whole := false; !whole; {
		var err error
		if whole, err = x.final(); err == nil && !whole {
			err = x.c.rd.fill()
		}
		if err != nil {
			return x.head, nil, err
		}
	}
	h := x.head
	x.framing = newFraming(&h, method, headBytesMax)
	var body []byte
	for x.err == nil {
		x.decode()
		body = append(body, x.lent...)
		if len(x.lent) == 0 && x.err == nil {
			if err := x.c.rd.fill(); err != nil {
				x.ends(err)
			}
		}
	}
	if x.err == io.EOF {
		return h, body, nil
	}
	return h, body, x.err
}

// FuzzResponse: the parser never panics, reads the same from bytes that come one at a time, and where net/http accepts
// the same bytes too, both understand the same.
func FuzzResponse(f *testing.F) {
	for _, raw := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-A: 1\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 204 No Content\nx-a:\tb \n\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		f.Add(raw, false)
		f.Add(raw, true)
	}
	f.Fuzz(func(t *testing.T, raw string, isHead bool) {
		defer leash.Hold(t, len(raw))()
		method := http.MethodPost
		if isHead {
			method = http.MethodHead
		}
		h, body, err := parseAll(method, bytes.NewReader([]byte(raw)))
		slowHead, slowBody, slowErr := parseAll(method, iotest.OneByteReader(bytes.NewReader([]byte(raw))))
		if !reflect.DeepEqual(h, slowHead) || !bytes.Equal(body, slowBody) || (err == nil) != (slowErr == nil) {
			t.Fatalf("cut differently, read differently:\n%+v %q %v\n%+v %q %v", h, body, err, slowHead, slowBody, slowErr)
		}
		if err != nil {
			return
		}
		their, theirBody, err := parseStandard(method, raw)
		if err != nil {
			return
		}
		if h.status != their.StatusCode || !bytes.Equal(body, theirBody) {
			t.Fatalf("status %d, body %q; net/http: %d, %q", h.status, body, their.StatusCode, theirBody)
		}
		if h.keep && their.Close && h.length >= 0 {
			t.Fatal("connection kept that net/http closes")
		}
		if h.length != their.ContentLength && h.length >= 0 && !h.bodiless(method) {
			t.Fatalf("length %d; net/http: %d", h.length, their.ContentLength)
		}
		for name, values := range their.Header {
			if name != "Cache-Control" && name != "Trailer" && name != "Content-Length" && !slices.Equal(h.header.Values(name), values) {
				t.Fatalf("header %s: %q; net/http: %q", name, h.header.Values(name), values)
			}
		}
	})
}

func parseStandard(method, raw string) (*http.Response, []byte, error) {
	r := bufio.NewReader(bytes.NewReader([]byte(raw)))
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return nil, nil, err
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, nil, err
		}
		if resp.StatusCode >= 200 {
			return resp, body, nil
		}
	}
}
