package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// house is a router before one worker that takes so many requests at a time and answers each when it is told to.
type house struct {
	*testRouter
	w     *worker
	turns chan struct{} // each ends one request; closed, all of them
	open  sync.Once
}

func newHouse(t *testing.T, slots int, change func(*config.Config)) *house {
	t.Helper()
	h := &house{turns: make(chan struct{})}
	h.w = newWorker(t, func(c *call) {
		select {
		case <-h.turns:
			c.good("done")
		case <-c.gone:
		}
	})
	h.testRouter = start(t, func(c *config.Config) {
		c.InFlightMax, c.AccessLog = slots, true
		if change != nil {
			change(c)
		}
	}, h.w)
	return h
}

// all lets everybody through from now on.
func (h *house) all() { h.open.Do(func() { close(h.turns) }) }

// ask sends a request on its own and returns where its answer comes.
func (h *house) ask(ctx context.Context, body string, headers ...string) <-chan reply {
	out := make(chan reply, 1)
	go func() { out <- h.do(ctx, http.MethodPost, "/v1/chat/completions", body, headers...) }()
	return out
}

// inside waits until so many requests are at the worker and so many in the queue.
func (h *house) inside(running, waiting int) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("%d requests at the worker and %d in the queue", running, waiting), func() bool {
		s := h.state()
		return s.Queue.Waiting == waiting && s.Workers[0].InFlight == running
	})
}

// empty checks that the queue has forgotten all that waited.
func (h *house) empty() {
	h.t.Helper()
	h.idle()
	q := h.state().Queue
	if q.Waiting != 0 || q.Bytes != 0 || q.Work != 0 || q.Fill != 0 || q.Tenants != 0 {
		h.t.Errorf("left behind in the queue: %+v", q)
	}
	if n := h.metric("warmpath_queue_waiting_requests") + h.metric("warmpath_queue_bytes") + h.metric("warmpath_queue_work_seconds"); n != 0 {
		h.t.Errorf("the metrics of an empty queue come to %v", n)
	}
}

// refused says what the queue answered: the reason that a refusal has in its code.
func refused(r reply) string {
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		return fmt.Sprintf("status %d, Retry-After %q: %s %v", r.status, r.header.Get("Retry-After"), r.body, r.err)
	}
	_, code, _ := strings.Cut(r.body, `"code":"`)
	code, _, _ = strings.Cut(code, `"`)
	return code
}

