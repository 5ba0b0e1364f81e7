package ghost

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// spread has the requests come so many seconds apart.
func spread(all []*Request, seconds int64) []*Request {
	for i, q := range all {
		q.Start = int64(i+1) * seconds * second
		q.End = q.Start
	}
	return all
}

// judged tells of a request and judges, with all the time that there may be.
func (s *scene) judged(q *Request) {
	s.tell(q)
	s.Judge(q.End, 0, time.Second)
	s.in.SetThreshold(s.Threshold())
}

func TestASampleThatFellRisesToWhatItWouldBeHadItNeverFallen(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	all := spread(trafficOf(15, seed, 3000), 10)
	fallen, whole := newScene(Options{Seed: 1}, fleetOf(4, 5000)), newScene(Options{Seed: 1}, fleetOf(4, 5000))
	var before, beforeWhole Sums
	returned := 0
	for i, q := range all {
		if i == 500 {
			for range 3 {
				fallen.Lower()
			}
			fallen.in.SetThreshold(fallen.Threshold())
		}
		fallen.judged(q)
		whole.judged(q)
		if r := fallen.Report(0); returned == 0 && i > 500 && r.Rate == 1 {
			returned, before, beforeWhole = i, r.Total, whole.Report(0).Total
		}
	}
	if returned == 0 || returned > 2500 {
		t.Fatalf("the sample is %v after %d requests, whole again after %d", fallen.Rate(), len(all), returned)
	}
	t.Logf("whole again %d requests after it fell to an eighth", returned-500)
	is, was := fallen.Report(0).Total, whole.Report(0).Total
	for rule := range rules {
		if a, b := is.Rate(is.Of(rule)), was.Rate(was.Of(rule)); math.Abs(a-b) > 0.03 {
			t.Errorf("%s: a hit rate of %.3f in all, %.3f of a sample that never fell", Names[rule], a, b)
		}
		since := func(now, then *Sums) float64 {
			return 1 - (now.Ghosts[rule].PrefillTokens-then.Ghosts[rule].PrefillTokens)/(now.PromptTokens-then.PromptTokens)
		}
		if a, b := since(&is, &before), since(&was, &beforeWhole); math.Abs(a-b) > 0.005 {
			t.Errorf("%s: a hit rate of %.4f since it is whole again, %.4f of a sample that never fell", Names[rule], a, b)
		}
	}
}

func TestWhatIsWarmedIsNotCounted(t *testing.T) {
	t.Parallel()
	all := spread(trafficOf(15, 3, 2500), 10)
	rises, stays := newScene(Options{Seed: 1}, fleetOf(4, 5000)), newScene(Options{Seed: 1}, fleetOf(4, 5000))
	rose := false
	for i, q := range all {
		if i == 500 {
			rises.Lower()
			stays.Lower()
		}
		if rises.judged(q); rises.Rate() == 1 && i > 500 {
			break
		}
		stays.tell(q)
		r := rises.Report(0)
		if rose = rose || r.Rising == 1; r.Total != stays.Report(0).Total {
			t.Fatalf("request %d: %+v, %+v without what is warmed", i, r.Total, stays.Report(0).Total)
		}
	}
	if !rose || rises.Rate() != 1 {
		t.Errorf("rose: %v, and is %v in the end", rose, rises.Rate())
	}
}

// calm judges every ten seconds for so long, and returns when it rises: 0 it does not.
func (s *scene) calm(from *int64, long time.Duration) time.Duration {
	for began := *from; *from-began < int64(long); *from += 10 * second {
		if s.Judge(*from, 0, time.Second); s.Report(0).Rising > 0 {
			return time.Duration(*from - began)
		}
	}
	return 0
}

func TestASampleDoesNotSwing(t *testing.T) {
	s := newScene(Options{}, fleetOf(2, 20_000))
	for _, q := range traffic(1, 300) {
		s.tell(q)
	}
	now := int64(1e6) * second
	s.Judge(now, 0, time.Second)
	if s.calm(&now, 3*time.Hour) != 0 {
		t.Error("one that never fell rises")
	}
	s.Judge(now, 2*time.Second, time.Second)
	for i, want := range []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour} {
		if rose := s.calm(&now, 6*time.Hour); rose < want-time.Minute || rose > want+time.Minute {
			t.Errorf("after %d rises that were not held it rises in %v, want %v", i, rose, want)
		}
		s.in.SetThreshold(s.Threshold())
		before := s.Report(0)
		s.tell(asked(chainOf(1000+i, 0, 50), now))
		now += 10 * second
		s.Judge(now, 1100*time.Millisecond, time.Second) // too long by a little
		if r := s.Report(0); r.Rising != 0 || r.Rate != before.Rate || s.caches[0].lanes[warming(0)].tokens+s.caches[0].lanes[warming(1)].tokens != 0 {
			t.Errorf("it is %v and rises to %v, was %v", r.Rate, r.Rising, before.Rate)
		}
	}
	now += int64(heldAfter)
	for s.Judge(now, time.Hour, time.Second); s.Rate() > sampleLeast; {
		s.Judge(now, time.Hour, time.Second)
	}
	if rose := s.calm(&now, 2*time.Hour); rose == 0 || rose > time.Hour+time.Minute {
		t.Errorf("two days later it rises in %v", rose)
	}
}

