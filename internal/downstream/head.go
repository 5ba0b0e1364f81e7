package downstream

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/header"
)

// head is a request head that is plainly well formed. It is read into the memory of the one before.
type head struct {
	method, target string
	path           url.URL
	host           string
	length         int64
	close          bool // the client wants the connection closed after the answer

	fields header.Fields // all but Host, as they came
	byName http.Header   // the same for net/http's kind of handler
	values []string      // which byName points into
}

const lengthDigitsMax = 15

// parse reads a whole head, blank line included, and reports whether it is one that is served here. It takes only what no two servers could read differently (RFC 9112): one Host, one length or none, no transfer coding, names of
// letters, digits and hyphens, lines that end in CRLF. Names are made canonical in b, so that one string holds them all.
func (h *head) parse(b []byte) (ok bool) {
	*h = head{fields: h.fields[:0], byName: h.byName, values: h.values[:0]}
	lineEnd := bytes.IndexByte(b, '\n')
	if lineEnd < 1 || b[lineEnd-1] != '\r' || !bytes.HasSuffix(b, []byte("\r\n\r\n")) {
		return false
	}
	for at := lineEnd + 1; at < len(b)-2; {
		end := bytes.IndexByte(b[at:], '\n') + at
		if end-1 <= at || b[end-1] != '\r' || !canonicalField(b[at:end-1]) {
			return false
		}
		at = end + 1
	}
	text := string(b)
	if !h.line(text[:lineEnd-1]) {
		return false
	}
	for rest := text[lineEnd+1 : len(text)-2]; rest != ""; {
		end := strings.IndexByte(rest, '\n')
		line := rest[:end-1]
		rest = rest[end+1:]
		colon := strings.IndexByte(line, ':')
		name, value := line[:colon], trim(line[colon+1:])
		if name == "Host" {
			if h.host != "" || value == "" {
				return false
			}
			h.host = value
			continue
		}
		if !h.frame(name, value) {
			return false
		}
		h.fields.Add(name, value)
	}
	return h.host != "" && plainHost(h.host)
}

// trim takes blanks and tabs off both ends.
func trim(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// index fills in byName.
func (h *head) index() {
	clear(h.byName)
	h.values = slices.Grow(h.values, len(h.fields)) // all at once: what points into it stays right
	for i := range h.fields {
		f := &h.fields[i]
		if before, there := h.byName[f.Name]; there {
			h.byName[f.Name] = append(before, f.Value)
			continue
		}
		h.values = append(h.values, f.Value)
		n := len(h.values)
		h.byName[f.Name] = h.values[n-1 : n : n]
	}
}

// line reads the request line.
func (h *head) line(line string) bool {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	if version != "HTTP/1.1" || (method != http.MethodPost && method != http.MethodGet) || target == "" || target[0] != '/' {
		return false
	}
	h.method, h.target = method, target
	path, query, asked := strings.Cut(target, "?")
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return false
		}
	}
	if strings.IndexByte(path, '%') >= 0 || strings.HasPrefix(path, "//") || asked && query == "" {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return false
		}
		h.path = *u
		return true
	}
	h.path = url.URL{Path: path, RawQuery: query}
	return true
}

// frame looks at the fields that say where the message ends and what becomes of the connection.
func (h *head) frame(name, value string) bool {
	switch name {
	case "Content-Length":
		if h.length != 0 || len(value) == 0 || len(value) > lengthDigitsMax {
			return false
		}
		for i := range len(value) {
			if value[i] < '0' || value[i] > '9' {
				return false
			}
			h.length = h.length*10 + int64(value[i]-'0')
		}
		return h.length > 0 // a length of 0 and then another would pass for one
	case "Transfer-Encoding", "Expect", "Upgrade", "Trailer", "Http2-Settings":
		return false
	case "Connection":
		if strings.EqualFold(value, "close") {
			h.close = true
			return true
		}
		return strings.EqualFold(value, "keep-alive")
	}
	return true
}

// canonicalField checks a field line without its end and makes its name canonical in place.
func canonicalField(line []byte) bool {
	upper := true
	for i, c := range line {
		switch {
		case c == ':':
			return i > 0 && plainValue(line[i+1:])
		case 'a' <= c && c <= 'z':
			if upper {
				line[i] = c - ('a' - 'A')
			}
		case 'A' <= c && c <= 'Z':
			if !upper {
				line[i] = c + ('a' - 'A')
			}
		case '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
		upper = c == '-'
	}
	return false
}

func plainValue(v []byte) bool {
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func plainHost(h string) bool {
	for i := range len(h) {
		c := h[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte(".:-_[]", c) >= 0) {
			return false
		}
	}
	return true
}
