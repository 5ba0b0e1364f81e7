// Package tokenizer turns text into the ids that a model was trained on, exactly as the engines' own tokenizer does (Hugging Face's
// tokenizers, in Rust), from the tokenizer.json that comes with the model. A router that knows the ids knows which blocks an engine keeps.
//
//	t, err := tokenizer.Load(file)
//	ids := t.Encode(nil, "<|im_start|>user\nHello<|im_end|>\n", tokenizer.Options{})
//
// Byte pair encoding only, over bytes (llama-3, qwen, gpt-oss, deepseek, ...) or over characters (llama-2, gemma). Whatever a file asks for
// that is not known here is refused by Load with its name.
//
// The steps of Encode: added tokens are found in the text; what lies between them is normalised, searched for the added tokens that want
// that, cut into words by the pre-tokenizer's patterns, and each word is merged. `make exact` holds all of it against the reference.
package tokenizer

import (
	"strings"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/words"
)

// Tokenizer is one model's. Any number of goroutines may use it at once.
type Tokenizer struct {
	changes            []change
	pre                preTokenizer
	model              model
	added, addedNormal *addedSet // found before and after normalising
	byContent          map[string]uint32
	addedByID          map[uint32]addedToken
	before, behind     []uint32 // BOS, EOS
}

// Options of Encode. As they are by default, a prompt that a chat template wrote is encoded as engines do it.
type Options struct {
	Wrap         bool // with the tokens that the model wants before and behind a text of its own, such as BOS
	PlainSpecial bool // special tokens that are spelt in the text are text like any other
}

// Segment is a piece of text that is encoded without a look at what is around it: an added token, or what stands between two. The ids of
// a text are those of its segments one after the other.
type Segment struct {
	Text  string // a token's with the white space that it takes up
	ID    uint32 // of the added token
	Token bool   // Text is one token, ID
	First bool   // at the beginning of the text; some models encode that differently
}

// Encode appends the ids of text. What is not UTF-8 in it counts as U+FFFD, one for each broken sequence.
func (t *Tokenizer) Encode(ids []uint32, text string, o Options) []uint32 {
	if o.Wrap {
		ids = append(ids, t.before...)
	}
	text = valid(text)
	c := cutter{set: t.added, text: text, plain: o.PlainSpecial}
	e := encoder{Tokenizer: t, ids: ids}
	for {
		first := c.done == 0
		piece, token, ok := c.next()
		if !ok {
			break
		}
		if token != nil {
			e.ids = append(e.ids, token.ID)
			continue
		}
		e.piece(piece, first, o.PlainSpecial)
	}
	if o.Wrap {
		e.ids = append(e.ids, t.behind...)
	}
	return e.ids
}

// Segments appends the segments of text; PlainSpecial is all that it takes from o, and EncodeSegment must be given the same.
func (t *Tokenizer) Segments(segments []Segment, text string, o Options) []Segment {
	text = valid(text)
	c := cutter{set: t.added, text: text, plain: o.PlainSpecial}
	for {
		first := c.done == 0
		piece, token, ok := c.next()
		switch {
		case !ok:
			return segments
		case token != nil:
			segments = append(segments, Segment{Text: piece, ID: token.ID, Token: true, First: first})
		case len(t.changes) > 0:
			segments = append(segments, Segment{Text: piece, First: first})
		default:
			// Text is normal as it stands, so that tokens that are looked for in normal text cut it too.
			inner := cutter{set: t.addedNormal, text: piece, plain: o.PlainSpecial}
			for at := inner.done; ; at = inner.done {
				part, token, ok := inner.next()
				if !ok {
					break
				}
				s := Segment{Text: part, First: first && at == 0}
				if token != nil {
					s.ID, s.Token = token.ID, true
				}
				segments = append(segments, s)
			}
		}
	}
}

// EncodeSegment appends the ids of a segment.
func (t *Tokenizer) EncodeSegment(ids []uint32, s Segment, o Options) []uint32 {
	if s.Token {
		return append(ids, s.ID)
	}
	e := encoder{Tokenizer: t, ids: ids}
	if len(t.changes) > 0 {
		e.piece(s.Text, s.First, o.PlainSpecial)
	} else {
		e.words(s.Text, s.First)
	}
	return e.ids
}

