package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestAContestSaysWhatItWasAskedWrongly(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--half left", "none of odd, even and all"},
		{"--only [", "--only"},
		{"--only nowhere", "no point's name matches"},
		{"--policies warm", "least-prefill"},
		{"--without bath", "batch"},
		{"--without all --only ^uniform/", "none of the points"},
	} {
		err := runPolicy(t, nil, strings.Fields(c.args)...)
		if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("prove policy %s: %v", c.args, err)
		}
	}
}

func TestAContestIsPrintedAsOneObjectAndFailsWithoutItsTraces(t *testing.T) {
	var out bytes.Buffer
	err := runPolicy(t, &out, "--json", "--quiet", "--half", "even", "--policies", "least-tokens", "--only", "^(hot/50k/2/30%|azure-code/h100-8b:4/light)$")
	if err == nil || exitCode(err) != exitRuntime {
		t.Errorf("the error is %v", err)
	}
	var object struct {
		Rows   []struct{ Name string }
		Checks []struct {
			Name   string
			Pass   bool
			Detail []string
		}
	}
	if err := json.Unmarshal(out.Bytes(), &object); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if len(object.Rows) != 1 || object.Rows[0].Name != "hot/50k/2/30%" {
		t.Errorf("rows %+v", object.Rows)
	}
	if c := object.Checks[0]; c.Pass || len(c.Detail) != 1 || !strings.Contains(c.Detail[0], "AzureLLMInferenceTrace2023_code.csv") {
		t.Errorf("%+v", c)
	}
}

func TestATermIsLeftOutInPlaceOfAVerdict(t *testing.T) {
	var out bytes.Buffer
	if err := runPolicy(t, &out, "--quiet", "--half", "even", "--policies", "least-tokens", "--only", "^(hot/50k/2/30%|azure-code/h100-8b:4/light)$", "--without", "batch"); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"1 points", "warm-cost ", "without batch ", "left out: AzureLLMInferenceTrace2023_code.csv"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// runPolicy runs `warmpath prove policy`.
func runPolicy(t *testing.T, out *bytes.Buffer, args ...string) error {
	t.Helper()
	if out == nil {
		out = new(bytes.Buffer)
	}
	root := rootCommand()
	root.SetArgs(append([]string{"prove", "policy"}, args...))
	root.SetOut(out)
	root.SetErr(new(bytes.Buffer))
	return root.ExecuteContext(t.Context())
}
