package kvevent

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/kvindex"
)

func TestAnEngineFromItsFirstMessageIsKnownExactly(t *testing.T) {
	tr, e := track(false, TrackerOptions{Rank: -1}), newEngine(1)
	tr.want(t, Waiting, 1, 5, -1)
	tr.Live(0, e.run(1, 5))
	tr.want(t, Exact, 1, 5, 5)
	tr.want(t, Exact, 2, 5, 2)
	tr.Live(1, e.run(1, 5)) // the last block once more
	tr.Live(2, e.evict(e.name(1, 5)))
	tr.want(t, Exact, 1, 5, 5)
	tr.Live(3, e.evict(e.name(1, 5)))
	tr.want(t, Exact, 1, 5, 4)
	tr.Live(4, e.clear())
	tr.want(t, Exact, 1, 5, 0)
}

func TestKVE01AnEngineThatBeganAnewIsForgottenAtOnce(t *testing.T) {
	for _, replay := range []bool{false, true} {
		tr, old := track(replay, TrackerOptions{Rank: -1}), newEngine(1)
		for i := range 10 {
			tr.Live(uint64(i), old.run(i, 6))
		}
		next := newEngine(1)
		tr.Live(0, next.run(50, 6))
		tr.want(t, Exact, 3, 6, 2)
		tr.want(t, Exact, 50, 6, 6)
		if s := tr.Stats(); s.Restarts != 1 {
			t.Errorf("%d restarts", s.Restarts)
		}
	}
}

func TestKVE01AnEngineMetInTheMiddleOfItsNewLifeIsNoOldOne(t *testing.T) {
	tr, old := track(true, TrackerOptions{Rank: -1}), newEngine(1)
	for i := range 3 {
		tr.Live(uint64(i), old.run(i, 6))
	}
	next := newEngine(1)
	for i := range 5 {
		next.run(60+i, 6)
	}
	ask := tr.Connected()
	if !ask.Wanted || ask.From != 2 {
		t.Fatalf("a new connection asks %+v", ask)
	}
	tr.want(t, Catching, 1, 6, -1)
	answer(tr.Tracker, next, ask, -1, true)
	tr.want(t, Exact, 1, 6, 2)
	tr.want(t, Exact, 63, 6, 6)
}

// answer replays what was asked for, all of it or so many messages, with an end marker or without, and goes on while it is asked again.
func answer(t *Tracker, e *engine, ask Ask, most int, told bool) (asks int) {
	for ; ask.Wanted; asks++ {
		n := 0
		for seq := ask.From; seq < uint64(len(e.log)) && n != most; seq++ {
			t.Replayed(seq, e.log[seq])
			n++
		}
		ask = t.ReplayEnded(told)
		if asks > 1000 {
			panic("it never ends")
		}
	}
	return asks
}

func TestKVE02WhatWasMissedIsReplayedOnceAndInOrder(t *testing.T) {
	tr, e := track(true, TrackerOptions{Rank: -1}), newEngine(1)
	for i := range 5 {
		tr.Live(uint64(i), e.run(i, 6))
	}
	e.evict(e.name(3, 6)) // 5 is lost
	ask := tr.Live(6, e.run(7, 6))
	if !ask.Wanted || ask.From != 5 {
		t.Fatalf("asks %+v", ask)
	}
	tr.want(t, Catching, 3, 6, -1)
	answer(tr.Tracker, e, ask, -1, true)
	tr.want(t, Exact, 3, 6, 5)
	tr.want(t, Exact, 7, 6, 6)
	tr.Live(7, e.evict(e.name(7, 6)))
	tr.want(t, Exact, 7, 6, 5)
}

