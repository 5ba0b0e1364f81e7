package llmapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/jsontext"
)

// show prints the parts of a scanned body: R(role) T(text) J(raw) M(media) > (reply) . (message end).
func show(r *Request, body []byte) string {
	var out []string
	for _, p := range r.Parts {
		b := p.Of(body)
		switch p.Kind {
		case Role:
			out = append(out, fmt.Sprintf("R(%s)", b))
		case Text:
			out = append(out, fmt.Sprintf("T(%s)", b))
		case Raw:
			out = append(out, fmt.Sprintf("J(%s)", b))
		case Media:
			out = append(out, fmt.Sprintf("M(%s)", b))
		case Reply:
			out = append(out, ">")
		case MessageEnd:
			out = append(out, ".")
		}
	}
	return strings.Join(out, " ")
}

func scan(t *testing.T, api API, body string) *Request {
	t.Helper()
	var r Request
	if err := r.Scan(api, []byte(body)); err != nil {
		t.Fatalf("Scan(%s, %s): %v", api, body, err)
	}
	return &r
}

func TestPartsComeInTheOrderOfThePrompt(t *testing.T) {
	cases := []struct {
		name string
		api  API
		body string
		want string
	}{
		{"a chat", Chat, `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi \"you\""}]}`,
			`R(system) T(s) . R(user) T(hi \"you\") .`},
		{"replies are marked", Chat, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`,
			`R(user) T(a) . > R(assistant) T(b) . R(user) T(c) .`},
		{"content before role", Chat, `{"messages":[{"content":"b","role":"assistant"}]}`, `> R(assistant) T(b) .`},
		{"content parts read like a string", Chat,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"b"}]}]}`,
			`R(user) T(a) M({"url":"u"}) T(b) .`},
		{"tools and arguments precede messages", Chat,
			`{"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"x":1},"reasoning_effort":"low","tool_choice":"auto","tools":[{"type":"function"}],"temperature":1}`,
			`J([{"type":"function"}]) . J({"x":1}) J("low") J("auto") R(user) T(a) .`},
		{"calls and what replies leave empty", Chat,
			`{"messages":[{"role":"assistant","content":null,"refusal":null,"audio":null,"tool_calls":[{"id":"c","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"c","content":"r"},{"role":"assistant","content":"x","tool_calls":[],"annotations":[1]}]}`,
			`> R(assistant) J([{"id":"c","function":{"name":"f"}}]) . R(tool) J("c") T(r) . > R(assistant) T(x) .`},
		{"last messages win", Chat, `{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"b"}]}`, `R(user) T(b) .`},
		{"null tools are none", Chat, `{"tools":[1],"tools":null,"messages":[]}`, ``},
		{"no messages", Chat, `{"model":"m"}`, ``},
		{"a prompt", Completions, `{"prompt":"once upon"}`, `T(once upon)`},
		{"prompts", Completions, `{"prompt":["a","b"]}`, `T(a) . T(b) .`},
		{"token ids", Completions, `{"prompt":[1, 2,3]}`, `J(1, 2,3)`},
		{"lists of token ids", Completions, `{"prompt":[[1,2],[3]]}`, `J(1,2) . J(3) .`},
		{"an input", Embeddings, `{"input":"a"}`, `T(a)`},
		{"inputs", Embeddings, `{"input":["a","b"]}`, `T(a) . T(b) .`},
		{"a response", Responses, `{"input":"a","instructions":"i","tools":[{"type":"function","name":"f"}],"reasoning":{"effort":"low"}}`,
			`J([{"type":"function","name":"f"}]) . T(i) . J({"effort":"low"}) T(a) .`},
		{"response items", Responses,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call","id":"x","call_id":"c","name":"f","arguments":"{}","status":"completed"},{"type":"function_call_output","call_id":"c","output":"r"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]}]}]}`,
			`R(user) T(a) . > R(function_call) J("c") J("f") J("{}") . R(function_call_output) J("c") T(r) . > R(assistant) T(b) .`},
		{"Anthropic's system string", Messages, `{"messages":[{"role":"user","content":"a"}],"system":"s"}`, `T(s) . R(user) T(a) .`},
		{"Anthropic's blocks, cache_control aside", Messages,
			`{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"thinking":{"type":"enabled"},"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"g"},{"type":"tool_use","id":"i","name":"n","input":{"k":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"r"},{"type":"image","source":{"data":"d"}}]}]}]}`,
			`T(s) . J({"type":"enabled"}) R(user) T(a) . > R(assistant) J("t") J("g") J("i") J("n") J({"k":1}) . R(user) J("i") T(r) M({"data":"d"}) .`},
		{"counting tokens", CountTokens, `{"messages":[{"role":"user","content":"a"}]}`, `R(user) T(a) .`},
		{"rerank", Other, `{"documents":["d1",{"text":"d2"}],"query":"q"}`, `T(q) T(d1) . T(d2) .`},
		{"an engine's own generate", Other, `{"prompt":"p","n_predict":3}`, `T(p)`},
		{"an object as prompt", Other, `{"prompt":{"prompt_string":"p"}}`, `J("p")`},
		{"unknown fields only", Other, `{"zz":[{"text":"no"}]}`, ``},
	}
	for _, c := range cases {
		r := scan(t, c.api, c.body)
		if got := show(r, []byte(c.body)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestFieldsThatRoutingNeeds(t *testing.T) {
	cases := []struct {
		name, body string
		api        API
		ok         func(r *Request) bool
	}{
		{"model, stream, max tokens", `{"model":"m/1","stream":true,"max_tokens":7,"n":3,"priority":-2}`, Chat, func(r *Request) bool {
			return r.Model == "m/1" && r.HasModel && r.Stream && r.MaxTokens == 7 && r.N == 3 && r.Priority == -2
		}},
		{"an escaped key", `{"mod\u0065l":"caf\u00e9 \ud83d\ude00\n"}`, Chat, func(r *Request) bool { return r.Model == "café 😀\n" }},
		{"keys are case-exact", `{"Model":"m","STREAM":true}`, Chat, func(r *Request) bool { return !r.HasModel && !r.Stream }},
		{"the last model wins", `{"model":"a","model":"b"}`, Chat, func(r *Request) bool { return r.Model == "b" }},
		{"null model", `{"model":"a","model":null}`, Chat, func(r *Request) bool { return !r.HasModel && !r.ModelSpan.Found() }},
		{"empty model", `{"model":""}`, Chat, func(r *Request) bool { return !r.HasModel && r.ModelSpan.Found() }},
		{"the newer limit is preferred", `{"max_tokens":5,"max_completion_tokens":9}`, Chat, func(r *Request) bool { return r.MaxTokens == 9 }},
		{"no limit", `{"max_tokens":-1}`, Chat, func(r *Request) bool { return r.MaxTokens == 0 }},
		{"a huge limit", `{"max_tokens":1e99}`, Chat, func(r *Request) bool { return r.MaxTokens == countMax }},
		{"a limit of the wrong type", `{"max_tokens":"5","n":"x"}`, Chat, func(r *Request) bool { return r.MaxTokens == 0 && r.N == 1 }},
		{"Responses' limit", `{"max_output_tokens":4}`, Responses, func(r *Request) bool { return r.MaxTokens == 4 }},
		{"cache key first", `{"user":"u","conversation":"c","prompt_cache_key":"k"}`, Responses, func(r *Request) bool { return r.Session == "k" && r.User == "u" }},
		{"then the conversation", `{"user":"u","conversation":{"id":"c"},"previous_response_id":"resp_1"}`, Responses, func(r *Request) bool {
			return r.Session == "c" && r.Conversation == "c" && r.PreviousResponse == "resp_1"
		}},
		{"then metadata", `{"user":"u","metadata":{"x":1,"user_id":"mu"}}`, Messages, func(r *Request) bool { return r.Session == "mu" && r.User == "mu" }},
		{"then user", `{"user":"u","conversation":null,"metadata":null}`, Chat, func(r *Request) bool { return r.Session == "u" }},
		{"hints of the wrong type are none", `{"user":5,"conversation":[],"metadata":"x","prompt_cache_key":{}}`, Chat, func(r *Request) bool { return r.Session == "x" }},
		{"SEC-03: the salt, in every API", `{"cache_salt":"s1"}`, Messages, func(r *Request) bool { return r.CacheSalt == "s1" }},
		{"usage asked for", `{"stream_options":{"include_usage":true}}`, Chat, func(r *Request) bool { return r.IncludeUsage && r.StreamOptions.Found() }},
		{"a scored prompt", `{"prompt_logprobs":0}`, Chat, func(r *Request) bool { return r.Scored }},
		{"an echo with logprobs", `{"echo":true,"logprobs":0}`, Completions, func(r *Request) bool { return r.Scored }},
		{"neither", `{"prompt_logprobs":1,"prompt_logprobs":null,"echo":true,"logprobs":null}`, Completions, func(r *Request) bool { return !r.Scored }},
		{"logprobs of a chat's answer", `{"logprobs":true,"echo":true}`, Chat, func(r *Request) bool { return !r.Scored }},
		{"text bytes", `{"messages":[{"role":"user","content":"four"}],"tools":[]}`, Chat, func(r *Request) bool { return r.TextBytes == 4 && !r.Tools.Found() }},
		{"token ids are counted", `{"prompt":[[1,2],[3,4,5]]}`, Completions, func(r *Request) bool { return r.TokenIDs && r.TokenCount == 5 && r.Prompts == 2 }},
		{"inputs are counted", `{"input":["a","b","c"]}`, Embeddings, func(r *Request) bool { return r.Prompts == 3 && !r.TokenIDs }},
		{"media are counted", `{"messages":[{"role":"user","content":[{"image_url":{"url":"x"}},{"image_url":null}]}]}`, Chat, func(r *Request) bool { return r.MediaParts == 1 }},
	}
	for _, c := range cases {
		if r := scan(t, c.api, c.body); !c.ok(r) {
			t.Errorf("%s: %s: %+v", c.name, c.body, r)
		}
	}
}

func TestJSN04MalformedBodiesAreNamedWithTheirOffset(t *testing.T) {
	cases := []struct {
		body   string
		offset int
		what   string
	}{
		{``, 0, "empty"},
		{` `, 1, "empty"},
		{`{`, 1, "string as name"},
		{`not json`, 0, "not a JSON object"},
		{`[]`, 0, "not a JSON object"},
		{`"x"`, 0, "not a JSON object"},
		{`null`, 0, "not a JSON object"},
		{`{"model":"m"} x`, 14, "data after"},
		{`{"model":"m"`, 12, "comma or the closing"},
		{`{"model":"m",}`, 13, "string as name"},
		{`{"a":[1,]}`, 8, "expected a value"},
		{`{"a":tru}`, 5, "expected a value"},
		{`{"a":01}`, 6, "comma"},
		{`{"a":-}`, 5, "malformed number"},
		{`{"a":1.}`, 5, "malformed number"},
		{`{"a":NaN}`, 5, "expected a value"},
		{`{'a':1}`, 1, "string as name"},
		{`{"a" 1}`, 5, "colon"},
		{`{"a":"b`, 7, "unterminated"},
		{"{\"a\":\"b\nc\"}", 7, "control character"},
		{"{\"a\":\"long enough for eight\x01\"}", 27, "control character"},
		{`{"a":"\x"}`, 6, "unknown escape"},
		{`{"a":"\u12g4"}`, 6, "hexadecimal"},
		{`{"a":"\ud800"}`, 6, "surrogate"},
		{`{"a":"\udc00\ud800"}`, 6, "surrogate"},
		{"{\"a\":\"\xff\"}", 6, "UTF-8"},
		{"{\"a\":\"\xed\xa0\x80\"}", 6, "UTF-8"},
		{"\xff\xfe{\x00}\x00", 0, "not a JSON object"},
		{"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"]}", 41, "comma or the closing"},
	}
	for _, c := range cases {
		for api := Other; api <= CountTokens; api++ {
			var r Request
			var syntax *SyntaxError
			err := r.Scan(api, []byte(c.body))
			if !errors.As(err, &syntax) || syntax.Offset != c.offset || !strings.Contains(syntax.What, c.what) {
				t.Errorf("Scan(%s, %q) = %v, want %q at %d", api, c.body, err, c.what, c.offset)
			}
		}
	}
}

func TestJSN04WrongTypesAreNamedWithTheirField(t *testing.T) {
	cases := []struct {
		api   API
		body  string
		field string
	}{
		{Chat, `{"model":5}`, "model"},
		{Other, `{"model":["m"]}`, "model"},
		{Chat, `{"model":"m","messages":"x"}`, "messages"},
		{Chat, `{"messages":{"role":"user"}}`, "messages"},
		{Messages, `{"messages":["x"]}`, "messages"},
		{Chat, `{"messages":[{"role":5}]}`, "messages.role"},
		{Responses, `{"input":5}`, "input"},
		{Embeddings, `{"input":true}`, "input"},
		{Completions, `{"prompt":1.5}`, "prompt"},
	}
	for _, c := range cases {
		var r Request
		var field *FieldError
		if err := r.Scan(c.api, []byte(c.body)); !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("Scan(%s, %s) = %v, want field %s", c.api, c.body, err, c.field)
		}
	}
}

func TestAByteOrderMarkIsSkipped(t *testing.T) {
	if r := scan(t, Chat, "\xef\xbb\xbf{\"model\":\"m\"}"); r.Model != "m" {
		t.Fatal(r.Model)
	}
}

func TestSEC06DeepNestingIsRefusedByNameWhereverItIs(t *testing.T) {
	long := strings.Repeat("[", 1_000_000)
	objects := strings.Repeat(`{"a":`, 100_000)
	for _, body := range []string{
		`{"ignored":` + long, `{"ignored":` + objects, `{"messages":` + long, `{"messages":[{"content":` + long,
		`{"messages":[{"content":[` + strings.Repeat(`{"content":[`, 100_000), `{"prompt":` + long, `{"input":` + long,
		`{"metadata":` + objects, `{"stream_options":` + objects, `{"system":` + long, `{"tools":` + long,
	} {
		for api := Other; api <= CountTokens; api++ {
			var r Request
			var syntax *SyntaxError
			if err := r.Scan(api, []byte(body)); !errors.As(err, &syntax) || !strings.Contains(err.Error(), "512 levels") {
				var field *FieldError
				if !errors.As(err, &field) {
					t.Errorf("%s %.40s...: %v", api, body, err)
				}
			}
		}
	}
	deepest := strings.Repeat("[", jsontext.DepthMax-1) + strings.Repeat("]", jsontext.DepthMax-1)
	scan(t, Chat, `{"x":`+deepest+`}`)
	scan(t, Completions, `{"prompt":`+deepest+`}`)
	if err := new(Request).Scan(Chat, []byte(`{"x":[`+deepest+`]}`)); err == nil {
		t.Error("one level too many passed")
	}
}

func TestSEC06AMillionKeysScan(t *testing.T) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range 1_000_000 {
		fmt.Fprintf(&b, `"k%d":0,`, i)
	}
	b.WriteString(`"model":"m"}`)
	if r := scan(t, Chat, b.String()); r.Model != "m" {
		t.Fatal("the model was not found")
	}
}

