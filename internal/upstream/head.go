package upstream

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/header"
)

// head is a parsed response head.
type head struct {
	status    int
	header    header.Fields
	length    int64 // -1: not said
	chunked   bool
	keep      bool          // the connection may be used again
	keepAlive time.Duration // the worker's own idle timeout, 0 when not said
}

// field is where one header lies in the head, in bytes.
type field struct{ nameStart, nameEnd, valueStart, valueEnd int }

// parseHead parses a whole response head, blank line included. It writes into b: names are made canonical in place, so
// that one string holds every name and value. Framing rules are those of RFC 9112, section 6.3, on the strict side:
// what two parsers could read differently is refused. Lines may end in a bare LF (RFC 9112, section 2.2).
func parseHead(b []byte) (head, error) {
	h := head{length: -1}
	line, rest := cutLine(b)
	minor, err := parseStatusLine(line, &h)
	if err != nil {
		return h, err
	}
	var few [24]field // enough for what engines send, so that it stays on the stack
	fields := few[:0]
	for {
		offset := len(b) - len(rest)
		line, rest = cutLine(rest)
		if len(line) == 0 {
			break
		}
		f, err := parseField(line)
		if err != nil {
			return h, err
		}
		fields = append(fields, field{offset, offset + f.nameEnd, offset + f.valueStart, offset + f.valueEnd})
	}
	text := string(b)
	h.header = make(header.Fields, len(fields))
	for i, f := range fields {
		h.header[i] = header.Field{Name: text[f.nameStart:f.nameEnd], Value: text[f.valueStart:f.valueEnd]}
	}
	return h, h.frame(minor)
}

// cutLine returns the first line of b without its end, and what follows. b always has one: readHead saw to it.
func cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	line, rest = b[:i], b[i+1:]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, rest
}

func parseStatusLine(line []byte, h *head) (minor int, err error) {
	// HTTP/1.1 200 OK; the reason may be missing, with or without the space before it.
	ok := len(line) >= 12 && string(line[:7]) == "HTTP/1." && (line[7] == '0' || line[7] == '1') && line[8] == ' ' &&
		(len(line) == 12 || line[12] == ' ')
	if ok {
		for _, c := range line[9:12] {
			ok = ok && '0' <= c && c <= '9'
			h.status = h.status*10 + int(c-'0')
		}
	}
	if !ok || h.status < 100 || !validValue(line) {
		return 0, shapeError(fmt.Sprintf("status line %s", quoted(line)))
	}
	return int(line[7] - '0'), nil
}

// parseField checks one header line and makes its name canonical in place.
func parseField(line []byte) (field, error) {
	if line[0] == ' ' || line[0] == '\t' {
		return field{}, shapeError("a header line is folded")
	}
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return field{}, shapeError(fmt.Sprintf("header line %s has no name", quoted(line)))
	}
	const toLower = 'a' - 'A'
	upper := true
	for i, c := range line[:colon] {
		switch {
		case !token[c]:
			return field{}, shapeError(fmt.Sprintf("header name %s", quoted(line[:colon])))
		case upper && 'a' <= c && c <= 'z':
			line[i] = c - toLower
		case !upper && 'A' <= c && c <= 'Z':
			line[i] = c + toLower
		}
		upper = c == '-'
	}
	start, end := colon+1, len(line)
	for start < end && (line[start] == ' ' || line[start] == '\t') {
		start++
	}
	for end > start && (line[end-1] == ' ' || line[end-1] == '\t') {
		end--
	}
	if !validValue(line[start:end]) {
		return field{}, shapeError(fmt.Sprintf("header %s has a control character in its value", line[:colon]))
	}
	return field{nameEnd: colon, valueStart: start, valueEnd: end}, nil
}

// frame decides from the headers how long the body is and whether the connection may live on.
func (h *head) frame(minor int) error {
	lengths, close, keep, encoded := 0, false, minor == 1, false
	for i := range h.header {
		f := &h.header[i]
		switch f.Name {
		case "Transfer-Encoding":
			if encoded || !strings.EqualFold(f.Value, "chunked") {
				return shapeError(fmt.Sprintf("Transfer-Encoding %q is not chunked alone", h.header.Values("Transfer-Encoding")))
			}
			encoded = true
		case "Content-Length":
			n, err := parseLength(f.Value)
			if err != nil {
				return err
			}
			if lengths > 0 && n != h.length {
				return shapeError(fmt.Sprintf("two lengths: Content-Length %q", h.header.Values("Content-Length")))
			}
			h.length = n
			lengths++
		case "Connection":
			close = close || hasToken(f.Value, "close")
			keep = keep || hasToken(f.Value, "keep-alive")
		case "Keep-Alive":
			if h.keepAlive == 0 {
				h.keepAlive = keepAliveTimeout(f.Value)
			}
		}
	}
	switch {
	case encoded && minor == 0:
		return shapeError("Transfer-Encoding in an HTTP/1.0 response")
	case encoded && lengths > 0:
		return shapeError("both Content-Length and Transfer-Encoding")
	case encoded:
		h.chunked = true
		h.header.Del("Transfer-Encoding")
	case lengths > 1:
		h.header.Del("Content-Length")
		h.header.Add("Content-Length", strconv.FormatInt(h.length, 10))
	}
	if h.keep = keep && !close; !h.keep {
		h.keepAlive = 0
	}
	return nil
}

// parseLength takes digits only: strconv alone would let a sign pass.
func parseLength(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || s[0] < '0' || s[0] > '9' {
		return 0, shapeError(fmt.Sprintf("Content-Length %s", quoted([]byte(s))))
	}
	return n, nil
}

// bodiless says that no body follows whatever the headers say (RFC 9112, section 6.3).
func (h *head) bodiless(method string) bool {
	return method == http.MethodHead || h.status == http.StatusNoContent || h.status == http.StatusNotModified
}

// hasToken looks for one word in a comma-separated header, letter case aside.
func hasToken(value, want string) bool {
	for item := range strings.SplitSeq(value, ",") {
		if strings.EqualFold(strings.Trim(item, " \t"), want) {
			return true
		}
	}
	return false
}

// keepAliveTimeout reads "timeout=5, max=100". The header is advice, so what cannot be read is passed over.
func keepAliveTimeout(value string) time.Duration {
	for item := range strings.SplitSeq(value, ",") {
		name, number, _ := strings.Cut(strings.Trim(item, " \t"), "=")
		if n, err := strconv.Atoi(number); err == nil && n > 0 && n < 1e6 && strings.EqualFold(name, "timeout") {
			return time.Duration(n) * time.Second
		}
	}
	return 0
}

// token marks the bytes a header name may have (RFC 9110, section 5.6.2).
var token = func() (t [256]bool) {
	for c := range t {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		t[c] = letter || '0' <= c && c <= '9' || c > 0 && c < 0x7f && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()

// validValue refuses control characters but the tab: a value that could end its line must not pass through.
func validValue[T string | []byte](v T) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// quoted shortens what a worker sent for an error text.
func quoted(b []byte) string {
	const quotedBytesMax = 80
	if len(b) > quotedBytesMax {
		return strconv.Quote(string(b[:quotedBytesMax])) + "..."
	}
	return strconv.Quote(string(b))
}
