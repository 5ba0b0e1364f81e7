package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// keeper is an engine that keeps its own responses and conversations, and knows nobody else's.
type keeper struct {
	name string
	hold chan struct{} // a stream with "hold" in its input waits here, or for its cancellation

	mu        sync.Mutex
	count     int
	made      map[string]chan struct{} // by id; closed when cancelled
	strangers int                      // requests for what it does not hold
	lookups   []string                 // targets of the router's own questions
}

func newKeeper(t *testing.T, name string) (*keeper, *worker) {
	k := &keeper{name: name, hold: make(chan struct{}), made: map[string]chan struct{}{}}
	return k, newWorker(t, k.serve)
}

func (k *keeper) make(kind string) (id string, cancelled chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count++
	id, cancelled = fmt.Sprintf("%s_%s_%d", kind, k.name, k.count), make(chan struct{})
	k.made[id] = cancelled
	return id, cancelled
}

// held answers 404 in the engine's words when it does not hold id. The router's own questions carry no request id.
func (k *keeper) held(c *call, id string) (chan struct{}, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := c.r.Header.Get("X-Request-Id") == ""
	if asked {
		k.lookups = append(k.lookups, c.r.RequestURI)
	}
	cancelled, ok := k.made[id]
	if !ok {
		if !asked {
			k.strangers++
		}
		c.json(http.StatusNotFound, fmt.Sprintf(`{"error":{"message":"%s does not know %s","type":"invalid_request_error"}}`, k.name, id))
	}
	return cancelled, ok
}

func (k *keeper) serve(c *call) {
	rest, onResponse := strings.CutPrefix(c.r.URL.Path, "/v1/responses")
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "/v1/conversations"), "/")
	id, action, _ := strings.Cut(rest, "/")
	switch {
	case id == "" && onResponse:
		k.respond(c)
	case id == "":
		id, _ = k.make("conv")
		c.json(http.StatusOK, fmt.Sprintf(`{"id":%q,"object":"conversation"}`, id))
	default:
		cancelled, ok := k.held(c, id)
		if !ok {
			return
		}
		if action == "cancel" {
			close(cancelled)
		}
		if c.r.Method == http.MethodDelete {
			k.mu.Lock()
			delete(k.made, id)
			k.mu.Unlock()
		}
		c.json(http.StatusOK, fmt.Sprintf(`{"id":%q,"method":%q,"action":%q}`, id, c.r.Method, action))
	}
}

func (k *keeper) respond(c *call) {
	var in struct {
		Previous     string          `json:"previous_response_id"`
		Conversation json.RawMessage `json:"conversation"`
		Input        string          `json:"input"`
	}
	json.Unmarshal(c.body, &in)
	conversation := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(string(in.Conversation), `{"id":`), "}"), `"`)
	for _, id := range []string{in.Previous, conversation} {
		if id != "" {
			if _, ok := k.held(c, id); !ok {
				return
			}
		}
	}
	id, cancelled := k.make("resp")
	if !c.wantsStream() {
		c.json(http.StatusOK, fmt.Sprintf(`{"id":%q,"object":"response","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":1}}`, id))
		return
	}
	c.events()
	c.send(fmt.Sprintf("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":%q,\"status\":\"in_progress\"}}\n\n", id))
	c.send("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n")
	if strings.Contains(in.Input, "hold") {
		select {
		case <-k.hold:
		case <-cancelled:
		case <-c.gone:
		}
	}
	c.send(fmt.Sprintf("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":%q,\"status\":\"completed\"}}\n\n", id))
}

// total adds up a count of all keepers.
func total(keepers []*keeper, of func(*keeper) int) (n int) {
	for _, k := range keepers {
		k.mu.Lock()
		n += of(k)
		k.mu.Unlock()
	}
	return n
}

func strangers(k *keeper) int { return k.strangers }
func lookups(k *keeper) int   { return len(k.lookups) }

// turn asks for one response and returns its id. extra are further fields, such as `"previous_response_id":"x"`.
func (rt *testRouter) turn(input string, stream bool, extra string) string {
	rt.t.Helper()
	if extra != "" {
		extra = "," + extra
	}
	r := rt.post("/v1/responses", fmt.Sprintf(`{"model":"m","stream":%t,"input":%q%s}`, stream, input, extra))
	if r.status != http.StatusOK || r.err != nil {
		rt.t.Fatalf("turn %q %s: %d %s %v", input, extra, r.status, r.body, r.err)
	}
	return responseID(r.body)
}

