package intake

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"

	"github.com/warmpath/warmpath/internal/header"
)

// Encoding is what a Content-Encoding header says in one word: "" for a body as it is, else the lower-case name of the one encoding,
// or the whole list when there are several.
func Encoding(header string) string {
	e := strings.ToLower(strings.TrimSpace(header))
	switch e {
	case "identity":
		return ""
	case "x-gzip":
		return "gzip"
	}
	return e
}

// Readable says whether Inflate knows an encoding.
func Readable(encoding string) bool { return encoding == "gzip" || encoding == "deflate" }

// Inflater reads a body in the clear. The caller bounds what it takes from it: a few kilobytes can stand for gigabytes.
func Inflater(encoding string, r io.Reader) (io.Reader, error) {
	switch encoding {
	case "":
		return r, nil
	case "gzip":
		return gzip.NewReader(r)
	case "deflate": // the name means the zlib format (RFC 9110 8.4.1.2)
		return zlib.NewReader(r)
	}
	return nil, fmt.Errorf("encoding %q is not one that the router reads", encoding)
}

// Inflate returns a compressed body in the clear, at most bytesMax of it. Errors are *TooLargeError, what the decoder says, and what
// note says, which is told each piece's length before it is kept and so can bound many bodies together.
func Inflate(encoding string, body []byte, bytesMax int64, note func(bytes int) error) ([]byte, error) {
	in, err := Inflater(encoding, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, &noticed{io.LimitReader(in, bytesMax+1), note})
	if err != nil {
		return nil, err
	}
	if n > bytesMax {
		return nil, &TooLargeError{bytesMax}
	}
	return out.Bytes(), nil
}

type noticed struct {
	from io.Reader
	note func(bytes int) error
}

func (r *noticed) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if refused := r.note(n); refused != nil {
		return 0, refused
	}
	return n, err
}

// IsJSON says whether a body may be JSON by its type: some clients name none.
func IsJSON(h header.Fields) bool {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	t = strings.TrimSpace(t)
	return t == "" || strings.EqualFold(t, "application/json") || strings.HasSuffix(strings.ToLower(t), "+json")
}

// IsEventStream says whether an answer is one, by its type.
func IsEventStream(h header.Fields) bool {
	t := h.Get("Content-Type")
	return len(t) >= 17 && strings.EqualFold(t[:17], "text/event-stream")
}
