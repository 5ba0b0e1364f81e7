package modelfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/leash"
	"github.com/warmpath/warmpath/internal/tokenizer"
)

// pair is a key and its value: a string, bool, uint32, float32, []string, []int32, []float32, or raw bytes with the kind in front.
type pair struct {
	key   string
	value any
}

// gguf writes the header of a .gguf file.
func gguf(order binary.AppendByteOrder, version uint32, pairs ...pair) []byte {
	out := order.AppendUint32([]byte(ggufMagic), version)
	out = order.AppendUint64(order.AppendUint64(out, 0), uint64(len(pairs)))
	text := func(s string) { out = append(order.AppendUint64(out, uint64(len(s))), s...) }
	list := func(kind uint32, n int) {
		out = order.AppendUint64(order.AppendUint32(order.AppendUint32(out, kindArray), kind), uint64(n))
	}
	for _, p := range pairs {
		text(p.key)
		switch v := p.value.(type) {
		case string:
			out = order.AppendUint32(out, kindString)
			text(v)
		case bool:
			out = append(order.AppendUint32(out, kindBool), map[bool]byte{true: 1}[v])
		case uint32:
			out = order.AppendUint32(order.AppendUint32(out, kindUint32), v)
		case float32:
			out = order.AppendUint32(order.AppendUint32(out, kindFloat32), math.Float32bits(v))
		case []string:
			list(kindString, len(v))
			for _, s := range v {
				text(s)
			}
		case []int32:
			list(kindInt32, len(v))
			for _, n := range v {
				out = order.AppendUint32(out, uint32(n))
			}
		case []float32:
			list(kindFloat32, len(v))
			for _, n := range v {
				out = order.AppendUint32(out, math.Float32bits(n))
			}
		case []byte:
			out = append(out, v...)
		}
	}
	return out
}

// with puts pairs in, in the place of those of the same key.
func with(all []pair, more ...pair) []pair {
	for _, p := range more {
		at := slices.IndexFunc(all, func(q pair) bool { return q.key == p.key })
		if at < 0 {
			all = append(all, p)
		} else {
			all[at] = p
		}
	}
	return all
}

// byteLevel is a small model of the gpt2 kind: letters, blank, line end, three merges, a control token, one of users.
func byteLevel(more ...pair) []pair {
	tokens := []string{"<|im_start|>", "<|im_end|>", "<tool>", "Ġ", "Ċ", "ab", "abc", "Ġa", "user", "[PAD9]"}
	types := []int32{typeControl, typeUser, typeUser, typeNormal, typeNormal, typeNormal, typeNormal, typeNormal, typeNormal, typeUnused}
	for c := '!'; c <= '~'; c++ {
		tokens, types = append(tokens, string(c)), append(types, typeNormal)
	}
	return with([]pair{
		{"general.architecture", "llama"}, {"general.alignment", uint32(32)}, {"llama.rope.freq_base", float32(1e5)}, {"general.tags", []string{"a", "b"}},
		{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "smollm"}, {"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.token_type", types},
		{"tokenizer.ggml.merges", []string{"a b", "ab c", "Ġ a", "b c", "a b"}[:3]}, {"tokenizer.ggml.bos_token_id", uint32(0)}, {"tokenizer.ggml.eos_token_id", uint32(1)},
		{"tokenizer.chat_template", "{{ bos_token }}{% for m in messages %}{{ m.role }}\n{{ m.content }}{{ eos_token }}\n{% endfor %}"},
	}, more...)
}

func load(t *testing.T, file []byte) *Model {
	t.Helper()
	m, err := loadGGUF(bytes.NewReader(file[len(ggufMagic):]))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// spelt are the tokens of a text, with | between them.
func spelt(m *Model, text string, o tokenizer.Options) string {
	var all []string
	for _, id := range m.Tokenizer.Encode(nil, text, o) {
		s, _ := m.Tokenizer.Text(id)
		all = append(all, s)
	}
	return strings.Join(all, "|")
}

func TestAGGUFFileOfEitherVersionAndByteOrderIsRead(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, version := range []uint32{2, 3} {
			m := load(t, gguf(order, version, byteLevel()...))
			if got := spelt(m, "<|im_start|>user\nabcab a", tokenizer.Options{}); got != "<|im_start|>|u|s|e|r|\n|abc|ab| a" {
				t.Errorf("%v, version %d: %s", order, version, got)
			}
			if m.Template == nil || m.Form != FormGGUF {
				t.Error(m.Form, m.TemplateWhy)
			}
		}
	}
}

