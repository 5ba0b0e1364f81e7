package pyvalue

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/leash"
)

func TestValuesAreReadPrintedAndWrittenAsPythonDoes(t *testing.T) {
	f := func(text, str, json string) {
		t.Helper()
		v, err := ReadJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Str(v, 1<<20); got != str || err != nil {
			t.Errorf("%s: Str is %s, %v; want %s", text, got, err, str)
		}
		if got, err := AppendJSON(nil, v, JSONOptions{}); string(got) != json || err != nil {
			t.Errorf("%s: JSON is %s, %v; want %s", text, got, err, json)
		}
	}
	f(`{"b":1,"a":[true,null,-0.0]}`, `{'b': 1, 'a': [True, None, -0.0]}`, `{"b": 1, "a": [true, null, -0.0]}`)
	f(`[1.50, 1e5, 1e16, 1e-5, 18446744073709551616, 1e999]`, `[1.5, 100000.0, 1e+16, 1e-05, 18446744073709551616, inf]`, `[1.5, 100000.0, 1e+16, 1e-05, 18446744073709551616, Infinity]`)
	f(`["it's", "\"", "\n\u00e9\ud83d\ude00\u0001"]`, `["it's", '"', '\né😀\x01']`, `["it's", "\"", "\né😀\u0001"]`)
	f(`{"a":1,"b":2,"a":3}`, `{'a': 3, 'b': 2}`, `{"a": 3, "b": 2}`)
}

func TestWhatIsNotJSONIsRefused(t *testing.T) {
	for _, text := range []string{"", "{", "[1,]", `{"a"}`, `{"a":1,}`, "01", "-", "nul", `"\x"`, `"\ud800"`, `"`, "1 2", "+1", "1-2", "[1 2]"} {
		if v, err := ReadJSON(text); err == nil {
			t.Errorf("%q was read as %v", text, v)
		}
	}
}

func FuzzReadJSON(f *testing.F) {
	f.Add(`{"a": [1, 2.5e3, "x\u00e9", null, true]}`)
	f.Fuzz(func(t *testing.T, text string) {
		defer leash.Hold(t, len(text))()
		v, err := ReadJSON(text)
		if err != nil {
			return
		}
		b, err := AppendJSON(nil, v, JSONOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadJSON(string(b)); err != nil && !strings.Contains(string(b), "Infinity") { // Python's own extension
			t.Fatalf("%q was written as %q: %v", text, b, err)
		}
	})
}
