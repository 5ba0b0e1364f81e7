// Package otlp sends what traced requests were made of to an OpenTelemetry collector: spans for the request, its steps and each try, by OTLP
// over HTTP or gRPC (https://opentelemetry.io/docs/specs/otlp/).
//
//	x, err := otlp.New(otlp.Options{Endpoint: "http://collector:4318", Version: version, Log: log})
//	x.Settled(&facts)      // of a request that is over; it never waits
//	x.Close(ctx)           // sends what is queued
//
// Spans are made once, when a request is over, of the times that are known by then. Between requests and the collector is a bounded queue:
// what does not fit is dropped and counted, so a collector that is slow or gone slows nobody down.
package otlp

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/credentials"

	"github.com/warmpath/warmpath/internal/facts"
)

// Protocols of OTLP, as OTEL_EXPORTER_OTLP_PROTOCOL has them.
const (
	GRPC         = "grpc"
	HTTPProtobuf = "http/protobuf"
	HTTPJSON     = "http/json"
)

// Options of an Exporter.
type Options struct {
	Endpoint string            // http://host:port or https://host:port; over HTTP with a path, or /v1/traces; "" leaves it to OTEL_EXPORTER_OTLP_ENDPOINT
	Protocol string            // "" is HTTPProtobuf
	Headers  map[string]string // sent along, credentials as a rule
	TLS      *tls.Config       // of an https endpoint; nil is the system's roots
	Resource map[string]string // attributes of this process, service.name among them
	Log      *slog.Logger
}

// Bounds of what waits to be sent.
const (
	tracesMax  = 1024 // requests in the queue
	batchSpans = 512  // sent together
	batchTime  = time.Second
	uploadTime = 10 * time.Second // for one batch, tries included
	saidMax    = 1 << 10          // bytes of why one was not taken, for the log
)

// Stats counts spans.
type Stats struct{ Sent, Dropped, Failed uint64 }

// Exporter sends spans from one goroutine of its own. Its methods may be called from any goroutine; those of a nil one do nothing.
type Exporter struct {
	client   otlptrace.Client
	log      *slog.Logger
	resource *resourcepb.Resource
	queue    chan []*tracepb.Span
	stop     context.CancelFunc
	done     sync.WaitGroup

	mu     sync.RWMutex // held for reading by senders, so that Close closes the queue behind the last of them
	closed bool

	sent, dropped, failed, crowded atomic.Uint64
}

// New makes an exporter and starts its goroutine. A collector that is not there is no error: it may come later.
func New(o Options) (*Exporter, error) {
	client, err := newClient(o)
	if err == nil {
		err = client.Start(context.Background())
	}
	if err != nil {
		return nil, fmt.Errorf("traces cannot be sent (setting traces): %w", err)
	}
	x := &Exporter{client: client, log: o.Log, queue: make(chan []*tracepb.Span, tracesMax), resource: &resourcepb.Resource{}}
	for key, value := range o.Resource {
		x.resource.Attributes = append(x.resource.Attributes, text(key, value))
	}
	ctx, stop := context.WithCancel(context.Background())
	x.stop = stop
	x.done.Go(func() { x.run(ctx) })
	return x, nil
}

// newClient is the official one, which takes from OTEL_EXPORTER_OTLP_* what the options leave open.
func newClient(o Options) (otlptrace.Client, error) {
	target := ""
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		if err != nil {
			return nil, fmt.Errorf("traces.endpoint: %w", err)
		}
		if strings.Trim(u.Path, "/") == "" {
			u.Path = "/v1/traces"
		}
		target = u.String()
	}
	secure := o.TLS != nil && !strings.HasPrefix(target, "http:")
	switch cmp.Or(o.Protocol, HTTPProtobuf) {
	case GRPC:
		options := []otlptracegrpc.Option{otlptracegrpc.WithTimeout(uploadTime)}
		if target != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(target))
		}
		if len(o.Headers) > 0 {
			options = append(options, otlptracegrpc.WithHeaders(o.Headers))
		}
		if secure {
			options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(o.TLS)))
		}
		return otlptracegrpc.NewClient(options...), nil
	case HTTPProtobuf, HTTPJSON:
		options := []otlptracehttp.Option{otlptracehttp.WithTimeout(uploadTime), otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf)}
		if o.Protocol == HTTPJSON {
			options = append(options, otlptracehttp.WithEncoding(otlptracehttp.EncodingJSON))
		}
		if target != "" {
			options = append(options, otlptracehttp.WithEndpointURL(target))
		}
		if len(o.Headers) > 0 {
			options = append(options, otlptracehttp.WithHeaders(o.Headers))
		}
		if secure {
			options = append(options, otlptracehttp.WithTLSClientConfig(o.TLS))
		}
		return otlptracehttp.NewClient(options...), nil
	}
	return nil, fmt.Errorf("traces.protocol: %q is none of %s, %s, %s", o.Protocol, HTTPProtobuf, HTTPJSON, GRPC)
}

// Settled queues the spans of a request that is over, if it is sampled.
func (x *Exporter) Settled(f *facts.Facts) {
	if x == nil || !f.Trace.Sampled {
		return
	}
	spans := spansOf(f)
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.closed {
		select {
		case x.queue <- spans:
			return
		default:
		}
	}
	x.dropped.Add(uint64(len(spans)))
	x.crowded.Add(1)
}

// Use is how many requests' spans wait to be sent, how many may, and how many requests' found no room.
func (x *Exporter) Use() (waiting, most int, refused uint64) {
	if x == nil {
		return 0, tracesMax, 0
	}
	return len(x.queue), tracesMax, x.crowded.Load()
}

// Stats may be asked at any time.
func (x *Exporter) Stats() (s Stats) {
	if x != nil {
		s = Stats{Sent: x.sent.Load(), Dropped: x.dropped.Load(), Failed: x.failed.Load()}
	}
	return s
}

// run gathers spans until there are enough, or the first has waited for long enough, and sends them.
func (x *Exporter) run(ctx context.Context) {
	tick := time.NewTicker(batchTime)
	defer tick.Stop()
	var batch []*tracepb.Span
	for {
		select {
		case spans, more := <-x.queue:
			if batch = append(batch, spans...); !more {
				x.send(ctx, batch)
				return
			}
			if len(batch) < batchSpans {
				continue
			}
		case <-tick.C:
		}
		x.send(ctx, batch)
		batch = nil
	}
}

func (x *Exporter) send(ctx context.Context, batch []*tracepb.Span) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	err := x.client.UploadTraces(ctx, []*tracepb.ResourceSpans{{Resource: x.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: scope}, Spans: batch}}}})
	if err != nil {
		x.failed.Add(uint64(len(batch)))
		said := err.Error() // with all that the collector answered
		x.log.Warn("traces cannot be sent (setting traces.endpoint)", "spans", len(batch), "error", strings.ToValidUTF8(said[:min(len(said), saidMax)], ""))
		return
	}
	x.sent.Add(uint64(len(batch)))
}

// Close sends what is queued, until ctx ends, and waits for the goroutine. Requests that settle later are dropped and counted.
func (x *Exporter) Close(ctx context.Context) {
	if x == nil {
		return
	}
	x.mu.Lock()
	already := x.closed
	if x.closed = true; !already {
		close(x.queue)
	}
	x.mu.Unlock()
	defer context.AfterFunc(ctx, x.stop)()
	x.done.Wait()
	x.stop()
	if !already {
		x.client.Stop(ctx)
	}
}
