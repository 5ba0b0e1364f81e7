package main

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// corpus makes strings that tokenizers have been known to get wrong, the same for the same seed.
type corpus struct {
	random *rand.Rand
	code   []string // source files
	marked []string // spellings that the tokenizer at hand treats specially
}

func newCorpus(seed uint64, marked []string) (*corpus, error) {
	c := &corpus{random: rand.New(rand.NewPCG(seed, seed^0x5bd1e995)), marked: marked}
	for _, glob := range []string{"internal/*/*.go", "cmd/*/*.go", "docs/*.md", "*.md", "scripts/*/*.mjs"} {
		names, err := filepath.Glob(glob)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			c.code = append(c.code, string(text))
		}
	}
	return c, nil
}

func pick[T any](c *corpus, from []T) T { return from[c.random.IntN(len(from))] }

// between is a number from lo to hi.
func (c *corpus) between(lo, hi int) int { return lo + c.random.IntN(hi-lo+1) }

// join makes a string of lo to hi parts.
func (c *corpus) join(lo, hi int, part func() string) string {
	var b strings.Builder
	for range c.between(lo, hi) {
		b.WriteString(part())
	}
	return b.String()
}

// of makes a string of lo to hi parts out of the list.
func (c *corpus) of(lo, hi int, list []string) string {
	return c.join(lo, hi, func() string { return pick(c, list) })
}

func (c *corpus) rune() string {
	for {
		span := pick(c, blocks)
		if r := rune(c.between(int(span[0]), int(span[1]))); utf8.ValidRune(r) {
			return string(r)
		}
	}
}

func (c *corpus) bytes(lo, hi int) []byte {
	b := make([]byte, c.between(lo, hi))
	for i := range b {
		b[i] = byte(c.random.Uint32())
	}
	return b
}

// snippet is a cut out of a source file.
func (c *corpus) snippet(lo, hi int) string {
	text := pick(c, c.code)
	from := c.random.IntN(len(text))
	return strings.ToValidUTF8(text[from:min(len(text), from+c.between(lo, hi))], "")
}

func (c *corpus) prose(lo, hi int) string {
	n := c.between(lo, hi)
	list := make([]string, n)
	for i := range list {
		list[i] = pick(c, commonWords)
	}
	return strings.Join(list, " ") + pick(c, []string{".", "!", "?", "", "\n"})
}

// fuzz is one random string; the kinds take turns.
func (c *corpus) fuzz() string {
	switch c.random.IntN(11) {
	case 0:
		return c.join(1, 60, c.rune)
	case 1:
		span := pick(c, blocks)
		return c.join(1, 50, func() string {
			r := rune(c.between(int(span[0]), int(span[1])))
			if !utf8.ValidRune(r) || c.random.IntN(4) == 0 {
				return string(rune(c.between(0x20, 0x7e)))
			}
			return string(r)
		})
	case 2:
		return c.join(1, 24, func() string {
			if c.random.IntN(5) < 3 {
				return pick(c, whites)
			}
			return pick(c, bits)
		})
	case 3:
		return c.of(1, 40, signs)
	case 4:
		return c.snippet(10, 300)
	case 5:
		return c.join(1, 16, func() string {
			if c.random.IntN(2) == 0 {
				return pick(c, c.marked)
			}
			return pick(c, []string{" ", "\n", "  ", "user", "Hello world", "你好", "e\u0301", "42", "'s", c.rune(), pick(c, whites)})
		})
	case 6:
		return c.prose(1, 40)
	case 7:
		return "a" + c.rune() + "b " + c.rune() + "1" + c.rune() + "\n" + c.rune() + " " + c.rune()
	case 8:
		return c.of(1, 30, append(combining, c.rune(), "a", "e", "가", " "))
	case 9:
		s := pick(c, scripts)
		at := c.random.IntN(len(s))
		for !utf8.RuneStart(s[at]) {
			at--
		}
		return s[:at] + pick(c, []string{" ", "\n", "123", "abc", "!", "\u200d", "\u0301", "'s", c.rune()}) + s[at:]
	}
	return c.of(1, 20, append(contractions, "he", "IT", "é", "日", " ", "1", "_", c.rune()))
}

// nasty are strings chosen by hand, put together in several ways, and long ones.
func (c *corpus) nasty() []string {
	out := append([]string{""}, edges...)
	for _, s := range contractions {
		out = append(out, s, "he"+s+" said", "A "+s+" B", "é"+s, "1"+s)
	}
	for _, s := range append(scripts, combining...) {
		out = append(out, s, " "+s, s+"\n", s+s+s, s+"\u0301", "x"+s+"1")
	}
	for _, s := range c.marked[:min(len(c.marked), 60)] {
		out = append(out, s, " "+s, s+" ", s+s, "a"+s+"b", s[:len(s)-1], "x "+s+"\n\n"+s, "\t"+s+"  hi", strings.ToUpper(s))
	}
	for range 60 {
		out = append(out, base64.StdEncoding.EncodeToString(c.bytes(10, 400)), hex.EncodeToString(c.bytes(5, 200)), c.snippet(200, 3000), c.of(2, 12, append(emoji, " ", "a", "\n")))
	}
	out = append(out, c.long()...)
	for i, s := range out {
		out[i] = strings.ToValidUTF8(s, "\ufffd")
	}
	return append(out, everyCodePoint()...)
}

func (c *corpus) long() []string {
	return []string{strings.Repeat("a", 10000), strings.Repeat("A", 4097), strings.Repeat(" ", 10000), strings.Repeat("\n", 5000), strings.Repeat(" \n", 3000),
		strings.Repeat("1", 10000), strings.Repeat("!", 10000), strings.Repeat("ab", 10000), strings.Repeat("日", 5000), strings.Repeat("日本語", 3000),
		strings.Repeat("😀", 3000), strings.Repeat("e\u0301", 4000), "e" + strings.Repeat("\u0301", 400), strings.Repeat("\t", 8000), strings.Repeat("=", 20000),
		strings.Repeat("-", 3000) + "\n" + strings.Repeat("=", 3000), strings.Repeat("foo_bar_", 3000), strings.Repeat("x", 30000) + " " + strings.Repeat("y", 30000),
		strings.Join(commonWords, " "), strings.Join(scripts, "\n"), strings.Join(scripts, ""), c.join(8000, 8000, c.rune), c.snippet(60000, 60000),
		base64.StdEncoding.EncodeToString(c.bytes(40000, 40000)), strings.Repeat("▁", 300), strings.Repeat("a▁", 300)}
}

// everyCodePoint has each of the planes in use, among letters, digits and blanks.
func everyCodePoint() []string {
	var out []string
	var b strings.Builder
	n := 0
	for r := rune(0); r <= 0xe01ff; r++ {
		if r == 0x32400 {
			r = 0xe0000
		}
		if !utf8.ValidRune(r) {
			continue
		}
		b.WriteRune(r)
		b.WriteString([]string{"a", "1", " ", "A", ".", "", "\n"}[n%7])
		b.WriteRune(r)
		if n++; n%48 == 0 {
			out = append(out, b.String())
			b.Reset()
		}
	}
	return append(out, b.String())
}
