// Package collector is an OTLP receiver for tests: it takes spans over HTTP and over gRPC, on free ports of this machine, and keeps them.
//
//	c, err := collector.Start()
//	defer c.Close()
//	... send to c.HTTP or c.GRPC ...
//	for _, s := range c.Spans() { fmt.Println(s.Name, s.Attributes["gen_ai.request.model"]) }
package collector

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Span is one span as it came, ids in hex and attributes in words.
type Span struct {
	Trace, ID, Parent, Name, State, Kind string
	StartNanos, EndNanos                 uint64
	Failed                               bool
	Attributes, Resource                 map[string]string
}

// Collector receives until Close.
type Collector struct {
	HTTP, GRPC string // addresses, http://127.0.0.1:port

	web  *http.Server
	rpc  *grpc.Server
	done sync.WaitGroup

	mu      sync.Mutex
	spans   []Span
	headers map[string]string // of the last batch, names in lower case
	refuse  bool
	held    chan struct{} // not nil: batches wait until it is closed

	collectorpb.UnimplementedTraceServiceServer
}

// Start opens both ports.
func Start() (*Collector, error) {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		web.Close()
		return nil, err
	}
	c := &Collector{HTTP: "http://" + web.Addr().String(), GRPC: "http://" + rpc.Addr().String(), rpc: grpc.NewServer()}
	c.web = &http.Server{Handler: c}
	collectorpb.RegisterTraceServiceServer(c.rpc, c)
	c.done.Go(func() { c.web.Serve(web) })
	c.done.Go(func() { c.rpc.Serve(rpc) })
	return c, nil
}

// Close ends both servers.
func (c *Collector) Close() {
	c.web.Close()
	c.rpc.Stop()
	c.done.Wait()
}

// Refuse has it answer that it takes nothing, for good.
func (c *Collector) Refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = true
}

// Hold has batches wait until release is called.
func (c *Collector) Hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := make(chan struct{})
	c.held = held
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held = nil
		close(held)
	})
}

// Spans are those that came, in order.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Headers are those of the last batch, by their names in lower case.
func (c *Collector) Headers() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.headers)
}

// ServeHTTP takes a batch at /v1/traces, as protobuf or JSON.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var in collectorpb.ExportTraceServiceRequest
	if r.Header.Get("Content-Type") == "application/json" {
		err = plainJSON(body, &in)
	} else if err == nil {
		err = proto.Unmarshal(body, &in)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprintf("no batch at %s: %v", r.URL.Path, err), http.StatusBadRequest)
		return
	}
	headers := map[string]string{}
	for name := range r.Header {
		headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	if err := c.take(r.Context(), headers, &in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// plainJSON reads OTLP's own form of JSON, where ids are hex: protobuf's form has base64 there, so that their letters are taken for that and
// have to be put right.
func plainJSON(body []byte, into *collectorpb.ExportTraceServiceRequest) error {
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, into); err != nil {
		return err
	}
	var errs error
	right := func(id *[]byte) {
		raw, err := hex.DecodeString(base64.StdEncoding.EncodeToString(*id))
		*id, errs = raw, errors.Join(errs, err)
	}
	for _, rs := range into.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				right(&s.TraceId)
				right(&s.SpanId)
				right(&s.ParentSpanId)
			}
		}
	}
	return errs
}

// Export takes a batch over gRPC.
func (c *Collector) Export(ctx context.Context, in *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	headers := map[string]string{}
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		for name, values := range md {
			headers[name] = values[0]
		}
	}
	if err := c.take(ctx, headers, in); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func (c *Collector) take(ctx context.Context, headers map[string]string, in *collectorpb.ExportTraceServiceRequest) error {
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse {
		return fmt.Errorf("nothing is taken here")
	}
	c.headers = headers
	for _, rs := range in.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans = append(c.spans, Span{Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId), Name: s.Name, State: s.TraceState,
					Kind: s.Kind.String(), StartNanos: s.StartTimeUnixNano, EndNanos: s.EndTimeUnixNano, Failed: s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR,
					Attributes: inWords(s.Attributes), Resource: inWords(rs.Resource.GetAttributes())})
			}
		}
	}
	return nil
}

func inWords(list []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		m[a.Key] = inWord(a.Value)
	}
	return m
}

func inWord(v *commonpb.AnyValue) string {
	switch v := v.Value.(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *commonpb.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *commonpb.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *commonpb.AnyValue_ArrayValue:
		text := ""
		for i, one := range v.ArrayValue.Values {
			if i > 0 {
				text += ","
			}
			text += inWord(one)
		}
		return text
	}
	return ""
}
