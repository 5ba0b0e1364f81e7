package cost

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

type answered struct {
	session, model string
	prompt, output int
}

// agentic are the answers of the sample of coding agents, in the order of the trace.
func agentic(t *testing.T) (all []answered) {
	t.Helper()
	f, err := os.Open("testdata/agentic_lengths.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if strings.HasPrefix(in.Text(), "#") {
			continue
		}
		var a answered
		if _, err := fmt.Sscan(in.Text(), &a.session, &a.model, &a.prompt, &a.output); err != nil {
			t.Fatalf("%q: %v", in.Text(), err)
		}
		all = append(all, a)
	}
	return all
}

// covered is the share of answers that were no longer than their P50 and their P90 said, each told before the answer was learned from.
// A length that the quantile equals counts by half.
func covered(o *Outputs, all []answered, asking func(answered) Asking) (p50, p90 float64) {
	for _, a := range all {
		l := o.Lengths(asking(a))
		for _, q := range []struct {
			at    float64
			count *float64
		}{{l.P50, &p50}, {l.P90, &p90}} {
			switch out := float64(a.output); {
			case out < q.at:
				*q.count++
			case out == q.at:
				*q.count += 0.5
			}
		}
		o.LearnShaped(asking(a), a.output)
	}
	return p50 / float64(len(all)), p90 / float64(len(all))
}

func TestQuantilesOfAgentsAnswersAreCalibratedWithinFivePoints(t *testing.T) {
	r := source(t, 31)
	all := agentic(t)
	shuffled := append([]answered(nil), all...)
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	shaped := func(a answered) Asking {
		return Asking{Model: a.model, Tenant: a.session, Shape: Shape{Tools: true, Streamed: true, PromptTokens: a.prompt}}
	}
	for _, c := range []struct {
		name   string
		all    []answered
		asking func(answered) Asking
	}{
		{"by model, session and shape", all, shaped},
		{"by model and session", all, func(a answered) Asking { return Asking{Model: a.model, Tenant: a.session} }},
		{"by model", all, func(a answered) Asking { return Asking{Model: a.model} }},
		{"in any order", shuffled, shaped},
	} {
		p50, p90 := covered(NewOutputs(0), c.all, c.asking)
		t.Logf("%s: %d answers, %.1f %% within P50, %.1f %% within P90", c.name, len(c.all), 100*p50, 100*p90)
		if math.Abs(p50-0.5) > 0.05 || math.Abs(p90-0.9) > 0.05 {
			t.Errorf("%s: P50 covers %.1f %%, P90 %.1f %%", c.name, 100*p50, 100*p90)
		}
	}
}

func TestQuantilesOfAMixtureAreThoseOfTheTenantOnceItIsKnown(t *testing.T) {
	o := NewOutputs(0)
	r := source(t, 32)
	for range 400 {
		o.LearnShaped(Asking{Model: "m", Tenant: "labels"}, 1)
		o.LearnShaped(Asking{Model: "m", Tenant: "essays"}, 800+r.IntN(400))
	}
	f := func(tenant string, maxTokens int, p50, p90 float64) {
		t.Helper()
		l := o.Lengths(Asking{Model: "m", Tenant: tenant, Shape: Shape{MaxTokens: maxTokens}})
		if math.Abs(l.P50-p50) > 0.15*p50 || math.Abs(l.P90-p90) > 0.15*p90 || l.P50 > l.P90 || l.Mean < 1 {
			t.Errorf("%s with at most %d tokens: %+v, want P50 %v and P90 %v", tenant, maxTokens, l, p50, p90)
		}
	}
	f("labels", 0, 1, 1)
	f("essays", 0, 1000, 1160)
	f("essays", 500, 500, 500)
	f("essays", 1050, 1000, 1050)
}

func TestAShapeIsToldFromOthersOfTheSameTenant(t *testing.T) {
	o := NewOutputs(0)
	call, chat := Asking{Model: "m", Tenant: "a", Shape: Shape{Tools: true}}, Asking{Model: "m", Tenant: "a", Shape: Shape{Streamed: true}}
	for range 200 {
		o.LearnShaped(call, 40)
		o.LearnShaped(chat, 700)
	}
	if c, d := o.Lengths(call), o.Lengths(chat); c.P50 > 60 || d.P50 < 500 {
		t.Errorf("calls %+v, chats %+v", c, d)
	}
	other := Asking{Model: "m", Tenant: "new", Shape: Shape{Tools: true}}
	if l := o.Lengths(other); l.P50 > 100 {
		t.Errorf("a new tenant's call: %+v", l)
	}
}

