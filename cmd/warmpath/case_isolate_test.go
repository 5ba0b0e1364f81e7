package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/tenant"
)

// apart is a router whose tenants search and agents share no caches.
func apart(t *testing.T) func(*config.Config) {
	keys := keyed(t, "")
	return func(c *config.Config) {
		keys(c)
		c.Isolate, c.ExplainHeaders, c.Policy = config.IsolateTenant, true, "affinity-filter"
	}
}

// shows is a tenant's key as clients show it.
func shows(key string) []string { return []string{"X-Api-Key", key} }

func TestSEC_03_OneTenantsPromptsAreNeverWarmForAnother(t *testing.T) {
	rt := start(t, apart(t), newWorker(t, nil), newWorker(t, nil))
	for path, form := range map[string]string{
		"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":%q}]%s}`,
		"/v1/completions":      `{"model":"m","prompt":%q%s}`,
		"/v1/messages":         `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":%q}]%s}`,
		"/v1/responses":        `{"model":"m","input":%q%s}`,
	} {
		salt := tenant.Salt(rt.secret, "search", "")
		for _, more := range []string{"", `,"cache_salt":""`, `,"cache_salt":"x"`, `,"cache_salt":"` + salt + `"`, `,"cache_salt":null`, `,"user":"search","metadata":{"tenant":"search"}`} {
			prompt := long("P of " + path + more)
			own := fmt.Sprintf(form, prompt, "")
			_, first := rt.matched(path, own, shows(searchKey)...)
			if matched, _ := rt.matched(path, fmt.Sprintf(form, prompt, more), append(shows(agentsKey), "X-Tenant-Id", "search")...); matched["w1"]+matched["w2"] != 0 {
				t.Errorf("%s: with %q another tenant's prompt is taken to be warm: %v", path, more, matched)
			}
			if matched, chosen := rt.matched(path, own, shows(searchKey)...); chosen != first || matched[first] == 0 {
				t.Errorf("%s: the tenant's own prompt is with %s, matched %v, want %s", path, chosen, matched, first)
			}
		}
	}
}

func TestSEC_03_EnginesAreToldTheTenantsSaltAndTellItBack(t *testing.T) {
	w1, w2 := newTeller(t, true), newTeller(t, true)
	rt := startTold(t, apart(t), w1, w2)
	salt := tenant.Salt(rt.secret, "search", "")
	p := cached(long("P"), kvevent.Event{Salt: salt})
	w1.say(p...)
	rt.heard("w1", w1, kvevent.Exact)
	rt.heard("w2", w2, kvevent.Exact)
	credit := func(key, more string) int {
		rows, _ := rt.decided("/v1/chat/completions", asks("m", long("P"), more), shows(key)...)
		sum := 0
		for _, row := range rows {
			if !row.ByEvents {
				t.Errorf("%s is not known by its events", row.Worker)
			}
			sum += row.Matched / tellerBlock
		}
		return sum
	}
	if got := credit(searchKey, ""); got != len(p) {
		t.Errorf("the tenant itself: %d blocks, want %d", got, len(p))
	}
	for _, more := range []string{"", `,"cache_salt":"` + salt + `"`} {
		if got := credit(agentsKey, more); got != 0 {
			t.Errorf("another tenant with %q: %d blocks", more, got)
		}
	}
	if got := credit(searchKey, `,"cache_salt":"own"`); got != 0 {
		t.Errorf("the tenant with a salt of its own beside: %d blocks", got)
	}
	for _, c := range append(w1.calls(), w2.calls()...) {
		if c.r.URL.Path != "/v1/chat/completions" || c.r.UserAgent() == "warmpath" {
			continue // the router's own question
		}
		var got map[string]any
		if err := json.Unmarshal(c.body, &got); err != nil {
			t.Fatal(err)
		}
		if told, _ := got["cache_salt"].(string); len(told) != 43 || strings.Count(string(c.body), "cache_salt") != 1 {
			t.Errorf("the engine got %s", c.body)
		}
	}
}

