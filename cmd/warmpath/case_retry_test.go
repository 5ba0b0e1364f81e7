package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

func TestRET_01_NothingIsReplayedOnceOutputBegan(t *testing.T) {
	halfway := func(c *call) {
		c.events()
		for _, word := range []string{"A", "B", "C"} {
			c.send(deltaOf(word))
		}
		c.wait(30 * time.Millisecond)
		c.reset()
	}
	whole := func(c *call) { c.good("A", "B", "C", "D") }
	w1, w2 := newWorker(t, halfway), newWorker(t, whole)
	rt := start(t, nil, w1, w2)
	for i := range 10 {
		seen := w2.count()
		r := rt.post("/v1/chat/completions", chat(fmt.Sprint("replay ", i), true))
		if strings.Count(r.body, `"content":"A"`) != 1 {
			t.Fatalf("the client got the beginning %d times: %s", strings.Count(r.body, `"content":"A"`), r.body)
		}
		if broken := r.err != nil; broken && (w2.count() != seen || !strings.Contains(r.body, `"error"`)) {
			t.Fatalf("a broken stream was sent to the other worker, or ended without an error event: %s", r.body)
		}
	}
	if w1.count() == 0 {
		t.Fatal("no request went to the worker that breaks")
	}
}

func TestRET_03_AStalePooledConnectionIsReplacedUnseen(t *testing.T) {
	for name, script := range map[string]func(c *call){
		"closed after each answer": func(c *call) {
			conn := c.raw()
			body := fmt.Sprintf(`{"id":"%d"}`, c.n)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			conn.Close()
		},
		"closed a little later": func(c *call) {
			conn := c.raw()
			body := fmt.Sprintf(`{"id":"%d"}`, c.n)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			time.AfterFunc(time.Duration(c.n%7)*time.Millisecond, func() { conn.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t, script)
			rt := start(t, nil, w)
			const n = 200
			for i := 0; i < n; i += 2 {
				var pair sync.WaitGroup
				for j := range 2 {
					pair.Go(func() {
						if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("stale ", i+j), false)); r.status != http.StatusOK {
							t.Errorf("request %d: %d %s %v", i+j, r.status, r.body, r.err)
						}
					})
				}
				pair.Wait()
			}
			prompts := map[string]int{}
			for _, c := range w.calls() {
				prompts[string(c.body)]++
			}
			if len(prompts) != n || w.count() != n {
				t.Errorf("%d requests were executed %d times", len(prompts), w.count())
			}
			if e := rt.metric("warmpath_ejections_total"); e != 0 {
				t.Errorf("%v ejections", e)
			}
		})
	}
}

func TestRET_04_ARetryLeavesTheDeadWorkerAlone(t *testing.T) {
	w1, w2, w3 := newWorker(t, nil), newWorker(t, nil), newWorker(t, nil)
	workers := []*worker{w1, w2, w3}
	rt := start(t, nil, workers...)
	prefix := strings.Repeat("a shared beginning ", 300)
	rt.post("/v1/chat/completions", chat(prefix+"one", false))
	for _, w := range workers {
		if w.count() > 0 {
			w.stop() // it holds the prefix, and is dead now
		}
	}
	begun := time.Now()
	r := rt.post("/v1/chat/completions", chat(prefix+"two", false))
	if r.status != http.StatusOK {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if d := time.Since(begun); d > 2*time.Second {
		t.Errorf("the retry took %v", d)
	}
	if got := rt.metric("warmpath_retries_total"); got != 1 {
		t.Errorf("%v retries, want 1", got)
	}
}

func TestRET_06_RetriesDoNotMultiply(t *testing.T) {
	var workers []*worker
	for range 4 {
		workers = append(workers, newWorker(t, func(c *call) { c.json(http.StatusServiceUnavailable, `{"error":{"message":"full"}}`) }))
	}
	rt := start(t, func(c *config.Config) { c.RetriesMax = 2 }, workers...)
	total := func() (n int) {
		for _, w := range workers {
			n += w.count()
		}
		return n
	}
	r := rt.post("/v1/chat/completions", chat("first", false))
	if n := total(); r.status != http.StatusServiceUnavailable || n > 3 || n < 2 {
		t.Errorf("one request: %d, asked workers %d times, want 503 after at most 3", r.status, n)
	}
	before := total()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() { rt.post("/v1/chat/completions", chat(fmt.Sprint("many ", i), false)) })
	}
	all.Wait()
	if extra := total() - before - 100; extra > 100/10+10 {
		t.Errorf("100 requests caused %d retries; a tenth of traffic and ten a minute are allowed", extra)
	}
	r = rt.post("/v1/chat/completions", chat("last", false))
	if r.body != `{"error":{"message":"full"}}` {
		t.Errorf("the worker's own words are lost: %s", r.body)
	}
}