// Wrapping is what Encode puts before and behind a text with Options.Wrap. The slices are not to be changed.
func (t *Tokenizer) Wrapping() (before, behind []uint32) { return t.before, t.behind }

// ID is the token that is spelt so: an added token, or a token of the vocabulary by what it stands for (" the", not "Ġthe"; but "▁the" in
// models that spell blanks so).
func (t *Tokenizer) ID(text string) (id uint32, ok bool) {
	if id, ok := t.byContent[text]; ok {
		return id, true
	}
	id = t.model.word(text)
	return id, id != none
}

// Text is what a token stands for, for messages: it need not be valid UTF-8, since a token may be part of a character. ok is false for
// ids that there are not.
func (t *Tokenizer) Text(id uint32) (text string, ok bool) {
	if a, added := t.addedByID[id]; added {
		return a.Content, true
	}
	if int(id) >= len(t.model.spans) || t.model.spans[id].to == 0 {
		return "", false
	}
	text = string(t.model.bytes(id))
	if t.model.byteLevel {
		return text, true
	}
	if len(text) == 6 && t.model.fallback {
		for b, i := range t.model.byteIDs {
			if i == id {
				return string([]byte{byte(b)}), true
			}
		}
	}
	return strings.ReplaceAll(text, blank, " "), true
}

// Size is how many ids there are, with those of added tokens.
func (t *Tokenizer) Size() int {
	n := len(t.model.spans)
	for id := range t.addedByID {
		n = max(n, int(id)+1)
	}
	return n
}

// piece encodes text between added tokens; first says that it begins the whole text.
func (e *encoder) piece(text string, first, plain bool) {
	text = e.normalise(text)
	if len(e.addedNormal.tokens) == 0 {
		e.words(text, first)
		return
	}
	c := cutter{set: e.addedNormal, text: text, plain: plain}
	for {
		first := first && c.done == 0
		part, token, ok := c.next()
		if !ok {
			return
		}
		if token != nil {
			e.ids = append(e.ids, token.ID)
			continue
		}
		e.words(part, first)
	}
}

// words runs the pre-tokenizer.
func (e *encoder) words(text string, first bool) {
	if text == "" {
		return
	}
	p := &e.pre
	if m := p.meta; m != nil {
		text = strings.ReplaceAll(text, " ", m.by)
		if (m.always || m.first && first) && !strings.HasPrefix(text, m.by) {
			text = m.by + text
		}
		if m.cutBefore {
			e.cutBefore(text, m.by)
			return
		}
	}
	if p.prefixSpace && text[0] != ' ' {
		text = " " + text
	}
	look := text
	if p.older {
		look = words.Older(text)
	}
	e.stage(text, look, p.stages)
}

// cutBefore makes a word of each text that begins with by.
func (e *encoder) cutBefore(text, by string) {
	for {
		_, n := utf8.DecodeRuneInString(text)
		next := strings.Index(text[n:], by)
		if next < 0 {
			e.word(text)
			return
		}
		e.word(text[:n+next])
		text = text[n+next:]
	}
}

// stage cuts text by the first of the patterns, and what comes of that by the others. The patterns look at another text of the same length.
func (e *encoder) stage(text, look string, stages []stage) {
	if len(stages) == 0 {
		e.parts(text)
		return
	}
	for i := 0; i < len(text); {
		end, gap := stages[0].Next(look, i)
		switch {
		case gap && stages[0].dropGaps:
		case len(stages) == 1:
			e.word(text[i:end])
		default:
			e.stage(text[i:end], look[i:end], stages[1:])
		}
		i = end
	}
}

// valid replaces what is not UTF-8 as decoders of the web do: each longest beginning of a character, else each byte, by U+FFFD.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			n = brokenLength(s[i:])
		}
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out)
}

// brokenLength is how much of a broken sequence at the start of s could have begun a character.
func brokenLength(s string) int {
	for n := 1; n <= min(len(s), utf8.UTFMax); n++ {
		if utf8.FullRuneInString(s[:n]) { // or what cannot become one
			return max(1, n-1)
		}
	}
	return len(s)
}
