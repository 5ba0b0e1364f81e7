package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/checkup"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/guard"
)

func TestThePageIsAtTheRootOfTheAdminPortForThoseWhoMayRead(t *testing.T) {
	const reader, operator = "a-token-of-one-who-reads", "a-token-of-one-who-operates"
	t.Setenv("PAGE_READER", reader)
	t.Setenv("PAGE_OPERATOR", operator)
	rt := start(t, func(c *config.Config) {
		c.Access.Tokens = []guard.Entry{{Name: "reader", Role: "read", Env: "PAGE_READER"}, {Name: "operator", Role: "operate", Env: "PAGE_OPERATOR"}}
	}, newWorker(t, nil))
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{http.MethodGet, "/", "", http.StatusUnauthorized}, {http.MethodGet, "/", reader, http.StatusOK}, {http.MethodGet, "/app.js", reader, http.StatusOK}, {http.MethodGet, "/checks", reader, http.StatusOK},
		{http.MethodPost, "/try/v1/chat/completions", reader, http.StatusForbidden}, {http.MethodPost, "/try/v1/chat/completions", operator, http.StatusOK},
	} {
		req, _ := http.NewRequest(c.method, rt.AdminURL()+c.path, strings.NewReader(chat("x", false)))
		if c.token != "" { // as a browser shows it that was asked for a password
			req.SetBasicAuth("", c.token)
		}
		if r := read(rt.http.Do(req)); r.status != c.status {
			t.Errorf("%s %s with %q: %d, want %d: %s", c.method, c.path, c.token, r.status, c.status, r.body)
		}
	}
}

func TestWhatIsTriedOnThePageIsARequestLikeAnyOther(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	req, _ := http.NewRequest(http.MethodPost, rt.AdminURL()+"/try/v1/chat/completions?a=b", strings.NewReader(chat("x", false)))
	req.Header.Set("X-Request-Id", "tried-1")
	req.Header.Set("Origin", rt.AdminURL())
	r := read(rt.http.Do(req))
	if r.status != http.StatusOK || r.header.Get("X-Request-Id") != "tried-1" || r.header.Get("X-Warmpath-Worker") != "w1" {
		t.Fatalf("%d %v %s", r.status, r.header, r.body)
	}
	var found decisionFound
	eventually(t, "its decision to be kept", func() bool { return rt.adminCall(http.MethodGet, "/decisions/tried-1", "", &found) == http.StatusOK })
	if found.Record.Worker != "w1" || found.Record.Outcome != "succeeded" {
		t.Errorf("%+v", found.Record)
	}
	for _, path := range []string{"/try/v2/else", "/try/"} {
		if status := rt.adminCall(http.MethodPost, path, chat("x", false), nil); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestTheChecksOfThePageAreThoseOfDoctor(t *testing.T) {
	rt := start(t, func(c *config.Config) {
		c.Workers = []config.Worker{{ID: "w1", URL: simulated(t)}, {ID: "gone", URL: "http://" + freeAddress(t)}}
	})
	var found checksFound
	eventually(t, "the engine to be known", func() bool { return rt.worker("w1").Engine == "warmpath" })
	if status := rt.adminCall(http.MethodGet, "/checks", "", &found); status != http.StatusOK || len(found.Workers) != 2 {
		t.Fatalf("%d, %+v", status, found)
	}
	for _, r := range found.Workers {
		if broken := r.ID == "gone"; broken != (r.Verdict == checkup.VerdictBroken) || r.Requests != 0 {
			t.Errorf("%+v", r)
		}
	}
	for range 2 {
		rt.post("/v1/chat/completions", `{"model":"sim-8b","stream":true,"max_tokens":4,"messages":[{"role":"user","content":"`+strings.Repeat("what clients show ", 40)+`"}]}`)
	}
	eventually(t, "both to be noted", func() bool { return rt.archive.traffic.of("w1").Streams == 2 })
	if status := rt.adminCall(http.MethodGet, "/checks?worker=w1", "", &found); status != http.StatusOK || len(found.Workers) != 1 {
		t.Fatalf("%d, %+v", status, found)
	}
	parts := map[string]checkup.Check{}
	for _, c := range found.Workers[0].Checks {
		parts[c.Part] = c
	}
	for _, part := range []string{"stream", "usage", "cached tokens"} { // clients have shown them
		if c := parts[part]; c.Level != checkup.Full {
			t.Errorf("%s: %+v", part, c)
		}
	}
	if parts["tokens"].Level != checkup.Partly || !strings.Contains(parts["cache events"].Gain, "--kv-events") || parts["cancellation"].Level != checkup.Unseen {
		t.Errorf("%+v", parts)
	}
	for path, want := range map[string]int{"/checks?worker=nobody": http.StatusNotFound, "/checks?wroker=w1": http.StatusBadRequest} {
		if status := rt.adminCall(http.MethodGet, path, "", nil); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}
