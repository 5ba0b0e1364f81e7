package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/internal/collector"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/otlp"
)

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
	sampledBy   = "00-" + clientTrace + "-" + clientSpan + "-01"
	leftOutBy   = "00-" + clientTrace + "-" + clientSpan + "-00"
)

// traced starts a collector and a router that sends to it.
func traced(t *testing.T, protocol string, change func(*config.Config), workers ...*worker) (*testRouter, *collector.Collector) {
	t.Helper()
	c, err := collector.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	rt := start(t, func(cfg *config.Config) {
		cfg.Traces.Endpoint, cfg.Traces.Protocol = c.HTTP, protocol
		if protocol == otlp.GRPC {
			cfg.Traces.Endpoint = c.GRPC
		}
		if change != nil {
			change(cfg)
		}
	}, workers...)
	return rt, c
}

// spansOf waits for a request's spans.
func spansOf(t *testing.T, c *collector.Collector, request string) (spans []collector.Span) {
	t.Helper()
	eventually(t, "the spans of "+request, func() bool {
		spans = nil
		id := ""
		for _, s := range c.Spans() {
			if s.Attributes["warmpath.request.id"] == request {
				id = s.Trace
			}
		}
		for _, s := range c.Spans() {
			if s.Trace == id {
				spans = append(spans, s)
			}
		}
		return id != ""
	})
	return spans
}

// envOf is an environment of NAME=VALUE, with a space between two.
func envOf(text string) func(string) string {
	all := map[string]string{}
	for pair := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return func(name string) string { return all[name] }
}

// spansNamed finds a request's spans of a kind or name.
func spansNamed(spans []collector.Span, what string) (found []collector.Span) {
	for _, s := range spans {
		if s.Name == what || s.Kind == "SPAN_KIND_"+what {
			found = append(found, s)
		}
	}
	return found
}

func TestOBS_03_ClientRouterAndEngineAreInOneTraceByEachProtocol(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{otlp.HTTPProtobuf, otlp.GRPC} {
		w := newWorker(t, func(c *call) {
			c.events()
			c.send(deltaOf("a"))
			c.send(usageEvent(12, 1, 4))
			c.send("data: [DONE]\n\n")
		})
		rt, c := traced(t, protocol, nil, w)
		r := rt.post("/v1/chat/completions", chat("a very private prompt", true), "Traceparent", sampledBy, "Tracestate", "rojo=1,congo=t61", "Authorization", "Bearer secret-of-mine", "X-Request-Id", "in-one-trace")
		if r.status != http.StatusOK || r.header.Get("X-Request-Id") != "in-one-trace" {
			t.Fatalf("%s: %+v", protocol, r)
		}
		spans := spansOf(t, c, "in-one-trace")
		root, tries, streams := spansNamed(spans, "SERVER"), spansNamed(spans, "CLIENT"), spansNamed(spans, "stream")
		if len(spans) != 6 || len(root) != 1 || len(tries) != 1 || len(streams) != 1 || root[0].Trace != clientTrace || root[0].Parent != clientSpan || tries[0].Parent != root[0].ID || streams[0].Parent != tries[0].ID || root[0].State != "rojo=1,congo=t61" {
			t.Fatalf("%s: %+v", protocol, spans)
		}
		h := w.calls()[0].r.Header
		if got, want := h.Get("Traceparent"), "00-"+clientTrace+"-"+tries[0].ID+"-01"; got != want || h.Get("Tracestate") != "rojo=1,congo=t61" || len(h.Values("Traceparent")) != 1 {
			t.Errorf("%s: the engine was told %q, want %q", protocol, got, want)
		}
		pick := spansNamed(spans, "pick")[0].Attributes
		if pick["warmpath.worker"] != "w1" || pick["warmpath.rows.worker"] != "w1" || pick["warmpath.rows.total_seconds"] == "" || tries[0].Attributes["server.address"] != "127.0.0.1" || tries[0].Attributes["gen_ai.usage.cache_read.input_tokens"] != "4" {
			t.Errorf("%s: %v, %v", protocol, pick, tries[0].Attributes)
		}
		for _, s := range spans {
			for key, value := range s.Attributes {
				if strings.Contains(key+value+s.Name, "private") || strings.Contains(value, "secret") {
					t.Errorf("%s: %s of %s says %q", protocol, key, s.Name, value)
				}
			}
			if s.Resource["service.name"] != "warmpath" || s.Resource["service.instance.id"] == "" || s.Resource["service.version"] == "" {
				t.Errorf("%s: %v", protocol, s.Resource)
			}
		}
		if rt.metric("warmpath_trace_spans_total", `result="sent"`) < 6 {
			t.Errorf("%s: the spans are not counted", protocol)
		}
	}
}

