// Package workload makes chats and measures how an OpenAI-compatible address answers them. The chats are what routing
// is about: many users of a few applications, whose long system prompts they share, each with material of their own
// and several turns that repeat everything said before, and a few very long documents that several users ask about.
//
// The same seed gives the same chats, byte for byte; what the server answers becomes part of the next turn, as with
// real clients:
//
//	o := workload.Default()
//	o.Model = "llama-3-8b"
//	r := workload.Run(ctx, "http://127.0.0.1:8800", workload.Generate(o), workload.RunOptions{})
//	fmt.Println(r.TTFT.Mean, r.TTFT.P99, r.CachedTokens, "of", r.PromptTokens)
package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Range is a span of lengths; a length in it is drawn log-uniformly, since lengths differ by factors.
type Range struct{ Min, Max int }

// Options describe a workload. Tokens are counted at four bytes each.
type Options struct {
	Seed  uint64
	Model string // the model that every request names

	// Sessions is how many chats there are; they begin at random instants of Over, whatever the server does (open
	// loop). Within a chat each turn waits for the answer before it and then Think, the mean of an exponential
	// distribution (closed loop).
	Sessions    int
	Over, Think time.Duration
	Turns       Range

	// Applications share the sessions; each has a system prompt of its own.
	Applications int
	SystemTokens Range
	// ContextTokens is the material a user brings in the first message, TurnTokens a later message, OutputTokens the
	// max_tokens of each.
	ContextTokens, TurnTokens, OutputTokens Range

	// DocumentSessions of the sessions are about one of Documents, which is in their first message.
	Documents, DocumentSessions   int
	DocumentTokens, DocumentTurns Range
}

// Default is the published workload: 81 chats in a minute, ten of them about one of three documents of 32,000 to 64,000 tokens,
// made for four workers that prefill some 13,000 tokens a second each (profile h100-70b-tp4).
func Default() Options {
	return Options{
		Seed:             1,
		Model:            "sim",
		Sessions:         81,
		Over:             60 * time.Second,
		Think:            4 * time.Second,
		Turns:            Range{5, 9},
		Applications:     4,
		SystemTokens:     Range{1500, 4000},
		ContextTokens:    Range{2000, 8000},
		TurnTokens:       Range{100, 600},
		OutputTokens:     Range{40, 160},
		Documents:        3,
		DocumentSessions: 10,
		DocumentTokens:   Range{32_000, 64_000},
		DocumentTurns:    Range{3, 4},
	}
}

// Faster returns the workload of users who arrive and think that many times as fast.
func (o Options) Faster(factor float64) Options {
	o.Over = time.Duration(float64(o.Over) / factor)
	o.Think = time.Duration(float64(o.Think) / factor)
	return o
}

// Session is one chat.
type Session struct {
	ID     string
	Model  string
	Start  time.Duration // after the beginning of the run
	System string
	Turns  []Turn
}

// Turn is one message of the user and the wait before it.
type Turn struct {
	Think     time.Duration // after the answer before; 0 in the first turn
	User      string
	MaxTokens int
}

// Requests returns how many requests the sessions make when all are answered.
func Requests(sessions []Session) (n int) {
	for _, s := range sessions {
		n += len(s.Turns)
	}
	return n
}

// The streams of random numbers of one seed. Each text has its own, so that more sessions leave the first as they were.
const (
	streamWords = iota
	streamArrivals
	streamSystem
	streamDocument
	streamSession
)

// Generate makes the chats in the order they start.
func Generate(o Options) []Session {
	words := vocabulary(source(o.Seed, streamWords, 0))
	systems := make([]string, max(o.Applications, 1))
	for i := range systems {
		r := source(o.Seed, streamSystem, i)
		systems[i] = text(r, words, o.SystemTokens.draw(r))
	}
	documents := make([]string, o.Documents)
	for i := range documents {
		r := source(o.Seed, streamDocument, i)
		documents[i] = text(r, words, o.DocumentTokens.draw(r))
	}

	starts, about := arrivals(o)
	sessions := make([]Session, o.Sessions)
	for i := range sessions {
		r := source(o.Seed, streamSession, i)
		s := Session{
			ID:     fmt.Sprintf("chat-%d-%d", o.Seed, i),
			Model:  o.Model,
			Start:  starts[i],
			System: systems[r.IntN(len(systems))],
		}
		if d := about[i]; d >= 0 {
			s.Turns = o.turns(r, words, o.DocumentTurns)
			s.Turns[0].User = documents[d] + "\n\n" + text(r, words, o.TurnTokens.draw(r))
		} else {
			s.Turns = o.turns(r, words, o.Turns)
			s.Turns[0].User = text(r, words, o.ContextTokens.draw(r))
		}
		sessions[i] = s
	}
	return sessions
}

// arrivals returns each session's start, ascending, and the document it is about, -1 for none. The number of sessions
// being given, the arrivals of a Poisson process are uniform. The documents come up one after another in turn, at
// random places.
func arrivals(o Options) (starts []time.Duration, about []int) {
	r := source(o.Seed, streamArrivals, 0)
	starts, about = make([]time.Duration, o.Sessions), make([]int, o.Sessions)
	for i := range starts {
		starts[i] = time.Duration(r.Float64() * float64(o.Over))
		about[i] = -1
	}
	slices.Sort(starts)
	if o.Documents > 0 {
		for n, i := range r.Perm(o.Sessions)[:min(o.DocumentSessions, o.Sessions)] {
			about[i] = n % o.Documents
		}
	}
	return starts, about
}

func (o Options) turns(r *rand.Rand, words []string, count Range) []Turn {
	turns := make([]Turn, max(count.draw(r), 1))
	for i := range turns {
		turns[i] = Turn{
			User:      text(r, words, o.TurnTokens.draw(r)),
			MaxTokens: o.OutputTokens.draw(r),
		}
		if i > 0 {
			// The tail is cut at four times the mean: one user who went for lunch would set a run's length.
			turns[i].Think = time.Duration(min(r.ExpFloat64(), 4) * float64(o.Think))
		}
	}
	return turns
}

func (g Range) draw(r *rand.Rand) int {
	if g.Max <= g.Min {
		return g.Min
	}
	low, high := math.Log(float64(max(g.Min, 1))), math.Log(float64(g.Max)+0.999)
	return min(int(math.Exp(low+(high-low)*r.Float64())), g.Max)
}

func source(seed uint64, stream, index int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(stream)<<32|uint64(index)))
}
