package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// crowd has so many clients send n requests in all, one after the other each, and returns how many failed.
func (rt *testRouter) crowd(clients, n int, send func(i int) reply) (failed int) {
	rt.t.Helper()
	var next, bad atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if r := send(int(i)); r.status != http.StatusOK || r.err != nil {
					bad.Add(1)
				}
			}
		})
	}
	all.Wait()
	return int(bad.Load())
}

func TestAWorkerThatFailsEveryThirdRequestIsPutOutAndSaysWhy(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	third := func(c *call) {
		if asked.Add(1)%3 == 0 {
			c.json(http.StatusInternalServerError, `{"error":{"message":"broken"}}`)
			return
		}
		c.good("x")
	}
	w1 := newWorker(t, third)
	rt := start(t, func(c *config.Config) {
		c.Policy, c.Ejection.First, c.Ejection.Max, c.Ejection.SlowStart = "round-robin", time.Minute, time.Minute, 0
	}, w1, newWorker(t, nil), newWorker(t, nil))
	if failed := rt.crowd(1, 150, func(i int) reply { return rt.post("/v1/chat/completions", chat(fmt.Sprint("third ", i), false)) }); failed > 0 {
		t.Errorf("%d failed though they could be tried again", failed)
	}
	s := rt.worker("w1")
	if s.State != "ejected" || s.Out == nil || s.Out.Cause != "outlier" || !strings.Contains(s.Out.Why, " answers failed in 30s, of its peers' 0 of ") || !strings.HasSuffix(s.Out.Why, ": server_error") {
		t.Fatalf("after %d requests it is %s: %+v", w1.count(), s.State, s.Out)
	}
	if left := s.Out.Until.Sub(s.Out.Since); left != time.Minute || s.LastFault == nil || s.LastFault.Kind != "server_error" {
		t.Errorf("out for %v, last fault %+v", left, s.LastFault)
	}
	if n := w1.count(); n > 40 {
		t.Errorf("it got %d requests until then", n)
	}
	if rt.metric("warmpath_ejections_total", `worker="w1"`, `cause="outlier"`) != 1 || rt.metric("warmpath_worker_return_timestamp_seconds", `worker="w1"`) < float64(time.Now().Unix()) {
		t.Error("the metrics do not tell of it")
	}
	var e explanation
	if rt.adminCall(http.MethodPost, "/explain", chat("x", false), &e); !strings.Contains(fmt.Sprint(e.Rows), "ejected for another ") || !strings.Contains(fmt.Sprint(e.Rows), s.Out.Why) {
		t.Errorf("explained: %+v", e.Rows)
	}
	if log := rt.log.String(); !strings.Contains(log, "worker put out") || !strings.Contains(log, "cause=outlier") || !strings.Contains(log, s.Out.Why) {
		t.Error("the log does not tell of it")
	}
}

func TestAReturningWorkerIsTriedByAsManyAsItTakesAndThenStartsSlowly(t *testing.T) {
	t.Parallel()
	w1, w2 := newWorker(t, func(c *call) { c.reset() }), newWorker(t, nil)
	rt := start(t, func(c *config.Config) {
		c.Policy = "least-requests"
		c.Ejection = config.Ejection{After: 3, First: ejectFirst, Max: ejectMax, Probes: 3, SlowStart: 500 * time.Millisecond}
	}, w1, w2)
	for i := 0; rt.worker("w1").State != "ejected" && i < 200; i++ {
		rt.post("/v1/chat/completions", chat(fmt.Sprint("trip ", i), false))
	}
	if s := rt.worker("w1"); s.Out == nil || s.Out.Why != "3 faults in a row: reset" {
		t.Fatalf("%s, %+v", s.State, s.Out)
	}
	before, held := w1.count(), make(chan struct{})
	hold := func(c *call) {
		select {
		case <-held:
		case <-c.gone:
		}
		c.good("x")
	}
	w1.on(hold)
	<-time.After(ejectMax)
	eventually(t, "the other one to be past its slow start", func() bool { return rt.worker("w2").SlowStart == nil })
	var probes sync.WaitGroup
	for i := range 12 { // all at once: three of them try it
		probes.Go(func() { rt.post("/v1/chat/completions", short(i)) })
	}
	eventually(t, "three to try it", func() bool { return w1.count() >= before+3 })
	if n := w1.count() - before; n != 3 || rt.worker("w1").State != "probing" {
		t.Errorf("%d try it at one time, it is %s", n, rt.worker("w1").State)
	}
	close(held)
	probes.Wait()
	s := rt.worker("w1")
	if s.State != "ready" || rt.metric("warmpath_worker_slow_start_ratio", `worker="w2"`) != 1 {
		t.Errorf("after three good answers it is %s", s.State)
	}
	again := make(chan struct{})
	slow := func(c *call) {
		select {
		case <-again:
		case <-c.gone:
		}
		c.good("x")
	}
	w1.on(slow)
	w2.on(slow)
	mine, others := w1.count(), w2.count()
	var crowd sync.WaitGroup
	for i := range 40 {
		crowd.Go(func() { rt.post("/v1/chat/completions", short(100+i)) })
	}
	eventually(t, "all to be there", func() bool { return w1.count()+w2.count() == mine+others+40 })
	part := 1.0 // at most so far into it, whenever that was
	if s := rt.worker("w1").SlowStart; s != nil {
		part = *s
	}
	if got := w1.count() - mine; float64(got) > 1+part*40 {
		t.Errorf("at %.2f of its slow start it got %d of 40 at once", part, got)
	}
	close(again)
	crowd.Wait()
	eventually(t, "the log to tell that it is back", func() bool { return strings.Contains(rt.log.String(), "worker is back") })
}

