package ghost

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/prefix"
)

const second = int64(time.Second)

// chainOf is n blocks of 16 tokens, the first of which are those of the shared chain.
func chainOf(shared, own, n int) prefix.Chain {
	var c prefix.Chain
	for i := range n {
		key := uint64(shared)<<32 + uint64(i) + 1
		if i >= n-own {
			key ^= uint64(own+n) << 48
		}
		c.Keys = append(c.Keys, prefix.Key(scatter(key)))
		c.Ends = append(c.Ends, int32(16*(i+1)))
	}
	return c
}

func scatter(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}

// asked is a request for the chain, plus one token that no block names.
func asked(c prefix.Chain, at int64) *Request {
	n := 16*len(c.Keys) + 1
	return &Request{Model: "m", Start: at, End: at, PromptTokens: n, TextBytes: n, Chain: c, Slot: 0}
}

func fleetOf(n int, kvTokens int64) (all []Worker) {
	for i := range n {
		all = append(all, Worker{Slot: i, ID: string(rune('a' + i)), Incarnation: 1, KVTokens: kvTokens, Up: true, Models: []string{"m"}, Pools: []string{"p"}, B: 1e-5})
	}
	return all
}

type scene struct {
	*Ghosts
	in *Intake
}

func newScene(o Options, fleet []Worker) *scene {
	s := &scene{Ghosts: New(o)}
	s.SetWorkers(fleet)
	s.in = NewIntake(s.Threshold())
	return s
}

func (s *scene) tell(q *Request) {
	s.in.Add(q)
	s.Note(s.in.Take())
	s.in.SetThreshold(s.Threshold())
}

// computed is the prefill of a ghost so far, in tokens.
func (s *scene) computed(rule Rule) float64 {
	r := s.Report(0)
	return math.Round(r.Total.Of(rule).PrefillTokens)
}

func TestRoundRobinComputesAPromptOnEachWorkerAndOneCacheOnce(t *testing.T) {
	s := newScene(Options{}, fleetOf(3, 10_000))
	c := chainOf(1, 0, 10)
	for range 6 {
		s.tell(asked(c, second))
	}
	if got := s.computed(RoundRobin); got != 3*160+6 {
		t.Errorf("three workers computed %v tokens of a prompt of 161 that came six times", got)
	}
	if got := s.computed(Reachable); got != 160+6 {
		t.Errorf("one cache computed %v tokens", got)
	}
	if r := s.Report(second); r.Total.PromptTokens != 6*161 || r.Window.Requests != 6 {
		t.Errorf("%+v", r.Total)
	}
}

func TestASessionStaysWithItsOwnerUnlessThatHasMoreThanItsShare(t *testing.T) {
	s := newScene(Options{}, fleetOf(4, 10_000))
	for turn := range 5 {
		q := asked(chainOf(1, 0, 10+turn), int64(turn)*second)
		q.Session = 7
		s.tell(q)
	}
	if got := s.computed(SessionHash); got != 14*16+5 {
		t.Errorf("a session alone computed %v tokens", got)
	}
	for i := range 40 { // at one time, and all of them the same session's
		q := asked(chainOf(100+i, 0, 4), 10*second)
		q.Start, q.Session = 0, 7
		s.tell(q)
	}
	if most := slices.Max(s.flights.counts); most > 2 {
		t.Errorf("its owner has %d in flight: %v", most, s.flights.counts)
	}
}

func TestTheAnswerIsCachedWithItsPrompt(t *testing.T) {
	s := newScene(Options{}, fleetOf(1, 10_000))
	q := asked(chainOf(1, 0, 4), second)
	q.AnswerTokens = 48
	s.tell(q)
	before := s.computed(RoundRobin)
	next := asked(chainOf(1, 0, 10), 2*second)
	next.Chain.Replies = []prefix.Range{{First: 4, Last: 7}}
	s.tell(next)
	if got := s.computed(RoundRobin) - before; got != 3*16+1 {
		t.Errorf("%v tokens were computed of a follow-up with three new blocks", got)
	}
	s.tell(next)
	if got := s.computed(RoundRobin) - before; got != 3*16+2 {
		t.Errorf("asked again, %v", got)
	}
}

