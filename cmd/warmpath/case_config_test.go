package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// configFile is the configuration of a router under test, and what it is replaced by.
type configFile struct {
	t    *testing.T
	path string
	head string // what stays
}

// write replaces the file whole, as editors and clusters do.
func (f *configFile) write(text string) {
	f.t.Helper()
	next := f.path + ".next"
	if err := os.WriteFile(next, []byte(f.head+text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, f.path); err != nil {
		f.t.Fatal(err)
	}
}

// fileOf are workers as the file has them, w1 and so on.
func fileOf(more string, workers ...*worker) string {
	text := "workers:\n"
	for i, w := range workers {
		text += fmt.Sprintf("  - {id: w%d, url: %q%s}\n", i+1, w.url, more)
	}
	return text
}

// startFile runs a router by a file, as serve --config does.
func startFile(t *testing.T, head, text string) (*testRouter, *configFile) {
	t.Helper()
	folder := t.TempDir()
	f := &configFile{t, filepath.Join(folder, "warmpath.yaml"), fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nstate_dir: %q\nlog_level: debug\n"+
		"telemetry: {interval: 100ms, timeout: 300ms, stale_after: 500ms}\n%s", folder, head)}
	f.write(text)
	c, err := config.Load(f.path)
	if err != nil {
		t.Fatal(err)
	}
	rt := start(t, func(into *config.Config) { *into = c })
	rt.canReload(f.path, false, func() (config.Config, error) { return config.Load(f.path) })
	return rt, f
}

// reloadNow asks for it at the admin port.
func (rt *testRouter) reloadNow(out any) int {
	rt.t.Helper()
	return rt.adminCall(http.MethodPost, "/reload", "", out)
}

// ready waits until so many workers take requests.
func (rt *testRouter) ready(n int) {
	rt.t.Helper()
	eventually(rt.t, fmt.Sprintf("%d workers to be ready", n), func() bool {
		ready := 0
		for _, w := range rt.state().Workers {
			if w.State == "ready" && len(w.Models) > 0 {
				ready++
			}
		}
		return ready == n
	})
}

// traffic sends short requests and streams until stop is called, which returns how many there were, and what went wrong with any.
func (rt *testRouter) traffic(streams, clients int) (stop func() (int, []string)) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var wrong []string
	var sent atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	check := func(what string, r reply, whole bool) {
		sent.Add(1)
		if r.status == http.StatusOK && r.err == nil && whole {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Sprintf("%s: status %d, %v, %q", what, r.status, r.err, r.body[max(0, len(r.body)-200):]))
	}
	for i := range clients {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r := rt.post("/v1/chat/completions", chat(fmt.Sprint("request ", i, " ", n), false))
				check("request", r, true)
			}
		})
	}
	for i := range streams {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r := rt.post("/v1/chat/completions", chat(fmt.Sprint("stream ", i, " ", n), true))
				check("stream", r, strings.Contains(r.body, "[DONE]"))
			}
		})
	}
	return func() (int, []string) {
		cancel()
		all.Wait()
		return int(sent.Load()), wrong
	}
}

func TestTenReloadsUnderLoadFailNoRequestAndCutNoStream(t *testing.T) {
	slow := func(c *call) {
		if !c.wantsStream() {
			c.good("hello")
			return
		}
		c.events()
		for i := range 30 {
			c.send(deltaOf(fmt.Sprint("w", i)))
			if !c.wait(5 * time.Millisecond) {
				return
			}
		}
		c.send("data: [DONE]\n\n")
	}
	a, b, extra := newWorker(t, slow), newWorker(t, slow), newWorker(t, slow)
	rt, f := startFile(t, "", fileOf("", a, b))
	rt.ready(2)
	stop := rt.traffic(4, 2)
	for i := range 10 {
		text := fileOf(fmt.Sprintf(", in_flight_max: %d", 100+i), a, b)
		if i%2 == 0 {
			text = fileOf(fmt.Sprintf(", in_flight_max: %d", 100+i), a, b, extra)
		}
		f.write(text + fmt.Sprintf("timeouts: {header: %ds}\npolicy: %s\nretries_max: %d\n", 60+i, []string{"warm-cost", "round-robin"}[i%2], i%3))
		var report reloadReport
		if status := rt.reloadNow(&report); status != http.StatusOK || report.Result != reloadApplied || report.Generation != i+2 {
			t.Fatalf("reload %d: %d, %+v", i, status, report)
		}
	}
	sent, wrong := stop()
	if len(wrong) > 0 {
		t.Fatalf("%d of %d went wrong:\n%s", len(wrong), sent, strings.Join(wrong[:min(len(wrong), 5)], "\n"))
	}
	t.Logf("%d requests over ten reloads", sent)
	rt.idle()
}

