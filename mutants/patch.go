package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A mutant is a fault, the test that must notice it, and how.
type mutant struct {
	name  string // of its file, without .patch
	named string // the field case that it is
	pkg   string // of the test, as ./cmd/warmpath
	run   string // regexp of the test's name
	why   string // what the test must say when it goes red
	edits []edit
}

// An edit is one piece of a patch: a text that is once in a file, and what it becomes. Where in the file is not asked, so that lines may move.
type edit struct{ file, text, becomes string }

var (
	form    = regexp.MustCompile(`^([0-9]{2})-([A-Z]{2,3}-[0-9]{2})-[a-z0-9-]+$`)
	setting = regexp.MustCompile(`^(package|run|why): (.+)$`)
)

// load reads the patches of a folder, by name.
func load(folder string) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := read(strings.TrimSuffix(filepath.Base(file), ".patch"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// read takes a patch apart: words for people and settings, then a unified diff as `git diff` and `diff -u` write it.
func read(name, text string) (m mutant, err error) {
	parts := form.FindStringSubmatch(name)
	if parts == nil {
		return m, fmt.Errorf("the name is not NN-CASE-what.patch, as 07-CAN-01-nobody-looks.patch")
	}
	m.name, m.named = name, parts[2]
	head, diff, _ := strings.Cut(text, "\n--- ")
	for line := range strings.Lines(head) {
		set := setting.FindStringSubmatch(strings.TrimSpace(line))
		if set == nil {
			continue
		}
		switch set[1] {
		case "package":
			m.pkg = set[2]
		case "run":
			m.run = set[2]
		case "why":
			m.why = set[2]
		}
	}
	for what, is := range map[string]string{"package": m.pkg, "run": m.run, "why": m.why} {
		if is == "" {
			return m, fmt.Errorf("there is no line %q above the patch", what+": ...")
		}
	}
	if _, err := regexp.Compile(m.run); err != nil {
		return m, fmt.Errorf("run: %q: %w", m.run, err)
	}
	m.edits, err = edits("--- " + diff)
	return m, err
}

// edits are the pieces of a unified diff.
func edits(diff string) (all []edit, err error) {
	file, e := "", (*edit)(nil)
	for line := range strings.Lines(diff) {
		body := line[1:]
		switch {
		case strings.HasPrefix(line, "--- "):
			file, e = "", nil
		case e == nil && strings.HasPrefix(line, "+++ b/"):
			file = strings.TrimSpace(strings.TrimPrefix(line, "+++ b/"))
		case strings.HasPrefix(line, "@@ ") && file != "":
			all = append(all, edit{file: file})
			e = &all[len(all)-1]
		case e == nil:
			return nil, fmt.Errorf("%q is no line of a unified diff with a/ and b/ before its files", strings.TrimSpace(line))
		case line[0] == ' ':
			e.text, e.becomes = e.text+body, e.becomes+body
		case line[0] == '-':
			e.text += body
		case line[0] == '+':
			e.becomes += body
		default:
			return nil, fmt.Errorf("%q begins with neither space, + nor -", strings.TrimSpace(line))
		}
	}
	for _, e := range all {
		if e.text == e.becomes {
			return nil, fmt.Errorf("a piece of the patch of %s changes nothing", e.file)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no unified diff in it")
	}
	return all, nil
}

// apply is the files that the mutant changes, as they are with it.
func (m mutant) apply(root string) (after map[string]string, err error) {
	after = map[string]string{}
	for _, e := range m.edits {
		text, known := after[e.file]
		if !known {
			there, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			text = string(there)
		}
		if n := strings.Count(text, e.text); n != 1 {
			return nil, fmt.Errorf("mutant %s: a text to change is %d times in %s, not once; bring mutants/%s.patch up to date:\n%s", m.name, n, e.file, m.name, e.text)
		}
		after[e.file] = strings.Replace(text, e.text, e.becomes, 1)
	}
	return after, nil
}
