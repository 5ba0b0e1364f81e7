package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/traces"
)

func TestACompressedLogWithTextIsReadByEverythingThatReadsLogs(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/decisions.jsonl"
	answer := func(c *call) {
		c.json(http.StatusOK, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":600,"completion_tokens":3}}`)
	}
	rt := start(t, func(c *config.Config) {
		c.DecisionLog.File, c.DecisionLog.Compress, c.DecisionLog.Text, c.Dash.ShowText = file, declog.CompressZstd, true, true
	}, newWorker(t, answer), newWorker(t, answer))
	long := strings.Repeat("x", 2*declog.TextBytesMax)
	for i, text := range []string{`Mallory says \"\u00fcber all\" \ud83d\ude00`, strings.Repeat(`\u00fc`, declog.TextBytesMax), long} {
		r := rt.post("/v1/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"%s"}]}`, text),
			"X-Request-Id", fmt.Sprint("asked-", i))
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	rt.idle()
	for _, path := range []string{"/decisions?limit=10", "/metrics", "/state", "/decisions/asked-0"} {
		reply, err := http.Get(rt.AdminURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		_, err = said.ReadFrom(reply.Body)
		reply.Body.Close()
		if err != nil || strings.Contains(said.String(), "Mallory") {
			t.Errorf("%s tells what was asked: %v", path, err)
		}
	}
	rt.Close()

	if raw, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(raw, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		t.Fatalf("no zstd: %v", err)
	}
	texts := map[string]string{}
	if err := eachDecision(file, func(r *declog.Record) { texts[r.ID] = fmt.Sprint(r.Text, " cut ", r.TextCut) }); err != nil {
		t.Fatal(err)
	}
	if want := "Be brief. Mallory says \"über all\" 😀 cut false"; texts["asked-0"] != want {
		t.Errorf("%q, want %q", texts["asked-0"], want)
	}
	if got := texts["asked-1"]; !strings.HasPrefix(got, "Be brief. üüü") || !strings.HasSuffix(got, "ü cut true") {
		t.Errorf("%.40q ... %q", got, got[len(got)-40:])
	}
	if got := texts["asked-2"]; len(got) != declog.TextBytesMax+len(" cut true") || !strings.HasSuffix(got, "xx cut true") {
		t.Errorf("%d bytes", len(got))
	}

	if e, err := findDecision(file, "asked-1"); err != nil || e.ID != "asked-1" {
		t.Errorf("explain: %v, %+v", err, e)
	}
	if err := replayPicks([]string{file}, nil, false, true, new(bytes.Buffer)); err != nil {
		t.Errorf("replay --picks: %v", err)
	}
	trace, err := traces.OpenLogs(traces.Rotated(file), traces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := trace.Load(1 << 20); err != nil || trace.Form != "decisions" {
		t.Errorf("replay --log: %v, form %s", err, trace.Form)
	}
	n, failed := 0, error(nil)
	recorded([]string{file}, &failed)(func(pools.Request) bool { n++; return true })
	if n != 3 || failed != nil {
		t.Errorf("config pools: %d requests, %v", n, failed)
	}
}

func TestShownPrefixesPutNoTextIntoTheLog(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/decisions.jsonl"
	rt := start(t, func(c *config.Config) { c.DecisionLog.File, c.Dash.ShowText = file, true }, newWorker(t, func(c *call) { c.good("some", "words") }))
	rt.post("/v1/chat/completions", chat("Mallory says nothing", false))
	rt.Close()
	if raw, err := os.ReadFile(file); err != nil || len(raw) == 0 || bytes.Contains(raw, []byte("Mallory")) {
		t.Errorf("%v: %s", err, raw)
	}
}
