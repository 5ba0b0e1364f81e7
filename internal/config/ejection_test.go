package config

import (
	"strings"
	"testing"
)

func TestEjectionThatCannotBeMeantIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"ejection: {share_max: 1.5}": "w.yaml:1: ejection.share_max: 1.5 is above 1, which is all workers",
		"ejection: {share_max: -1}":  "w.yaml:1: ejection.share_max: -1 is below the least, 0",
		"ejection: {canary: 10ms}":   "w.yaml:1: ejection.canary: 10ms is shorter than 1s: canaries would be a load of their own; 0 is none",
		"ejection: {probes: 0}":      "w.yaml:1: ejection.probes: 0 is below the least, 1",
		"ejection: {window_min: 0}":  "w.yaml:1: ejection.window_min: 0 is below the least, 1",
		"ejection: {slow_start: -1}": "w.yaml:1: ejection.slow_start: ",
	} {
		if _, err := Parse("w.yaml", []byte(text), env(nil)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
