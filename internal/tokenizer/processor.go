package tokenizer

import (
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"fmt"
	"slices"
)

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
		if json.Unmarshal(text, &kind) == nil && !slices.Contains([]string{"ByteLevel", "TemplateProcessing", "Sequence"}, kind.Type) {
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
