package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/sched"
)

// explain asks a router's admin port; query is "" or begins with ?.
func (rt *testRouter) explain(query, body string, headers ...string) explanation {
	rt.t.Helper()
	req, err := http.NewRequest(http.MethodPost, rt.AdminURL()+"/explain"+query, strings.NewReader(body))
	if err != nil {
		rt.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r := read(rt.http.Do(req))
	var e explanation
	if err := json.Unmarshal([]byte(r.body), &e); r.status != http.StatusOK || err != nil {
		rt.t.Fatalf("%d, %v: %s", r.status, err, r.body)
	}
	return e
}

// counted is what may not change by asking: the state and all counters, but for ages.
func (rt *testRouter) counted() string {
	rt.t.Helper()
	page := read(rt.http.Get(rt.AdminURL() + "/metrics")).body
	var kept []string
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "warmpath_") && !regexp.MustCompile(`_age_|telemetry|uptime|slow_start|bound="(goroutines|memory_bytes|descriptors)"`).MatchString(line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func TestOBS01AnExplanationForetellsWhereARequestGoesAndLeavesNoTrace(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	rt := start(t, nil, w1, w2)
	body := chat(strings.Repeat("the same words again ", 200), false)
	for range 3 {
		rt.post("/v1/chat/completions", body)
	}
	rt.idle()
	eventually(t, "the ghosts to have placed them", func() bool { return rt.bound("ghost_requests").Used == 0 })
	before, state := rt.counted(), rt.state()
	asked := w1.count() + w2.count()
	var e explanation
	for range 50 {
		e = rt.explain("", body)
	}
	if after := rt.counted(); after != before {
		t.Errorf("asking was counted:\n%s\nthen\n%s", before, after)
	}
	if s := rt.state(); s.Index.Blocks != state.Index.Blocks || s.Running != 0 || s.Workers[0].InFlight+s.Workers[1].InFlight != 0 || w1.count()+w2.count() != asked {
		t.Errorf("asking left a trace: %+v", s)
	}
	if e.Verdict != verdictPlaced || len(e.Rows) != 2 || !e.Rows[0].Chosen || e.Rows[0].Worker != e.Worker || e.Hit != "hit" || e.API != "chat" || e.Class != "standard" || e.Prompt.How != tokensEstimated {
		t.Fatalf("%+v", e)
	}
	if r := rt.post("/v1/chat/completions", body); r.header.Get("X-Warmpath-Worker") != e.Worker {
		t.Errorf("foretold %s, then %s", e.Worker, r.header.Get("X-Warmpath-Worker"))
	}
	row := e.Rows[0]
	if sum := row.WaitSeconds + row.PrefillSeconds + row.DelaySeconds + row.DecodeSeconds + row.BatchSeconds + row.DisplacedSeconds; sum-row.TotalSeconds > 1e-9 || row.TotalSeconds-sum > 1e-9 {
		t.Errorf("the terms sum up to %v, the total is %v", sum, row.TotalSeconds)
	}
	if other := rt.explain("?policy=least-requests", body); other.Policy != "least-requests" || rt.gate.Policy() != sched.DefaultPolicy {
		t.Errorf("another policy: %+v", other)
	}
}

func TestAnExplanationSaysWhyARequestWouldBeRefused(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	for body, want := range map[string]string{
		`{"model":"unheard","prompt":"x"}`: "404 no worker serves the model \"unheard\"; served are: m",
		`{"model":"m","messages":[{]}`:     "400 the request body is ",
		`{"model":"m","messages":7}`:       "400 ",
	} {
		e := rt.explain("", body)
		if got := fmt.Sprint(e.Status, " ", e.Error); e.Verdict != verdictRefused || !strings.HasPrefix(got, want) || e.Worker != "" {
			t.Errorf("%s: %s, %s", body, e.Verdict, got)
		}
	}
	if code := rt.adminCall(http.MethodPost, "/workers/w1/drain", "", nil); code != http.StatusOK {
		t.Fatal(code)
	}
	if e := rt.explain("", chat("x", false)); e.Status != http.StatusServiceUnavailable || len(e.Rows) != 1 || e.Rows[0].Why != "draining" {
		t.Errorf("%+v", e)
	}
	for query, want := range map[string]string{"?path=/metrics": "no such path on the data port: /metrics", "?policy=best": "unknown policy best", "?pat=/v1/x": "unknown query parameter pat", "?without=nobody": "no worker is called nobody"} {
		req, _ := http.NewRequest(http.MethodPost, rt.AdminURL()+"/explain"+query, strings.NewReader("{}"))
		if r := read(rt.http.Do(req)); r.status != http.StatusBadRequest || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
}

func TestAnExplanationLeavesOutTheWorkersThatItIsToldTo(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil), newWorker(t, nil))
	body := chat(strings.Repeat("the same words again ", 200), false)
	rt.post("/v1/chat/completions", body)
	rt.idle()
	warm := rt.explain("", body)
	other := rt.explain("?without="+warm.Worker, body)
	if other.Worker == "" || other.Worker == warm.Worker {
		t.Errorf("without %s it would go to %q", warm.Worker, other.Worker)
	}
	if last := other.Rows[len(other.Rows)-1]; last.Worker != warm.Worker || last.Why != whyWithout {
		t.Errorf("it says of %s: %q", last.Worker, last.Why)
	}
	nobody := rt.explain("?without="+warm.Worker+"&without="+other.Worker, body)
	if nobody.Worker != "" {
		t.Errorf("without both it would go to %q", nobody.Worker)
	}
	var text strings.Builder
	if err := printExplanation(&text, &nobody, 0); err != nil || !strings.Contains(text.String(), "\n  left out by --without: w1, w2\n") || !strings.HasSuffix(nobody.Error, ": 2 of 2 left out (without)") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestTheAPIOfABodyIsGuessedByWhatOnlyItHas(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[]}`: "/v1/chat/completions", `{"system":"s","messages":[]}`: "/v1/messages", `{"prompt":"x"}`: "/v1/completions", `{"input":"x"}`: "/v1/responses",
		`{"input":[{"role":"user"}]}`: "/v1/responses", `{"input":["a","b"]}`: "/v1/embeddings", `{"input":[1,2]}`: "/v1/embeddings", `{"input":"x","dimensions":4}`: "/v1/embeddings",
		`{"query":"q","documents":[]}`: "/v1/rerank", `{"text_1":"a"}`: "/v1/score", `{`: "/v1/chat/completions", `[]`: "/v1/chat/completions", `{"input":[]}`: "/v1/responses",
	} {
		if got := guessPath([]byte(body)); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// The command asks the router, prints the same for the request that then comes, and says which worker and when it would wait.
func TestTheCommandExplainsWhatWouldBeAndWhatWas(t *testing.T) {
	folder := t.TempDir()
	log, file := filepath.Join(folder, "decisions.jsonl"), filepath.Join(folder, "body.json")
	w := newWorker(t, func(c *call) {
		if strings.Contains(string(c.body), "stay") {
			c.stall()
			return
		}
		c.good("fine")
	})
	rt := start(t, func(c *config.Config) { c.DecisionLog.File = log; c.InFlightMax = 1 }, w)
	if err := os.WriteFile(file, []byte(chat("hello", false)), 0o600); err != nil {
		t.Fatal(err)
	}
	said := func(args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := run(append([]string{"explain"}, args...), &out, &errs); code != exitOK || errs.Len() > 0 {
			t.Fatalf("%v: %d %s", args, code, errs.String())
		}
		return out.String()
	}
	ask := func() string {
		return said("--body", file, "--admin", rt.AdminURL(), "--header", "X-Warmpath-Class: batch")
	}
	if text := ask(); !strings.Contains(text, "\nto w1: least cost (policy warm-cost)\n") || !strings.Contains(text, "class batch") || !strings.Contains(text, "\n> w1 ") || strings.Contains(text, "\x1b") {
		t.Errorf("it says:\n%s", text)
	}
	answered := rt.post("/v1/chat/completions", chat("hello", false))
	id := answered.header.Get("X-Request-Id")
	eventually(t, "the record to be written", func() bool {
		text, _ := os.ReadFile(log)
		return strings.Contains(string(text), id)
	})
	if text := said("--id", id, "--log", log); !strings.Contains(text, "\nwent to w1: least cost (policy warm-cost)\n") || !strings.Contains(text, "succeeded, status 200") {
		t.Errorf("it says:\n%s", text)
	}
	remembered := said("--id", id[:8], "--admin", rt.AdminURL()) // without the log, and by the beginning
	if logged := said("--id", id[:8], "--log", log); remembered != logged || !strings.Contains(logged, "request "+id) || !strings.Contains(logged, ", answered in one piece after ") || strings.Contains(logged, "first token") {
		t.Errorf("of the router:\n%s\nof the log:\n%s", remembered, logged)
	}
	var out, errs strings.Builder
	if code := run([]string{"explain", "--id", "nobodys", "--admin", rt.AdminURL()}, &out, &errs); code != exitRuntime || !strings.Contains(errs.String(), `no request "nobodys" among the last 1 decision (`) || !strings.Contains(errs.String(), "--log FILE") {
		t.Errorf("%d %s", code, errs.String())
	}
	if text := said("--body", file, "--admin", rt.AdminURL(), "--policy", "round-robin"); !strings.Contains(text, "score: what round-robin goes by, no time; less is better: the number of the choice") {
		t.Errorf("it says:\n%s", text)
	}
	os.WriteFile(file+"x", []byte(`{"model":"m","messages":7}`), 0o600)
	errs.Reset()
	if code := run([]string{"explain", "--body", file + "x", "--admin", rt.AdminURL()}, &out, &errs); code != exitRuntime || !strings.Contains(errs.String(), "the request would be refused with 400: ") {
		t.Errorf("%d %s", code, errs.String())
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		rt.do(ctx, http.MethodPost, "/v1/chat/completions", chat("stay", false))
	}()
	eventually(t, "the worker to be full", func() bool { return rt.gate.InFlight("w1") == 1 })
	if text := ask(); !strings.Contains(text, "\nit waits: ") || !strings.Contains(text, "Ahead of it: 0 requests; how long is not known yet, and it may wait 3600 s") {
		t.Errorf("it says:\n%s", text)
	}
	leave()
	<-left
}

func TestAnExplanationTellsWhichModelANameStandsForAndWhichPoolTakesIt(t *testing.T) {
	rt := start(t, func(c *config.Config) {
		c.Models = []models.Virtual{{Name: "chat", Choose: "order", Candidates: []models.Candidate{{Model: "n"}, {Model: "m"}}}}
		c.Pools = []pools.Pool{{Name: "first", Workers: []string{"w1"}}, {Name: "second", Workers: []string{"w2"}}}
		c.PoolRules = []pools.Rule{{Name: "all of n", Models: []string{"n"}, To: []string{"second"}}}
	}, newWorker(t, nil, "m", "n"), newWorker(t, nil, "m", "n"))
	e := rt.explain("", strings.Replace(chat("hello", false), `"m"`, `"chat"`, 1))
	if e.Asked != "chat" || e.Model != "n" || e.Choice == "" || len(e.Others) != 2 || e.Pool != "second" || e.Worker != "w2" || !strings.Contains(e.PoolWhy, "all of n") {
		t.Errorf("%+v", e)
	}
	var text strings.Builder
	if err := printExplanation(&text, &e, 0); err != nil || !strings.Contains(text.String(), "chat stands for other models; of them it is this one: ") ||
		!strings.Contains(text.String(), "not chosen from:\n  not in the pool: w1\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if n := rt.metric("warmpath_model_choices_total"); n != 0 {
		t.Errorf("asking was counted as %v choices", n)
	}
}

// What --json prints can be read by what reads POST /explain: they are one thing.
func TestExplanationsAreTheSameFromThePortAndTheCommand(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	file := filepath.Join(t.TempDir(), "body.json")
	os.WriteFile(file, []byte(chat("hello", false)), 0o600)
	var out, errs strings.Builder
	if code := run([]string{"explain", "--json", "--body", file, "--admin", rt.AdminURL()}, &out, &errs); code != exitOK {
		t.Fatal(errs.String())
	}
	var e explanation
	if err := json.Unmarshal([]byte(out.String()), &e); err != nil {
		t.Fatal(err)
	}
	other := rt.explain("", chat("hello", false))
	e.Time = other.Time
	if !reflect.DeepEqual(e, other) {
		t.Errorf("%+v\n%+v", e, other)
	}
}
