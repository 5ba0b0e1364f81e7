package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// restartable are two starts of one router before the same worker, the first of which has learned.
func restartable(t *testing.T) (w *worker, same func(*config.Config), first *testRouter) {
	t.Helper()
	w = newWorker(t, func(c *call) {
		c.json(http.StatusOK, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":40,"completion_tokens":700}}`)
	})
	folder := t.TempDir()
	same = func(c *config.Config) { c.StateDir, c.ExplainHeaders = folder, true }
	first = start(t, same, w)
	for i := range 60 {
		if r := first.post("/v1/chat/completions", chat(fmt.Sprint("again ", i), false)); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	return w, same, first
}

func TestARouterForetellsAfterARestartWhatItForetoldBefore(t *testing.T) {
	w, same, first := restartable(t)
	before := first.explain("", chat("once more", false))
	first.Close()
	fresh := start(t, func(c *config.Config) { c.ExplainHeaders = true }, w).explain("", chat("once more", false))
	second := start(t, same, w)
	after := second.explain("", chat("once more", false))
	if before.Answer != after.Answer || before.Cost == nil || after.Cost == nil || !near(before.Cost.PrefillSeconds, after.Cost.PrefillSeconds) || !near(before.Cost.DecodeSeconds, after.Cost.DecodeSeconds) {
		t.Errorf("before %+v %+v\nafter %+v %+v", before.Answer, before.Cost, after.Answer, after.Cost)
	}
	if fresh.Answer == after.Answer || fresh.Cost.DecodeSeconds == after.Cost.DecodeSeconds {
		t.Errorf("it foretells as one that knows nothing: %+v %+v", fresh.Answer, fresh.Cost)
	}
	if n := second.metric("warmpath_learned_saved_timestamp_seconds"); n != 0 {
		t.Errorf("it was saved at %v before it was saved", n)
	}
	if err := second.writeLearned(); err != nil {
		t.Fatal(err)
	}
	if n := second.metric("warmpath_learned_saved_timestamp_seconds"); n < 1e9 {
		t.Errorf("saved at %v", n)
	}
}

func TestARestartedRouterAssumesNothingOfCachesThatItDidNotSee(t *testing.T) {
	w, same, first := restartable(t)
	long := chat(strings.Repeat("a long prompt that is worth keeping ", 100), false)
	if r := first.post("/v1/chat/completions", long); r.status != http.StatusOK || first.explain("", long).MatchedTokens == 0 {
		t.Fatalf("%d, and %d tokens match", r.status, first.explain("", long).MatchedTokens)
	}
	first.Close()
	if e := start(t, same, w).explain("", long); e.Verdict != "placed" || e.MatchedTokens != 0 {
		t.Errorf("%s, and %d tokens match", e.Verdict, e.MatchedTokens)
	}
}

func TestALearnedFileThatCannotBeUsedIsToldOfAndChangesNothing(t *testing.T) {
	w, same, first := restartable(t)
	first.Close()
	file, err := first.learnedFile()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(whole), "again") {
		t.Fatalf("%v, or prompts are in it", err)
	}
	for name, text := range map[string]string{
		"half":            string(whole[:len(whole)/2]),
		"empty":           "",
		"foreign":         "#!/bin/sh\n",
		"another version": strings.Replace(string(whole), "warmpath-learned 1 ", "warmpath-learned 9 ", 1),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rt := start(t, same, w)
		if r := rt.post("/v1/chat/completions", chat("on it goes", false)); r.status != http.StatusOK {
			t.Errorf("%s: %d", name, r.status)
		}
		if n := strings.Count(rt.log.String(), "what was learned of engines before"); n != 1 {
			t.Errorf("%s: told %d times", name, n)
		}
		rt.Close()
		if strings.Contains(rt.log.String(), "could not be kept") {
			t.Errorf("%s: it is in the way of the next one", name)
		}
	}
}

func TestNothingIsKeptWhereEachStartIsToLearnAnew(t *testing.T) {
	w, same, _ := restartable(t)
	rt := start(t, func(c *config.Config) { same(c); c.StateDir, c.StateMaxAge = t.TempDir(), 0 }, w)
	rt.Close()
	file, err := rt.learnedFile()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}
