package sched

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prefix"
)

var update = flag.Bool("update", false, "write the scores into testdata")

// Each file of testdata is a list of cases: the workers of a fleet, a request, and behind "----" the scores. A worker line is its id
// and
//
//	profile=h100-8b models=m,tuned@m        ctx=8192 kv=400000 slots=256   what its engine is
//	decode=4x2000 prefill=2x8000@50                                     ours in flight: count x prompt tokens (@ ms ago)
//	chat=3x9000:8000                                                    decoding, 8000 tokens of each one shared prefix
//	holds=6000                                                          of this prompt's tokens
//	foreign=3+1 stale=3+1                                               others' running + waiting; seen just now, or long ago
//	residence=2                                                         seconds that requests stay
//	draining ejected probing down busy cap=8                            state
//
// A place line is tokens=8000 output=256 model=m adapter=x policy=warm-cost session=7 tried=a,b only=a.
func TestPoliciesScoreAsTheFilesSay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s differs; got:\n%s", file, got)
			}
		})
	}
}

// play runs the cases of a file and returns it with the scores as they are now.
func play(t *testing.T, text string) string {
	var out strings.Builder
	var fleetLines []string
	skipping := false
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if skipping {
			skipping = line != ""
			if skipping {
				continue
			}
		}
		out.WriteString(line + "\n")
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "worker":
			fleetLines = append(fleetLines, rest)
		case "----":
			skipping = true
		case "place":
			out.WriteString("----\n")
			out.WriteString(stage(t, fleetLines, rest).place(rest))
			fleetLines = nil
			lines.Scan() // the old ----
			skipping = true
		}
	}
	return out.String()
}

// scene is a fleet with its scheduler, in virtual time.
type scene struct {
	t     *testing.T
	f     *fleet.Fleet
	x     *prefix.Index
	s     *Scheduler
	now   time.Time
	chain prefix.Chain
}

func newScene(t *testing.T, policy string, seed uint64) *scene {
	prior := cost.DefaultOptions()
	prior.Engines = map[string]cost.Constants{}
	for name, p := range cost.Profiles {
		prior.Engines[name] = p.Constants
	}
	c := &scene{t: t, f: fleet.New(fleet.Options{}), x: prefix.New(prefix.Options{}), now: time.Unix(1_700_000_000, 0)}
	c.s = New(c.f, c.x, cost.NewBook(prior), nil, nil, Options{Policy: policy, Seed: seed})
	return c
}

