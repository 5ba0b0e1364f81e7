package llmapi

import (
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/internal/jsontext"
	"github.com/warmpath/warmpath/internal/leash"
)

// feedBoth feeds an event to a stream as it is, and to one that reads every event in full.
func feedBoth(fast, full *Stream, event []byte) {
	line := fmt.Appendf(nil, "data: %s\n\n", event)
	fast.Feed(line)
	full.mold = jsontext.Mold{}
	full.Feed(line)
}

// deltas are the ordinary events of engines and hosts, with a place for what changes from one to the next.
var deltas = []struct {
	engine string
	api    API
	event  string
}{
	{"vllm chat", Chat, `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":17%[2]d,"model":"m","choices":[{"index":0,"delta":{"content":%[1]s},"logprobs":null,"finish_reason":null,"token_ids":null}]}`},
	{"vllm completions", Completions, `{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":%[1]s,"logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}`},
	{"llama.cpp chat", Chat, `{"choices":[{"finish_reason":null,"index":0,"delta":{"content":%[1]s}}],"created":%[2]d,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1","object":"chat.completion.chunk"}`},
	{"llama.cpp native", Other, `{"index":0,"content":%[1]s,"tokens":[],"stop":false,"id_slot":0,"tokens_predicted":%[2]d,"tokens_evaluated":5}`},
	{"reasoning", Chat, `{"id":"1","choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":%[1]s,"content":""}}]}`},
	{"openai chat", Chat, `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"default","choices":[{"index":0,"delta":{"content":%[1]s},"finish_reason":null}],"usage":null,"obfuscation":"x%[2]d"}`},
	{"anthropic", Messages, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%[1]s}}`},
	{"responses", Responses, `{"type":"response.output_text.delta","content_index":0,"delta":%[1]s,"item_id":"msg_1","logprobs":[],"output_index":0,"sequence_number":%[2]d}`},
}

func TestOrdinaryEventsFitTheMoldOfTheOneBeforeAndCountAsWhenReadInFull(t *testing.T) {
	for _, d := range deltas {
		var fast, full Stream
		fast.Reset(d.api, false)
		full.Reset(d.api, false)
		for i, text := range []string{`" word"`, `"s, \"usage\": {\"prompt_tokens\":9}"`, `""`, `"\n"`, `"\u00e4"`, `"–"`, `5`, `null`, `" [DONE]"`, `{"type":"error"}`, `"end"`} {
			event := fmt.Appendf(nil, d.event, text, 10+i)
			fits := fast.mold.Fits(event)
			if ordinary := i == 1 || i == 3 || i == 5 || i == 8 || i == 10; fits != ordinary {
				t.Errorf("%s, %s: fits %v", d.engine, text, fits)
			}
			feedBoth(&fast, &full, event)
			if fast.seen() != full.seen() {
				t.Fatalf("%s, %s:\n got %+v\nwant %+v", d.engine, text, fast.seen(), full.seen())
			}
		}
		if fast.Tokens < 6 {
			t.Errorf("%s: %d tokens", d.engine, fast.Tokens)
		}
		if fast.Reset(d.api, false); fast.mold.Fits(fmt.Appendf(nil, d.event, `" word"`, 10)) {
			t.Errorf("%s: the mold outlives its stream", d.engine)
		}
	}
}

// FuzzMold: whatever three events say, they are seen as when each is read in full.
func FuzzMold(f *testing.F) {
	for _, d := range deltas {
		f.Add(uint8(d.api), fmt.Appendf(nil, d.event, `"a"`, 1), fmt.Appendf(nil, d.event, `"bc\n"`, 22), fmt.Appendf(nil, d.event, `""`, 0))
		f.Add(uint8(d.api), fmt.Appendf(nil, d.event, `"a"`, 1), fmt.Appendf(nil, d.event, `{"content":"x"}`, 2), []byte(`{"error":{"type":"x"}}`))
	}
	f.Add(uint8(Chat), []byte(`{"id":"a","timings":{"prompt_n":1},"content":"x"}`), []byte(`{"id":"a","timings":{"prompt_n":2},"content":"x"}`), []byte(`[DONE]`))
	f.Fuzz(func(t *testing.T, which uint8, a, b, c []byte) {
		defer leash.Hold(t, len(a)+len(b)+len(c))()
		api := API(which % (uint8(CountTokens) + 1))
		var fast, full Stream
		fast.Reset(api, false)
		full.Reset(api, false)
		for _, event := range [][]byte{a, b, c, b, a, c} {
			feedBoth(&fast, &full, event)
			if fast.seen() != full.seen() {
				t.Fatalf("after %q:\n got %+v\nwant %+v", event, fast.seen(), full.seen())
			}
		}
	})
}