func TestRET_06_RequestsThatFailAtOneMomentAreNotTriedAgainAtOne(t *testing.T) {
	const clients = 10 // as many retries as a fresh router may spend
	var mu sync.Mutex
	var failed time.Time                    // when all of them are answered
	arrived := map[string][]time.Duration{} // since then, by prompt
	all := make(chan struct{})
	refuse := func(c *call) {
		mu.Lock()
		first := len(arrived[string(c.body)]) == 0
		arrived[string(c.body)] = append(arrived[string(c.body)], c.at.Sub(failed))
		if first && len(arrived) == clients {
			failed = time.Now()
			close(all)
		}
		mu.Unlock()
		if first {
			select {
			case <-all:
			case <-c.gone:
			}
		}
		c.json(http.StatusServiceUnavailable, `{"error":{"message":"full"}}`)
	}
	rt := start(t, func(c *config.Config) { c.RetriesMax = 1 }, newWorker(t, refuse), newWorker(t, refuse), newWorker(t, refuse), newWorker(t, refuse))
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() { rt.post("/v1/chat/completions", chat(fmt.Sprint("together ", i), false)) })
	}
	asking.Wait()
	var waits []time.Duration
	for prompt, at := range arrived {
		if len(at) != 2 {
			t.Fatalf("%s: asked %d times, want 2", prompt, len(at))
		}
		waits = append(waits, at[1])
	}
	least, most := slices.Min(waits), slices.Max(waits)
	t.Logf("tried again after %v to %v", least, most)
	if least < 5*time.Millisecond || most-least <= 5*time.Millisecond {
		t.Errorf("tried again after %v to %v: want a moment for the fleet, and not the same one for all", least, most)
	}
}

func TestARequestThatBreaksFreshConnectionsIsTriedTwiceAtMost(t *testing.T) {
	var workers []*worker
	for range 4 {
		workers = append(workers, newWorker(t, func(c *call) { c.reset() }))
	}
	rt := start(t, func(c *config.Config) { c.RetriesMax = 3 }, workers...)
	r := rt.post("/v1/chat/completions", chat("killer", false))
	n := 0
	for _, w := range workers {
		n += w.count()
	}
	if r.status != http.StatusBadGateway || n != 2 {
		t.Errorf("got %d after %d attempts, want 502 after 2", r.status, n)
	}
}

func TestEveryStatusThatMayBeRetriedIsAndNoOther(t *testing.T) {
	for status, want := range map[int]bool{500: true, 502: true, 503: true, 504: true, 400: false, 401: false, 404: false, 409: false, 413: false, 422: false, 429: false, 501: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			bad := newWorker(t, func(c *call) { c.json(status, `{"error":"own words"}`) })
			good := newWorker(t, nil)
			rt := start(t, func(c *config.Config) { c.Policy = "round-robin" }, bad, good)
			passed := 0
			for i := range 4 {
				if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("status ", i), false)); r.status == status {
					passed++
				}
			}
			if bad.count() == 0 {
				t.Fatal("no request went to the worker that refuses")
			}
			if want && passed > 0 || !want && passed != bad.count() {
				t.Errorf("%d of %d answers with %d reached the client", passed, bad.count(), status)
			}
			if rt.idle(); len(rt.tries("")) != len(rt.tries("busy"))+len(rt.tries("server_error")) || want != (len(rt.tries("")) > 0) {
				t.Errorf("tries: %+v", rt.tries(""))
			}
		})
	}
}

func TestATruncatedAnswerIsTriedElsewhereOnlyWhileNothingOfItWasSent(t *testing.T) {
	bad := newWorker(t, func(c *call) {
		conn := c.raw()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n")
		conn.Close()
	})
	good := newWorker(t, nil)
	rt := start(t, func(c *config.Config) { c.Policy = "round-robin" }, bad, good)
	for i := range 2 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("head only ", i), false)); r.status != http.StatusOK || r.err != nil {
			t.Errorf("got %d %v", r.status, r.err)
		}
	}
	bad.on(func(c *call) {
		conn := c.raw()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"half\":")
		c.wait(20 * time.Millisecond)
		conn.Close()
	})
	broken := 0
	for i := range 2 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("half ", i), false)); r.err != nil || r.status == http.StatusBadGateway { // an error, if nothing had left yet
			broken++
		}
	}
	if broken != 1 {
		t.Errorf("%d of 2 answers were broken, want the one that began on the bad worker", broken)
	}
}
