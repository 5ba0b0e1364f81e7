package otlp

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/warmpath/warmpath/internal/facts"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/trace"
)

// scope is what made the spans.
const scope = "github.com/warmpath/warmpath"

// wordsMax bounds what clients and engines can put into one attribute, in bytes.
const wordsMax = 256

// spansOf are the spans of a request that is over. None holds anything that was said in it, nor a credential. Names of attributes are those of
// the semantic conventions, 1.41, for generative AI, HTTP and servers, and warmpath.* where these have none.
func spansOf(f *facts.Facts) []*tracepb.Span {
	c := &f.Trace
	root := span(f, c.Span, c.Parent, operation(f.API)+" "+clip(cmp.Or(f.Model, f.Path)), f.Started, f.Ended)
	root.Kind, root.Attributes = tracepb.Span_SPAN_KIND_SERVER, append(whole(f), usage(f)...)
	if f.Outcome == outcome.Failed || f.Outcome == outcome.Busy || f.Outcome == outcome.NoWorker {
		fail(root, cmp.Or(f.ErrorClass, f.Refused, string(f.Outcome)))
	}
	all := append(make([]*tracepb.Span, 0, 6+len(c.Tries)), root)
	step := func(name string, from, to time.Time, attributes ...*commonpb.KeyValue) {
		s := span(f, child(c.Span, len(all)), c.Span, name, from, to)
		s.Kind, s.Attributes = tracepb.Span_SPAN_KIND_INTERNAL, attributes
		all = append(all, s)
	}
	if c.Keyed.IsZero() { // it ended while it was read
		return tidy(all)
	}
	step("read", f.Started, c.Read, number("warmpath.request.bytes", f.Bytes))
	step("key", c.Read, c.Keyed, number("warmpath.prompt.blocks", len(f.Chain.Keys)), number("warmpath.prompt.tokens_estimate", f.PromptTokens), truth("warmpath.prompt.tokens_known", f.TokensKnown))
	if f.Waited > 0 {
		step("queue", c.Keyed, c.Keyed.Add(f.Waited), text("warmpath.class", f.Class), text("warmpath.refused", f.Refused), number("warmpath.preempted", f.Preempted))
	}
	if len(c.Tries) == 0 {
		return tidy(all)
	}
	began := c.Keyed.Add(f.Waited) // of the choice of the worker that was tried last
	if n := len(c.Tries); n > 1 {
		began = c.Tries[n-2].Ended
	}
	step("pick", began, later(began, f.Placed), decision(f)...)
	for i := range c.Tries {
		all = append(all, upstream(f, i))
	}
	if last := c.Tries[len(c.Tries)-1]; !f.FirstToken.IsZero() {
		s := span(f, child(last.Span, 0), last.Span, "stream", f.FirstToken, f.Ended)
		s.Attributes = []*commonpb.KeyValue{number("warmpath.stream.tokens", f.Tokens), seconds("warmpath.stream.gap_max_seconds", f.GapMax), truth("warmpath.stream.unterminated", f.Unterminated)}
		all = append(all, s)
	}
	return tidy(all)
}

// tidy takes out attributes that say nothing.
func tidy(all []*tracepb.Span) []*tracepb.Span {
	for _, s := range all {
		s.Attributes = slices.DeleteFunc(s.Attributes, func(a *commonpb.KeyValue) bool {
			said, text := a.Value.Value.(*commonpb.AnyValue_StringValue)
			return text && said.StringValue == ""
		})
	}
	return all
}

// whole is what the request was.
func whole(f *facts.Facts) []*commonpb.KeyValue {
	a := append(common(f), text("http.request.method", f.Method), text("url.path", f.Path), text("warmpath.request.id", f.ID), text("warmpath.outcome", string(f.Outcome)),
		text("warmpath.tenant", f.Tenant), text("warmpath.pool", f.Pool.Name), text("warmpath.model.asked", f.Asked), number("warmpath.tries", f.Tries))
	if f.Status != 0 {
		a = append(a, number("http.response.status_code", f.Status))
	}
	if f.Session != 0 {
		a = append(a, text("gen_ai.conversation.id", strconv.FormatUint(f.Session, 16)))
	}
	if f.MaxTokens != 0 {
		a = append(a, number("gen_ai.request.max_tokens", f.MaxTokens))
	}
	return a
}

// common is what the request's span and those of its tries share.
func common(f *facts.Facts) []*commonpb.KeyValue {
	return []*commonpb.KeyValue{text("gen_ai.operation.name", operation(f.API)), text("gen_ai.provider.name", "warmpath"), text("gen_ai.request.model", f.Model),
		truth("gen_ai.request.stream", f.Stream)}
}

// usage is what the engine reported, and how soon it began.
func usage(f *facts.Facts) (a []*commonpb.KeyValue) {
	if f.Usage.HasPrompt {
		a = append(a, number("gen_ai.usage.input_tokens", f.Usage.PromptTokens))
	}
	if f.Usage.HasCached {
		a = append(a, number("gen_ai.usage.cache_read.input_tokens", f.Usage.CachedTokens))
	}
	if f.Usage.HasCompletion {
		a = append(a, number("gen_ai.usage.output_tokens", f.Usage.CompletionTokens))
	}
	if f.Stream && !f.FirstToken.IsZero() {
		a = append(a, seconds("gen_ai.response.time_to_first_chunk", f.FirstToken.Sub(f.Started)))
	}
	return a
}

