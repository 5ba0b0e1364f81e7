package main

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/bench"
)

func TestABenchSaysWhatPassedAndWhatFailed(t *testing.T) {
	var text strings.Builder
	printBench(&text, bench.Report{Part: "p", Sections: []bench.Section{{Name: "s", Method: "how it was measured", Columns: []string{"CPU us"},
		Rows:   []bench.Row{{Contestant: "x", Values: []bench.Value{bench.Value(math.NaN())}}},
		Checks: []bench.Check{{Name: "a", Value: 1.234, Limit: 2, Unit: "us", Pass: true}, {Name: "b", Value: 1, Limit: 2, Least: true, Unit: "us"}}}}})
	for _, want := range []string{"how it was measured", "pass  a: 1.23 us (<= 2)", "FAIL  b: 1 us (>= 2)", "x       -"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestABenchThatCannotRunIsWrongUse(t *testing.T) {
	for _, args := range [][]string{{"bench", "nonsense"}, {"bench", "decide", "--rounds", "0"}, {"bench", "decide", "--window", "1ms"}, {"bench", "exact"}} {
		var stdout, stderr strings.Builder
		if code := run(args, &stdout, &stderr); code != exitUsage {
			t.Errorf("%q: exit code %d, %s", args, code, stderr.String())
		}
	}
	if _, err := exec.LookPath("nginx"); err == nil {
		return
	}
	var stdout, stderr strings.Builder
	if code := run([]string{"bench", "proxy"}, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "apt-get install nginx") {
		t.Errorf("without nginx: exit code %d, %s", code, stderr.String())
	}
}

func TestADecisionInExactModeIsMeasured(t *testing.T) {
	dir := modelFiles(t, "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
	texts := map[string][]string{"prose": {strings.Repeat("words \"said\" and\n", 300)}, "code": {strings.Repeat("func f() {\n\treturn\n}\n", 250)}}
	got, err := exactRound(t.Context(), dir, texts, 0)
	if err != nil || len(got) != len(exactKinds) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, d := range got {
		if d.total <= 0 || d.render <= 0 || d.tokens <= 0 || d.total < d.render+d.match+d.place {
			t.Errorf("%s: %+v", exactKinds[i].name, d)
		}
	}
}

// modelFiles is a folder with a model's files: a small tokenizer of the Qwen kind, and a chat template.
func modelFiles(t *testing.T, template string) (dir string) {
	t.Helper()
	packed, err := os.Open("../../internal/tokenizer/testdata/qwen3.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	var sample struct{ Tokenizer json.RawMessage }
	if err := json.NewDecoder(z).Decode(&sample); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	settings, err := json.Marshal(map[string]string{"chat_template": template})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tokenizer.json": sample.Tokenizer, "tokenizer_config.json": settings} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
