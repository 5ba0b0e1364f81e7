package words

import (
	"cmp"
	_ "embed"
	"slices"
	"sync"
	"unicode/utf8"
)

// What the patterns and the normaliser ask about a code point, one bit each. The first ten are in the packed table in this order.
const (
	letter      uint16 = 1 << iota // \p{L}
	number                         // \p{N}
	mark                           // \p{M}
	punctuation                    // \p{P}
	symbolic                       // \p{S}
	space                          // \s
	upper                          // Lu, Lt, Lm, Lo, M: what may begin a word in the o200k patterns
	lower                          // Ll, Lm, Lo, M: what may end one
	wordlike                       // \w, as added tokens with single_word ask it
	digit                          // what the pre-tokenizer Digits cuts at: number, of a newer Unicode
	unsettled                      // may change, or change others, under NFC

	// What llama.cpp's expressions ask beside these; they follow from the others.
	symbolicNoTilde // its \p{S} among ASCII lacks ~
	notASCIILower   // [^a-z], of letters
	notASCIIUpper   // [^A-Z], of letters
	signDefault     // \p{P} and $+<=>^~|
	newer           // than llama.cpp's tables
)

// derive sets the bits that follow from others.
func derive(flat []uint16) {
	for c := range flat {
		if flat[c]&symbolic != 0 && c != '~' {
			flat[c] |= symbolicNoTilde
		}
		if flat[c]&letter != 0 {
			if c < 'a' || c > 'z' {
				flat[c] |= notASCIILower
			}
			if c < 'A' || c > 'Z' {
				flat[c] |= notASCIIUpper
			}
		}
		if flat[c]&punctuation != 0 {
			flat[c] |= signDefault
		}
	}
	for _, c := range "$+<=>^~|" {
		flat[c] |= signDefault
	}
	for _, span := range newIn16 {
		for c := span[0]; c <= span[1]; c++ {
			flat[c] |= newer
		}
	}
}

// packed is what the reference implementation itself says of every code point, written by scripts/exact/tables.mjs: Go's own tables are of
// another Unicode version, and the reference's regular expressions are of another one than its normaliser. All numbers are uvarints:
//
//	runs, then for each: length, class bits. Together they cover 0..10FFFF.
//	combining marks, then for each: distance to the one before, place in the canonical order (from 1)
//	decompositions, then for each: distance, 2*length (+ 1 if NFC composes it again), the code points
//
//go:embed unicode.bin
var packed []byte

// unicodeTables answers in two steps: a page of 256 code points, then the code point in it. Equal pages are kept once.
type unicodeTables struct {
	page    [(utf8.MaxRune + 1) >> 8]uint16
	classes [][256]uint16
	ascii   [utf8.RuneSelf]uint16

	order      map[rune]uint8   // of combining marks; 0 for all else
	decomposed map[rune][]rune  // in full, in canonical order
	composed   map[[2]rune]rune // primary composites
}

// unicode16 is filled by Ready, so that commands that need no tokenizer do not wait for it.
var (
	unicode16     *unicodeTables
	unicode16Once sync.Once
)

// Ready must have been called before anything else here is: the first time it unpacks the tables, in some milliseconds.
func Ready() { unicode16Once.Do(func() { unicode16 = unpack(packed) }) }

// packedReader reads uvarints; the table is our own and complete.
type packedReader []byte

func (p *packedReader) next() int {
	n, shift := 0, 0
	for i, b := range *p {
		n |= int(b&0x7f) << shift
		if shift += 7; b < 0x80 {
			*p = (*p)[i+1:]
			return n
		}
	}
	return n
}

func unpack(p packedReader) *unicodeTables {
	u := &unicodeTables{order: map[rune]uint8{}, decomposed: map[rune][]rune{}, composed: map[[2]rune]rune{}}
	flat := make([]uint16, utf8.MaxRune+1)
	at := 0
	for n := p.next(); n > 0; n-- {
		length, class := p.next(), uint16(p.next())
		for i := range length {
			flat[at+i] = class
		}
		at += length
	}
	c := rune(0)
	for n := p.next(); n > 0; n-- {
		c += rune(p.next())
		u.order[c] = uint8(p.next())
		flat[c] |= unsettled
	}
	c = 0
	var composites []rune
	for n := p.next(); n > 0; n-- {
		c += rune(p.next())
		head := p.next()
		to := make([]rune, head/2)
		for i := range to {
			to[i] = rune(p.next())
		}
		u.decomposed[c] = to
		if head&1 == 1 {
			composites = append(composites, c)
		} else {
			flat[c] |= unsettled
		}
	}
	// Short ones first: U+03B0 is made of U+03CB, which is a composite itself.
	slices.SortFunc(composites, func(a, b rune) int { return cmp.Or(len(u.decomposed[a])-len(u.decomposed[b]), int(a-b)) })
	for _, c := range composites {
		u.addComposite(c, flat)
	}
	for c := rune(vowelFirst); c < trailFirst+trailCount; c++ {
		if c < vowelFirst+vowelCount || c > trailFirst {
			flat[c] |= unsettled
		}
	}
	derive(flat)
	u.fillPages(flat)
	return u
}

// addComposite enters the pair that c is made of: all but the last code point of its decomposition, composed, and the last one.
func (u *unicodeTables) addComposite(c rune, flat []uint16) {
	to := u.decomposed[c]
	head, last := to[0], to[len(to)-1]
	for _, r := range to[1 : len(to)-1] {
		head = u.composed[[2]rune{head, r}]
	}
	u.composed[[2]rune{head, last}] = c
	flat[last] |= unsettled
}

func (u *unicodeTables) fillPages(flat []uint16) {
	seen := map[[256]uint16]uint16{}
	for i := range u.page {
		page := [256]uint16(flat[i<<8 : (i+1)<<8])
		n, known := seen[page]
		if !known {
			n = uint16(len(u.classes))
			seen[page] = n
			u.classes = append(u.classes, page)
		}
		u.page[i] = n
	}
	copy(u.ascii[:], flat)
}

// class is that of the code point at s[i:], and how many bytes it has. s is valid UTF-8.
func class(s string, i int) (uint16, int) {
	if c := s[i]; c < utf8.RuneSelf {
		return unicode16.ascii[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classOf(r), n
}

func classOf(r rune) uint16 { return unicode16.classes[unicode16.page[r>>8]][r&0xff] }

// run is where the code points at s[i:] end that have a bit of set.
func run(s string, i int, set uint16) int {
	for i < len(s) {
		c, n := class(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	return i
}

// runOutside is where the code points at s[i:] end that have no bit of set.
func runOutside(s string, i int, set uint16) int {
	for i < len(s) {
		c, n := class(s, i)
		if c&set != 0 {
			break
		}
		i += n
	}
	return i
}

// SpaceRun is where the white space at s[i:] ends.
func SpaceRun(s string, i int) int { return run(s, i, space) }

// SpaceBefore is where the white space begins that ends at s[:i].
func SpaceBefore(s string, i int) int {
	for i > 0 {
		r, n := utf8.DecodeLastRuneInString(s[:i])
		if classOf(r)&space == 0 {
			break
		}
		i -= n
	}
	return i
}

// Touches says whether a word goes on before or behind s[start:stop].
func Touches(s string, start, stop int) bool {
	if start > 0 {
		if r, _ := utf8.DecodeLastRuneInString(s[:start]); classOf(r)&wordlike != 0 {
			return true
		}
	}
	if stop == len(s) {
		return false
	}
	c, _ := class(s, stop)
	return c&wordlike != 0
}
