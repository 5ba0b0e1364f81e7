package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/leash"
)

// FuzzUnescape: strings say what encoding/json reads in them.
func FuzzUnescape(f *testing.F) {
	for _, raw := range []string{``, `plain`, `\n\t\b\f\r\"\\\/`, `\u00e4\ud83d\ude00x`, "ä–😀"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		defer leash.Hold(t, len(raw))()
		var want string
		if strings.Contains(raw, `\u`) && strings.ContainsRune(raw, utf8.RuneError) || json.Unmarshal([]byte(`"`+raw+`"`), &want) != nil || !utf8.ValidString(raw) || strings.ContainsRune(want, utf8.RuneError) {
			return // halves of surrogate pairs are refused before
		}
		if got := string(Unescape([]byte(raw))); got != want {
			t.Fatalf("%q: %q, want %q", raw, got, want)
		}
	})
}

// FuzzNotUTF8: the verdict is that of package utf8, wherever in the text.
func FuzzNotUTF8(f *testing.F) {
	for _, text := range []string{"", "plain text of more than eight bytes", "ä", "plain text and ä and more of it\xff", "\xc3"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer leash.Hold(t, len(text))()
		i := NotUTF8(text)
		if valid := utf8.Valid(text); valid != (i < 0) || i >= 0 && !utf8.Valid(text[:i]) {
			t.Fatalf("%q: %d, valid %v", text, i, valid)
		}
	})
}
