package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/render"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// tellerBlock is a teller's block size in tokens.
const tellerBlock = 16

// teller is a scripted engine of vLLM's kind that tells, over real sockets, which blocks it has cached: what the test has it say, in the
// messages that the test has it send. Its tokens are made up: three bytes of a prompt are one.
type teller struct {
	*worker
	t *testing.T

	mu       sync.Mutex
	pub      *zmtp.Publisher // nil: not publishing
	replay   *zmtp.Router    // nil: it replays nothing
	log      [][]byte        // messages by number
	adapters []string
	settings string // SGLang's, which it then is; "" it is vLLM
	hits     *int   // tokens that it reports as cached, of every chat; nil: it reports none
}

// newTeller starts one that publishes, and replays unless it is told not to.
func newTeller(t *testing.T, replays bool, adapters ...string) *teller {
	t.Helper()
	e := &teller{worker: newWorker(t, nil), t: t, adapters: adapters}
	e.worker.tells = true
	e.worker.on(e.script)
	e.worker.onGet(e.pages)
	e.publishAt("tcp://127.0.0.1:0")
	if replays {
		var err error
		if e.replay, err = zmtp.Route("tcp://127.0.0.1:0", zmtp.Options{}, e.answer); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.replay.Close)
	}
	return e
}

// publishAt begins a life of the engine: its numbers start at 0.
func (e *teller) publishAt(endpoint string) {
	e.t.Helper()
	pub, err := zmtp.Publish(endpoint, zmtp.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(pub.Close)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pub, e.log = pub, nil
}

// die ends the publisher and returns where it was.
func (e *teller) die() (endpoint string) {
	endpoint = e.pub.Endpoint()
	e.pub.Close()
	return endpoint
}

func (e *teller) pages(out http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.settings != "" {
		e.pagesOfSGLang(out, r)
		return
	}
	switch r.URL.Path {
	case "/v1/models":
		list := []string{`{"id":"m","object":"model","owned_by":"vllm","max_model_len":65536,"parent":null}`}
		for _, a := range e.adapters {
			list = append(list, fmt.Sprintf(`{"id":%q,"object":"model","owned_by":"vllm","max_model_len":65536,"parent":"m"}`, a))
		}
		fmt.Fprintf(out, `{"object":"list","data":[%s]}`, strings.Join(list, ","))
	case "/metrics":
		io.WriteString(out, busy(0)+"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"10000\"} 1\n")
	case "/kv_event_sources":
		source := map[string]any{"endpoint": e.pub.Endpoint()}
		if e.replay != nil {
			source["replay_endpoint"] = e.replay.Endpoint()
		}
		json.NewEncoder(out).Encode(map[string]any{"0": source})
	default:
		http.NotFound(out, r)
	}
}

// pagesOfSGLang are those of an engine that tells where it publishes among its settings, and nowhere else.
func (e *teller) pagesOfSGLang(out http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		io.WriteString(out, `{"object":"list","data":[{"id":"m","object":"model","owned_by":"sglang","max_model_len":65536}]}`)
	case "/metrics":
		io.WriteString(out, "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n")
	case "/server_info":
		fmt.Fprintf(out, `{"version":"0.5.13","page_size":16,"max_total_num_tokens":160000,%s}`, e.settings)
	default:
		http.NotFound(out, r)
	}
}

