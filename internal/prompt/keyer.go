// Package prompt turns a request into the block keys of its prompt, without knowing the model's tokenizer: it chains
// hashes over the bytes of the conversation as they came, in the order in which the engine's prompt has them.
//
//	keyer := prompt.New(seed, prompt.DefaultOptions())
//	var req llmapi.Request
//	if err := req.Scan(llmapi.Chat, body); err == nil {
//		chain := keyer.Chain(&req, body, prefix.Chain{})
//		depth := index.Match(chain, nil) // leading blocks that each worker holds
//	}
//
// Blocks also end where messages end, so that a follow-up matches all of the earlier turn, and where media begin and
// end, so that prompts with different images still share the text before the image. Nothing is shared between
// different models (an adapter is served under a model name of its own), cache salts, or stored conversations.
package prompt

import (
	"encoding/binary"
	"maps"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
)

// Options shape the blocks. Fields that are 0 are taken from DefaultOptions.
type Options struct {
	BlockBytes int // longest block of text, at most BlockBytesMax; 64 is 16 tokens at 4 bytes each, and the fastest
	MediaBytes int // what one image, sound or file counts for as prompt bytes, whatever its encoding's length
}

// Behind longAfterBytes of a prompt blocks are longFactor times as long: being wrong by 64 tokens in 8,000 costs nothing, and the index
// has a third of the blocks to look after. Where a block ends depends on what is before it alone, so prompts still share all they have
// in common.
const (
	longAfterBytes = 32 << 10
	longFactor     = 4
)

// BlockBytesMax bounds Options.BlockBytes: a bigger one counts as this.
const BlockBytesMax = 256

// DefaultOptions are blocks of 16 tokens and media of 1,024, at 4 bytes a token.
func DefaultOptions() Options { return Options{BlockBytes: 64, MediaBytes: 4096} }

// Keyer makes chains. Any number of goroutines may use one.
type Keyer struct {
	seed  prefix.Seed
	o     Options
	lives atomic.Pointer[lives]
}

// lives tell adapters apart that had the same name one after the other. Readers load it whole.
type lives struct {
	all    uint64            // counts for every model
	byName map[string]uint64 // of those that ended at least once
}

// livesMax bounds the names whose lives are counted one by one. Behind it all models begin a new one.
const livesMax = 4096

// New makes a Keyer. Two agree on keys when their seeds and options are the same.
func New(seed prefix.Seed, o Options) *Keyer {
	d := DefaultOptions()
	if o.BlockBytes <= 0 {
		o.BlockBytes = d.BlockBytes
	}
	if o.MediaBytes <= 0 {
		o.MediaBytes = d.MediaBytes
	}
	o.BlockBytes = min(o.BlockBytes, BlockBytesMax)
	k := &Keyer{seed: seed, o: o}
	k.lives.Store(&lives{})
	return k
}

// Renew says that what requests for a model leave in caches from now on is not what they left before, as of an adapter that was unloaded:
// another may be loaded under its name. Chains made before and after share nothing. Calls must not overlap.
func (k *Keyer) Renew(model string) {
	old := k.lives.Load()
	next := &lives{all: old.all, byName: maps.Clone(old.byName)}
	if next.byName == nil || len(next.byName) >= livesMax {
		next.byName = map[string]uint64{}
	}
	if len(old.byName) >= livesMax {
		next.all++
	}
	next.byName[model] = old.byName[model] + 1
	k.lives.Store(next)
}

// root is the key before the first block.
func (k *Keyer) root(req *llmapi.Request) prefix.Key {
	key := k.seed.Root([]byte(req.Model), []byte(req.Salt()), []byte(req.Conversation), []byte(req.PreviousResponse))
	l := k.lives.Load()
	life := l.byName[req.Model]
	if l.all == 0 && life == 0 {
		return key
	}
	return k.seed.Next(key, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, l.all), life))
}

// tag is the first of the bytes that stand between the parts of a conversation in the hashed text. UTF-8 has no such
// byte, so no content can pass for another division into parts.
const tag = 0xf8

