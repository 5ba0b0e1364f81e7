package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// worker is one worker as /state shows it.
func (rt *testRouter) worker(id string) workerState {
	rt.t.Helper()
	for _, w := range rt.state().Workers {
		if w.ID == id {
			return w
		}
	}
	rt.t.Fatalf("no worker %s", id)
	return workerState{}
}

func TestHLT_01_ClientErrorsAreNobodysFault(t *testing.T) {
	refusal := func(status int) string {
		return fmt.Sprintf(`{"error":{"message":"own  words %d","type":"x"}}`, status)
	}
	script := func(c *call) {
		_, rest, _ := strings.Cut(string(c.body), "status ")
		var status int
		if n, _ := fmt.Sscan(rest, &status); n == 0 {
			c.good("fine")
			return
		}
		c.json(status, refusal(status))
	}
	w1, w2 := newWorker(t, script), newWorker(t, script)
	rt := start(t, nil, w1, w2)
	for _, of := range []struct{ status, times int }{{400, 50}, {404, 20}, {413, 20}, {422, 20}, {401, 20}, {403, 10}, {409, 10}, {415, 10}} {
		for i := range of.times {
			before := w1.count() + w2.count()
			r := rt.post("/v1/chat/completions", chat(fmt.Sprintf("status %d please, %d", of.status, i), i%2 == 0))
			if r.status != of.status || r.body != refusal(of.status) {
				t.Fatalf("status %d became %d %s", of.status, r.status, r.body)
			}
			if w1.count()+w2.count() != before+1 {
				t.Fatalf("status %d was tried again elsewhere", of.status)
			}
		}
	}
	for i := range 20 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("good ", i), i%2 == 0)); r.status != http.StatusOK {
			t.Errorf("good request %d: %d %s", i, r.status, r.body)
		}
	}
	if ejections, errors := rt.metric("warmpath_ejections_total"), rt.metric("warmpath_upstream_errors_total"); ejections != 0 || errors != 0 {
		t.Errorf("%v ejections, and %v errors count against the workers", ejections, errors)
	}
	for _, id := range []string{"w1", "w2"} {
		if s := rt.worker(id).State; s != "ready" {
			t.Errorf("%s is %s", id, s)
		}
	}
}

func TestHLT_02_BackPressureOpensNoBreaker(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		for _, wait := range []string{"1", "3600", ""} {
			t.Run(fmt.Sprint(status, " after ", wait), func(t *testing.T) {
				full := func(c *call) {
					if wait != "" {
						c.w.Header().Set("Retry-After", wait)
					}
					c.json(status, `{"error":{"message":"full"}}`)
				}
				w1 := newWorker(t, full)
				rt := start(t, nil, w1)
				for i := range 20 {
					r := rt.post("/v1/chat/completions", chat(fmt.Sprint("busy ", i), i%2 == 0))
					if r.status != status || r.header.Get("Retry-After") != wait || r.body != `{"error":{"message":"full"}}` {
						t.Fatalf("request %d: %d, Retry-After %q, %s", i, r.status, r.header.Get("Retry-After"), r.body)
					}
				}
				w1.on(nil)
				if r := rt.post("/v1/chat/completions", chat("idle again", false)); r.status != http.StatusOK {
					t.Errorf("the first request after the recovery: %d %s", r.status, r.body)
				}
				if n := rt.metric("warmpath_ejections_total"); n != 0 {
					t.Errorf("%v ejections", n)
				}
				if n := rt.metric("warmpath_retries_total"); n != 0 {
					t.Errorf("%v retries are counted, and there is nobody to try", n)
				}
			})
		}
	}
}

func TestHLT_02_WorkersThatAreAllBusyAreAllBackAtOnce(t *testing.T) {
	full := func(c *call) { c.json(http.StatusServiceUnavailable, `{"error":{"message":"full"}}`) }
	w1, w2 := newWorker(t, full), newWorker(t, full)
	rt := start(t, func(c *config.Config) { c.Policy = "round-robin" }, w1, w2)
	for i := range 20 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("all busy ", i), false)); r.status != http.StatusServiceUnavailable {
			t.Fatalf("request %d: %d %s", i, r.status, r.body)
		}
	}
	if n := rt.metric("warmpath_ejections_total"); n != 0 || w1.count() < 5 || w2.count() < 5 { // neither is the last, which stays whatever it does
		t.Errorf("%v ejections; the workers were asked %d and %d times", n, w1.count(), w2.count())
	}
	w1.on(nil)
	w2.on(nil)
	for i := range 4 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("idle again ", i), false)); r.status != http.StatusOK {
			t.Errorf("after the recovery: %d %s", r.status, r.body)
		}
	}
}