func TestTheLastTokenIsAlwaysComputed(t *testing.T) {
	s := newScene(Options{}, fleetOf(1, 10_000))
	q := asked(chainOf(1, 0, 4), second)
	q.PromptTokens, q.TextBytes = 64, 64
	s.tell(q)
	s.tell(q)
	if got := s.computed(RoundRobin); got != 64+16 {
		t.Errorf("%v tokens were computed of a prompt of four whole blocks that came twice", got)
	}
}

func TestOnlyWorkersThatMayServeItGetARequest(t *testing.T) {
	fleet := fleetOf(4, 10_000)
	fleet[1].Up, fleet[2].Models, fleet[3].Pools = false, []string{"other"}, nil
	s := newScene(Options{}, fleet)
	q := asked(chainOf(1, 0, 10), second)
	q.Pool = "p"
	for range 6 {
		s.tell(q)
	}
	if got := s.computed(RoundRobin); got != 160+6 {
		t.Errorf("computed %v tokens, though one worker alone is up, in the pool and serves the model", got)
	}
	q.Model = "nobody's"
	s.tell(q)
	if r := s.Report(second); r.Unplaced != 1 || r.Total.Requests != 6 {
		t.Errorf("unplaced %d, of %v", r.Unplaced, r.Total.Requests)
	}
}

func TestAnotherInstanceBeginsCold(t *testing.T) {
	for name, change := range map[string]func(*Worker){"it restarted": func(w *Worker) { w.Incarnation++ }, "another has its slot": func(w *Worker) { w.ID = "z" }} {
		s, fleet := newScene(Options{}, fleetOf(1, 10_000)), fleetOf(1, 10_000)
		s.tell(asked(chainOf(1, 0, 10), second))
		change(&fleet[0])
		s.SetWorkers(fleet)
		s.tell(asked(chainOf(1, 0, 10), second))
		if got := s.computed(Random); got != 2*161 {
			t.Errorf("%s: %v tokens computed", name, got)
		}
	}
}

func TestTheFleetIsCountedByWhatEnginesReportElseByWhatWasPredicted(t *testing.T) {
	s := newScene(Options{}, fleetOf(2, 10_000))
	q := asked(chainOf(1, 0, 10), second)
	q.Predicted = 100
	s.tell(q)
	q.Cached, q.Reported = 60, true
	s.tell(q)
	r := s.Report(second).Total
	if r.PredictedTokens != 200 || r.ReportedTokens != 60 || r.PredictedReportedTokens != 100 || r.ReportedPromptTokens != 161 || r.Real.PrefillTokens != 61+101 {
		t.Errorf("%+v", r)
	}
	if got, want := r.Real.PrefillSeconds, 162*1e-5; math.Abs(got-want) > 1e-9 {
		t.Errorf("%v s of prefill, want %v", got, want)
	}
	if got := r.Saved(RoundRobin); got.PrefillTokens != 2*161-162 {
		t.Errorf("saved %+v", got)
	}
}

// traffic is requests that share the beginnings of some prompts, more often the first ones.
func traffic(seed uint64, n int) []*Request { return trafficOf(60, seed, n) }

// trafficOf is such traffic with so many blocks, or a third more, that may be shared, and a third of them that are not.
func trafficOf(blocks int, seed uint64, n int) (all []*Request) {
	chance := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		shared := int(chance.ExpFloat64() * 30)
		q := asked(chainOf(shared, 0, blocks+chance.IntN(blocks/3)), int64(i)*second)
		own := chainOf(1_000_000+i, 0, blocks/3)
		q.Chain.Keys = append(q.Chain.Keys, own.Keys...)
		for range own.Keys {
			q.Chain.Ends = append(q.Chain.Ends, int32(16*(len(q.Chain.Ends)+1)))
		}
		q.PromptTokens = 16*len(q.Chain.Keys) + 1
		q.TextBytes = q.PromptTokens
		all = append(all, q)
	}
	return all
}

