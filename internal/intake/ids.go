package intake

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/header"
)

// anthropicID is the name by which Anthropic's clients know a request's id.
const anthropicID = "Request-Id"

// Identify appends to out what tells a client its request's id. A worker's own id in Anthropic's name, which its log may know, is left.
func Identify(out header.Fields, id string, anthropic bool) header.Fields {
	out.Add(HeaderRequestID, id)
	if anthropic && !out.Has(anthropicID) {
		out.Add(anthropicID, id)
	}
	return out
}

// How a request is named, from its client to its worker and in every log between.

// RequestID is the client's own when it is fit for a log line, else a new one.
func RequestID(h header.Fields) string {
	if id := h.Get(HeaderRequestID); id != "" && len(id) <= 128 && printable(id) && id != "." && id != ".." { // these are no path, by which it could be asked for
		return id
	}
	return randomHex()
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// ValidTrace checks a W3C traceparent: version-traceid-parentid-flags in lower-case hex, ids not all zero
// (https://www.w3.org/TR/trace-context/#traceparent-header).
func ValidTrace(s string) bool {
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" || (len(s) > 55 && (s[:2] == "00" || s[55] != '-')) {
		return false
	}
	for i := range 55 {
		if i == 2 || i == 35 || i == 52 {
			continue
		}
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}

// NewTrace makes a traceparent for a request that came without one.
func NewTrace() string {
	var raw [24]byte
	for i := 0; i < len(raw); i += 8 {
		binary.LittleEndian.PutUint64(raw[i:], rand.Uint64())
	}
	text := [55]byte{2: '-', 35: '-', 52: '-'}
	copy(text[:], "00")
	hex.Encode(text[3:], raw[:16])
	hex.Encode(text[36:], raw[16:])
	copy(text[53:], "01")
	return string(text[:])
}

// randomHex is for names, not for secrets: the runtime's own generator (ChaCha8, seeded by the system) does, at a tenth of the cost.
func randomHex() string {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:], rand.Uint64())
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64())
	var text [32]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// textBytesMax bounds what clients and engines can put into an error text or a log line: names and paths may be megabytes long.
const textBytesMax = 1024

// Clip cuts a text to 1,024 bytes, between two characters.
func Clip(s string) string {
	if len(s) <= textBytesMax {
		return s
	}
	end := textBytesMax
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}
