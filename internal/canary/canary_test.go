package canary

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a server that answers by path, and notes what it was asked.
type engine struct {
	answers map[string]http.HandlerFunc // a path without one is 404

	mu   sync.Mutex
	seen []string // paths and bodies
	ids  []string
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.seen, e.ids = append(e.seen, r.URL.Path+" "+string(body)), append(e.ids, r.Header.Get("X-Request-Id")+" "+r.Header.Get("Authorization"))
	e.mu.Unlock()
	answer := e.answers[r.URL.Path]
	if answer == nil {
		answer = http.NotFound
	}
	answer(w, r)
}

// outcomes has canaries sent to an engine until n of them have ended, and returns what came of them.
func outcomes(t *testing.T, e *engine, n int) (f *fleet.Fleet, got []string) {
	t.Helper()
	server := httptest.NewServer(e)
	defer server.Close()
	f = fleet.New(fleet.Options{Canaries: true, Strict: true, EjectFor: time.Hour})
	b, o := cost.NewBook(cost.DefaultOptions()), cost.NewOutputs(8)
	g := gate.New(f, prefix.New(prefix.Options{}), b, o, cost.NewRatio(), sched.New(f, nil, b, o, nil, sched.Options{}), upstream.DefaultOptions(), time.Now)
	defer g.Close()
	w, err := g.Add(gate.Worker{ID: "w", URL: server.URL, Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	g.Describe("w", w.Incarnation, fleet.Info{Models: []fleet.Model{{ID: `a "model"`}}, At: time.Now()})
	ctx, stop := context.WithCancel(context.Background())
	limit := time.AfterFunc(20*time.Second, stop)
	defer limit.Stop()
	s := New(g, Options{Idle: func() time.Duration { return time.Millisecond }, Done: func(_ *fleet.Worker, outcome string) {
		if got = append(got, outcome); len(got) == n { // one worker, one canary at one time
			stop()
		}
	}})
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	return f, got
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); io.WriteString(w, body) }
}

const good = `{"choices":[{"text":"2"}]}`

func TestACanaryIsOneTokenAndMarkedAsOurs(t *testing.T) {
	e := &engine{answers: map[string]http.HandlerFunc{"/v1/completions": says(200, good)}}
	if _, got := outcomes(t, e, 2); fmt.Sprint(got) != "[good good]" {
		t.Errorf("%v", got)
	}
	if e.seen[0] != `/v1/completions {"model":"a \"model\"","prompt":"1","max_tokens":1,"temperature":0}` || e.ids[0] != "warmpath-canary-1 Bearer k" || e.ids[1] != "warmpath-canary-2 Bearer k" {
		t.Errorf("%q, %q", e.seen[0], e.ids)
	}
}

func TestWhatBecomesOfACanary(t *testing.T) {
	for name, c := range map[string]struct {
		completions, chats http.HandlerFunc
		want               string
		out                bool
	}{
		"only chats":       {nil, says(200, good), "[refused good good]", false},
		"broken":           {says(500, "{}"), nil, "[failed failed failed]", true},
		"no answer of its": {says(200, "<html>"), nil, "[failed failed failed]", true},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
		}, nil, "[failed failed failed]", true},
		"wants a key": {says(401, "{}"), says(401, "{}"), "[refused refused]", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &engine{answers: map[string]http.HandlerFunc{"/v1/completions": c.completions, "/v1/chat/completions": c.chats}}
			f, got := outcomes(t, e, strings.Count(c.want, " ")+1)
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
			w := f.Lookup("w")
			if _, out := w.Ejection(); out != c.out || w.InFlight() != 0 {
				t.Errorf("it is out: %v, with %d in flight", out, w.InFlight())
			}
			if w.Succeeded(time.Now()); name == "wants a key" && w.WantsCanary(time.Now().Add(time.Hour), time.Second) {
				t.Error("it is to get further canaries, though it takes none")
			}
		})
	}
}