func TestOBS_03_EachTryHasASpanThatItsEngineIsToldOf(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	first := func(c *call) {
		if asked.Add(1) == 1 {
			c.json(http.StatusBadGateway, `{"error":"no"}`)
			return
		}
		c.good("x")
	}
	one, two := newWorker(t, first), newWorker(t, first)
	rt, c := traced(t, "", nil, one, two)
	rt.post("/v1/chat/completions", chat("x", false), "X-Request-Id", "tried-twice", "Traceparent", sampledBy)
	tries := spansNamed(spansOf(t, c, "tried-twice"), "CLIENT")
	if len(tries) != 2 || !tries[0].Failed || tries[1].Failed || tries[0].Attributes["error.type"] != "502" || tries[0].Attributes["http.response.status_code"] != "502" ||
		tries[0].Attributes["warmpath.worker"] == tries[1].Attributes["warmpath.worker"] || tries[0].EndNanos > tries[1].StartNanos {
		t.Fatalf("%+v", tries)
	}
	told := map[string]bool{}
	for _, call := range append(one.calls(), two.calls()...) {
		told[call.r.Header.Get("Traceparent")] = true
	}
	for _, s := range tries {
		if !told["00-"+clientTrace+"-"+s.ID+"-01"] {
			t.Errorf("no engine was told of %s", s.ID)
		}
	}
}

func TestOBS_03_MalformedTracesAreReplacedAndThoseLeftOutStayLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorker(t, nil)
	rt, c := traced(t, "", nil, w)
	cases := []struct{ id, parent string }{{"short", "00-abc"}, {"zero", "00-" + strings.Repeat("0", 32) + "-" + clientSpan + "-01"}, {"upper", strings.ToUpper(sampledBy)}, {"none", ""}, {"long", strings.Repeat("a", 8000)}}
	for _, x := range cases {
		headers := []string{"X-Request-Id", x.id, "Tracestate", "a=1"}
		if x.parent != "" {
			headers = append(headers, "Traceparent", x.parent)
		}
		if r := rt.post("/v1/chat/completions", chat("x", false), headers...); r.status != http.StatusOK {
			t.Errorf("%s: %d", x.id, r.status)
		}
	}
	for i, x := range cases {
		root := spansNamed(spansOf(t, c, x.id), "SERVER")[0]
		h := w.calls()[i].r.Header
		if root.Trace == clientTrace || root.Parent != "" || root.State != "" || !strings.HasPrefix(h.Get("Traceparent"), "00-"+root.Trace+"-") || h.Get("Tracestate") != "" {
			t.Errorf("%s: %+v, the engine was told %q %q", x.id, root, h.Get("Traceparent"), h.Get("Tracestate"))
		}
	}
	before := len(c.Spans())
	rt.post("/v1/chat/completions", chat("x", false), "X-Request-Id", "left-out", "Traceparent", leftOutBy)
	h := w.calls()[w.count()-1].r.Header.Get("Traceparent")
	if !strings.HasPrefix(h, "00-"+clientTrace+"-") || !strings.HasSuffix(h, "-00") {
		t.Errorf("the engine was told %q", h)
	}
	rt.post("/v1/chat/completions", chat("x", false), "X-Request-Id", "afterwards")
	if spans := spansOf(t, c, "afterwards"); len(c.Spans()) != before+len(spans) {
		t.Errorf("%d spans, then %d with %d of one more", before, len(c.Spans()), len(spans))
	}
}

func TestOBS_01_TheSpansOfAStreamOutliveItsClient(t *testing.T) {
	t.Parallel()
	w := newWorker(t, func(c *call) {
		c.events()
		c.send(deltaOf("a"))
		c.stall()
	})
	rt, c := traced(t, "", nil, w)
	ctx, leave := context.WithCancel(t.Context())
	resp, err := rt.open(ctx, "/v1/chat/completions", chat("x", true), "X-Request-Id", "gone")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eventsOf(resp)(); err != nil {
		t.Fatal(err)
	}
	leave()
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	spans := spansOf(t, c, "gone")
	root, stream := spansNamed(spans, "SERVER")[0], spansNamed(spans, "stream")
	if root.Attributes["warmpath.outcome"] != "cancelled" || root.Failed || len(stream) != 1 || stream[0].Attributes["warmpath.stream.tokens"] != "1" {
		t.Errorf("%+v, %+v", root, stream)
	}
}

