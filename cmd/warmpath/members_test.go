package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// list is a watched file of workers.
type list struct {
	t    *testing.T
	path string
}

func newList(t *testing.T, workers ...*worker) *list {
	l := &list{t, filepath.Join(t.TempDir(), "workers.yaml")}
	l.has(workers...)
	return l
}

// has puts a new file in the old one's place.
func (l *list) has(workers ...*worker) {
	l.t.Helper()
	text := "[]\n"
	for i, w := range workers {
		if i == 0 {
			text = ""
		}
		text += fmt.Sprintf("- {url: %q, model: m}\n", w.url)
	}
	l.says(text)
}

func (l *list) says(text string) {
	l.t.Helper()
	if err := os.WriteFile(l.path+".new", []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(l.path+".new", l.path); err != nil {
		l.t.Fatal(err)
	}
}

// startWith runs a router whose workers are those of a list, and which forgets those that left soon.
func startWith(t *testing.T, l *list, change func(*config.Config)) *testRouter {
	return start(t, func(c *config.Config) {
		c.Discovery.File, c.Discovery.ForgetAfter = l.path, 100*time.Millisecond
		if change != nil {
			change(c)
		}
	})
}

// found is the worker as /state has it; nil: it is not in the fleet.
func (rt *testRouter) found(w *worker) *workerState {
	for _, s := range rt.state().Workers {
		if s.URL == w.url {
			return &s
		}
	}
	return nil
}

// finds waits until workers may get requests.
func (rt *testRouter) finds(workers ...*worker) {
	rt.t.Helper()
	for _, w := range workers {
		eventually(rt.t, w.url+" to be found", func() bool { s := rt.found(w); return s != nil && s.State == "ready" && len(s.Models) > 0 })
	}
}

// loses waits until workers have left the fleet.
func (rt *testRouter) loses(workers ...*worker) {
	rt.t.Helper()
	for _, w := range workers {
		eventually(rt.t, w.url+" to be gone", func() bool { return rt.found(w) == nil })
	}
}

// held opens streams that go on, and requests without a byte of an answer, on one worker. finish ends the streams well.
type held struct {
	streams []func() (string, error)
	waiting sync.WaitGroup
	replies chan reply
	finish  func()
}

// hold is a worker's script: streams begin and wait for finish, all else is silent.
func hold(finish <-chan struct{}) func(*call) {
	return func(c *call) {
		if !c.wantsStream() {
			c.stall()
			return
		}
		c.events()
		c.send(deltaOf("a"))
		select {
		case <-finish:
		case <-c.gone:
			return
		}
		c.send(deltaOf("b"))
		c.send("data: [DONE]\n\n")
	}
}

// occupy puts n streams and n silent requests on the only worker there is.
func (rt *testRouter) occupy(w *worker, n int) *held {
	rt.t.Helper()
	end := make(chan struct{})
	h := &held{replies: make(chan reply, n), finish: sync.OnceFunc(func() { close(end) })}
	w.on(hold(end))
	rt.t.Cleanup(h.finish)
	for i := range n {
		resp, err := rt.open(context.Background(), "/v1/chat/completions", chat(fmt.Sprint("stream ", i), true))
		if err != nil {
			rt.t.Fatal(err)
		}
		rt.t.Cleanup(func() { resp.Body.Close() })
		next := eventsOf(resp)
		if _, err := next(); err != nil {
			rt.t.Fatal(err)
		}
		h.streams = append(h.streams, next)
		h.waiting.Go(func() { h.replies <- rt.post("/v1/chat/completions", chat(fmt.Sprint("silent ", i), false)) })
	}
	eventually(rt.t, "all requests to be on the worker", func() bool { return w.count() >= 2*n })
	return h
}

// moved waits for the silent requests, which must have been answered elsewhere.
func (h *held) moved(t *testing.T) {
	t.Helper()
	all := make(chan struct{})
	go func() { h.waiting.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(patience()):
		t.Fatal("requests wait on for a worker that is leaving")
	}
	close(h.replies)
	for r := range h.replies {
		if r.status != http.StatusOK {
			t.Errorf("a request without an answer yet: %d %s %v", r.status, r.body, r.err)
		}
	}
}

// end has the streams end, which they must do well.
func (h *held) end(t *testing.T) {
	t.Helper()
	h.finish()
	for _, next := range h.streams {
		var text strings.Builder
		var err error
		for err == nil {
			var event string
			event, err = next()
			text.WriteString(event)
		}
		if err != io.EOF || !strings.Contains(text.String(), `"b"`) || !strings.HasSuffix(text.String(), "data: [DONE]\n\n") {
			t.Errorf("a stream ended with %q, %v", text.String(), err)
		}
	}
}

// awaitSource waits for what a source of a kind is to be.
func (rt *testRouter) awaitSource(kind string, is func(sourceState) bool) {
	rt.t.Helper()
	eventually(rt.t, "the source "+kind, func() bool {
		for _, s := range rt.state().Sources {
			if strings.HasPrefix(s.Source, kind) && is(s) {
				return true
			}
		}
		return false
	})
}
