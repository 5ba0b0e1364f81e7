package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/tenant"
)

// Keys of the tests' tenants, in the clear.
const (
	searchKey = "wp-search-0123456789abcdefghij"
	agentsKey = "wp-agents-0123456789abcdefghij"
	oldKey    = "wp-retired-0123456789abcdefghi"
)

// keyed has the router ask for keys: of the tenants search, with what more is said of it, and agents.
func keyed(t *testing.T, more string) func(*config.Config) {
	t.Helper()
	digest := func(key string) string {
		d, err := tenant.Hash(key)
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	text := fmt.Sprintf("tenants:\n  - name: search\n    keys: [%q, {digest: %q, expires: 2020-01-01T00:00:00Z}]\n%s  - {name: agents, keys: [%q]}\n", digest(searchKey), digest(oldKey), more, digest(agentsKey))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *config.Config) { c.Tenants.File, c.AccessLog = file, true }
}

// bounded is a chat whose answer is bounded.
func bounded(unique string, tokens int) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, tokens, unique)
}

// who is what /state tells of a tenant.
func (rt *testRouter) who(name string) (t tenantState) {
	for _, one := range rt.state().Tenants {
		if one.Tenant == name {
			return one
		}
	}
	return t
}

func TestRTL01RequestsAtOneInstantDoNotPassALimitTogether(t *testing.T) {
	const limit, each = 1000, 100
	w := newWorker(t, func(c *call) {
		c.json(http.StatusOK, fmt.Sprintf(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d}}`, each-10, each))
	})
	rt := start(t, keyed(t, "    tokens_per_minute: 1000\n"), w)
	var all sync.WaitGroup
	replies := make([]reply, 50)
	for i := range replies {
		all.Go(func() {
			replies[i] = rt.do(t.Context(), http.MethodPost, "/v1/chat/completions", bounded(fmt.Sprint("at once ", i), each-10), "Authorization", "Bearer "+searchKey)
		})
	}
	all.Wait()
	served := 0
	for _, r := range replies {
		switch {
		case r.status == http.StatusOK:
			served++
		case r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "tokens_per_minute"):
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	}
	rt.idle()
	if s := rt.who("search"); served == 0 || served*each > limit+each || s.TokensLastMinute != served*each || s.Refused["tokens_per_minute"] != uint64(50-served) {
		t.Errorf("%d served of %d tokens each with a limit of %d: %+v", served, each, limit, s)
	}
	if r := rt.post("/v1/chat/completions", bounded("too long", limit+1), "X-Api-Key", searchKey); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") != "" {
		t.Errorf("a request that alone is more than the limit is told to come again: %d %v", r.status, r.header)
	}
	if n := rt.metric("warmpath_tenant_refused_total", `tenant="search"`, `limit="tokens_per_minute"`); n != float64(51-served) {
		t.Errorf("the metrics tell of %v", n)
	}
}

func TestRTL02WhatNeverRanCostsNothing(t *testing.T) {
	turns, say := make(chan struct{}), http.StatusOK
	var mu sync.Mutex
	w := newWorker(t, func(c *call) {
		<-turns
		mu.Lock()
		defer mu.Unlock()
		if say != http.StatusOK {
			c.json(say, `{"error":{"message":"no","type":"server_error"}}`)
			return
		}
		c.good("hello")
	})
	rt := start(t, keyed(t, "    requests_per_minute: 5\n    in_flight: 1\n"), w)
	ask := func(body string) reply {
		return rt.do(t.Context(), http.MethodPost, "/v1/chat/completions", body, "Authorization", "Bearer "+searchKey)
	}
	first := make(chan reply, 1)
	go func() { first <- ask(bounded("held", 5)) }()
	eventually(t, "one to be in flight", func() bool { return rt.who("search").InFlight == 1 && w.count() == 1 })
	for range 10 {
		if r := ask(bounded("one too many", 5)); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
			t.Errorf("%d %v", r.status, r.header)
		}
	}
	close(turns)
	if r := <-first; r.status != http.StatusOK {
		t.Fatal(r.status)
	}
	for body, status := range map[string]int{`{"model":`: 400, `{"model":"other","messages":[]}`: 404, `{"model":"m","messages":7}`: 400} {
		if r := ask(body); r.status != status {
			t.Errorf("%s: %d, want %d", body, r.status, status)
		}
	}
	mu.Lock()
	say = http.StatusServiceUnavailable
	mu.Unlock()
	if r := ask(bounded("a worker that cannot", 5)); r.status != http.StatusServiceUnavailable {
		t.Error(r.status)
	}
	mu.Lock()
	say = http.StatusOK
	mu.Unlock()
	for i := range 4 {
		if r := ask(bounded("fine", 5)); r.status != http.StatusOK {
			t.Errorf("number %d of the four that are left: %d %s", i, r.status, r.body)
		}
	}
	if r := ask(bounded("the sixth", 5)); r.status != http.StatusTooManyRequests || !strings.Contains(r.body, "requests_per_minute") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if s := rt.who("search"); s.RequestsLastMinute != 5 || s.InFlight != 0 || s.Requests-s.NeverRan != 5 || s.TokensLastMinute != 5*11 {
		t.Errorf("%+v", s)
	}
}

func TestRTL02RequestsThatFindNoWorkerCostNothing(t *testing.T) {
	rt := start(t, keyed(t, "    requests_per_minute: 5\n"))
	ask := func() int {
		return rt.post("/v1/chat/completions", bounded("nobody", 5), "X-Api-Key", searchKey).status
	}
	for range 10 {
		if status := ask(); status != http.StatusServiceUnavailable {
			t.Errorf("without a worker: %d", status)
		}
	}
	w := newWorker(t, nil)
	rt.adminCall(http.MethodPost, "/workers", `{"url":"`+w.url+`"}`, nil)
	rt.awaitModels(w)
	for range 5 {
		if status := ask(); status != http.StatusOK {
			t.Errorf("with one: %d", status)
		}
	}
	if status := ask(); status != http.StatusTooManyRequests {
		t.Errorf("the sixth: %d", status)
	}
}

func TestAUT01WhoIsRefusedIsToldNothing(t *testing.T) {
	w := newWorker(t, nil, "m", "secret-model")
	rt := start(t, keyed(t, "    models: [m, not-there-yet]\n"), w)
	const wrong = "wp-search-0123456789abcdefghi-"
	asked := map[string]reply{}
	for name, headers := range map[string][]string{
		"wrong": {"Authorization", "Bearer " + wrong}, "expired": {"X-Api-Key", oldKey}, "long": {"Authorization", "Bearer " + strings.Repeat("k", 64<<10)},
		"another scheme": {"Authorization", "Basic " + searchKey}, "no scheme": {"Authorization", searchKey}, "none": nil,
	} {
		asked[name] = rt.post("/v1/chat/completions", chat("x", false), headers...)
		asked[name+", models"] = rt.get("/v1/models", headers...)
		asked[name+", one model"] = rt.get("/v1/models/secret-model", headers...)
	}
	asked["in the query"] = rt.post("/v1/chat/completions?api_key="+searchKey+"&key="+searchKey, chat("x", false))
	for name, r := range asked {
		if r.status != http.StatusUnauthorized || r.header.Get("WWW-Authenticate") != "Bearer" || !strings.Contains(r.body, "authentication_error") {
			t.Errorf("%s: %d %v %s", name, r.status, r.header, r.body)
		}
	}
	for _, model := range []string{"secret-model", "made-up", "not-there-yet"} {
		r := rt.post("/v1/chat/completions", strings.Replace(chat("x", false), `"m"`, `"`+model+`"`, 1), "X-Api-Key", searchKey)
		if r.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", model, r.status, r.body)
		}
		asked["model "+model] = reply{body: strings.ReplaceAll(r.body, model, "")}
	}
	asked["no model"] = rt.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, "X-Api-Key", searchKey)
	if a, b, c := asked["model secret-model"].body, asked["model made-up"].body, asked["model not-there-yet"].body; a != b || a != c {
		t.Errorf("a model that is not for the key, one that is not there and one that would be for it are told apart: %s, %s, %s", a, b, c)
	}
	if asked["no model"].status != http.StatusOK {
		t.Errorf("its only model is not taken: %s", asked["no model"].body)
	}
	asked["line break"] = reply{body: rt.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + searchKey + "\r\n" + wrong + "\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")}
	asked["metrics"] = read(rt.http.Get(rt.AdminURL() + "/metrics"))
	asked["state"] = read(rt.http.Get(rt.AdminURL() + "/state"))
	asked["log"] = reply{body: rt.log.String()}
	for name, r := range asked {
		for _, secret := range []string{searchKey, oldKey, agentsKey, wrong, strings.Repeat("k", 64), searchKey[:16]} {
			d, _ := tenant.Hash(secret)
			if strings.Contains(r.body, secret) || len(secret) > 22 && strings.Contains(r.body, d.String()[:20]) {
				t.Errorf("%s tells of %s: %.300s", name, secret, r.body)
			}
		}
		if name != "state" && name != "log" && name != "metrics" && strings.Contains(r.body, "secret-model") {
			t.Errorf("%s tells of a model that is not its own: %s", name, r.body)
		}
	}
	if n := w.count(); n != 1 {
		t.Errorf("the worker was asked %d times", n)
	}
}

func TestATenantSeesTheModelsThatItMayUse(t *testing.T) {
	rt := start(t, keyed(t, "    models: [chat-*]\n"), newWorker(t, nil, "chat-8b", "embed"))
	for key, want := range map[string]bool{searchKey: false, agentsKey: true} {
		list := rt.get("/v1/models", "Authorization", "Bearer "+key)
		if list.status != http.StatusOK || !strings.Contains(list.body, `"chat-8b"`) || strings.Contains(list.body, `"embed"`) != want {
			t.Errorf("%s: %d %s", key, list.status, list.body)
		}
		if r := rt.get("/v1/models/embed", "X-Api-Key", key); (r.status == http.StatusOK) != want {
			t.Errorf("%s: %d %s", key, r.status, r.body)
		}
	}
}

func TestAKeyOfTheRoutersGoesToNoEngine(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, keyed(t, ""), w)
	rt.post("/v1/chat/completions", chat("x", false), "Authorization", "Bearer "+searchKey, "X-Api-Key", searchKey, "X-Warmpath-Class", "batch", "X-Warmpath-Cost", "1")
	for name, values := range w.calls()[0].r.Header {
		if text := strings.Join(values, " "); strings.Contains(text, searchKey) || strings.HasPrefix(name, "X-Warmpath-") {
			t.Errorf("the engine got %s: %s", name, text)
		}
	}
}

func TestWhatARequestCostsIsToldToThoseWithAKeyWhoAsk(t *testing.T) {
	rt := start(t, keyed(t, ""), newWorker(t, nil))
	open := start(t, nil, newWorker(t, nil))
	for _, stream := range []bool{false, true} {
		r := rt.post("/v1/chat/completions", chat("x", stream), "X-Api-Key", searchKey, "X-Warmpath-Cost", "1")
		if cost := r.header.Get("X-Warmpath-Cost"); !strings.Contains(cost, `"prefill_seconds":`) || !strings.Contains(cost, `"output_tokens":`) {
			t.Errorf("stream %v: %q", stream, cost)
		}
	}
	if r := rt.post("/v1/chat/completions", chat("x", false), "X-Api-Key", searchKey); r.header.Get("X-Warmpath-Cost") != "" {
		t.Error("it is told to one who did not ask")
	}
	if r := open.post("/v1/chat/completions", chat("x", false), "X-Warmpath-Cost", "1"); r.header.Get("X-Warmpath-Cost") != "" {
		t.Error("it is told to anybody")
	}
}

func TestAUT02NothingOfOperatorsIsOnTheDataPort(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, keyed(t, ""), w)
	for _, path := range []string{"/metrics", "/state", "/workers", "/workers/w1", "/workers/w1/drain", "/policy", "/explain", "/debug/pprof/", "/flush_cache", "/reset_prefix_cache",
		"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/add_worker", "/remove_worker", "/sleep", "/wake_up", "/pause", "/shutdown", "/update_weights_from_disk", "/slots", "/props", "/collective_rpc"} {
		for _, key := range []string{"", searchKey} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
				r := rt.do(context.Background(), method, path, "", "X-Api-Key", key)
				if r.status != http.StatusNotFound && r.status != http.StatusUnauthorized && r.status != http.StatusMethodNotAllowed {
					t.Errorf("%s %s with key %q: %d %s", method, path, key, r.status, r.body)
				}
			}
		}
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/responses", "/tokenize", "/v1/anything"} {
		if r := rt.post(path, `{"model":"m"}`); r.status != http.StatusUnauthorized {
			t.Errorf("%s without a key: %d", path, r.status)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if r := rt.get(path); r.status != http.StatusOK {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if n := w.count(); n != 0 {
		t.Errorf("the worker was asked %d times", n)
	}
}

func TestSEC07WithKeysNothingThatAClientWritesMattersBesides(t *testing.T) {
	rt := start(t, keyed(t, "    class: batch\n"), newWorker(t, nil))
	for i := range 300 {
		r := rt.post("/v1/chat/completions", chat("x", false), "X-Api-Key", searchKey, "X-Tenant-Id", fmt.Sprint("made-up-", i), "X-Forwarded-For", fmt.Sprint("10.0.0.", i),
			"X-Warmpath-Class", "interactive", "X-Gateway-Inference-Fairness-Id", fmt.Sprint(i))
		if r.status != http.StatusOK {
			t.Fatal(r.status, r.body)
		}
	}
	rt.idle()
	s := rt.state()
	if len(s.Tenants) != 1 || s.Tenants[0].Tenant != "search" || s.Tenants[0].Requests != 300 || s.Queue.Classes[2].Passed != 300 {
		t.Errorf("%+v %+v", s.Tenants, s.Queue.Classes)
	}
	page := read(rt.http.Get(rt.AdminURL() + "/metrics")).body
	if strings.Contains(page, "made-up") || sumMetric(page, "warmpath_tenant_requests_total", `tenant="search"`) != 300 {
		t.Error("the metrics do not tell whose requests they were")
	}
}

func TestSEC07WithoutKeysMadeUpTenantsLeaveNothingBehind(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	for i := range 300 {
		rt.post("/v1/chat/completions", chat("x", false), "X-Tenant-Id", fmt.Sprint("made-up-", i), "X-Warmpath-Class", "interactive")
	}
	rt.idle()
	s := rt.state()
	if s.Queue.Tenants != 0 || len(s.Queue.Lines) > 1 || len(s.Tenants) != 0 || s.Queue.Classes[0].Passed != 0 || s.Queue.Classes[1].Passed != 300 {
		t.Errorf("%+v %+v", s.Queue, s.Tenants)
	}
	if page := read(rt.http.Get(rt.AdminURL() + "/metrics")).body; strings.Contains(page, "made-up") {
		t.Error("the metrics tell of tenants that clients made up")
	}
}
