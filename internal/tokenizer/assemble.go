package tokenizer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/joins"
	"github.com/warmpath/warmpath/internal/words"
)

// Kind is what a token is there for.
type Kind uint8

// Added tokens are found in text before any other step, Special ones unless Options.PlainSpecial is set.
const (
	Normal Kind = iota
	Special
	Added
)

// Vocabulary is a tokenizer in parts, for files that are no tokenizer.json, and with llama.cpp's meaning: what has no token vanishes, but
// keeps its neighbours from joining; of merges that repeat the first one counts; nothing is normalised; characters are those of Unicode 15.1.
type Vocabulary struct {
	Tokens         []string // by id, spelt as in tokenizer.json
	Kinds          []Kind   // by id; those beyond its end are Normal
	Before, Behind []uint32 // BOS, EOS

	// Of byte-level models, whose Scores are nil.
	Merges       []string // "a b"
	Split        []string // regular expressions, each for the pieces of the one before
	IgnoreMerges bool     // a word that is a token is that token, whatever the merges say

	// Of SentencePiece-like models: neighbours join that together are a token, the highest score first, of equals the leftmost.
	Scores      []float32 // by id
	SpacePrefix bool      // a blank goes before the text, and before what follows an added token
}

// Assemble makes a Tokenizer. Its error wraps ErrUnknown where the parts ask for something that is not known here.
func Assemble(v Vocabulary) (*Tokenizer, error) {
	words.Ready()
	t := &Tokenizer{before: v.Before, behind: v.Behind}
	t.model.unknown, t.model.cache, t.model.hidden = none, new(wordCache), map[string]uint32{}
	if v.Scores != nil && len(v.Scores) < len(v.Tokens) {
		return nil, fmt.Errorf("tokenizer: %d scores for %d tokens", len(v.Scores), len(v.Tokens))
	}
	fill := t.byMerges
	if v.Scores != nil {
		fill = t.byScores
	}
	if err := fill(v); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if err := t.addKinds(v); err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

func (m *model) enterAll(tokens []string) error {
	for id, text := range tokens {
		if err := m.enter([]byte(text), uint64(id)); err != nil {
			return err
		}
	}
	if err := m.vocabulary.index(m.hidden); err != nil {
		return err
	}
	m.loadByteIDs()
	return nil
}

func (t *Tokenizer) byMerges(v Vocabulary) error {
	m := &t.model
	t.pre.byteLevel, t.pre.older, m.byteLevel, m.gaps, m.ignoreMerges = true, true, true, true, v.IgnoreMerges
	for _, regex := range v.Split {
		cut, err := words.Parse(regex)
		if err != nil {
			return errUnknown{err.Error()}
		}
		t.pre.stages = append(t.pre.stages, stage{Pattern: cut})
	}
	if err := m.enterAll(v.Tokens); err != nil {
		return err
	}
	if len(v.Merges) > joins.PairsMax {
		return fmt.Errorf("%d merges, more than %d", len(v.Merges), joins.PairsMax)
	}
	pairs, results := make([]uint64, len(v.Merges)), make([]uint32, len(v.Merges))
	for i, both := range v.Merges {
		left, right, err := cutMerge(nil, []byte(both))
		if err == nil {
			pairs[i], results[i], err = m.mergeIDs(left, right)
		}
		if err != nil {
			return fmt.Errorf("merges: number %d: %w", i, err)
		}
	}
	m.joins.FillFirst(pairs, results)
	return nil
}

func (t *Tokenizer) byScores(v Vocabulary) error {
	m := &t.model
	m.fallback = true
	if v.SpacePrefix {
		t.changes = append(t.changes, change{prepend: blank})
	}
	t.changes = append(t.changes, change{old: " ", new: blank})
	if err := m.enterAll(v.Tokens); err != nil {
		return err
	}
	isByte := map[uint32]bool{}
	for b, id := range m.byteIDs {
		if id == none {
			return unknown("a vocabulary with scores and without the token %s", byteToken(b))
		}
		isByte[id] = true
	}
	order := make([]uint32, 0, len(v.Tokens))
	for id, text := range v.Tokens {
		if math.IsNaN(float64(v.Scores[id])) {
			return fmt.Errorf("the score of %s is no number", quote(text))
		}
		if utf8.RuneCountInString(text) > 1 {
			order = append(order, uint32(id))
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(v.Scores[b], v.Scores[a]) })
	var pairs []uint64
	var results, ranks []uint32
	rank := uint32(0)
	for i, id := range order {
		if n := len(ranks); n > 0 && v.Scores[id] != v.Scores[order[i-1]] {
			rank = ranks[n-1] + 1
		}
		var err error
		if pairs, err = m.halves(pairs, v.Tokens[id], isByte); err != nil {
			return err
		}
		for len(ranks) < len(pairs) {
			results, ranks = append(results, id), append(ranks, rank)
		}
	}
	m.joins.FillRanked(pairs, results, ranks)
	m.findCuts(pairs)
	return nil
}

// halves appends all pairs of tokens that together are text. Pieces of text that have no token join with nothing here.
func (m *model) halves(pairs []uint64, text string, isByte map[uint32]bool) ([]uint64, error) {
	for i := range text {
		if i == 0 {
			continue
		}
		left, right := m.word(text[:i]), m.word(text[i:])
		single := utf8.RuneCountInString(text[:i]) == 1 || utf8.RuneCountInString(text[i:]) == 1
		switch {
		case left != none && right != none && (isByte[left] || isByte[right]):
			return nil, unknown("a token %s that begins or ends with the spelling of a byte", text)
		case left != none && right != none:
			pairs = append(pairs, joins.Key(left, right))
		case single && (left != none || utf8.RuneCountInString(text[:i]) == 1) && (right != none || utf8.RuneCountInString(text[i:]) == 1):
			return nil, unknown("a token %s with a character that is no token", text)
		}
		if len(pairs) > joins.PairsMax {
			return nil, fmt.Errorf("more than %d pairs of tokens are tokens", joins.PairsMax)
		}
	}
	return pairs, nil
}

// addKinds enters the tokens that are found in text. llama.cpp looks for the longest first, wherever they are, and we for the leftmost
// first: this is the same unless the end of one is the beginning of another.
func (t *Tokenizer) addKinds(v Vocabulary) error {
	t.byContent, t.addedByID = map[string]uint32{}, map[uint32]addedToken{}
	var found []addedToken
	for id, kind := range v.Kinds[:min(len(v.Kinds), len(v.Tokens))] {
		a := addedToken{ID: uint32(id), Content: v.Tokens[id], Special: kind == Special}
		switch {
		case kind == Normal:
			continue
		case len(a.Content) > addedBytesMax:
			return fmt.Errorf("the token %s has %d bytes, more than %d", quote(a.Content), len(a.Content), addedBytesMax)
		}
		t.byContent[a.Content], t.addedByID[a.ID] = a.ID, a
		found = append(found, a)
	}
	if a, b := overlapping(found); a != "" {
		return unknown("the tokens %s and %s, whose ends are alike so that text may be cut in two ways", a, b)
	}
	t.added, t.addedNormal = newAddedSet(found), newAddedSet(nil)
	return nil
}

// overlapping finds two tokens of which one ends as the other begins; "" when there are none. Tokens that repeat one and the same
// character are cut the same either way.
func overlapping(tokens []addedToken) (a, b string) {
	begins := map[string]string{} // proper prefix to one that has it and is not all of one character
	plain := map[string]string{}  // the same for those that are
	for _, t := range tokens {
		into := begins
		if sameRunes(t.Content) {
			into = plain
		}
		for i := 1; i < len(t.Content); i++ {
			into[t.Content[:i]] = t.Content
		}
	}
	for _, t := range tokens {
		for i := 1; i < len(t.Content); i++ {
			end := t.Content[i:]
			if other := begins[end]; other != "" && other != t.Content {
				return t.Content, other
			}
			if other := plain[end]; other != "" && !sameRunes(t.Content) {
				return t.Content, other
			}
		}
	}
	return "", ""
}

func sameRunes(s string) bool {
	_, n := utf8.DecodeRuneInString(s)
	return s == strings.Repeat(s[:n], len(s)/n)
}
