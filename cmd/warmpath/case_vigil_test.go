package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// canaries are those of a worker's calls that the router made of its own accord, and clients the others.
func (w *worker) canaries() (ours, clients int) {
	for _, c := range w.calls() {
		if strings.HasPrefix(c.r.Header.Get("X-Request-Id"), "warmpath-canary-") {
			ours++
		} else {
			clients++
		}
	}
	return ours, clients
}

func TestAnIdleWorkerThatBrokeIsFoundByACanaryAndTriedByOne(t *testing.T) {
	t.Parallel()
	broken := func(c *call) { c.json(http.StatusInternalServerError, `{"error":{"message":"broken"}}`) }
	completion := func(c *call) {
		if strings.HasSuffix(c.r.URL.Path, "/v1/completions") {
			c.json(http.StatusOK, `{"choices":[{"text":"2"}]}`)
			return
		}
		c.good("x")
	}
	w1, w2 := newWorker(t, broken), newWorker(t, completion)
	rt := start(t, func(c *config.Config) {
		c.Policy = "round-robin"
		c.Ejection = config.Ejection{After: 3, First: 50 * time.Millisecond, Max: 200 * time.Millisecond, Canary: 20 * time.Millisecond}
	}, w1, w2)
	eventually(t, "it to be put out without a client's request", func() bool { return rt.worker("w1").Out != nil })
	for i := range 20 { // its time is up again and again
		<-time.After(20 * time.Millisecond)
		if r := rt.post("/v1/chat/completions", short(i)); r.status != http.StatusOK {
			t.Errorf("request %d: %d %s", i, r.status, r.body)
		}
	}
	if ours, clients := w1.canaries(); clients > 0 || ours < 4 {
		t.Errorf("it was tried by %d canaries and %d clients' requests", ours, clients)
	}
	w1.on(completion)
	eventually(t, "it to be taken back", func() bool { return rt.worker("w1").Out == nil })
	for i := range 4 {
		rt.post("/v1/chat/completions", short(100+i))
	}
	if _, clients := w1.canaries(); clients == 0 {
		t.Error("back, it gets no requests")
	}
	eventually(t, "canaries to be counted", func() bool {
		return rt.metric("warmpath_canaries_total", `worker="w1"`, `outcome="failed"`) >= 3 && rt.metric("warmpath_canaries_total", `worker="w2"`, `outcome="good"`) >= 1
	})
	if n := rt.metric("warmpath_requests_total"); n != 24 {
		t.Errorf("%v requests of clients are counted, there were 24", n)
	}
}

func TestAWorkerThatTakesNoCanariesIsTriedByClients(t *testing.T) {
	t.Parallel()
	onlyChats := func(answer func(*call)) func(*call) {
		return func(c *call) {
			if strings.HasPrefix(c.r.Header.Get("X-Request-Id"), "warmpath-canary-") {
				c.json(http.StatusUnauthorized, `{"error":{"message":"whose key is this?"}}`)
				return
			}
			answer(c)
		}
	}
	w1 := newWorker(t, onlyChats(func(c *call) { c.reset() }))
	rt := start(t, func(c *config.Config) {
		c.Ejection = config.Ejection{After: 3, First: 50 * time.Millisecond, Max: 200 * time.Millisecond, Canary: 20 * time.Millisecond}
	}, w1, newWorker(t, nil))
	eventually(t, "both forms of a canary to be refused", func() bool {
		return rt.metric("warmpath_canaries_total", `worker="w1"`, `outcome="refused"`) >= 2
	})
	for i := 0; rt.worker("w1").Out == nil && i < 200; i++ {
		rt.post("/v1/chat/completions", chat(fmt.Sprint("trip ", i), false))
	}
	w1.on(onlyChats(func(c *call) { c.good("x") }))
	i := 0
	eventually(t, "a client's request to bring it back", func() bool {
		i++
		rt.post("/v1/chat/completions", short(i))
		return rt.worker("w1").Out == nil
	})
	if ours, _ := w1.canaries(); ours != 2 {
		t.Errorf("it got %d canaries though it takes none", ours)
	}
}
