package intake

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/header"
)

// What of a head passes from a client to a worker and back.

// Names of the header fields that this room and the proxy read or write.
const (
	HeaderRequestID = "X-Request-Id"
	HeaderTrace     = "Traceparent"
	HeaderState     = "Tracestate"
	HeaderRank      = "X-Data-Parallel-Rank" // vLLM's and SGLang's word for which rank is to serve it
	ownPrefix       = "X-Warmpath-"
)

// steers says that a field steers other routers and engines from the inside (worker choice, data-parallel rank, prefill peer). A client
// has no business setting them, so they are dropped; so is everything that starts with X-Warmpath-.
func steers(name string) bool {
	switch name {
	case HeaderRank, "X-Data-Parallel-Host-Port", "X-Prefiller-Host-Port", "X-Prefiller-Url", "X-Gateway-Destination-Endpoint",
		"X-Gateway-Destination-Endpoint-Served", "X-Worker-Id", "X-Worker-Instance-Id", "X-Decode-Host-Port", "X-Routing-Target":
		return true
	}
	return false
}

// isOwn tells our fields, also spelt with underscores, which some servers fold into hyphens. So spelt it tells those too that end a
// message or say who asks, which would come beside the right ones.
func isOwn(name string) bool {
	if strings.HasPrefix(name, ownPrefix) {
		return true
	}
	if strings.IndexByte(name, '_') < 0 {
		return false
	}
	folded := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
	switch folded {
	case "Content-Length", "Content-Type", "Content-Encoding", "X-Api-Key", HeaderRequestID:
		return true
	}
	return strings.HasPrefix(folded, ownPrefix) || steers(folded) || header.HopByHop(folded)
}

// RequestFields are the header fields of a client's request, in the order in which they came where the server kept it; else they are
// put into room.
func RequestFields(w http.ResponseWriter, r *http.Request, room header.Fields) header.Fields {
	if kept, ok := w.(interface{ RequestFields() header.Fields }); ok {
		return kept.RequestFields()
	}
	return header.From(r.Header, room[:0])
}

// Toward is what a request gets on its way to a worker beside what its client said.
type Toward struct {
	RequestID string
	Trace     string // traceparent in place of the client's, "" passes that on or makes one,
	State     string // and tracestate beside it
	Key       string // the worker's own credential, in place of the client's in every field an engine may look at; "" passes those on
	Rank      string // "" none
	KeyIsOurs bool   // the client's credential is for the router, and for no engine
}

// ToWorker appends to out what passes of a client's fields: those from end to end, without what steers from the inside. Request id and
// trace context are passed or made. Host and Content-Length are the upstream client's to write.
func ToWorker(out, in header.Fields, t Toward) header.Fields {
	named := in.Named()
	traced := traces(in)
	for i := range in {
		f := &in[i]
		switch f.Name {
		case "Content-Length", "Expect", HeaderRequestID:
			continue
		case "Authorization", "X-Api-Key":
			if t.Key == "" && !t.KeyIsOurs {
				out = append(out, *f)
			}
			continue
		case HeaderTrace, HeaderState:
			if !traced || t.Trace != "" {
				continue
			}
		}
		if header.HopByHop(f.Name) || steers(f.Name) || isOwn(f.Name) || slices.Contains(named, f.Name) {
			continue
		}
		out = append(out, *f)
	}
	out.Add(HeaderRequestID, t.RequestID)
	switch {
	case t.Trace != "":
		if out.Add(HeaderTrace, t.Trace); t.State != "" {
			out.Add(HeaderState, t.State)
		}
	case !traced:
		out.Add(HeaderTrace, NewTrace())
	}
	if t.Key != "" {
		out.Add("Authorization", "Bearer "+t.Key)
	}
	if t.Rank != "" {
		out.Add(HeaderRank, t.Rank)
	}
	return out
}

// Credentials are the fields by which an engine knows who asks: the worker's own key, else the client's.
func Credentials(key string, client header.Fields) (out header.Fields) {
	if key != "" {
		return header.Fields{{Name: "Authorization", Value: "Bearer " + key}}
	}
	for _, f := range client {
		if f.Name == "Authorization" || f.Name == "X-Api-Key" {
			out = append(out, f)
		}
	}
	return out
}

// traces says that a request is part of one trace.
func traces(in header.Fields) bool {
	count, valid := 0, false
	for i := range in {
		if in[i].Name == HeaderTrace {
			count++
			valid = ValidTrace(in[i].Value)
		}
	}
	return count == 1 && valid
}

// ToClient appends to out what passes of a worker's fields. Content-Length does: the body passes as it is.
func ToClient(out, in header.Fields) header.Fields {
	named := in.Named()
	for i := range in {
		f := &in[i]
		if f.Name == HeaderRequestID || header.HopByHop(f.Name) || isOwn(f.Name) || IsCORS(f.Name) || slices.Contains(named, f.Name) {
			continue
		}
		out = append(out, *f)
	}
	return out
}

// EventStream appends to out what begins a stream of events before a worker has begun one.
func EventStream(out header.Fields, requestID string) header.Fields {
	out.Add("Content-Type", "text/event-stream; charset=utf-8")
	out.Add("Cache-Control", "no-cache")
	out.Add(HeaderRequestID, requestID)
	return out
}

// Unpacked are the fields of a body whose compression was taken off.
func Unpacked(in header.Fields) header.Fields {
	return slices.DeleteFunc(slices.Clone(in), func(f header.Field) bool { return f.Name == "Content-Encoding" })
}
