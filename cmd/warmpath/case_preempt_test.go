package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
)

// preempts lets interactive requests, which are the usual ones, take the place of batch work after so long.
func preempts(after time.Duration) func(*config.Config) {
	return func(c *config.Config) {
		c.Queue.Class = c.Queue.Classes[0].Name
		c.Queue.Classes[0].PreemptsAfter, c.Queue.Classes[2].Preemptible = after, true
	}
}

// batch is how a request asks for the class that gives way.
var batch = []string{"X-Warmpath-Class", "batch"}

// calls waits until the worker has seen so many requests, and returns the last one.
func (h *house) calls(n int) *call {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("the worker's request number %d", n), func() bool { return h.w.count() >= n })
	return h.w.calls()[n-1]
}

// gaveWay waits until the class' work gave way so many times, and returns how often and how many seconds were wasted.
func (h *house) gaveWay(n uint64) (wasted float64) {
	h.t.Helper()
	eventually(h.t, "work to give way", func() bool { return h.state().Queue.Classes[2].Preempted == n })
	return h.state().Queue.Classes[2].Wasted
}

func TestPreemptedWorkIsEndedAtItsEngineAndAnsweredOnceAfterwards(t *testing.T) {
	for _, stream := range []bool{false, true} {
		h := newHouse(t, 1, preempts(50*time.Millisecond))
		if stream {
			h.w.on(func(c *call) {
				c.events() // the head alone is no byte of an answer
				select {
				case <-h.turns:
					c.send(deltaOf("done") + "data: [DONE]\n\n")
				case <-c.gone:
				}
			})
		}
		job := h.ask(t.Context(), chat("nightly", stream), batch...)
		first := h.calls(1)
		urgent := h.ask(t.Context(), chat("urgent", stream))
		<-first.ended
		if !first.left {
			t.Error("the worker was not told that its work is not wanted any more")
		}
		if second := h.calls(2); !strings.Contains(string(second.body), "urgent") {
			t.Errorf("the worker's next request is %s", second.body)
		}
		wasted := h.gaveWay(1)
		h.inside(1, 1)
		h.turns <- struct{}{}
		if r := <-urgent; r.status != http.StatusOK || r.header.Get("X-Warmpath-Preempted") != "" {
			t.Errorf("urgent: %d %v", r.status, r.header)
		}
		if third := h.calls(3); !strings.Contains(string(third.body), "nightly") || string(third.body) != string(first.body) {
			t.Errorf("then it was sent %s", third.body)
		}
		h.turns <- struct{}{}
		r := <-job
		want := 1
		if stream {
			want = strings.Count(deltaOf("done"), "done")
		}
		if r.status != http.StatusOK || r.header.Get("X-Warmpath-Preempted") != "1" || strings.Count(r.body, "done") != want || r.err != nil {
			t.Errorf("stream %v: %d %v %s %v", stream, r.status, r.header, r.body, r.err)
		}
		h.empty()
		if h.w.count() != 3 {
			t.Errorf("the worker saw %d requests", h.w.count())
		}
		if n, seconds := h.metric("warmpath_queue_preempted_total", `class="batch"`), h.metric("warmpath_queue_wasted_seconds_total", `class="batch"`); n != 1 || seconds != wasted || seconds <= 0 {
			t.Errorf("%v gave way, %v s wasted, in the state %v s", n, seconds, wasted)
		}
		if !strings.Contains(h.log.String(), "preempted=1 wasted_seconds=") {
			t.Error("the access log does not tell of it")
		}
		if s := h.state().Workers[0]; s.State != "ready" || h.metric("warmpath_upstream_errors_total") != 0 {
			t.Errorf("the worker is blamed for it: %+v", s)
		}
	}
}

