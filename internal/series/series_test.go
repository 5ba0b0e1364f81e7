package series

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Unix(1_800_000_000, 0) // a whole minute

// column is a column of a table by its name.
func (t *Table) column(name string) []float64 {
	for _, c := range t.Columns {
		if c.Name == name {
			return c.Values
		}
	}
	return nil
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		if !math.IsNaN(v) {
			total += v
		}
	}
	return total
}

func TestQuantilesOfAnyTimesAreWithinTwoPercent(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, spread := range []float64{0.1, 1, 3} {
		var h, packed histogram
		var all []float64
		for range 5000 {
			v := float32(0.05 * math.Exp(spread*random.NormFloat64()))
			h.add(v)
			all = append(all, float64(v))
		}
		slices.Sort(all)
		packed.unpack(h.pack(nil))
		if packed != h {
			t.Fatal("a histogram that was packed and unpacked is another")
		}
		for _, q := range []float64{0.5, 0.9, 0.99} {
			want := all[int(math.Ceil(q*5000))-1]
			if got := h.quantile(q); math.Abs(got-want) > 0.02*want {
				t.Errorf("spread %g: quantile %g is %g, not %g", spread, q, got, want)
			}
		}
	}
}

func TestTimesBeyondAllBoundsCountAsTheNearest(t *testing.T) {
	var h histogram
	for _, v := range []float32{-1, 0, 1e-9, 1e9, float32(math.Inf(1))} {
		h.add(v)
	}
	if h.n != 5 || h.counts[0] != 3 || h.counts[buckets-1] != 2 {
		t.Errorf("%d times, %d least, %d most", h.n, h.counts[0], h.counts[buckets-1])
	}
}

