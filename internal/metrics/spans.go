package metrics

// SpanState is what became of the spans of traced requests.
type SpanState struct{ Sent, Dropped, Failed uint64 }

func emitSpans(emit emitter, s SpanState) {
	emit("warmpath_trace_spans_total", float64(s.Sent), "sent")
	emit("warmpath_trace_spans_total", float64(s.Dropped), "dropped")
	emit("warmpath_trace_spans_total", float64(s.Failed), "failed")
}