// worker adds a worker of one profile that serves model m.
func (c *scene) worker(id string) *fleet.Worker {
	c.t.Helper()
	w, err := c.f.Add(id, "http://"+id, c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	w.SetInfo(fleet.Info{Engine: "h100-8b", Models: []fleet.Model{{ID: "m"}}})
	return w
}

// chainOf makes the chain of a prompt of that many tokens, 4 bytes a token, 16 tokens a block; equal n begin alike.
func chainOf(n uint64, tokens int) prefix.Chain {
	var c prefix.Chain
	for i := 1; i <= tokens/16; i++ {
		c.Keys = append(c.Keys, prefix.Key(n<<32|uint64(i)))
		c.Ends = append(c.Ends, int32(i*64))
	}
	return c
}

func stage(t *testing.T, workers []string, place string) *scene {
	c := newScene(t, args(place)["policy"], 1)
	tokens := number(args(place)["tokens"])
	c.chain = chainOf(1, tokens)
	for _, line := range workers {
		id, rest, _ := strings.Cut(line, " ")
		w := c.worker(id)
		a := args(rest)
		info := fleet.Info{Engine: or(a["profile"], "h100-8b"), Models: models(or(a["models"], "m"), number(a["ctx"])), KVTokensMax: number(a["kv"]), SlotsMax: number(a["slots"])}
		if a["models"] == "?" {
			info.Models = nil
		}
		w.SetInfo(info)
		c.residence(w, a["residence"])
		c.load(w, a)
		if n := number(a["holds"]) / 16; n > 0 {
			c.x.Enter(w.Slot, prefix.Chain{Keys: c.chain.Keys[:n], Ends: c.chain.Ends[:n]}, c.now.UnixNano())
		}
		c.state(w, a)
	}
	return c
}

func (c *scene) residence(w *fleet.Worker, s string) {
	if s == "" {
		return
	}
	stay, _ := strconv.ParseFloat(s, 64)
	began := c.now.Add(-time.Duration(stay * float64(time.Second)))
	r := c.f.Reserve(w, fleet.Need{Streamed: true}, began)
	r.FirstToken(began)
	r.Release(c.now, fleet.Succeeded)
}

func (c *scene) load(w *fleet.Worker, a map[string]string) {
	each := func(s string, f func(tokens, cached int, at time.Time)) {
		n, rest, _ := strings.Cut(s, "x")
		size, ago, _ := strings.Cut(rest, "@")
		tokens, cached, _ := strings.Cut(size, ":")
		for range number(n) {
			f(number(tokens), number(cached), c.now.Add(-time.Duration(number(ago))*time.Millisecond))
		}
	}
	decoding := func(tokens, cached int, at time.Time) {
		c.f.Reserve(w, fleet.Need{PromptTokens: tokens, CachedTokens: cached, SharedKey: 99, Streamed: true}, at).FirstToken(at)
	}
	each(a["decode"], decoding)
	each(a["chat"], decoding)
	each(a["prefill"], func(tokens, _ int, at time.Time) {
		k := c.s.book.Of(w).Constants()
		u := float64(tokens)
		c.f.Reserve(w, fleet.Need{PromptTokens: tokens, PrefillSeconds: k.A + k.B*u + k.C*u*u, Streamed: true}, at)
	})
	for key, ago := range map[string]time.Duration{"foreign": 0, "stale": time.Minute} {
		if running, waiting, ok := strings.Cut(a[key], "+"); ok {
			w.Observe(fleet.Counts{
				Running: number(running) + w.InFlight(), Waiting: number(waiting), OursBefore: w.InFlight(),
				Has: fleet.HasRunning | fleet.HasWaiting, At: c.now.Add(-ago),
			})
		}
	}
}

func (c *scene) state(w *fleet.Worker, a map[string]string) {
	has := func(word string) bool { _, ok := a[word]; return ok }
	w.SetInFlightMax(number(a["cap"]))
	if has("down") {
		// Only a worker that never answered can be down: a new one.
		if _, err := c.f.Remove(w.ID); err != nil {
			c.t.Fatal(err)
		}
		told := w.Info()
		w, _ = c.f.Add(w.ID, w.URL, c.now)
		w.SetInfo(told) // as from a configuration
		w.Unreachable()
	}
	if has("busy") {
		w.Busy(c.now, time.Second)
	}
	if has("ejected") || has("probing") {
		ago := map[bool]time.Duration{true: 0, false: 2 * time.Second}[has("ejected")]
		stand, err := c.f.Add("stand-in", "http://stand-in", c.now)
		if err != nil {
			c.t.Fatal(err)
		}
		stand.SetInfo(w.Info())
		for range 3 {
			c.f.Fault(w, c.now.Add(-ago), fleet.Reset)
		}
		c.f.Remove(stand.ID)
	}
	if has("draining") {
		c.f.Drain(w.ID)
	}
}

// place runs the request and prints what came of it.
func (c *scene) place(line string) string {
	a := args(line)
	tokens := number(a["tokens"])
	req := Request{
		Model: or(a["model"], "m"), Adapter: a["adapter"], Chain: c.chain, Bytes: 4 * tokens, PromptTokens: tokens,
		MaxTokens: number(a["output"]), Generates: a["output"] != "0", SessionKey: uint64(number(a["session"])), Streamed: true, Only: a["only"],
	}
	if req.Model == "any" {
		req.Model = ""
	}
	for id := range strings.SplitSeq(a["tried"], ",") {
		if w := c.f.Lookup(id); w != nil {
			req.Tried = append(req.Tried, w)
		}
	}
	d, r, err := c.s.Place(c.now, req)
	var b strings.Builder
	if err != nil {
		var model *ErrNoModel
		var long *ErrContext
		var none *ErrNoWorker
		kind := map[bool]string{errors.As(err, &model): "no model", errors.As(err, &long): "context", errors.As(err, &none): "no worker"}[true]
		fmt.Fprintf(&b, "%s: %v\n", kind, err)
		return b.String()
	}
	if r.Worker() != d.Worker || d.Rows[0].Worker != d.Worker {
		c.t.Errorf("reserved on %s, chose %s, first row %s", r.Worker().ID, d.Worker.ID, d.Rows[0].ID)
	}
	for _, row := range d.Rows {
		fmt.Fprintf(&b, "%-2s held %5d  Q %.3f  w %.3f  v %.3f  phi %.2f  decode %.3f  batch %.3f  total %.3f  in flight %d", row.ID, row.MatchedTokens,
			row.QueuedSeconds, row.PrefillSeconds, row.DelaySeconds, row.Price, row.DecodeSeconds, row.BatchSeconds, row.TotalSeconds, row.InFlight)
		if row.TollSeconds > 0 {
			fmt.Fprintf(&b, "  toll %.3f", row.TollSeconds)
		}
		if row.DisplacedSeconds > 0 {
			fmt.Fprintf(&b, "  displaced %.3f", row.DisplacedSeconds)
		}
		if row.Score != row.TotalSeconds {
			fmt.Fprintf(&b, "  score %.3f", row.Score)
		}
		if row.Why != "" {
			b.WriteString("  out: " + row.Why)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s: %s, %s", d.Worker.ID, d.Hit, d.Reason)
	if d.Relaxed != "" {
		fmt.Fprintf(&b, "; relaxed: %s", d.Relaxed)
	}
	b.WriteByte('\n')
	return b.String()
}

func args(line string) map[string]string {
	m := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(word, "=")
		m[key] = value
	}
	return m
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// models reads a comma list of id or id@parent; each has the alias id-alias.
func models(list string, contextMax int) (all []fleet.Model) {
	for name := range strings.SplitSeq(list, ",") {
		id, parent, _ := strings.Cut(name, "@")
		all = append(all, fleet.Model{ID: id, Parent: parent, ContextMax: contextMax, Aliases: []string{id + "-alias"}})
	}
	return all
}
