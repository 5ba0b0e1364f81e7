// Package words cuts text as a model's pre-tokenizer does: Unicode classes, normal form C, and the regular expressions of the models that
// are served today, each alternative by hand.
//
//	words.Ready()
//	p, err := words.Parse(`\p{N}{1,3}|\p{L}+`)
//	end, gap := p.Next("abc12345", 0) // 3, false: "abc"
//
// All text must be valid UTF-8.
package words

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// matcher is one alternative of a regular expression: where its match at s[i:] ends, or -1. It never matches nothing, and i < len(s).
type matcher func(s string, i int) int

// alternative is what a pattern may be made of.
type alternative struct {
	match matcher
	// After a long look ahead this one may fail; one of these must stand behind it and take what it looked at, or time would be quadratic.
	behind []string
	// Its first code point alone decides whether it matches.
	byFirst bool
}

// alternatives are all that are known, as they are written. Between them they make up the patterns of gpt-2, llama-3 and 4, qwen 2 to 3.5, glm,
// phi-4, cl100k, o200k and gpt-oss, tekken, deepseek and smollm. Each is by hand, since a regular expression engine is what tokenising would
// mostly wait for.
var alternatives = map[string]alternative{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)`: {match: contraction},
	asciiContraction:               {match: contractionASCII},
	`'(?i:[sdmt]|ll|ve|re)`:        {match: contraction},
	`'s`:                           {match: literal(`'s`)},
	`'t`:                           {match: literal(`'t`)},
	`'re`:                          {match: literal(`'re`)},
	`'ve`:                          {match: literal(`'ve`)},
	`'m`:                           {match: literal(`'m`)},
	`'ll`:                          {match: literal(`'ll`)},
	`'d`:                           {match: literal(`'d`)},

	`[^\r\n\p{L}\p{N}]?\p{L}+`:             {match: leadAndRun(letter|number, letter)},
	`[^\r\n\p{L}\p{N}]?+\p{L}+`:            {match: leadAndRun(letter|number, letter)},
	`[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+`:      {match: leadAndRun(letter|number, letter|mark)},
	`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+`: {match: leadAndRun(letter|punctuation|symbolic, letter|mark)},
	` ?\p{L}+`:                             {match: blankAndRun(letter)},
	` ?\p{N}+`:                             {match: blankAndRun(number)},
	`\p{L}+`:                               {match: upTo(letter, anyNumber), byFirst: true},
	`\p{N}`:                                {match: upTo(number, 1), byFirst: true},
	`\p{N}{1,3}`:                           {match: upTo(number, 3), byFirst: true},
	`\p{N}+`:                               {match: upTo(number, anyNumber), byFirst: true},
	`[一-龥぀-ゟ゠-ヿ]+`:                         {match: ideographs, byFirst: true},
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+": {match: signAndWord},

	` ?[^\s\p{L}\p{N}]+`:                        {match: signs(space|letter|number, "")},
	` ?[^\s\p{L}\p{N}]+[\r\n]*`:                 {match: signs(space|letter|number, "\r\n")},
	` ?[^\s\p{L}\p{N}]++[\r\n]*`:                {match: signs(space|letter|number, "\r\n")},
	` ?[^\s\p{L}\p{N}]+[\r\n/]*`:                {match: signs(space|letter|number, "\r\n/")},
	` ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*`:            {match: signs(space|letter|mark|number, "\r\n")},
	` ?[\p{P}\p{S}]+[\r\n]*`:                    {match: punctuationRun(punctuation | symbolic)},
	"[\\p{P}\\$\\+<=>\\^~\\|]+":                 {match: upTo(signDefault, anyNumber), byFirst: true},
	"[\\p{P}\\$\\+<=>\\^~\\|`]+":                {match: signsOrBackquote, byFirst: true},
	`[0-9][0-9][0-9]`:                           {match: threeDigits},
	` ?[\p{P}[\p{S}--~]]+[\r\n]*`:               {match: punctuationRun(punctuation | symbolicNoTilde)},
	`[^\r\n\p{L}\p{P}[\p{S}--~]]?[\p{L}\p{M}]+`: {match: leadAndRun(letter|punctuation|symbolicNoTilde, letter|mark)},

	capitalised:             {match: caseWord(lowerTail(upper, lower), upper|lower, nil), behind: []string{upperCase}},
	upperCase:               {match: caseWord(upperHead(upper, lower), upper|lower, nil)},
	capitalised + shortened: {match: caseWord(lowerTail(upper, lower), upper|lower, contraction), behind: []string{upperCase + shortened}},
	upperCase + shortened:   {match: caseWord(upperHead(upper, lower), upper|lower, contraction)},

	asciiCapitalised: {match: caseWord(lowerTail(notASCIILower, notASCIIUpper), letter, nil), behind: []string{asciiUpperCase}},
	asciiUpperCase:   {match: caseWord(upperHead(notASCIILower, notASCIIUpper), letter, nil)},
	asciiCapitalised + asciiContraction + "?": {match: caseWord(lowerTail(notASCIILower, notASCIIUpper), letter, contractionASCII), behind: []string{asciiUpperCase + asciiContraction + "?"}},
	asciiUpperCase + asciiContraction + "?":   {match: caseWord(upperHead(notASCIILower, notASCIIUpper), letter, contractionASCII)},

	`\s*[\r\n]+`: {match: newlines, behind: []string{`\s+`}},
	`\s*[\r\n]`:  {match: newlines, behind: []string{`\s+`}}, // greedy \s* leaves it the last line end of the run: the same match
	`\s+(?!\S)`:  {match: spaceBeforeSpace},
	`\s+`:        {match: upTo(space, anyNumber)},
}