// script tokenises, serves chats, whose tokens it counts, and answers everything else well. It is an engine without the newer ways to
// ask for a prompt's tokens.
func (e *teller) script(c *call) {
	var in struct {
		Prompt   string
		Messages []struct{ Role, Content string }
	}
	understood := json.Unmarshal(c.body, &in) == nil
	text := in.Prompt
	for _, m := range in.Messages {
		text += turn(m.Role, m.Content)
	}
	ids := tokensOf(text)
	switch path := c.r.URL.Path; {
	case strings.HasSuffix(path, "/render"):
		http.NotFound(c.w, c.r)
	case path == "/tokenize" && understood:
		list, _ := json.Marshal(ids)
		c.json(http.StatusOK, fmt.Sprintf(`{"count":%d,"max_model_len":65536,"tokens":%s}`, len(ids), list))
	case path == "/tokenize":
		c.json(http.StatusBadRequest, `{"error":{"message":"not understood"}}`)
	case path == "/v1/chat/completions" && understood && !c.wantsStream():
		e.mu.Lock()
		details := "null"
		if e.hits != nil {
			details = fmt.Sprintf(`{"cached_tokens":%d}`, *e.hits)
		}
		e.mu.Unlock()
		c.json(http.StatusOK, fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d,"prompt_tokens_details":%s}}`,
			len(ids), len(ids)+1, details))
	default:
		c.good("hello", "world")
	}
}

// turn is a message as the teller's template writes it.
func turn(role, content string) string { return "<" + role + ">" + content }

// tokensOf are the teller's tokens of a text.
func tokensOf(text string) (ids []uint32) {
	for ; text != ""; text = text[min(3, len(text)):] {
		var four [4]byte
		copy(four[:3], text)
		ids = append(ids, binary.LittleEndian.Uint32(four[:]))
	}
	return ids
}

// long is a prompt of some 40 blocks that shares nothing with those of other topics but its first token.
func long(topic string) string {
	return topic + strings.Repeat(" all that is said of "+topic, 1+1900/(21+len(topic)))
}

// cached are the events by which an engine says that it computed a prompt of one user's message. like may say more of them; its names tell
// prompts apart by what it says, as engines' hashes do.
func cached(content string, like kvevent.Event) []kvevent.Event {
	return computed(tokensOf(turn("user", content)), like)
}

// computed are those of any prompt, by its tokens.
func computed(ids []uint32, like kvevent.Event) (events []kvevent.Event) {
	name := uint64(14695981039346656037) // of FNV-1a, as its factor below
	for _, b := range []byte(like.Adapter + "/" + like.Salt) {
		name = (name ^ uint64(b)) * 1099511628211
	}
	for at := 0; at+tellerBlock <= len(ids); at += tellerBlock {
		ev := like
		ev.Kind, ev.BlockTokens, ev.Tokens = kvevent.Stored, tellerBlock, ids[at:at+tellerBlock]
		ev.Parent, ev.HasParent = name, at > 0
		for _, id := range ev.Tokens {
			name = (name ^ uint64(id)) * 1099511628211
		}
		ev.Names = []uint64{name}
		events = append(events, ev)
	}
	return events
}

// gone are the events that take those back, last block first, as engines do.
func gone(stored []kvevent.Event, tier kvindex.Tier) (events []kvevent.Event) {
	for i := len(stored) - 1; i >= 0; i-- {
		events = append(events, kvevent.Event{Kind: kvevent.Removed, Names: stored[i].Names, Tier: tier})
	}
	return events
}

// say sends one message.
func (e *teller) say(events ...kvevent.Event) { e.sayRaw(true, kvevent.AppendBatch(nil, 1, 0, events)) }

// lose numbers a message that nobody gets.
func (e *teller) lose(events ...kvevent.Event) {
	e.sayRaw(false, kvevent.AppendBatch(nil, 1, 0, events))
}

func (e *teller) sayRaw(send bool, payload []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if send {
		e.pub.Send([]byte("kv"), binary.BigEndian.AppendUint64(nil, uint64(len(e.log))), payload)
	}
	e.log = append(e.log, payload)
}

// answer replays.
func (e *teller) answer(message [][]byte, reply func(...[]byte) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for seq := binary.BigEndian.Uint64(message[len(message)-1]); seq < uint64(len(e.log)); seq++ {
		_ = reply(nil, []byte("kv"), binary.BigEndian.AppendUint64(nil, seq), e.log[seq])
	}
	_ = reply(nil, nil, binary.BigEndian.AppendUint64(nil, 1<<64-1), nil)
}

// startTold runs a router before tellers and returns when it hears each of them.
func startTold(t *testing.T, change func(*config.Config), tellers ...*teller) *testRouter {
	t.Helper()
	var workers []*worker
	for _, e := range tellers {
		workers = append(workers, e.worker)
	}
	rt := start(t, func(c *config.Config) {
		// What is to be shown is credit. Tellers answer at once, whatever is cached: to the default policy, which learns how long things
		// take, a prefix would soon be worth nothing.
		c.Policy, c.ExplainHeaders = "affinity-filter", true
		c.Exact.TokensTimeout = 30 * time.Second
		if change != nil {
			change(c)
		}
	}, workers...)
	for _, e := range tellers {
		e.awaitSubscriber()
	}
	eventually(t, "the engines to be asked for tokens", func() bool {
		states := rt.exact.render.States()
		return len(states) == 1 && states[0].Mode == render.EngineSide
	})
	return rt
}

func (e *teller) awaitSubscriber() {
	e.t.Helper()
	eventually(e.t, "the router to subscribe to "+e.url, func() bool { return e.pub.Subscribers() == 1 })
}

// heard waits until the router has taken in all that a teller said, and knows its cache in this state.
func (rt *testRouter) heard(id string, e *teller, state kvevent.State) {
	rt.t.Helper()
	eventually(rt.t, fmt.Sprintf("the events of %s to be %s", id, state), func() bool {
		e.mu.Lock()
		said := uint64(len(e.log))
		e.mu.Unlock()
		for _, s := range rt.exact.feeds.Statuses() {
			if s.ID == id {
				return s.Next == said && s.State == state
			}
		}
		return false
	})
}

// decided is what the router made of one request: how much of its prompt each worker is taken to have, and who got it.
func (rt *testRouter) decided(path, body string, headers ...string) (rows []matchedRow, chosen string) {
	rt.t.Helper()
	r := rt.post(path, body, headers...)
	var d struct{ Rows []matchedRow }
	if err := json.Unmarshal([]byte(r.header.Get("X-Warmpath-Decision")), &d); err != nil || r.status != http.StatusOK {
		rt.t.Fatalf("%d %s, decision %q: %v", r.status, r.body, r.header.Get("X-Warmpath-Decision"), err)
	}
	return d.Rows, r.header.Get("X-Warmpath-Worker")
}

type matchedRow struct {
	Worker   string
	Matched  int     `json:"matched_tokens"`
	Prefill  float64 `json:"prefill_seconds"`
	ByEvents bool    `json:"by_events"`
}

// matched is in tokens, however it is known.
func (rt *testRouter) matched(path, body string, headers ...string) (tokens map[string]int, chosen string) {
	rt.t.Helper()
	rows, chosen := rt.decided(path, body, headers...)
	tokens = map[string]int{}
	for _, row := range rows {
		tokens[row.Worker] = row.Matched
	}
	return tokens, chosen
}

// credit is in blocks, and only of workers that tell what they have.
func (rt *testRouter) credit(body string) (blocks map[string]int, chosen string) {
	rt.t.Helper()
	rows, chosen := rt.decided("/v1/chat/completions", body)
	blocks = map[string]int{}
	for _, row := range rows {
		if row.ByEvents {
			blocks[row.Worker] = row.Matched / tellerBlock
		}
	}
	return blocks, chosen
}

// wantCredit checks the credit of each worker, and where one has more than the others, that it gets ten such requests in a row.
func (rt *testRouter) wantCredit(why, body string, want map[string]int) {
	rt.t.Helper()
	got, _ := rt.credit(body)
	if !maps.Equal(got, want) {
		rt.t.Errorf("%s: the credit is %v, want %v", why, got, want)
	}
	best := ""
	for id, blocks := range want {
		if most, there := want[best]; !there || blocks > most {
			best = id
		}
	}
	for id, blocks := range want {
		if id != best && blocks == want[best] {
			return
		}
	}
	for range 10 {
		if _, chosen := rt.credit(body); chosen != best {
			rt.t.Errorf("%s: a request went to %s, want %s", why, chosen, best)
		}
	}
}

// asks is a chat request for a model, with fields beside.
func asks(model, content, more string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, model, content, more)
}
