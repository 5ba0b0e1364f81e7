package words

import (
	"slices"
	"unicode/utf8"
)

// Hangul syllables are composed by arithmetic: Unicode Standard, 3.12.
const (
	syllableFirst = 0xac00
	leadFirst     = 0x1100
	leadCount     = 19
	vowelFirst    = 0x1161
	vowelCount    = 21
	trailFirst    = 0x11a7 // stands for "no trailing consonant"
	trailCount    = 28
	syllableCount = leadCount * vowelCount * trailCount
)

// NFC is s in normalisation form C, by the reference's tables. Ours, because golang.org/x/text breaks up sequences of more than 30 marks
// with a joiner (the stream-safe format), which the reference does not.
//
// Only the stretches around code points that may change are worked on: from the last code point before them that is sure to stay, up to
// the next one.
func NFC(s string) string {
	i := nextUnsettled(s, 0)
	if i == len(s) {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	var work []rune
	done := 0
	for i < len(s) {
		from := i
		if from > done {
			_, n := utf8.DecodeLastRuneInString(s[:from])
			from -= n // what comes before may take up a mark
		}
		out = append(out, s[done:from]...)
		to := i
		for to < len(s) {
			c, n := class(s, to)
			if c&unsettled == 0 {
				break
			}
			to += n
		}
		work = decompose(work[:0], s[from:to])
		arrange(work)
		for _, r := range compose(work) {
			out = utf8.AppendRune(out, r)
		}
		done = to
		i = nextUnsettled(s, to)
	}
	return string(append(out, s[done:]...))
}

func nextUnsettled(s string, i int) int {
	for i < len(s) {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if classOf(r)&unsettled != 0 {
			return i
		}
		i += n
	}
	return i
}

func decompose(out []rune, s string) []rune {
	for _, r := range s {
		if at := r - syllableFirst; at >= 0 && at < syllableCount {
			out = append(out, leadFirst+at/(vowelCount*trailCount), vowelFirst+at%(vowelCount*trailCount)/trailCount)
			if trail := at % trailCount; trail > 0 {
				out = append(out, trailFirst+trail)
			}
			continue
		}
		if to, ok := unicode16.decomposed[r]; ok {
			out = append(out, to...)
			continue
		}
		out = append(out, r)
	}
	return out
}

// arrange brings each run of marks into canonical order, equal ones staying as they are.
func arrange(text []rune) {
	order := func(r rune) int { return int(unicode16.order[r]) }
	for i := 0; i < len(text); i++ {
		from := i
		for i < len(text) && order(text[i]) > 0 {
			i++
		}
		if i-from > 1 {
			slices.SortStableFunc(text[from:i], func(a, b rune) int { return order(a) - order(b) })
		}
	}
}

// compose joins each mark to the last starter, unless another mark of its order, or a later one, stands between. In place.
func compose(text []rune) []rune {
	out := text[:0]
	starter, lastOrder := -1, uint8(0)
	for _, r := range text {
		order := unicode16.order[r]
		adjacent := starter >= 0 && starter == len(out)-1
		if starter >= 0 && (adjacent || lastOrder < order) {
			if c, ok := pair(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		if order == 0 {
			starter = len(out)
		}
		lastOrder = order
		out = append(out, r)
	}
	return out
}

// pair is the composite of a and b, if there is one.
func pair(a, b rune) (rune, bool) {
	if l, v := a-leadFirst, b-vowelFirst; l >= 0 && l < leadCount && v >= 0 && v < vowelCount {
		return syllableFirst + (l*vowelCount+v)*trailCount, true
	}
	if s, t := a-syllableFirst, b-trailFirst; s >= 0 && s < syllableCount && s%trailCount == 0 && t > 0 && t < trailCount {
		return a + t, true
	}
	c, ok := unicode16.composed[[2]rune{a, b}]
	return c, ok
}
