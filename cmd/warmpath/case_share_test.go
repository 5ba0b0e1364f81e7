package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/tenant"
)

// The queue before simulated engines that batch, cache and take their time, over sockets. What is judged are shares and counts, which a slow
// machine stretches alike.

// crowded is a fleet that many clients ask at one time.
type crowded struct {
	*embeddedFleet
	t      *testing.T
	client *http.Client
	prompt *rand.Rand
}

// newCrowd starts a router before two engines, which let little wait inside.
func newCrowd(t *testing.T, change func(*config.Config)) *crowded {
	t.Helper()
	o := engine.Options{Profile: cost.Profiles["h100-8b"], Model: demoModel, TimeScale: 2}
	f, err := startFleet(t.Context(), alike(2, o), "warm-cost", io.Discard, func(c *config.Config, _ string) {
		c.InFlightMax = 8
		change(c)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	seed := rand.Uint64()
	t.Logf("prompts by seed %d", seed)
	return &crowded{embeddedFleet: f, t: t, client: newClient(t), prompt: rand.New(rand.NewPCG(seed, 1))}
}

// answered is what came of one request.
type answered struct {
	id, code   string
	status     int
	retryAfter string
	seconds    float64 // of the engine's time for its prompt, by the tokens that the engine says it computed
}

// ask asks for one token behind a prompt of so many tokens that is like no other.
func (c *crowded) ask(ctx context.Context, unique uint64, tokens int, headers ...string) (a answered, err error) {
	body, _ := json.Marshal(map[string]any{"model": demoModel, "max_tokens": 1, "prompt": fmt.Sprintf("%x ", unique) + strings.Repeat("word ", tokens*4/5)})
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.router.DataURL()+"/v1/completions", strings.NewReader(string(body)))
	if err != nil {
		return a, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	r := read(c.client.Do(q))
	if r.err != nil {
		return a, r.err
	}
	var said struct {
		ID    string
		Error struct{ Code string }
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(r.body), &said); err != nil {
		return a, fmt.Errorf("%d %q: %w", r.status, r.body, err)
	}
	a = answered{id: said.ID, code: said.Error.Code, status: r.status, retryAfter: r.header.Get("Retry-After")}
	a.seconds = cost.Profiles["h100-8b"].Prefill(said.Usage.Prompt-said.Usage.Details.Cached, said.Usage.Details.Cached)
	return a, nil
}

// unlikeTenants are two tenants with keys: quiet, of that weight, and loud.
func unlikeTenants(t *testing.T, weight float64) func(*config.Config) {
	t.Helper()
	var text strings.Builder
	text.WriteString("tenants:\n")
	for name, key := range map[string]string{"quiet": searchKey, "loud": agentsKey} {
		digest, err := tenant.Hash(key)
		if err != nil {
			t.Fatal(err)
		}
		w := 1.0
		if name == "quiet" {
			w = weight
		}
		fmt.Fprintf(&text, "  - {name: %s, keys: [%q], weight: %v}\n", name, digest.String(), w)
	}
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *config.Config) { c.Tenants.File = file }
}

// loop has so many clients of a tenant ask one request after the other, until they are told to stop, and sums the engine time that they got.
type loop struct {
	key             string
	clients, tokens int

	nanos atomic.Int64 // of the engines' time
	done  atomic.Int64
	took  atomic.Int64 // nanoseconds until their answers, in all
}

func (l *loop) mean() float64 { return float64(l.took.Load()) / float64(l.done.Load()) / 1e9 }

func (l *loop) run(ctx context.Context, c *crowded, all *sync.WaitGroup) {
	for range l.clients {
		seed := c.prompt.Uint64()
		all.Go(func() {
			for i := uint64(0); ctx.Err() == nil; i++ {
				began := time.Now()
				a, err := c.ask(ctx, seed+i, l.tokens, "X-Api-Key", l.key)
				switch {
				case ctx.Err() != nil:
				case err != nil || a.status != http.StatusOK:
					c.t.Errorf("%+v, %v", a, err)
					return
				default:
					l.took.Add(int64(time.Since(began)))
					l.nanos.Add(int64(a.seconds * 1e9))
					l.done.Add(1)
				}
			}
		})
	}
}

func TestFLW06EngineTimeIsSharedByWeightHoweverMuchOneAsks(t *testing.T) {
	for _, weight := range []float64{1, 3} {
		c := newCrowd(t, unlikeTenants(t, weight))
		quiet, loud := &loop{key: searchKey, clients: 30, tokens: 1000}, &loop{key: agentsKey, clients: 150, tokens: 2000} // ten times as much
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		quiet.run(ctx, c, &all)
		loud.run(ctx, c, &all)
		rounds := func(l *loop, n int64) {
			eventually(t, fmt.Sprintf("%d more answers", n), func(until int64) func() bool { return func() bool { return l.done.Load() >= until } }(l.done.Load()+n))
		}
		rounds(quiet, 60) // the fleet is learned and full of both
		hadQuiet, hadLoud := quiet.nanos.Load(), loud.nanos.Load()
		rounds(quiet, 240)
		q, l := float64(quiet.nanos.Load()-hadQuiet), float64(loud.nanos.Load()-hadLoud)
		stop()
		all.Wait()
		share, due := q/(q+l), weight/(weight+1)
		t.Logf("weight %v: %.2f s and %.2f s, a share of %.3f where %.3f is due", weight, q/1e9, l/1e9, share, due)
		if share < 0.85*due || share > 1.15*due {
			t.Errorf("weight %v: a share of %.3f of the engines' time, %.3f is due", weight, share, due)
		}
		eventually(t, "the queue to be empty", func() bool { return c.router.queueNow().Waiting == 0 })
	}
}

func TestFLW06WhoAsksForLittleWaitsLittleBesideOneWhoAsksForAll(t *testing.T) {
	c := newCrowd(t, unlikeTenants(t, 1))
	quiet, loud := &loop{key: searchKey, clients: 1, tokens: 1000}, &loop{key: agentsKey, clients: 60, tokens: 2000}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	quiet.run(ctx, c, &all)
	loud.run(ctx, c, &all)
	eventually(t, "20 answers for the quiet one", func() bool { return quiet.done.Load() >= 20 && loud.done.Load() >= 100 })
	stop()
	all.Wait()
	t.Logf("%.3f s on the mean, and %.3f s", quiet.mean(), loud.mean())
	if quiet.mean() > loud.mean()/3 {
		t.Errorf("%.3f s on the mean for one request at a time, %.3f s for one of sixty", quiet.mean(), loud.mean())
	}
}

func TestFLW02InAnOverloadNothingIsLostOrAnsweredTwiceAndItPasses(t *testing.T) {
	c := newCrowd(t, func(o *config.Config) {
		o.Queue.RequestsMax, o.Queue.Class = 100, "interactive"
	})
	var before uint64
	for _, e := range c.engines {
		before += uint64(e.Stats().Finished)
	}
	type wave struct {
		class string
		n     int
	}
	var mu sync.Mutex
	ids, codes, served := map[string]int{}, map[string]int{}, map[string]int{}
	var all sync.WaitGroup
	for _, w := range []wave{{"batch", 200}, {"standard", 60}, {"interactive", 5}, {"batch", 100}} {
		for range w.n {
			unique := c.prompt.Uint64()
			all.Go(func() {
				a, err := c.ask(t.Context(), unique, 1000, "X-Warmpath-Class", w.class, "X-Tenant-Id", w.class)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && a.status == http.StatusOK:
					ids[a.id]++
					served[w.class]++
				case err == nil && a.status == http.StatusServiceUnavailable && a.retryAfter != "" && (a.code == "queue_full" || a.code == "tenant_share"):
					codes[w.class]++
				default:
					t.Errorf("%s: %+v, %v", w.class, a, err)
				}
			})
		}
		if w.class != "interactive" {
			eventually(t, "the wave to be in, or refused", func() bool {
				q := c.router.queueNow()
				sum := uint64(0)
				for _, k := range q.Classes {
					sum += k.Passed + k.RefusedFull + k.Placed + uint64(k.Waiting)
				}
				return sum > 0 && q.Fill > 0.7 || q.Waiting == 0
			})
		}
	}
	all.Wait()
	t.Logf("served %v, refused %v", served, codes)
	total := 0
	for id, n := range ids {
		if total += n; n > 1 {
			t.Errorf("answer %s came %d times", id, n)
		}
	}
	finished := -before
	for _, e := range c.engines {
		finished += uint64(e.Stats().Finished)
	}
	if refused := codes["batch"] + codes["standard"]; total+refused != 365 || int(finished) != total || refused == 0 || codes["interactive"] > 0 || served["interactive"] != 5 {
		t.Errorf("%d answered, engines finished %d, refused %v", total, finished, codes)
	}
	q := c.router.queueNow()
	passed := q.Classes[0].Passed
	if q.Waiting != 0 || q.Bytes != 0 || q.Fill != 0 {
		t.Errorf("left behind: %+v", q)
	}
	if a, err := c.ask(t.Context(), c.prompt.Uint64(), 100); err != nil || a.status != http.StatusOK || c.router.queueNow().Classes[0].Passed != passed+1 {
		t.Errorf("the first one after it: %+v, %v", a, err)
	}
}
