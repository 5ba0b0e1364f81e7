package exact

import (
	"context"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/render"
)

// rig is a Finder over an index in which slot 0 holds the first blocks of what tokens(n) is.
type rig struct {
	*Finder
	index *kvindex.Index
	seed  prefix.Seed
	asked int
	known bool // whether tokens are known at all
}

func newRig() *rig {
	r := &rig{index: kvindex.New(kvindex.Options{}), seed: prefix.NewSeed([]byte("s")), known: true}
	r.Finder = New(Options{Seed: r.seed, Index: r.index, Tokens: func(_ context.Context, ask render.Ask, into []uint32) ([]uint32, bool) {
		r.asked++
		return append(into, tokens(len(ask.Body))...), r.known
	}})
	return r
}

func tokens(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(i)
	}
	return ids
}

// store has the worker in a slot hold so many tokens' blocks of a size.
func (r *rig) store(slot, n int, b prompt.Blocks) {
	h := r.index.Open(slot)
	chain := prompt.TokenChain(r.seed, prefix.Chain{}, tokens(n), b)
	names := make([]uint64, len(chain.Keys))
	for i, key := range chain.Keys {
		names[i] = uint64(key)
	}
	r.index.Store(h, 0, chain.Keys, names, kvindex.GPU)
	r.index.Complete(h, true)
}

func (r *rig) find(model string, n int, salt string) (*Found, bool) {
	d := new(Found)
	ok := r.Find(context.Background(), render.Ask{Model: model, Req: &llmapi.Request{CacheSalt: salt}, Body: make([]byte, n)}, d)
	return d, ok
}

var served = []fleet.Model{{ID: "sql", Parent: "base"}, {ID: "base", Aliases: []string{"other-name"}}}

func TestAPromptIsFoundWhereItsTokensAreHeld(t *testing.T) {
	r := newRig()
	r.Serve([]Worker{{Models: served, BlockTokens: 16}, {Models: served, BlockTokens: 32}})
	r.store(0, 160, prompt.Blocks{Tokens: 16, Model: "base"})
	r.store(1, 160, prompt.Blocks{Tokens: 32, Model: "base"})
	for _, name := range []string{"base", "other-name"} {
		d, ok := r.find(name, 170, "")
		if !ok || len(d.IDs) != 170 || len(d.Known) != 2 {
			t.Fatalf("%s: %v %+v", name, ok, d)
		}
		for _, k := range d.Known {
			for slot, size := range []int{16, 32} {
				want := int32(0)
				if k.BlockTokens == size {
					want = int32(160 / size)
				}
				if k.Depth[slot] != want {
					t.Errorf("%s: in blocks of %d slot %d holds %d, want %d", name, k.BlockTokens, slot, k.Depth[slot], want)
				}
			}
		}
	}
}

func TestSEC03ASaltKeepsTenantsApart(t *testing.T) {
	r := newRig()
	r.Serve([]Worker{{Models: served, BlockTokens: 16}})
	r.store(0, 160, prompt.Blocks{Tokens: 16, Model: "base", Salt: "a"})
	for salt, want := range map[string]int32{"a": 10, "b": 0, "": 0} {
		if d, ok := r.find("base", 160, salt); !ok || d.Known[0].Depth[0] != want {
			t.Errorf("salt %q: %v, want %d blocks", salt, d.Known, want)
		}
	}
}

func TestLOR01AnAdaptersBlocksAreItsOwn(t *testing.T) {
	r := newRig()
	r.Serve([]Worker{{Models: served, BlockTokens: 16}})
	r.store(0, 160, prompt.Blocks{Tokens: 16, Model: "base", Adapter: "sql"})
	for model, want := range map[string]int32{"sql": 10, "base": 0} {
		if d, ok := r.find(model, 160, ""); !ok || d.Known[0].Depth[0] != want {
			t.Errorf("%s: %v, want %d blocks", model, d.Known, want)
		}
	}
}

func TestNobodyIsAskedForTokensThatNobodyHolds(t *testing.T) {
	r := newRig()
	r.Serve([]Worker{{Models: served}, {BlockTokens: 16}}) // one whose blocks are not known, one whose models are not
	if _, ok := r.find("base", 160, ""); ok || r.asked != 0 {
		t.Errorf("found %v, asked %d times", ok, r.asked)
	}
	r.Serve([]Worker{{Models: served, BlockTokens: 16}})
	r.known = false
	if d, ok := r.find("base", 160, ""); ok || len(d.Known) > 0 {
		t.Errorf("found %+v of tokens that are not known", d)
	}
	r.Serve(nil)
	if _, ok := r.find("base", 160, ""); ok || r.asked != 1 {
		t.Errorf("found %v for workers that left, asked %d times", ok, r.asked)
	}
}

func TestALongPromptLeavesNoMemoryBehind(t *testing.T) {
	r := newRig()
	r.Serve([]Worker{{Models: served, BlockTokens: 16}})
	d, ok := r.find("base", 2*idsKept, "")
	if !ok {
		t.Fatal("not found")
	}
	d.Forget()
	if cap(d.IDs) > idsKept || d.chains != nil {
		t.Errorf("%d ids are kept, the bound is %d", cap(d.IDs), idsKept)
	}
}

func TestLOR02WhatIsToldOfAnAdapterThatWasUnloadedIsPassedOver(t *testing.T) {
	r := newRig()
	r.Serve([]Worker{{Slot: 0, Models: served, BlockTokens: 16, Reloaded: []string{"sql"}}, {Slot: 1, Models: served, BlockTokens: 16}, {Slot: 7, Models: served, BlockTokens: 16, Reloaded: []string{"sql"}}})
	for slot := range 2 {
		r.store(slot, 160, prompt.Blocks{Tokens: 16, Model: "base", Adapter: "sql"})
	}
	if d, ok := r.find("sql", 160, ""); !ok || d.Known[0].Depth[0] != -1 || d.Known[0].Depth[1] != 10 {
		t.Errorf("%v %+v, want nothing known of slot 0 and 10 blocks in slot 1", ok, d.Known)
	}
	r.index.Close(r.index.Open(0))
	r.store(0, 160, prompt.Blocks{Tokens: 16, Model: "base"})
	if d, ok := r.find("base", 160, ""); !ok || d.Known[0].Depth[0] != 10 {
		t.Errorf("%v %+v, want the base model's 10 blocks in slot 0", ok, d.Known)
	}
}

func TestWhatWorkersHoldIsLookedAtAnewForARequestThatWaits(t *testing.T) {
	r := newRig()
	r.Serve([]Worker{{Models: served, BlockTokens: 16}})
	d, ok := r.find("base", 160, "")
	if !ok || len(d.Known[0].Depth) > 0 {
		t.Fatalf("%v, %+v", ok, d.Known)
	}
	r.store(0, 160, prompt.Blocks{Tokens: 16, Model: "base"})
	if d.Again(); d.Known[0].Depth[0] != 10 || r.asked != 1 {
		t.Errorf("%+v, asked %d times", d.Known[0], r.asked)
	}
}