func TestWhatANarrowDistributionBorrowsDoesNotWidenIt(t *testing.T) {
	o := NewOutputs(0)
	r := source(t, 35)
	long, narrow := Asking{Model: "m", Tenant: "long"}, Asking{Model: "m", Tenant: "narrow"}
	for range 3000 {
		o.LearnShaped(long, 900+r.IntN(800))
		o.LearnShaped(narrow, 165+r.IntN(110))
	}
	var all []answered
	for range 2000 {
		all = append(all, answered{output: 165 + r.IntN(110)})
	}
	if p50, p90 := covered(o, all, func(answered) Asking { return narrow }); math.Abs(p50-0.5) > 0.03 || math.Abs(p90-0.9) > 0.03 {
		t.Errorf("P50 covers %.1f %%, P90 %.1f %%", 100*p50, 100*p90)
	}
}

func TestAnAnswerThatWasCutSaysOnlyThatItWouldHaveBeenLonger(t *testing.T) {
	o := NewOutputs(0)
	r := source(t, 36)
	length := func() int { return 100 + r.IntN(400) }
	for range 1500 { // half of them cut at 200, which most would have been longer than
		o.LearnShaped(Asking{Model: "m"}, length())
		o.LearnShaped(Asking{Model: "m", Shape: Shape{MaxTokens: 200}}, min(length(), 200))
	}
	free, short, middling := o.Lengths(Asking{Model: "m"}), o.Lengths(Asking{Model: "m", Shape: Shape{MaxTokens: 200}}), o.Lengths(Asking{Model: "m", Shape: Shape{MaxTokens: 240}})
	if math.Abs(free.P50-300) > 25 || math.Abs(free.P90-460) > 25 || math.Abs(free.Mean-300) > 25 {
		t.Errorf("without a limit %+v, want 300, 460 and 300", free)
	}
	if short.P50 != 200 || short.P90 != 200 || math.Abs(short.Mean-187) > 8 || middling.P50 != 240 {
		t.Errorf("at most 200: %+v, at most 240: %+v", short, middling)
	}
}

func TestAnswersThatAreAllCutAreExpectedToBeCut(t *testing.T) {
	o := NewOutputs(0)
	a := Asking{Model: "m", Shape: Shape{MaxTokens: 2_000_000}}
	for range 300 {
		o.LearnShaped(a, 2_000_000)
	}
	if l := o.Lengths(a); l.P50 < 1e6 || math.IsNaN(l.Mean) {
		t.Errorf("%+v", l)
	}
}

func TestTheLongestOfManyAnswersIsLongerThanOne(t *testing.T) {
	o := NewOutputs(0)
	r := source(t, 33)
	for range 500 {
		o.Learn("m", "", 1+r.IntN(1000))
	}
	one, nine := o.Lengths(Asking{Model: "m"}), o.Lengths(Asking{Model: "m", Answers: 9})
	if one.Longest != one.Mean || math.Abs(nine.Longest-900) > 60 || nine.Mean != one.Mean {
		t.Errorf("one %+v, of nine %+v", one, nine)
	}
	capped := o.Lengths(Asking{Model: "m", Answers: 9, Shape: Shape{MaxTokens: 300}})
	if capped.Longest > 300 || capped.P90 > 300 || capped.Mean > 300 {
		t.Errorf("%+v with at most 300 tokens", capped)
	}
}

func TestBucketsHoldWhatTheyAreSaidTo(t *testing.T) {
	for tokens := 1; tokens < 1<<22; tokens += 1 + tokens/37 {
		b := lengthBucket(tokens)
		if from := lengthFrom(b); float64(tokens) < from || b < lengthBuckets-1 && float64(tokens) > lengthUpTo(b) {
			t.Fatalf("%d tokens in bucket %d, from %v to %v", tokens, b, from, lengthUpTo(b))
		}
	}
	sum := 0.0
	for _, m := range lengthPrior {
		sum += m.share
	}
	if l := lengthPrior.lengths(0, 1); math.Abs(sum-1) > 1e-9 || math.Abs(l.Mean-outputStartTokens) > 8 {
		t.Errorf("the prior sums to %v: %+v", sum, l)
	}
}

func TestASpreadThatLearnsForEverStaysOne(t *testing.T) {
	var s spread
	for range 20_000 {
		s.add(100)
	}
	for range int(4 * spreadMemory) {
		s.add(7)
	}
	mix := lengthPrior
	s.into(&mix)
	if l := mix.lengths(0, 1); l.P50 != 7 || math.IsInf(float64(s.n), 0) || s.weight > lengthScaleMax {
		t.Errorf("%+v, of %v answers of weight %v", l, s.n, s.weight)
	}
}

func BenchmarkLengths(b *testing.B) {
	o := NewOutputs(0)
	a := Asking{Model: "m", Tenant: "t", Shape: Shape{Tools: true, PromptTokens: 5000}}
	o.LearnShaped(a, 100)
	b.ReportAllocs()
	for b.Loop() {
		o.Lengths(a)
	}
}