func TestFLW01AllWhoWaitAreServedOnceThereIsRoom(t *testing.T) {
	h := newHouse(t, 1, nil)
	first := h.ask(t.Context(), chat("first", false))
	h.inside(1, 0)
	var waiting []<-chan reply
	for i := range 10 {
		waiting = append(waiting, h.ask(t.Context(), chat(fmt.Sprint("waits ", i), false), "X-Tenant-Id", "quiet"))
	}
	h.inside(1, 10)
	if n := h.metric("warmpath_queue_waiting_requests", `class="standard"`); n != 10 {
		t.Errorf("the gauge says %v", n)
	}
	h.all()
	for _, answer := range append(waiting, first) {
		if r := <-answer; r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	h.empty()
	if n := h.metric("warmpath_queue_requests_total", `result="placed"`); n != 10 {
		t.Errorf("%v were placed after waiting", n)
	}
}

func TestFLW02WhatWaitsIsBoundAndNothingOfItIsLeftBehind(t *testing.T) {
	const held = 9 // of 100 kB fit into 90 % of 1 MiB
	h := newHouse(t, 1, func(c *config.Config) { c.Queue.BytesMax = 1 << 20 })
	text := strings.Repeat("x", 100_000)
	for round := range 5 {
		first := h.ask(t.Context(), chat(fmt.Sprint("first ", round), false))
		h.inside(1, 0)
		leave, gone := context.WithCancel(t.Context())
		var stays, leaves, late []<-chan reply
		for i := range held {
			body := chat(fmt.Sprint(round, " ", i, text), false)
			switch {
			case i < 4:
				leaves = append(leaves, h.ask(leave, body))
			case i < 6:
				late = append(late, h.ask(t.Context(), body, "X-Request-Timeout-Ms", "30000"))
			default:
				stays = append(stays, h.ask(t.Context(), body))
			}
		}
		h.inside(1, held)
		for i := range 20 {
			if why := refused(<-h.ask(t.Context(), chat(fmt.Sprint(round, " too much ", i, text), false))); why != "queue_full" {
				t.Errorf("beyond the bound: %s", why)
			}
		}
		if q := h.state().Queue; q.Bytes > 1<<20 || q.Waiting != held {
			t.Errorf("%+v", q)
		}
		gone()
		h.inside(1, held-len(leaves))
		for range 1 + len(late) + len(stays) {
			h.turns <- struct{}{}
		}
		for _, answer := range append(append(stays, late...), first) {
			if r := <-answer; r.status != http.StatusOK {
				t.Errorf("%d %s", r.status, r.body)
			}
		}
		h.empty()
	}
}

func TestFLW04EachRequestLeavesAtTheNearestOfItsLimitsAndIsNeverServedLater(t *testing.T) {
	h := newHouse(t, 1, func(c *config.Config) {
		c.Queue.Class = "interactive"
		for i, most := range []time.Duration{400 * time.Millisecond, time.Hour, 900 * time.Millisecond} {
			c.Queue.Classes[i].WaitMax = most
		}
	})
	patient, end := context.WithTimeout(t.Context(), patience())
	defer end()
	first := h.ask(t.Context(), chat("first", false))
	h.inside(1, 0)
	for _, c := range []struct {
		least   time.Duration
		headers []string
	}{
		{400 * time.Millisecond, nil},
		{900 * time.Millisecond, []string{"X-Warmpath-Class", "batch"}},
		{100 * time.Millisecond, []string{"X-Warmpath-Class", "standard", "X-Request-Timeout-Ms", "100"}}, // else it would wait for an hour
		{400 * time.Millisecond, []string{"X-Request-Timeout-Ms", "60000"}},
	} {
		began := time.Now()
		if why, took := refused(<-h.ask(patient, chat("late", false), c.headers...)), time.Since(began); why != "queue_timeout" || took < c.least {
			t.Errorf("%v: %s after %v, want queue_timeout after %v", c.headers, why, took, c.least)
		}
	}
	h.all()
	<-first
	h.empty()
	if n := h.w.count(); n != 1 {
		t.Errorf("the worker saw %d requests, and one had room", n)
	}
	for _, name := range []string{"warmpath_queue_requests_total", "warmpath_queue_wait_seconds_count"} {
		if n := h.metric(name, `result="timed_out"`); n != 4 {
			t.Errorf("%s: %v timed out", name, n)
		}
	}
	if !strings.Contains(h.log.String(), "refused=queue_timeout") {
		t.Error("the access log does not say why")
	}
}

func TestFLW04AnthropicsClientsAreToldInTheirWords(t *testing.T) {
	h := newHouse(t, 1, func(c *config.Config) { c.Queue.Classes[1].WaitMax = 50 * time.Millisecond })
	first := h.ask(t.Context(), chat("first", false))
	h.inside(1, 0)
	r := h.post("/v1/messages", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"late"}]}`, "Anthropic-Version", "2023-06-01")
	if r.status != 529 || !strings.Contains(r.body, `"overloaded_error"`) || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	h.all()
	<-first
}

func TestFLW05RequestsAreHeldUntilAWorkerComes(t *testing.T) {
	rt := start(t, func(c *config.Config) { c.Queue.Hold = time.Minute })
	h := &house{testRouter: rt}
	leave, gone := context.WithCancel(t.Context())
	var served, left []<-chan reply
	for i := range 20 {
		body := chat(fmt.Sprint("held ", i), i%2 == 0)
		if i < 4 {
			left = append(left, h.ask(leave, body))
		} else {
			served = append(served, h.ask(t.Context(), body))
		}
	}
	eventually(t, "20 to wait", func() bool { return h.state().Queue.Waiting == 20 })
	gone()
	for _, answer := range left {
		<-answer
	}
	eventually(t, "those that left to be forgotten", func() bool { return h.state().Queue.Waiting == 16 })
	w := newWorker(t, nil)
	if status := h.adminCall(http.MethodPost, "/workers", `{"url":"`+w.url+`"}`, nil); status != http.StatusCreated {
		t.Fatal(status)
	}
	for _, answer := range served {
		if r := <-answer; r.status != http.StatusOK || !strings.Contains(r.body, "world") {
			t.Errorf("%d %s %v", r.status, r.body, r.err)
		}
	}
	h.empty()
	if n := w.count(); n != len(served) {
		t.Errorf("the worker saw %d requests of %d", n, len(served))
	}
	for result, want := range map[string]int{"placed": len(served), "left": len(left), "timed_out": 0} {
		if n := h.metric("warmpath_queue_wait_seconds_count", `result="`+result+`"`); n != float64(want) {
			t.Errorf("%v waits %s, want %d", n, result, want)
		}
	}
}

func TestFLW05WhereNoneComesTheAnswerComesWhenTheHoldIsOver(t *testing.T) {
	for hold, reason := range map[time.Duration]string{200 * time.Millisecond: "queue_timeout", 0: "overloaded"} {
		h := &house{testRouter: start(t, func(c *config.Config) { c.Queue.Hold = hold })}
		began := time.Now()
		if why := refused(<-h.ask(t.Context(), chat("nobody", false))); why != reason || time.Since(began) < hold {
			t.Errorf("hold %v: %s after %v", hold, why, time.Since(began))
		}
	}
}

// served is the prompts that the worker has seen, in order.
func (h *house) served() (words []string) {
	for _, c := range h.w.calls() {
		_, text, _ := strings.Cut(string(c.body), `"content":"`)
		text, _, _ = strings.Cut(text, `"`)
		words = append(words, text)
	}
	return words
}

