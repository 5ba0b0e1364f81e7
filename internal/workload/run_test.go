package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/leash"
)

// conversation is what a request of a chat says.
type conversation struct {
	Model     string
	Stream    bool
	MaxTokens int `json:"max_tokens"`
	Options   struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct{ Role, Content string }
}

// server answers chats with reply and remembers what it was asked.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []conversation
	keys  []string
}

func serve(t *testing.T, reply func(w http.ResponseWriter, r *http.Request, turn int)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c conversation
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &c); err != nil || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s: %v", r.URL, err)
		}
		s.mu.Lock()
		s.asked = append(s.asked, c)
		s.keys = append(s.keys, r.Header.Get("Authorization")+" "+r.Header.Get("X-Session-Id"))
		turn := len(s.asked)
		s.mu.Unlock()
		reply(w, r, turn)
	}))
	t.Cleanup(s.Close)
	return s
}

// say writes the events of a whole answer.
func say(w io.Writer, words ...string) {
	for _, word := range words {
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\r\n\r\n", word)
	}
	fmt.Fprint(w, ": a comment\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":3,",
		"\"prompt_tokens_details\":{\"cached_tokens\":60}}}\n\ndata: [DONE]\n\n")
}

func chats(sessions, turns int) []Session {
	all := make([]Session, sessions)
	for i := range all {
		all[i] = Session{ID: fmt.Sprint("s", i), Model: "m", System: "be \"brief\"\n", Turns: make([]Turn, turns)}
		for k := range all[i].Turns {
			all[i].Turns[k] = Turn{User: fmt.Sprint("question ", k), MaxTokens: 9}
		}
	}
	return all
}

func TestWhatWasAnsweredIsPartOfTheNextTurn(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request, turn int) {
		say(w, fmt.Sprint("answer ", turn), " it", " is")
	})
	var last Progress
	got := Run(t.Context(), s.URL+"/", chats(1, 3), RunOptions{Key: "k", Progress: func(p Progress) { last = p }})
	if got.Requests != 3 || got.Errors != 0 || got.Unfinished != 0 {
		t.Fatalf("%+v", got)
	}
	if got.PromptTokens != 300 || got.CachedTokens != 180 || got.OutputTokens != 9 || got.HitRate() != 0.6 {
		t.Errorf("usage of %+v", got)
	}
	if got.TTFT.Count != 3 || got.ITL.Count != 6 || got.TPOT.Count != 3 || got.TPOT.Mean > got.ITL.Max || got.E2E.Mean < got.TTFT.Mean || got.TTFT.Mean <= 0 {
		t.Errorf("times of %+v", got)
	}
	if last.Done != 3 || last.Total != 3 || last.TTFTMean != got.TTFT.Mean {
		t.Errorf("progress ended at %+v", last)
	}
	c := s.asked[2]
	var roles []string
	for _, m := range c.Messages {
		roles = append(roles, m.Role)
	}
	if fmt.Sprint(roles) != "[system user assistant user assistant user]" || c.Messages[2].Content != "answer 1 it is" ||
		c.Messages[0].Content != "be \"brief\"\n" || c.Messages[5].Content != "question 2" {
		t.Errorf("the third turn is %+v", c.Messages)
	}
	if c.Model != "m" || !c.Stream || !c.Options.IncludeUsage || c.MaxTokens != 9 || s.keys[2] != "Bearer k s0" {
		t.Errorf("the third turn is %+v with %q", c, s.keys[2])
	}
}

func TestAFailedRequestIsAnErrorAndEndsItsChat(t *testing.T) {
	f := func(want string, reply func(w http.ResponseWriter)) {
		t.Helper()
		s := serve(t, func(w http.ResponseWriter, r *http.Request, turn int) {
			if turn == 2 {
				reply(w)
				return
			}
			say(w, "fine")
		})
		got := Run(t.Context(), s.URL, chats(1, 4), RunOptions{})
		if got.Requests != 1 || got.Errors != 1 || got.Unfinished != 2 || !strings.Contains(got.FirstError, want) {
			t.Errorf("want an error with %q: %+v", want, got)
		}
	}
	f("status 503: busy", func(w http.ResponseWriter) { http.Error(w, "busy", http.StatusServiceUnavailable) })
	f("[DONE]", func(w http.ResponseWriter) {
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
	})
	f("no token", func(w http.ResponseWriter) { fmt.Fprint(w, "data: [DONE]\n\n") })
	f("boom", func(w http.ResponseWriter) { fmt.Fprint(w, "data: {\"error\":{\"message\":\"boom\"}}\n\n") })
	f("event", func(w http.ResponseWriter) { fmt.Fprint(w, "data: {\"choi\n\n") })
	f("EOF", func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "500")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
	})
}

func TestARunThatIsCutOffCountsWhatItLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(w http.ResponseWriter, r *http.Request, turn int) {
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
		w.(http.Flusher).Flush()
		if turn == 5 {
			cancel()
		}
		<-r.Context().Done()
	})
	got := Run(ctx, s.URL, chats(5, 2), RunOptions{})
	if got.Requests != 0 || got.Errors != 0 || got.Unfinished != 10 {
		t.Errorf("%+v", got)
	}
}

func TestChatsRunBesideOneAnother(t *testing.T) {
	all := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request, turn int) {
		if turn == 8 {
			close(all)
		}
		<-all // no answer before all eight chats have asked
		say(w, "at last")
	})
	if got := Run(t.Context(), s.URL, chats(8, 1), RunOptions{}); got.Requests != 8 {
		t.Errorf("%+v", got)
	}
}

func FuzzAStreamNeverPanics(f *testing.F) {
	var whole strings.Builder
	say(&whole, "a", "b")
	f.Add(whole.String())
	f.Add("data: {\"choices\":null}\n\ndata:[DONE]")
	f.Add("data: {\"choices\":[{}],\"usage\":null,\"error\":null}\n")
	f.Fuzz(func(t *testing.T, stream string) {
		defer leash.Hold(t, len(stream))()
		a, err := read(strings.NewReader(stream), whenever)
		if err == nil && a.text == "" {
			t.Error("an answer without text is no answer")
		}
	})
}

func TestSoManyChatsAtOnceAndTheNextWhenOneEnds(t *testing.T) {
	var now, most, starts atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request, turn int) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		starts.Add(1)
		say(w, "fine")
	})
	all := chats(20, 2)
	for i := range all {
		all[i].Start = time.Hour // counts for nothing where so many run at once
	}
	got := Run(t.Context(), s.URL, all, RunOptions{AtOnce: 3})
	if got.Requests != 40 || starts.Load() != 40 || most.Load() > 3 {
		t.Errorf("%+v, %d at once", got, most.Load())
	}
}

func TestAnAnswerMeetsTheSLOByItsFirstTokenAndItsMeanGap(t *testing.T) {
	f := func(want int, slo SLO) {
		t.Helper()
		s := serve(t, func(w http.ResponseWriter, r *http.Request, turn int) { say(w, "a", "b", "c") })
		if got := Run(t.Context(), s.URL, chats(2, 1), RunOptions{SLO: slo}); got.Met != want || got.Requests != 2 {
			t.Errorf("%+v: met %d", slo, got.Met)
		}
	}
	f(2, SLO{})
	f(2, SLO{TTFT: time.Hour, TPOT: time.Hour})
	f(0, SLO{TTFT: 1, TPOT: time.Hour})
	f(0, SLO{TTFT: time.Hour, TPOT: -1})
}