func TestHLT_02_AnotherWorkerIsPreferredToABusyOne(t *testing.T) {
	w1 := newWorker(t, func(c *call) { c.w.Header().Set("Retry-After", "30"); c.json(http.StatusServiceUnavailable, `{}`) })
	w2 := newWorker(t, nil)
	rt := start(t, nil, w1, w2)
	for i := range 40 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("beside a busy one ", i), false)); r.status != http.StatusOK {
			t.Errorf("request %d: %d %s", i, r.status, r.body)
		}
	}
	if n := w1.count(); n > 1 {
		t.Errorf("the busy worker was asked %d times", n)
	}
}

// The breaker's times in these tests.
const (
	ejectFirst = 100 * time.Millisecond
	ejectMax   = 200 * time.Millisecond
)

// tripped is a router before two workers of which the first was put out by resets and is healed now: script is what it does next.
func tripped(t *testing.T, script func(*call)) (rt *testRouter, w1, w2 *worker) {
	w1, w2 = newWorker(t, func(c *call) { c.reset() }), newWorker(t, nil)
	rt = start(t, func(c *config.Config) { c.Ejection = config.Ejection{After: 3, First: ejectFirst, Max: ejectMax} }, w1, w2)
	for i := 0; rt.worker("w1").State != "ejected"; i++ {
		if i == 200 {
			t.Fatal("200 requests did not put the resetting worker out")
		}
		rt.post("/v1/chat/completions", chat(fmt.Sprint("trip ", i), false))
	}
	w1.on(script)
	return rt, w1, w2
}

// closes sends requests until w1 is back. They may not fail, and must not be many once its time is up.
func (rt *testRouter) closes(w1 *worker, body func(i int) string) {
	rt.t.Helper()
	<-time.After(ejectMax + 20*time.Millisecond) // the longest cool-down
	for i := range 3 {
		if r := rt.post("/v1/chat/completions", body(i)); r.status != http.StatusOK {
			rt.t.Errorf("request %d: %d %s", i, r.status, r.body)
		}
		if rt.worker("w1").State == "ready" {
			return
		}
	}
	rt.t.Errorf("three requests after its time was up, the recovered worker is %s and saw %d requests", rt.worker("w1").State, w1.count())
}

func short(i int) string { return chat(fmt.Sprint("after ", i), false) }

// probeWith sends requests until w1 has one, whose context is leave's. done is closed when it is over.
func (rt *testRouter) probeWith(w1 *worker, stream bool) (leave context.CancelFunc, done chan struct{}) {
	rt.t.Helper()
	before := w1.count()
	for i := range 2000 {
		ctx, cancel := context.WithCancel(rt.t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			rt.do(ctx, http.MethodPost, "/v1/chat/completions", chat(fmt.Sprint("probe ", i), stream))
		}()
		eventually(rt.t, "a request to end or to be the probe", func() bool {
			select {
			case <-over:
				return true
			default:
				return w1.count() > before
			}
		})
		if w1.count() > before {
			return cancel, over
		}
		cancel()
		<-time.After(time.Millisecond)
	}
	rt.t.Fatal("nobody tries the worker whose time is up")
	return nil, nil
}

func TestHLT_03_ACancelledProbeProvesNothingAndFreesItsPlace(t *testing.T) {
	for _, stream := range []bool{false, true} {
		rt, w1, _ := tripped(t, func(c *call) { c.stall() })
		ejections := rt.metric("warmpath_ejections_total")
		leave, done := rt.probeWith(w1, stream)
		probes := w1.count()
		if s := rt.worker("w1").State; s != "probing" {
			t.Errorf("while it is tried it is %s", s)
		}
		for i := range 10 { // one probe at a time (for as long as it is not overdue)
			if r := rt.post("/v1/chat/completions", short(i)); r.status != http.StatusOK {
				t.Errorf("beside the probe: %d %s", r.status, r.body)
			}
		}
		if n := w1.count(); n > probes+1 {
			t.Errorf("%d probes at once", n-probes+1)
		}
		leave()
		<-done
		eventually(t, "the probe's place to be free", func() bool { return rt.worker("w1").State != "probing" || w1.count() > probes })
		if n := rt.metric("warmpath_ejections_total"); n != ejections {
			t.Errorf("a cancelled probe counts as a failure: %v ejections, %v before", n, ejections)
		}
		w1.on(nil)
		rt.closes(w1, short)
	}
}

