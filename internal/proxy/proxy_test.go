package proxy

import (
	"github.com/warmpath/warmpath/internal/header"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/intake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestATraceIsTakenOverOnlyWhenItIsOne(t *testing.T) {
	good := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for trace, want := range map[string]bool{
		good: true, "cc" + good[2:] + "-future": true, "": false, "x": false, strings.ToUpper(good): false, "ff" + good[2:]: false, good + "-x": false, good + "0": false,
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01": false, "00-4bf92f3577b34da6a3ce929d0e0e4736-" + strings.Repeat("0", 16) + "-01": false,
	} {
		if intake.ValidTrace(trace) != want {
			t.Errorf("%q: valid %v, want %v", trace, !want, want)
		}
	}
	if made := intake.NewTrace(); !intake.ValidTrace(made) {
		t.Errorf("made %q", made)
	}
}

func TestARequestIdIsKeptOnlyWhenItIsFitForALogLineAndAPath(t *testing.T) {
	for id, kept := range map[string]bool{"req-1": true, "": false, "with space": false, "new\nline": false, "ünï": false, strings.Repeat("x", 129): false, ".": false, "..": false, "a/../b": true} {
		got := intake.RequestID(header.Fields{{Name: "X-Request-Id", Value: id}})
		if (got == id) != kept || got == "" {
			t.Errorf("%q became %q", id, got)
		}
	}
}