const (
	capitalised = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	upperCase   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	shortened   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`

	// As llama.cpp has them, where its way of matching classes differs.
	asciiContraction = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	asciiCapitalised = `[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+`
	asciiUpperCase   = `[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*`

	// GPT2 is the expression that gpt-2 came with, which files name by saying nothing else.
	GPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

// Pattern cuts text at the matches of a regular expression: each match is a piece, and so is each gap between two.
type Pattern struct {
	matchers []matcher
	idle     *[utf8.RuneSelf]bool // ASCII that begins no match; nil where that is not known beforehand
}

// Parse finds each alternative of a regular expression among those that are known. The error names the first that is not.
func Parse(regex string) (Pattern, error) {
	var p Pattern
	parts, byFirst := topLevel(regex), true
	for i, part := range parts {
		a, known := alternatives[part]
		if !known {
			return Pattern{}, fmt.Errorf("the alternative %s in the pattern %s", cut(part), cut(regex))
		}
		for _, b := range a.behind {
			if !slices.Contains(parts[i+1:], b) {
				return Pattern{}, fmt.Errorf("the alternative %s without %s behind it in the pattern %s", cut(part), cut(b), cut(regex))
			}
		}
		p.matchers, byFirst = append(p.matchers, a.match), byFirst && a.byFirst
	}
	if byFirst {
		p.findIdle()
	}
	return p, nil
}

func (p *Pattern) findIdle() {
	p.idle = new([utf8.RuneSelf]bool)
	for c := range p.idle {
		p.idle[c] = p.match(string(rune(c)), 0) < 0
	}
}

// topLevel cuts a regular expression at each | outside of brackets. Line ends may stand in it as themselves or as escapes.
func topLevel(regex string) []string {
	regex = strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(regex)
	var parts []string
	depth, class, from := 0, false, 0
	for i := 0; i < len(regex); i++ {
		switch c := regex[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			parts = append(parts, regex[from:i])
			from = i + 1
		}
	}
	return append(parts, regex[from:])
}

// match is where the match at s[i:] ends, or -1: the first alternative that matches wins, however short.
func (p Pattern) match(s string, i int) int {
	for _, m := range p.matchers {
		if end := m(s, i); end > 0 {
			return end
		}
	}
	return -1
}

// Next is the piece at s[i:]: up to end; gap says that the expression does not match it. i < len(s).
func (p Pattern) Next(s string, i int) (end int, gap bool) {
	if end := p.match(s, i); end > 0 {
		return end, false
	}
	for {
		_, n := utf8.DecodeRuneInString(s[i:])
		i += n
		for p.idle != nil && i < len(s) && s[i] < utf8.RuneSelf && p.idle[s[i]] {
			i++
		}
		if i == len(s) || p.match(s, i) > 0 {
			return i, true
		}
	}
}

// Digits cuts out numbers, whole or one by one.
func Digits(single bool) Pattern {
	n := anyNumber
	if single {
		n = 1
	}
	p := Pattern{matchers: []matcher{upTo(digit, n)}}
	p.findIdle()
	return p
}

// regexBytesMax is how much of an expression an error repeats.
const regexBytesMax = 200

func cut(regex string) string {
	if len(regex) > regexBytesMax {
		return strings.ToValidUTF8(regex[:regexBytesMax], "") + "..."
	}
	return regex
}