func TestWhatIsKnownOfWorkersThatStaySurvivesAReload(t *testing.T) {
	a, b := newWorker(t, nil), newWorker(t, nil)
	pools := "pools: [{name: %[1]s}]\npool_rules: [{name: all, to: [%[1]s]}]\n"
	rt, f := startFile(t, "explain_headers: true\n", fileOf(", pool: one", a, b)+fmt.Sprintf(pools, "one"))
	rt.ready(2)
	long := strings.Repeat("the same long prefix of both turns ", 100)
	first := rt.post("/v1/chat/completions", chat(long, false))
	if first.status != http.StatusOK {
		t.Fatalf("%d %s", first.status, first.body)
	}
	before := rt.state()
	f.write(fileOf(", pool: two, in_flight_max: 9, key: hush", a, b) + fmt.Sprintf(pools, "two") + "ejection: {after: 7}\nqueue: {requests_max: 77}\n")
	var report reloadReport
	if status := rt.reloadNow(&report); status != http.StatusOK || report.Result != reloadApplied {
		t.Fatalf("%d, %+v", status, report)
	}
	if text := fmt.Sprint(report.Changes); strings.Contains(text, "hush") || !strings.Contains(text, "workers[w1].key") {
		t.Errorf("the diff: %s", text)
	}
	next := rt.post("/v1/chat/completions", chat(long+" and more", false))
	var d struct {
		Matched int `json:"matched_tokens"`
	}
	if err := json.Unmarshal([]byte(next.header.Get("X-Warmpath-Decision")), &d); err != nil || d.Matched == 0 {
		t.Errorf("the next turn found no warm prefix: %v, %q", err, next.header.Get("X-Warmpath-Decision"))
	}
	for i, w := range rt.state().Workers {
		if was := before.Workers[i]; w.Incarnation != was.Incarnation || w.PrefillsLearned < was.PrefillsLearned || w.InFlightMax != 9 || strings.Join(w.Pools, "") != "two" {
			t.Errorf("%+v\nwas\n%+v", w, was)
		}
	}
	all := append(a.calls(), b.calls()...)
	keys := 0
	for _, c := range all {
		if c.r.Header.Get("Authorization") == "Bearer hush" {
			keys++
		}
	}
	if len(all) != 2 || keys != 1 {
		t.Errorf("of %d requests %d carried the new credential, want the second alone", len(all), keys)
	}
	if s := rt.metric("warmpath_config_generation"); s != 2 {
		t.Errorf("generation %v", s)
	}
}

func TestTwoReloadsAtOnceEndWithTheFileAsItIs(t *testing.T) {
	a := newWorker(t, nil)
	rt, f := startFile(t, "", fileOf("", a))
	rt.ready(1)
	f.write(fileOf("", a) + "retries_max: 5\n")
	var all sync.WaitGroup
	results := make([]reloadReport, 8)
	for i := range results {
		all.Go(func() { rt.reloadNow(&results[i]) })
	}
	all.Wait()
	applied := 0
	for _, r := range results {
		if r.Result == reloadApplied {
			applied++
		} else if r.Result != reloadUnchanged {
			t.Errorf("%+v", r)
		}
	}
	if applied != 1 || rt.settings().RetriesMax != 5 || rt.state().Config.Generation != 2 {
		t.Errorf("applied %d times, retries %d, %+v", applied, rt.settings().RetriesMax, rt.state().Config)
	}
}
