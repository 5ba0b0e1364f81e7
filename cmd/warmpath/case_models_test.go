package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/models"
)

// with configures virtual models.
func with(all ...models.Virtual) func(*config.Config) {
	return func(c *config.Config) { c.Models = all }
}

// asking is a chat body for a model; more are further fields.
func asking(model, text, more string) string {
	return fmt.Sprintf(`{"a": 1.50, "model":%q,%s "messages":[{"role":"user","content":%q}]}`, model, more, text)
}

func TestMUL01WeightsAreKeptByConversationAndAModelWithoutWorkersIsOutOfTheSplit(t *testing.T) {
	v1, v2 := newWorker(t, nil, "m-v1"), newWorker(t, nil, "m-v2")
	rt := start(t, with(models.Virtual{Name: "m", Choose: "weight", Candidates: []models.Candidate{{Model: "m-v1", Weight: 90}, {Model: "m-v2", Weight: 10}}},
		models.Virtual{Name: "never", Choose: "weight", Candidates: []models.Candidate{{Model: "m-v1", Weight: 0}, {Model: "m-v2", Weight: 100}}},
		models.Virtual{Name: "equal", Choose: "weight", Candidates: []models.Candidate{{Model: "m-v1"}, {Model: "m-v2"}}}), v1, v2)
	served := func(model, session string) string {
		r := rt.post("/v1/chat/completions", asking(model, session, ""), "X-Session-Id", session)
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return r.header.Get("X-Warmpath-Model")
	}
	count := func(model string, n int) (second int) {
		for i := range n {
			session := fmt.Sprintf("conversation %d", i)
			if got := served(model, session); got == "m-v2" {
				second++
			} else if got != "m-v1" {
				t.Fatalf("%q answered", got)
			}
			if i%50 == 0 {
				if first, second := served(model, session), served(model, session); first != second {
					t.Fatalf("%s moved", session)
				}
			}
		}
		return second
	}
	if n := count("m", 1000); n < 70 || n > 130 {
		t.Errorf("%d of 1000 went to the tenth", n)
	}
	if n := count("never", 50); n != 50 {
		t.Errorf("%d of 50, the other weighs 0", n)
	}
	if n := count("equal", 300); n < 110 || n > 190 {
		t.Errorf("%d of 300 in equal parts", n)
	}
	for i, c := range v2.calls() {
		if !strings.HasPrefix(string(c.body), `{"a": 1.50, "model":"m-v2", "messages":`) {
			t.Fatalf("call %d: %s", i, c.body)
		}
	}
	if err := rt.removeWorker("w2"); err != nil {
		t.Fatal(err)
	}
	if n := count("m", 100); n != 0 {
		t.Errorf("%d went to a model without workers", n)
	}
}

func TestMUL01ARequestFallsBackWhenItIsTooLongForTheModelOrItsWorkersFail(t *testing.T) {
	tooLong := `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your prompt contains at least 9000 input tokens","code":400}}`
	var mode atomic.Value
	small := newWorker(t, func(c *call) {
		switch mode.Load() {
		case "long":
			c.json(http.StatusBadRequest, tooLong)
		case "other":
			c.json(http.StatusBadRequest, `{"error":{"message":"temperature must be non-negative"}}`)
		case "busy":
			c.json(http.StatusServiceUnavailable, `{"error":{"message":"busy"}}`)
		case "reset":
			c.reset()
		}
	}, "small")
	large := newWorker(t, nil, "large")
	chatModel := models.Virtual{Name: "chat", Choose: "order", Candidates: []models.Candidate{{Model: "small"}, {Model: "large"}}}
	strict := models.Virtual{Name: "strict", Choose: "order", Candidates: []models.Candidate{{Model: "small"}}, Fallback: []models.Fallback{{Model: "large", On: []string{"context"}}}}
	rt := start(t, with(chatModel, strict), small, large)
	for i, c := range []struct {
		mode, model string
		status      int
		served      string
	}{
		{"long", "chat", 200, "large"}, {"long", "strict", 200, "large"},
		{"other", "chat", 400, "small"}, // would fail elsewhere alike
		{"long", "small", 400, ""},      // who asks by name gets that and no other
		{"reset", "chat", 200, "large"},
		{"busy", "strict", 503, "small"}, {"busy", "chat", 200, "large"},
	} {
		mode.Store(c.mode)
		rt.idle()
		r := rt.post("/v1/chat/completions", asking(c.model, fmt.Sprint("text ", i), ""))
		if r.status != c.status || c.status == 200 && r.header.Get("X-Warmpath-Model") != c.served {
			t.Errorf("%+v: %d, %q, %s", c, r.status, r.header.Get("X-Warmpath-Model"), r.body)
		}
	}
	stream := rt.post("/v1/chat/completions", asking("chat", "a stream", `"stream":true,`))
	if !strings.Contains(stream.body, "[DONE]") {
		t.Errorf("%d %s", stream.status, stream.body)
	}
	if got := rt.metric("warmpath_model_choices_total", `model="chat"`, `served="large"`); got < 3 {
		t.Errorf("%v choices are counted", got)
	}
}

