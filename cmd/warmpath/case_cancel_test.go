package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// leftSoon is how soon a worker must see the connection closed once its client has left: fifty milliseconds by the product's word, more here
// because the machine that tests may be busy; what the word says is measured by the median.
const leftSoon = time.Second

func TestCAN_01_AClientThatLeavesDuringASilentPrefillFreesItsWorker(t *testing.T) {
	left := make(chan time.Time, 1)
	w := newWorker(t, func(c *call) { c.events(); c.stall(); left <- time.Now() })
	rt := start(t, nil, w)
	ctx, leave := context.WithCancel(t.Context())
	resp, err := rt.open(ctx, "/v1/chat/completions", chat("silence", true))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	leave()
	gone := time.Now()
	select {
	case at := <-left:
		if d := at.Sub(gone); d > leftSoon {
			t.Errorf("the worker saw its connection closed %v after the client left", d)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the worker never saw its connection closed")
	}
	rt.idle()
	if c, f := rt.metric("warmpath_requests_total", `outcome="cancelled"`), rt.metric("warmpath_upstream_errors_total"); c != 1 || f != 0 {
		t.Errorf("%v cancelled requests and %v worker errors, want 1 and 0", c, f)
	}
}

func TestCAN_02_AClientThatWaitsForAWholeAnswerMayLeaveToo(t *testing.T) {
	w := newWorker(t, func(c *call) { c.stall() })
	rt := start(t, nil, w)
	rt.post("/v1/chat/completions", `{"model":"nobody"}`) // everything that is made once is made
	before := runtime.NumGoroutine()
	const clients = 100
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { rt.do(ctx, http.MethodPost, "/v1/chat/completions", chat(fmt.Sprint("whole ", i), false)) })
	}
	eventually(t, "all requests to reach the worker", func() bool { return w.count() == clients })
	leave()
	all.Wait()
	for _, c := range w.calls() {
		select {
		case <-c.ended:
		case <-time.After(5 * time.Second):
			t.Fatal("a worker's connection stayed open after its client had left")
		}
	}
	rt.idle()
	rt.http.CloseIdleConnections()
	eventually(t, "goroutines to be back", func() bool { return runtime.NumGoroutine() <= before+5 })
	if c := rt.metric("warmpath_requests_total", `outcome="cancelled"`); c != clients {
		t.Errorf("%v cancelled requests, want %d", c, clients)
	}
}

func TestCAN_02_AClientThatLeavesWhileItsBodyIsSentFreesItsWorker(t *testing.T) {
	for _, stream := range []bool{false, true} {
		w := newWorker(t, func(c *call) { c.good("hello") })
		rt := start(t, nil, w)
		ctx, leave := context.WithCancel(t.Context())
		body := newTrickle(chat(strings.Repeat("long ", 5000), stream), leave)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, rt.DataURL()+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		read(rt.http.Do(req))
		rt.idle()
		if w.count() != 0 {
			t.Errorf("stream %v: a request whose body never came whole reached a worker", stream)
		}
	}
}

// trickle hands out half of a body and then leaves.
type trickle struct {
	rest  string
	leave func()
}

func newTrickle(text string, leave func()) *trickle { return &trickle{text[:len(text)/2], leave} }

func (b *trickle) Read(p []byte) (int, error) {
	if b.rest == "" {
		b.leave()
		return 0, context.Canceled
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func TestCAN_03_ADeadlineOfTheRouterEndsTheWorkersRequestToo(t *testing.T) {
	for _, retries := range []int{0, 2} {
		w1, w2 := newWorker(t, func(c *call) { c.stall() }), newWorker(t, func(c *call) { c.stall() })
		rt := start(t, func(c *config.Config) { c.Timeouts.Header = 300 * time.Millisecond; c.RetriesMax = retries }, w1, w2)
		r := rt.post("/v1/chat/completions", chat("deadline", false))
		if r.status != http.StatusGatewayTimeout || !strings.Contains(r.body, "timeouts.header") {
			t.Errorf("retries %d: got %d %s, want 504 that names the setting", retries, r.status, r.body)
		}
		calls := append(w1.calls(), w2.calls()...)
		for _, c := range calls {
			select {
			case <-c.ended:
			case <-time.After(5 * time.Second):
				t.Fatal("a worker was left with an open request")
			}
		}
		if len(calls) > 1+retries {
			t.Errorf("retries %d: %d attempts", retries, len(calls))
		}
		rt.idle()
	}
}
