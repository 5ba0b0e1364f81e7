package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/life"
)

// HTTP is an endpoint in the form of Prometheus' http_sd (https://prometheus.io/docs/prometheus/latest/http_sd/): a JSON list of
// {"targets": ["host:port"], "labels": {...}}, asked for again and again.
//
// Labels become the workers' labels, but for those that begin with two underscores: __scheme__ is http or https, __id__ the worker's id
// (of a group of one), __model__ the model that it serves where its engine cannot tell, __instance__ its instance; others are passed over.
type HTTP struct {
	URL    string
	Key    string        // sent as Authorization: Bearer; "" none
	Every  time.Duration // between two questions; default 10 s
	Labels []string      // of all of its workers
	Client *http.Client  // nil: one of its own, that goes by no proxy
}

const (
	httpEvery    = 10 * time.Second
	httpTimeout  = 10 * time.Second
	httpBytesMax = 8 << 20
)

// group is one entry of the list.
type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// Follow implements Source.
func (h HTTP) Follow(ctx context.Context, tell func([]Worker, error)) {
	every := h.Every
	if every <= 0 {
		every = httpEvery
	}
	if h.Client == nil {
		transport := &http.Transport{IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10}
		defer transport.CloseIdleConnections()
		h.Client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // it would take the key elsewhere
	}
	for first := true; first || life.Pause(ctx, every); first = false {
		tell(h.ask(ctx, every))
	}
}

// ask returns the set as the endpoint has it now.
func (h HTTP) ask(ctx context.Context, every time.Duration) ([]Worker, error) {
	ctx, cancel := context.WithTimeout(ctx, httpTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept", "application/json")
	q.Header.Set("User-Agent", "warmpath")
	q.Header.Set("X-Prometheus-Refresh-Interval-Seconds", strconv.FormatFloat(every.Seconds(), 'f', -1, 64))
	if h.Key != "" {
		q.Header.Set("Authorization", "Bearer "+h.Key)
	}
	a, err := h.Client.Do(q)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the address stands in the source's name already
		}
		return nil, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, httpBytesMax+1))
	switch kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type")); {
	case err != nil:
		return nil, fmt.Errorf("its answer broke off: %w", err)
	case a.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered %d: %.200q", a.StatusCode, text)
	case len(text) > httpBytesMax:
		return nil, fmt.Errorf("its answer is larger than %d bytes, the most it may have", httpBytesMax)
	case kind != "application/json":
		return nil, fmt.Errorf("it answered %q, want application/json: a list of target groups as Prometheus' http_sd has it", kind)
	}
	return h.read(text)
}

// read makes the set of what the endpoint answered.
func (h HTTP) read(text []byte) ([]Worker, error) {
	var groups []group
	if err := json.Unmarshal(text, &groups); err != nil {
		return nil, fmt.Errorf("its answer is no list of target groups: %w", err)
	}
	if groups == nil {
		return nil, errors.New("its answer is null; no workers are an empty list, []")
	}
	return h.workers(groups), nil
}

// workers are those of all groups; a target that is named twice counts once.
func (h HTTP) workers(groups []group) (set []Worker) {
	seen := map[string]bool{}
	for _, g := range groups {
		scheme := g.Labels["__scheme__"]
		if scheme == "" {
			scheme = "http"
		}
		labels := slices.Clone(h.Labels)
		for _, name := range sortedKeys(g.Labels) {
			if !strings.HasPrefix(name, "__") {
				labels = append(labels, name+"="+g.Labels[name])
			}
		}
		for _, target := range g.Targets {
			w := Worker{URL: scheme + "://" + target, Model: g.Labels["__model__"], Instance: g.Labels["__instance__"], Labels: labels}
			if len(g.Targets) == 1 {
				w.ID = g.Labels["__id__"]
			}
			if !seen[w.URL] {
				seen[w.URL], set = true, append(set, w)
			}
		}
	}
	return set
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
