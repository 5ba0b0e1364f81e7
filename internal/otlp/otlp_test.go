package otlp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/collector"
	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// request is one that waited, was tried twice and streamed.
func request() *facts.Facts {
	f := &facts.Facts{ID: "r1", Method: "POST", Path: "/v1/chat/completions", API: llmapi.Chat, Model: "m\xff" + strings.Repeat("n", 1000), Stream: true, Outcome: outcome.Succeeded, Status: 200, Started: began,
		Waited: 300 * time.Millisecond, Placed: began.Add(500 * time.Millisecond), FirstToken: began.Add(800 * time.Millisecond), Ended: began.Add(2 * time.Second), Tokens: 7,
		Usage: llmapi.Usage{HasPrompt: true, PromptTokens: 40, HasCached: true, CachedTokens: 32, HasCompletion: true, CompletionTokens: 7}}
	c := trace.New(trace.Options{Sample: 1}).Begin(header.Fields{{Name: "Traceparent", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	at := func(ms int) func() time.Time {
		return func() time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	}
	c.Admitted(at(10)(), at(20))
	c.Next()
	c.Heard(503)
	c.Tried("a", at(320)(), at(400), context.Canceled)
	c.Next()
	c.Heard(200)
	c.Tried("b", at(500)(), at(2000), nil)
	f.Trace = c
	return f
}

func open(t *testing.T, o Options) *Exporter {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func receiver(t *testing.T) *collector.Collector {
	t.Helper()
	c, err := collector.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// shut closes an exporter, and with the collector every connection.
func shut(t *testing.T, x *Exporter, c *collector.Collector) {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), 10*time.Second)
	defer done()
	x.Close(ctx)
	x.Close(ctx)
	c.Close()
}

func TestARequestsSpansReachACollectorByEachProtocol(t *testing.T) {
	for _, protocol := range []string{"", HTTPProtobuf, HTTPJSON, GRPC} {
		c := receiver(t)
		endpoint := c.HTTP
		if protocol == GRPC {
			endpoint = c.GRPC
		}
		x := open(t, Options{Endpoint: endpoint, Protocol: protocol, Headers: map[string]string{"x-team": "blue"}, Resource: map[string]string{"service.name": "warmpath"}})
		f := request()
		x.Settled(f)
		x.Settled(&facts.Facts{}) // is not sampled
		shut(t, x, c)
		spans := c.Spans()
		var names []string
		for _, s := range spans {
			names = append(names, s.Name[:min(len(s.Name), 6)])
			if s.Trace != f.Trace.Trace.String() || s.Resource["service.name"] != "warmpath" || s.EndNanos < s.StartNanos {
				t.Errorf("%s: %+v", protocol, s)
			}
		}
		if got := strings.Join(names, ","); got != "chat m,read,key,queue,pick,chat m,chat m,stream" {
			t.Fatalf("%s: %s", protocol, got)
		}
		root, queue, pick, first, second, stream := spans[0], spans[3], spans[4], spans[5], spans[6], spans[7]
		if root.Parent != "b7ad6b7169203331" || queue.Parent != root.ID || first.Parent != root.ID || second.Parent != root.ID || stream.Parent != second.ID || root.Failed || second.Failed {
			t.Errorf("%s: %+v", protocol, spans)
		}
		if queue.EndNanos-queue.StartNanos != 3e8 || pick.StartNanos != first.EndNanos || pick.EndNanos != second.StartNanos {
			t.Errorf("%s: queue %+v, pick %+v", protocol, queue, pick)
		}
		if !first.Failed || first.Attributes["error.type"] != "503" || first.Attributes["http.response.status_code"] != "503" || second.Attributes["gen_ai.usage.input_tokens"] != "40" {
			t.Errorf("%s: %+v, %+v", protocol, first, second)
		}
		for key, want := range map[string]string{"gen_ai.operation.name": "chat", "gen_ai.usage.cache_read.input_tokens": "32", "gen_ai.usage.output_tokens": "7", "gen_ai.request.stream": "true",
			"gen_ai.response.time_to_first_chunk": "0.8", "http.response.status_code": "200", "warmpath.request.id": "r1"} {
			if root.Attributes[key] != want {
				t.Errorf("%s: %s is %q, want %q", protocol, key, root.Attributes[key], want)
			}
		}
		if model := root.Attributes["gen_ai.request.model"]; len(model) > wordsMax+2 || root.Attributes["warmpath.tenant"] != "" || c.Headers()["x-team"] != "blue" {
			t.Errorf("%s: %q, %v", protocol, model, c.Headers())
		}
		if s := x.Stats(); s != (Stats{Sent: 8}) {
			t.Errorf("%s: %+v", protocol, s)
		}
	}
}

func TestACollectorThatHangsCostsSpansAndNoTime(t *testing.T) {
	c := receiver(t)
	release := c.Hold()
	x := open(t, Options{Endpoint: c.HTTP})
	f := request()
	const all = tracesMax + 300
	for range all {
		x.Settled(f) // returns at once, or the test would hang
	}
	s := x.Stats()
	if s.Dropped == 0 || s.Dropped%8 != 0 || s.Dropped > 8*(all-tracesMax) {
		t.Errorf("%+v", s)
	}
	release()
	shut(t, x, c)
	x.Settled(f)
	if s = x.Stats(); s.Sent+s.Dropped != 8*(all+1) || s.Failed != 0 || int(s.Sent) != len(c.Spans()) {
		t.Errorf("%+v, %d came", s, len(c.Spans()))
	}
}

func TestWhatACollectorDoesNotTakeIsCounted(t *testing.T) {
	for _, protocol := range []string{HTTPProtobuf, GRPC} {
		c := receiver(t)
		c.Refuse()
		x := open(t, Options{Endpoint: map[string]string{HTTPProtobuf: c.HTTP, GRPC: c.GRPC}[protocol], Protocol: protocol})
		x.Settled(request())
		shut(t, x, c)
		if s := x.Stats(); s != (Stats{Failed: 8}) {
			t.Errorf("%s: %+v", protocol, s)
		}
	}
}

func TestAnEndDoesNotWaitForACollectorThatIsGone(t *testing.T) {
	c := receiver(t)
	c.Close()
	x := open(t, Options{Endpoint: c.HTTP})
	x.Settled(request())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x.Close(ctx)
	if s := x.Stats(); s.Failed != 8 {
		t.Errorf("%+v", s)
	}
}

func TestARequestThatWasNeverPlacedHasItsStepsAlone(t *testing.T) {
	f := request()
	f.Trace.Tries, f.Placed, f.FirstToken, f.Outcome, f.Refused = nil, time.Time{}, time.Time{}, outcome.Busy, "queue_full"
	if spans := spansOf(f); len(spans) != 4 || spans[0].Status.GetMessage() != "queue_full" {
		t.Errorf("%v", spans)
	}
	f.Trace.Keyed = time.Time{}
	if spans := spansOf(f); len(spans) != 1 {
		t.Errorf("%v", spans)
	}
}

func TestNoExporterDoesNothingAndAllocatesNothing(t *testing.T) {
	var x *Exporter
	f := request()
	if n := testing.AllocsPerRun(100, func() { x.Settled(f) }); n != 0 || x.Stats() != (Stats{}) {
		t.Errorf("%v allocations", n)
	}
	x.Close(t.Context())
	if _, err := New(Options{Protocol: "smtp"}); err == nil || !strings.Contains(err.Error(), "traces.protocol") {
		t.Errorf("%v", err)
	}
}

func BenchmarkSpansOf(b *testing.B) {
	f := request()
	b.ReportAllocs()
	for b.Loop() {
		spansOf(f)
	}
}

func TestWhatACollectorAnswersDoesNotFillTheLog(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, strings.Repeat("garbage \xff", 100_000))
	}))
	defer web.Close()
	var said bytes.Buffer
	x, err := New(Options{Endpoint: web.URL, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	x.Settled(request())
	x.Close(t.Context())
	if s := x.Stats(); s.Failed != 8 || !strings.Contains(said.String(), "400 Bad Request") || said.Len() > 4<<10 {
		t.Errorf("%+v, %d bytes: %.300s", s, said.Len(), said.String())
	}
	http.DefaultClient.CloseIdleConnections()
}
