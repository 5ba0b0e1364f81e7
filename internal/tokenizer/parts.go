package tokenizer

import (
	json "encoding/json/v2"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/words"
)

// part is a normaliser, pre-tokenizer or decoder as the file has it, of any kind. A member that is not listed is refused: it would mean something.
type part struct {
	Type          string `json:"type"`
	Normalizers   []part `json:"normalizers"`
	PreTokenizers []part `json:"pretokenizers"`
	Decoders      []part `json:"decoders"`

	Pattern  textPattern `json:"pattern"`  // Split, Replace
	Behavior string      `json:"behavior"` // Split
	Invert   bool        `json:"invert"`   // Split
	Content  string      `json:"content"`  // Replace, Strip
	Prepend  string      `json:"prepend"`  // Prepend

	AddPrefixSpace *bool `json:"add_prefix_space"` // ByteLevel, Metaspace
	UseRegex       *bool `json:"use_regex"`        // ByteLevel
	TrimOffsets    bool  `json:"trim_offsets"`     // offsets are none of ours

	Replacement   string  `json:"replacement"` // Metaspace
	StrRep        string  `json:"str_rep"`     // Metaspace, of old files; never read
	PrependScheme *string `json:"prepend_scheme"`
	Split         *bool   `json:"split"`

	IndividualDigits bool `json:"individual_digits"` // Digits
	Start            int  `json:"start"`             // Strip
	Stop             int  `json:"stop"`
	Cleanup          bool `json:"cleanup"` // decoders that are refused anyway
}

// textPattern is {"String": ...} or {"Regex": ...}.
type textPattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

func orTrue(b *bool) bool { return b == nil || *b }

func readPart(what string, text []byte) (p part, err error) {
	if err := json.Unmarshal(text, &p, json.RejectUnknownMembers(true)); err != nil {
		return p, fmt.Errorf("%s: %w", what, unknown("%s", err.Error()))
	}
	return p, nil
}

// flat is p, or what p is a sequence of, however deep.
func flat(p part, within func(part) []part) []part {
	if p.Type != "Sequence" {
		return []part{p}
	}
	var all []part
	for _, q := range within(p) {
		all = append(all, flat(q, within)...)
	}
	return all
}

// change is one step of normalising.
type change struct {
	nfc      bool
	prepend  string
	old, new string // every old becomes new
}

func (t *Tokenizer) loadNormalizer(text []byte) error {
	if null(text) {
		return nil
	}
	p, err := readPart("normalizer", text)
	if err != nil {
		return err
	}
	for _, p := range flat(p, func(p part) []part { return p.Normalizers }) {
		switch {
		case p.Type == "NFC":
			t.changes = append(t.changes, change{nfc: true})
		case p.Type == "Prepend":
			t.changes = append(t.changes, change{prepend: p.Prepend})
		case p.Type == "Replace" && p.Pattern.String != nil && *p.Pattern.String != "":
			t.changes = append(t.changes, change{old: *p.Pattern.String, new: p.Content})
		case p.Type == "Replace":
			return unknown("the normalizer Replace by a regular expression")
		default:
			return unknown("the normalizer %s: NFC, Prepend, Replace of a text and Sequence are", p.Type)
		}
	}
	return nil
}

// normalise applies all changes. Nothing becomes nothing.
func (t *Tokenizer) normalise(s string) string {
	for _, c := range t.changes {
		switch {
		case s == "":
			return ""
		case c.nfc:
			s = words.NFC(s)
		case c.old != "":
			s = strings.ReplaceAll(s, c.old, c.new)
		default:
			s = c.prepend + s
		}
	}
	return s
}

// without says whether normalised text is sure not to contain s.
func (t *Tokenizer) without(s string) bool {
	gone := false
	for _, c := range t.changes {
		if c.old != "" && c.old == s {
			gone = true
		}
		if strings.Contains(c.new, s) || strings.Contains(c.prepend, s) {
			gone = false
		}
	}
	return gone && len(s) == 1
}

// preTokenizer says how text becomes words.
type preTokenizer struct {
	byteLevel   bool
	prefixSpace bool // a blank goes before text that has none
	meta        *metaspace
	stages      []stage // each cuts the pieces of the one before
	older       bool    // as one who knows Unicode 15.1, like llama.cpp
}

// stage cuts text at the matches of a pattern.
type stage struct {
	words.Pattern
	dropGaps bool // what the pattern does not match is lost
}

