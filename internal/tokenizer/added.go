package tokenizer

import (
	"cmp"
	json "encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/words"
)

// addedToken is a token that is found in text as it stands, before any other step. The names are those of the file.
type addedToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	Lstrip     bool   `json:"lstrip"`
	Rstrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// addedBytesMax bounds what one added token may be: text is compared with them at every place.
const addedBytesMax = 512

// addedSet finds added tokens in text: leftmost first, of those the longest.
type addedSet struct {
	tokens []addedToken // by content, as it is looked for
	from   [257]int32   // by first byte
	only   int          // the first byte, if all have the same; else -1
}

func newAddedSet(tokens []addedToken) *addedSet {
	s := &addedSet{tokens: tokens, only: -1}
	slices.SortFunc(s.tokens, func(a, b addedToken) int { return cmp.Compare(a.Content, b.Content) })
	for _, t := range s.tokens {
		s.from[int(t.Content[0])+1]++
	}
	for b := range 256 {
		if s.from[b+1] > 0 && int(s.from[b+1]) == len(tokens) {
			s.only = b
		}
		s.from[b+1] += s.from[b]
	}
	return s
}

// find is the first match at or behind text[i:].
func (s *addedSet) find(text string, i int) (start int, token *addedToken) {
	for ; i < len(text); i++ {
		if s.only >= 0 {
			next := strings.IndexByte(text[i:], byte(s.only))
			if next < 0 {
				break
			}
			i += next
		}
		if b := text[i]; s.from[b] != s.from[int(b)+1] {
			if t := s.longest(text[i:]); t != nil {
				return i, t
			}
		}
	}
	return len(text), nil
}

// longest is the longest token that text begins with: the candidates, in order, are narrowed byte by byte.
func (s *addedSet) longest(text string) (found *addedToken) {
	lo, hi := int(s.from[text[0]]), int(s.from[int(text[0])+1])
	for depth := 1; lo < hi; depth++ {
		if first := &s.tokens[lo]; len(first.Content) == depth {
			found = first
			lo++
		}
		if depth == len(text) {
			break
		}
		lo, hi = s.narrow(lo, hi, depth, text[depth])
	}
	return found
}

// narrow keeps the tokens of [lo, hi) whose byte at depth is b; all of them are longer than depth.
func (s *addedSet) narrow(lo, hi, depth int, b byte) (int, int) {
	at := func(want int) int {
		from, to := lo, hi
		for from < to {
			middle := (from + to) / 2
			if int(s.tokens[middle].Content[depth]) < want {
				from = middle + 1
			} else {
				to = middle
			}
		}
		return from
	}
	return at(int(b)), at(int(b) + 1)
}

// loadAdded reads the added tokens. The reference does not take their ids from the file, it gives them out: a token of the vocabulary
// keeps its id, others follow behind. A file in which that comes to another id is refused.
func (t *Tokenizer) loadAdded(array []byte) error {
	if null(array) {
		t.added, t.addedNormal = newAddedSet(nil), newAddedSet(nil)
		return nil
	}
	listed, err := readAdded(array)
	if err != nil {
		return fmt.Errorf("added_tokens: %w", err)
	}
	t.byContent, t.addedByID = make(map[string]uint32, len(listed)), make(map[uint32]addedToken, len(listed))
	next := uint32(t.model.count)
	var plain, normal []addedToken
	for _, a := range listed {
		if twin, seen := t.addedByID[a.ID]; seen {
			if twin == a {
				continue
			}
			return fmt.Errorf("added_tokens: the id %d is that of %s and of %s", a.ID, quote(twin.Content), quote(a.Content))
		}
		id := t.model.named(a.Content)
		if id == none {
			id = next
			next++
		}
		switch {
		case id != a.ID:
			return unknown("an added token %s whose id is out of line with the vocabulary", a.Content)
		case len(a.Content) > addedBytesMax:
			return fmt.Errorf("added_tokens: %s has %d bytes, more than %d", quote(a.Content), len(a.Content), addedBytesMax)
		}
		t.byContent[a.Content], t.addedByID[id] = id, a
		if a.Normalized {
			normal = append(normal, a)
		} else {
			plain = append(plain, a)
		}
	}
	t.added, t.addedNormal = newAddedSet(plain), newAddedSet(t.normalisedTokens(normal))
	return nil
}

// readAdded takes one after the other, and passes over empty ones, as the reference does.
func readAdded(array []byte) (listed []addedToken, err error) {
	d := decoder(array)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return nil, errors.Join(errors.New("no array"), err)
	}
	for d.PeekKind() != ']' {
		var a addedToken
		if err := json.UnmarshalDecode(d, &a); err != nil {
			return nil, err
		}
		if a.Content != "" {
			listed = append(listed, a)
		}
	}
	return listed, nil
}

// normalisedTokens are those that are looked for in normalised text, as they look there. Of those that look alike special ones win, then
// those that come first.
func (t *Tokenizer) normalisedTokens(tokens []addedToken) []addedToken {
	var out []addedToken
	seen := map[string]bool{}
	for _, special := range []bool{true, false} {
		for _, a := range tokens {
			a.Content = t.normalise(a.Content)
			if a.Special == special && a.Content != "" && !seen[a.Content] {
				seen[a.Content] = true
				out = append(out, a)
			}
		}
	}
	return out
}

// cutter walks over text and stops at added tokens and at what lies between them.
type cutter struct {
	set     *addedSet
	text    string
	plain   bool // special tokens are text
	done    int  // up to where pieces were given out
	search  int  // from where to look on
	pending *addedToken
	until   int // where the pending token's place ends
}

// next is the next piece, and its token if it is one; its place ends at c.done. ok is false at the end.
func (c *cutter) next() (piece string, token *addedToken, ok bool) {
	if c.pending != nil {
		token, piece = c.pending, c.text[min(c.done, c.until):c.until]
		c.pending, c.done = nil, c.until
		return piece, token, true
	}
	for {
		start, t := c.set.find(c.text, c.search)
		if t == nil {
			break
		}
		stop := start + len(t.Content)
		c.search = stop
		if c.plain && t.Special || t.SingleWord && words.Touches(c.text, start, stop) {
			continue
		}
		if t.Lstrip {
			start = max(c.done, words.SpaceBefore(c.text, start))
		}
		if t.Rstrip {
			stop = words.SpaceRun(c.text, stop)
		}
		c.pending, c.until = t, stop
		if from := c.done; from < start {
			c.done = start
			return c.text[from:start], nil, true
		}
		return c.next()
	}
	if from := c.done; from < len(c.text) {
		c.done, c.search = len(c.text), len(c.text)
		return c.text[from:], nil, true
	}
	return "", nil, false
}