func TestHLT_03_ALongStreamAsProbeClosesTheBreakerWithItsFirstEvent(t *testing.T) {
	release := make(chan struct{})
	rt, w1, w2 := tripped(t, func(c *call) {
		if c.wantsStream() {
			c.events()
			c.send(deltaOf("x"))
			select {
			case <-release:
			case <-c.gone:
			}
			c.send("data: [DONE]\n\n")
			return
		}
		c.good("x")
	})
	_, done := rt.probeWith(w1, true)
	eventually(t, "the worker to be back while its probe goes on", func() bool { return rt.worker("w1").State == "ready" })
	slow := func(c *call) { c.wait(50 * time.Millisecond); c.good("x") }
	w1.on(slow)
	w2.on(slow)
	if got := shares(rt, []*worker{w1, w2}, 40, func(i int) reply { return rt.post("/v1/chat/completions", short(i)) }); got[0] < 10 {
		t.Errorf("of 40 requests the recovered worker got %d", got[0])
	}
	close(release)
	<-done
}

func TestHLT_03_ASilentProbeDoesNotKeepItsWorkerOutForEver(t *testing.T) {
	release := make(chan struct{})
	rt, w1, _ := tripped(t, func(c *call) {
		if strings.Contains(string(c.body), "probe") { // a long answer that is not streamed
			select {
			case <-release:
			case <-c.gone:
			}
		}
		c.good("x")
	})
	_, done := rt.probeWith(w1, false)
	rt.closes(w1, short)
	close(release)
	<-done
}

func TestHLT_03_ALongTimeWithoutTrafficChangesNothing(t *testing.T) {
	rt, w1, _ := tripped(t, nil)
	<-time.After(5 * ejectMax)
	if s := rt.worker("w1").State; s != "ejected" {
		t.Errorf("without proof it is %s", s)
	}
	rt.closes(w1, short)
}

func TestHLT_03_AWorkerWhosePromptsAreWarmElsewhereIsTried(t *testing.T) {
	warm := strings.Repeat("a beginning that the other worker holds ", 300)
	bound := func(i int) string { return chat(warm+fmt.Sprint(i), false) }
	for _, policy := range []string{"warm-cost", "session-hash", "least-requests"} {
		rt, w1, _ := tripped(t, nil)
		rt.adminCall(http.MethodPost, "/policy", fmt.Sprintf(`{"policy":%q}`, policy), nil)
		for i := range 20 {
			rt.post("/v1/chat/completions", bound(i), "X-Session-Id", "one")
		}
		rt.closes(w1, bound)
	}
}

func TestHLT_04_FailingFastDoesNotLookLikeIdleness(t *testing.T) {
	slow := func(c *call) { c.wait(100 * time.Millisecond); c.good("x") }
	failing := map[string]func(*call){
		"500": func(c *call) {
			c.wait(time.Millisecond)
			c.json(http.StatusInternalServerError, `{"error":{"message":"broken"}}`)
		},
		"reset":   func(c *call) { c.reset() },
		"garbage": func(c *call) { conn := c.raw(); io.WriteString(conn, "no HTTP at all\r\n\r\n"); conn.Close() },
		"an error event": func(c *call) {
			if !c.wantsStream() {
				c.json(http.StatusBadGateway, `{}`)
				return
			}
			c.events()
			c.send(`data: {"error":{"message":"broken","type":"InternalServerError","code":500}}` + "\n\n")
		},
	}
	for name, script := range failing {
		for _, of := range []struct {
			policy  string
			retries int
		}{{"least-requests", 0}, {"least-requests", 2}, {"warm-cost", 2}} {
			t.Run(fmt.Sprint(name, " ", of.policy, " ", of.retries), func(t *testing.T) {
				t.Parallel()
				w1 := newWorker(t, script)
				rt := start(t, func(c *config.Config) {
					c.Policy, c.RetriesMax = of.policy, of.retries
					c.Ejection.First = 200 * time.Millisecond // the recipe's five seconds in one
				}, w1, newWorker(t, slow), newWorker(t, slow))
				var failed atomic.Int32
				var all sync.WaitGroup
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for i := range 100 {
					<-tick.C
					all.Go(func() {
						r := rt.post("/v1/chat/completions", chat(fmt.Sprint("steady ", i), i%2 == 0))
						if r.status != http.StatusOK || r.err != nil || strings.Contains(r.body, "broken") {
							failed.Add(1)
						}
					})
				}
				all.Wait()
				if n := w1.count(); n > 10+4 {
					t.Errorf("the failing worker got %d of 100", n)
				}
				if n := failed.Load(); of.retries > 0 && name != "garbage" && n > 0 {
					t.Errorf("%d failed though they could be tried again", n)
				} else if int(n) > w1.count() {
					t.Errorf("%d failed, the failing worker got %d", n, w1.count())
				}
			})
		}
	}
}
