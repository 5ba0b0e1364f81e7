package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each request goes to one worker, which computes its prompt and its answer: what asks for stages is a mistake at the start.
func TestPD_01_PD_02_PD_03_PD_05_SettingsForPrefillApartFromDecodingAreRefusedByName(t *testing.T) {
	for text, key := range map[string]string{
		"workers: [{url: \"http://127.0.0.1:9\", role: prefill}]\n":                     "role",
		"disaggregation: {prefill: [\"http://127.0.0.1:9\"]}\n":                         "disaggregation",
		"prefill_workers: [{url: \"http://127.0.0.1:9\"}]\n":                            "prefill_workers",
		"workers: [{url: \"http://127.0.0.1:9\", bootstrap_port: 8998}]\n":              "bootstrap_port",
		"workers: [{url: \"http://127.0.0.1:9\"}]\npools: [{name: p, stage: decode}]\n": "stage",
	} {
		file := filepath.Join(t.TempDir(), "warmpath.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"serve", "--config", file}, {"config", "check", file}} {
			var out, errs strings.Builder
			if code := run(args, &out, &errs); code == exitOK || !strings.Contains(out.String()+errs.String(), key) {
				t.Errorf("%s with %q: exit code %d, %q %q", args[0], text, code, out.String(), errs.String())
			}
		}
	}
}
