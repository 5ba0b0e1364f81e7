package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// silentListener accepts connections and never says a word.
func silentListener(t *testing.T) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var held []net.Conn
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			held = append(held, c)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		l.Close()
		done.Wait()
		for _, c := range held {
			c.Close()
		}
	})
	return "http://" + l.Addr().String()
}

func TestTMO_01_AnUnresponsiveWorkerHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w2, w3 := newWorker(t, nil), newWorker(t, nil)
	silent := silentListener(t)
	rt := start(t, func(c *config.Config) {
		c.Workers = append(c.Workers, config.Worker{ID: "silent", URL: silent, Model: "m"})
		c.Timeouts.Header = 2 * time.Second
	}, w2, w3)
	var mu sync.Mutex
	var slow, failed int
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			begun := time.Now()
			r := rt.post("/v1/chat/completions", chat(fmt.Sprint("mixed ", i), i%2 == 0))
			mu.Lock()
			defer mu.Unlock()
			if r.status != http.StatusOK {
				failed++
			} else if time.Since(begun) > 10*time.Second {
				slow++
			}
		})
	}
	all.Wait()
	if slow > 0 || failed+w2.count()+w3.count() != 200 {
		t.Errorf("%d slow, %d failed, %d and %d served: want those on the healthy workers quick and the rest failed in time", slow, failed, w2.count(), w3.count())
	}
	for i := range 40 { // by now it is out: nobody else is caught but probes
		rt.post("/v1/chat/completions", chat(fmt.Sprint("after ", i), false))
	}
	if got := rt.metric("warmpath_upstream_errors_total", `class="timeout"`, `worker="silent"`); got > float64(failed)+3 {
		t.Errorf("%v timeouts for %d caught requests: the silent worker still draws traffic", got, failed)
	}
}

func TestTMO_02_NoTimeoutCutsAHealthyLongStream(t *testing.T) {
	const events = 24
	w := newWorker(t, func(c *call) {
		c.events()
		for i := range events {
			c.send(deltaOf(fmt.Sprint("w", i)))
			if !c.wait(50 * time.Millisecond) {
				return
			}
		}
		c.send("data: [DONE]\n\n")
	})
	rt := start(t, func(c *config.Config) { // every timeout far below the stream's length of 1.2 s
		c.Timeouts = config.Timeouts{Connect: 200 * time.Millisecond, Header: 200 * time.Millisecond, IdleGap: 400 * time.Millisecond, Client: 400 * time.Millisecond}
		c.Telemetry.Timeout = 200 * time.Millisecond
	}, w)
	r := rt.post("/v1/chat/completions", chat("long", true))
	if n := strings.Count(r.body, `"content"`); n != events || r.err != nil {
		t.Errorf("%d events and %v, want %d", n, r.err, events)
	}
}

func TestASilenceInAStreamBeyondTheIdleGapBreaksIt(t *testing.T) {
	w := newWorker(t, func(c *call) { c.events(); c.send(deltaOf("a")); c.stall() })
	rt := start(t, func(c *config.Config) { c.Timeouts.IdleGap = 200 * time.Millisecond }, w)
	r := rt.post("/v1/chat/completions", chat("gap", true))
	if r.err == nil || !strings.Contains(r.body, "timeouts.idle_gap") {
		t.Errorf("got %q, %v; want an error event that names the setting", r.body, r.err)
	}
	rt.idle()
}

