package intake

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
)

// How a request is named, from its client to its worker and in every log between.

// RequestID is the client's own when it is fit for a log line, else a new one.
func RequestID(h http.Header) string {
	if id := h.Get("X-Request-Id"); id != "" && len(id) <= 128 && printable(id) {
		return id
	}
	return randomHex(16)
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
func NewTrace() string { return "00-" + randomHex(16) + "-" + randomHex(8) + "-01" }

// randomHex is for names, not for secrets: the runtime's own generator (ChaCha8, seeded by the system) does, at a tenth of the cost.
func randomHex(bytes int) string {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:], rand.Uint64())
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64())
	var text [32]byte
	hex.Encode(text[:], raw[:bytes])
	return string(text[:2*bytes])
}
