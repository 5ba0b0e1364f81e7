package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// man is the folder into which the man pages are written for keeping: packaging/release.sh names it. The generator is linked into this
// test and not into the product, which has no use for it.
var man = flag.String("man", "", "folder for the man pages")

func TestEveryCommandHasAManPage(t *testing.T) {
	folder := *man
	if folder == "" {
		folder = t.TempDir()
	}
	root := rootCommand()
	root.DisableAutoGenTag = true                                                     // it would carry the date of the run
	header := &doc.GenManHeader{Section: "1", Source: "warmpath", Manual: "warmpath"} // dated by SOURCE_DATE_EPOCH
	if err := doc.GenManTree(root, header, folder); err != nil {
		t.Fatal(err)
	}
	pages := 0
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		pages++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		page, err := os.ReadFile(filepath.Join(folder, name+".1"))
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{".TH ", ".SH NAME\n" + name + " - ", ".SH SYNOPSIS"} {
			if !strings.Contains(string(page), want) {
				t.Errorf("%s.1 has no %q", name, want)
			}
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(root)
	if pages < 8 {
		t.Errorf("%d pages", pages)
	}
}
