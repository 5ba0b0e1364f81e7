package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// leastMutants is how many reported faults are put in again, at least.
const leastMutants = 25

// Whether each compiles, and its test goes red, make mutants sees: here it would take a minute.
func TestEveryMutantFitsTheSource(t *testing.T) {
	root, err := module()
	if err != nil {
		t.Fatal(err)
	}
	all, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < leastMutants {
		t.Errorf("%d mutants, want %d and more", len(all), leastMutants)
	}
	cases, err := os.ReadFile(filepath.Join(root, "docs", "FIELD_CASES.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		if i > 0 && m.name[:2] == all[i-1].name[:2] {
			t.Errorf("%s and %s have one number", all[i-1].name, m.name)
		}
		if !strings.Contains(string(cases), "| "+m.named+" |") {
			t.Errorf("%s: there is no field case %s", m.name, m.named)
		}
		after, err := m.apply(root)
		if err != nil {
			t.Error(err)
		}
		for file, text := range after {
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
		if tests, err := filepath.Glob(filepath.Join(root, m.pkg, "*_test.go")); err != nil || !someTest(t, tests, m.run) {
			t.Errorf("%s: no test of %s is called %s (%v)", m.name, m.pkg, m.run, err)
		}
	}
}

// someTest says whether one of the files has a test of that name.
func someTest(t *testing.T, files []string, run string) bool {
	t.Helper()
	name := regexp.MustCompile(run)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		return slices.ContainsFunc(regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1), func(m []string) bool { return name.MatchString(m[1]) })
	})
}

// house is a module with one test, and a folder of mutants of it.
func house(t *testing.T, patches map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	files := map[string]string{
		"go.mod": "module house\n\ngo 1.27\n",
		"a.go":   "package house\n\nfunc Two() int {\n\treturn 2\n}\n\nfunc Three() int {\n\treturn 3\n}\n",
		"a_test.go": "package house\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two() != 2 {\n\t\tt.Error(\"two is\", Two())\n\t}\n}\n\n" +
			"func TestThree(t *testing.T) {\n\tif Three() == 0 {\n\t\tt.Error(\"three is nothing\")\n\t}\n}\n",
	}
	for name, text := range patches {
		files["mutants/"+name+".patch"] = text
	}
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// patch changes a.go from one line to another.
func patch(run, why, from, to string) string {
	return "Words for people.\n\npackage: .\nrun: " + run + "\nwhy: " + why + "\n\n--- a/a.go\n+++ b/a.go\n@@ -1,1 +1,1 @@\n-" + from + "\n+" + to + "\n"
}

func TestMutantsAreTriedAndTold(t *testing.T) {
	t.Chdir(house(t, map[string]string{
		"01-AB-01-killed":       patch("^TestTwo$", "two is 7", "\treturn 2", "\treturn 7"),
		"02-AB-02-survives":     patch("^TestThree$", "three is nothing", "\treturn 3", "\treturn 4"),
		"03-AB-03-fits-nowhere": patch("^TestTwo$", "two is", "\treturn 5", "\treturn 7"),
	}))
	var out, errs bytes.Buffer
	if code := start(t.Context(), []string{"--json"}, &out, &errs); code != 1 {
		t.Errorf("exit %d, want 1: %s", code, errs.String())
	}
	got := map[string]string{}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, line := range lines[:len(lines)-1] {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		got[f.Case] = f.Verdict
		if (f.Verdict == isKilled) != (f.Said == "") {
			t.Errorf("%s, %s: what go test said is %q", f.Mutant, f.Verdict, f.Said)
		}
	}
	for id, want := range map[string]string{"AB-01": isKilled, "AB-02": survives, "AB-03": misfits} {
		if got[id] != want {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
	if last := lines[len(lines)-1]; last != `{"killed":1,"mutants":3,"survived":1}` {
		t.Error(last)
	}
}

func TestWhatGoTestSaysIsJudged(t *testing.T) {
	red := errors.New("exit status 1")
	for out, want := range map[string]string{
		"ok  \thouse\t0.002s\n": survives,
		"--- FAIL: TestTwo (0.00s)\n    a_test.go:7: two is 7\nFAIL\n":               isKilled,
		"--- FAIL: TestTwo (0.00s)\npanic: two is 7 [recovered]\nFAIL\thouse\n":      isKilled,
		"--- FAIL: TestTwo (0.00s)\n    a_test.go:7: nothing is said\nFAIL\n":        otherwise,
		"panic: test timed out after 1m30s\n\trunning tests:\n\t\tTestTwo (1m30s)\n": otherwise,
		"# house\n./a.go:4:9: cannot use \"2\"\nFAIL\thouse [build failed]\n":        breaks,
		"ok  \thouse\t0.001s [no tests to run]\n":                                    misnamed,
	} {
		err := red
		if strings.HasPrefix(out, "ok") {
			err = nil
		}
		if got := verdict(out, err, "two is 7"); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}

func TestTheLastLineCountsWhatBecameOfAll(t *testing.T) {
	for want, c := range map[string][3]int{"mutants: 3, killed 3, survived 0\n": {3, 3, 0}, "mutants: 5, killed 2, survived 1, without a verdict 2\n": {5, 2, 1}} {
		var out bytes.Buffer
		if (options{}).sum(&out, c[0], c[1], c[2]); out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}

func TestATestThatIsRedAnywayKillsNothing(t *testing.T) {
	root := house(t, map[string]string{"01-AB-01-killed": patch("^TestTwo$", "two is", "\treturn 2", "\treturn 7")})
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package house\n\nfunc Two() int { return 5 }\n\nfunc Three() int { return 3 }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	var out, errs bytes.Buffer
	if code := start(t.Context(), nil, &out, &errs); code != 2 || !strings.Contains(errs.String(), "not green without a fault") {
		t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
	}
}

func TestWhatIsNoMutantIsRefusedInWords(t *testing.T) {
	good := patch("^TestTwo$", "two is", "\treturn 2", "\treturn 7")
	for _, c := range []struct{ name, text, want string }{
		{"killed", good, "NN-CASE-what.patch"},
		{"01-AB-01-x", strings.Replace(good, "why: two is\n", "", 1), `no line "why: ..."`},
		{"01-AB-01-x", strings.Replace(good, "^TestTwo$", "(", 1), `run: "("`},
		{"01-AB-01-x", good[:strings.Index(good, "---")], "no unified diff"},
		{"01-AB-01-x", strings.Replace(good, "\n-\treturn 2", "\n=\treturn 2", 1), "neither space, + nor -"},
		{"01-AB-01-x", strings.Replace(good, "+++ b/a.go", "+++ a.go", 1), "no line of a unified diff"},
		{"01-AB-01-x", strings.Replace(good, "return 7", "return 2", 1), "changes nothing"},
	} {
		if _, err := read(c.name, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	for _, args := range [][]string{{"--only", "("}, {"--at-once", "0"}, {"07"}, {"--none"}, {"--only", "no such"}} {
		var out, errs bytes.Buffer
		if code := start(context.Background(), args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%v: exit %d, %s", args, code, errs.String())
		}
	}
}