func TestMUL01TheCheapestModelThatCanDoItAnswersAndAConversationStaysThere(t *testing.T) {
	small, large := newWorker(t, nil, "small"), newWorker(t, nil, "large")
	rt := start(t, with(models.Virtual{Name: "chat", Candidates: []models.Candidate{
		{Model: "large", ContextMax: 100_000, Tier: 2, Price: cost.Price{Input: 10, Output: 30}},
		{Model: "small", ContextMax: 2000, Can: []string{"tools"}, Tier: 1, Price: cost.Price{Input: 1, Output: 3}},
	}}), small, large)
	for _, c := range []struct{ text, more, tier, want string }{
		{"hello", "", "", "small"},
		{"hello", `"tools":[{"type":"function","function":{"name":"f"}}],`, "", "small"},
		{"hello", `"response_format":{"type":"json_object"},`, "", "large"},
		{"hello", "", "2", "large"},
		{longText("hello"), "", "", "large"},
	} {
		r := rt.post("/v1/chat/completions", asking("chat", c.text, c.more), "X-Warmpath-Tier", c.tier)
		if got := r.header.Get("X-Warmpath-Model"); r.status != http.StatusOK || got != c.want {
			t.Errorf("%.40s %s tier %q: %q answered, want %q: %d", c.text, c.more, c.tier, got, c.want, r.status)
		}
	}
	r := rt.post("/v1/chat/completions", asking("chat", "hello", ""), "X-Warmpath-Tier", "9")
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, "tier 2 is below 9") || strings.Contains(r.body, "large") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestMUL01ATenantsTierAndWhatItHasLeftToSpendDecideAmongModels(t *testing.T) {
	behind := []models.Candidate{
		{Model: "large", Tier: 2, Price: cost.Price{Input: 10_000, Output: 10_000}}, {Model: "small", Tier: 1, Price: cost.Price{Input: 1, Output: 1}},
	}
	for _, c := range []struct{ limits, choose, search, agents string }{
		{"    tier_min: 2\n", "cost", "large", "small"},
		{"    spend_per_day: 0.01\n", "order", "small", "large"},
	} {
		tenants := keyed(t, c.limits)
		rt := start(t, func(o *config.Config) {
			tenants(o)
			o.Models = []models.Virtual{{Name: "chat", Choose: c.choose, Candidates: behind}}
		}, newWorker(t, nil, "large"), newWorker(t, nil, "small"))
		for key, want := range map[string]string{searchKey: c.search, agentsKey: c.agents} {
			r := rt.post("/v1/chat/completions", asking("chat", "hello", `"max_tokens":20,`), "X-Api-Key", key)
			if got := r.header.Get("X-Warmpath-Model"); r.status != http.StatusOK || got != want {
				t.Errorf("%q: %q answered, want %q: %d %s", c.limits, got, want, r.status, r.body)
			}
		}
	}
}