func TestTokensAreFoundInTextByTheirTypesAndNames(t *testing.T) {
	m := load(t, gguf(binary.LittleEndian, 3, byteLevel()...))
	f := func(text, want string, o tokenizer.Options) {
		t.Helper()
		if got := spelt(m, text, o); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	plain := tokenizer.Options{PlainSpecial: true}
	f("a<tool>b", "a|<tool>|b", tokenizer.Options{})
	f("a<tool>b", "a|<tool>|b", plain) // a user's token is found always
	f("a<|im_end|>", "a|<|im_end|>", tokenizer.Options{})
	f("a<|im_end|>", "a|<|||i|m|_|e|n|d|||>", plain) // control by its name, whatever the type says
	f("[PAD9]", "[|P|A|D|9|]", tokenizer.Options{})  // unused
	f("a\x01b", "a|b", tokenizer.Options{})          // no token: it vanishes, and keeps a and b apart
	f("aéb", "a|b", tokenizer.Options{})
}

func TestBOSAndEOSGoAroundAPromptOnceWhateverTheTemplateWrites(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"a"}]}`
	for _, c := range []struct {
		more []pair
		want string
	}{
		{nil, "<|im_start|>|u|s|e|r|\n|a|<|im_end|>|\n"},
		{[]pair{{"tokenizer.ggml.add_bos_token", true}}, "<|im_start|>|u|s|e|r|\n|a|<|im_end|>|\n"},
		{[]pair{{"tokenizer.ggml.add_bos_token", true}, {"tokenizer.ggml.add_eos_token", true}, {"tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"}},
			"<|im_start|>|a|<|im_end|>"},
		{[]pair{{"tokenizer.ggml.add_bos_token", true}, {"tokenizer.chat_template", "{{ messages[0].content }}"}}, "<|im_start|>|a"},
	} {
		m := load(t, gguf(binary.LittleEndian, 3, byteLevel(c.more...)...))
		rendered, err := m.Template.Render(body, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		text, o := m.Prompt(rendered)
		if got := spelt(m, text, o); got != c.want {
			t.Errorf("%v: %q, want %q", c.more, got, c.want)
		}
	}
}

// scored is a small model of the llama kind.
func scored(scores []float32, tokens []string, more ...pair) []pair {
	all, types, points := []string{"<unk>", "<s>", "</s>"}, []int32{typeUnknown, typeControl, typeControl}, []float32{0, 0, 0}
	for b := range 256 {
		all, types, points = append(all, "<0x"+strings.ToUpper(string("0123456789abcdef"[b>>4])+string("0123456789abcdef"[b&15]))+">"), append(types, typeByte), append(points, 0)
	}
	for i, s := range tokens {
		all, types, points = append(all, s), append(types, typeNormal), append(points, scores[i])
	}
	return with([]pair{{"tokenizer.ggml.model", "llama"}, {"tokenizer.ggml.tokens", all}, {"tokenizer.ggml.token_type", types}, {"tokenizer.ggml.scores", points}}, more...)
}

func TestAVocabularyWithScoresJoinsTheBestPairFirstAndOfEqualsTheLeftmost(t *testing.T) {
	f := func(text, want string, pairs []pair) {
		t.Helper()
		if got := spelt(load(t, gguf(binary.LittleEndian, 3, pairs...)), text, tokenizer.Options{Wrap: true}); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	letters := []string{"a", "b", "c", "▁"}
	flat := []float32{-9, -9, -9, -9}
	f("abc", "<s>| |ab|c", scored(append(flat, -1, -2), append(letters, "ab", "bc")))
	f("abc", "<s>| |a|bc", scored(append(flat, -2, -1), append(letters, "ab", "bc")))
	f("abc", "<s>| |ab|c", scored(append(flat, -1, -1), append(letters, "bc", "ab"))) // equals
	f("abé<s>c", "<s>| |ab|\xc3|\xa9|<s>| |c", scored(append(flat, -1), append(letters, "ab")))
	// All runs of blanks score alike: the one at the left grows.
	f("a    b", "<s>| a|   | b", scored([]float32{-9, -9, -9, -9, 0, 0, -1, -2}, append(letters, "▁▁", "▁▁▁", "▁a", "▁b")))
	f("ab", "<s>|ab", scored(append(flat, -1), append(letters, "ab"), pair{"tokenizer.ggml.add_space_prefix", false}))
	f("ab", "| |ab|</s>"[1:], scored(append(flat, -1), append(letters, "ab"), pair{"tokenizer.ggml.add_bos_token", false}, pair{"tokenizer.ggml.add_eos_token", true}))
}

func TestAGGUFFileThatIsNotKnownIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		pairs []pair
		name  string
	}{
		{byteLevel(pair{"tokenizer.ggml.model", "bert"}), `"bert"`},
		{byteLevel(pair{"tokenizer.ggml.model", "t5"}), `"t5"`},
		{byteLevel(pair{"tokenizer.ggml.pre", "kimi-k2"}), `"kimi-k2"`},
		{byteLevel(pair{"tokenizer.ggml.add_sep_token", true}), "add_sep_token"},
		{byteLevel(pair{"general.name", "Phi-3 mini"}), "phi-3"},
		{byteLevel(pair{"tokenizer.ggml.tokens", []string{"<PRE>", "<fim-prefix>"}}, pair{"tokenizer.ggml.token_type", []int32{1, 1}}), "<PRE>"},
		{byteLevel(pair{"tokenizer.ggml.tokens", []string{"<|ab", "ab|>c", "a", "b", "ab"}}, pair{"tokenizer.ggml.token_type", []int32{3, 3, 1, 1, 1}}, pair{"tokenizer.ggml.merges", []string{"a b"}}), "ab|>c"},
		{scored([]float32{-1}, []string{"xy"}), "xy"},
		{scored([]float32{-1, -1, -1}, []string{"x", "<0x0A>x"[:6] + "y", "y"}), "<0x0A>y"},
	} {
		_, err := loadGGUF(bytes.NewReader(gguf(binary.LittleEndian, 3, c.pairs...)[len(ggufMagic):]))
		if !errors.Is(err, tokenizer.ErrUnknown) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestATemplateInAGGUFFileThatIsRefusedLeavesTheTokenizer(t *testing.T) {
	for template, why := range map[string]string{"{% frobnicate %}": "frobnicate", "": "no tokenizer.chat_template"} {
		m := load(t, gguf(binary.LittleEndian, 3, byteLevel(pair{"tokenizer.chat_template", template})...))
		if m.Template != nil || !strings.Contains(m.TemplateWhy, why) || m.Tokenizer == nil {
			t.Errorf("%q: %q", template, m.TemplateWhy)
		}
	}
}

// hostile are headers that promise more than there is.
func hostile() map[string][]byte {
	le := binary.LittleEndian
	raw := func(kinds ...uint64) []byte { // kind of the value, then of the array, its length, and so on
		var out []byte
		for i, k := range kinds {
			if i < 2 || i%2 == 1 {
				out = le.AppendUint32(out, uint32(k))
			} else {
				out = le.AppendUint64(out, k)
			}
		}
		return out
	}
	head := func(version uint32, keys uint64) []byte {
		return le.AppendUint64(le.AppendUint64(le.AppendUint32([]byte(ggufMagic), version), 0), keys)
	}
	nested := le.AppendUint32(nil, kindArray)
	for range 40 {
		nested = le.AppendUint64(le.AppendUint32(nested, kindArray), 1)
	}
	return map[string][]byte{
		"version 1":      head(1, 0),
		"no version":     []byte(ggufMagic),
		"many keys":      head(3, 1<<40),
		"long key":       le.AppendUint64(head(3, 1), 1<<50),
		"long text":      gguf(le, 3, pair{"tokenizer.chat_template", append(raw(kindString), 255, 255, 255, 255, 255, 255, 255, 127)}),
		"big text":       gguf(le, 3, pair{"tokenizer.chat_template", append(raw(kindString), 0, 0, 63, 0, 0, 0, 0, 0)}),
		"many tokens":    gguf(le, 3, pair{"tokenizer.ggml.tokens", raw(kindArray, kindString, 1<<62)}),
		"million tokens": gguf(le, 3, pair{"tokenizer.ggml.tokens", raw(kindArray, kindString, 1<<22)}),
		"many scores":    gguf(le, 3, pair{"tokenizer.ggml.scores", raw(kindArray, kindFloat32, 1<<22)}),
		"skipped":        gguf(le, 3, pair{"other", raw(kindArray, kindFloat64, 1<<61)}),
		"skipped far":    gguf(le, 3, pair{"other", raw(kindArray, kindFloat64, 1<<28)}),
		"skipped texts":  gguf(le, 3, pair{"other", raw(kindArray, kindString, 1<<60)}),
		"nested":         gguf(le, 3, pair{"other", nested}),
		"twice":          gguf(le, 3, pair{"tokenizer.ggml.tokens", []string{"a"}}, pair{"tokenizer.ggml.tokens", []string{"a"}}),
		"unknown kind":   gguf(le, 3, pair{"other", raw(77)}),
		"unknown array":  gguf(le, 3, pair{"other", raw(kindArray, 77, 1)}),
	}
}

func TestAHeaderThatPromisesMoreThanThereIsCostsNothing(t *testing.T) {
	const allowed = 2 << 20
	for name, file := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h, err := readHeader(bytes.NewReader(file[len(ggufMagic):]))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > allowed {
			t.Errorf("%s: %v, %v, %d bytes were taken", name, h, err, took)
		}
	}
}

// FuzzGGUF looks for files that crash the reader, or whose tokenizer does.
func FuzzGGUF(f *testing.F) {
	for _, file := range hostile() {
		f.Add(file[len(ggufMagic):])
	}
	f.Add(gguf(binary.LittleEndian, 3, byteLevel()...)[len(ggufMagic):])
	f.Add(gguf(binary.BigEndian, 2, byteLevel()...)[len(ggufMagic):])
	f.Add(gguf(binary.LittleEndian, 3, scored([]float32{-1, -2, -3}, []string{"a", "▁", "▁a"})...)[len(ggufMagic):])
	f.Fuzz(func(t *testing.T, file []byte) {
		defer leash.Hold(t, len(file))()
		m, err := loadGGUF(bytes.NewReader(file))
		if err != nil {
			return
		}
		for _, text := range []string{"", "ab abc\n<|im_start|>\x01é", string(file)} {
			m.Tokenizer.Encode(nil, text, tokenizer.Options{Wrap: true})
		}
	})
}
