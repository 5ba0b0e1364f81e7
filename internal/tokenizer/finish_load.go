package tokenizer

import (
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"errors"
	"fmt"
	"strings"
)

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

// processor is a post-processor as the file has it.
type processor struct {
	Type           string                 `json:"type"`
	Processors     []processor            `json:"processors"`
	Single         []templatePiece        `json:"single"`
	Pair           jsontext.Value         `json:"pair"` // for two texts at once, which there are not here
	SpecialTokens  map[string]templateIDs `json:"special_tokens"`
	AddPrefixSpace bool                   `json:"add_prefix_space"` // these three move offsets only
	TrimOffsets    bool                   `json:"trim_offsets"`
	UseRegex       bool                   `json:"use_regex"`
}

type templatePiece struct {
	SpecialToken *struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	} `json:"Sequence"`
}

type templateIDs struct {
	ID     string   `json:"id"`
	IDs    []uint32 `json:"ids"`
	Tokens []string `json:"tokens"`
}

func (t *Tokenizer) loadPostProcessor(text []byte) error {
	if null(text) {
		return nil
	}
	var p processor
	if err := json.Unmarshal(text, &p, json.RejectUnknownMembers(true)); err != nil {
		// The kind comes first: what members it has matters less than that it is not known at all.
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(text, &kind) == nil && !strings.Contains("ByteLevel TemplateProcessing Sequence", kind.Type) {
			return unknown("the post-processor %s: ByteLevel, TemplateProcessing and Sequence are", kind.Type)
		}
		return fmt.Errorf("post_processor: %w", unknown("%s", err.Error()))
	}
	return t.addProcessor(p)
}

func (t *Tokenizer) addProcessor(p processor) error {
	switch p.Type {
	case "ByteLevel":
		return nil
	case "Sequence":
		for _, q := range p.Processors {
			if err := t.addProcessor(q); err != nil {
				return err
			}
		}
		return nil
	case "TemplateProcessing":
		return t.addTemplate(p)
	}
	return unknown("the post-processor %s: ByteLevel, TemplateProcessing and Sequence are", p.Type)
}

// addTemplate notes what goes before the text and behind it. A template within another's goes inside.
func (t *Tokenizer) addTemplate(p processor) error {
	var before, behind []uint32
	seen := false
	for _, piece := range p.Single {
		switch {
		case piece.Sequence != nil && piece.Sequence.ID == "A" && !seen:
			seen = true
		case piece.SpecialToken != nil:
			ids, known := p.SpecialTokens[piece.SpecialToken.ID]
			if !known {
				return fmt.Errorf("post_processor: the template's token %s is not among its special_tokens", quote(piece.SpecialToken.ID))
			}
			if seen {
				behind = append(behind, ids.IDs...)
			} else {
				before = append(before, ids.IDs...)
			}
		default:
			return unknown("a template that does not hold the text once")
		}
	}
	if !seen {
		return unknown("a template that does not hold the text once")
	}
	t.before, t.behind = append(before, t.before...), append(t.behind, behind...)
	return nil
}
