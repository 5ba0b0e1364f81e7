// Package ghost places the traffic that there was a second time, virtually, by rules that need to know neither load nor caches, over assumed
// caches of the same size as the fleet's: what the same requests would have had to compute by round-robin, at random, by a hash of their
// session, and at the least with one cache as large as all together.
//
//	g := ghost.New(ghost.Options{})
//	g.SetWorkers([]ghost.Worker{{Slot: 0, ID: "w1", KVTokens: 400_000, Up: true, Models: []string{"m"}}})
//	in := ghost.NewIntake(g.Threshold())
//	in.Add(&ghost.Request{Model: "m", Chain: chain, PromptTokens: 900, Cached: 600, Reported: true}) // on the request's path: copies keys
//	g.Note(in.Take())                                                                               // elsewhere
//	saved := g.Report(now).Total.Saved(ghost.RoundRobin)
//
// What is kept is a sample in space (SHARDS: Waldspurger et al., FAST 2015): blocks whose key hashes below a threshold, in caches scaled by
// the same share. A hit of a block in a cache that puts out what was used least recently depends only on how much was used since, which a
// sample of blocks measures without bias; a sample of conversations would keep all of a shared prefix or nothing of it. Prompt tokens are
// counted for all requests and misses estimated from the sample, so that what the sample lacks of hot blocks counts as cached
// (SHARDS-adj). When memory or time is short the threshold is halved, what is above it leaves the caches, and what was counted stays. Where
// there has been room for long it is doubled again, see rise.
//
// The room is pure; Intake alone has a lock, and may be used from any goroutine.
package ghost

import (
	"math"
	"math/rand/v2"

	"github.com/warmpath/warmpath/internal/sched"
)

// Rule is one ghost.
type Rule int

// The ghosts. Reachable is no rule but an upper bound: one cache for each model, as large as those of its workers together.
const (
	RoundRobin Rule = iota
	Random
	SessionHash
	Reachable
	rules // how many there are
)

// Names are the rules', as policies have them.
var Names = [rules]string{"round-robin", "random", "session-hash", "reachable"}

// Options of New; 0 is the default.
type Options struct {
	BytesMax int64   // memory of all caches; default 32 MiB
	Sample   float64 // share of blocks that is looked at to begin with, above 0 and at most 1; default 1
	Seed     uint64  // of chance
}

const (
	bytesDefault = 32 << 20
	// sampleLeast is the least share: below it a cache of 400,000 tokens would hold some dozens of blocks, and chance would rule.
	sampleLeast = 1.0 / 1024
	// groupsMax bounds the models and pools that are told apart.
	groupsMax = 256
	golden    = 0x9e3779b97f4a7c15
)

// Worker is one that there is.
type Worker struct {
	Slot        int // dense, below sched's bound of workers
	ID          string
	Incarnation uint64
	KVTokens    int64 // its cache
	Up          bool  // requests may be placed there
	Models      []string
	Pools       []string
	// B and C are the seconds of a prefill for each token and each squared token, see cost.Constants.
	B, C float64
}

// Ghosts are all of them. The owner serialises calls.
type Ghosts struct {
	threshold uint64
	rise      rise
	caches    [rules]*caches
	workers   []Worker // by slot; ID "" for none
	idHash    []uint64
	models    map[string]int32 // Reachable's lane of each model
	eligible  map[group][]int32
	turns     []uint64 // by slot: when round-robin chose it last
	turn      uint64
	chance    *rand.Rand
	flights   flights // of SessionHash
	counts    counts
}

// New makes ghosts with empty caches.
func New(o Options) *Ghosts {
	if o.BytesMax <= 0 {
		o.BytesMax = bytesDefault
	}
	if !(o.Sample > 0) || o.Sample > 1 {
		o.Sample = 1
	}
	g := &Ghosts{threshold: math.MaxUint64, models: map[string]int32{}, eligible: map[group][]int32{}, chance: rand.New(rand.NewPCG(o.Seed, golden))}
	if share := max(o.Sample, sampleLeast); share < 1 {
		g.threshold = uint64(share * (1 << 63) * 2)
	}
	g.rise.ceiling, g.rise.wait = g.threshold, calmLeast
	for i := range g.caches {
		g.caches[i] = newCaches(o.BytesMax / int64(rules))
	}
	return g
}

