package tokenizer

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/leash"
)

// FuzzLoad looks for files that crash the reader, or that it takes and cannot use.
func FuzzLoad(f *testing.F) {
	f.Add(bare(nil))
	f.Add(bare(map[string]string{"normalizer": `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Prepend","prepend":"a"},{"type":"Replace","pattern":{"String":"c"},"content":"d"}]}`}))
	f.Add(bare(map[string]string{"pre_tokenizer": `{"type":"Metaspace","replacement":"b","prepend_scheme":"first","split":true}`}))
	f.Add(bare(map[string]string{"pre_tokenizer": `null`, "model": `{"vocab":{"a":0,"▁":1,"▁a":2,"<unk>":3},"merges":[["▁","a"]],"unk_token":"<unk>","fuse_unk":true}`}))
	f.Add(bare(map[string]string{"added_tokens": `[{"id":5,"content":"<s>","special":true,"lstrip":true},{"id":6,"content":"cd","normalized":true,"single_word":true}]`}))
	f.Add(bare(map[string]string{"post_processor": `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"B","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"B":{"id":"B","ids":[5],"tokens":["B"]}}}`}))
	f.Fuzz(func(t *testing.T, file []byte) {
		defer leash.Hold(t, len(file))()
		tk, err := Load(file)
		if err != nil {
			return
		}
		for _, text := range []string{"", "ab cd\n<s>a1é日\u0301", " ab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", string(file)} {
			sameBySegments(t, tk, text)
		}
	})
}

// FuzzEncode looks for text whose segments differ from the whole, or that does not come back from its ids.
func FuzzEncode(f *testing.F) {
	var all []*Tokenizer
	plain := map[*Tokenizer]bool{}
	for _, name := range []string{"llama3", "qwen3", "gptoss", "deepseek_v3", "gemma3", "llama2", "gpt2", "added-kinds-nfc", "metaspace-first-cut"} {
		s := readSample(f, "testdata/"+name+".json.gz")
		tk := loaded(f, s.Tokenizer)
		plain[tk] = slices.Contains([]string{"llama3", "gptoss", "deepseek_v3", "gpt2"}, name)
		all = append(all, tk)
		for _, text := range s.Strings[:12] {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer leash.Hold(t, len(text))()
		for _, tk := range all {
			ids := sameBySegments(t, tk, text)
			if plain[tk] && spelt(tk, ids) != valid(text) {
				t.Errorf("%q came back as %q", text, spelt(tk, ids))
			}
		}
	})
}

func sameBySegments(t *testing.T, tk *Tokenizer, text string) []uint32 {
	ids := tk.Encode(nil, text, Options{})
	var parts []uint32
	for _, s := range tk.Segments(nil, text, Options{}) {
		parts = tk.EncodeSegment(parts, s, Options{})
	}
	if !slices.Equal(ids, parts) {
		t.Errorf("%q: whole %v, by segments %v", text, ids, parts)
	}
	return ids
}
