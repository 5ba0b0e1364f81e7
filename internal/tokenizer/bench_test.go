package tokenizer

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The small tokenizers have few merges, so that these are for comparing before and after; `warmpath bench tokenize` measures the real ones.
func BenchmarkEncode(b *testing.B) {
	text, err := os.ReadFile("load.go")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"llama3", "qwen3", "gptoss", "deepseek_v3", "gemma3", "llama2"} {
		tk := loaded(b, readSample(b, "testdata/"+name+".json.gz").Tokenizer)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var ids []uint32
			for b.Loop() {
				ids = tk.Encode(ids[:0], string(text), Options{})
			}
		})
	}
}

// A run of one character has to stay near linear: ns/op a byte should be about the same in all.
func BenchmarkLongRun(b *testing.B) {
	tk := loaded(b, readSample(b, "testdata/llama3.json.gz").Tokenizer)
	for _, size := range []int{4_000, 40_000, 400_000} {
		text := strings.Repeat("a", size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			var ids []uint32
			for b.Loop() {
				ids = tk.Encode(ids[:0], text, Options{})
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	for _, word := range []string{"a", " the", " tokens", " tokenizer", " internationalization"} {
		b.Run(fmt.Sprint(len(word)), func(b *testing.B) {
			sum := uint64(0)
			for b.Loop() {
				sum += hashText(word)
			}
			_ = sum
		})
	}
}