func TestASampleRisesOnlyWhereTwiceTheBlocksWouldHaveAmpleRoom(t *testing.T) {
	now := int64(1e6) * second
	for name, c := range map[string]struct {
		took time.Duration
		most int
		want bool
	}{
		"room":                    {240 * time.Millisecond, 1 << 20, true},
		"nearly too little time":  {260 * time.Millisecond, 1 << 20, false},
		"memory is half in use":   {0, 1, false},
		"memory is a quarter so":  {0, 4, true},
		"memory is three eighths": {0, 3, true},
	} {
		s := newScene(Options{}, fleetOf(1, 1_000_000))
		for i := range 40 {
			s.tell(asked(chainOf(i, 0, 50), second))
		}
		s.Lower()
		for _, one := range s.caches {
			if one.most = c.most; c.most < 10 {
				one.most = map[int]int{1: 2, 3: 3, 4: 4}[c.most] * one.count
			}
		}
		if c.most == 3 { // as near as it may be
			for _, one := range s.caches {
				one.most = (8*one.count + 2) / 3
			}
		}
		began := now
		for ; now < began+2*int64(time.Hour); now += 2 * second {
			s.Judge(now, c.took, time.Second)
		}
		if rose := s.Threshold() != s.threshold || s.Rate() == 1; rose != c.want {
			t.Errorf("%s: rises %v, want %v", name, rose, c.want)
		}
	}
}

func TestMemoryThatRunsShortCostsWhatIsWarmedFirst(t *testing.T) {
	s := newScene(Options{BytesMax: 4 * 35 * 4000}, fleetOf(1, 1_000_000))
	for i := range 30 {
		s.tell(asked(chainOf(i, 0, 50), second))
	}
	s.Lower()
	now := int64(1e6) * second
	s.Judge(now, 0, time.Second)
	if now += 10 * second; s.calm(&now, 2*time.Hour) == 0 {
		t.Fatal("it does not rise")
	}
	s.in.SetThreshold(s.Threshold())
	for i := 100; s.Report(0).Rising > 0; i++ {
		if s.tell(asked(chainOf(i, 0, 50), now)); i > 200 {
			t.Fatal("100 new prompts fit beside the others")
		}
		if b := s.Report(0).Bytes; b > 4*35*4000 {
			t.Errorf("%d bytes", b)
		}
	}
	if s.Rate() != 0.5 {
		t.Errorf("the sample is %v", s.Rate())
	}
}

func TestWhatDoesNotTurnOverJoinsAfterADay(t *testing.T) {
	s := newScene(Options{}, fleetOf(2, 1_000_000))
	for i := range 40 {
		s.tell(asked(chainOf(i, 0, 50), second))
	}
	s.Lower()
	now := int64(1e6) * second
	s.Judge(now, 0, time.Second)
	if s.calm(&now, 2*time.Hour) == 0 {
		t.Fatal("it does not rise")
	}
	began := now
	for ; s.Rate() < 1 && now < began+3*int64(warmMost); now += int64(time.Minute) {
		s.Judge(now, 0, time.Second)
	}
	if took := time.Duration(now - began); took < warmMost || took > warmMost+5*time.Minute {
		t.Errorf("nobody asks, and it joins after %v", took)
	}
}

func TestPiecesJoinWhereTheirLastUsePutsThem(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	c := newCaches(1 << 20)
	c.open(counted(0), 300)
	c.use(counted(0), []piece{{1000, 10}, {1001, 10}})
	c.open(warming(0), 300)
	c.age()
	if c.stale() != 1 {
		t.Errorf("%v of what was there is older", c.stale())
	}
	for step := range 2000 {
		c.now = uint16(1 + step)
		key := uint64(chance.IntN(60))
		c.use(int32(key%2), []piece{{key, 10}})
		checkLists(t, c)
	}
	if c.stale() != 0 {
		t.Errorf("%v of what is there is older, though all was put out", c.stale())
	}
	n := c.lanes[counted(0)].tokens + c.lanes[warming(0)].tokens
	c.open(counted(0), 600)
	c.join(counted(0), warming(0))
	if checkLists(t, c); c.lanes[counted(0)].tokens != n || c.lanes[warming(0)] != (lane{capacity: 300}) {
		t.Errorf("%+v, %d tokens in all before", c.lanes, n)
	}
	newer := uint16(math.MaxUint16)
	for at := c.lanes[counted(0)].newest; at != 0; at = c.entries[at].older {
		if newer < c.entries[at].used {
			t.Errorf("used at %d, behind one of %d", c.entries[at].used, newer)
		}
		newer = c.entries[at].used
	}
}
