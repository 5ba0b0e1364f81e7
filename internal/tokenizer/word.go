package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/joins"
)

// Bounds of the word cache: what it may take is cacheSlots * 72 bytes, 2.4 MB a tokenizer. A word's slot is taken over by the next word
// that hashes to it.
const (
	cacheSlots     = 1 << 15
	cacheWordBytes = 30 // longer words are rarely seen twice
	cacheWordIDs   = 8
)

// cached is a word and its tokens; never changed once it is in the cache.
type cached struct {
	text    [cacheWordBytes]byte
	size, n uint8
	ids     [cacheWordIDs]uint32
}

type wordCache [cacheSlots]atomic.Pointer[cached]

// model turns words into ids: byte pair encoding over bytes, or over characters of which those that the vocabulary lacks fall back to bytes
// or to the unknown token.
type model struct {
	vocabulary
	joins        joins.Table
	byteLevel    bool
	ignoreMerges bool                  // a word that is a token is that token, whatever the merges say
	byteIDs      [256]uint32           // of single bytes; none where there is no such token
	asciiIDs     [utf8.RuneSelf]uint32 // of single characters
	fallback     bool                  // characters without a token become their bytes
	unknown      uint32                // what else becomes; none: it vanishes
	fuse         bool                  // unknowns in a row become one
	gaps         bool                  // what has no token and vanishes still keeps its neighbours from joining
	hidden       map[string]uint32     // tokens whose spelling no byte has, which only added tokens can name
	cuts         *wordCuts             // nil: text is not cut into words any further
	cache        *wordCache
}

// encoder is what one call of Encode works with.
type encoder struct {
	*Tokenizer
	ids     []uint32
	symbols []uint32
	waiting bool // an unknown token is to be added
	queue   joins.Queue
}

// word appends the tokens of one piece of text.
func (e *encoder) word(w string) {
	if len(w) > cacheWordBytes {
		e.ids = e.uncached(e.ids, w)
		return
	}
	slot := &e.model.cache[hashText(w)>>(64-15)]
	if c := slot.Load(); c != nil && string(c.text[:c.size]) == w {
		e.ids = append(e.ids, c.ids[:c.n]...)
		return
	}
	from := len(e.ids)
	e.ids = e.uncached(e.ids, w)
	if made := e.ids[from:]; len(made) <= cacheWordIDs {
		c := &cached{size: uint8(len(w)), n: uint8(len(made))}
		copy(c.text[:], w)
		copy(c.ids[:], made)
		slot.Store(c)
	}
}

func (e *encoder) uncached(ids []uint32, w string) []uint32 {
	m := &e.model
	if m.ignoreMerges {
		if id := m.word(w); id != none {
			return append(ids, id)
		}
	}
	if e.symbols = e.symbols[:0]; m.byteLevel {
		e.byteSymbols(w)
	} else {
		e.runeSymbols(w)
	}
	if len(e.symbols) == 0 {
		return ids
	}
	from := len(ids)
	ids = m.joins.Join(ids, e.symbols, &e.queue)
	if m.gaps {
		ids = ids[:from+len(slices.DeleteFunc(ids[from:], func(id uint32) bool { return id == gap }))]
	}
	return ids
}

// gap is the symbol of what vanishes: no token has this id.
const gap uint32 = tokensMax

func (e *encoder) byteSymbols(w string) {
	for i := range len(w) {
		if id := e.model.byteIDs[w[i]]; id != none {
			e.known(id)
		} else {
			e.lacking()
		}
	}
	e.flush()
}

func (e *encoder) runeSymbols(w string) {
	m := &e.model
	for i := 0; i < len(w); {
		n, id := 1, none
		if c := w[i]; c < utf8.RuneSelf {
			id = m.asciiIDs[c]
		} else {
			_, n = utf8.DecodeRuneInString(w[i:])
			id = m.word(w[i : i+n])
		}
		switch {
		case id != none:
			e.known(id)
		case !m.fallback || !e.asBytes(w[i:i+n]):
			e.lacking()
		}
		i += n
	}
	e.flush()
}

// asBytes adds the tokens of a character's bytes, if there are all of them. An unknown that waits goes on waiting: so the reference has it.
func (e *encoder) asBytes(char string) bool {
	for i := range len(char) {
		if e.model.byteIDs[char[i]] == none {
			return false
		}
	}
	for i := range len(char) {
		e.symbols = append(e.symbols, e.model.byteIDs[char[i]])
	}
	return true
}

// known adds a token, lacking stands for a character that has none: it waits, since those behind it may become one with it.
func (e *encoder) known(id uint32) {
	e.flush()
	e.symbols = append(e.symbols, id)
}

func (e *encoder) lacking() {
	if e.model.gaps {
		e.symbols = append(e.symbols, gap)
		return
	}
	if !e.model.fuse {
		e.flush()
	}
	e.waiting = e.model.unknown != none
}

func (e *encoder) flush() {
	if e.waiting {
		e.symbols = append(e.symbols, e.model.unknown)
		e.waiting = false
	}
}

// blank is what stands for a space in models made with SentencePiece.
const blank = "▁"

// wordCuts says where text without spaces of its own, as SentencePiece-like models take it, may be cut into words without a difference to
// the result: before the first blank of a run, unless a merge reaches over it. A merge that does joins something that ends in another
// character than the blank with something that begins with one; it is told by that last character.
type wordCuts struct{ not map[rune]bool }

// parts runs word for each cut of text.
func (e *encoder) parts(text string) {
	cuts := e.model.cuts
	if cuts == nil {
		e.word(text)
		return
	}
	from := 0
	for i := 0; i < len(text); {
		for strings.HasPrefix(text[i:], blank) {
			i += len(blank)
		}
		next := strings.Index(text[i:], blank)
		if next < 0 {
			break
		}
		i += next
		if last, _ := utf8.DecodeLastRuneInString(text[:i]); cuts.not[last] {
			continue
		}
		e.word(text[from:i])
		from = i
	}
	if from < len(text) {
		e.word(text[from:])
	}
}

// findCuts looks at all merges, as joins.Table takes them.
func (m *model) findCuts(pairs []uint64) {
	if m.byteLevel || m.word(blank) == none {
		return
	}
	odd := map[uint32]bool{m.unknown: true} // tokens that do not tell how the text ends that they stand for
	for _, id := range m.byteIDs {
		odd[id] = m.fallback
	}
	cuts := &wordCuts{not: map[rune]bool{}}
	for _, key := range pairs {
		left, right := joins.Pair(key)
		if odd[left] || odd[right] || len(cuts.not) > cutExceptionsMax {
			return
		}
		if l := m.bytes(left); bytes.HasPrefix(m.bytes(right), []byte(blank)) && !bytes.HasSuffix(l, []byte(blank)) {
			last, _ := utf8.DecodeLastRune(l)
			cuts.not[last] = true
		}
	}
	m.cuts = cuts
}

// cutExceptionsMax is how many characters may have such merges before text is no longer cut. Gemma has some dozens.
const cutExceptionsMax = 4096

// byteToken is how SentencePiece-like models spell the token of a single byte.
func byteToken(b int) string { return fmt.Sprintf("<0x%02X>", b) }