func TestEveryLevelAddsUpToTheSameSumsAndTheSameQuantiles(t *testing.T) {
	s := New(epoch)
	random := rand.New(rand.NewPCG(1, 2))
	for second := range 600 {
		for range random.IntN(4) {
			s.Add(epoch.Add(time.Duration(second)*time.Second+300*time.Millisecond), &Request{Outcome: "succeeded", Hit: Hits[random.IntN(4)], Class: "normal", TTFT: random.ExpFloat64(), E2E: 3,
				Gaps: []float32{0.01, 0.02}, Metered: true, PromptTokens: 100, AnswerTokens: 7, CachedReported: true, CachedTokens: 40, CachedTokensPredicted: 50, CachedTokensReachable: 60})
		}
		s.Tick(epoch.Add(time.Duration(second)*time.Second+500*time.Millisecond), Gauges{InFlight: second % 5, Waiting: []Waiting{{"normal", 2}}})
	}
	s.Tick(epoch.Add(600*time.Second), Gauges{})
	var want []float64
	for i, c := range []struct{ window, step time.Duration }{{10 * time.Minute, time.Second}, {10 * time.Minute, 10 * time.Second}, {2 * time.Hour, 10 * time.Second}, {24 * time.Hour, time.Minute}, {24 * time.Hour, 10 * time.Minute}} {
		table, err := s.Table(c.window, c.step, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(table.Times) != int(10*time.Minute/c.step) || table.Times[0] != epoch.Unix() {
			t.Fatalf("%v: %d steps from %d on", c, len(table.Times), table.Times[0])
		}
		var got []float64
		for _, name := range []string{"requests", "outcome.succeeded", "hit.declined", "tokens.prompt", "tokens.completion", "tokens.cached_reported", "tokens.cached_predicted"} {
			got = append(got, sum(table.column(name)))
		}
		if i == 0 {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: sums %v, not %v", c, got, want)
		}
	}
	whole, _ := s.Table(24*time.Hour, 10*time.Minute, []string{"ttft_seconds", "hit_rate", "queue.normal", "in_flight"})
	if p50 := whole.column("ttft_seconds.all.p50")[0]; math.Abs(p50-math.Ln2) > 0.1 {
		t.Errorf("the median of ten minutes is %g", p50)
	}
	if a, b, c := whole.column("hit_rate.reported")[0], whole.column("queue.normal")[0], whole.column("in_flight.max")[0]; a != 0.4 || b != 2 || c != 4 {
		t.Errorf("hit rate %g, queue %g, most in flight %g", a, b, c)
	}
}

func TestWhatIsTooOldIsGoneAndAPauseLeavesNothingBehind(t *testing.T) {
	s := New(epoch)
	s.Add(epoch, &Request{Outcome: "succeeded", TTFT: -1, E2E: -1})
	s.Tick(epoch.Add(25*time.Hour), Gauges{})
	s.Tick(epoch.Add(25*time.Hour+time.Minute), Gauges{})
	for _, window := range []time.Duration{15 * time.Minute, 2 * time.Hour, 24 * time.Hour} {
		table, err := s.Table(window, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := sum(table.column("requests")); n != 0 || len(table.Times) > pointsWanted {
			t.Errorf("%v: %g requests in %d steps", window, n, len(table.Times))
		}
	}
}

func TestWordsAndClassesBeyondThoseKnownCountAsTheLast(t *testing.T) {
	s := New(epoch)
	for _, class := range strings.Split("abcdefghijkl", "") {
		s.Add(epoch, &Request{Outcome: "invented", Hit: "invented", Class: class, Waited: 1, TTFT: -1, E2E: -1})
	}
	s.Tick(epoch.Add(time.Second), Gauges{})
	table, err := s.Table(time.Minute, time.Second, nil)
	if err != nil || table.column("outcome.failed")[0] != 12 || table.column("queue_wait_seconds.h.p99")[0] == 0 || table.column("queue.i") != nil {
		t.Errorf("%v: %v", err, table.Columns)
	}
}

func TestAskingForWhatIsNotKeptNamesTheBounds(t *testing.T) {
	for _, c := range []struct {
		window, step time.Duration
		only         []string
		want         string
	}{
		{25 * time.Hour, 0, nil, "24h0m0s"}, {0, 0, nil, "1s"}, {time.Hour, time.Second, nil, "10s or a multiple"}, {time.Hour, 15 * time.Second, nil, "10s or a multiple"},
		{time.Minute, time.Hour, nil, "longer than window"}, {time.Minute, 0, []string{"tttf"}, "ttft_seconds"},
	} {
		if _, err := New(epoch).Table(c.window, c.step, c.only); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestATableIsJSONWithNullsWhereNothingIsKnown(t *testing.T) {
	s := New(epoch)
	s.Tick(epoch.Add(2*time.Second), Gauges{})
	table, err := s.Table(time.Minute, time.Second, []string{"ttft_seconds.hit", "requests"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(table)
	if want := `{"step_seconds":1,"time":[1800000000,1800000001],"columns":{"ttft_seconds.hit.p50":[null,null],"ttft_seconds.hit.p90":[null,null],"ttft_seconds.hit.p99":[null,null],"requests":[0,0]}}`; err != nil || string(text) != want {
		t.Errorf("%v: %s", err, text)
	}
}

func TestADayOfBusyStepsStaysWithinItsMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := New(epoch)
	random := rand.New(rand.NewPCG(3, 4))
	gaps := make([]float32, 20)
	for second := range 15*60 + 60 { // the finest level is most of it
		for range 60 {
			for i := range gaps {
				gaps[i] = float32(0.02 * math.Exp(random.NormFloat64()/2))
			}
			s.Add(epoch.Add(time.Duration(second)*time.Second), &Request{Outcome: "succeeded", Hit: Hits[random.IntN(4)], Class: "normal", TTFT: random.ExpFloat64(), E2E: 5 * random.ExpFloat64(), Gaps: gaps})
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	grew := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%.1f MB", float64(grew)/1e6)
	if grew > 8<<20 {
		t.Errorf("%d bytes for fifteen minutes of 60 requests a second", grew)
	}
	runtime.KeepAlive(s)
}

func BenchmarkAdd(b *testing.B) {
	s := New(epoch)
	r := Request{Outcome: "succeeded", Hit: "hit", Class: "normal", TTFT: 0.1, E2E: 3, Gaps: make([]float32, 200)}
	for i := range r.Gaps {
		r.Gaps[i] = 0.01 + float32(i)/1000
	}
	for b.Loop() {
		s.Add(epoch, &r)
	}
}

func BenchmarkTableOfADay(b *testing.B) {
	s := New(epoch)
	for m := range 24 * 60 {
		s.Add(epoch.Add(time.Duration(m)*time.Minute), &Request{Outcome: "succeeded", Hit: "hit", TTFT: 0.1, E2E: 3, Gaps: []float32{0.01}})
	}
	for b.Loop() {
		if _, err := s.Table(24*time.Hour, time.Minute, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func TestRatesTellWhatAWorkerDoesASecondAndForgetThoseThatLeft(t *testing.T) {
	var r Rates
	for range 300 { // seconds
		for range 2 {
			r.Add("w1", &Request{Metered: true, PromptTokens: 100, AnswerTokens: 10, CachedReported: true, CachedTokens: 25})
		}
		r.Fail("w2")
		r.Tick(func(worker string) bool { return worker != "w3" })
		r.Add("w3", &Request{})
	}
	if one := r.Of("w1"); math.Abs(one.Requests-2) > 0.1 || math.Abs(one.CompletionTokens-20) > 1 || math.Abs(one.HitRate()-0.25) > 1e-9 {
		t.Errorf("%+v", one)
	}
	if two := r.Of("w2"); math.Abs(two.Failed-1) > 0.1 || !math.IsNaN(two.HitRate()) {
		t.Errorf("%+v", two)
	}
	for range 1000 {
		r.Tick(func(string) bool { return true })
	}
	if r.Of("w1") != (Rate{}) || len(r.by) > 3 {
		t.Errorf("%+v of %d workers", r.Of("w1"), len(r.by))
	}
}

func TestAColumnThatIsNamedAgainAndAgainIsToldOnce(t *testing.T) {
	s := New(epoch)
	s.Tick(epoch.Add(3*time.Second), Gauges{})
	table, err := s.Table(time.Minute, time.Second, []string{"requests", "e2e_seconds.p50", "e2e_seconds", "requests", "e2e_seconds"})
	if err != nil || len(table.Columns) != 4 || table.Columns[0].Name != "requests" {
		t.Errorf("%v: %+v", err, table)
	}
}