func TestARequestThatWaitsSaysSoInItsTrace(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	w := newWorker(t, func(c *call) {
		if c.n == 0 {
			<-hold
		}
		c.good("x")
	})
	rt, c := traced(t, "", func(cfg *config.Config) { cfg.Queue.Enabled, cfg.InFlightMax = true, 1 }, w)
	done := make(chan reply, 2)
	ask := func(id string) {
		done <- rt.post("/v1/chat/completions", chat(id, false), "X-Request-Id", id)
	}
	go ask("first")
	eventually(t, "the first to run", func() bool { return w.count() == 1 })
	go ask("second")
	eventually(t, "the second to wait", func() bool { return rt.metric("warmpath_queue_waiting_requests") == 1 })
	close(hold)
	<-done
	<-done
	spans := spansOf(t, c, "second")
	queue := spansNamed(spans, "queue")
	if len(queue) != 1 || queue[0].EndNanos <= queue[0].StartNanos || len(spansNamed(spansOf(t, c, "first"), "queue")) != 0 {
		t.Errorf("%+v", spans)
	}
}

func TestTracesGoByTheSettingsThenByOpenTelemetrysVariables(t *testing.T) {
	on := config.Traces{Endpoint: "http://127.0.0.1:1", Sample: 0.5, Clients: true}
	off := config.Traces{Sample: 0.5, Clients: true}
	for _, c := range []struct {
		set  config.Traces
		env  string
		on   bool
		who  string // sample, clients decide
		fail string
	}{
		{off, "", false, "", ""},
		{off, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", true, "{0.5 true}", ""},
		{off, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1", true, "{0.5 true}", ""},
		{off, "OTEL_EXPORTER_OTLP_ENDPOINT=nowhere", false, "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{off, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_TRACES_EXPORTER=none", false, "", ""},
		{off, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_TRACES_EXPORTER=zipkin", false, "", "OTEL_TRACES_EXPORTER"},
		{on, "", true, "{0.5 true}", ""},
		{on, "OTEL_SDK_DISABLED=true", false, "", ""},
		{on, "OTEL_TRACES_SAMPLER=always_on", true, "{1 false}", ""},
		{on, "OTEL_TRACES_SAMPLER=parentbased_always_off", true, "{0 true}", ""},
		{on, "OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.25", true, "{0.25 true}", ""},
		{on, "OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=7", true, "", "OTEL_TRACES_SAMPLER_ARG"},
		{on, "OTEL_TRACES_SAMPLER=xray", true, "", "OTEL_TRACES_SAMPLER"},
	} {
		env := envOf(c.env)
		is, err := tracesOn(c.set, env)
		if err == nil && is {
			who, failed := sampling(c.set, env)
			if err = failed; err == nil && fmt.Sprint(who) != c.who {
				t.Errorf("%s: %+v", c.env, who)
			}
		}
		if c.fail == "" && (err != nil || is != c.on) || c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)) {
			t.Errorf("%s: %v, %v", c.env, is, err)
		}
	}
	all, err := traceResource(envOf("OTEL_SERVICE_NAME=front OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=a%20b,service.name=no"))
	if err != nil || all["service.name"] != "front" || all["deployment.environment.name"] != "a b" {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := traceResource(envOf("OTEL_RESOURCE_ATTRIBUTES=x")); err == nil {
		t.Error("half a pair was taken")
	}
}

func TestNoTraceIsMadeWhereNoneIsAskedFor(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	if rt.tracing != (tracing{}) {
		t.Fatal("there are traces without an endpoint")
	}
	rt.post("/v1/chat/completions", chat("x", false), "Traceparent", sampledBy, "Tracestate", "a=1")
	if h := w.calls()[0].r.Header; h.Get("Traceparent") != sampledBy || h.Get("Tracestate") != "a=1" || rt.metric("warmpath_trace_spans_total") != 0 {
		t.Errorf("%v", h)
	}
}

func TestBucketsOfLatenciesNameATraceThatFellIntoThem(t *testing.T) {
	t.Parallel()
	rt, _ := traced(t, "", nil, newWorker(t, nil))
	rt.post("/v1/chat/completions", chat("x", true), "Traceparent", sampledBy)
	rt.post("/v1/chat/completions", chat("y", true), "Traceparent", leftOutBy[:3]+strings.Repeat("1", 32)+leftOutBy[35:])
	req, err := http.NewRequest(http.MethodGet, rt.AdminURL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text")
	page := read(rt.http.Do(req)).body
	for _, name := range []string{"warmpath_ttft_seconds_bucket", "warmpath_e2e_seconds_bucket"} {
		if !regexp.MustCompile(name + `\{.*# \{trace_id="` + clientTrace + `"\}`).MatchString(page) {
			t.Errorf("%s has no exemplar", name)
		}
	}
	if strings.Contains(page, strings.Repeat("1", 32)) || !strings.HasSuffix(page, "# EOF\n") {
		t.Error("the trace that was not sampled is named, or the page has no end")
	}
}