// Chain cuts the conversation of a scanned request into blocks, in into's memory. The chain is empty when the body has
// no text to key by: such a request is routed by load. Prompt bytes are those of the body's parts, one more for each
// part, and MediaBytes for each of the media.
func (k *Keyer) Chain(req *llmapi.Request, body []byte, into prefix.Chain) prefix.Chain {
	c := into.Reset()
	if !hasContent(req.Parts) {
		return c
	}
	b := builder{k: k, chain: c, reply: -1}
	b.key = k.root(req)
	for _, p := range req.Parts {
		switch p.Kind {
		case llmapi.Reply:
			b.reply = b.message
		case llmapi.MessageEnd:
			b.endMessage()
		case llmapi.Media:
			b.media(p.Of(body))
		default:
			b.part(p.Kind, p.Of(body))
		}
	}
	b.endMessage()
	return b.chain
}

func hasContent(parts []llmapi.Part) bool {
	for _, p := range parts {
		if (p.Kind == llmapi.Text || p.Kind == llmapi.Raw || p.Kind == llmapi.Media) && p.Len() > 0 {
			return true
		}
	}
	return false
}

// builder cuts what is written to it. The first used bytes of pending are the block that is not full yet.
type builder struct {
	k       *Keyer
	chain   prefix.Chain
	key     prefix.Key // of the last block
	pending [BlockBytesMax]byte
	used    int
	message int32 // number of blocks before the current message
	reply   int32 // number of blocks before the assistant message that is open; -1 for none
}

// part writes its tag and text.
func (b *builder) part(kind llmapi.PartKind, text []byte) {
	b.pending[b.used] = tag + byte(kind)
	b.used++
	size := b.size()
	room := size - b.used
	if len(text) < room {
		b.used += copy(b.pending[b.used:], text)
		return
	}
	b.used += copy(b.pending[b.used:size], text)
	b.flush()
	text = text[room:]
	if left := longAfterBytes - b.chain.Bytes(); left > 0 && len(text) > left+size {
		left += size - 1
		b.chain, b.key, _ = b.k.seed.Extend(b.chain, b.key, text[:left-left%size], size)
		text = text[left-left%size:]
	}
	b.chain, b.key, text = b.k.seed.Extend(b.chain, b.key, text, b.size())
	b.used = copy(b.pending[:], text)
}

// size is the length of the block that begins or goes on here.
func (b *builder) size() int {
	if b.chain.Bytes() < longAfterBytes {
		return b.k.o.BlockBytes
	}
	return min(longFactor*b.k.o.BlockBytes, BlockBytesMax)
}

// flush makes what is pending a block, however short.
func (b *builder) flush() {
	if b.used > 0 {
		b.block(b.key, b.pending[:b.used], b.used)
		b.used = 0
	}
}

func (b *builder) block(parent prefix.Key, content []byte, promptBytes int) {
	b.key = b.k.seed.Next(parent, content)
	b.chain.Ends = append(b.chain.Ends, int32(b.chain.Bytes()+promptBytes))
	b.chain.Keys = append(b.chain.Keys, b.key)
}

// media writes one block of its own. Its key follows from the tag and the contents' own key, which no text can equal.
func (b *builder) media(value []byte) {
	b.flush()
	parent := b.k.seed.Next(b.key, []byte{tag + byte(llmapi.Media)})
	b.block(parent, value, b.k.o.MediaBytes)
}

// endMessage closes the block and, when the message is what the model said, notes its blocks.
func (b *builder) endMessage() {
	b.flush()
	b.message = int32(len(b.chain.Keys))
	if b.reply < 0 || b.reply == b.message {
		b.reply = -1
		return
	}
	r := b.chain.Replies
	if n := len(r); n > 0 && r[n-1].Last == b.reply { // reasoning, calls and text of one answer
		r[n-1].Last = b.message
	} else {
		b.chain.Replies = append(r, prefix.Range{First: b.reply, Last: b.message})
	}
	b.reply = -1
}
