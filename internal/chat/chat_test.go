package chat

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/leash"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

func TestTheBuiltInConversationsCoverEveryFeatureAndAreReadAsRequestsAre(t *testing.T) {
	var all Feature
	chats, plain := 0, 0
	names := map[string]bool{}
	for _, c := range Conversations {
		if names[c.Name] {
			t.Error("twice:", c.Name)
		}
		names[c.Name] = true
		r := c.Request()
		if r.Features&Strange != 0 {
			t.Errorf("%s: it is strange, so that it shows nothing", c.Name)
		}
		all |= r.Features
		if c.Body == "" {
			continue
		}
		chats++
		if r.Features == 0 {
			plain++
		}
		var scanned llmapi.Request
		if err := scanned.Scan(llmapi.Chat, []byte(c.Body)); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if read, err := Read(llmapi.Chat, &scanned, []byte(c.Body)); err != nil || read.Features != r.Features {
			t.Errorf("%s: %v %v", c.Name, read.Features.Words(), err)
		}
	}
	if missing := (Strange - 1) &^ all; missing != 0 {
		t.Error("no conversation has", missing.Words())
	}
	if chats < 24 || plain < 16 || Conversations[0].Request().Features != 0 {
		t.Errorf("%d chats, %d of them plain", chats, plain)
	}
}

func TestAQuestionHasAllThatAPromptDependsOnAndNothingElse(t *testing.T) {
	body := `{"temperature":0.5,"model":"alias","messages":[{"role":"user","content":"ü\n"}],"stream":true,"documents":[{"b":1,"a":2.50}],"cache_salt":"s","guided_json":{"z":1}}`
	var scanned llmapi.Request
	if err := scanned.Scan(llmapi.Chat, []byte(body)); err != nil {
		t.Fatal(err)
	}
	r, err := Read(llmapi.Chat, &scanned, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Question("m")
	want := `{"model": "m", "messages": [{"role": "user", "content": "ü\n"}], "documents": [{"b": 1, "a": 2.5}], "guided_json": {"z": 1}}`
	if err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
	text, err := Request{Text: `a"b`, Bare: true}.Question("m")
	if err != nil || string(text) != `{"model": "m", "prompt": "a\"b", "add_special_tokens": false}` {
		t.Errorf("%s %v", text, err)
	}
}

func TestFeaturesAreFoundWhereverTheyAre(t *testing.T) {
	f := func(more string, want ...string) {
		t.Helper()
		v, err := pyvalue.ReadJSON(`{"messages":[{"role":"user","content":"x"}],` + more + `}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := featuresOf(v.(*pyvalue.Dict)).Words(); !slices.Equal(got, want) {
			t.Errorf("%s: %v", more, got)
		}
	}
	f(`"tools":[],"documents":null,"chat_template_kwargs":{},"add_generation_prompt":true,"reasoning_effort":null`)
	f(`"chat_template_kwargs":{"chat_template":"x"}`, "chat_template_kwargs", "unusual fields")
	f(`"kv_transfer_params":{"prompt_token_ids":[1]}`, "unusual fields")
	f(`"kv_transfer_params":{"do_remote_prefill":true}`)
	f(`"truncate_prompt_tokens":5`, "unusual fields")
	f(`"messages":[{"role":"assistant","content":[],"tool_calls":[]},{"role":"user","content":null,"name":"n"}]`, "contents in parts", "names")
	f(`"messages":[{"role":"user","content":"x"},{"role":"function","content":"x"}]`, "unusual fields")
}

func TestTokenIdsAreReadAsTheyAre(t *testing.T) {
	f := func(list string, want []uint32) {
		t.Helper()
		got, err := AppendIDs(nil, []byte(list))
		if (err == nil) != (want != nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: %v %v", list, got, err)
		}
	}
	f("[1, 2,\n3 ]", []uint32{1, 2, 3})
	f("4294967295", []uint32{4294967295})
	for _, bad := range []string{"4294967296", "-1", "1.0", "1e2", "x", `"1"`, "1 {", "+1", "0x1", "١", strings.Repeat("9", 400)} {
		f(bad, nil)
	}
}

func FuzzNoRequestIsTooOddToBeRead(f *testing.F) {
	for _, c := range Conversations {
		f.Add(uint8(llmapi.Chat), c.Body)
	}
	f.Add(uint8(llmapi.Messages), `{"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":"x"}]}`)
	f.Add(uint8(llmapi.Responses), `{"input":[{"role":"user","content":"x"}],"instructions":"i"}`)
	f.Add(uint8(llmapi.Completions), `{"prompt":[[1,2]]}`)
	f.Fuzz(func(t *testing.T, api uint8, body string) {
		defer leash.Hold(t, len(body))()
		which := llmapi.API(api % 8)
		var scanned llmapi.Request
		if scanned.Scan(which, []byte(body)) != nil {
			scanned = llmapi.Request{}
		}
		r, err := Read(which, &scanned, []byte(body))
		if err != nil {
			return
		}
		if r.IDs == nil {
			if _, err := r.Question("m"); err != nil {
				t.Error(err)
			}
		}
	})
}
