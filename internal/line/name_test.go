package line

import "testing"

func TestALinesNameTellsWhatItWasMadeOf(t *testing.T) {
	names := map[string]bool{}
	for _, c := range [][3]string{{"m", "", ""}, {"m", "w", ""}, {"m", "", "w"}, {"m", "w", "p"}, {"", "", ""}, {"", "m", ""}} {
		name := Name(c[0], c[1], c[2])
		if model, only, pool := Split(name); model != c[0] || only != c[1] || pool != c[2] || names[name] {
			t.Errorf("%q is split into %q, %q, %q; it was made of %q", name, model, only, pool, c)
		}
		names[name] = true
	}
}
