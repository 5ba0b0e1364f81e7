package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/regret"
)

func TestSomeChoicesAreHeldAgainstWhatCameOfThem(t *testing.T) {
	const late = 300 * time.Millisecond
	answers := func(c *call) {
		if !c.wantsStream() {
			c.good("hello")
			return
		}
		c.events()
		c.send(deltaOf("hello"))
		c.send(deltaOf("world"))
		c.send(usageEvent(20, 2, 0))
		c.send("data: [DONE]\n\n")
	}
	w1, w2 := newWorker(t, answers), newWorker(t, answers)
	rt := start(t, nil, w1, w2)
	ask := func(stream bool) {
		t.Helper()
		if r := rt.post("/v1/chat/completions", chat("a prompt", stream)); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	state := func() regretState {
		rt.idle()
		var s routerState
		rt.adminCall(http.MethodGet, "/state", "", &s)
		return s.Regret
	}
	for range 8 {
		ask(false) // when their first token came nobody knows
	}
	if s := state(); s.Requests != 0 || s.OneIn != regret.Every {
		t.Errorf("%+v", s)
	}
	asked, looked := uint64(0), uint64(0)
	for ; asked < 20 || !regret.Sampled(asked+1); asked++ {
		ask(true)
		if regret.Sampled(asked + 1) {
			looked++
		}
	}
	before := state()
	if before.Requests != looked || before.RealSeconds <= 0 || before.ForetoldSeconds <= 0 {
		t.Errorf("%d of %d were to be looked at: %+v", looked, asked, before)
	}
	for _, w := range []*worker{w1, w2} {
		w.on(func(c *call) {
			if c.wait(late) {
				answers(c)
			}
		})
	}
	ask(true)
	after := state()
	if after.Requests != looked+1 || after.Beaten <= before.Beaten || after.LostSeconds-before.LostSeconds < late.Seconds()/2 || after.RealSeconds-before.RealSeconds < late.Seconds() {
		t.Errorf("one that took %v longer than foretold: %+v, %+v before", late, after, before)
	}
	rt.regretTold(after)
}

// regretTold holds the series and the metrics to what /state has.
func (rt *testRouter) regretTold(now regretState) {
	t := rt.t
	t.Helper()
	var s toldSeries
	eventually(t, "the second to be over", func() bool {
		s = toldSeries{}
		return rt.adminCall(http.MethodGet, "/series?window=15m&step=1s&only=regret_requests,regret_seconds,regret_cost_seconds", "", &s) == http.StatusOK && s.sum("regret_requests.looked_at") == float64(now.Requests)
	})
	for what, v := range map[string][3]float64{
		"beaten": {float64(now.Beaten), s.sum("regret_requests.beaten"), rt.metric("warmpath_regret_beaten_total")},
		"lost":   {now.LostSeconds, s.sum("regret_seconds.lost"), rt.metric("warmpath_regret_seconds_total", `what="lost"`)},
		"ahead":  {now.AheadSeconds, s.sum("regret_seconds.ahead"), rt.metric("warmpath_regret_seconds_total", `what="ahead"`)},
		"real":   {now.RealSeconds, s.sum("regret_cost_seconds.real"), rt.metric("warmpath_regret_cost_seconds_total", `what="real"`)},
		"cost":   {now.ForetoldSeconds, s.sum("regret_cost_seconds.foretold"), rt.metric("warmpath_regret_cost_seconds_total", `what="foretold"`)},
	} {
		for _, told := range v[1:] { // the series have six digits
			if d := told - v[0]; d > 1e-4*(1+v[0]) || d < -1e-4*(1+v[0]) {
				t.Errorf("%s: %s", what, fmt.Sprint(v))
			}
		}
	}
}
