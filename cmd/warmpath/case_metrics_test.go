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

func TestOBS_02_WhatClientsAndWorkersMakeUpOpensNoSeries(t *testing.T) {
	const flood = 300
	w := newWorker(t, func(c *call) {
		if word, odd := strings.CutPrefix(c.r.URL.Path, "/v1/odd/"); odd {
			conn := c.raw()
			fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nX-Reason: %s\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", 200+len(word)%5, word, word)
			conn.Close()
			return
		}
		c.good("x")
	})
	rt := start(t, nil, w)
	rt.post("/v1/chat/completions", chat("before", false))
	rt.idle()
	page := func() string { return read(rt.http.Get(rt.AdminURL() + "/metrics")).body }
	before := strings.Count(page(), "\n")
	for i := range flood {
		name := fmt.Sprint("made-up-", i)
		rt.post("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[]}`, name), "X-Tenant-Id", name, "X-Warmpath-Class", name, "X-Session-Id", name)
		rt.post("/v1/chat/completions", fmt.Sprintf(`{"model":"m","lora":%q,"adapter":%q,"user":%q,"messages":[]}`, name, name, name), "X-Tenant-Id", name, "X-Request-Id", name, "User-Agent", name)
		rt.do(t.Context(), fmt.Sprint("MADEUP", i), "/v1/chat/completions", "{}")
		rt.post("/"+name, `{"model":"m"}`)
		rt.post("/v1/odd/"+name, `{"model":"m"}`)
	}
	rt.post("/v1/chat/completions", chat("after", false))
	rt.idle()
	text := page()
	if grown := strings.Count(text, "\n") - before; grown >= 200 {
		t.Errorf("the page grew by %d lines", grown)
	}
	if at := strings.Index(strings.ToLower(text), "made-up-"); at >= 0 {
		t.Errorf("the page has a name that was made up: %.200s", text[max(0, at-100):])
	}
	if n := sumMetric(text, "warmpath_requests_total", `model="m"`, `api="chat"`, `outcome="succeeded"`); n != 2+flood {
		t.Errorf("%v requests under the model's own name, want %d", n, 2+flood)
	}
	if n := sumMetric(text, "warmpath_requests_total", `model="other"`); n < flood {
		t.Errorf("%v requests under other models, want %d and more", n, flood)
	}
	for _, gauge := range []string{"warmpath_worker_inflight_requests", "warmpath_queue_waiting_requests"} {
		if n := sumMetric(text, gauge); n != 0 {
			t.Errorf("%s is %v when all is over", gauge, n)
		}
	}
}
