package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// bare is a tokenizer of the bytes a to d, with parts of the file's top level put in or replaced.
func bare(parts map[string]string) []byte {
	all := map[string]json.RawMessage{
		"model":         json.RawMessage(`{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"d":3,"ab":4,"<s>":5},"merges":["a b"]}`),
		"pre_tokenizer": json.RawMessage(`{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`),
	}
	for name, text := range parts {
		all[name] = json.RawMessage(text)
	}
	file, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return file
}

func TestWhatIsNotKnownIsRefusedByItsName(t *testing.T) {
	for _, c := range []struct{ part, text, name string }{
		{"model", `{"type":"Unigram","vocab":[]}`, "Unigram"},
		{"model", `{"type":"WordPiece","vocab":{}}`, "WordPiece"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":[],"dropout":0.1}`, "dropout"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":[],"end_of_word_suffix":"</w>"}`, "</w>"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":[],"continuing_subword_prefix":"##"}`, "##"},
		{"model", `{"type":"BPE","vocab":{"a":0},"merges":[],"byte_fallback":true}`, "byte_fallback"},
		{"normalizer", `{"type":"NFKC"}`, "NFKC"},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}`, "Lowercase"},
		{"normalizer", `{"type":"Replace","pattern":{"Regex":" +"},"content":"x"}`, "Replace"},
		{"normalizer", `{"type":"NFC","form":"new"}`, "form"},
		{"pre_tokenizer", `{"type":"BertPreTokenizer"}`, "BertPreTokenizer"},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{Han}+|\\s+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]}`, `\p{Han}+`},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\s+"},"behavior":"MergedWithNext","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]}`, "MergedWithNext"},
		{"pre_tokenizer", `{"type":"Split","pattern":{"String":"x"},"behavior":"Isolated","invert":false}`, "Split"},
		{"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"\\s*[\\r\\n]+|\\p{L}+"},"behavior":"Isolated","invert":false}`, `without \s+`},
		{"pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"sometimes"}`, "sometimes"},
		{"pre_tokenizer", `{"type":"Digits","individual_digits":true}`, "Digits"},
		{"post_processor", `{"type":"BertProcessing","sep":["[SEP]",1],"cls":["[CLS]",2]}`, "BertProcessing"},
		{"post_processor", `{"type":"TemplateProcessing","single":[],"pair":[],"special_tokens":{}}`, "template"},
		{"decoder", `{"type":"WordPiece","prefix":"##","cleanup":true}`, "prefix"},
		{"decoder", `{"type":"CTC"}`, "CTC"},
		{"added_tokens", `[{"id":9,"content":"<x>"}]`, "<x>"},
	} {
		_, err := Load(bare(map[string]string{c.part: c.text}))
		if err == nil || !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s %s: %v", c.part, c.text, err)
		}
	}
}

func TestATekkenFileIsRefusedByItsName(t *testing.T) {
	_, err := Load([]byte(`{"config":{"pattern":"x"},"vocab":[{"rank":0,"token_bytes":"AA==","token_str":null}],"special_tokens":[]}`))
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "tekken") {
		t.Error(err)
	}
}

func TestWhatIsBrokenIsSaidToBeBroken(t *testing.T) {
	file := string(bare(nil))
	for _, text := range []string{"", "{", "null", "[]", `"x"`, "{}", `{"model":null}`, file[:len(file)/2], file + file, file + "]", strings.Repeat("[", 20000), "\xff",
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":4294967296},"merges":[]}`})),
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":2097151},"merges":[]}`})),
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":-1},"merges":[]}`})),
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":"b"},"merges":[]}`})),
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}`})),
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}`})),
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":0},"merges":["a b"]}`})),
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":0},"merges":["a"]}`})),
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":0,"aa":1},"merges":[["a","a","a"]]}`})),
		string(bare(map[string]string{"model": `{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"zz"}`})),
		string(bare(map[string]string{"added_tokens": `{}`})),
		string(bare(map[string]string{"added_tokens": `[{"id":6,"content":"` + strings.Repeat("x", addedBytesMax+1) + `"}]`})),
		string(bare(map[string]string{"added_tokens": `[{"id":6,"content":"x"},{"id":6,"content":"y"}]`})),
		string(bare(map[string]string{"post_processor": `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"B","type_id":0}}],"pair":[],"special_tokens":{}}`})),
	} {
		if tk, err := Load([]byte(text)); err == nil {
			t.Errorf("%.120q was taken: %d tokens", text, tk.Size())
		} else if len(err.Error()) > 1200 {
			t.Errorf("%.120q: an error of %d bytes", text, len(err.Error()))
		}
	}
}

