package words

import (
	"math"
	"strings"
	"unicode/utf8"
)

// The matchers of the alternatives in pattern.go, each as the reference's engine (Oniguruma) matches: leftmost, greedy, with what
// backtracking would find.

const anyNumber = math.MaxInt

func literal(want string) matcher {
	return func(s string, i int) int {
		if strings.HasPrefix(s[i:], want) {
			return i + len(want)
		}
		return -1
	}
}

// contraction is 's 't 're 've 'm 'll 'd in either case. Without regard to case, s is also U+017F, the long s.
func contraction(s string, i int) int {
	if s[i] != '\'' || i+1 >= len(s) {
		return -1
	}
	switch s[i+1] | 0x20 {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v':
		if i+2 < len(s) && s[i+2]|0x20 == 'e' {
			return i + 3
		}
	case 'l':
		if i+2 < len(s) && s[i+2]|0x20 == 'l' {
			return i + 3
		}
	}
	if strings.HasPrefix(s[i+1:], "ſ") {
		return i + 3
	}
	return -1
}

// contractionASCII is contraction without the long s.
func contractionASCII(s string, i int) int {
	if end := contraction(s, i); end > 0 && s[end-1] < utf8.RuneSelf {
		return end
	}
	return -1
}

// signsOrBackquote is falcon's class of signs, one or more.
func signsOrBackquote(s string, i int) int {
	end := i
	for end < len(s) {
		c, n := class(s, end)
		if c&signDefault == 0 && s[end] != '`' {
			break
		}
		end += n
	}
	if end == i {
		return -1
	}
	return end
}

func threeDigits(s string, i int) int {
	for n := range 3 {
		if i+n >= len(s) || s[i+n] < '0' || s[i+n] > '9' {
			return -1
		}
	}
	return i + 3
}

// upTo is one or more of set, at most n.
func upTo(set uint16, n int) matcher {
	return func(s string, i int) int {
		c, size := class(s, i)
		if c&set == 0 {
			return -1
		}
		if n == anyNumber {
			return run(s, i+size, set)
		}
		for taken := 1; ; taken++ {
			i += size
			if taken == n || i == len(s) {
				return i
			}
			if c, size = class(s, i); c&set == 0 {
				return i
			}
		}
	}
}

// leadAndRun is one or more of set, before them perhaps one code point that is neither a line end nor in not.
func leadAndRun(not, set uint16) matcher {
	return func(s string, i int) int {
		c, n := class(s, i)
		if next := i + n; c&not == 0 && s[i] != '\r' && s[i] != '\n' && next < len(s) {
			if c, n := class(s, next); c&set != 0 {
				return run(s, next+n, set)
			}
		}
		if c&set != 0 {
			return run(s, i+n, set)
		}
		return -1
	}
}

// blankAndRun is one or more of set, before them perhaps one blank.
func blankAndRun(set uint16) matcher {
	return func(s string, i int) int {
		from := i
		if s[i] == ' ' {
			from++
		}
		if end := run(s, from, set); end > from {
			return end
		}
		return -1
	}
}

// signs are one or more outside of not, before them perhaps one blank, behind them any of tail.
func signs(not uint16, tail string) matcher {
	return func(s string, i int) int {
		from := i
		if s[i] == ' ' {
			from++
		}
		end := runOutside(s, from, not)
		if end == from {
			return -1
		}
		return runTail(s, end, tail)
	}
}

func runTail(s string, i int, tail string) int {
	for i < len(s) && strings.IndexByte(tail, s[i]) >= 0 {
		i++
	}
	return i
}

// punctuationRun is deepseek's ` ?[\p{P}\p{S}]+[\r\n]*`.
func punctuationRun(set uint16) matcher {
	return func(s string, i int) int {
		from := i
		if s[i] == ' ' {
			from++
		}
		end := run(s, from, set)
		if end == from {
			return -1
		}
		return runTail(s, end, "\r\n")
	}
}

// signAndWord is deepseek's: a printable ASCII sign, then ASCII letters.
func signAndWord(s string, i int) int {
	c := s[i]
	if sign := c > ' ' && c < 0x7f && !asciiLetter(c) && (c < '0' || c > '9'); !sign {
		return -1
	}
	end := i + 1
	for end < len(s) && asciiLetter(s[end]) {
		end++
	}
	if end == i+1 {
		return -1
	}
	return end
}

func asciiLetter(c byte) bool { c |= 0x20; return c >= 'a' && c <= 'z' }

// ideographs is deepseek's class of unified ideographs (to U+9FA5), hiragana and katakana.
func ideographs(s string, i int) int {
	end := i
	for end < len(s) && s[end] >= 0xe3 {
		r, n := utf8.DecodeRuneInString(s[end:])
		if (r < 0x3040 || r > 0x30ff) && (r < 0x4e00 || r > 0x9fa5) {
			break
		}
		end += n
	}
	if end == i {
		return -1
	}
	return end
}

// caseWord is one of the two word alternatives of o200k: a body, lowerTail or upperHead, that begins with one of set; before it perhaps one
// code point that is neither line end, letter nor number; behind it perhaps a contraction. The lead is tried first, as the engine does.
func caseWord(body matcher, set uint16, contraction matcher) matcher {
	return func(s string, i int) int {
		end := -1
		c, n := class(s, i)
		if c&(letter|number) == 0 && s[i] != '\r' && s[i] != '\n' && i+n < len(s) {
			end = body(s, i+n)
		}
		if end < 0 && c&set != 0 {
			end = body(s, i)
		}
		if end > 0 && contraction != nil && end < len(s) {
			if behind := contraction(s, end); behind > 0 {
				return behind
			}
		}
		return end
	}
}

// lowerTail is upper* lower+. Marks, modifiers and letters without case are both: when nothing lower follows the greedy upper*, it gives
// back down to the last of those.
func lowerTail(upper, lower uint16) matcher {
	return func(s string, i int) int {
		giveBack, at := -1, i
		for at < len(s) {
			c, n := class(s, at)
			if c&upper == 0 {
				break
			}
			if c&lower != 0 {
				giveBack = at
			}
			at += n
		}
		if end := run(s, at, lower); end > at {
			return end
		}
		if giveBack < 0 {
			return -1
		}
		return run(s, giveBack, lower)
	}
}

// upperHead is upper+ lower*.
func upperHead(upper, lower uint16) matcher {
	return func(s string, i int) int {
		at := run(s, i, upper)
		if at == i {
			return -1
		}
		return run(s, at, lower)
	}
}

// newlines is `\s*[\r\n]+`: white space up to its last line end.
func newlines(s string, i int) int {
	last := -1
	for i < len(s) {
		c, n := class(s, i)
		if c&space == 0 {
			break
		}
		if s[i] == '\n' || s[i] == '\r' {
			last = i + 1
		}
		i += n
	}
	return last
}

// spaceBeforeSpace is `\s+(?!\S)`: white space without its last code point, which belongs to the word behind it; all of it at the end.
func spaceBeforeSpace(s string, i int) int {
	from, last := i, i
	for i < len(s) {
		c, n := class(s, i)
		if c&space == 0 {
			if last == from {
				return -1
			}
			return last
		}
		last = i
		i += n
	}
	if i == from {
		return -1
	}
	return i
}
