package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestRequestsAndTokensAreCountedForEachWorkerAndGoWithIt(t *testing.T) {
	metered := func(c *call) {
		c.json(http.StatusOK, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":64}}}`)
	}
	w1, w2 := newWorker(t, metered), newWorker(t, metered)
	rt := start(t, nil, w1, w2)
	rt.adminCall(http.MethodPost, "/policy", `{"policy":"round-robin"}`, nil)
	for i := range 6 {
		rt.post("/v1/chat/completions", chat(fmt.Sprint("counted ", i), false))
	}
	w1.on(func(c *call) { c.json(http.StatusBadRequest, `{}`) })
	w2.on(func(c *call) { c.json(http.StatusBadRequest, `{}`) })
	for i := range 2 {
		rt.post("/v1/chat/completions", chat(fmt.Sprint("refused ", i), false))
	}
	for _, id := range []string{`worker="w1"`, `worker="w2"`} {
		for _, want := range []struct {
			name, label string
			value       float64
		}{
			{"warmpath_worker_requests_total", `outcome="succeeded"`, 3}, {"warmpath_worker_requests_total", `outcome="client_error"`, 1},
			{"warmpath_worker_tokens_total", `kind="prompt"`, 300}, {"warmpath_worker_tokens_total", `kind="cached"`, 192},
			{"warmpath_worker_tokens_total", `kind="completion"`, 21},
		} {
			eventually(t, fmt.Sprint(id, " ", want), func() bool { return rt.metric(want.name, id, want.label) == want.value })
		}
	}
	rt.adminCall(http.MethodDelete, "/workers/w1", "", nil)
	page := read(rt.http.Get(rt.AdminURL() + "/metrics")).body
	if strings.Contains(page, `worker="w1"`) || !strings.Contains(page, `worker="w2"`) {
		t.Error("the series of a removed worker stay, or another's went")
	}
	if !strings.Contains(page, "\nwarmpath_build_info{") {
		t.Error("nothing says what the router was built from")
	}
}

func TestARequestWithoutAModelCountsUnderTheOnlyModelThereIs(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil), newWorker(t, nil))
	for _, stream := range []bool{false, true} {
		body := fmt.Sprintf(`{"stream":%t,"messages":[{"role":"user","content":"x"}]}`, stream)
		if r := rt.post("/v1/chat/completions", body); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	eventually(t, "two requests under m", func() bool { return rt.metric("warmpath_requests_total", `model="m"`) == 2 })
	if n := rt.metric("warmpath_requests_total", `model="other"`); n != 0 {
		t.Errorf("%v requests under other", n)
	}
}