func TestAPooledRequestRemembersNothing(t *testing.T) {
	var r Request
	first := []byte(`{"model":"m","stream":true,"max_tokens":3,"tools":[1],"user":"u","cache_salt":"s","stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}],"priority":1,"n":2}`)
	if err := r.Scan(Chat, first); err != nil {
		t.Fatal(err)
	}
	if err := r.Scan(Chat, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if r.Model != "" || r.HasModel || r.Stream || r.MaxTokens != 0 || len(r.Parts) != 0 || r.Session != "" || r.User != "" ||
		r.CacheSalt != "" || r.IncludeUsage || r.StreamOptions.Found() || r.Tools.Found() || r.Priority != 0 || r.N != 1 {
		t.Fatalf("%+v", r)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := r.Scan(Chat, first); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a repeated scan allocates %v times", n)
	}
}

func TestSEC06PartsAreBounded(t *testing.T) {
	for _, item := range []string{`{},`, `{"role":"assistant","content":[{"text":"x"}]},`, `{"role":"user","content":"x"},`} {
		body := `{"messages":[` + strings.Repeat(item, 300_000) + `{}],"tools":[1],"model":"m"}`
		r := scan(t, Chat, body)
		if len(r.Parts) > PartsMax || cap(r.Parts) > 2*PartsMax || r.Model != "m" {
			t.Errorf("%s: %d parts", item, len(r.Parts))
		}
	}
}

func TestTOK03EveryBodyShapeIsTakenOrRefused(t *testing.T) {
	shapes := []string{
		`{"input":"a"}`, `{"input":[{"role":"user","content":"a"}]}`, `{"query":"q","documents":["d"]}`, `{"prompt":[1,2]}`, `{"prompt":[[1],[2]]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`, `{"messages":[]}`, `{"messages":[{}]}`, `{"messages":[{"role":"user"}]}`,
		`{"prompt":[["a",1],[]]}`, `{"prompt":["a",1,2]}`, `{"prompt":[]}`, `{"input":{}}`, `{"input":[null]}`, `{"messages":[{"content":[null,[],"x",{"content":[{"text":5}]}]}]}`,
		`{"messages":[{"role":"","type":5,"content":{"a":1}}]}`, `{"system":5}`, `{"tools":{}}`, `{"metadata":[],"conversation":{"id":5}}`,
	}
	for _, body := range shapes {
		for api := Other; api <= CountTokens; api++ {
			var r Request
			var field *FieldError
			if err := r.Scan(api, []byte(body)); err != nil && !errors.As(err, &field) {
				t.Errorf("%s %s: %v", api, body, err)
			}
		}
	}
}
