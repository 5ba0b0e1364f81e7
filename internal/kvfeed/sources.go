package kvfeed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Source is where a worker's events come from.
type Source struct {
	Endpoint string
	Bind     bool   // the engine connects to Endpoint
	Replay   string // "" none
	Topic    string
	Polled   bool   // Endpoint is asked over HTTP
	Found    string // how: foundByEngine and so on
}

// How a source was found.
const (
	configured      = "configured"
	foundByEngine   = "engine"
	foundBySettings = "settings"
	foundByPattern  = "template"
)

const (
	sourcesPath     = "/kv_event_sources"
	sourcesBytesMax = 1 << 20
	findPause       = 30 * time.Second // between two looks at an engine that tells no endpoint
	askTimeout      = 5 * time.Second
)

// errNoSource is why a worker has no events: it tells no endpoint, and none is configured.
var errNoSource = errors.New("no endpoint of cache events is known: the engine tells none (" + sourcesPath + "), and none is configured")

// find returns where the worker publishes. It asks again until it knows or ctx ends.
func (f *feed) find(ctx context.Context) (Source, error) {
	t := f.target
	if t.Events != "" {
		endpoint, bind := strings.CutPrefix(t.Events, "bind+")
		return Source{Endpoint: endpoint, Bind: bind, Replay: t.Replay, Found: configured}, nil
	}
	if t.Engine == "tensorrt-llm" {
		return Source{Endpoint: strings.TrimRight(t.URL, "/") + "/kv_cache_events", Polled: true, Found: foundByEngine}, nil
	}
	if t.Told != "" {
		return fromSettings(t)
	}
	for {
		source, err := f.ask(ctx)
		if err == nil {
			return source, nil
		}
		wait := f.o.BackoffMax
		if errors.Is(err, errNoSource) {
			if f.o.Template != "" {
				return fromTemplate(f.o.Template, t)
			}
			wait = findPause
		}
		f.failed(err)
		if !pause(ctx, wait) {
			return Source{}, ctx.Err()
		}
	}
}

// fromTemplate puts the worker's host and rank into the template.
func fromTemplate(template string, t Target) (Source, error) {
	host := hostOf(t.URL)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	endpoint, err := shift(strings.ReplaceAll(template, "{host}", host), t.Rank)
	if err != nil {
		return Source{}, fmt.Errorf("the pattern for cache events: %w", err)
	}
	return Source{Endpoint: endpoint, Found: foundByPattern}, nil
}

// ask asks the engine itself.
func (f *feed) ask(ctx context.Context) (Source, error) {
	body, err := f.get(ctx, http.MethodGet, sourcesPath, sourcesBytesMax)
	if err != nil {
		return Source{}, err
	}
	return parseSources(body, f.target)
}

func (f *feed) get(ctx context.Context, method, path string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(f.target.URL, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	if f.target.Key != "" {
		req.Header.Set("Authorization", "Bearer "+f.target.Key)
	}
	resp, err := f.o.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, errNoSource
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s", path, resp.Status)
	case int64(len(body)) > most:
		return nil, fmt.Errorf("%s answers more than %d bytes", path, most)
	}
	return body, nil
}

// told is one rank's publisher, as vLLM tells it.
type told struct {
	Rank     *int   `json:"data_parallel_rank"`
	Enabled  *bool  `json:"enable_kv_cache_events"`
	Kind     string `json:"publisher"`
	Endpoint string `json:"endpoint"`
	Replay   string `json:"replay_endpoint"`
	Topic    string `json:"topic"`
}

// parseSources reads the answer in each of its forms: an object by rank, a list, a list under "sources".
func parseSources(body []byte, t Target) (Source, error) {
	var all []told
	body = bytes.TrimSpace(body)
	if bytes.HasPrefix(body, []byte("[")) {
		if err := json.Unmarshal(body, &all); err != nil {
			return Source{}, err
		}
	} else {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil {
			return Source{}, err
		}
		if list := bytes.TrimSpace(object["sources"]); bytes.HasPrefix(list, []byte("[")) { // and no object in it, which could go on for ever
			return parseSources(list, t)
		}
		for rank, raw := range object {
			n, err := strconv.Atoi(rank)
			if err != nil {
				continue
			}
			one := told{}
			if err := json.Unmarshal(raw, &one); err != nil {
				return Source{}, err
			}
			one.Rank = &n
			all = append(all, one)
		}
	}
	all = slices.DeleteFunc(all, func(s told) bool {
		return s.Enabled != nil && !*s.Enabled || s.Kind != "" && s.Kind != "zmq" || s.Endpoint == ""
	})
	if t.Rank < 0 && len(all) > 1 {
		return Source{}, severalRanks(len(all))
	}
	want := max(0, t.Rank)
	i := slices.IndexFunc(all, func(s told) bool { return s.Rank == nil || *s.Rank == want })
	if i < 0 {
		return Source{}, errNoSource
	}
	host := hostOf(t.URL)
	return Source{Endpoint: reachable(all[i].Endpoint, host), Replay: reachable(all[i].Replay, host), Topic: all[i].Topic, Found: foundByEngine}, nil
}

// reachable puts the worker's host in the place of one that only means something on the worker itself: every address, or loopback when
// the worker is elsewhere.
func reachable(endpoint, host string) string {
	address, isTCP := strings.CutPrefix(endpoint, "tcp://")
	if !isTCP {
		return endpoint
	}
	own, port, err := net.SplitHostPort(address)
	if err != nil {
		return endpoint
	}
	ip := net.ParseIP(own)
	if own == "*" || own == "localhost" || ip != nil && (ip.IsUnspecified() || ip.IsLoopback()) {
		own = host
	} else if four := ip.To4(); four != nil {
		own = four.String()
	}
	return "tcp://" + net.JoinHostPort(own, port)
}