func TestTMO_04_NobodyWaitsForAWorkerThatLeft(t *testing.T) {
	frozen := func(c *call) { c.stall() }
	var workers []*worker
	for range 6 {
		workers = append(workers, newWorker(t, frozen))
	}
	rt := start(t, nil, workers...)
	const clients = 120
	var all sync.WaitGroup
	outcomes := make(chan reply, clients)
	for i := range clients {
		all.Go(func() { outcomes <- rt.post("/v1/chat/completions", chat(fmt.Sprint("bound ", i), i%2 == 0)) })
	}
	eventually(t, "all requests to be on a worker", func() bool {
		n := 0
		for _, w := range workers {
			n += w.count()
		}
		return n == clients
	})
	for i := range workers { // each leaves while its requests wait, and a fresh one that answers takes its place
		fresh := newWorker(t, nil)
		if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"url":%q,"id":"fresh%d","model":"m"}`, fresh.url, i), nil); code != http.StatusCreated {
			t.Fatalf("adding a worker: %d", code)
		}
		if code := rt.adminCall(http.MethodDelete, fmt.Sprintf("/workers/w%d", i+1), "", nil); code != http.StatusOK {
			t.Fatalf("removing a worker: %d", code)
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("requests wait for workers that have left")
	}
	close(outcomes)
	served := 0
	for r := range outcomes {
		switch {
		case r.status == http.StatusOK:
			served++
		case r.status >= 500 && json.Valid([]byte(r.body)):
		default:
			t.Errorf("outcome %d %q %v", r.status, r.body, r.err)
		}
	}
	if served < clients/2 {
		t.Errorf("%d of %d were served elsewhere", served, clients)
	}
	rt.idle()
}

func TestAStreamUnderWayOutlivesTheRemovalOfItsWorker(t *testing.T) {
	release := make(chan struct{})
	w := newWorker(t, func(c *call) {
		c.events()
		c.send(deltaOf("a"))
		<-release
		c.send(deltaOf("b"))
		c.send("data: [DONE]\n\n")
	})
	rt := start(t, nil, w)
	resp, err := rt.open(context.Background(), "/v1/chat/completions", chat("under way", true))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	next := eventsOf(resp)
	if _, err := next(); err != nil {
		t.Fatal(err)
	}
	rt.adminCall(http.MethodDelete, "/workers/w1", "", nil)
	close(release)
	rest := ""
	for {
		event, err := next()
		rest += event
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("the stream was cut after %q: %v", rest, err)
		}
	}
	if !strings.HasSuffix(rest, "data: [DONE]\n\n") {
		t.Errorf("the stream ended with %q", rest)
	}
}

// An error whose body never ends holds nobody: another worker is asked where one may be, else the client gets an error that it can read.
func TestTMO_01_AnErrorWhoseBodyStallsHoldsNobody(t *testing.T) {
	t.Parallel()
	stall := func(status int) func(*call) {
		return func(c *call) {
			c.w.Header().Set("Content-Type", "application/json")
			c.w.Header().Set("Content-Length", "900")
			c.w.Header().Set("Retry-After", "7")
			c.w.WriteHeader(status)
			c.send(`{"error":{"message":"`)
			c.stall()
		}
	}
	patient := func(c *config.Config) { c.Timeouts.IdleGap = time.Hour }
	t.Run("another worker answers", func(t *testing.T) {
		t.Parallel()
		w1, w2 := newWorker(t, stall(500)), newWorker(t, stall(503))
		rt := start(t, patient, w1, w2, newWorker(t, nil))
		if r := rt.post("/v1/chat/completions", chat("stalls", false)); r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
		for _, w := range []*worker{w1, w2} {
			for _, c := range w.calls() {
				<-c.ended // it was left
			}
		}
		rt.idle()
	})
	for _, status := range []int{429, 500, 501, 503} {
		t.Run(fmt.Sprint("the only worker answers ", status), func(t *testing.T) {
			t.Parallel()
			rt := start(t, patient, newWorker(t, stall(status)))
			r := rt.post("/v1/messages", chat("stalls", true))
			var said struct {
				Type  string
				Error struct{ Type, Message string }
			}
			if err := json.Unmarshal([]byte(r.body), &said); err != nil || r.status != status || said.Type != "error" || !strings.Contains(said.Error.Message, "worker w1 answered") {
				t.Errorf("%d %q %v", r.status, r.body, err)
			}
			if status == 429 && r.header.Get("Retry-After") != "7" {
				t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
			}
			rt.idle()
		})
	}
}
