package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestEveryCommandNamesTheFlagThatWasMeant(t *testing.T) {
	tried := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		if c.Hidden || c.Name() == "completion" {
			return
		}
		path := strings.Fields(c.CommandPath())[1:]
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if len(f.Name) < 4 || f.Hidden {
				return
			}
			// Two letters the wrong way round, the most frequent slip.
			wrong := f.Name[:1] + f.Name[2:3] + f.Name[1:2] + f.Name[3:]
			if wrong == f.Name || c.Flags().Lookup(wrong) != nil {
				return
			}
			tried++
			var stdout, stderr strings.Builder
			code := run(append(path, "--"+wrong), &stdout, &stderr)
			if want := "unknown flag: --" + wrong + "; did you mean --" + f.Name + "?"; code != exitUsage || !strings.Contains(stderr.String(), want) {
				t.Errorf("%v --%s: exit code %d, %q, want %q", path, wrong, code, stderr.String(), want)
			}
		})
	}
	visit(rootCommand())
	if tried < 30 {
		t.Errorf("only %d flags were tried", tried)
	}
}
