package tokenizer

import (
	"bytes"
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/internal/words"
)

// fields finds the members of a JSON object that are named and gives their text. Others are passed over, as the reference does.
func fields(object []byte, names ...string) (map[string][]byte, error) {
	d := decoder(object)
	if t, err := d.ReadToken(); err != nil {
		return nil, err
	} else if t.Kind() != '{' {
		return nil, fmt.Errorf("%s where an object should be", t.Kind())
	}
	found := map[string][]byte{}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := t.String()
		from := d.InputOffset()
		if err := d.SkipValue(); err != nil {
			return nil, err
		}
		for _, n := range names {
			if n == name {
				found[n] = bytes.TrimLeft(object[from:d.InputOffset()], ": \t\r\n")
			}
		}
	}
	_, err := d.ReadToken()
	return found, err
}

func decoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
}

func null(value []byte) bool { return len(value) == 0 || string(value) == "null" }

// Load reads a tokenizer.json, whole. The error wraps ErrUnknown where the file asks for something that is not known here.
// Its settings for truncation and padding are not heeded: engines switch both off.
func Load(file []byte) (*Tokenizer, error) {
	words.Ready()
	t, err := load(file)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

func load(file []byte) (*Tokenizer, error) {
	top, err := fields(file, "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model")
	if err != nil {
		return nil, err
	}
	if null(top["model"]) {
		return nil, errors.New("the file has no model: it is no tokenizer.json")
	}
	t := &Tokenizer{}
	if err := t.loadNormalizer(top["normalizer"]); err != nil {
		return nil, err
	}
	if err := t.loadPreTokenizer(top["pre_tokenizer"]); err != nil {
		return nil, err
	}
	if err := t.loadDecoder(top["decoder"]); err != nil {
		return nil, err
	}
	if err := t.model.load(top["model"], t.pre.byteLevel); err != nil {
		return nil, err
	}
	if err := t.loadAdded(top["added_tokens"]); err != nil {
		return nil, err
	}
	return t, t.loadPostProcessor(top["post_processor"])
}

// modelFile is a model without its tokens and merges.
type modelFile struct {
	Type                    string   `json:"type"`
	Dropout                 *float64 `json:"dropout"`
	UnkToken                *string  `json:"unk_token"`
	ContinuingSubwordPrefix *string  `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string  `json:"end_of_word_suffix"`
	FuseUnk                 bool     `json:"fuse_unk"`
	ByteFallback            bool     `json:"byte_fallback"`
	IgnoreMerges            bool     `json:"ignore_merges"`
}

func (m *model) load(object []byte, byteLevel bool) error {
	var f modelFile
	parts, err := fields(object, "type", "vocab", "merges", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges")
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	vocab, merged := parts["vocab"], parts["merges"]
	delete(parts, "vocab")
	delete(parts, "merges")
	if err := f.read(parts); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if f.Type != "BPE" && f.Type != "" {
		return unknown("the model kind %s: only BPE is", f.Type)
	}
	if vocab == nil || merged == nil {
		return unknown("a model without %s", "vocab and merges") // files before 2020 left out the type; then these tell it
	}
	switch {
	case f.Dropout != nil && *f.Dropout != 0:
		return unknown("model.dropout: with it the same text gives other tokens each time")
	case f.ContinuingSubwordPrefix != nil && *f.ContinuingSubwordPrefix != "":
		return unknown("model.continuing_subword_prefix %s", *f.ContinuingSubwordPrefix)
	case f.EndOfWordSuffix != nil && *f.EndOfWordSuffix != "":
		return unknown("model.end_of_word_suffix %s", *f.EndOfWordSuffix)
	case byteLevel && f.ByteFallback:
		return unknown("model.byte_fallback together with the pre-tokenizer %s", "ByteLevel")
	}
	m.byteLevel, m.ignoreMerges, m.fuse, m.unknown, m.cache = byteLevel, f.IgnoreMerges, f.FuseUnk, none, new(wordCache)
	if err := m.loadVocab(vocab); err != nil {
		return err
	}
	if f.UnkToken != nil {
		if m.unknown = m.named(*f.UnkToken); m.unknown == none && *f.UnkToken != "" {
			return fmt.Errorf("model.unk_token: %s is not in the vocabulary", quote(*f.UnkToken))
		}
	}
	if err := m.loadByteIDs(f.ByteFallback); err != nil {
		return err
	}
	return m.loadMerges(merged)
}

// read takes each member by itself, so that an error names it.
func (f *modelFile) read(parts map[string][]byte) error {
	into := map[string]any{"type": &f.Type, "dropout": &f.Dropout, "unk_token": &f.UnkToken, "continuing_subword_prefix": &f.ContinuingSubwordPrefix,
		"end_of_word_suffix": &f.EndOfWordSuffix, "fuse_unk": &f.FuseUnk, "byte_fallback": &f.ByteFallback, "ignore_merges": &f.IgnoreMerges}
	var errs []error
	for name, text := range parts {
		if !null(text) {
			errs = append(errs, json.Unmarshal(text, into[name]))
		}
	}
	return errors.Join(errs...)
}

func (m *model) loadVocab(object []byte) error {
	d := decoder(object)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return unknown("model.vocab that is no object of texts and ids")
	}
	m.hidden = map[string]uint32{}
	var text []byte
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("model.vocab: %w", err)
		}
		spelt, plain := name.String(), true
		if text = append(text[:0], spelt...); m.byteLevel {
			text, plain = appendBytes(text[:0], spelt)
		}
		number, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("model.vocab: %w", err)
		}
		if number.Kind() != '0' {
			return fmt.Errorf("model.vocab: the id of %s is no number", quote(spelt))
		}
		id, err := number.Uint()
		if err != nil {
			return fmt.Errorf("model.vocab: the id of %s: %w", quote(spelt), err)
		}
		if err := m.vocabulary.add(text, id); err != nil {
			return err
		}
		if !plain {
			if twin, seen := m.hidden[spelt]; seen {
				return fmt.Errorf("model.vocab: %s has the ids %d and %d", quote(spelt), twin, id)
			}
			m.hidden[spelt] = uint32(id)
		}
	}
	return m.vocabulary.index(m.hidden)
}

// named is the token that the file spells so, or none.
func (m *model) named(spelt string) uint32 {
	if !m.byteLevel {
		return m.word(spelt)
	}
	if text, plain := appendBytes(nil, spelt); plain {
		return m.id(text)
	}
	if id, ok := m.hidden[spelt]; ok {
		return id
	}
	return none
}

func (m *model) loadByteIDs(fallback bool) error {
	m.fallback = fallback
	missing := 0
	for b := range m.byteIDs {
		if m.byteLevel {
			m.byteIDs[b] = m.id([]byte{byte(b)})
			continue
		}
		if m.byteIDs[b] = m.word(byteToken(b)); m.byteIDs[b] == none {
			missing++
		}
	}
	if missing == 256 {
		m.fallback = false // nothing to fall back to, so that all of it becomes unknown
	} else if m.fallback && missing > 0 {
		return unknown("model.byte_fallback without all 256 tokens from <0x00> to <0xFF>")
	}
	return nil
}

// loadMerges reads "a b" or ["a","b"], one or the other throughout.
func (m *model) loadMerges(array []byte) error {
	d := decoder(array)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return unknown("model.merges that is no array")
	}
	var pairs []uint64
	for d.PeekKind() != ']' {
		left, right, err := mergeOf(d)
		if err != nil {
			return fmt.Errorf("model.merges: number %d: %w", len(pairs), err)
		}
		if left == "" && right == "" {
			continue
		}
		if len(pairs) == mergesMax {
			return fmt.Errorf("model.merges: more than %d", mergesMax)
		}
		key, result, err := m.mergeIDs(left, right)
		if err != nil {
			return fmt.Errorf("model.merges: number %d: %w", len(pairs), err)
		}
		pairs, m.result = append(pairs, key), append(m.result, result)
	}
	m.merges.index(pairs)
	m.findCuts(pairs)
	return nil
}

// mergeOf reads one merge; both empty is a line to pass over.
func mergeOf(d *jsontext.Decoder) (left, right string, err error) {
	t, err := d.ReadToken()
	switch {
	case err != nil:
		return "", "", err
	case t.Kind() == '"':
		both := t.String()
		if strings.HasPrefix(both, "#version") {
			return "", "", nil
		}
		var ok bool
		if left, right, ok = strings.Cut(both, " "); !ok || strings.Contains(right, " ") {
			return "", "", fmt.Errorf("%s is not two texts with a blank between them", quote(both))
		}
		return left, right, nil
	case t.Kind() != '[':
		return "", "", fmt.Errorf("%s where a text or a pair should be", t.Kind())
	}
	var two [3]string
	n := 0
	for ; n < len(two); n++ {
		if t, err = d.ReadToken(); err != nil {
			return "", "", err
		}
		if t.Kind() != '"' {
			break
		}
		two[n] = t.String()
	}
	if n != 2 || t.Kind() != ']' {
		return "", "", errors.New("not a pair of texts")
	}
	return two[0], two[1], nil
}

// mergeIDs looks the pair and its result up. Tokens that no text can become never join.
func (m *model) mergeIDs(left, right string) (key uint64, result uint32, err error) {
	l, r := []byte(left), []byte(right)
	if m.byteLevel {
		var plainLeft, plainRight bool
		l, plainLeft = appendBytes(nil, left)
		r, plainRight = appendBytes(nil, right)
		if !plainLeft || !plainRight {
			return noPair, none, nil
		}
	}
	a, b := m.id(l), m.id(r)
	result = m.id(append(l, r...))
	if a == none || b == none || result == none {
		return 0, 0, fmt.Errorf("%s and %s, or what they become, are not in the vocabulary", quote(left), quote(right))
	}
	return pairKey(a, b), result, nil
}