func TestSEC_03_APackedBodyIsIsolatedToo(t *testing.T) {
	w := newTeller(t, false)
	rt := startTold(t, apart(t), w)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, asks("m", long("Z"), ""))
	z.Close()
	r := rt.post("/v1/chat/completions", packed.String(), append(shows(searchKey), "Content-Encoding", "gzip")...)
	all := w.calls()
	last := all[len(all)-1]
	if r.status != http.StatusOK || !strings.Contains(string(last.body), `"cache_salt":"`+tenant.Salt(rt.secret, "search", "")+`"`) || last.r.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d %s; the engine got %v %q", r.status, r.body, last.r.Header, last.body)
	}
}

func TestSEC_03_AnEngineWithSaltsReusesNothingOfAnotherTenant(t *testing.T) {
	e := startSimulated(t, "127.0.0.1:0", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0")
	for isolate, want := range map[string]bool{config.IsolateNone: true, config.IsolateTenant: false} {
		rt := start(t, func(c *config.Config) {
			apart(t)(c)
			c.Isolate, c.Exact.TokensTimeout = isolate, 30*time.Second
		}, e.worker)
		eventually(t, "the engine to be asked for tokens", func() bool {
			states := rt.exact.render.States()
			return len(states) == 1 && states[0].Mode == render.EngineSide
		})
		rt.caughtUp([]*embedded{e})
		asked := asks("m", long("of "+isolate), `,"max_tokens":3`)
		for i, key := range []string{searchKey, agentsKey, searchKey} {
			var got struct {
				Usage struct {
					Details struct {
						Cached int `json:"cached_tokens"`
					} `json:"prompt_tokens_details"`
				}
			}
			r := rt.post("/v1/chat/completions", asked, shows(key)...)
			if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != http.StatusOK {
				t.Fatalf("%d %s: %v", r.status, r.body, err)
			}
			rt.caughtUp([]*embedded{e})
			var d struct{ Rows []matchedRow }
			_ = json.Unmarshal([]byte(r.header.Get("X-Warmpath-Decision")), &d)
			if warm := i == 2 || i == 1 && want; len(d.Rows) != 1 || !d.Rows[0].ByEvents || (d.Rows[0].Matched > 0) != warm {
				t.Errorf("isolate %s, request %d: foretold is %+v, want warm %v, by its events", isolate, i, d.Rows, warm)
			}
			if reused := got.Usage.Details.Cached > 0; i == 1 && reused != want || i == 2 && !reused {
				t.Errorf("isolate %s, request %d: %d tokens were cached", isolate, i, got.Usage.Details.Cached)
			}
		}
	}
}

func TestConversationsThatTenantsCallAlikeAreNotOne(t *testing.T) {
	ways := map[string][]string{"by header": {"X-Session-Id", "conversation-1"}, "by field": nil}
	for name, headers := range ways {
		w := make([]*worker, 8)
		for i := range w {
			w[i] = newWorker(t, nil)
		}
		rt := start(t, func(c *config.Config) {
			keyed(t, "")(c)
			c.Policy = "session-hash"
		}, w...)
		apartSometimes := false
		for session := range 12 {
			of := map[string]string{}
			for _, key := range []string{searchKey, agentsKey, searchKey, agentsKey} {
				more, shown := "", shows(key)
				if headers != nil {
					shown = append(shown, headers[0], fmt.Sprint(headers[1], session))
				} else {
					more = fmt.Sprintf(`,"prompt_cache_key":"conversation-%d"`, session)
				}
				r := rt.post("/v1/chat/completions", asks("m", "hello", more), shown...)
				chosen := r.header.Get("X-Warmpath-Worker")
				if r.status != http.StatusOK || of[key] != "" && of[key] != chosen {
					t.Errorf("%s: a conversation went to %s and then to %s: %d", name, of[key], chosen, r.status)
				}
				of[key] = chosen
			}
			apartSometimes = apartSometimes || of[searchKey] != of[agentsKey]
		}
		if !apartSometimes { // by chance once in 8^12
			t.Errorf("%s: tenants' conversations of the same name always go the same way", name)
		}
	}
}
