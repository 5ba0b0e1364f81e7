package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// listing is an endpoint that lists workers as Prometheus' http_sd does; while it is shut it answers 503.
type listing struct {
	url  string
	shut atomic.Bool
	text atomic.Pointer[string]
}

func newListing(t *testing.T, workers ...*worker) *listing {
	l := &listing{}
	l.says(workers...)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if l.shut.Load() {
			http.Error(w, "shut", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, *l.text.Load())
	}))
	t.Cleanup(s.Close)
	l.url = s.URL
	return l
}

func (l *listing) says(workers ...*worker) {
	targets := []string{}
	for _, w := range workers {
		targets = append(targets, fmt.Sprintf("%q", strings.TrimPrefix(w.url, "http://")))
	}
	text := fmt.Sprintf(`[{"targets":[%s]}]`, strings.Join(targets, ","))
	l.text.Store(&text)
}

func TestSourcesOfWorkersComeGoAndChangeWhileTheRouterRuns(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	slow := func(c *call) {
		c.events()
		c.send(deltaOf("a"))
		<-goOn
		c.send("data: [DONE]\n\n")
	}
	a := newWorker(t, nil)
	b, both, late := newWorker(t, nil), newWorker(t, nil), newWorker(t, nil)
	a.on(slow)
	both.on(slow)
	first, second := newListing(t, a, both), newListing(t, b, both)
	sources := func(entries ...string) string {
		return "discovery: {forget_after: 0s, http: [" + strings.Join(entries, ", ") + "]}\n"
	}
	entry := func(l *listing, more string) string { return fmt.Sprintf("{url: %q, every: 50ms%s}", l.url, more) }
	rt, f := startFile(t, "", sources(entry(first, "")))
	reload := func(text string) {
		t.Helper()
		f.write(text)
		if _, err := rt.reload("the test", false); err != nil {
			t.Fatal(err)
		}
	}
	there := func(want ...*worker) func() bool { return func() bool { return staying(rt, want) } }
	eventually(t, "the workers of the first source", there(a, both))
	rt.ready(2)
	resp, err := rt.open(t.Context(), "/v1/chat/completions", chat("x", true))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	known := stateOf(rt, both).Incarnation

	second.shut.Store(true)
	reload(sources(entry(second, ""))) // in its place, and it has nothing to say yet
	eventually(t, "the second source to fail", func() bool { return strings.Contains(rt.log.String(), "a source of workers fails") })
	if !there(a, both)() {
		t.Error("workers left before the new source had spoken")
	}
	second.shut.Store(false)
	eventually(t, "the workers of the second source", there(b, both))
	close(goOn)
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(text), "[DONE]\n\n") {
		t.Errorf("the stream that was under way ended with %q, %v", text, err)
	}

	reload(sources(entry(second, ""), entry(first, ", labels: [zone=a]"))) // one more
	eventually(t, "both sources' workers", there(a, b, both))
	reload(sources(entry(second, ", labels: [zone=b]"), entry(first, ", labels: [zone=a]"))) // asked otherwise
	eventually(t, "the label of the changed source", func() bool { return slices.Contains(stateOf(rt, b).Labels, "zone=b") })
	first.says(a, both, late)
	eventually(t, "one that came later", there(a, b, both, late))
	reload(sources(entry(first, ", labels: [zone=a]"))) // one less
	eventually(t, "those of the first source", there(a, both, late))
	if now := stateOf(rt, both).Incarnation; now != known || known == 0 {
		t.Errorf("a worker that was named all the time was incarnation %d and is %d", known, now)
	}
	for _, s := range rt.state().Sources {
		if s.Source != "http "+first.url {
			t.Errorf("%s is followed still", s.Source)
		}
	}
}

// staying says whether just these workers are there and do not leave.
func staying(rt *testRouter, want []*worker) bool {
	var urls, is []string
	for _, w := range want {
		urls = append(urls, w.url)
	}
	for _, s := range rt.state().Workers {
		if s.Draining == "" {
			is = append(is, s.URL)
		}
	}
	slices.Sort(urls)
	slices.Sort(is)
	return slices.Equal(urls, is)
}

// stateOf is the worker in /state; the zero value: it is not there.
func stateOf(rt *testRouter, w *worker) workerState {
	for _, s := range rt.state().Workers {
		if s.URL == w.url {
			return s
		}
	}
	return workerState{}
}
