package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestThePageAboutSecurityNamesTestsThatThereAre(t *testing.T) {
	page, err := os.ReadFile("../../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 40 {
		t.Errorf("the page names %d tests", len(named))
	}
	for _, n := range named {
		if !strings.Contains(tests.String(), "\nfunc "+n[1]+"(") {
			t.Errorf("docs/SECURITY.md names %s, which is not in the tree", n[1])
		}
	}
}
