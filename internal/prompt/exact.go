package prompt

import (
	"slices"
	"sync"

	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

// Exact turns the text of a prompt into the model's own tokens, and those into the keys of the blocks that engines keep:
//
//	e := prompt.NewExact(seed, tok, prompt.ExactOptions{})
//	ids := e.Tokens(nil, text, tokenizer.Options{})
//	chain := prompt.TokenChain(seed, prefix.Chain{}, ids, prompt.Blocks{Tokens: 16, Model: "llama-8b"})
//
// Special tokens cut a prompt into segments that are encoded without a look at what is around them, so that the segments of a
// conversation's earlier turns are remembered, and a follow-up costs its new turns and one hash over the rest. Any number of goroutines may
// use one Exact: its lock is held for a look into a map, and never while something is encoded.
type Exact struct {
	seed prefix.Seed
	tok  *tokenizer.Tokenizer
	root prefix.Key // of segments' keys

	mu       sync.Mutex
	max      int // of bytes in young and old together
	young    map[segmentKey][]uint32
	old      map[segmentKey][]uint32 // not asked for since young was begun
	youngLen int                     // bytes
	oldLen   int
	stats    ExactStats
}

// ExactOptions bound an Exact. Fields that are 0 are taken from DefaultExactOptions.
type ExactOptions struct {
	CacheBytes int // of remembered segments: 4 for a token, and segmentBytes for each
}

// DefaultExactOptions remember 64 MiB: some 15 million tokens, or 150 conversations of 100,000.
func DefaultExactOptions() ExactOptions { return ExactOptions{CacheBytes: 64 << 20} }

// ExactStats count since the start; Segments and Bytes are what is remembered now.
type ExactStats struct {
	Hits, Misses       uint64 // segments
	HitBytes, NewBytes uint64 // of text
	Segments, Bytes    int
}

// segmentBytes is what a remembered segment costs beside its tokens: a key, a slice and their place in a map.
const segmentBytes = 96

// shortSegment is the length in bytes up to which a segment is encoded faster than it is looked up.
const shortSegment = 24

// bytesEach is how many bytes of text a token stands for at least, in most prompts: so much memory is taken at once.
const bytesEach = 4

// segmentKey is the hash of a segment's text, its length, and what else its tokens depend on.
type segmentKey struct {
	hash  prefix.Key
	bytes int
	first bool
	plain bool
}

// NewExact makes one for a model's tokenizer.
func NewExact(seed prefix.Seed, tok *tokenizer.Tokenizer, o ExactOptions) *Exact {
	if o.CacheBytes <= 0 {
		o = DefaultExactOptions()
	}
	return &Exact{seed: seed, tok: tok, root: seed.Root([]byte("segment")), max: o.CacheBytes,
		young: map[segmentKey][]uint32{}, old: map[segmentKey][]uint32{}}
}

// Tokens appends the ids of a prompt's text, the same as the tokenizer's Encode.
func (e *Exact) Tokens(ids []uint32, text string, o tokenizer.Options) []uint32 {
	var behind []uint32
	if o.Wrap {
		var before []uint32
		before, behind = e.tok.Wrapping()
		ids = append(ids, before...)
	}
	ids = slices.Grow(ids, len(text)/bytesEach)
	var few [64]tokenizer.Segment
	var buffer []byte
	for _, s := range e.tok.Segments(few[:0], text, o) {
		if s.Token || len(s.Text) <= shortSegment {
			ids = e.tok.EncodeSegment(ids, s, o)
			continue
		}
		buffer = append(buffer[:0], s.Text...)
		key := segmentKey{e.seed.Next(e.root, buffer), len(s.Text), s.First, o.PlainSpecial}
		if known, ok := e.look(key); ok {
			ids = append(ids, known...)
			continue
		}
		from := len(ids)
		ids = e.tok.EncodeSegment(ids, s, o)
		e.remember(key, ids[from:])
	}
	return append(ids, behind...)
}

// look finds a segment and keeps it from being forgotten soon. What it returns is not changed by anyone.
func (e *Exact) look(key segmentKey) ([]uint32, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ids, ok := e.young[key]
	if !ok {
		if ids, ok = e.old[key]; ok {
			delete(e.old, key)
			e.oldLen -= cost(ids)
			e.add(key, ids)
		}
	}
	if !ok {
		e.stats.Misses++
		e.stats.NewBytes += uint64(key.bytes)
		return nil, false
	}
	e.stats.Hits++
	e.stats.HitBytes += uint64(key.bytes)
	return ids, true
}

func cost(ids []uint32) int { return segmentBytes + 4*len(ids) }

func (e *Exact) remember(key segmentKey, ids []uint32) {
	if cost(ids) > e.max/2 {
		return
	}
	kept := append(make([]uint32, 0, len(ids)), ids...)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.young[key]; !ok { // else another goroutine encoded the same
		e.add(key, kept)
	}
}

// add keeps young within half of the bound: beyond that it becomes old, and what was old and not asked for since is forgotten.
func (e *Exact) add(key segmentKey, ids []uint32) {
	if e.youngLen+cost(ids) > e.max/2 {
		e.old, e.oldLen = e.young, e.youngLen
		e.young, e.youngLen = map[segmentKey][]uint32{}, 0
	}
	e.young[key] = ids
	e.youngLen += cost(ids)
}

// Stats are the counts so far.
func (e *Exact) Stats() ExactStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Segments, s.Bytes = len(e.young)+len(e.old), e.youngLen+e.oldLen
	return s
}

// Forget drops all remembered segments and returns the bytes that they took.
func (e *Exact) Forget() (bytes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	bytes = e.youngLen + e.oldLen
	e.young, e.old, e.youngLen, e.oldLen = map[segmentKey][]uint32{}, map[segmentKey][]uint32{}, 0, 0
	return bytes
}

// Blocks say how an engine cuts tokens into blocks, and what apart from tokens tells its blocks apart.
type Blocks struct {
	Tokens  int    // of one block
	Model   string // the base model
	Adapter string // "" for none
	Salt    string // the request's cache salt; "" for none
}

// TokenChain has a key for each whole block, in into's memory: engines do not share blocks that are not full. Its Ends count tokens, and not
// bytes.
func TokenChain(seed prefix.Seed, into prefix.Chain, ids []uint32, b Blocks) prefix.Chain {
	c := into.Reset()
	if b.Tokens <= 0 {
		return c
	}
	key := seed.TokenRoot(b.Model, b.Adapter)
	var extra []byte
	if b.Salt != "" {
		extra = prefix.AppendExtra(nil, b.Salt)
	}
	for at := b.Tokens; at <= len(ids); at += b.Tokens {
		key = seed.NextTokens(key, ids[at-b.Tokens:at], extra)
		extra = nil // the salt is in the first block, and the others follow from it
		c.Keys = append(c.Keys, key)
		c.Ends = append(c.Ends, int32(at))
	}
	return c
}
