package config

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/certs"
)

// Traces are where spans of requests are sent, and of which requests. What OTEL_* variables say holds where the file says nothing.
type Traces struct {
	Endpoint string            `yaml:"endpoint" doc:"An OpenTelemetry collector, such as http://collector:4318 (gRPC: 4317). Over HTTP without a path, /v1/traces is put behind it. Empty: OTEL_EXPORTER_OTLP_ENDPOINT; without that, no traces."`
	Protocol string            `yaml:"protocol" enum:",http/protobuf,http/json,grpc" doc:"How it is spoken to. Empty: OTEL_EXPORTER_OTLP_PROTOCOL, else http/protobuf."`
	Headers  []TraceHeader     `yaml:"headers" doc:"Sent to it with every batch."`
	TLS      certs.WorkerFiles `yaml:"tls" doc:"How it is reached over https. Read once, at the start."`
	Sample   float64           `yaml:"sample" doc:"Share of the traces that are sent, from 0 to 1: of those that begin here, and of all where clients decide nothing. OTEL_TRACES_SAMPLER goes before it."`
	Clients  bool              `yaml:"clients_decide" doc:"A request that comes with a trace is sent as its traceparent says. false: by sample alone, where clients are not to be trusted with how much is sent; their traces are joined all the same."`
}

// TraceHeader is one field.
type TraceHeader struct {
	Name  string `yaml:"name" doc:"Of the field, such as authorization."`
	Value Secret `yaml:"value" doc:"What it says."`
}

func (v *verdict) traces(t Traces) {
	if t.Sample > 1 {
		v.wrong("traces.sample", "%v is above 1, which is all requests", t.Sample)
	}
	for i, h := range t.Headers {
		key := "traces.headers[" + strconv.Itoa(i) + "]"
		if h.Name == "" || strings.ContainsAny(h.Name, " \t\r\n:") || http.CanonicalHeaderKey(h.Name) == "" {
			v.wrong(key+".name", "%q is no name of a header field", h.Name)
		}
		if strings.ContainsAny(string(h.Value), "\r\n") {
			v.wrong(key+".value", "has a line break in it; a header cannot carry that")
		}
	}
	if key, message := t.TLS.Check(); message != "" {
		v.wrong("traces.tls."+key, "%s", message)
	}
	if t.Endpoint == "" {
		return
	}
	u, err := url.Parse(t.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		v.wrong("traces.endpoint", "%q is no address of a collector; write http://host:4318, or https://", redacted(t.Endpoint))
	case u.User != nil:
		v.wrong("traces.endpoint", "carries a user or password; write it as a header: headers: [{name: authorization, value: \"${env.NAME}\"}]")
	case u.Scheme == "http" && t.TLS != (certs.WorkerFiles{}):
		v.wrong("traces.tls", "is set, and http://%s is not reached over TLS; write https:// or take it out", u.Host)
	}
}

// redacted keeps what may be a credential out of a message.
func redacted(address string) string {
	if _, rest, ok := strings.Cut(address, "@"); ok {
		return "...@" + rest
	}
	return address
}
