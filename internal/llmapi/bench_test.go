package llmapi

import (
	"fmt"
	"strings"
	"testing"
)

// conversation is a chat body of about so many bytes, with the escapes and the odd rune that real text has.
func conversation(bytes int) []byte {
	const line = `Explain how the scheduler picks the next sequence when the batch is full, and why.\nUse \"short\" sentences – no lists. `
	var b strings.Builder
	b.WriteString(`{"model":"meta-llama/Llama-3.1-8B-Instruct","temperature":0.7,"stream":true,"max_tokens":512,"messages":[`)
	b.WriteString(`{"role":"system","content":"You are a helpful assistant."}`)
	for i := 0; b.Len() < bytes; i++ {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		fmt.Fprintf(&b, `,{"role":%q,"content":"%s"}`, role, strings.Repeat(line, 1+min(bytes/10, 4000)/len(line)))
	}
	b.WriteString(`],"user":"u-1"}`)
	return []byte(b.String())
}

func BenchmarkScan(b *testing.B) {
	for _, size := range []int{1200, 35_000, 431_000} {
		body := conversation(size)
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			var r Request
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Scan(Chat, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	ascii := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("plain text without any escape ", 14_000) + `"}]}`)
	b.Run("ascii-string", func(b *testing.B) {
		var r Request
		b.SetBytes(int64(len(ascii)))
		for b.Loop() {
			if err := r.Scan(Chat, ascii); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkStream(b *testing.B) {
	chunk := []byte(`data: {"id":"chatcmpl-ac27c8ba303d7340","object":"chat.completion.chunk","created":1795979146,"model":"tiny","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n")
	for _, withhold := range []bool{false, true} {
		b.Run(fmt.Sprintf("withhold=%v", withhold), func(b *testing.B) {
			var s Stream
			s.Reset(Chat, withhold)
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			for b.Loop() {
				s.Feed(chunk)
			}
		})
	}
}
