package engine

import (
	"encoding/binary"
	"math"
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

// prompt is a conversation as tokens: how many, and the chained key of every full block. The tokens themselves are not
// kept; a key says everything the cache needs to know about them.
type prompt struct {
	tokens      int
	blockTokens int
	keys        []uint64
	hash        uint64 // of all tokens so far
}

// newPrompt starts an empty prompt. Prompts of different salts share nothing.
func newPrompt(blockTokens int, salt string) prompt {
	p := prompt{blockTokens: blockTokens, hash: 0x9e3779b97f4a7c15}
	for _, b := range []byte(salt) {
		p.hash = fold(p.hash ^ uint64(b))
	}
	return p
}

// fold scatters a hash's bits: multiplication by an odd constant carries upwards, the shift brings them down again.
func fold(h uint64) uint64 {
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}

func (p *prompt) add(token uint64) {
	p.hash = fold(p.hash ^ token)
	p.tokens++
	if p.tokens%p.blockTokens == 0 {
		p.keys = append(p.keys, p.hash)
	}
}

// mark adds one special token.
func (p *prompt) mark(kind int) { p.add(uint64(kind) | 1<<63) }

// text adds a run of text.
func (p *prompt) text(s string) {
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
func (p *prompt) media(raw []byte) {
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
func (p *prompt) open(role string) {
	p.mark(tokenMessage)
	p.text(role)
	p.mark(tokenContent)
}

func (p *prompt) end() { p.mark(tokenEnd) }

// answer is generated text: its length is settled before the first token, from the seed alone.
type answer struct {
	seed   uint64
	tokens int
	finish string // "stop" or "length"
}

// limits are a request's bounds on its answer, in tokens.
type limits struct {
	tokensMax, tokensMin int
	ignoreEnd            bool
	seed                 uint64
}

// newAnswer decides the answer of choice number n of a prompt. Unless the request ignores the end of the text, its
// length is exponentially distributed around mean (the longest is 8 times that), then cut to the request's limits.
func newAnswer(p prompt, n int, l limits, mean int, engineSeed uint64) answer {
	a := answer{seed: fold(fold(fold(p.hash^engineSeed)^l.seed) ^ uint64(n)), finish: "length"}
	a.tokens = l.tokensMax
	if l.ignoreEnd {
		return a
	}
	share := float64(fold(a.seed)>>11) / (1 << 53)
	natural := min(1+int(-float64(mean)*math.Log(1-share)), 8*mean)
	natural = max(natural, l.tokensMin)
	if natural <= l.tokensMax {
		a.tokens, a.finish = natural, "stop"
	}
	return a
}

// word appends token i of the answer: three letters and a space, so that text sent back in a later prompt falls into the
// very tokens that were generated, and trimming its end costs the last one only.
func (a answer) word(buf []byte, i int) []byte {
	const consonants, vowels = "bdfghjklmnprstvz", "aeiouaeo"
	h := fold(a.seed + uint64(i)*0x9e3779b97f4a7c15)
	return append(buf, consonants[h&15], vowels[h>>4&7], consonants[h>>7&15], ' ')
}

// text is the whole answer.
func (a answer) text() string {
	buf := make([]byte, 0, a.tokens*charsPerToken)
	for i := range a.tokens {
		buf = a.word(buf, i)
	}
	return string(buf)
}

// keysThrough returns the block keys of the prompt followed by the answer.
func (a answer) keysThrough(p prompt) []uint64 {
	keys := make([]uint64, len(p.keys), (p.tokens+a.tokens)/p.blockTokens)
	copy(keys, p.keys)
	p.keys = keys
	var buf [charsPerToken]byte
	for i := range a.tokens {
		p.text(string(a.word(buf[:0], i)))
	}
	return p.keys
}
