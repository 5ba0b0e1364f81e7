package gate

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newGate(t *testing.T, workers ...string) *Gate {
	t.Helper()
	f, x, b := fleet.New(fleet.DefaultOptions()), prefix.New(prefix.Options{}), cost.NewBook(cost.DefaultOptions())
	o, r := cost.NewOutputs(0), cost.NewRatio()
	g := New(f, x, b, o, r, sched.New(f, x, b, o, r, sched.Options{Seed: 1}), upstream.DefaultOptions(), time.Now)
	for _, id := range workers {
		if _, err := g.Add(Worker{ID: id, URL: "http://" + id, Models: []string{"m"}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(g.Close)
	return g
}

func chainOf(text string) prefix.Chain {
	seed := prefix.NewSeed([]byte("a secret of the test"))
	key := seed.Root([]byte("m"))
	var c prefix.Chain
	for end := 64; end <= len(text); end += 64 {
		key = seed.Next(key, []byte(text[end-64:end]))
		c.Keys, c.Ends = append(c.Keys, key), append(c.Ends, int32(end))
	}
	return c
}

func request(c prefix.Chain) sched.Request {
	return sched.Request{Model: "m", Chain: c, Bytes: c.Bytes(), PromptTokens: c.Bytes() / 4, Generates: true, Streamed: true}
}

func long(fill byte) string {
	text := make([]byte, 64*400)
	for i := range text {
		text[i] = fill + byte(i/64%7)
	}
	return string(text)
}

func TestAPromptThatFailedBeforeItsFirstTokenLeavesNoWarmPrefixBehind(t *testing.T) {
	g := newGate(t, "a")
	c := chainOf(long('a'))
	for _, computed := range []bool{false, true} {
		a, err := g.Place(request(c))
		if err != nil {
			t.Fatal(err)
		}
		if a.Decision.MatchedTokens != 0 {
			t.Errorf("%d tokens matched though nothing was computed", a.Decision.MatchedTokens)
		}
		g.Release(a, c, fleet.Failed, computed)
	}
	a, err := g.Place(request(c))
	if err != nil {
		t.Fatal(err)
	}
	if a.Decision.MatchedTokens == 0 {
		t.Error("nothing matched though the prompt was computed")
	}
	g.Release(a, c, fleet.Succeeded, true)
	g.Release(a, c, fleet.Failed, false) // a second release changes nothing
	if again, _ := g.Place(request(c)); again.Decision.MatchedTokens == 0 {
		t.Error("a second release took the prefix away")
	}
}

func TestAnEngineThatReportsLessThanAssumedIsBelieved(t *testing.T) {
	g := newGate(t, "a")
	shared, branch := long('a'), long('h')
	older := chainOf(shared + branch)
	a, _ := g.Place(request(older))
	g.Release(a, older, fleet.Succeeded, true)
	c := chainOf(shared + long('q'))
	b, _ := g.Place(request(c))
	if b.Decision.MatchedTokens == 0 {
		t.Fatal("the shared half did not match")
	}
	g.Release(b, c, fleet.Succeeded, true)
	g.Learn(b, Lesson{Model: "m", Chain: c, PromptTokens: c.Bytes() / 4, Counted: true, CachedTokens: 0, Reported: true, Whole: true, Generated: 3})
	again, _ := g.Place(request(older))
	if got, most := again.Decision.MatchedTokens, len(shared)/4; got > most {
		t.Errorf("%d tokens of the older branch are still assumed, want %d at most: what it hung on was evicted", got, most)
	}
}

func TestARemovedWorkerLeavesNothingToItsSuccessor(t *testing.T) {
	g := newGate(t, "a")
	c := chainOf(long('a'))
	a, _ := g.Place(request(c))
	if err := g.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if a.Gone.Err() == nil {
		t.Error("the request on the removed worker was not told")
	}
	if _, err := g.Add(Worker{ID: "a", URL: "http://a", Models: []string{"m"}}); err != nil {
		t.Fatal(err)
	}
	b, err := g.Place(request(c))
	if err != nil {
		t.Fatal(err)
	}
	if b.Decision.MatchedTokens != 0 || b.Worker == a.Worker || g.Holds("a", a.Worker.Incarnation) {
		t.Errorf("the successor inherits: %d tokens matched", b.Decision.MatchedTokens)
	}
	g.Release(a, c, fleet.Failed, false)
	if n := g.InFlight("a"); n != 1 {
		t.Errorf("%d in flight on the successor after a late release on its predecessor, want 1", n)
	}
}

func TestARestartedEngineServesTheModelsItWasAddedWithAndNoOther(t *testing.T) {
	g := newGate(t)
	if _, err := g.Add(Worker{ID: "a", URL: "http://a:1", Models: []string{"m"}}); err != nil {
		t.Fatal(err)
	}
	other := request(chainOf(long('a')))
	other.Model = "other"
	for range 2 {
		var none *sched.ErrNoModel
		if _, err := g.Place(other); !errors.As(err, &none) {
			t.Errorf("a request for another model: %v", err)
		}
		if _, err := g.Restarted("a", g.fleet.Lookup("a").Incarnation); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARestartedEngineIsANewInstanceWithTheSameAddress(t *testing.T) {
	g := newGate(t, "a")
	c := chainOf(long('a'))
	a, _ := g.Place(request(c))
	w, err := g.Restarted("a", a.Worker.Incarnation)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Restarted("a", a.Worker.Incarnation); err == nil {
		t.Error("late news of the old instance restarted the new one")
	}
	b, err := g.Place(request(c))
	if err != nil || b.Worker != w || b.Decision.MatchedTokens != 0 || b.Client != a.Client {
		t.Errorf("%v: placed on %v with %d matched", err, b.Worker, b.Decision.MatchedTokens)
	}
}

func TestConcurrentPlacesAndReleasesEndAtZero(t *testing.T) {
	g := newGate(t, "a", "b", "c")
	var all sync.WaitGroup
	for i := range 8 {
		c := chainOf(long(byte('a' + i)))
		all.Go(func() {
			for j := range 300 {
				a, err := g.Place(request(c))
				if err != nil {
					t.Error(err)
					return
				}
				a.Generated(j)
				if j%3 == 0 {
					g.FirstToken(a, time.Now())
				}
				g.Release(a, c, fleet.Outcome(j%4), j%2 == 0)
				g.Learn(a, Lesson{Model: "m", Chain: c, Streamed: true, PromptTokens: 100, Generated: j, Whole: true, Ended: time.Now()})
			}
		})
	}
	all.Wait()
	g.View(func(v View) {
		for _, w := range v.Workers {
			if l := w.Load(v.Now); l.InFlight != 0 || l.ContextTokens != 0 || l.PendingTokens != 0 || l.QueuedSeconds != 0 {
				t.Errorf("worker %s: %+v", w.ID, l)
			}
		}
	})
}

func TestLOR02AdaptersThatAWorkerDoesNotListAnyMoreAreNamed(t *testing.T) {
	g := newGate(t, "a")
	var incarnation uint64
	g.View(func(v View) { incarnation = v.Workers[0].Incarnation })
	base, x, y := fleet.Model{ID: "m"}, fleet.Model{ID: "x", Parent: "m"}, fleet.Model{ID: "y", Parent: "m"}
	for _, c := range []struct {
		models []fleet.Model
		gone   string
	}{{[]fleet.Model{base, x, y}, "[]"}, {nil, "[]"}, {[]fleet.Model{y, base}, "[x]"}, {[]fleet.Model{y}, "[]"}, {[]fleet.Model{base, x}, "[y]"}} {
		if got := fmt.Sprint(g.Describe("a", incarnation, fleet.Info{Models: c.models})); got != c.gone {
			t.Errorf("%v: gone are %s, want %s", c.models, got, c.gone)
		}
	}
	if gone := g.Describe("a", incarnation+1, fleet.Info{Models: []fleet.Model{base}}); gone != nil {
		t.Errorf("of another engine gone are %v", gone)
	}
}
