package config

import (
	"strings"
	"testing"
)

func TestWhatIsKeptForThoseWhoLookHasBounds(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"dash: {decisions_max: 100001}", "w.yaml:1: dash.decisions_max: 100001 is above the most, 100000; a decision log keeps all"},
		{"dash: {decisions_max: -1}", "w.yaml:1: dash.decisions_max: -1 is below the least, 0"},
		{"dash: {decisions_bytes_max: 1KiB}", "w.yaml:1: dash.decisions_bytes_max: "},
		{"dash: {listeners_max: 1025}", "w.yaml:1: dash.listeners_max: 1025 is above the most, 1024"},
		{"dash: {decision_max: 5}", "w.yaml:1: dash.decision_max: unknown key; did you mean dash.decisions_max?"},
	} {
		if _, err := Parse("w.yaml", []byte(c.text), noEnv); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}
