package kvevent

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/kvindex"
)

// Kind is what happened to blocks.
type Kind uint8

// The kinds of events.
const (
	Stored  Kind = iota + 1
	Removed      // Names are gone from the tier
	Cleared      // all blocks are
	Moved        // Names went from the tier From to Tier
)

// Event is one event of any engine. Its slices are valid until the decoder's next batch.
type Event struct {
	Kind Kind
	// Names are the engine's hashes of the blocks, cut to 64 bits: first to last when stored.
	Names []uint64
	// Parent is the block in front of the first one, when HasParent.
	Parent    uint64
	HasParent bool
	// Tokens of all blocks; none when an engine only says that blocks it named before are in another tier.
	Tokens      []uint32
	BlockTokens int
	Tier, From  kvindex.Tier
	TierKnown   bool
	// Group is the engine's number for layers that share a cache, -1 when it has one kind only; GroupKind what kind it is.
	Group     int
	GroupKind string
	// Adapter is the name of the LoRA adapter, "" for the base model.
	Adapter string
	// Extra is each block's extra keys but the adapter, as prefix.AppendExtra puts them together. Empty: no block has any.
	Extra [][]byte
	// Salt is the cache salt of the first block, for AppendBatch; what is read has it among the Extra keys.
	Salt string
	// Left is how many copies of each removed block remain, when the engine says so.
	Left []int
	// Reused says that the blocks were there already: the engine only tells again.
	Reused bool

	// What is put together when the whole event has been read.
	adapterID  int64 // -1 none
	extraRaw   []byte
	extraBytes []byte
	odd        bool // something in it is of a form that is not known
}

func (e *Event) reset() {
	*e = Event{
		Names: e.Names[:0], Tokens: e.Tokens[:0], Extra: e.Extra[:0], Left: e.Left[:0], extraBytes: e.extraBytes[:0],
		Group: -1, TierKnown: true, adapterID: -1,
	}
}

// extra is the extra keys of block i.
func (e *Event) extra(i int) []byte {
	if i < len(e.Extra) {
		return e.Extra[i]
	}
	return nil
}

// Batch is one message.
type Batch struct {
	Events  []Event
	Rank    int // data-parallel rank, -1 unknown
	Unknown int // events of a kind or form that is not known, skipped
}

// tiers by the names that engines have for their memory. One that is not among them is never taken for GPU memory.
var tiers = map[string]kvindex.Tier{
	"gpu": kvindex.GPU, "device": kvindex.GPU, "hbm": kvindex.GPU, "cpu": kvindex.CPU, "cpu_pinned": kvindex.CPU, "cpu_tier1": kvindex.CPU,
	"host": kvindex.CPU, "dram": kvindex.CPU, "cpu_tier2": kvindex.Disk, "disk": kvindex.Disk, "ssd": kvindex.Disk, "nvme": kvindex.Disk,
	"fs": kvindex.Disk, "storage": kvindex.Disk, "external": kvindex.Disk,
}

func (e *Event) setMedium(name []byte) {
	if string(name) == "GPU" { // nearly all are
		e.Tier, e.TierKnown = kvindex.GPU, true
		return
	}
	e.Tier, e.TierKnown = tiers[string(name)]
	if !e.TierKnown {
		e.Tier, e.TierKnown = tiers[strings.ToLower(string(name))]
	}
}

// groupKinds are those that engines have; naming them here spares each event a copy.
var groupKinds = []string{"full_attention", "mla_attention", "sliding_window", "chunked_local_attention", "mamba"}

func groupKind(name []byte) string {
	for _, known := range groupKinds {
		if string(name) == known {
			return known
		}
	}
	return string(name)
}

// NameOf reads a hash out of JSON, a number or the inside of a text.
func NameOf(b []byte, text bool) (uint64, bool) {
	if text {
		return nameOfBytes(b, true)
	}
	if n, err := strconv.ParseUint(string(b), 10, 64); err == nil {
		return n, true
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return nameOfInt(uint64(n), true), err == nil
}

// nameOfInt keeps integers as they are. Those below zero are told from the large ones with the same bits by turning them round.
func nameOfInt(bits uint64, negative bool) uint64 {
	if negative {
		return ^(bits * 0x9e3779b97f4a7c15)
	}
	return bits
}

// nameOfBytes cuts a digest to its last 64 bits, which is what engines that publish integers do themselves. Text is a digest in hex, or
// else its own bytes are.
func nameOfBytes(b []byte, text bool) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var digest [64]byte
	if text && len(b)%2 == 0 && len(b) <= 2*len(digest) {
		if n, err := hex.Decode(digest[:], b); err == nil {
			b = digest[:n]
		}
	}
	var name uint64
	for _, c := range b[max(0, len(b)-8):] {
		name = name<<8 | uint64(c)
	}
	return name, true
}
