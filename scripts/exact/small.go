package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/tokenizer"
)

// small is a tokenizer of some hundred merges: small enough to be kept beside the tests, with what the reference says.
type small struct {
	name string
	file []byte
}

const (
	mergesKept = 260
	addedKept  = 16
)

// tree is a tokenizer.json, or a part of it, as JSON has it.
type tree = map[string]any

func markedSpellings(file []byte) ([]string, error) {
	var f struct {
		Added []struct {
			Content string `json:"content"`
		} `json:"added_tokens"`
	}
	if err := json.Unmarshal(file, &f); err != nil {
		return nil, err
	}
	list := []string{"<|im_start|>", "<|eot_id|>", "<s>", "</s>", "<0x0A>", "<h1>", "▁▁", "<|", "|>"}
	for _, a := range f.Added {
		if a.Content != "" {
			list = append(list, a.Content)
		}
	}
	return list, nil
}

// smallTokenizers are the families, cut down, and what else is known, built on two of them.
func smallTokenizers(modules string) ([]small, error) {
	var all []small
	bases := map[string]tree{}
	for _, name := range families {
		text, err := os.ReadFile(familyFile(modules, name))
		if err != nil {
			return nil, err
		}
		if bases[name], err = cutDown(text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		file, err := json.Marshal(bases[name])
		if err != nil {
			return nil, err
		}
		all = append(all, small{name, file})
	}
	for _, v := range variants {
		base, err := clone(bases[v.base])
		if err != nil {
			return nil, err
		}
		v.change(base)
		file, err := json.Marshal(base)
		if err != nil {
			return nil, err
		}
		all = append(all, small{v.name, file})
	}
	return all, nil
}

func clone(t tree) (copied tree, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return copied, json.Unmarshal(text, &copied)
}

// cutDown keeps the first merges, what they need, single bytes and some added tokens, and gives all of them new ids.
func cutDown(file []byte) (tree, error) {
	var t tree
	if err := json.Unmarshal(file, &t); err != nil {
		return nil, err
	}
	model := t["model"].(tree)
	vocab := model["vocab"].(tree)
	kept := map[string]bool{}
	for text := range vocab {
		if bytesToken := len(text) == 6 && strings.HasPrefix(text, "<0x"); bytesToken || len([]rune(text)) == 1 && text < "ń" || text == "▁" {
			kept[text] = true
		}
	}
	merges := model["merges"].([]any)[:mergesKept]
	model["merges"] = merges
	for _, m := range merges {
		left, right := mergeTexts(m)
		kept[left], kept[right], kept[left+right] = true, true, true
	}
	added := keepAdded(t["added_tokens"].([]any))
	for _, a := range added {
		if text := a.(tree)["content"].(string); vocab[text] != nil {
			kept[text] = true
		}
	}
	var order []string
	for text := range kept {
		order = append(order, text)
	}
	slices.SortFunc(order, func(a, b string) int { return int(vocab[a].(float64) - vocab[b].(float64)) })
	ids := tree{}
	for id, text := range order {
		ids[text] = id
	}
	model["vocab"] = ids
	number(t, added)
	return t, nil
}

func mergeTexts(m any) (left, right string) {
	if s, ok := m.(string); ok {
		left, right, _ = strings.Cut(s, " ")
		return left, right
	}
	return m.([]any)[0].(string), m.([]any)[1].(string)
}

// keepAdded takes the first ones, and those that are unlike them.
func keepAdded(all []any) (kept []any) {
	for _, a := range all {
		if len(kept) < addedKept || a.(tree)["normalized"].(bool) && len(kept) < 2*addedKept {
			kept = append(kept, a)
		}
	}
	return kept
}

// number gives added tokens the ids that they would be given: their own in the vocabulary, else those behind it.
func number(t tree, added []any) {
	vocab := t["model"].(tree)["vocab"].(tree)
	next := len(vocab)
	byContent := tree{}
	for _, a := range added {
		a := a.(tree)
		if id, known := vocab[a["content"].(string)]; known {
			a["id"] = id
		} else {
			a["id"] = next
			next++
		}
		byContent[a["content"].(string)] = a["id"]
	}
	t["added_tokens"] = added
	if post, ok := t["post_processor"].(tree); ok && post["type"] == "TemplateProcessing" {
		for text, s := range post["special_tokens"].(tree) {
			s.(tree)["ids"] = []any{byContent[text]}
		}
	}
}

// sampled is a file of internal/tokenizer/testdata.
type sampled struct {
	Tokenizer json.RawMessage `json:"tokenizer"`
	Strings   []string        `json:"strings"`
	IDs       [][]uint32      `json:"ids"`
	Wrapped   [][]uint32      `json:"wrapped"`
}

const (
	sampleStrings     = 130 // of those chosen by hand, and again as many random ones
	sampleStringBytes = 120
)

func writeSample(r *reference, modules string, seed uint64, dir string) error {
	all, err := smallTokenizers(modules)
	if err != nil {
		return err
	}
	for i, s := range all {
		if _, err := tokenizer.Load(s.file); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		list, err := sampleOf(s.file, seed+uint64(i))
		if err != nil {
			return err
		}
		file, err := r.file("tokenizer", s.file)
		if err != nil {
			return err
		}
		out := sampled{Tokenizer: s.file, Strings: list}
		if out.IDs, err = r.encode(file, list, false); err != nil {
			return err
		}
		if out.Wrapped, err = r.encode(file, list[:10], true); err != nil {
			return err
		}
		if err := writePacked(filepath.Join(dir, s.name+".json.gz"), out); err != nil {
			return err
		}
	}
	return nil
}

// sampleOf draws strings that are short.
func sampleOf(file []byte, seed uint64) ([]string, error) {
	marked, err := markedSpellings(file)
	if err != nil {
		return nil, err
	}
	c, err := newCorpus(seed, marked)
	if err != nil {
		return nil, err
	}
	chosen := c.nasty()
	c.random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	next := func() string {
		if len(chosen) > 0 {
			s := chosen[0]
			chosen = chosen[1:]
			return s
		}
		return c.fuzz()
	}
	var list []string
	for len(list) < 2*sampleStrings {
		if len(list) == sampleStrings {
			chosen = nil
		}
		if s := next(); len(s) <= sampleStringBytes {
			list = append(list, s)
		}
	}
	return list, nil
}

func writePacked(name string, v any) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(z).Encode(v); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o600)
}
