// Package exact finds what is known of a prompt for certain: its own tokens, and how many leading blocks of them each worker said that it
// holds.
//
//	f := exact.New(exact.Options{Seed: seed, Tokens: renderer.Tokens, Index: index})
//	f.Serve(workers)                                   // those that tell what they hold, whenever that changes
//	if f.Find(ctx, render.Ask{Model: "llama-8b", API: api, Req: &req, Body: body}, &found) {
//		request.Known = found.Known
//	}
//
// It is called before the gate's lock is taken: a choice under the lock only reads what was found. Any number of goroutines may call it.
package exact

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/sched"
)

// Options of a Finder; all fields are needed.
type Options struct {
	Seed   prefix.Seed
	Tokens func(ctx context.Context, ask render.Ask, into []uint32) (ids []uint32, ok bool)
	Index  *kvindex.Index
}

// Finder finds.
type Finder struct {
	o      Options
	models atomic.Pointer[map[string]model]
}

// model is what a name that requests use stands for.
type model struct {
	base, adapter string
	sizes         []int // of blocks, in tokens, among the workers that serve it
	passed        []int // slots of those whose word on it does not count
}

// Worker is one that tells what it holds.
type Worker struct {
	Slot        int
	Models      []fleet.Model
	BlockTokens int
	// Reloaded are adapters that it unloaded at some time. Another of the same name may be loaded since, and its blocks have the same names
	// as the old one's, which the engine may still have: what it tells of them is passed over.
	Reloaded []string
}

// New makes a Finder for which no worker tells anything yet.
func New(o Options) *Finder {
	f := &Finder{o: o}
	f.Serve(nil)
	return f
}

// Base is the name of the model that a worker's caches are of: the first that is no adapter; "" when it serves none.
func Base(models []fleet.Model) string {
	for _, m := range models {
		if m.Parent == "" {
			return m.ID
		}
	}
	return ""
}

// Serve says which workers tell what they hold, in place of those named before.
func (f *Finder) Serve(workers []Worker) {
	models := map[string]model{}
	for _, w := range workers {
		base := Base(w.Models)
		if base == "" || w.BlockTokens <= 0 {
			continue
		}
		for _, m := range w.Models {
			of := model{base: base}
			if m.Parent != "" {
				of.adapter = m.ID
			}
			for _, name := range append([]string{m.ID}, m.Aliases...) {
				known, ok := models[name]
				if !ok {
					known = of
				}
				if !slices.Contains(known.sizes, w.BlockTokens) {
					known.sizes = append(known.sizes, w.BlockTokens)
				}
				if of.adapter != "" && slices.Contains(w.Reloaded, of.adapter) {
					known.passed = append(known.passed, w.Slot)
				}
				models[name] = known
			}
		}
	}
	f.models.Store(&models)
}

// Found is what is known of one prompt. Its memory serves the next one.
type Found struct {
	IDs   []uint32 // the prompt's tokens
	Known []sched.Known

	index   *kvindex.Index
	passed  []int // slots whose word does not count
	chains  []prefix.Chain
	matches []kvindex.Match
}

// idsKept bounds the memory that a Found keeps for the next prompt: 64 thousand tokens, and as many blocks' keys at most.
const idsKept = 64 << 10

// Forget empties it, and lets go of what a very long prompt took.
func (d *Found) Forget() {
	d.IDs, d.Known = d.IDs[:0], d.Known[:0]
	if cap(d.IDs) > idsKept {
		*d = Found{}
	}
}

// Find finds. It is false, with nothing found, where no worker of the model tells what it holds, or the prompt's tokens cannot be known in
// time; the prompt is then matched by its bytes.
func (f *Finder) Find(ctx context.Context, ask render.Ask, d *Found) bool {
	d.Forget()
	m, ok := (*f.models.Load())[ask.Model]
	if !ok {
		return false
	}
	ids, ok := f.o.Tokens(ctx, ask, d.IDs)
	if !ok || len(ids) == 0 {
		return false
	}
	d.IDs, d.index, d.passed = ids, f.o.Index, m.passed
	for i, size := range m.sizes {
		if i == len(d.chains) {
			d.chains, d.matches = append(d.chains, prefix.Chain{}), append(d.matches, kvindex.Match{})
		}
		d.chains[i] = prompt.TokenChain(f.o.Seed, d.chains[i], ids, prompt.Blocks{Tokens: size, Model: m.base, Adapter: m.adapter, Salt: ask.Req.Salt()})
		d.Known = append(d.Known, sched.Known{BlockTokens: size, Keys: d.chains[i].Keys})
	}
	d.Again()
	return true
}

// Holders says which workers of a model said that they hold a block with everything before it, as kvindex.Index.Holders does. name is one
// that requests use, and the block's key one of a prompt for that name.
func (f *Finder) Holders(name string, key prefix.Key, into []int8) []int8 {
	into = f.o.Index.Holders(key, into)
	for _, slot := range (*f.models.Load())[name].passed {
		if slot < len(into) {
			into[slot] = -1
		}
	}
	return into
}

// Again looks anew what workers hold: a request that waits must not be placed by what they held when it came.
func (d *Found) Again() {
	for i := range d.Known {
		d.matches[i] = d.index.Match(d.chains[i].Keys, d.matches[i])
		for _, slot := range d.passed {
			if slot < len(d.matches[i].Depth) {
				d.matches[i].Depth[slot] = -1
			}
		}
		d.Known[i].Depth, d.Known[i].Fast = d.matches[i].Depth, d.matches[i].Fast
	}
}
