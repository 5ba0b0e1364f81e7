package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// startedAt is a worker whose engine tells when its process started; 0: it does not.
func startedAt(t *testing.T, at int64) (*worker, *atomic.Int64) {
	w := newWorker(t, func(c *call) {
		c.json(http.StatusOK, fmt.Sprintf(`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, len(c.body)/4, len(c.body)/4+1))
	})
	var started atomic.Int64
	started.Store(at)
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			io.WriteString(out, signedBy("vllm"))
		case "/metrics":
			if s := started.Load(); s > 0 {
				fmt.Fprintf(out, "process_start_time_seconds %d\n", s)
			}
			io.WriteString(out, "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:num_requests_waiting{model_name=\"m\"} 0\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0\n")
		default:
			http.NotFound(out, r)
		}
	})
	return w, &started
}

// talk is a turn of a conversation that goes on for long: what is warm matters more than anything else.
func talk(conversation, turns int) string {
	var m strings.Builder
	fmt.Fprintf(&m, `{"model":"m","messages":[{"role":"user","content":"%d %s"}`, conversation, strings.Repeat(fmt.Sprintf("about the matter of %d, ", conversation), 400))
	for i := range turns {
		fmt.Fprintf(&m, `,{"role":"assistant","content":"answer %d"},{"role":"user","content":"and question %d?"}`, i, i)
	}
	return m.String() + "]}"
}

// sendTo sends a request while all workers but one are drained.
func (rt *testRouter) sendTo(at int, all []*worker, body string) {
	rt.t.Helper()
	for _, way := range []string{"drain", "undrain"} {
		for n := range all {
			if id := fmt.Sprintf("w%d", n+1); n != at {
				if status := rt.adminCall(http.MethodPost, "/workers/"+id+"/"+way, "", nil); status != http.StatusOK {
					rt.t.Fatalf("%s of %s: %d", way, id, status)
				}
			}
		}
		if way == "undrain" {
			return
		}
		if r := rt.post("/v1/chat/completions", body); r.status != http.StatusOK {
			rt.t.Fatalf("%d %s %v", r.status, r.body, r.err)
		}
	}
}

func TestConversationsGoOnWhereTheyAreWarmAfterARestartUnlessTheirEngineWasRestartedToo(t *testing.T) {
	t.Parallel()
	const each = 3 // conversations of a worker: as many as its cache is assumed to hold
	folder := t.TempDir()
	keep := func(c *config.Config) { c.StateDir = folder }
	var all []*worker
	var started []*atomic.Int64
	for _, at := range []int64{1_700_000_001, 1_700_000_002, 1_700_000_003, 0} {
		w, s := startedAt(t, at)
		all, started = append(all, w), append(started, s)
	}
	rt := start(t, keep, all...)
	for i := range all {
		rt.awaitTelemetry(fmt.Sprintf("w%d", i+1), "fresh")
	}
	var home []int
	for at := range all {
		for range each {
			rt.sendTo(at, all, talk(len(home), 0))
			home = append(home, at)
		}
	}
	held := rt.state().Workers
	rt.Close()

	started[1].Store(1_700_009_999) // this one was started anew meanwhile
	rt = start(t, keep, all...)
	for i := range all {
		rt.awaitTelemetry(fmt.Sprintf("w%d", i+1), "fresh")
	}
	eventually(t, "the workers to be remembered", func() bool {
		return strings.Count(rt.log.String(), "goes on from what was assumed of its cache") == 2 && strings.Contains(rt.log.String(), "another process than before")
	})
	for i, w := range rt.state().Workers {
		want := held[i].AssumedBytes
		if i == 1 || i == 3 { // another process; one that does not say which
			want = 0
		}
		if w.AssumedBytes != want || held[i].AssumedBytes == 0 {
			t.Errorf("%s: %d bytes are assumed to be cached, before the restart %d", w.ID, w.AssumedBytes, held[i].AssumedBytes)
		}
	}
	for i, at := range home {
		for n, row := range byWorker(rt.explain("", talk(i, 1)), all) {
			if warm := row.MatchedTokens > 1000; warm != (n == at && n != 1 && n != 3) {
				t.Errorf("conversation %d was with worker %d, and %d tokens of its next turn match at worker %d", i, at+1, row.MatchedTokens, n+1)
			}
		}
	}
}

// byWorker are an explanation's rows in the order of the workers.
func byWorker(e explanation, all []*worker) []explainedRow {
	rows := make([]explainedRow, len(all))
	for _, row := range e.Rows {
		var n int
		fmt.Sscanf(row.Worker, "w%d", &n)
		rows[n-1] = row
	}
	return rows
}

func TestAFileOfCachesThatIsBrokenOrHalfWrittenStopsNoStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	keep := func(c *config.Config) { c.StateDir = folder }
	w, _ := startedAt(t, 1_700_000_001)
	rt := start(t, keep, w)
	rt.awaitTelemetry("w1", "fresh")
	rt.post("/v1/chat/completions", talk(1, 0))
	held := rt.state().Workers[0].AssumedBytes
	rt.Close()
	file := filepath.Join(folder, "caches-127.0.0.1_0")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what string
		do   func()
		want int64
		says string
	}{
		{"killed while it was written", func() { write(file, good); write(file+".part", good[:len(good)/2]) }, held, "goes on from what was assumed of its cache"},
		{"cut", func() { write(file, good[:len(good)-1]) }, 0, "cannot be used"},
		{"of another installation", func() { write(file, bytes.Replace(good, []byte(`"seed":"`), []byte(`"seed":"0`), 1)) }, 0, "cannot be used"},
		{"of another version", func() { write(file, bytes.Replace(good, []byte("caches 1"), []byte("caches 0"), 1)) }, 0, "is not used"},
	} {
		c.do()
		rt := start(t, keep, w)
		rt.awaitTelemetry("w1", "fresh")
		eventually(t, c.what, func() bool { return strings.Contains(rt.log.String(), c.says) })
		if got := rt.state().Workers[0].AssumedBytes; got != c.want {
			t.Errorf("%s: %d bytes are assumed, want %d", c.what, got, c.want)
		}
		rt.Close()
	}
}
