package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/repick"
)

// logOf runs a crowd of conversations before three unlike workers and returns the decision log.
func logOf(t *testing.T, policy string, n int) string {
	t.Helper()
	file := t.TempDir() + "/decisions.jsonl"
	var workers []*worker
	for i := range 3 {
		workers = append(workers, newWorker(t, func(c *call) {
			c.wait(time.Duration(i+1) * 3 * time.Millisecond)
			c.good("some", "words")
		}))
	}
	rt := start(t, func(c *config.Config) { c.DecisionLog.File, c.Policy = file, policy }, workers...)
	var crowd sync.WaitGroup
	for who := range 6 {
		crowd.Go(func() {
			prompt := strings.Repeat(fmt.Sprintf("conversation %d goes on and on; ", who), 60)
			for turn := range n / 6 {
				prompt += fmt.Sprintf(" turn %d of it, which is longer than the one before", turn)
				rt.post("/v1/chat/completions", chat(prompt, false), "X-Session-Id", fmt.Sprint(who))
			}
		})
	}
	crowd.Wait()
	rt.Close()
	return file
}

func TestADecisionLogReplaysToTheSamePicks(t *testing.T) {
	t.Parallel()
	for policy, checked := range map[string]int{"warm-cost": 180, "session-hash": 30, "linear": 30, "power-of-two": 0} {
		n := max(checked, 30)
		file := logOf(t, policy, n)
		var out bytes.Buffer
		if err := replayPicks([]string{file}, nil, false, true, &out); err != nil {
			t.Errorf("%s: %v\n%s", policy, err, out.String())
		}
		var tally repick.Tally
		if err := json.Unmarshal(out.Bytes(), &tally); err != nil || tally.Records != n || tally.Checked != checked || tally.Same != checked || tally.Checked+tally.OtherRules != n {
			t.Errorf("%s: %v, %+v", policy, err, tally)
		}
		if policy == "warm-cost" && tally.ByChance > n/2 {
			t.Errorf("chance decided %d of %d", tally.ByChance, n)
		}
	}
}

func TestALogThatDoesNotSayWhyDoesNotReplay(t *testing.T) {
	t.Parallel()
	file := logOf(t, "warm-cost", 60)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var changed bytes.Buffer
	for line := range bytes.Lines(text) {
		var r declog.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		r.Rows[0].Score += 10 // the chosen one is by far the worst
		if err := json.NewEncoder(&changed).Encode(&r); err != nil {
			t.Fatal(err)
		}
	}
	changed.WriteString("torn")
	if err := os.WriteFile(file, changed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := replayPicks([]string{file}, nil, false, false, &out); err == nil || !strings.Contains(err.Error(), "--skip-bad") {
		t.Errorf("a torn line: %v", err)
	}
	err = replayPicks([]string{file}, nil, true, false, &out)
	if err == nil || !strings.Contains(err.Error(), "less than 99.9 %") || !strings.Contains(out.String(), "left out: 1 lines that cannot be read") || !strings.Contains(out.String(), "differs: ") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := replayPicks(nil, nil, false, false, &out); exitCode(err) != 2 {
		t.Errorf("without a log: %v", err)
	}
}
