package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/otlp"
	"github.com/warmpath/warmpath/internal/trace"
)

// Traces: who is sampled, and where spans are sent. The settings go before OpenTelemetry's own variables, which go before the defaults.

// tracesCloseTime is how long a router that ends waits for its last spans to be taken.
const tracesCloseTime = 3 * time.Second

// tracing is what requests are traced with; both are nil where nothing is.
type tracing struct {
	tracer *trace.Tracer
	sender *otlp.Exporter
}

// openTraces starts sending, where there is a collector to send to. env is os.Getenv.
func openTraces(c config.Traces, store *certs.Store, env func(string) string, log *slog.Logger) (t tracing, err error) {
	on, err := tracesOn(c, env)
	if err != nil || !on {
		return t, err
	}
	who, err := sampling(c, env)
	if err != nil {
		return t, err
	}
	o := otlp.Options{Endpoint: c.Endpoint, Protocol: cmp.Or(c.Protocol, env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL")), Log: log}
	if o.Resource, err = traceResource(env); err != nil {
		return t, err
	}
	if len(c.Headers) > 0 {
		o.Headers = map[string]string{}
		for _, h := range c.Headers {
			o.Headers[h.Name] = string(h.Value)
		}
	}
	if c.TLS != (certs.WorkerFiles{}) {
		if o.TLS, err = store.Client("traces.tls", c.TLS); err != nil {
			return t, err
		}
	}
	if t.sender, err = otlp.New(o); err != nil {
		return tracing{}, err
	}
	t.tracer = trace.New(who)
	return t, nil
}

// tracesOn says whether there are traces at all.
func tracesOn(c config.Traces, env func(string) string) (bool, error) {
	endpoint := cmp.Or(c.Endpoint, env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT"))
	switch exporter := env("OTEL_TRACES_EXPORTER"); {
	case endpoint == "" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true"):
		return false, nil
	case c.Endpoint == "" && exporter == "none":
		return false, nil
	case c.Endpoint == "" && exporter != "" && exporter != "otlp":
		return false, usageError{fmt.Errorf("OTEL_TRACES_EXPORTER is %q; traces are sent by otlp, or not at all (none)", exporter)}
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" {
		return false, usageError{fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is no address of a collector; write http://host:4318")}
	}
	return true, nil
}

// sampling is the settings', unless OTEL_TRACES_SAMPLER names another way.
func sampling(c config.Traces, env func(string) string) (trace.Options, error) {
	o := trace.Options{Sample: c.Sample, FollowClients: c.Clients}
	name, ratio := env("OTEL_TRACES_SAMPLER"), 1.0
	if name == "" {
		return o, nil
	}
	if text := env("OTEL_TRACES_SAMPLER_ARG"); text != "" {
		var err error
		if ratio, err = strconv.ParseFloat(text, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return o, usageError{fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q, which is no share from 0 to 1", text)}
		}
	}
	rest, parent := strings.CutPrefix(name, "parentbased_")
	o.FollowClients = parent
	switch rest {
	case "always_on":
		o.Sample = 1
	case "always_off":
		o.Sample = 0
	case "traceidratio":
		o.Sample = ratio
	default:
		return o, usageError{fmt.Errorf("OTEL_TRACES_SAMPLER is %q; it may be always_on, always_off or traceidratio, each also with parentbased_ in front", name)}
	}
	return o, nil
}

// traceResource tells this process from others.
func traceResource(env func(string) string) (map[string]string, error) {
	all := map[string]string{"service.name": "warmpath", "service.version": thisBuild().Version, "service.instance.id": rand.Text()}
	if host, err := os.Hostname(); err == nil {
		all["host.name"] = host
	}
	for pair := range strings.SplitSeq(env("OTEL_RESOURCE_ATTRIBUTES"), ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return nil, usageError{fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES has %q, which is not key=value", pair)}
		}
		all[strings.TrimSpace(key)] = value
	}
	if name := env("OTEL_SERVICE_NAME"); name != "" {
		all["service.name"] = name
	}
	return all, nil
}

func (t tracing) close() {
	ctx, done := context.WithTimeout(context.Background(), tracesCloseTime)
	defer done()
	t.sender.Close(ctx)
}
