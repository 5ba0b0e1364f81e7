package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// share has n requests begin alike, and returns their system prompt.
func (rt *testRouter) share(n int) string {
	rt.t.Helper()
	system := strings.Repeat("You help with letters, and know where they belong. ", 40)
	for i := range n {
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":"Question %d: %s"}]}`, system, i, strings.Repeat(fmt.Sprint(i), 200))
		if r := rt.post("/v1/chat/completions", body); r.status != http.StatusOK {
			rt.t.Fatalf("%d %s", r.status, r.body)
		}
	}
	rt.idle()
	return system
}

func TestWhatManyRequestsBeginWithIsShownWithWhereItIsCached(t *testing.T) {
	t.Parallel()
	answer := func(c *call) {
		c.json(http.StatusOK, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":600,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":500}}}`)
	}
	rt := start(t, nil, newWorker(t, answer, "m"), newWorker(t, answer, "m"))
	rt.share(20)
	var found prefixesFound
	if status := rt.adminCall(http.MethodGet, "/prefixes?limit=5", "", &found); status != http.StatusOK || len(found.Prefixes) == 0 {
		t.Fatalf("%d, %+v", status, found)
	}
	p := found.Prefixes[0]
	if p.Model != "m" || p.Bytes < 1900 || p.Bytes > 2100 || p.Tokens < 400 || p.Tokens > 600 || p.Requests < 18 || p.Requests > 20 || p.RequestsPerMinute <= 0 || p.SecondsSaved <= 0 || p.EvictionSeconds <= 0 {
		t.Errorf("%+v", p)
	}
	if p.Copies == 0 || len(p.Holders) != p.Copies || !strings.HasPrefix(p.Holders[0], "w") || p.CopyTokens != p.Copies*p.Tokens || len(p.Key) != 16 {
		t.Errorf("%+v", p)
	}
	if found.ShowText || p.Text != "" {
		t.Errorf("its text is shown, and nobody asked for that: %q", p.Text)
	}
	if n := rt.metric("warmpath_prefixes_tracked"); n < 1 || found.TrackedMax != 1024 {
		t.Errorf("%v are tracked of %d", n, found.TrackedMax)
	}
	for query, want := range map[string]string{"limit=0": "from 1 to 1000", "sort=request": "did you mean requests?", "sorted=1": "did you mean sort?"} {
		if r := read(rt.http.Get(rt.AdminURL() + "/prefixes?" + query)); r.status != http.StatusBadRequest || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
	var out, errs bytes.Buffer
	if code := run([]string{"prefixes", "--admin", rt.AdminURL()}, &out, &errs); code != exitOK || !strings.Contains(out.String(), p.Key) || !strings.Contains(out.String(), "requests/min") {
		t.Errorf("%d\n%s%s", code, out.String(), errs.String())
	}
}

func TestTheTextOfPrefixesIsKeptWhereThatIsSetAlone(t *testing.T) {
	t.Parallel()
	rt := start(t, func(c *config.Config) { c.Dash.ShowText = true }, newWorker(t, nil, "m"))
	system := rt.share(4)
	var found prefixesFound
	rt.adminCall(http.MethodGet, "/prefixes", "", &found)
	if !found.ShowText || len(found.Prefixes) == 0 || found.Prefixes[0].Text != system[:config.ShownTextBytes] {
		t.Errorf("%+v", found)
	}
}
