package prompt

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/leash"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/prefix"
)

var keyer = New(prefix.NewSeed([]byte("keyer tests")), DefaultOptions())

func chain(t testing.TB, api llmapi.API, body string) prefix.Chain {
	t.Helper()
	var req llmapi.Request
	if err := req.Scan(api, []byte(body)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	c := keyer.Chain(&req, []byte(body), prefix.Chain{})
	if problem := unsound(c); problem != "" {
		t.Fatalf("%s: %s: %+v", body, problem, c)
	}
	return c
}

func chat(t testing.TB, body string) prefix.Chain { t.Helper(); return chain(t, llmapi.Chat, body) }

// unsound tells what is wrong with a chain, if anything.
func unsound(c prefix.Chain) string {
	if len(c.Keys) != len(c.Ends) {
		return "keys and ends differ in number"
	}
	for i := range c.Ends {
		if c.Ends[i] <= 0 || i > 0 && c.Ends[i] <= c.Ends[i-1] {
			return "ends do not rise"
		}
	}
	at := int32(-1)
	for _, r := range c.Replies {
		if r.First < 0 || r.First <= at && at > 0 || r.Last <= r.First || int(r.Last) > len(c.Keys) {
			return "a reply is out of order or bounds"
		}
		at = r.Last
	}
	return ""
}

// shared is the number of leading blocks that a and b have in common.
func shared(a, b prefix.Chain) int {
	n := 0
	for n < min(len(a.Keys), len(b.Keys)) && a.Keys[n] == b.Keys[n] {
		n++
	}
	return n
}

const story = "Once upon a time there was a block of text that was longer than sixty-four bytes, so that it had to be cut in several blocks. "

func TestEqualConversationsHaveEqualKeysHoweverTheBodyIsWritten(t *testing.T) {
	base := chat(t, `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"`+story+`"}]}`)
	for _, same := range []string{
		`{ "messages" : [ {"content":"Be brief.","role":"system"} , {"role":"user","content":"` + story + `"} ], "model":"m" }`,
		`{"model":"m","stream":true,"max_tokens":7,"temperature":0.3,"seed":1,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"` + story + `"}]}`,
		`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"Be brief."}]},{"role":"user","content":[{"type":"text","text":"` + story + `"}]}]}`,
	} {
		if c := chat(t, same); !slices.Equal(c.Keys, base.Keys) || !slices.Equal(c.Ends, base.Ends) {
			t.Errorf("%s\ndiffers from the plain form", same)
		}
	}
}

func TestAFollowUpMatchesTheWholeEarlierTurn(t *testing.T) {
	for size := range 200 { // block borders fall everywhere
		text := strings.Repeat(story, 2)[:size+1]
		first := `{"role":"system","content":"Be brief."},{"role":"user","content":"` + text + `"}`
		turn1 := chat(t, `{"model":"m","messages":[`+first+`]}`)
		turn2 := chat(t, `{"model":"m","messages":[`+first+`,{"role":"assistant","content":"`+text+`"},{"role":"user","content":"go on"}]}`)
		if got := shared(turn1, turn2); got != len(turn1.Keys) {
			t.Fatalf("%d bytes: %d of %d blocks shared", size, got, len(turn1.Keys))
		}
		if len(turn2.Replies) != 1 || int(turn2.Replies[0].First) != len(turn1.Keys) || int(turn2.Replies[0].Last) != len(turn2.Keys)-1 {
			t.Fatalf("%d bytes: replies %v, want from %d to %d", size, turn2.Replies, len(turn1.Keys), len(turn2.Keys)-1)
		}
	}
}

func TestTheWorkerOfTheEarlierTurnHoldsItsReplyToo(t *testing.T) {
	x := prefix.New(prefix.Options{})
	first := `{"role":"user","content":"` + story + `"}`
	x.Enter(4, chat(t, `{"model":"m","messages":[`+first+`]}`), 0)
	turn2 := chat(t, `{"model":"m","messages":[`+first+`,{"role":"assistant","content":"`+story+`"},{"role":"user","content":"`+story+`"}]}`)
	if got := x.Match(turn2, nil)[4]; got != turn2.Replies[0].Last {
		t.Errorf("%d blocks held, want the question and the reply: %d", got, turn2.Replies[0].Last)
	}
}

func TestWhatTheEngineRendersChangesTheKeys(t *testing.T) {
	const messages = `"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]`
	const tool = `{"type":"function","function":{"name":"f","parameters":{}}}`
	bodies := []string{
		`{"model":"m",` + messages + `}`,
		`{"model":"m2",` + messages + `}`,
		`{"model":"m","cache_salt":"a",` + messages + `}`,
		`{"model":"m","cache_salt":"b",` + messages + `}`,
		`{"model":"m","tools":[` + tool + `],` + messages + `}`,
		`{"model":"m","tools":[` + strings.Replace(tool, `"f"`, `"g"`, 1) + `],` + messages + `}`,
		`{"model":"m","tools":[` + tool + `],"tool_choice":"none",` + messages + `}`,
		`{"model":"m","tools":[` + tool + `],"tool_choice":"required",` + messages + `}`,
		`{"model":"m","chat_template_kwargs":{"enable_thinking":false},` + messages + `}`,
		`{"model":"m","chat_template_kwargs":{"enable_thinking":true},` + messages + `}`,
		`{"model":"m","reasoning_effort":"low",` + messages + `}`,
		`{"model":"m","reasoning_effort":"high",` + messages + `}`,
		`{"model":"m","messages":[{"role":"developer","content":"s"},{"role":"user","content":"u"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"s"},{"role":"user","content":"u"}]}`,
		`{"model":"m","messages":[{"role":"system","content":"su"},{"role":"user","content":""}]}`,
		`{"model":"m","messages":[{"role":"system","content":"su"}]}`,
	}
	for i, a := range bodies {
		for _, b := range bodies[:i] {
			ca, cb := chat(t, a), chat(t, b)
			if n := shared(ca, cb); strings.Contains(a, messages) && n > min(1, len(ca.Keys)-2) { // the same tools may be shared
				t.Errorf("%s\nand %s\nshare %d blocks", a, b, n)
			}
			if slices.Equal(ca.Keys, cb.Keys) {
				t.Errorf("%s\nand %s\nhave the same keys", a, b)
			}
		}
	}
}

func TestSEC03SaltsShareNothingInAnyAPI(t *testing.T) {
	for api, conversation := range map[llmapi.API]string{
		llmapi.Chat:        `"messages":[{"role":"user","content":"` + story + `"}]`,
		llmapi.Completions: `"prompt":"` + story + `"`,
		llmapi.Responses:   `"input":"` + story + `"`,
		llmapi.Messages:    `"max_tokens":5,"messages":[{"role":"user","content":"` + story + `"}]`,
	} {
		one := chain(t, api, `{"model":"m","cache_salt":"s1",`+conversation+`}`)
		two := chain(t, api, `{"model":"m","cache_salt":"s2",`+conversation+`}`)
		none := chain(t, api, `{"model":"m",`+conversation+`}`)
		again := chain(t, api, `{"model":"m",`+conversation+`,"cache_salt":"s1"}`)
		if len(one.Keys) == 0 || shared(one, two)+shared(one, none)+shared(two, none) > 0 || shared(one, again) != len(one.Keys) {
			t.Errorf("%v: %d blocks; s1 and s2 share %d, s1 and none %d, s1 and s1 %d", api, len(one.Keys), shared(one, two), shared(one, none), shared(one, again))
		}
	}
}

func TestMM01AnotherImageSharesTheTextBeforeItAndNoMore(t *testing.T) {
	with := func(before, image string) prefix.Chain {
		return chat(t, `{"model":"m","messages":[{"role":"system","content":"`+story+`"},{"role":"user","content":[{"type":"text","text":"`+before+
			`"},{"type":"image_url","image_url":{"url":"`+image+`"}},{"type":"text","text":"`+story+`"}]}]}`)
	}
	inline := "data:image/png;base64," + strings.Repeat("iVBORw0KGgo", 20_000)
	a, b, c := with("look", "http://x/a.png"), with("look", "http://x/b.png"), with("look", inline)
	text := chat(t, `{"model":"m","messages":[{"role":"system","content":"`+story+`"},{"role":"user","content":"look"}]}`)
	if got := shared(a, with("look", "http://x/a.png")); got != len(a.Keys) {
		t.Errorf("the same image again shares %d of %d blocks", got, len(a.Keys))
	}
	for _, other := range []prefix.Chain{b, c, text} {
		if got := shared(a, other); got != len(text.Keys) {
			t.Errorf("%d blocks shared, want all %d before the image", got, len(text.Keys))
		}
	}
	if got, want := shared(a, with("watch", "http://x/a.png")), len(text.Keys)-1; got != want {
		t.Errorf("with other text before the image %d blocks are shared, want %d", got, want)
	}
	if a.Bytes() != c.Bytes() || a.Bytes() > 8192 {
		t.Errorf("%d prompt bytes by URL and %d inline: an image is some thousand tokens either way", a.Bytes(), c.Bytes())
	}
}

func TestCallsAndTheirResultsArePartOfTheChainAndOneAnswerIsOneReply(t *testing.T) {
	turn := func(city, result string) prefix.Chain {
		return chain(t, llmapi.Responses, `{"model":"m","input":[{"role":"user","content":"weather?"},{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},`+
			`{"type":"function_call","name":"w","call_id":"1","arguments":"{\"city\":\"`+city+`\"}"},{"type":"function_call_output","call_id":"1","output":"`+result+`"}]}`)
	}
	oslo := turn("Oslo", "rain")
	if len(oslo.Replies) != 1 || int(oslo.Replies[0].Last) != len(oslo.Keys)-1 {
		t.Errorf("replies %v of %d blocks, want one that ends before the last", oslo.Replies, len(oslo.Keys))
	}
	if got := shared(oslo, turn("Rome", "rain")); got >= int(oslo.Replies[0].Last) {
		t.Errorf("another city shares %d blocks", got)
	}
	if got := shared(oslo, turn("Oslo", "sun")); got != len(oslo.Keys)-1 {
		t.Errorf("another result shares %d of %d blocks", got, len(oslo.Keys))
	}
}

func TestStoredConversationsShareNothingWithOthers(t *testing.T) {
	base := chain(t, llmapi.Responses, `{"model":"m","input":"`+story+`"}`)
	for _, field := range []string{`"previous_response_id":"resp_1"`, `"previous_response_id":"resp_2"`, `"conversation":"resp_1"`} {
		if got := shared(base, chain(t, llmapi.Responses, `{"model":"m",`+field+`,"input":"`+story+`"}`)); got > 0 {
			t.Errorf("with %s %d blocks are shared", field, got)
		}
	}
}

func TestTOK03EveryBodyShapeIsKeyedOrHasAnEmptyChain(t *testing.T) {
	for _, c := range []struct {
		api   llmapi.API
		body  string
		empty bool
	}{
		{llmapi.Embeddings, `{"model":"m","input":"text"}`, false},
		{llmapi.Embeddings, `{"model":"m","input":["a","b"]}`, false},
		{llmapi.Responses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`, false},
		{llmapi.Completions, `{"model":"m","prompt":[1,2,3]}`, false},
		{llmapi.Completions, `{"model":"m","prompt":[[1,2],[3]]}`, false},
		{llmapi.Messages, `{"model":"m","max_tokens":1,"system":"s","messages":[{"role":"user","content":"u"}]}`, false},
		{llmapi.Chat, `{"model":"m","messages":[]}`, true},
		{llmapi.Chat, `{"model":"m","messages":[{"role":"user","content":""}]}`, true},
		{llmapi.Completions, `{"model":"m","prompt":""}`, true},
		{llmapi.Other, `{"model":"m"}`, true},
	} {
		if got := chain(t, c.api, c.body); (len(got.Keys) == 0) != c.empty {
			t.Errorf("%v %s: %d blocks", c.api, c.body, len(got.Keys))
		}
	}
}

func TestALongerListOfTokenIdsMatchesTheShorterOne(t *testing.T) {
	ids := func(n int) string {
		var s []string
		for i := range n {
			s = append(s, fmt.Sprint(1000+i))
		}
		return `{"model":"m","prompt":[` + strings.Join(s, ",") + `]}`
	}
	short, long := chain(t, llmapi.Completions, ids(500)), chain(t, llmapi.Completions, ids(900))
	if got := shared(short, long); got < len(short.Keys)-1 {
		t.Errorf("%d of %d blocks shared", got, len(short.Keys))
	}
}

func TestBlocksOfAnySizeCutTheSameText(t *testing.T) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(story, 3) + `"},{"role":"assistant","content":"x"}]}`)
	var req llmapi.Request
	if err := req.Scan(llmapi.Chat, body); err != nil {
		t.Fatal(err)
	}
	var whole int
	for _, size := range []int{1, 2, 16, 63, 64, 65, 256, 10_000} {
		c := New(prefix.NewSeed(nil), Options{BlockBytes: size}).Chain(&req, body, prefix.Chain{})
		if whole == 0 {
			whole = c.Bytes()
		}
		if problem := unsound(c); problem != "" || c.Bytes() != whole || size == 256 && len(c.Keys) != 3 {
			t.Errorf("blocks of %d: %s, %d prompt bytes in %d blocks, want %d bytes", size, problem, c.Bytes(), len(c.Keys), whole)
		}
	}
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func TestRandomConversationsShareExactlyTheirCommonMessages(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	roles := []string{"user", "assistant", "system", "tool"}
	conversation := func(n int) (m []message) {
		for range n {
			m = append(m, message{roles[r.IntN(len(roles))], strings.Repeat(story, 3)[:1+r.IntN(300)]})
		}
		return m
	}
	body := func(m []message) string {
		b, err := json.Marshal(map[string]any{"model": "m", "messages": m})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for range 2000 {
		head := conversation(1 + r.IntN(6))
		a := append(slices.Clone(head), message{"user", fmt.Sprint("a", r.Uint64())})
		b := append(slices.Clone(head), message{"user", fmt.Sprint("b", r.Uint64())})
		a, b = append(a, conversation(r.IntN(3))...), append(b, conversation(r.IntN(3))...)
		common := chat(t, body(head))
		if got := shared(chat(t, body(a)), chat(t, body(b))); got != len(common.Keys) {
			t.Fatalf("%s\n%s\nshare %d blocks, want %d", body(a), body(b), got, len(common.Keys))
		}
	}
}

func TestAReusedChainIsTheSameAndCostsNoMemory(t *testing.T) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(story, 9) + `"},{"role":"assistant","content":"x"}]}`)
	var req llmapi.Request
	if err := req.Scan(llmapi.Chat, body); err != nil {
		t.Fatal(err)
	}
	fresh := keyer.Chain(&req, body, prefix.Chain{})
	used := keyer.Chain(&req, body, keyer.Chain(&req, body, prefix.Chain{}))
	if !slices.Equal(fresh.Keys, used.Keys) || !slices.Equal(fresh.Ends, used.Ends) || !slices.Equal(fresh.Replies, used.Replies) {
		t.Error("a reused chain differs from a fresh one")
	}
	if n := testing.AllocsPerRun(100, func() { used = keyer.Chain(&req, body, used) }); n > 0 {
		t.Errorf("%v allocations a chain", n)
	}
}

func FuzzChain(f *testing.F) {
	f.Add(uint8(llmapi.Chat), []byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"hi"}]},{"role":"assistant","content":"yes"}]}`))
	f.Add(uint8(llmapi.Responses), []byte(`{"model":"m","instructions":"i","input":[{"type":"reasoning"},{"type":"function_call","arguments":"{}"}]}`))
	f.Add(uint8(llmapi.Completions), []byte(`{"prompt":[[1,2],"x"],"cache_salt":"s"}`))
	f.Fuzz(func(t *testing.T, api uint8, body []byte) {
		defer leash.Hold(t, len(body))()
		var req llmapi.Request
		if req.Scan(llmapi.API(api%7), body) != nil {
			return
		}
		c := keyer.Chain(&req, body, prefix.Chain{})
		if problem := unsound(c); problem != "" {
			t.Errorf("%s: %+v", problem, c)
		}
	})
}

func BenchmarkChain(b *testing.B) {
	for _, messages := range []int{1, 40} {
		b.Run(fmt.Sprintf("431KB/messages=%d", messages), func(b *testing.B) {
			text := strings.Repeat(story, 431_000/len(story)/messages)
			var m []message
			for range messages {
				m = append(m, message{"user", text})
			}
			body, err := json.Marshal(map[string]any{"model": "m", "messages": m})
			if err != nil {
				b.Fatal(err)
			}
			var req llmapi.Request
			if err := req.Scan(llmapi.Chat, body); err != nil {
				b.Fatal(err)
			}
			var c prefix.Chain
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				c = keyer.Chain(&req, body, c)
			}
		})
	}
}

func TestLongPromptsHaveLongerBlocksAndStillShareAllThatTheyHaveInCommon(t *testing.T) {
	keyer := New(prefix.NewSeed([]byte("long")), DefaultOptions())
	chain := func(texts ...string) prefix.Chain {
		body := []byte(`{"model":"m","messages":[`)
		for i, text := range texts {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, `{"role":"user","content":"`+text+`"}`...)
		}
		body = append(body, `]}`...)
		var req llmapi.Request
		if err := req.Scan(llmapi.Chat, body); err != nil {
			t.Fatal(err)
		}
		return keyer.Chain(&req, body, prefix.Chain{})
	}
	long := strings.Repeat("0123456789abcdef", 16<<10)
	whole := chain(long)
	if n := len(whole.Keys); n < 1400 || n > 1600 {
		t.Errorf("%d blocks of %d bytes", n, len(long))
	}
	for _, cut := range []int{100, 30_000, 32<<10 - 20, 32 << 10, 33_000, 200_000} {
		other := chain(long[:cut]+"x"+long[cut:], "and more")
		same := 0
		for same < len(other.Keys) && same < len(whole.Keys) && other.Keys[same] == whole.Keys[same] {
			same++
		}
		shared := 0
		if same > 0 {
			shared = int(whole.Ends[same-1])
		}
		if shared > cut+16 || shared < cut-256 {
			t.Errorf("cut at %d: %d bytes are shared", cut, shared)
		}
		follow := chain(long, long[:cut])
		if n := len(whole.Keys); follow.Keys[n-1] != whole.Keys[n-1] {
			t.Errorf("a follow-up does not share the first message")
		}
	}
}
