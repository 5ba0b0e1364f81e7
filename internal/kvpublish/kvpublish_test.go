package kvpublish

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/dialog"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvfeed"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seed = prefix.NewSeed([]byte("test"))

const blockTokens = 16

// house is a simulated engine that publishes, and who follows it.
type house struct {
	t     *testing.T
	web   *httptest.Server
	pub   *Publisher
	feed  *kvfeed.Manager
	index *kvindex.Index
}

func newHouse(t *testing.T, kvTokens int) *house {
	t.Helper()
	p, err := New(Options{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", BlockTokens: blockTokens})
	if err != nil {
		t.Fatal(err)
	}
	profile := cost.Profiles["h100-8b"]
	profile.KVTokensMax = kvTokens
	s := engine.New(engine.Options{Profile: profile, TimeScale: 1000, Events: &engine.Events{Begin: p.Begin, Block: p.Block, Step: p.Step, Sources: p}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	h := &house{t: t, web: httptest.NewServer(s.Handler()), pub: p, index: kvindex.New(kvindex.Options{})}
	h.follow()
	t.Cleanup(func() {
		h.feed.Close()
		h.web.Close()
		cancel()
		<-ended
		p.Close()
	})
	return h
}

// follow begins to follow the engine, knowing nothing.
func (h *house) follow() {
	h.feed = kvfeed.New(h.index, kvfeed.Options{Seed: seed, Client: h.web.Client(), ReplayPause: time.Millisecond})
	h.feed.Follow(kvfeed.Target{ID: "a", URL: h.web.URL, Rank: -1, Model: "sim"})
	h.caughtUp(kvevent.Exact)
}

// caughtUp waits until everything published has been taken in.
func (h *house) caughtUp(state kvevent.State) {
	h.t.Helper()
	tick, over := time.NewTicker(time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for {
		st := h.feed.Statuses()
		if len(st) == 1 && st[0].State == state && st[0].Next == h.pub.Sent() {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			h.t.Fatalf("it does not catch up: %+v, %d published", st, h.pub.Sent())
		}
	}
}

// predicted is how many tokens of a request's prompt the index says are cached. One token is always computed.
func (h *house) predicted(body []byte) int {
	h.t.Helper()
	r, err := dialog.Parse(body)
	if err != nil {
		h.t.Fatal(err)
	}
	ids := h.tokens(body)
	key := seed.TokenRoot("sim", "")
	var keys []prefix.Key
	for i := 0; (i+1)*blockTokens <= len(ids)-1; i++ {
		var extra []byte
		if i == 0 && r.CacheSalt != "" {
			extra = prefix.AppendExtra(nil, r.CacheSalt)
		}
		key = seed.NextTokens(key, ids[i*blockTokens:(i+1)*blockTokens], extra)
		keys = append(keys, key)
	}
	return int(h.index.Match(keys, kvindex.Match{}).Depth[0]) * blockTokens
}

// tokens are what the engine says that it makes of a request.
func (h *house) tokens(body []byte) []uint32 {
	h.t.Helper()
	resp, err := h.web.Client().Post(h.web.URL+"/tokenize", "application/json", bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct{ Tokens []uint32 }
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %v", resp.Status, err)
	}
	return out.Tokens
}

// ask sends a chat and returns what was reported as cached, and the answer.
func (h *house) ask(body []byte) (cached int, answer string) {
	h.t.Helper()
	resp, err := h.web.Client().Post(h.web.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %v", resp.Status, err)
	}
	return out.Usage.Details.Cached, out.Choices[0].Message.Content
}

func TestWhatEventsSayIsCachedIsWhatTheEngineFindsCached(t *testing.T) {
	h := newHouse(t, 4096) // small: it evicts
	r := rand.New(rand.NewPCG(1, 7))
	talks, hits, partly := make([]string, 8), 0, 0
	for i := range 200 {
		talk := r.IntN(len(talks))
		if len(talks[talk]) > 6000 {
			talks[talk] = ""
		}
		if talks[talk] == "" {
			talks[talk] = fmt.Sprintf(`{"role":"system","content":%q}`, strings.Repeat("Be brief and kind. ", 20))
		}
		talks[talk] += fmt.Sprintf(`,{"role":"user","content":%q}`, strings.Repeat(fmt.Sprint("question ", r.IntN(1000), " "), 1+r.IntN(30)))
		salt := ""
		if talk == 0 {
			salt = `,"cache_salt":"tenant"`
		}
		body := fmt.Appendf(nil, `{"messages":[%s],"max_tokens":20,"ignore_eos":true%s}`, talks[talk], salt)
		want := h.predicted(body)
		got, answer := h.ask(body)
		if got != want {
			t.Fatalf("request %d: %d tokens were cached, %d predicted", i, got, want)
		}
		if got > 0 {
			hits++
		}
		if got > 0 && got < len(talks[talk])/8 {
			partly++
		}
		talks[talk] += fmt.Sprintf(`,{"role":"assistant","content":%q}`, answer)
		h.caughtUp(kvevent.Exact)
		if i == 40 { // the router begins anew, with all of the engine's life in its replay
			h.feed.Close()
			h.follow()
		}
	}
	st := h.feed.Statuses()[0]
	if hits < 100 || partly < 10 || st.Removed == 0 {
		t.Errorf("%d of 200 found something, %d of it part; %+v", hits, partly, st)
	}
}

func TestAReplayGoesBackAsFarAsIsKept(t *testing.T) {
	p, err := New(Options{Events: "tcp://127.0.0.1:0", BlockTokens: 1, StepsKept: 32})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range uint64(100) {
		end := p.Begin("", []uint32{1}, []prefix.Key{prefix.Key(i + 1)})
		p.Block(prefix.Key(i+1), true)
		p.Step()
		end()
		p.Step()
	}
	var numbers []uint64
	p.answer([][]byte{{}, make([]byte, 8)}, func(frames ...[]byte) error {
		var n uint64
		for _, b := range frames[2] {
			n = n<<8 | uint64(b)
		}
		numbers = append(numbers, n)
		return nil
	})
	last := len(numbers) - 1
	if last < 25 || last > 32 || numbers[last] != 1<<64-1 || numbers[last-1] != 99 || numbers[0] != 100-uint64(last) || len(p.blocks) != 0 {
		t.Errorf("%d, and %d blocks are left", numbers, len(p.blocks))
	}
}