func TestWhereItIsStrictRequestsOfAModelThatNobodyServesWellAreRefused(t *testing.T) {
	t.Parallel()
	w1 := newWorker(t, func(c *call) { c.reset() })
	rt := start(t, func(c *config.Config) {
		c.Ejection.Strict, c.Ejection.First, c.RetriesMax, c.Queue.Hold = true, 30*time.Second, 0, 0
	}, w1)
	for i := range 3 {
		rt.post("/v1/chat/completions", short(i))
	}
	r := rt.post("/v1/chat/completions", short(3))
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "1 of 1 ejected") || !strings.Contains(r.body, "3 faults in a row: reset") || !json.Valid([]byte(r.body)) {
		t.Errorf("%d, Retry-After %q: %s", r.status, r.header.Get("Retry-After"), r.body)
	}
	if n := w1.count(); n != 3 {
		t.Errorf("it was asked %d times", n)
	}
	if r := rt.get("/readyz"); r.status != http.StatusServiceUnavailable {
		t.Errorf("nobody is there, and it is ready: %d", r.status)
	}
}

func TestASlowWorkerGetsLessByTheDefaultPolicy(t *testing.T) {
	t.Parallel()
	var stretch atomic.Int64 // of the first worker
	stretch.Store(1)
	answering := func(times func() time.Duration) func(*call) {
		return func(c *call) {
			c.events()
			c.wait(10 * time.Millisecond * times())
			for range 8 {
				c.send(deltaOf("x"))
				c.wait(2 * time.Millisecond * times())
			}
			c.send("data: [DONE]\n\n")
		}
	}
	once := func() time.Duration { return 1 }
	w1 := newWorker(t, answering(func() time.Duration { return time.Duration(stretch.Load()) }))
	rt := start(t, nil, w1, newWorker(t, answering(once)), newWorker(t, answering(once)))
	send := func(i int) reply {
		return rt.post("/v1/chat/completions", chat(fmt.Sprint(stretch.Load(), " of its own, ", i), true))
	}
	part := func(n int) int {
		before := w1.count()
		if failed := rt.crowd(6, n, send); failed > 0 {
			t.Errorf("%d failed", failed)
		}
		return w1.count() - before
	}
	part(60)
	even := part(120)
	stretch.Store(6)
	part(120) // it is learned
	slow := part(120)
	if even < 20 || slow > 2*even/3 {
		t.Errorf("of 120 it got %d as one of three equals, and %d when it takes six times as long", even, slow)
	}
	if s := rt.worker("w1").State; s != "ready" || rt.metric("warmpath_ejections_total") > 0 {
		t.Errorf("slow is not broken, and it is %s", s)
	}
}

func TestHLT_01_ARequestThatBreaksEveryWorkerIsNoWorkersFault(t *testing.T) {
	t.Parallel()
	script := func(c *call) {
		if strings.Contains(string(c.body), "poison") {
			c.json(http.StatusInternalServerError, `{"error":{"message":"broken"}}`)
			return
		}
		c.good("x")
	}
	rt := start(t, func(c *config.Config) { c.Policy, c.RetriesMax = "round-robin", 1 }, newWorker(t, script), newWorker(t, script))
	for i := range 8 { // no more than there are retries for: one that is not tried again elsewhere proves nothing
		for j := range 5 {
			rt.post("/v1/chat/completions", chat(fmt.Sprint("good ", i, " ", j), false))
		}
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("poison ", i), false)); r.status != http.StatusInternalServerError {
			t.Fatalf("poison %d: %d %s", i, r.status, r.body)
		}
	}
	for i := range 6 {
		rt.post("/v1/chat/completions", chat(fmt.Sprint("nothing but poison ", i), false))
	}
	if n := rt.metric("warmpath_ejections_total"); n != 0 {
		t.Errorf("%v ejections", n)
	}
}