func TestWorkWhoseFirstByteWentOutIsNeverTakenBack(t *testing.T) {
	for name, begin := range map[string]func(*call){
		"stream":  func(c *call) { c.events(); c.send(deltaOf("first")) },
		"comment": func(c *call) { c.events(); c.send(": alive\n\n") },
		"no stream": func(c *call) {
			c.w.Header().Set("Content-Type", "application/json")
			c.send(`{"id":"x",`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, 1, preempts(20*time.Millisecond))
			h.w.on(func(c *call) {
				if c.n > 0 {
					c.good("urgent")
					return
				}
				begin(c)
				select {
				case <-h.turns:
					io.WriteString(c.w, "\n\n")
				case <-c.gone:
					t.Error("it was taken back")
				}
			})
			job, err := h.testRouter.open(t.Context(), "/v1/chat/completions", chat("nightly", name != "no stream"), batch...)
			if err != nil {
				t.Fatal(err)
			}
			defer job.Body.Close()
			if _, err := job.Body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			urgent := h.ask(t.Context(), chat("urgent", false))
			eventually(t, "it to wait for ten times as long as it would", func() bool { return h.state().Queue.Classes[0].Oldest > 0.2 })
			if n := h.state().Queue.Classes[2].Preempted; n != 0 {
				t.Errorf("%d gave way", n)
			}
			h.turns <- struct{}{}
			if _, err := io.ReadAll(job.Body); err != nil {
				t.Error(err)
			}
			if r := <-urgent; r.status != http.StatusOK {
				t.Errorf("%d %s", r.status, r.body)
			}
			h.empty()
		})
	}
}

func TestAClientThatLeavesWhileItsWorkWaitsAgainIsForgotten(t *testing.T) {
	h := newHouse(t, 1, preempts(20*time.Millisecond))
	ctx, leave := context.WithCancel(t.Context())
	job := h.ask(ctx, chat("nightly", false), batch...)
	first := h.calls(1)
	urgent := h.ask(t.Context(), chat("urgent", false))
	<-first.ended
	h.inside(1, 1)
	leave()
	<-job
	h.inside(1, 0)
	h.turns <- struct{}{}
	if r := <-urgent; r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	h.empty()
	if n := h.w.count(); n != 2 {
		t.Errorf("the worker saw %d requests", n)
	}
}

