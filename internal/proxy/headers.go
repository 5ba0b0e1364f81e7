package proxy

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/warmpath/warmpath/internal/intake"
)

// hopByHop are the headers of one connection only (RFC 9110 7.6.1, plus what old proxies send).
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
}

// internalHeaders steer other routers and engines from the inside (worker choice, data-parallel rank, prefill peer). A client has
// no business setting them, so they are dropped; so is everything that starts with X-Warmpath-.
var internalHeaders = map[string]bool{
	"X-Data-Parallel-Rank": true, "X-Data-Parallel-Host-Port": true, "X-Prefiller-Host-Port": true, "X-Prefiller-Url": true,
	"X-Gateway-Destination-Endpoint": true, "X-Gateway-Destination-Endpoint-Served": true, "X-Worker-Id": true, "X-Worker-Instance-Id": true,
	"X-Decode-Host-Port": true, "X-Routing-Target": true,
}

const ownPrefix = "X-Warmpath-"

// Names of the headers that the proxy itself reads or writes.
const (
	headerWorker    = "X-Warmpath-Worker"
	headerDecision  = "X-Warmpath-Decision"
	headerSession   = "X-Session-Id"
	headerRequestID = "X-Request-Id"
	headerTrace     = "Traceparent"
	headerRank      = "X-Data-Parallel-Rank" // vLLM's and SGLang's word for which rank is to serve it
)

// connectionTokens calls f with each header name that Connection lists: those are hop-by-hop too.
func connectionTokens(h http.Header, f func(name string)) {
	for _, line := range h["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			if token = textproto.TrimString(token); token != "" {
				f(textproto.CanonicalMIMEHeaderKey(token))
			}
		}
	}
}

// requestHeaders makes the end-to-end headers for a worker out of the client's: hop-by-hop and internal ones gone, request id and
// trace context passed or made. Values are shared with in, names are not. Host and Content-Length are the upstream client's.
func requestHeaders(in http.Header, requestID string) http.Header {
	out := make(http.Header, len(in)+2)
	for name, values := range in {
		if hopByHop[name] || name == "Content-Length" || name == "Expect" || internalHeaders[name] || isOwn(name) {
			continue
		}
		out[name] = values
	}
	connectionTokens(in, func(name string) { delete(out, name) })
	out[headerRequestID] = []string{requestID}
	if t := in[headerTrace]; len(t) != 1 || !intake.ValidTrace(t[0]) {
		out[headerTrace] = []string{intake.NewTrace()}
		delete(out, "Tracestate")
	}
	return out
}

// isOwn tells our headers, also spelt with underscores, which some servers fold into hyphens.
func isOwn(name string) bool {
	if strings.HasPrefix(name, ownPrefix) {
		return true
	}
	if strings.IndexByte(name, '_') < 0 {
		return false
	}
	folded := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
	return strings.HasPrefix(folded, ownPrefix) || internalHeaders[folded]
}

// responseHeaders copies the worker's end-to-end headers into out. Content-Length stays: the body passes as it is, unless the
// caller takes it out.
func responseHeaders(out, in http.Header) {
	for name, values := range in {
		if hopByHop[name] || isOwn(name) || intake.IsCORS(name) {
			continue
		}
		if name == "Vary" && len(out[name]) > 0 {
			values = append(out[name][:len(out[name]):len(out[name])], values...)
		}
		out[name] = values
	}
	connectionTokens(in, func(name string) { delete(out, name) })
}
