package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/guard"
)

// beat is an engine's heartbeat; more are further keys of the body.
func (rt *testRouter) beat(w *worker, every, more string, headers ...string) reply {
	rt.t.Helper()
	body := fmt.Sprintf(`{"url":%q,"id":"gpu-7"%s}`, w.url, more)
	return rt.adminDo(http.MethodPost, "/workers?heartbeat="+url.QueryEscape(every), body, headers...)
}

// adminDo is a request to the admin port with headers.
func (rt *testRouter) adminDo(method, path, body string, headers ...string) reply {
	rt.t.Helper()
	req, err := http.NewRequest(method, rt.AdminURL()+path, strings.NewReader(body))
	if err != nil {
		rt.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return read(rt.http.Do(req))
}

func registering(c *config.Config) {
	c.Discovery.Register, c.Discovery.ForgetAfter, c.Discovery.HeartbeatsMissed = true, 100*time.Millisecond, 1
}

func TestAnEngineRegistersItselfAndLeavesWhenItIsMissed(t *testing.T) {
	w, other := newWorker(t, nil), newWorker(t, nil)
	rt := start(t, registering, other)
	before := time.Now()
	r := rt.beat(w, "1m", `,"labels":["zone=a"],"instance":"1"`)
	if r.status != http.StatusCreated || !strings.Contains(r.body, `"id": "gpu-7"`) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	rt.finds(w)
	if s := rt.found(w); s.Source != "registered" || len(s.Labels) != 1 || s.Labels[0] != "zone=a" {
		t.Errorf("%+v", s)
	}
	was := rt.found(w).Incarnation
	if r := rt.beat(w, "1m", `,"labels":["zone=a"],"instance":"1"`); r.status != http.StatusOK {
		t.Errorf("again: %d %s", r.status, r.body)
	}
	rt.awaitSource("registered", func(s sourceState) bool { return s.Workers == 1 })
	if s := rt.found(w); s.Incarnation != was {
		t.Error("a heartbeat made another instance of it")
	}
	if r := rt.beat(w, "1m", `,"labels":["zone=a"],"instance":"2"`); r.status != http.StatusOK {
		t.Errorf("started again: %d %s", r.status, r.body)
	}
	eventually(t, "another instance", func() bool { s := rt.found(w); return s != nil && s.Incarnation != was })
	if r := rt.beat(w, "1s", ""); r.status != http.StatusOK { // and no more after it
		t.Fatalf("%d %s", r.status, r.body)
	}
	rt.loses(w)
	if time.Since(before) < time.Second {
		t.Error("it left before it was missed")
	}
	rt.beat(w, "1m", "")
	rt.finds(w)
	if code := rt.adminCall(http.MethodDelete, "/workers/w1?registered=true", "", nil); code != http.StatusNotFound {
		t.Errorf("goodbye of one that did not register: %d", code)
	}
	if code := rt.adminCall(http.MethodDelete, "/workers/gpu-7?registered=true", "", nil); code != http.StatusOK {
		t.Errorf("goodbye: %d", code)
	}
	rt.loses(w)
}

func TestAWrongHeartbeatIsToldSo(t *testing.T) {
	w, other := newWorker(t, nil), newWorker(t, nil)
	rt := start(t, registering, other)
	for _, c := range []struct {
		w           *worker
		every, more string
		status      int
		want        string
	}{
		{w, "soon", "", http.StatusBadRequest, "heartbeat=soon"}, {w, "", "", http.StatusBadRequest, "heartbeat="}, {w, "1ms", "", http.StatusBadRequest, "may be 1s to 5m0s"},
		{w, "1h", "", http.StatusBadRequest, "may be 1s to 5m0s"}, {w, "5s", `,"labels":["x"]`, http.StatusBadRequest, "is no label"},
		{other, "5s", "", http.StatusConflict, "named by config"}, {&worker{url: "nowhere"}, "5s", "", http.StatusBadRequest, "no worker address"},
	} {
		if r := rt.beat(c.w, c.every, c.more); r.status != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s %s: %d %s", c.every, c.more, r.status, r.body)
		}
	}
	if r := rt.adminDo(http.MethodPost, "/workers", fmt.Sprintf(`{"url":%q,"instance":"1"}`, w.url)); r.status != http.StatusBadRequest {
		t.Errorf("an instance without a heartbeat: %d %s", r.status, r.body)
	}
	if n := len(rt.state().Workers); n != 1 {
		t.Errorf("%d workers", n)
	}
	rt = start(t, nil, other)
	if r := rt.beat(w, "5s", ""); r.status != http.StatusForbidden || !strings.Contains(r.body, "discovery.register") {
		t.Errorf("where it is off: %d %s", r.status, r.body)
	}
}

func TestARegistrationsTokenOpensNothingElse(t *testing.T) {
	const token, operators = "a-token-for-engines-of-the-fleet", "a-token-for-operators-of-it"
	w, other := newWorker(t, nil), newWorker(t, nil)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WARMPATH_TEST_TOKEN", operators)
	rt := start(t, func(c *config.Config) {
		registering(c)
		c.Access.Tokens = []guard.Entry{{Name: "engines", Role: "register", File: file}, {Name: "people", Role: "operate", Env: "WARMPATH_TEST_TOKEN"}}
	})
	with := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	if r := rt.beat(w, "5s", ""); r.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", r.status)
	}
	for _, t2 := range []string{token, operators} {
		if r := rt.beat(w, "5s", "", with(t2)...); r.status/100 != 2 {
			t.Errorf("%s: %d %s", t2, r.status, r.body)
		}
	}
	post := fmt.Sprintf(`{"url":%q,"id":"mine"}`, other.url)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/workers", post}, {http.MethodPost, "/workers?x=heartbeat", post}, {http.MethodGet, "/state", ""}, {http.MethodGet, "/metrics", ""},
		{http.MethodPost, "/workers/gpu-7/drain?heartbeat=5s", ""}, {http.MethodDelete, "/workers/gpu-7", ""}, {http.MethodDelete, "/workers/gpu-7?registered=false", ""},
		{http.MethodPost, "/policy?heartbeat=5s", `{"policy":"random"}`},
	} {
		if r := rt.adminDo(c.method, c.path, c.body, with(token)...); r.status != http.StatusForbidden {
			t.Errorf("%s %s: %d %s", c.method, c.path, r.status, r.body)
		}
	}
	if r := rt.adminDo(http.MethodPost, "/workers?heartbeat=", post, with(token)...); r.status != http.StatusBadRequest {
		t.Errorf("a heartbeat without a time: %d %s", r.status, r.body)
	}
	if r := rt.adminDo(http.MethodDelete, "/workers/gpu-7?registered=true", "", with(token)...); r.status != http.StatusOK {
		t.Errorf("goodbye: %d %s", r.status, r.body)
	}
}
