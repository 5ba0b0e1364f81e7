// Package regret holds single choices against what came of them: would another candidate have been cheaper than the chosen worker turned
// out to be? It is pure.
//
//	if regret.Sampled(n) {
//		if v, ok := regret.Judge(&decision, promptTokens, &regret.Course{PromptTokens: 5012, AnswerTokens: 240, First: 0.31, Decode: 4.2}); ok {
//			sums.Add(v)
//		}
//	}
//	fmt.Println(sums.LostSeconds, sums.AheadSeconds)
//
// What the chosen worker cost is known by then: its time to the first token, its decoding, what was really cached. What the others would
// have cost stays a forecast, made when the choice was, from the same rows; it is only put right by what does not depend on the worker, the
// lengths of the prompt and of the answer. With the terms of a row as POLICY.md has them (Q, P its price, T the toll, w, phi, v, x what is
// displaced, d decoding, b the batch), all in request-seconds:
//
//	F_i = Q + P + T + s/2 + p*(w + phi*v + x) + g'*d + g*b    foretold of candidate i
//	R   = first + decode + P + T + c*(phi*v + x) + g*b        what the chosen one came to
//
// p is the prompt's tokens as the engine counted them by those that the choice went by, c the same of those that had to be computed; g is the
// answer's tokens by those expected, and g' so without the first one, which ends the prefill. s is a step of the candidate's batch, half of
// which a request waits for on the mean before it is looked at; 0 where nothing runs. What a choice cost others stays foretold on both sides.
//
// Where R is more than the least F of the other candidates, the difference is lost; where it is less, the choice was ahead by so much.
//
// How far to believe it: what came may be more or less than was foretold by chance, so that a good choice loses now and then, and lost alone
// says little. Such chance is in both sums alike, and cancels in ahead less lost: what choices gained against the next best. What does not
// cancel is a bias. The least of several forecasts is too low on the mean (the winner's curse), which makes the others look better than they
// were: rather more was gained than is told. What came later, such as others' requests, befell the chosen worker alone, and it too was chosen
// for a forecast that may have been too good. How much that is, is told: what the chosen workers came to, and had been foretold to. If the
// chosen ones alone were foretold too well, choices gained ahead less lost; if all candidates were, alike, as when load rises, they gained that
// and the difference on top. Sums.Gained has both. Only candidates that a decision kept a row of are looked at, and a client that reads slowly
// makes its stream look dear.
package regret

import (
	"math"

	"github.com/warmpath/warmpath/internal/sched"
)

// Every is how many requests come to one that is looked at.
const Every = 4

// Sampled says whether the n-th request is looked at: one of Every, by a hash of its number (the finaliser of SplitMix64, Steele and others
// 2014), so that traffic which repeats itself every few requests does not have the same ones looked at again and again.
func Sampled(n uint64) bool {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return (n^n>>31)%Every == 0
}

// Course is what came of a request that a choice was made for: one prompt, one answer, a stream that ended well.
type Course struct {
	PromptTokens, AnswerTokens int // as the engine counted them
	CachedTokens               int // of the prompt's, as it reported them,
	CachedKnown                bool
	First, Decode              float64 // seconds: from the choice to the first token, and from there to the last byte
}

// Verdict is one choice, in request-seconds.
type Verdict struct {
	Real     float64 // what the chosen worker came to
	Foretold float64 // and what it was foretold to come to, the real lengths given
	Other    float64 // what the cheapest other candidate was foretold to
}

// Lost is what the choice cost beyond the best other one; 0 where that was no better.
func (v Verdict) Lost() float64 { return max(v.Real-v.Other, 0) }

// Ahead is what it cost less than that.
func (v Verdict) Ahead() float64 { return max(v.Other-v.Real, 0) }

// Judge holds a choice against its course. reckoned is how many tokens the choice took the prompt to have. It is false where nothing can be
// told: no other candidate was there, no answer was expected, or a figure is missing.
func Judge(d *sched.Decision, reckoned int, c *Course) (Verdict, bool) {
	if len(d.Rows) < 2 || reckoned <= 0 || !(d.OutputTokens > 0) || c.PromptTokens <= 0 || c.AnswerTokens <= 0 || !(c.First >= 0) || !(c.Decode >= 0) {
		return Verdict{}, false
	}
	r := ratios{
		prompt: float64(c.PromptTokens) / float64(reckoned),
		answer: float64(c.AnswerTokens) / d.OutputTokens,
		decode: float64(c.AnswerTokens-1) / d.OutputTokens,
		tokens: d.OutputTokens,
	}
	own := &d.Rows[0]
	v := Verdict{Foretold: r.foretold(own), Other: math.Inf(1)}
	computed := r.prompt
	if uncached := reckoned - own.MatchedTokens; c.CachedKnown && uncached > 0 {
		computed = float64(max(c.PromptTokens-c.CachedTokens, 0)) / float64(uncached)
	}
	v.Real = c.First + c.Decode + own.WaitPriceSeconds + own.TollSeconds + computed*(own.Price*own.DelaySeconds+own.DisplacedSeconds) + r.answer*own.BatchSeconds
	for i := range d.Rows[1:] {
		if row := &d.Rows[1+i]; row.Why == "" {
			v.Other = min(v.Other, r.foretold(row))
		}
	}
	told := !math.IsInf(v.Real+v.Foretold+v.Other, 0) && !math.IsNaN(v.Real+v.Foretold+v.Other)
	return v, told
}

// ratios are what is known of a request by now, by what was reckoned with.
type ratios struct {
	prompt, answer, decode float64
	tokens                 float64 // expected of the answer
}

func (r *ratios) foretold(row *sched.Row) float64 {
	step := 0.0
	if row.Load > 0 {
		step = row.DecodeSeconds / r.tokens
	}
	return row.QueuedSeconds + row.WaitPriceSeconds + row.TollSeconds + step/2 +
		r.prompt*(row.PrefillSeconds+row.Price*row.DelaySeconds+row.DisplacedSeconds) + r.decode*row.DecodeSeconds + r.answer*row.BatchSeconds
}

// Sums are all choices that were looked at, in request-seconds.
type Sums struct {
	Requests, Beaten             uint64 // looked at, and those of them where another candidate would have been cheaper
	LostSeconds, AheadSeconds    float64
	RealSeconds, ForetoldSeconds float64 // of the chosen workers
}

// Add adds one.
func (s *Sums) Add(v Verdict) {
	s.Requests++
	if v.Lost() > 0 {
		s.Beaten++
	}
	s.LostSeconds += v.Lost()
	s.AheadSeconds += v.Ahead()
	s.RealSeconds += v.Real
	s.ForetoldSeconds += v.Foretold
}

// Gained is what choices gained against the next best: what is certain of it, and what is to be had. It lies between the two, see above.
func (s *Sums) Gained() (least, most float64) {
	own, alike := s.AheadSeconds-s.LostSeconds, s.AheadSeconds-s.LostSeconds+s.RealSeconds-s.ForetoldSeconds
	return min(own, alike), max(own, alike)
}
