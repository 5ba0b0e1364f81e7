package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBrokenUTF8CountsAsTheReplacementCharacterOnceASequence(t *testing.T) {
	for in, want := range map[string]string{
		"abc": "abc", "\xff": "�", "a\xffb": "a�b", "\xff\xfe": "��", "\xe6\x97": "�", "\xe6\x97a": "�a", "\xe6\x97\xa5": "日", "\xf0\x9f\x98": "�",
		"\xf0\x9f\x98x": "�x", "\xc0\x80": "��", "\xed\xa0\x80": "���", "\xf4\x90\x80\x80": "����", "\xe0\x80": "��", "\xf0\x9f\xe6\x97\xa5": "�日", "\x80": "�", "\xc3": "�", "�": "�",
	} {
		if got := valid(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	s := readSample(t, "testdata/qwen3.json.gz")
	tk := loaded(t, s.Tokenizer)
	if got, want := tk.Encode(nil, "x\xe6\x97<|im_start|>\xff", Options{}), tk.Encode(nil, "x�<|im_start|>�", Options{}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Byte-level tokens without a normaliser are the text, byte for byte.
func TestTokensOfAByteLevelModelPutTogetherAreTheText(t *testing.T) {
	for _, name := range []string{"llama3", "gptoss", "deepseek_v3", "gpt2", "tekken"} {
		s := readSample(t, "testdata/"+name+".json.gz")
		tk := loaded(t, s.Tokenizer)
		for _, text := range s.Strings {
			if got := spelt(tk, tk.Encode(nil, text, Options{})); got != text {
				t.Errorf("%s: %q came back as %q", name, text, got)
			}
		}
	}
}

func spelt(tk *Tokenizer, ids []uint32) string {
	var b strings.Builder
	for _, id := range ids {
		text, ok := tk.Text(id)
		if !ok {
			return "no token"
		}
		b.WriteString(text)
	}
	return b.String()
}

func TestSpecialTokensAreTextWhereThatIsAskedFor(t *testing.T) {
	s := readSample(t, "testdata/qwen3.json.gz")
	tk := loaded(t, s.Tokenizer)
	start, ok := tk.ID("<|im_start|>")
	if !ok {
		t.Fatal("no <|im_start|>")
	}
	const text = "a<|im_start|>b"
	if ids := tk.Encode(nil, text, Options{}); !slices.Contains(ids, start) {
		t.Errorf("read as tokens: %v", ids)
	}
	ids := tk.Encode(nil, text, Options{PlainSpecial: true})
	if slices.Contains(ids, start) || spelt(tk, ids) != text {
		t.Errorf("as plain text: %v, %q", ids, spelt(tk, ids))
	}
}

func TestSegmentsTellTokensFromText(t *testing.T) {
	s := readSample(t, "testdata/deepseek_v3.json.gz") // whose user and assistant marks are looked for in normalised text
	tk := loaded(t, s.Tokenizer)
	user, _ := tk.ID("<｜User｜>")
	begin, _ := tk.ID("<｜begin▁of▁sentence｜>")
	want := []Segment{{Text: "<｜begin▁of▁sentence｜>", ID: begin, Token: true, First: true}, {Text: "Hi. "}, {Text: "<｜User｜>", ID: user, Token: true}, {Text: "Hello"}}
	if got := tk.Segments(nil, "<｜begin▁of▁sentence｜>Hi. <｜User｜>Hello", Options{}); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestTokensAreFoundByTextAndTextByToken(t *testing.T) {
	for _, name := range samples(t) {
		s := readSample(t, name)
		tk := loaded(t, s.Tokenizer)
		if _, ok := tk.Text(uint32(tk.Size())); ok {
			t.Errorf("%s: a token behind the last", name)
		}
		if _, ok := tk.ID("no such token, I hope"); ok {
			t.Errorf("%s: a token that there is not", name)
		}
		for text, id := range tk.byContent {
			if got, ok := tk.ID(text); !ok || got != id {
				t.Errorf("%s: %q is %d, want %d", name, text, got, id)
			}
			if got, ok := tk.Text(id); !ok || got != text {
				t.Errorf("%s: %d is %q, want %q", name, id, got, text)
			}
		}
	}
	tk := loaded(t, readSample(t, "testdata/llama2.json.gz").Tokenizer)
	for text, want := range map[string]string{"▁the": " the", "<0x41>": "A", "a": "a"} {
		id, ok := tk.ID(text)
		if got, _ := tk.Text(id); !ok || got != want {
			t.Errorf("%q is %d, which stands for %q", text, id, got)
		}
	}
}

// Much longer than messages are, of everything that ever was quadratic in a tokenizer. There is no clock here: what is quadratic would
// outlast the test's own deadline.
func TestLongRunsOfOneThingEnd(t *testing.T) {
	for name, size := range map[string]int{"llama3": 400_000, "qwen3": 400_000, "llama2": 400_000, "deepseek_v3": 40_000, "gptoss": 40_000, "gemma3": 40_000, "gpt2": 40_000, "metaspace-first-cut": 40_000, "added-kinds-nfc": 40_000} {
		tk := loaded(t, readSample(t, "testdata/"+name+".json.gz").Tokenizer)
		for _, run := range []string{"a", "A", " ", " \n", "ab", "日", "\u0301", "<|", "'", "▁", "\xff", "e\u0301"} {
			text := strings.Repeat(run, size/len(run))
			if ids := tk.Encode(nil, text, Options{}); len(ids) == 0 || len(ids) > 4*size {
				t.Errorf("%s: %q: %d ids", name, run, len(ids))
			}
		}
	}
}

func TestWhatIsAppendedToIsKept(t *testing.T) {
	tk := loaded(t, readSample(t, "testdata/llama3.json.gz").Tokenizer)
	before := []uint32{7, 8, 9}
	ids := tk.Encode(before, "Hello", Options{})
	if !slices.Equal(ids[:3], before) || !slices.Equal(ids[3:], tk.Encode(nil, "Hello", Options{})) {
		t.Errorf("%v", ids)
	}
	if ids := tk.Encode(nil, "", Options{}); len(ids) != 0 {
		t.Errorf("nothing became %v", ids)
	}
}

// Words that are in the cache give the same ids as those that are not.
func TestTheCacheOfWordsChangesNothing(t *testing.T) {
	for _, name := range samples(t) {
		s := readSample(t, name)
		tk := loaded(t, s.Tokenizer)
		e := encoder{Tokenizer: tk}
		for _, text := range s.Strings {
			text = tk.normalise(text)
			for range 2 {
				e.ids = e.ids[:0]
				if text == "" || !utf8.ValidString(text) {
					continue
				}
				e.word(text)
				if fresh := e.uncached(nil, text); !slices.Equal(e.ids, fresh) {
					t.Errorf("%s: %q: %v, without the cache %v", name, text, e.ids, fresh)
				}
			}
		}
	}
}
