package kvevent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
)

var testSeed = prefix.NewSeed([]byte("test"))

const testBlock = 4

// engine publishes what it does to its cache, numbered, and keeps all of it for replays.
type engine struct {
	log  [][]byte
	held map[uint64]int // copies by name
	salt uint64
}

func newEngine(salt uint64) *engine { return &engine{held: map[uint64]int{}, salt: salt} }

// tokens of a prompt of so many blocks; equal topics share their beginnings.
func promptTokens(topic, blocks int) []uint32 {
	var tokens []uint32
	for i := range blocks * testBlock {
		token := uint32(i)
		if i >= 2*testBlock {
			token = uint32(topic*1000 + i)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// name is the engine's hash of the prompt's first blocks.
func (e *engine) name(topic, blocks int) uint64 {
	h := e.salt
	for _, token := range promptTokens(topic, blocks) {
		h = h*0x9e3779b97f4a7c15 + uint64(token) + 1
		h ^= h >> 29
	}
	return h
}

func (e *engine) publish(events ...Event) []byte {
	payload := AppendBatch(nil, 1, 0, events)
	e.log = append(e.log, payload)
	return payload
}

// storedEvent covers the blocks [from, to) of a prompt.
func (e *engine) storedEvent(topic, from, to int) Event {
	ev := Event{Kind: Stored, TierKnown: true, BlockTokens: testBlock, Tokens: promptTokens(topic, to)[from*testBlock:], HasParent: from > 0}
	if from > 0 {
		ev.Parent = e.name(topic, from)
	}
	for i := from; i < to; i++ {
		ev.Names = append(ev.Names, e.name(topic, i+1))
	}
	return ev
}

// run computes a prompt: blocks that are not cached are stored, and the last one is computed again when all are.
func (e *engine) run(topic, blocks int) []byte {
	from := 0
	for from < blocks && e.held[e.name(topic, from+1)] > 0 {
		from++
	}
	from = min(from, blocks-1)
	for i := from; i < blocks; i++ {
		e.held[e.name(topic, i+1)]++
	}
	return e.publish(e.storedEvent(topic, from, blocks))
}

// evict removes one copy of a block.
func (e *engine) evict(name uint64) []byte {
	if e.held[name]--; e.held[name] <= 0 {
		delete(e.held, name)
	}
	return e.publish(Event{Kind: Removed, Names: []uint64{name}})
}

func (e *engine) clear() []byte {
	clear(e.held)
	return e.publish(Event{Kind: Cleared})
}

// depth is how many leading blocks the engine really holds.
func (e *engine) depth(topic, blocks int) int32 {
	for i := range blocks {
		if e.held[e.name(topic, i+1)] == 0 {
			return int32(i)
		}
	}
	return int32(blocks)
}

func promptKeys(topic, blocks int) []prefix.Key {
	tokens, key := promptTokens(topic, blocks), testSeed.TokenRoot("m", "")
	var keys []prefix.Key
	for i := range blocks {
		key = testSeed.NextTokens(key, tokens[i*testBlock:(i+1)*testBlock], nil)
		keys = append(keys, key)
	}
	return keys
}

type tracked struct {
	*Tracker
	x *kvindex.Index
}

func track(replay bool, o TrackerOptions) tracked {
	x := kvindex.New(kvindex.Options{})
	o.Seed, o.Model, o.Replay = testSeed, "m", replay
	return tracked{NewTracker(x, o), x}
}

func (t tracked) depth(topic, blocks int) int32 {
	return t.x.Match(promptKeys(topic, blocks), kvindex.Match{}).Depth[t.o.Slot]
}

func (t tracked) want(tt *testing.T, state State, topic, blocks int, depth int32) {
	tt.Helper()
	if got := t.depth(topic, blocks); got != depth || t.State() != state {
		tt.Fatalf("%s with depth %d of %d, want %s with %d; %+v", t.State(), got, blocks, state, depth, t.Stats())
	}
}

// An engine's messages are delivered as badly as can be: lost, repeated, re-ordered, of another life, and replays are cut or without an end.
func TestHostileMessagesNeverPromiseTooMuchAndAreRightAgainAfterOneReplay(t *testing.T) {
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 3))
		tr, e := track(true, TrackerOptions{Rank: -1}), newEngine(1)
		var late []int // numbers of messages kept back
		check := func(what string, exact bool) {
			t.Helper()
			for topic := range 6 {
				got, really := tr.depth(topic, 8), e.depth(topic, 8)
				if got > really || exact && got != really {
					t.Fatalf("seed %d, %s: topic %d has %d blocks, the index says %d (%s)", seed, what, topic, really, got, tr.State())
				}
			}
		}
		deliver := func(seq int) {
			if ask := tr.Live(uint64(seq), e.log[seq]); ask.Wanted {
				most, told := 1+r.IntN(40), r.IntN(3) > 0
				if most < 30 {
					told = false // the connection broke
				}
				answer(tr.Tracker, e, ask, most, told)
				check("after a replay", seq == len(e.log)-1)
			}
		}
		for range 800 {
			if r.IntN(400) == 0 {
				e, late = newEngine(1+r.Uint64N(2)), nil
			}
			switch names := sortedNames(e.held); {
			case len(names) > 20 || len(names) > 0 && r.IntN(3) == 0:
				e.evict(names[r.IntN(len(names))])
			case r.IntN(60) == 0:
				e.clear()
			default:
				e.run(r.IntN(6), 1+r.IntN(8))
			}
			last := len(e.log) - 1
			switch n := r.IntN(20); {
			case n == 0: // lost
			case n == 1:
				late = append(late, last)
			case n == 2:
				deliver(last)
				deliver(max(0, last-r.IntN(5)))
			default:
				deliver(last)
				check(fmt.Sprint("after message ", last), tr.State() == Exact)
			}
			if len(late) > 0 && r.IntN(4) == 0 {
				deliver(late[0])
				late = late[1:]
			}
		}
		e.run(0, 3)
		deliver(len(e.log) - 1)
		check("at the end", true)
		if s := tr.Stats(); s.Gaps == 0 || s.Replayed == 0 || s.Repeats == 0 || tr.State() != Exact {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
}

func sortedNames(held map[uint64]int) (names []uint64) {
	for name := range held {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