// line has requests wait, one after the other.
func (h *house) line(n int, name string, headers ...string) (all []<-chan reply) {
	h.t.Helper()
	before := h.state().Queue.Waiting
	for i := range n {
		all = append(all, h.ask(h.t.Context(), chat(fmt.Sprintf("%s %02d", name, i), false), headers...))
		eventually(h.t, "the next to wait", func() bool { return h.state().Queue.Waiting == before+i+1 })
	}
	return all
}

func TestFLW06AFewAmongManyWaitLittleAndNobodyOvertakesHimself(t *testing.T) {
	h := newHouse(t, 1, nil)
	first := h.ask(t.Context(), chat("first", false))
	h.inside(1, 0)
	all := append(h.line(30, "a", "X-Tenant-Id", "a"), h.line(1, "b", "X-Tenant-Id", "b")...)
	h.all()
	for _, answer := range append(all, first) {
		<-answer
	}
	words := h.served()
	if at := slices.Index(words, "b 00"); at < 0 || at > 3 {
		t.Errorf("the only request of its tenant came as number %d: %v", at, words)
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, "a ") })
	if !slices.IsSorted(words) || len(words) != 30 {
		t.Errorf("the other's order was not kept: %v", words)
	}
}

func TestFLW06AClassBelowGetsItsShareWhenItHasStarved(t *testing.T) {
	h := newHouse(t, 1, func(c *config.Config) {
		c.Queue.Class, c.Queue.AgeAfter, c.Queue.AgedShare = "interactive", time.Nanosecond, 0.5
	})
	first := h.ask(t.Context(), chat("first", false))
	h.inside(1, 0)
	all := append(h.line(10, "low", "X-Warmpath-Class", "batch"), h.line(20, "high")...)
	h.all()
	for _, answer := range append(all, first) {
		<-answer
	}
	words := h.served()
	lastHigh, firstLow := slices.Index(words, "high 19"), slices.Index(words, "low 00")
	if firstLow < 1 || firstLow > lastHigh {
		t.Errorf("the class below waited for all above it, or for none: %v", words)
	}
}

func TestFLW06ATenantWhoComesWithManyTakesNoMoreThanItsShare(t *testing.T) {
	const known = 20
	h := newHouse(t, 1, nil)
	for i := range known { // what a request takes is known then: shares are of engine time
		answer := h.ask(t.Context(), chat(fmt.Sprint("known ", i), false))
		h.turns <- struct{}{}
		<-answer
	}
	first := h.ask(t.Context(), chat("first", false))
	h.inside(1, 0)
	all := append(h.line(12, "a", "X-Tenant-Id", "a"), h.line(12, "b", "X-Tenant-Id", "b")...)
	all = append(all, h.line(30, "c", "X-Tenant-Id", "c")...)
	h.all()
	for _, answer := range append(all, first) {
		<-answer
	}
	share := map[string]int{}
	for _, w := range h.served()[known+1 : known+25] { // as long as all three have something waiting
		share[w[:1]]++
	}
	if share["a"] < 6 || share["b"] < 6 {
		t.Errorf("of the first 24 turns: %v", share)
	}
}
