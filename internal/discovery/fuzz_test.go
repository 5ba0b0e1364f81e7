package discovery

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/leash"
)

// FuzzGroups reads anything as an endpoint's list: it is refused, or every target of it is there once, with its labels and those of all.
func FuzzGroups(f *testing.F) {
	for _, text := range []string{
		`[{"targets":["10.0.0.1:8000","10.0.0.2:8000"],"labels":{"zone":"a","__scheme__":"https","__meta_x":"y"}},{"targets":["10.0.0.1:8000"],"labels":{"__id__":"one"}}]`,
		`[]`, `null`, `{}`, `[null]`, `[{"targets":null,"labels":{"":""}}]`, `[{"targets":["","\u0000"]}]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer leash.Hold(t, len(text))()
		set, err := HTTP{Labels: []string{"pool=fast"}}.read(text)
		var groups []group
		if valid := json.Unmarshal(text, &groups) == nil && groups != nil; valid != (err == nil) {
			t.Fatalf("valid %v, and yet %v", valid, err)
		}
		if err != nil {
			return
		}
		at := map[string]Worker{}
		for _, w := range set {
			if _, again := at[w.URL]; again {
				t.Errorf("%q is there twice", w.URL)
			}
			at[w.URL] = w
			if w.Labels[0] != "pool=fast" || slices.ContainsFunc(w.Labels, func(l string) bool { return strings.HasPrefix(l, "__") }) {
				t.Errorf("labels %q", w.Labels)
			}
		}
		for _, g := range groups {
			for _, target := range g.Targets {
				_, there := at["http://"+target]
				if scheme := g.Labels["__scheme__"]; scheme != "" {
					_, there = at[scheme+"://"+target]
				}
				if !there {
					t.Errorf("%q is missing", target)
				}
			}
		}
	})
}