func TestRTL01WhoHasTooLittleLeftForAnyModelBehindANameIsToldOfItsLimit(t *testing.T) {
	tenants := keyed(t, "    spend_per_day: 0.01\n")
	rt := start(t, func(o *config.Config) {
		tenants(o)
		o.Models = []models.Virtual{{Name: "chat", Candidates: []models.Candidate{{Model: "m", Price: cost.Price{Input: 10, Output: 400}}}}}
	}, newWorker(t, func(c *call) { metered(c, 10, 20, 0) }))
	ask := func(path, key, tokens string) reply {
		return rt.post(path, asking("chat", "hello", `"max_tokens":`+tokens+`,`), "X-Api-Key", key)
	}
	if r := ask("/v1/chat/completions", searchKey, "20"); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for path, words := range map[string]string{"/v1/chat/completions": `"code":"insufficient_quota"`, "/v1/messages": `"type":"rate_limit_error"`} {
		r := ask(path, searchKey, "20")
		if r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, words) || !strings.Contains(r.body, "spend_per_day") || !strings.Contains(r.body, "the next day begins") {
			t.Errorf("%s: %d %v %s", path, r.status, r.header, r.body)
		}
	}
	if r := ask("/v1/chat/completions", searchKey, "2000"); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") != "" || !strings.Contains(r.body, "spend_per_day") {
		t.Errorf("dearer than a day: %d %v %s", r.status, r.header, r.body)
	}
	if e := rt.explain("", asking("chat", "hello", `"max_tokens":20,`), "X-Api-Key", searchKey); e.Status != http.StatusTooManyRequests || !strings.Contains(e.Error, "spend_per_day") { // it is not counted
		t.Errorf("%+v", e)
	}
	rt.idle()
	if s := rt.who("search"); s.Refused["spend_per_day"] != 3 || s.InFlight != 0 || s.Requests != 1 {
		t.Errorf("%+v", s)
	}
	if r := ask("/v1/chat/completions", agentsKey, "20"); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
}

func TestMUL01ABodyOfAnyFormGetsTheChosenModelOrIsToldWhyNot(t *testing.T) {
	w := newWorker(t, nil, "small")
	rt := start(t, func(c *config.Config) {
		c.Models = []models.Virtual{{Name: "chat", Candidates: []models.Candidate{{Model: "small"}}}}
		c.DefaultModel = "chat"
	}, w)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(asking("chat", "packed", "")))
	z.Close()
	for _, c := range []struct{ body, kind, encoding, want string }{
		{`{"messages":[],"stream":false}`, "application/json", "", `{"messages":[],"stream":false,"model":"small"}`},
		{`{"model":"chat","messages":[] }`, "application/json", "", `{"model":"small","messages":[] }`},
		{packed.String(), "application/json", "gzip", asking("small", "packed", "")},
	} {
		headers := []string{"Content-Type", c.kind}
		if c.encoding != "" {
			headers = append(headers, "Content-Encoding", c.encoding)
		}
		r := rt.post("/v1/chat/completions", c.body, headers...)
		calls := w.calls()
		last := calls[len(calls)-1]
		if r.status != http.StatusOK || string(last.body) != c.want || last.r.Header.Get("Content-Encoding") != "" {
			t.Errorf("%d; %s", r.status, last.body)
		}
	}
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat\r\n--b--\r\n"
	if r := rt.post("/v1/audio/transcriptions", form, "Content-Type", "multipart/form-data; boundary=b"); r.status != http.StatusBadRequest || !strings.Contains(r.body, "stands for others") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := rt.get("/v1/models"); !strings.Contains(r.body, `"id":"chat"`) || !strings.Contains(r.body, `"id":"small"`) {
		t.Error(r.body)
	}
	if r := rt.get("/v1/models/chat"); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestMUL01ARequestThatTheQueueRefusesFallsBack(t *testing.T) {
	release := make(chan struct{})
	small := newWorker(t, func(c *call) {
		select {
		case <-release:
		case <-c.gone:
		}
		c.good("done")
	}, "small")
	large := newWorker(t, nil, "large")
	rt := start(t, func(c *config.Config) {
		c.Models = []models.Virtual{{Name: "chat", Choose: "order", Candidates: []models.Candidate{{Model: "small"}, {Model: "large"}}}}
		c.Workers[0].InFlightMax, c.Queue.RequestsMax = 1, 2 // of which the usual class may have one
	}, small, large)
	done := make(chan reply, 2)
	ask := func(text string) { done <- rt.post("/v1/chat/completions", asking("chat", text, "")) }
	go ask("the first")
	eventually(t, "the first at its worker", func() bool { return small.count() == 1 })
	go ask("the second")
	eventually(t, "the second in the queue", func() bool { q, _ := rt.gate.QueueStats(); return q.Waiting == 1 })
	r := rt.post("/v1/chat/completions", asking("chat", "the third", ""))
	if r.status != http.StatusOK || r.header.Get("X-Warmpath-Model") != "large" {
		t.Errorf("%d, %q: %s", r.status, r.header.Get("X-Warmpath-Model"), r.body)
	}
	close(release)
	for range 2 {
		if r := <-done; r.status != http.StatusOK || r.header.Get("X-Warmpath-Model") != "small" {
			t.Errorf("%d, %q: %s", r.status, r.header.Get("X-Warmpath-Model"), r.body)
		}
	}
}