func TestKVE02WithoutAReplayAllIsForgottenAndLearnedAnew(t *testing.T) {
	for _, dead := range []bool{false, true} {
		tr, e := track(dead, TrackerOptions{Rank: -1, BlocksMax: 20}), newEngine(1)
		for i := range 5 {
			tr.Live(uint64(i), e.run(i, 6))
		}
		e.evict(e.name(3, 6))
		ask := tr.Live(6, e.run(7, 6))
		if ask.Wanted != dead {
			t.Fatalf("asks %+v", ask)
		}
		asks := 0
		for ; ask.Wanted; asks++ {
			ask = tr.ReplayEnded(false)
		}
		if dead && asks != DefaultTrackerOptions().AsksMax {
			t.Errorf("a dead socket was asked %d times", asks)
		}
		tr.want(t, Partial, 3, 6, -1)
		if s := tr.Stats(); s.Gaps != 1 || s.Forgotten != 1 {
			t.Errorf("%+v", s)
		}
		// The cache turns over: what is there now was all seen.
		for i := range 8 {
			for name := range e.held {
				if len(e.held) > 20 {
					tr.Live(tr.next, e.evict(name))
				}
			}
			first := e.storedEvent(100+i, 0, 6)
			tr.Live(tr.next, e.publish(first))
		}
		tr.want(t, Exact, 105, 6, 6)
	}
}

func TestKVE03ChildrenOfUnknownBlocksWaitForThem(t *testing.T) {
	tr, e := track(false, TrackerOptions{Rank: -1}), newEngine(1)
	e.run(1, 2) // before we listened
	tr.Live(1, e.run(1, 4))
	tr.Live(2, e.run(1, 5))
	tr.Live(3, e.publish(e.storedEvent(9, 3, 5)))
	if s := tr.Stats(); s.Orphans != 5 || s.State != Partial {
		t.Fatalf("%+v", s)
	}
	tr.Live(4, e.evict(e.name(1, 5)))
	tr.Live(5, e.publish(e.storedEvent(1, 0, 2)))
	tr.partial = false
	tr.Live(6, e.run(2, 3))
	tr.want(t, Exact, 1, 5, 4)
	if s := tr.Stats(); s.Orphans != 2 {
		t.Errorf("%d orphans are left", s.Orphans)
	}
	tr.Live(7, e.evict(e.name(1, 4)))
	tr.want(t, Exact, 1, 5, 3)
}

func TestKVE03OrphansAreBounded(t *testing.T) {
	tr, e := track(false, TrackerOptions{Rank: -1, OrphanTokensMax: 2000}), newEngine(1)
	tr.giveUp(0)
	for i := range 500 {
		tr.Live(uint64(i), e.publish(e.storedEvent(i, 3, 6)))
	}
	s := tr.Stats()
	if s.Orphans == 0 || s.Orphans*testBlock > 2000 || s.OrphansDropped+uint64(s.Orphans) != 1500 || len(tr.orphans.order) > 500 {
		t.Errorf("%d orphans, %d dropped", s.Orphans, s.OrphansDropped)
	}
	for i := range 500 {
		for b := 3; b < 6; b++ {
			tr.Live(tr.next, e.evict(e.name(i, b+1)))
		}
	}
	if o := &tr.orphans; o.blocks != 0 || o.tokens != 0 || len(o.byName) != 0 || len(o.byParent) != 0 {
		t.Errorf("%+v is left", o)
	}
}

func TestKVE04AClearTakesItsPlaceInTheBatch(t *testing.T) {
	x := kvindex.New(kvindex.Options{})
	o := TrackerOptions{Seed: testSeed, Model: "m", Rank: 0}
	first := tracked{NewTracker(x, o), x}
	o.Slot, o.Rank = 1, 1
	second := tracked{NewTracker(x, o), x}
	e := newEngine(1)
	stored, later := e.storedEvent(1, 0, 6), e.storedEvent(2, 0, 4)
	for rank, tr := range []tracked{first, second} {
		tr.Live(0, AppendBatch(nil, 1, rank, []Event{stored}))
		tr.Live(1, AppendBatch(nil, 1, 0, []Event{stored, {Kind: Cleared}, later}))
	}
	first.want(t, Exact, 1, 6, 2)
	first.want(t, Exact, 2, 4, 4)
	second.want(t, Exact, 1, 6, 6)
	if s := second.Stats(); s.OtherRank != 1 {
		t.Errorf("%d batches of another rank", s.OtherRank)
	}
}

func TestKVE05AMessageThatCannotBeReadCostsAllKnowledgeAndIsCounted(t *testing.T) {
	tr, e := track(false, TrackerOptions{Rank: -1}), newEngine(1)
	tr.Live(0, e.run(1, 5))
	tr.Live(1, []byte("nonsense"))
	tr.want(t, Partial, 1, 5, -1)
	tr.Live(2, e.clear())
	tr.Live(3, e.run(1, 5))
	tr.want(t, Exact, 1, 5, 5)
	if s := tr.Stats(); s.Undecodable != 1 {
		t.Errorf("%+v", s)
	}
}