func TestASampleSaysWhatTheWholeSays(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	all := traffic(seed, 6000)
	whole := newScene(Options{Seed: 1}, fleetOf(4, 20_000))
	for _, q := range all {
		whole.tell(q)
	}
	want := whole.Report(0).Total
	for name, o := range map[string]Options{"a tenth": {Sample: 0.1, Seed: 1}, "as much as fits into 400 kB": {BytesMax: 400 << 10, Seed: 1}} {
		s := newScene(o, fleetOf(4, 20_000))
		for _, q := range all {
			s.tell(q)
		}
		r := s.Report(0)
		for rule := range rules {
			if is, was := r.Total.Rate(r.Total.Of(rule)), want.Rate(want.Of(rule)); math.Abs(is-was) > 0.03 {
				t.Errorf("%s: %s has a hit rate of %.3f, %.3f without a sample", name, Names[rule], is, was)
			}
		}
		if r.Rate > 0.5 || r.Total.PromptTokens != want.PromptTokens {
			t.Errorf("%s: rate %v, %v prompt tokens of %v", name, r.Rate, r.Total.PromptTokens, want.PromptTokens)
		}
		if o.BytesMax > 0 && r.Bytes > o.BytesMax {
			t.Errorf("%d bytes, more than %d", r.Bytes, o.BytesMax)
		}
	}
}

func TestALowerSampleLosesNothingThatWasCounted(t *testing.T) {
	s := newScene(Options{}, fleetOf(2, 20_000))
	all := traffic(1, 300)
	for _, q := range all {
		s.in.Add(q)
	}
	s.Lower() // while they wait
	s.Note(s.in.Take())
	before := s.Report(0).Total
	if s.Lower(); s.Rate() != 0.25 || before.Requests != 300 {
		t.Errorf("rate %v, %v requests", s.Rate(), before.Requests)
	}
	if after := s.Report(0).Total; after != before {
		t.Errorf("%+v after %+v", after, before)
	}
	for s.Lower() {
	}
	if s.Rate() < sampleLeast {
		t.Errorf("rate %v", s.Rate())
	}
}

func TestTheWindowForgetsAndTheTotalDoesNot(t *testing.T) {
	s := newScene(Options{}, fleetOf(1, 10_000))
	hour := int64(time.Hour)
	for i := range 10 {
		s.tell(asked(chainOf(1, 0, 10), hour+int64(i)*int64(10*time.Minute)))
	}
	last := hour + 9*int64(10*time.Minute)
	if r := s.Report(last); r.Window.Requests != 6 || r.Total.Requests != 10 {
		t.Errorf("%v in the last hour, %v in all", r.Window.Requests, r.Total.Requests)
	}
	if r := s.Report(last + 2*hour); r.Window.Requests != 0 || r.Total.Requests != 10 {
		t.Errorf("two hours later %v in the last hour, %v in all", r.Window.Requests, r.Total.Requests)
	}
}

func TestWhatWaitsToBePlacedIsBoundedAndWhatIsDroppedCounted(t *testing.T) {
	s := newScene(Options{}, fleetOf(1, 10_000))
	q := asked(chainOf(1, 0, 1000), second)
	for range 200 {
		s.in.Add(q)
	}
	select {
	case <-s.in.Ready():
	default:
		t.Error("nobody is told that more waits than should")
	}
	s.Note(s.in.Take())
	r := s.Report(second)
	if r.Dropped == 0 || r.Total.Requests+float64(r.Dropped) != 200 {
		t.Errorf("%d dropped, %v counted", r.Dropped, r.Total.Requests)
	}
}
