package tokenizer

import (
	"bytes"
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/warmpath/warmpath/internal/joins"
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
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errors.Join(errors.New("there is something behind the object's end"), err)
	}
	return found, nil
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
	top, err := fields(file, "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model", "config", "vocab")
	if err != nil {
		return nil, err
	}
	if !null(top["config"]) && !null(top["vocab"]) && null(top["model"]) {
		return nil, unknown("the format of tekken.json: the tokenizer.json that is published beside it is")
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
	m.fallback, m.byteLevel, m.ignoreMerges, m.fuse, m.unknown, m.cache = f.ByteFallback, byteLevel, f.IgnoreMerges, f.FuseUnk, none, new(wordCache)
	if err := m.loadVocab(vocab); err != nil {
		return err
	}
	if f.UnkToken != nil {
		if m.unknown = m.named(*f.UnkToken); m.unknown == none && *f.UnkToken != "" {
			return fmt.Errorf("model.unk_token: %s is not in the vocabulary", quote(*f.UnkToken))
		}
	}
	m.loadByteIDs()
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
	var spelt []byte
	for d.PeekKind() == '"' {
		var err error
		if spelt, err = appendText(spelt[:0], d); err != nil {
			return fmt.Errorf("model.vocab: %w", err)
		}
		number, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("model.vocab: %w", err)
		}
		if number.Kind() != '0' {
			return fmt.Errorf("model.vocab: the id of %s is no number", quote(string(spelt)))
		}
		id, err := number.Uint()
		if err != nil {
			return fmt.Errorf("model.vocab: the id of %s: %w", quote(string(spelt)), err)
		}
		if err := m.enter(spelt, id); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return fmt.Errorf("model.vocab: %w", err)
	}
	return m.vocabulary.index(m.hidden)
}

// enter adds a token as the file spells it.
func (m *model) enter(spelt []byte, id uint64) error {
	var room [64]byte
	text, plain := append(room[:0], spelt...), true
	if m.byteLevel {
		text, plain = appendBytes(room[:0], spelt)
	}
	if err := m.vocabulary.add(text, id); err != nil {
		return err
	}
	if !plain {
		if twin, seen := m.hidden[string(spelt)]; seen {
			return fmt.Errorf("model.vocab: %s has the ids %d and %d", quote(string(spelt)), twin, id)
		}
		m.hidden[string(spelt)] = uint32(id)
	}
	return nil
}

// appendText appends the next value, which must be a text.
func appendText(dst []byte, d *jsontext.Decoder) ([]byte, error) {
	v, err := d.ReadValue()
	if err != nil {
		return dst, err
	}
	if v.Kind() != '"' {
		return dst, fmt.Errorf("%s where a text should be", v.Kind())
	}
	return jsontext.AppendUnquote(dst, v)
}

// named is the token that the file spells so, or none.
func (m *model) named(spelt string) uint32 {
	if !m.byteLevel {
		return m.word(spelt)
	}
	if text, plain := appendBytes(nil, []byte(spelt)); plain {
		return m.id(text)
	}
	if id, ok := m.hidden[spelt]; ok {
		return id
	}
	return none
}

func (m *model) loadByteIDs() {
	for b := range m.byteIDs {
		if m.byteLevel {
			m.byteIDs[b] = m.id([]byte{byte(b)})
		} else {
			m.byteIDs[b] = m.word(byteToken(b))
		}
	}
	for c := range m.asciiIDs {
		m.asciiIDs[c] = m.id([]byte{byte(c)})
	}
}

// loadMerges reads "a b" or ["a","b"], one or the other throughout.
func (m *model) loadMerges(array []byte) error {
	d := decoder(array)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return unknown("model.merges that is no array")
	}
	var pairs []uint64
	var results []uint32
	var left, right []byte
	for d.PeekKind() != ']' {
		var err error
		if left, right, err = mergeOf(left[:0], right[:0], d); err != nil {
			return fmt.Errorf("model.merges: number %d: %w", len(pairs), err)
		}
		if len(left) == 0 && len(right) == 0 {
			continue
		}
		if len(pairs) == joins.PairsMax {
			return fmt.Errorf("model.merges: more than %d", joins.PairsMax)
		}
		key, result, err := m.mergeIDs(left, right)
		if err != nil {
			return fmt.Errorf("model.merges: number %d: %w", len(pairs), err)
		}
		pairs, results = append(pairs, key), append(results, result)
	}
	m.joins.Fill(pairs, slices.Clone(results))
	m.findCuts(pairs)
	return nil
}

// mergeOf appends the two sides of one merge; both empty is a line to pass over.
func mergeOf(left, right []byte, d *jsontext.Decoder) (l, r []byte, err error) {
	if d.PeekKind() != '[' {
		both, err := appendText(left, d)
		if err != nil || bytes.HasPrefix(both, []byte("#version")) {
			return left, right, err
		}
		return cutMerge(right, both)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, err
	}
	if left, err = appendText(left, d); err != nil {
		return nil, nil, err
	}
	if right, err = appendText(right, d); err != nil {
		return nil, nil, err
	}
	if end, err := d.ReadToken(); err != nil || end.Kind() != ']' {
		return nil, nil, errors.Join(errors.New("not a pair of texts"), err)
	}
	return left, right, nil
}

// cutMerge cuts "a b" in two; the second is appended to right.
func cutMerge(right, both []byte) (l, r []byte, err error) {
	l, behind, ok := bytes.Cut(both, []byte(" "))
	if !ok || bytes.Contains(behind, []byte(" ")) {
		return nil, nil, fmt.Errorf("%s is not two texts with a blank between them", quote(string(both)))
	}
	return l, append(right, behind...), nil
}

// mergeIDs looks the pair and its result up. Tokens that no text can become never join.
func (m *model) mergeIDs(left, right []byte) (key uint64, result uint32, err error) {
	if m.byteLevel {
		var plainLeft, plainRight bool
		var room [2][64]byte
		left, plainLeft = appendBytes(room[0][:0], left)
		right, plainRight = appendBytes(room[1][:0], right)
		if !plainLeft || !plainRight {
			return joins.NoPair, none, nil
		}
	}
	var room [128]byte
	a, b := m.id(left), m.id(right)
	result = m.id(append(append(room[:0], left...), right...))
	if a == none || b == none || result == none {
		return 0, 0, fmt.Errorf("%s and %s, or what they become, are not in the vocabulary", quote(string(left)), quote(string(right)))
	}
	return joins.Key(a, b), result, nil
}
