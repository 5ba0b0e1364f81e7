//go:build e2e

package e2e

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// What a tiny model of the architecture llama is made of. Its weights are all zero: only its tokenizer is of interest.
const (
	tinyWidth = 32
	tinyHeads = 2
	ggufAlign = 32
)

// metadata is what a .gguf file says, in order.
type metadata struct {
	count uint64
	bytes []byte
}

var le = binary.LittleEndian

func (m *metadata) text(s string) { m.bytes = append(le.AppendUint64(m.bytes, uint64(len(s))), s...) }

func (m *metadata) key(name string, kinds ...uint32) {
	m.count++
	m.text(name)
	for _, k := range kinds {
		m.bytes = le.AppendUint32(m.bytes, k)
	}
}

func (m *metadata) set(name string, value any) {
	switch v := value.(type) {
	case string:
		m.key(name, 8)
		m.text(v)
	case bool:
		m.key(name, 7)
		m.bytes = append(m.bytes, map[bool]byte{true: 1}[v])
	case int:
		m.key(name, 4)
		m.bytes = le.AppendUint32(m.bytes, uint32(v))
	case float32:
		m.key(name, 6)
		m.bytes = le.AppendUint32(m.bytes, math.Float32bits(v))
	case []string:
		m.key(name, 9, 8)
		m.bytes = le.AppendUint64(m.bytes, uint64(len(v)))
		for _, s := range v {
			m.text(s)
		}
	case []int32:
		m.key(name, 9, 5)
		m.bytes = le.AppendUint64(m.bytes, uint64(len(v)))
		for _, n := range v {
			m.bytes = le.AppendUint32(m.bytes, uint32(n))
		}
	case []float32:
		m.key(name, 9, 6)
		m.bytes = le.AppendUint64(m.bytes, uint64(len(v)))
		for _, n := range v {
			m.bytes = le.AppendUint32(m.bytes, math.Float32bits(n))
		}
	default:
		panic(fmt.Sprintf("%T", v))
	}
}

// writeModel writes a model that llama.cpp loads, with this vocabulary.
func writeModel(t *testing.T, tokens int, vocabulary func(*metadata)) string {
	t.Helper()
	m := &metadata{}
	m.set("general.architecture", "llama")
	for name, n := range map[string]int{"context_length": 8192, "embedding_length": tinyWidth, "block_count": 1, "feed_forward_length": tinyWidth,
		"attention.head_count": tinyHeads, "attention.head_count_kv": tinyHeads, "rope.dimension_count": tinyWidth / tinyHeads, "vocab_size": tokens} {
		m.set("llama."+name, n)
	}
	m.set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	vocabulary(m)
	square := []int{tinyWidth, tinyWidth}
	tensors := map[string][]int{"token_embd.weight": {tinyWidth, tokens}, "output_norm.weight": {tinyWidth}, "blk.0.attn_norm.weight": {tinyWidth}, "blk.0.ffn_norm.weight": {tinyWidth}}
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
		tensors["blk.0."+name+".weight"] = square
	}
	infos, offset := metadata{}, 0
	for name, shape := range tensors {
		infos.text(name)
		infos.bytes = le.AppendUint32(infos.bytes, uint32(len(shape)))
		size := 4 // float32
		for _, n := range shape {
			infos.bytes = le.AppendUint64(infos.bytes, uint64(n))
			size *= n
		}
		infos.bytes = le.AppendUint64(le.AppendUint32(infos.bytes, 0), uint64(offset))
		offset += (size + ggufAlign - 1) / ggufAlign * ggufAlign
	}
	file := le.AppendUint32([]byte("GGUF"), 3)
	file = le.AppendUint64(le.AppendUint64(file, uint64(len(tensors))), m.count)
	file = append(append(file, m.bytes...), infos.bytes...)
	file = append(file, make([]byte, (ggufAlign-len(file)%ggufAlign)%ggufAlign)...)
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(file)+offset)); err != nil {
		t.Fatal(err)
	}
	return path
}

// byteSpelling is how byte-level vocabularies spell a byte.
func byteSpelling() (spelling [256]string) {
	beyond := 256
	for b := range 256 {
		r := b
		if printed := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae; !printed {
			r = beyond
			beyond++
		}
		spelling[b] = string(rune(r))
	}
	return spelling
}

// The types of tokens.
const (
	normalToken  = 1
	unknownToken = 2
	controlToken = 3
	userToken    = 4
	byteToken    = 6
)

