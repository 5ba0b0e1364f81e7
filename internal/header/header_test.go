package header

import (
	"net/http"
	"slices"
	"testing"
)

func TestFieldsKeepTheirOrderAndRepeatedNames(t *testing.T) {
	f := Fields{{"A", "1"}, {"B", "2"}, {"A", "3"}}
	if got := f.Values("A"); !slices.Equal(got, []string{"1", "3"}) || f.Get("A") != "1" || f.Get("C") != "" || f.Has("C") || !f.Has("B") {
		t.Errorf("%v", f)
	}
	h := http.Header{"A": {"0"}}
	f.AddTo(h)
	if !slices.Equal(h["A"], []string{"0", "1", "3"}) || h.Get("B") != "2" {
		t.Errorf("%v", h)
	}
	back := From(h, nil)
	if got := back.Values("A"); !slices.Equal(got, []string{"0", "1", "3"}) || len(back) != 4 {
		t.Errorf("%v", back)
	}
	f.Del("A")
	if f.Add("C", "4"); !slices.Equal(f, Fields{{"B", "2"}, {"C", "4"}}) {
		t.Errorf("%v", f)
	}
}

func TestWhatConnectionNamesIsForOneConnectionOnly(t *testing.T) {
	for value, want := range map[string][]string{
		"close": nil, "keep-alive": nil, "": nil, " , ": nil,
		"keep-alive, x-secret": {"Keep-Alive", "X-Secret"}, "Te,trailer": {"Te", "Trailer"},
	} {
		if got := (Fields{{"Connection", value}, {"X", "1"}}).Named(); !slices.Equal(got, want) {
			t.Errorf("%q names %v, want %v", value, got, want)
		}
	}
}
