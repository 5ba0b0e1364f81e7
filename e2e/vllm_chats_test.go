//go:build e2evllm

package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// scripts are words that chats are made of: tokens of one byte and of many, marks that combine, code, and symbols beyond the basic plane.
var scripts = [][]string{
	strings.Fields("the a of and warm cache block prefix worker answer question table river stone light window letter morning number paper I'll don't 2026 3.14159 42,000 e.g. Mr. (see below) — “quoted”"),
	strings.Fields("der die das und größer Straße über Fußgängerübergang Wärme Übermut naïve façade œuvre coöperate señor ça țară Łódź"),
	strings.Fields("и в не на что тепло кэш блок очередь сообщение предложение ёлка объём"),
	strings.Fields("και το να του θερμός μνήμη ερώτηση απάντηση ἄνθρωπος"),
	strings.Fields("缓存 前缀 工人 问题 回答 今天 天气 很好, 我们 一起 去 公园。 “引用” 一二三"),
	strings.Fields("キャッシュ です。 ありがとう ございます 東京 質問 カタカナ ﾊﾝｶｸ が か\u3099"),
	strings.Fields("مرحبا بالعالم ذاكرة سؤال جواب الكُتّاب שלום עולם"),
	strings.Fields("नमस्ते दुनिया प्रश्न उत्तर क्षत्रिय สวัสดี ชาวโลก คำถาม"),
	strings.Fields("🙂 👩‍👩‍👧‍👦 🇩🇪 ✅ 𝒳 𐍈 ☕️ 한국어 질문 안녕하세요 ᄒ\u1161ᆫ"),
	strings.Fields("func main() { if err != nil { return } } for i := range 10 {\n\t\tfmt.Println(i)\n\t} <div class=\"x\"> </div> SELECT * FROM t; \\frac{1}{2} 0xdeadbeef <|im_start|> <tool_call> </think>x"),
}

// text is about that many words, mostly of one script.
func text(r *rand.Rand, words int) string {
	own := scripts[r.IntN(len(scripts))]
	var b strings.Builder
	for range words {
		from := own
		if r.IntN(8) == 0 {
			from = scripts[r.IntN(len(scripts))]
		}
		b.WriteString(from[r.IntN(len(from))])
		b.WriteString([]string{" ", " ", " ", " ", " ", "  ", ". ", ", ", "\n", "\n\n"}[r.IntN(10)])
	}
	return b.String()
}

// message is one of a chat.
type message map[string]any

// chat is one conversation, or a document that is completed again and again.
type chat struct {
	n        int
	chance   *rand.Rand
	turn     int
	turns    int
	messages []message
	document string // instead of messages
	system   string // where it is not a message
	api      string // the path of its requests
	tools    []any
	salt     string
}

// applications are what chats share: system prompts, and tools.
type applications struct {
	systems []string
	tools   []any
}

func newApplications(r *rand.Rand) applications {
	var a applications
	for range 5 {
		a.systems = append(a.systems, text(r, 50+r.IntN(70)))
	}
	for _, name := range []string{"weather", "search_documents", "öffne_datei"} {
		a.tools = append(a.tools, map[string]any{"type": "function", "function": map[string]any{
			"name": name, "description": text(r, 12),
			"parameters": map[string]any{"type": "object", "required": []string{"query"}, "properties": map[string]any{
				"query": map[string]any{"type": "string", "description": text(r, 6)}, "limit": map[string]any{"type": "integer", "default": 3}, "exact": map[string]any{"type": "boolean"}}}}})
	}
	return a
}

func newChat(n int, seed uint64, a applications) *chat {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	c := &chat{n: n, chance: r, turns: 3 + r.IntN(6), api: "/v1/chat/completions"}
	kind := r.IntN(20)
	if kind == 0 {
		c.api, c.document = "/v1/completions", text(r, 90)
		return c
	}
	system := a.systems[r.IntN(len(a.systems))]
	switch kind {
	case 1: // no system prompt
	case 2, 3:
		c.api, c.system = []string{"/v1/messages", "/v1/responses"}[kind-2], system
	default:
		c.messages = append(c.messages, message{"role": "system", "content": system})
	}
	switch kind {
	case 4:
		c.salt = fmt.Sprintf("tenant-%d", r.IntN(2))
	case 5, 6, 7, 8:
		c.tools = a.tools
	}
	return c
}

// tellsTokens is whether answers say which tokens their prompt was. For the other APIs warmpath's word has to do.
func (c *chat) tellsTokens() bool {
	return c.api == "/v1/chat/completions" || c.api == "/v1/completions"
}

// next is the next request's path and body.
func (c *chat) next() (path string, body map[string]any) {
	r := c.chance
	// No seed: this vLLM dies of it on a processor.
	body = map[string]any{"model": vllmName, "max_tokens": 1 + r.IntN(6), "temperature": 1.0, "return_token_ids": true}
	if r.IntN(2) == 0 {
		body["stream"] = true
		if r.IntN(2) == 0 {
			body["stream_options"] = map[string]any{"include_usage": true}
		}
	}
	if c.salt != "" {
		body["cache_salt"] = c.salt
	}
	if c.document != "" {
		c.document += text(r, 10+r.IntN(30))
		body["prompt"] = c.document
		return c.api, body
	}
	if c.tools != nil {
		body["tools"] = c.tools
	}
	if c.tools != nil && c.turn > 0 && r.IntN(2) == 0 {
		id := fmt.Sprintf("call-%d-%d", c.n, c.turn)
		arguments := fmt.Sprintf(`{"query": %q, "limit": %d}`, strings.TrimSpace(scripts[2][r.IntN(6)]), r.IntN(9))
		c.messages = append(c.messages, message{"role": "user", "content": text(r, 10)},
			message{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "weather", "arguments": arguments}}}},
			message{"role": "tool", "tool_call_id": id, "content": text(r, 15)})
	} else {
		c.messages = append(c.messages, message{"role": "user", "content": text(r, 12+r.IntN(60))})
	}
	switch c.api {
	case "/v1/messages":
		delete(body, "return_token_ids")
		delete(body, "stream_options")
		body["system"], body["messages"] = c.system, c.messages
	case "/v1/responses":
		delete(body, "return_token_ids")
		delete(body, "stream_options")
		delete(body, "stream")
		body["max_output_tokens"], body["instructions"], body["input"] = body["max_tokens"], c.system, c.messages
		delete(body, "max_tokens")
	default:
		body["messages"] = c.messages
	}
	return c.api, body
}

// heard takes in the answer, which the next turn sends along, and tells whether there is a next turn.
func (c *chat) heard(said string) bool {
	c.turn++
	if c.document != "" {
		c.document += said
	} else {
		c.messages = append(c.messages, message{"role": "assistant", "content": said})
	}
	return c.turn < c.turns
}
