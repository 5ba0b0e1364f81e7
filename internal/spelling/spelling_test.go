package spelling

import "testing"

func TestTheNearestWordIsFoundAndAFarOneIsNot(t *testing.T) {
	words := []string{"drain_timeout", "listen", "policy", "admin_tls"}
	for text, want := range map[string]string{"drainTimeout": "drain_timeout", "drain-timout": "drain_timeout", "lisetn": "listen", "Policy": "policy", "admintls": "admin_tls",
		"x": "", "": "", "connect": "", "po": ""} {
		if got := Nearest(text, words); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