// metaspace replaces blanks as SentencePiece does.
type metaspace struct {
	by        string // one character
	always    bool   // also goes before text that does not begin with it,
	first     bool   // or only before the very beginning
	cutBefore bool   // words begin with it
}

func (t *Tokenizer) loadPreTokenizer(text []byte) error {
	if null(text) {
		return nil
	}
	p, err := readPart("pre_tokenizer", text)
	if err != nil {
		return err
	}
	all := flat(p, func(p part) []part { return p.PreTokenizers })
	for i, p := range all {
		if t.pre.byteLevel || t.pre.meta != nil {
			return unknown("the pre-tokenizer %s behind ByteLevel or Metaspace", p.Type)
		}
		if err := t.addPreTokenizer(p, i); err != nil {
			return err
		}
	}
	if !t.pre.byteLevel && len(t.pre.stages) > 0 {
		return unknown("a pre-tokenizer %s without ByteLevel behind it", p.Type)
	}
	return nil
}

func (t *Tokenizer) addPreTokenizer(p part, place int) error {
	switch p.Type {
	case "Split":
		return t.addSplit(p)
	case "Digits":
		t.pre.stages = append(t.pre.stages, stage{Pattern: words.Digits(p.IndividualDigits)})
		return nil
	case "ByteLevel":
		t.pre.byteLevel = true
		if t.pre.prefixSpace = orTrue(p.AddPrefixSpace); t.pre.prefixSpace && place > 0 {
			return unknown("the pre-tokenizer ByteLevel with add_prefix_space behind another one")
		}
		if !orTrue(p.UseRegex) {
			return nil
		}
		gpt2, err := words.Parse(words.GPT2)
		t.pre.stages = append(t.pre.stages, stage{Pattern: gpt2})
		return err
	case "Metaspace":
		if place > 0 {
			return unknown("the pre-tokenizer Metaspace behind another one")
		}
		return t.addMetaspace(p)
	}
	return unknown("the pre-tokenizer %s: Split, Digits, ByteLevel, Metaspace and Sequence are", p.Type)
}

func (t *Tokenizer) addSplit(p part) error {
	switch {
	case p.Pattern.String != nil && t.without(*p.Pattern.String):
		return nil // gemma: there are no blanks left to cut at
	case p.Pattern.Regex == nil:
		return unknown("the pre-tokenizer Split at a text that the normalizer leaves in")
	case p.Behavior != "Isolated" && p.Behavior != "Removed", p.Invert != (p.Behavior == "Removed"):
		return unknown("the behavior %s, invert %v of the pre-tokenizer Split", p.Behavior, p.Invert)
	}
	cut, err := words.Parse(*p.Pattern.Regex)
	if err != nil {
		return errUnknown{err.Error() + " of the pre-tokenizer Split"}
	}
	t.pre.stages = append(t.pre.stages, stage{Pattern: cut, dropGaps: p.Invert})
	return nil
}

func (t *Tokenizer) addMetaspace(p part) error {
	m := &metaspace{by: p.Replacement, cutBefore: orTrue(p.Split)}
	if utf8.RuneCountInString(p.Replacement) != 1 {
		return fmt.Errorf("pre_tokenizer Metaspace: the replacement %s is not one character", quote(p.Replacement))
	}
	scheme := "always"
	if p.PrependScheme != nil {
		scheme = *p.PrependScheme
	}
	if !orTrue(p.AddPrefixSpace) {
		if scheme == "first" {
			return fmt.Errorf("pre_tokenizer Metaspace: prepend_scheme %s, but add_prefix_space is false", quote(scheme))
		}
		scheme = "never"
	}
	switch scheme {
	case "always":
		m.always = true
	case "first":
		m.first = true
	case "never":
	default:
		return unknown("the prepend_scheme %s of the pre-tokenizer Metaspace", scheme)
	}
	t.pre.meta = m
	return nil
}

// loadDecoder only looks whether the file means what the rest of it lets expect, since messages are all that is decoded here.
func (t *Tokenizer) loadDecoder(text []byte) error {
	if null(text) {
		return nil
	}
	p, err := readPart("decoder", text)
	if err != nil {
		return err
	}
	for _, p := range flat(p, func(p part) []part { return p.Decoders }) {
		switch p.Type {
		case "ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace":
		default:
			return unknown("the decoder %s", p.Type)
		}
	}
	return nil
}