func TestAbsurdFilesTakeNoMoreThanTenTimesTheirSizeAndSomething(t *testing.T) {
	const constant = 64 << 20
	many := func(n int, one func(i int) string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = one(i)
		}
		return strings.Join(list, ",")
	}
	for name, file := range map[string]string{
		"deep":         `{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 4000) + strings.Repeat("]}", 4000) + `,"model":{}}`,
		"far ids":      string(bare(map[string]string{"model": `{"vocab":{` + many(1000, func(i int) string { return fmt.Sprintf(`"x%d":%d`, i, tokensMax-1-i) }) + `},"merges":[]}`})),
		"added tokens": string(bare(map[string]string{"added_tokens": "[" + many(100000, func(i int) string { return fmt.Sprintf(`{"id":%d,"content":"%d"}`, i+6, i) }) + "]"})),
		"empty added":  string(bare(map[string]string{"added_tokens": "[" + many(300000, func(int) string { return "{}" }) + "]"})),
		"same merge":   string(bare(map[string]string{"model": `{"vocab":{"a":0,"aa":1},"merges":[` + many(300000, func(int) string { return `"a a"` }) + `]}`})),
		"members":      "{" + many(300000, func(i int) string { return fmt.Sprintf(`"%d":0`, i) }) + "}",
		"processors":   string(bare(map[string]string{"post_processor": `{"type":"Sequence","processors":[` + many(20000, func(int) string { return `{"type":"ByteLevel"}` }) + "]}"})),
		"templates":    string(bare(map[string]string{"post_processor": strings.Repeat(`{"type":"Sequence","processors":[`, 3000) + strings.Repeat("]}", 3000)})),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Load([]byte(file))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(10*len(file)+constant) {
			t.Errorf("%s: %d bytes took %d in all (%v)", name, len(file), took, err)
		}
	}
}

// largest has as many tokens and merges as the largest vocabularies there are: all pairs of bytes, and triples in two ways.
func largest(t *testing.T) []byte {
	t.Helper()
	var spelling [256]string
	for r, b := range byteOf {
		if b >= 0 {
			spelling[b] = string(rune(r))
		}
	}
	vocab, merges := map[string]int{}, [][2]string{}
	add := func(text string) {
		vocab[text] = len(vocab)
	}
	for _, s := range spelling {
		add(s)
	}
	for _, a := range spelling {
		for _, b := range spelling {
			add(a + b)
			merges = append(merges, [2]string{a, b})
		}
	}
	for _, a := range spelling[:4] {
		for _, b := range spelling {
			for _, c := range spelling {
				add(a + b + c)
				merges = append(merges, [2]string{a, b + c}, [2]string{a + b, c})
			}
		}
	}
	model, err := json.Marshal(map[string]any{"type": "BPE", "vocab": vocab, "merges": merges})
	if err != nil {
		t.Fatal(err)
	}
	return bare(map[string]string{"model": string(model)})
}

func TestTheLargestVocabularyTakesLessThan40MB(t *testing.T) {
	file := largest(t)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	tk, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var ids []uint32
	for range 4 * cacheSlots { // fills the cache of words several times over
		ids = tk.Encode(ids[:0], fmt.Sprintf("%024x", random.Uint64()), Options{})
	}
	took := heap() - before
	if took > 40<<20 {
		t.Errorf("%d tokens and %d merges take %d bytes", tk.Size(), tk.model.joins.Len(), took)
	}
	t.Logf("%d tokens, %d merges, a file of %.1f MB: %.1f MB", tk.Size(), tk.model.joins.Len(), float64(len(file))/1e6, float64(took)/1e6)
	runtime.KeepAlive(file)
	runtime.KeepAlive(tk)
}