// responseID cuts the first response id out of a reply or a stream.
func responseID(body string) string {
	_, rest, _ := strings.Cut(body, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

func after(id string) string { return fmt.Sprintf(`"previous_response_id":%q`, id) }

func threeKeepers(t *testing.T) (keepers []*keeper, workers []*worker) {
	for _, name := range []string{"one", "two", "three"} {
		k, w := newKeeper(t, name)
		keepers, workers = append(keepers, k), append(workers, w)
	}
	return keepers, workers
}

func TestRSP_01_EveryTurnGoesToTheWorkerThatHoldsTheOneBefore(t *testing.T) {
	keepers, workers := threeKeepers(t)
	rt := start(t, nil, workers...)
	var ends []string
	for chain := range 5 {
		var ids []string
		id := ""
		for n := range 6 {
			extra := ""
			if id != "" {
				extra = after(id)
			}
			id = rt.turn(fmt.Sprint("chain ", chain, " turn ", n), n%2 == 1, extra)
			ids = append(ids, id)
			rt.turn(fmt.Sprint("noise ", chain, n), false, "")
		}
		ends = append(ends, rt.turn("a branch", chain%2 == 0, after(ids[1])), id)
		for _, ask := range []struct{ method, path, body string }{
			{http.MethodGet, "/v1/responses/" + ids[0], ""}, {http.MethodGet, "/v1/responses/" + ids[1] + "?include=x", ""}, {http.MethodGet, "/v1/responses/" + ids[1] + "/input_items", ""},
			{http.MethodPost, "/v1/responses/" + ids[2] + "/cancel", ""}, {http.MethodPost, "/v1/responses/" + ids[3] + "/cancel", "{}"}, {http.MethodDelete, "/v1/responses/" + ids[0], ""},
		} {
			if r := rt.do(t.Context(), ask.method, ask.path, ask.body); r.status != http.StatusOK || !strings.Contains(r.body, ask.method) {
				t.Errorf("%s %s: %d %s", ask.method, ask.path, r.status, r.body)
			}
		}
	}
	if n := total(keepers, strangers); n != 0 {
		t.Errorf("%d requests reached a worker that does not hold what they refer to", n)
	}
	if n := total(keepers, lookups); n != 0 {
		t.Errorf("the router asked %d times for what it made itself", n)
	}

	fresh := start(t, nil, workers...) // a router that restarted, or another replica
	for _, id := range ends {
		next := fresh.turn("after the restart", true, after(id))
		fresh.turn("and on", false, after(id))
		fresh.turn("and on", false, after(next))
	}
	if n := total(keepers, lookups); n > len(workers)*len(ends) {
		t.Errorf("%d questions for %d ids: what was looked up once is looked up again", n, len(ends))
	}
	again := start(t, nil, workers...)
	for _, id := range ends {
		if r := again.get("/v1/responses/" + id); r.status != http.StatusOK {
			t.Errorf("GET after a restart: %d %s", r.status, r.body)
		}
	}
	if n := total(keepers, strangers); n != 0 {
		t.Errorf("after a restart %d requests reached a worker that does not hold what they refer to", n)
	}
}

func TestRSP_01_AConversationStaysWithItsWorker(t *testing.T) {
	keepers, workers := threeKeepers(t)
	rt := start(t, nil, workers...)
	talk := func(rt *testRouter, id string) {
		t.Helper()
		for n := range 4 {
			extra := fmt.Sprintf(`"conversation":%q`, id)
			if n%2 == 1 {
				extra = fmt.Sprintf(`"conversation":{"id":%q}`, id)
			}
			rt.turn(fmt.Sprint("said ", n), n > 1, extra)
		}
		if r := rt.get("/v1/conversations/" + id + "/items"); r.status != http.StatusOK {
			t.Errorf("items of %s: %d %s", id, r.status, r.body)
		}
	}
	var ids []string
	for n := range 6 {
		body := ""
		if n%2 == 0 {
			body = `{"metadata":{}}`
		}
		r := rt.do(t.Context(), http.MethodPost, "/v1/conversations", body)
		if r.status != http.StatusOK {
			t.Fatalf("making a conversation: %d %s", r.status, r.body)
		}
		ids = append(ids, responseID(r.body))
		talk(rt, ids[n])
	}
	if n := total(keepers, lookups); n != 0 {
		t.Errorf("the router asked %d times for what was made through it", n)
	}
	fresh := start(t, nil, workers...)
	for _, id := range ids {
		talk(fresh, id)
	}
	if n := total(keepers, strangers); n != 0 {
		t.Errorf("%d requests reached a worker that does not hold the conversation", n)
	}
}

func TestRSP_01_AResponseUnderWayIsKnownFromItsFirstEvent(t *testing.T) {
	keepers, workers := threeKeepers(t)
	rt := start(t, nil, workers...)
	for n := range 6 {
		resp, err := rt.open(t.Context(), "/v1/responses", fmt.Sprintf(`{"model":"m","stream":true,"input":"hold %d"}`, n))
		if err != nil {
			t.Fatal(err)
		}
		first, err := eventsOf(resp)()
		if err != nil {
			t.Fatal(err)
		}
		id := responseID(first)
		if n%2 == 0 {
			if r := rt.post("/v1/responses/"+id+"/cancel", ""); r.status != http.StatusOK {
				t.Errorf("cancelling a running response: %d %s", r.status, r.body)
			}
		}
		resp.Body.Close() // half of the clients just leave
		if r := rt.get("/v1/responses/" + id); r.status != http.StatusOK {
			t.Errorf("fetching it: %d %s", r.status, r.body)
		}
	}
	if n := total(keepers, strangers) + total(keepers, lookups); n != 0 {
		t.Errorf("%d requests went astray or had to be looked up", n)
	}
	rt.idle()
}

func TestRSP_01_WhatAGoneWorkerHeldIsRefusedClearly(t *testing.T) {
	keepers, workers := threeKeepers(t)
	rt := start(t, nil, workers...)
	id := rt.turn("first", false, "")
	owner := rt.get("/v1/responses/" + id).header.Get("X-Warmpath-Worker")
	if code := rt.adminCall(http.MethodDelete, "/workers/"+owner, "", nil); code != http.StatusOK {
		t.Fatalf("removing %s: %d", owner, code)
	}
	for _, stream := range []bool{false, true} {
		r := rt.post("/v1/responses", fmt.Sprintf(`{"model":"m","stream":%t,"input":"on",%s}`, stream, after(id)))
		if r.status != http.StatusNotFound || !strings.Contains(r.body, owner) || !strings.Contains(r.body, id) || !strings.Contains(r.body, `"param":"previous_response_id"`) || !json.Valid([]byte(r.body)) {
			t.Errorf("a turn after its owner left: %d %s", r.status, r.body)
		}
	}
	if r := rt.get("/v1/responses/" + id); r.status != http.StatusNotFound || !strings.Contains(r.body, owner) {
		t.Errorf("GET after its owner left: %d %s", r.status, r.body)
	}
	if n := total(keepers, strangers); n != 0 {
		t.Errorf("%d requests were tried on others", n)
	}
	index := map[string]int{"w1": 0, "w2": 1, "w3": 2}[owner]
	if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"id":"back","url":%q,"model":"m"}`, workers[index].url), nil); code != http.StatusCreated {
		t.Fatalf("adding it again: %d", code)
	}
	rt.turn("its owner is back", false, after(id))
}

func TestAnUnknownResponseIsA404AlsoAmongSeveralModels(t *testing.T) {
	a, b := newWorker(t, nil, "a"), newWorker(t, nil, "b")
	refuse := func(c *call) { c.json(http.StatusNotFound, `{"error":{"message":"own words"}}`) }
	a.on(refuse)
	b.on(refuse)
	rt := start(t, nil, a, b)
	if r := rt.get("/v1/responses/resp_nobody"); r.status != http.StatusNotFound || !json.Valid([]byte(r.body)) {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if r := rt.post("/v1/responses", `{"model":"a","input":"x","previous_response_id":"resp_nobody"}`); r.status != http.StatusNotFound || !strings.Contains(r.body, "own words") {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

func TestAHostileIdReachesNoOtherPathOfAWorker(t *testing.T) {
	k, w := newKeeper(t, "one")
	rt := start(t, nil, w)
	for _, id := range []string{"../models", "a/b", "x?y=z", "x#y", "x HTTP/1.1\r\nX-Evil: 1\r\n\r\n", "%2e%2e/metrics", strings.Repeat("long", 20_000)} {
		quoted, _ := json.Marshal(id)
		for _, field := range []string{"previous_response_id", "conversation"} {
			if r := rt.post("/v1/responses", fmt.Sprintf(`{"model":"m","input":"x",%q:%s}`, field, quoted)); r.status != http.StatusNotFound {
				t.Errorf("%s %.40q: %d %.200s", field, id, r.status, r.body)
			}
		}
	}
	for _, target := range k.lookups {
		rest := strings.TrimPrefix(strings.TrimPrefix(target, "/v1/responses/"), "/v1/conversations/")
		if rest == target || strings.ContainsAny(rest, "/?#\r\n ") {
			t.Errorf("the router asked for %.80q", target)
		}
	}
	for _, c := range w.calls() {
		if c.r.Header.Get("X-Evil") != "" {
			t.Error("an id became a header")
		}
	}
}
