package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
)

// prefixesShared is how many prefixes the third of the requests that share one has between it, as a service has system prompts.
const prefixesShared = 16

// bodies makes chat requests of one size that are all distinct: a third share a prefix of half their length with others, the rest
// share nothing. They are made once and then told apart by a number in their text, because text is dear to make.
type bodies struct {
	templates []template
}

type template struct {
	text   []byte // of the whole HTTP request
	body   int    // where the body begins in it
	number int    // where the number's 16 digits are
}

// messageBytes is the length of a message of a long conversation.
const messageBytes = 4 << 10

// newBodies makes templates of size bytes, about.
func newBodies(seed uint64, size int, stream bool) *bodies {
	rng := rand.New(rand.NewPCG(seed, 1))
	count := 96
	if size > 64<<10 {
		count = 24
	}
	prefixes := make([][]byte, prefixesShared)
	for i := range prefixes {
		prefixes[i] = conversation(rng, size/2-60, false)
	}
	b := &bodies{}
	for i := range count {
		var head []byte
		if i%3 == 0 {
			head = prefixes[i/3%prefixesShared]
		}
		b.templates = append(b.templates, newTemplate(rng, head, size, stream))
	}
	return b
}

func newTemplate(rng *rand.Rand, prefix []byte, size int, stream bool) template {
	var body bytes.Buffer
	fmt.Fprintf(&body, `{"model":"%s","max_tokens":64,"temperature":0.7,"messages":[`, modelName)
	body.Write(prefix)
	body.WriteString(`{"role":"user","content":"`)
	number := body.Len()
	body.WriteString("0000000000000000 ")
	tail := `"}],"stream":false}`
	if stream {
		tail = `"}],"stream":true}`
	}
	left := size - body.Len() - len(tail)
	if left > messageBytes {
		body.WriteString(`the question"},`)
		rest := conversation(rng, left-100, true)
		body.Write(rest)
		body.WriteString(`{"role":"user","content":"`)
		left = size - body.Len() - len(tail)
	}
	writeText(&body, rng, max(left, 1))
	body.WriteString(tail)
	head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: bench.local\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"+
		"Authorization: Bearer sk-0123456789abcdef\r\nContent-Type: application/json\r\nUser-Agent: OpenAI/Python 1.99.0\r\nContent-Length: %d\r\n\r\n", body.Len())
	return template{text: append([]byte(head), body.Bytes()...), body: len(head), number: len(head) + number}
}

// conversation is whole messages, each with a comma behind it: a system prompt, or an answer, first.
func conversation(rng *rand.Rand, size int, goesOn bool) []byte {
	var b bytes.Buffer
	roles := []string{"assistant", "user"}
	for i := 0; b.Len() < size; i++ {
		role := roles[i%2]
		if i == 0 && !goesOn {
			role = "system"
		}
		fmt.Fprintf(&b, `{"role":"%s","content":"`, role)
		writeText(&b, rng, max(1, min(messageBytes, size-b.Len()-3)))
		b.WriteString(`"},`)
	}
	return b.Bytes()
}

// writeText writes n bytes of words with the escapes that real text has.
func writeText(b *bytes.Buffer, rng *rand.Rand, n int) {
	const letters = "etaoinshrdlucmfwypvbgk"
	for end := b.Len() + n; b.Len() < end; {
		left := end - b.Len()
		if left > 3 && rng.IntN(12) == 0 {
			b.WriteString([]string{`\n`, `\"`, `. `, `, `}[rng.IntN(4)])
			continue
		}
		for range min(left-1, 2+rng.IntN(8)) {
			b.WriteByte(letters[rng.IntN(len(letters))])
		}
		b.WriteByte(' ')
	}
}

// next writes a request that was never sent before into buf and returns it; from is where its body begins.
func (b *bodies) next(buf []byte, serial uint64) (request []byte, from int) {
	t := &b.templates[serial%uint64(len(b.templates))]
	buf = append(buf[:0], t.text...)
	const digits = "0123456789abcdef"
	for i := range 16 {
		buf[t.number+i] = digits[serial>>(60-4*i)&15]
	}
	return buf, t.body
}
