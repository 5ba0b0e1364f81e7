package sched

import (
	"fmt"
	"testing"
	"time"
)

func TestAHotPrefixSpreadsRatherThanQueueBehindItsHit(t *testing.T) {
	for _, c := range []struct {
		workers, shared int
		perSecond       float64
	}{{8, 8000, 110}, {2, 32000, 14}} {
		name := fmt.Sprintf("%d workers %dk", c.workers, c.shared/1000)
		ours, best := compare(t, name, c.workers, hotPrefix(5, 300, c.perSecond, c.shared))
		if ours.ttft > 1.2*best.ttft || ours.tpot > 1.2*best.tpot || ours.hits == 0 || ours.share > 1.3/float64(c.workers) {
			t.Errorf("%s: %+v against %+v", name, ours, best)
		}
	}
}

func TestChatsMeetTheirPrefixesAtEveryLoad(t *testing.T) {
	for _, perSecond := range []float64{2, 16} {
		name := fmt.Sprintf("%g chats/s", perSecond)
		ours, best := compare(t, name, 4, chats(5, 20+int(2*perSecond), perSecond))
		if ours.ttft > best.ttft || ours.tpot > 1.02*best.tpot || ours.prefilled > best.prefilled {
			t.Errorf("%s: %+v against %+v", name, ours, best)
		}
	}
}

// Without reuse the rule trades some waiting for the first token against faster decoding: the whole answer comes no later.
func TestWithoutReuseNothingIsLostToLeastTokens(t *testing.T) {
	load := chats(9, 100, 38)
	for i := range load {
		load[i].chain = chainOf(uint64(i+1000), load[i].tokens)
	}
	ours := newRig(t, 4, "warm-cost").run(load)
	theirs := newRig(t, 4, "least-tokens").run(load)
	const answer = 164 // mean tokens after the first
	t.Logf("ours %+v, least-tokens %+v", ours, theirs)
	if ours.ttft > 1.15*theirs.ttft || ours.ttft+answer*ours.tpot > 1.02*(theirs.ttft+answer*theirs.tpot) {
		t.Errorf("ours %+v, least-tokens %+v", ours, theirs)
	}
}

// One worker is warm when the crowd comes. The prefix's first prefill on each further one takes so long that nobody should wait behind
// it who need not.
func TestNobodyWaitsBehindALongPrefillWhileAWarmWorkerIsThere(t *testing.T) {
	load := hotPrefix(5, 200, 24, 32000)
	for i := range load[1:] {
		load[i+1].at += 10 * time.Second
	}
	ours, best := compare(t, "8 workers, one warm", 8, load)
	if ours.ttft > 1.6*best.ttft || ours.tpot > 1.1*best.tpot || ours.hits == 0 {
		t.Errorf("%+v against %+v", ours, best)
	}
}