func TestKVE07GroupsAndTiersOfOneEngine(t *testing.T) {
	tr, e := track(false, TrackerOptions{Rank: -1}), newEngine(1)
	full, window := e.storedEvent(1, 0, 5), e.storedEvent(1, 0, 5)
	window.Group, window.GroupKind = 1, "sliding_window"
	tr.started = true
	gone := Event{Kind: Removed, Names: []uint64{e.name(1, 1)}, Group: 1, TierKnown: true}
	tr.Apply(&Batch{Rank: -1, Events: []Event{full, window, gone}})
	tr.want(t, Exact, 1, 5, 5)
	// The connector of an engine tells of copies in other memory by name only.
	offloaded := Event{Kind: Stored, Names: full.Names, Tier: kvindex.CPU, TierKnown: true, Group: -1}
	tr.Apply(&Batch{Rank: -1, Events: []Event{offloaded, {Kind: Removed, Names: full.Names, TierKnown: true, Group: -1}}})
	tr.want(t, Exact, 1, 5, 5)
	m := tr.x.Match(promptKeys(1, 5), kvindex.Match{})
	if m.Fast[0] != 0 {
		t.Errorf("%d blocks are still in GPU memory", m.Fast[0])
	}
	tr.Apply(&Batch{Rank: -1, Events: []Event{{Kind: Removed, Names: full.Names, TierKnown: false, Group: -1}, {Kind: Removed, Names: full.Names[4:], Tier: kvindex.CPU, TierKnown: true, Group: -1}}})
	tr.want(t, Exact, 1, 5, 4)
	if s := tr.Stats(); s.OtherTier != 1 || !s.SlidingToo {
		t.Errorf("%+v", s)
	}
}

func TestKVE08AReportInFullMakesNoCopies(t *testing.T) {
	tr := track(false, TrackerOptions{Rank: -1})
	for _, m := range recording(t, "vllm_report.jsonl") {
		tr.Live(m.seq, m.payload)
	}
	report := slices.Clone(decode(t, recording(t, "vllm_report.jsonl")[6].payload).Events[0].Names)
	if len(report) != 6 {
		t.Fatalf("the report has %d blocks", len(report))
	}
	gone := func(name uint64) bool {
		tr.Live(tr.next, AppendBatch(nil, 1, 0, []Event{{Kind: Removed, Names: []uint64{name}}}))
		return tr.x.Resolve(tr.handle, name) == 0
	}
	for _, name := range report {
		if !gone(name) {
			t.Errorf("block %x is still there", name)
		}
	}
	last := decode(t, recording(t, "vllm_report.jsonl")[1].payload).Events[0].Names[0] // computed anew by each of four requests
	for i := range 4 {
		if gone(last) != (i == 3) {
			t.Errorf("after %d removals", i+1)
		}
	}
}

func TestARecordedEngineIsFollowedThroughClearsAndCopies(t *testing.T) {
	tr, held := track(false, TrackerOptions{Rank: -1}), map[uint64]int{}
	for _, m := range recording(t, "vllm_live.jsonl") {
		if m.seq > tr.next { // the recording leaves some out
			tr.giveUp(m.seq)
			tr.partial = false
			clear(held)
		}
		tr.Live(m.seq, m.payload)
		b := decode(t, m.payload)
		for i := range b.Events {
			for _, name := range b.Events[i].Names {
				if b.Events[i].Kind == Stored {
					held[name]++
				} else if held[name]--; held[name] <= 0 {
					delete(held, name)
				}
			}
			if b.Events[i].Kind == Cleared {
				clear(held)
			}
		}
		for name := range held {
			if tr.x.Resolve(tr.handle, name) == 0 && tr.orphans.byName[name] == nil {
				t.Fatalf("message %d: block %x is missing", m.seq, name)
			}
		}
		if got := tr.x.Stats().PerSlot[0].Blocks + tr.orphans.blocks; got != len(held) {
			t.Fatalf("message %d: %d blocks, want %d", m.seq, got, len(held))
		}
	}
}