// decision is who was chosen, and the best 8 rows of who could have been, as lists in one order.
func decision(f *facts.Facts) []*commonpb.KeyValue {
	d := &f.Decision
	a := []*commonpb.KeyValue{text("warmpath.policy", d.Policy), text("warmpath.hit", d.Hit.String()), text("warmpath.reason", d.Reason), text("warmpath.relaxed", d.Relaxed),
		number("warmpath.prompt.matched_tokens", d.MatchedTokens), number("warmpath.prompt.best_matched_tokens", d.BestMatchedTokens)}
	if d.Worker != nil {
		a = append(a, text("warmpath.worker", d.Worker.ID))
	}
	lists := map[string][]*commonpb.AnyValue{}
	for _, r := range d.Rows {
		add := func(name string, v *commonpb.AnyValue) { lists[name] = append(lists[name], v) }
		add("worker", words(r.ID))
		add("why", words(r.Why))
		add("matched_tokens", whole64(r.MatchedTokens))
		add("in_flight", whole64(r.InFlight))
		add("total_seconds", real(r.TotalSeconds))
		add("queued_seconds", real(r.QueuedSeconds))
		add("prefill_seconds", real(r.PrefillSeconds))
		add("decode_seconds", real(r.DecodeSeconds))
	}
	for _, name := range []string{"worker", "why", "matched_tokens", "in_flight", "total_seconds", "queued_seconds", "prefill_seconds", "decode_seconds"} {
		if list := lists[name]; list != nil {
			a = append(a, &commonpb.KeyValue{Key: "warmpath.rows." + name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: list}}}})
		}
	}
	return a
}

// upstream is the span of one try: the parent of the engine's own.
func upstream(f *facts.Facts, i int) *tracepb.Span {
	c := &f.Trace
	t, last := &c.Tries[i], i == len(c.Tries)-1
	s := span(f, t.Span, c.Span, operation(f.API)+" "+clip(f.Model), t.Began, later(t.Began, t.Ended))
	s.Kind, s.Attributes = tracepb.Span_SPAN_KIND_CLIENT, append(common(f), text("warmpath.worker", t.Worker), number("warmpath.try", i+1))
	if w := f.Decision.Worker; last && w != nil {
		s.Attributes = append(s.Attributes, server(w)...)
	}
	if t.Head {
		s.Attributes = append(s.Attributes, number("http.response.status_code", t.Status))
	}
	if last {
		s.Attributes = append(s.Attributes, usage(f)...)
	}
	kind := t.Class
	if t.Status >= 500 { // what it answered says more than how that is counted
		kind = strconv.Itoa(t.Status)
	}
	left := last && f.Outcome == outcome.Cancelled // the client did: nobody failed
	if !left && (kind != "" || t.Failed) {
		fail(s, cmp.Or(kind, "other"))
	}
	return s
}

func server(w *fleet.Worker) []*commonpb.KeyValue {
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = map[string]int{"http": 80, "https": 443}[u.Scheme]
	}
	return []*commonpb.KeyValue{text("server.address", u.Hostname()), number("server.port", port)}
}

// operation is an API in the words of the conventions, where these have one.
func operation(api llmapi.API) string {
	switch api {
	case llmapi.Chat, llmapi.Responses, llmapi.Messages:
		return "chat"
	case llmapi.Completions:
		return "text_completion"
	}
	return api.String()
}

// span keeps nothing of the facts: they serve another request by the time it is sent.
func span(f *facts.Facts, id, parent trace.SpanID, name string, from, to time.Time) *tracepb.Span {
	c := &f.Trace
	s := &tracepb.Span{TraceId: append([]byte(nil), c.Trace[:]...), SpanId: append([]byte(nil), id[:]...), Name: name, TraceState: c.State, Flags: 1,
		StartTimeUnixNano: uint64(from.UnixNano()), EndTimeUnixNano: uint64(later(from, to).UnixNano())}
	if !parent.Zero() {
		s.ParentSpanId = append([]byte(nil), parent[:]...)
	}
	return s
}

// child names a step below a span: another id for each place, and the same each time.
func child(of trace.SpanID, place int) trace.SpanID {
	of[7] ^= byte(place + 1)
	of[0] ^= 0x5a
	return of
}

// fail marks a span. Texts of errors stay in the logs, under the request's id: an engine may have put something of the prompt into one.
func fail(s *tracepb.Span, kind string) {
	s.Attributes = append(s.Attributes, text("error.type", kind))
	s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: clip(kind)}
}

func later(from, to time.Time) time.Time {
	if to.Before(from) {
		return from
	}
	return to
}

func clip(s string) string {
	if len(s) > wordsMax {
		s = strings.Clone(s[:wordsMax]) // spans may wait, and the rest of it would too
	}
	return strings.ToValidUTF8(s, "\uFFFD") // protobuf refuses what is none
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: words(value)}
}

func number(key string, n int) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: whole64(n)}
}

func truth(key string, b bool) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: b}}}
}

func seconds(key string, d time.Duration) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: real(d.Seconds())}
}

func words(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: clip(s)}}
}

func whole64(n int) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(n)}}
}

func real(f float64) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}
}
