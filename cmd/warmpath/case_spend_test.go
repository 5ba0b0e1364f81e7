package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/tenant"
)

// priced has the router ask for keys, and counts a millionth for a prompt token, a tenth of it for a cached one and ten times it for a generated one.
func priced(t *testing.T, more string) func(*config.Config) {
	t.Helper()
	keys := keyed(t, more)
	return func(c *config.Config) {
		keys(c)
		c.Prices = []models.Priced{{Model: "m", Price: cost.Price{Input: 1, Cached: 0.1, Output: 10}}}
	}
}

// millionths are so many of them, as /state has money.
func millionths(n float64) float64 { return n / 1e6 }

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// metered answers with that usage, streamed or not.
func metered(c *call, prompt, completion, cached int) {
	if !c.wantsStream() {
		c.json(http.StatusOK, fmt.Sprintf(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`,
			prompt, completion, prompt+completion, cached))
		return
	}
	c.events()
	for range completion {
		c.send(deltaOf("word "))
	}
	c.send(usageEvent(prompt, completion, cached))
	c.send("data: [DONE]\n\n")
}

func TestRTL02MoneyIsCountedByUsageWholeStreamedAndRefused(t *testing.T) {
	w := newWorker(t, func(c *call) {
		if strings.Contains(string(c.body), "refused") {
			c.json(http.StatusBadRequest, `{"error":{"message":"no","type":"invalid_request_error"}}`)
			return
		}
		metered(c, 1000, 20, 600)
	})
	rt := start(t, priced(t, "    spend_per_day: 1\n"), w)
	const each = 400*1 + 600*0.1 + 20*10
	spent := 0.0
	for _, c := range []struct {
		body   string
		status int
		costs  float64
	}{
		{bounded("whole", 30), 200, each}, {`{"model":"m","max_tokens":30,"stream":true,"messages":[{"role":"user","content":"streamed"}]}`, 200, each},
		{bounded("refused by the worker", 30), 400, 0}, {`{"model":"other","messages":[]}`, 404, 0}, {`{"model":`, 400, 0},
	} {
		if r := rt.post("/v1/chat/completions", c.body, "X-Api-Key", searchKey); r.status != c.status {
			t.Errorf("%s: %d %s", c.body, r.status, r.body)
		}
		rt.idle()
		spent += millionths(c.costs)
		if s := rt.who("search"); !near(s.SpentToday, spent) || s.SpendPerDay != 1 || s.InFlight != 0 {
			t.Errorf("after %s: %v spent, want %v: %+v", c.body, s.SpentToday, spent, s)
		}
	}
	if m := rt.metric("warmpath_tenant_spent_today", `tenant="search"`); !near(m, spent) {
		t.Errorf("the metrics say %v, want %v", m, spent)
	}
}

func TestAStreamThatItsClientLeavesIsBilledForWhatCameOfIt(t *testing.T) {
	const words = 7
	w := newWorker(t, func(c *call) {
		c.events()
		for range words {
			c.send(deltaOf("word "))
		}
		c.stall()
	})
	rt := start(t, priced(t, "    spend_per_day: 1\n"), w)
	ctx, leave := context.WithCancel(t.Context())
	resp, err := rt.open(ctx, "/v1/chat/completions", chat("a question", true), "X-Api-Key", searchKey)
	if err != nil {
		t.Fatal(err)
	}
	next := eventsOf(resp)
	for range words {
		if _, err := next(); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	resp.Body.Close()
	rt.idle()
	s := rt.who("search")
	prompt := s.TokensLastMinute - words // as it was estimated
	if prompt <= 0 || !near(s.SpentToday, millionths(float64(prompt+10*words))) || s.Requests-s.NeverRan != 1 {
		t.Errorf("%+v", s)
	}
}

func TestRTL01WhoHasSpentTheDaysMoneyIsToldWhenThereIsMore(t *testing.T) {
	w := newWorker(t, func(c *call) { metered(c, 3, 10, 0) })
	rt := start(t, priced(t, "    spend_per_day: 0.001\n"), w)
	var all sync.WaitGroup
	replies := make([]reply, 20)
	for i := range replies { // none passes the limit because others have not ended yet
		all.Go(func() {
			replies[i] = rt.do(t.Context(), http.MethodPost, "/v1/chat/completions", bounded(fmt.Sprint("at once ", i), 10), "X-Api-Key", searchKey)
		})
	}
	all.Wait()
	rt.idle()
	served := 0
	for _, r := range replies {
		switch {
		case r.status == http.StatusOK:
			served++
		case r.status != http.StatusTooManyRequests || !strings.Contains(r.body, "spend_per_day"):
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	for rt.post("/v1/chat/completions", bounded("until nothing is left", 10), "X-Api-Key", searchKey).status == http.StatusOK {
		served++
	}
	s := rt.who("search")
	const each = 3 + 10*10 // what is expected of a prompt is a token or two off
	if want := millionths(float64(served) * each); served < 8 || served > 1000/each+1 || !near(s.SpentToday, want) {
		t.Errorf("%d served: %v spent, want %v", served, s.SpentToday, want)
	}
	midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	for _, c := range []struct{ path, body, words string }{
		{"/v1/chat/completions", bounded("too late", 10), `"code":"insufficient_quota"`},
		{"/v1/messages", `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"too late"}]}`, `"type":"rate_limit_error"`},
		{"/v1/responses", `{"model":"m","max_output_tokens":10,"input":"too late"}`, `"code":"insufficient_quota"`},
	} {
		r := rt.post(c.path, c.body, "X-Api-Key", searchKey)
		wait, err := strconv.Atoi(r.header.Get("Retry-After"))
		again := time.Now().Add(time.Duration(wait) * time.Second)
		if r.status != http.StatusTooManyRequests || err != nil || again.Before(midnight.Add(-time.Minute)) || again.After(midnight.Add(time.Minute)) {
			t.Errorf("%s: %d, Retry-After %q with midnight at %v", c.path, r.status, r.header.Get("Retry-After"), midnight)
		}
		for _, want := range []string{c.words, tenant.MoneyOf(s.SpentToday).String() + " spent today", "0.0010 a day", "spend_per_day", midnight.Format(time.RFC3339)} {
			if !strings.Contains(r.body, want) {
				t.Errorf("%s: %q is not in %s", c.path, want, r.body)
			}
		}
	}
	if r := rt.post("/v1/chat/completions", bounded("somebody else", 10), "X-Api-Key", agentsKey); r.status != http.StatusOK {
		t.Errorf("another tenant: %d", r.status)
	}
	if n := rt.metric("warmpath_tenant_refused_total", `tenant="search"`, `limit="spend_per_day"`); n < 3 {
		t.Errorf("the metrics tell of %v refusals", n)
	}
	if r := rt.post("/v1/chat/completions", bounded("dearer than a day", 1000), "X-Api-Key", searchKey); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") != "" {
		t.Errorf("what can never be paid is told to come again: %d %v", r.status, r.header)
	}
}

func TestWhatWasSpentTodayOutlivesARestart(t *testing.T) {
	w := newWorker(t, func(c *call) { metered(c, 100, 10, 0) })
	folder, change := t.TempDir(), priced(t, "    spend_per_day: 0.0005\n")
	same := func(c *config.Config) { change(c); c.StateDir = folder }
	ask := func(rt *testRouter) int {
		return rt.post("/v1/chat/completions", bounded("again", 10), "X-Api-Key", searchKey).status
	}
	first := start(t, same, w)
	for range 2 {
		if status := ask(first); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	first.Close()
	second := start(t, same, w)
	if status := ask(second); status != http.StatusTooManyRequests {
		t.Errorf("after the restart: %d", status)
	}
	if s := second.who("search"); !near(s.SpentToday, millionths(400)) {
		t.Errorf("%+v", s)
	}
	second.Close()
	file, err := second.spentFile()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"search":400000`) || strings.Contains(string(text), searchKey) {
		t.Errorf("%s, %v", text, err)
	}
	if err := os.WriteFile(file, []byte("not what it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	if third := start(t, same, w); ask(third) != http.StatusOK || !strings.Contains(third.log.String(), "begin anew") {
		t.Error("a file that cannot be read stops the router, or is not told")
	}
}

func TestAWorkersHoursAreHeldAgainstTheLimitToo(t *testing.T) {
	w := newWorker(t, func(c *call) { metered(c, 100, 10, 0) })
	rt := start(t, func(c *config.Config) {
		priced(t, "    spend_per_day: 1000\n")(c)
		c.Prices = []models.Priced{{Price: cost.Price{WorkerHour: 3600}}}
	}, w)
	for range 3 {
		if r := rt.post("/v1/chat/completions", bounded("by the hour", 10), "X-Api-Key", searchKey); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	rt.idle()
	if s := rt.who("search"); s.SpentToday <= 0 || s.SpentToday > 100 {
		t.Errorf("%v for three requests of less than a second each", s.SpentToday)
	}
}

func TestALimitOfMoneyWithoutPricesIsRefusedAtStart(t *testing.T) {
	c := config.Default()
	keyed(t, "    spend_per_day: 5\n")(&c)
	if _, err := readTenants(c.Tenants.File, models.PricesOf(c.ModelOptions())); err == nil || !strings.Contains(err.Error(), "setting prices") || !strings.Contains(err.Error(), "5.0000") {
		t.Errorf("%v", err)
	}
}

func TestAModelWithoutAPriceIsToldWhereMoneyIsALimit(t *testing.T) {
	for limit, want := range map[string]int{"    spend_per_day: 5\n": 1, "": 0} {
		w, more := newWorker(t, nil, "m", "free"), newWorker(t, nil, "free")
		rt := start(t, priced(t, limit), w, more)
		if n := strings.Count(rt.log.String(), "a model has no price"); n != want || want > 0 && !strings.Contains(rt.log.String(), "model=free") {
			t.Errorf("with %q it is told %d times", limit, n)
		}
	}
}