// Threshold is for Intake: that of the sample, or of the one that caches are warmed for.
func (g *Ghosts) Threshold() uint64 { return max(g.threshold, g.rise.to) }

// Rate is the share of blocks that is looked at.
func (g *Ghosts) Rate() float64 { return rateOf(g.threshold) }

func rateOf(threshold uint64) float64 { return (float64(threshold) + 1) / (1 << 63) / 2 }

// sampled says whether a piece is in the sample. Keys are hashes under the installation's secret: nobody can choose which are.
func sampled(key, threshold uint64) bool { return key*golden <= threshold }

// Bytes is the memory of all caches.
func (g *Ghosts) Bytes() (sum int64) {
	for _, c := range g.caches {
		sum += c.bytes()
	}
	return sum
}

// Lower halves what is looked at: it gives up a rise that is under way, else it halves the sample; false when that is as small as it gets.
func (g *Ghosts) Lower() bool {
	g.rise.fell = true
	if g.rise.to != 0 {
		g.giveUp()
		return true
	}
	if g.Rate()/2 < sampleLeast {
		return false
	}
	g.threshold /= 2
	for _, c := range g.caches {
		c.keep(func(key uint64) bool { return sampled(key, g.threshold) })
	}
	g.resize()
	return true
}

// SetWorkers says who is there. A slot that another instance has now begins with an empty cache.
func (g *Ghosts) SetWorkers(all []Worker) {
	there := make(map[int]bool, len(all))
	for i := range all {
		w := &all[i]
		there[w.Slot] = true
		for len(g.workers) <= w.Slot {
			g.workers, g.idHash, g.turns = append(g.workers, Worker{}), append(g.idHash, 0), append(g.turns, 0)
		}
		if old := &g.workers[w.Slot]; old.ID != w.ID || old.Incarnation != w.Incarnation {
			g.empty(w.Slot)
		}
		g.workers[w.Slot], g.idHash[w.Slot] = *w, sched.HashID(w.ID)
	}
	for slot := range g.workers {
		if g.workers[slot].ID != "" && !there[slot] {
			g.empty(slot)
			g.workers[slot] = Worker{}
		}
	}
	clear(g.eligible)
	g.resize()
}

// empty forgets what a slot held in every ghost that places by worker.
func (g *Ghosts) empty(slot int) {
	for rule := RoundRobin; rule < Reachable; rule++ {
		g.caches[rule].forget(counted(int32(slot)))
		g.caches[rule].forget(warming(int32(slot)))
	}
	g.turns[slot] = 0
}

// resize gives each cache the sample's share of its size.
func (g *Ghosts) resize() {
	pooled := map[string]int64{}
	for slot := range g.workers {
		w := &g.workers[slot]
		for rule := RoundRobin; rule < Reachable; rule++ {
			g.open(g.caches[rule], int32(slot), w.KVTokens)
		}
		if len(w.Models) > 0 {
			pooled[w.Models[0]] += w.KVTokens
		}
	}
	for slot := range g.workers { // in the order of slots, so that lanes are given out alike each time
		if models := g.workers[slot].Models; len(models) > 0 {
			lane, ok := g.models[models[0]]
			if !ok && len(g.models) < groupsMax {
				lane, ok = int32(len(g.models)), true
				g.models[models[0]] = lane
			}
			if ok {
				g.open(g.caches[Reachable], lane, pooled[models[0]])
			}
		}
	}
}

// open gives a cache of so many tokens its share of what is counted, and of what is warmed beside it.
func (g *Ghosts) open(c *caches, n int32, kvTokens int64) {
	rate := g.Rate()
	c.open(counted(n), int64(float64(kvTokens)*rate))
	c.open(warming(n), int64(float64(kvTokens)*(rateOf(g.Threshold())-rate)))
}

// group is a model, and the pool that its requests went to.
type group struct{ model, pool string }

// among are the slots of workers that a request of that group may go to now.
func (g *Ghosts) among(of group) []int32 {
	slots, known := g.eligible[of]
	if known {
		return slots
	}
	for slot := range g.workers {
		w := &g.workers[slot]
		if w.Up && (len(w.Models) == 0 || contains(w.Models, of.model)) && (of.pool == "" || contains(w.Pools, of.pool)) {
			slots = append(slots, int32(slot))
		}
	}
	g.eligible[of] = slots
	return slots
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}