var markedTokens = []struct {
	text string
	kind int32
}{{"<|im_start|>", controlToken}, {"<|im_end|>", userToken}, {"<tool>", userToken}, {"<|x|>", controlToken}, {"<unk>", unknownToken}, {"  \t", userToken}, {"<｜User｜>", controlToken}}

// pairsModel has a token for any two bytes, so that it shows wherever text is cut: which of two neighbours join is by a rank of chance.
// Some bytes have no token.
func pairsModel(t *testing.T, pre string, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, seed))
	spelling := byteSpelling()
	var tokens, merges []string
	var types []int32
	lacking := map[int]bool{0x04: true, 0x13: true, 0xf1: true}
	for b := range 256 {
		if !lacking[b] {
			tokens = append(tokens, spelling[b])
		}
	}
	for a := range 256 {
		for b := range 256 {
			if !lacking[a] && !lacking[b] {
				tokens, merges = append(tokens, spelling[a]+spelling[b]), append(merges, spelling[a]+" "+spelling[b])
			}
		}
	}
	for range 2000 { // longer ones
		a, b, c := spelling[32+random.IntN(96)], spelling[32+random.IntN(96)], spelling[32+random.IntN(96)]
		merges = append(merges, a+" "+b+c)
	}
	random.Shuffle(len(merges), func(i, j int) { merges[i], merges[j] = merges[j], merges[i] })
	seen := map[string]bool{}
	for _, s := range tokens {
		seen[s] = true
	}
	for _, m := range merges {
		if whole := string(removeBlank(m)); !seen[whole] {
			seen[whole] = true
			tokens = append(tokens, whole)
		}
	}
	for range tokens {
		types = append(types, normalToken)
	}
	for _, m := range markedTokens {
		tokens, types = append(tokens, m.text), append(types, m.kind)
	}
	return writeModel(t, len(tokens), func(m *metadata) {
		m.set("tokenizer.ggml.model", "gpt2")
		m.set("tokenizer.ggml.pre", pre)
		m.set("tokenizer.ggml.tokens", tokens)
		m.set("tokenizer.ggml.token_type", types)
		m.set("tokenizer.ggml.merges", merges)
		m.set("tokenizer.ggml.bos_token_id", len(tokens)-4)
		m.set("tokenizer.ggml.eos_token_id", len(tokens)-6)
		m.set("tokenizer.chat_template", chatML)
	})
}

func removeBlank(s string) []byte {
	var out []byte
	for i := range len(s) {
		if s[i] != ' ' {
			out = append(out, s[i])
		}
	}
	return out
}

// scoresModel is one of the kind llama: letters, then words of chance whose beginnings and ends are tokens too, with scores of which
// many are alike.
func scoresModel(t *testing.T, seed uint64, prefix bool) string {
	random := rand.New(rand.NewPCG(seed, seed))
	tokens, types := []string{"<unk>", "<s>", "</s>"}, []int32{unknownToken, controlToken, controlToken}
	scores := []float32{0, 0, 0}
	seen := map[string]bool{}
	add := func(text string, kind int32, score float32) {
		if !seen[text] {
			seen[text] = true
			tokens, types, scores = append(tokens, text), append(types, kind), append(scores, score)
		}
	}
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), byteToken, 0)
	}
	letters := []string{"▁", "\n", "\t", "é", "日", "本"}
	for c := '!'; c <= '~'; c++ {
		letters = append(letters, string(c))
	}
	for _, l := range letters {
		add(l, normalToken, -1000)
	}
	for _, m := range markedTokens {
		if m.kind != unknownToken {
			add(m.text, m.kind, -1000)
		}
	}
	for n := 2; n <= 6; n++ {
		add(string([]rune("▁▁▁▁▁▁")[:n]), normalToken, 0)
	}
	common := append([]string{"▁", "▁", "▁"}, "e", "t", "a", "o", "n", "s", "'", "1", "é", "日", "\n")
	words := common
	for range 3000 {
		w := words[random.IntN(len(words))] + common[random.IntN(len(common))]
		if len([]rune(w)) < 7 {
			add(w, normalToken, -float32(random.IntN(400)))
			words = append(words, w)
		}
	}
	return writeModel(t, len(tokens), func(m *metadata) {
		m.set("tokenizer.ggml.model", "llama")
		m.set("tokenizer.ggml.tokens", tokens)
		m.set("tokenizer.ggml.token_type", types)
		m.set("tokenizer.ggml.scores", scores)
		m.set("tokenizer.ggml.add_space_prefix", prefix)
		m.set("tokenizer.ggml.add_eos_token", prefix)
		m.set("tokenizer.chat_template", "{{ bos_token }}"+chatML)
	})
}

const chatML = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content | trim if m.role == 'assistant' else m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`
