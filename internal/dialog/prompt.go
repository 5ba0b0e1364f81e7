// Package dialog is what a simulated engine says and understands, without time or sockets: request bodies of every served
// API become prompts in made-up tokens, and made-up answers become bytes in the API's own shape. It is pure.
//
//	r, err := dialog.Parse(body)                       // any of the APIs
//	p := r.ChatPrompt(nil, r.Messages, 16)             // p.Tokens, and p.Keys for every full block of 16
//	a := dialog.NewAnswer(p, 0, limits, 256, seed)     // its length is settled before the first token
//	form := dialog.Chat(dialog.Head{ID: "chatcmpl-1", Model: "sim"}, r, []dialog.Answer{a})
//	out := form.Whole(nil, dialog.Usage{Prompt: p.Tokens, Completion: a.Tokens})
//
// The tokens are cheap and stable rather than clever: special tokens cut a conversation into texts, and every four bytes
// of a text are a token. So prompts share prefixes exactly where a real engine's would, at about a real engine's length.
package dialog

import (
	"encoding/binary"
	"math"

	"github.com/warmpath/warmpath/internal/prefix"
)

// Token kinds that stand for what a chat template adds. Each is one token, so that the text between two of them is
// tokenised independently of where it stands: a conversation's earlier turns give the same tokens in every later prompt.
const (
	tokenMessage  = iota // opens a message; its role follows as text
	tokenContent         // ends the role
	tokenEnd             // ends a message
	tokenTools           // tool definitions follow
	tokenSettings        // template arguments follow
	tokenMedia           // an image, sound or file follows
	tokenRaw             // a tool call or another structured part follows
)

// mediaTokens is what one image, sound or file counts, whatever its size.
const mediaTokens = 256

// charsPerToken is the made-up tokenizer: this many bytes are a token, and what is left of a text is one shorter token.
const charsPerToken = 4

// Prompt is a conversation as tokens: how many, and the chained key of every full block. The tokens themselves are not
// kept; a key says everything the cache needs to know about them.
type Prompt struct {
	Tokens int
	// Keys has one key a full block: Keys[i] stands for all tokens up to the end of block i.
	Keys []prefix.Key
	// Hash stands for all tokens so far.
	Hash uint64
	// Salt is the request's cache salt. IDs are the tokens as an engine would number them, if the request has KeepIDs.
	Salt        string
	IDs         []uint32
	keepIDs     bool
	blockTokens int
}

// NewPrompt starts an empty prompt. Prompts of different salts share nothing.
func NewPrompt(blockTokens int, salt string) Prompt {
	p := Prompt{blockTokens: blockTokens, Hash: 0x9e3779b97f4a7c15, Salt: salt}
	for _, b := range []byte(salt) {
		p.Hash = fold(p.Hash ^ uint64(b))
	}
	return p
}

// fold scatters a hash's bits: multiplication by an odd constant carries upwards, the shift brings them down again.
func fold(h uint64) uint64 {
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}

func (p *Prompt) add(token uint64) {
	p.Hash = fold(p.Hash ^ token)
	p.Tokens++
	if p.keepIDs {
		p.IDs = append(p.IDs, uint32(token^token>>32*0x9e3779b1))
	}
	if p.Tokens%p.blockTokens == 0 {
		p.Keys = append(p.Keys, prefix.Key(p.Hash))
	}
}

// given adds a token that came as a number, which it keeps.
func (p *Prompt) given(id uint32) {
	p.add(uint64(id) | 1<<40)
	if p.keepIDs {
		p.IDs[len(p.IDs)-1] = id
	}
}

// mark adds one special token.
func (p *Prompt) mark(kind int) { p.add(uint64(kind) | 1<<63) }

// text adds a run of text.
func (p *Prompt) text(s string) {
	for len(s) >= charsPerToken {
		p.add(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24)
		s = s[charsPerToken:]
	}
	if s == "" {
		return
	}
	last := uint64(len(s)) << 32
	for i := range len(s) {
		last |= uint64(s[i]) << (8 * i)
	}
	p.add(last)
}

// media adds a fixed number of tokens that depend on all bytes of the part.
func (p *Prompt) media(raw []byte) {
	p.mark(tokenMedia)
	h := uint64(len(raw))
	for ; len(raw) >= 8; raw = raw[8:] {
		h = fold(h ^ binary.LittleEndian.Uint64(raw))
	}
	for _, b := range raw {
		h = fold(h ^ uint64(b))
	}
	for i := range uint64(mediaTokens) {
		p.add(fold(h+i) &^ (1 << 63))
	}
}

// open starts a message, end ends it. A prompt for a chat ends with open("assistant"), and the answer continues there.
func (p *Prompt) open(role string) {
	p.mark(tokenMessage)
	p.text(role)
	p.mark(tokenContent)
}

func (p *Prompt) end() { p.mark(tokenEnd) }

// Answer is generated text: its length is settled before the first token, from the seed alone.
type Answer struct {
	Tokens int
	// Finish is why it ends: "stop" or "length".
	Finish string
	seed   uint64
}

// Limits are a request's bounds on its answer, in tokens.
type Limits struct {
	TokensMax, TokensMin int
	// IgnoreEnd makes the answer as long as it may be.
	IgnoreEnd bool
	Seed      uint64
}

// NewAnswer decides the answer of choice number n of a prompt. Unless the request ignores the end of the text, its
// length is exponentially distributed around mean (the longest is 8 times that), then cut to the request's limits.
func NewAnswer(p Prompt, n int, l Limits, mean int, engineSeed uint64) Answer {
	a := Answer{seed: fold(fold(fold(p.Hash^engineSeed)^l.Seed) ^ uint64(n)), Finish: "length"}
	a.Tokens = l.TokensMax
	if l.IgnoreEnd {
		return a
	}
	share := float64(fold(a.seed)>>11) / (1 << 53)
	natural := min(1+int(-float64(mean)*math.Log(1-share)), 8*mean)
	natural = max(natural, l.TokensMin)
	if natural <= l.TokensMax {
		a.Tokens, a.Finish = natural, "stop"
	}
	return a
}

// Word appends token i of the answer: three letters and a space, so that text sent back in a later prompt falls into the
// very tokens that were generated, and trimming its end costs the last one only.
func (a Answer) Word(buf []byte, i int) []byte {
	const consonants, vowels = "bdfghjklmnprstvz", "aeiouaeo"
	h := fold(a.seed + uint64(i)*0x9e3779b97f4a7c15)
	return append(buf, consonants[h&15], vowels[h>>4&7], consonants[h>>7&15], ' ')
}

// Text is the whole answer.
func (a Answer) Text() string {
	buf := make([]byte, 0, a.Tokens*charsPerToken)
	for i := range a.Tokens {
		buf = a.Word(buf, i)
	}
	return string(buf)
}

// Through is the prompt followed by the answer.
func (a Answer) Through(p Prompt) Prompt {
	keys := make([]prefix.Key, len(p.Keys), (p.Tokens+a.Tokens)/p.blockTokens)
	copy(keys, p.Keys)
	p.Keys, p.IDs = keys, p.IDs[:len(p.IDs):len(p.IDs)]
	var buf [charsPerToken]byte
	for i := range a.Tokens {
		p.text(string(a.Word(buf[:0], i)))
	}
	return p
}