func TestWorkGivesWayAsOftenAsMayBeAndWaitsNoLongerThanItMay(t *testing.T) {
	h := newHouse(t, 1, func(c *config.Config) {
		preempts(20 * time.Millisecond)(c)
		c.Queue.PreemptedMax, c.Queue.Classes[2].WaitMax = 1, 200*time.Millisecond
	})
	job := h.ask(t.Context(), chat("nightly", false), batch...)
	h.calls(1)
	for round := range 2 {
		urgent := h.ask(t.Context(), chat("urgent", false))
		if round == 0 {
			h.gaveWay(1)
			h.inside(1, 1)
			h.turns <- struct{}{}
			<-urgent
			h.calls(3)
			continue
		}
		eventually(t, "it to wait for ten times as long as it would", func() bool { return h.state().Queue.Classes[0].Oldest > 0.2 })
		h.turns <- struct{}{}
		if r := <-job; r.status != http.StatusOK || r.header.Get("X-Warmpath-Preempted") != "1" {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
		h.turns <- struct{}{}
		<-urgent
	}
	h.empty()

	job = h.ask(t.Context(), chat("nightly", false), batch...)
	h.calls(5)
	urgent := h.ask(t.Context(), chat("urgent", false))
	h.calls(6)
	if r := <-job; refused(r) != "queue_timeout" || r.header.Get("X-Warmpath-Preempted") != "1" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	h.turns <- struct{}{}
	<-urgent
	h.empty()
}

func TestNothingGivesWayWhereNothingIsPreemptible(t *testing.T) {
	h := newHouse(t, 1, func(c *config.Config) {
		preempts(20 * time.Millisecond)(c)
		c.Queue.Classes[2].Preemptible = false
	})
	job := h.ask(t.Context(), chat("nightly", false), batch...)
	h.calls(1)
	urgent := h.ask(t.Context(), chat("urgent", false))
	eventually(t, "it to wait for ten times as long as it would", func() bool { return h.state().Queue.Classes[0].Oldest > 0.2 })
	h.all()
	for _, answer := range []<-chan reply{job, urgent} {
		if r := <-answer; r.status != http.StatusOK || r.header.Get("X-Warmpath-Preempted") != "" {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	}
	h.empty()
}

// said is the text of an answer, streamed or not.
func said(t *testing.T, r reply) (text string) {
	t.Helper()
	type choices struct {
		Choices []struct {
			Message, Delta struct {
				Content string `json:"content"`
			}
		}
	}
	for line := range strings.Lines(r.body) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data: "))
		if line == "" || line == "[DONE]" {
			continue
		}
		var c choices
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		for _, one := range c.Choices {
			text += one.Message.Content + one.Delta.Content
		}
	}
	return text
}

// Batch work that fills an embedded fleet is answered word for word as it would be alone, and what comes meanwhile does not wait for it.
func TestAFleetFullOfBatchWorkLetsInteractiveRequestsInAndLosesNothing(t *testing.T) {
	const jobs, chats, tokens = 24, 12, 1500
	profile := cost.Profiles["h100-8b"]
	profile.BatchMax = 4
	f, err := startFleet(t.Context(), alike(2, engine.Options{Profile: profile, Model: "m", TimeScale: 10}), "", io.Discard, func(c *config.Config, _ string) {
		preempts(100 * time.Millisecond)(c)
		c.Queue.PreemptedMax, c.InFlightMax = 5, profile.BatchMax
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	rt := &testRouter{router: f.router, t: t, log: &lockedBuffer{}, http: newClient(t)}
	h := &house{testRouter: rt}
	ask := func(name string, i, tokens int) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s %d"}],"max_tokens":%d,"ignore_eos":true,"seed":%d,"stream":%t}`, name, i, tokens, i, i%3 == 0)
	}
	var work, urgent []<-chan reply
	for i := range jobs {
		work = append(work, h.ask(t.Context(), ask("job", i, tokens), batch...)) // about a second each
	}
	eventually(t, "the fleet to be full", func() bool { return h.state().Queue.Waiting == jobs-2*profile.BatchMax })
	for i := range chats {
		urgent = append(urgent, h.ask(t.Context(), ask("chat", i, 20)))
	}
	for i, answer := range urgent {
		if r := <-answer; r.status != http.StatusOK || said(t, r) == "" {
			t.Fatalf("chat %d: %d %s %v", i, r.status, r.body, r.err)
		}
	}
	unfinished := h.state().Queue.Waiting
	if unfinished < jobs/2 {
		t.Errorf("only %d jobs still waited when the last chat was answered", unfinished)
	}
	preempted, answers, direct := 0, make([]string, jobs), make([]<-chan reply, jobs)
	for i, answer := range work {
		r := <-answer
		if r.status != http.StatusOK || r.err != nil {
			t.Fatalf("job %d: %d %s %v", i, r.status, r.body, r.err)
		}
		if r.header.Get("X-Warmpath-Preempted") != "" {
			preempted++
		}
		answers[i] = said(t, r)
	}
	for i := range direct {
		alone := make(chan reply, 1)
		direct[i] = alone
		go func() {
			alone <- read(rt.http.Post(f.engines[i%2].url+"/v1/chat/completions", "application/json", strings.NewReader(ask("job", i, tokens))))
		}()
	}
	for i, answer := range direct {
		if want := said(t, <-answer); answers[i] != want || want == "" {
			t.Errorf("job %d was answered with %d bytes, want %d", i, len(answers[i]), len(want))
		}
	}
	q := h.state().Queue
	if preempted == 0 || q.Classes[2].Preempted < uint64(preempted) || q.Classes[2].Wasted <= 0 {
		t.Errorf("%d answers say that they gave way; the state: %+v", preempted, q.Classes[2])
	}
	if finished := f.engines[0].Stats().Finished + f.engines[1].Stats().Finished; finished != 2*jobs+chats {
		t.Errorf("the engines finished %d requests, want %d", finished, 2*jobs+chats)
	}
	t.Logf("%d of %d jobs gave way, %.1f s of engine time wasted", preempted, jobs, q.Classes[2].Wasted)
	h.empty()
}
