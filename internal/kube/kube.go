// Package kube speaks with a Kubernetes API server, as far as it takes to follow a few objects: it lists them, watches them, and lists
// them anew every so often, because a watch can fall silent and an event can be lost without anybody being told.
//
//	c, err := kube.Open(kube.Place{})                  // in a cluster; Kubeconfig names a file elsewhere
//	kube.Follow(ctx, c, kube.Pods("default", "app=vllm"), kube.Pace{}, func(pods []kube.Pod, err error) { ... })
package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client is how to reach an API server.
type Client struct {
	base  string
	http  *http.Client
	token func() (string, error) // asked for each request, because tokens are renewed in their file; nil: none
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Resource is a list of objects.
type Resource struct {
	Path     string // such as /api/v1/namespaces/default/pods
	Selector string // by labels; "" all
}

// Pods are the pods of a namespace.
func Pods(namespace, selector string) Resource {
	return Resource{Path: "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods", Selector: selector}
}

// Slices are the EndpointSlices of a Service.
func Slices(namespace, service string) Resource {
	return Resource{Path: "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/endpointslices", Selector: "kubernetes.io/service-name=" + service}
}

// Pace is how often what happens. The zero value of a field means its default.
type Pace struct {
	Resync  time.Duration // for how long a watch is gone by before all is listed anew; default 1 min
	Grace   time.Duration // how much longer the server may take to end a watch that long; default 5 s, or Resync when that is shorter
	List    time.Duration // how long a list may take; default 15 s
	Backoff time.Duration // the longest wait between tries; default 5 s, or Resync when that is shorter
}

func (p Pace) withDefaults() Pace {
	if p.Resync <= 0 {
		p.Resync = time.Minute
	}
	soon := min(5*time.Second, p.Resync) // who wants all anew each second is not to wait for five
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{{&p.Grace, soon}, {&p.List, 15 * time.Second}, {&p.Backoff, soon}} {
		if *d.of <= 0 {
			*d.of = d.value
		}
	}
	return p
}

const (
	backoffFirst   = 250 * time.Millisecond
	pageObjects    = 500      // asked for at one time
	objectsMax     = 20_000   // followed in all
	objectBytesMax = 4 << 20  // of one event
	listBytesMax   = 64 << 20 // of one page
)

// Meta is an object's own metadata.
type Meta struct {
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	Labels            map[string]string `json:"labels"`
	DeletionTimestamp *string           `json:"deletionTimestamp"`
}

// Follow tells the objects of a resource, all of them each time something changed, until ctx ends. What goes wrong is told too; the
// objects told before are then the last that is known. It watches for no longer than Pace.Resync and lists everything anew then, and
// whenever a watch breaks off: so whatever was missed is known after Resync and Grace at most, even behind a connection on which nothing
// comes any more.
func Follow[T any, P interface {
	*T
	meta() *Meta
}](ctx context.Context, c *Client, of Resource, pace Pace, tell func([]T, error)) {
	pace = pace.withDefaults()
	backoff := backoffFirst
	for ctx.Err() == nil {
		s := store[T, P]{objects: map[string]T{}}
		err := s.list(ctx, c, of, pace)
		if err == nil {
			tell(s.all(), nil)
			began := time.Now()
			err = s.watch(ctx, c, of, pace, func() { tell(s.all(), nil) })
			if time.Since(began) > time.Second {
				backoff = backoffFirst
			}
			if err == nil && time.Since(began) >= pace.Resync/2 {
				continue // its time was up
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, errExpired) && !errors.Is(err, errEnded) {
			tell(nil, err)
		}
		pause(ctx, backoff/2+rand.N(backoff/2))
		backoff = min(2*backoff, pace.Backoff)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// store is the objects as of a version.
type store[T any, P interface {
	*T
	meta() *Meta
}] struct {
	objects map[string]T // by name: one that was made again under its name is in the other's place
	order   []string
	version string
}

func (s *store[T, P]) put(o T) {
	k := P(&o).meta().Name
	if _, known := s.objects[k]; !known {
		s.order = append(s.order, k)
	}
	s.objects[k] = o
}

func (s *store[T, P]) remove(k string) {
	delete(s.objects, k)
	for i, o := range s.order {
		if o == k {
			s.order = append(s.order[:i], s.order[i+1:]...)
			return
		}
	}
}

func (s *store[T, P]) all() []T {
	all := make([]T, 0, len(s.order))
	for _, k := range s.order {
		all = append(all, s.objects[k])
	}
	return all
}

// page is a list of objects, or a part of it.
type page[T any] struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

// list takes all objects as they are now: without a version asked for, the server answers with what is true, not with what it remembers.
func (s *store[T, P]) list(ctx context.Context, c *Client, of Resource, pace Pace) error {
	ctx, cancel := context.WithTimeout(ctx, pace.List)
	defer cancel()
	next := ""
	for {
		query := url.Values{"limit": {strconv.Itoa(pageObjects)}}
		if next != "" {
			query.Set("continue", next)
		}
		body, err := c.get(ctx, of, query)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(body, listBytesMax+1))
		body.Close()
		if err != nil {
			return fmt.Errorf("the list broke off: %w", err)
		}
		if len(text) > listBytesMax {
			return fmt.Errorf("the list is larger than %d bytes a page", listBytesMax)
		}
		var p page[T]
		if err := json.Unmarshal(text, &p); err != nil {
			return fmt.Errorf("the list is not as it should be: %w", err)
		}
		if p.Metadata.ResourceVersion == "" {
			return errors.New("the list has no resourceVersion: is it a Kubernetes API server?")
		}
		for _, o := range p.Items {
			s.put(o)
		}
		if len(s.order) > objectsMax {
			return fmt.Errorf("more than %d objects: narrow the selector", objectsMax)
		}
		s.version, next = p.Metadata.ResourceVersion, p.Metadata.Continue
		if next == "" {
			return nil
		}
	}
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// status is what an API server says when something is wrong.
type status struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
}

var (
	errExpired = errors.New("the version is too old to watch from") // 410 Gone
	errEnded   = errors.New("the watch broke off")
)

// watch goes by events until the time is up, which is nil, or the watch is no use any more.
func (s *store[T, P]) watch(ctx context.Context, c *Client, of Resource, pace Pace, changed func()) error {
	limit := pace.Resync
	ctx, cancel := context.WithTimeoutCause(ctx, limit+pace.Grace, errEnded)
	defer cancel()
	body, err := c.get(ctx, of, url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {s.version},
		"timeoutSeconds": {strconv.Itoa(max(1, int(limit.Seconds())))}})
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was silent for all that time; all is listed anew
		}
		return err
	}
	defer body.Close()
	lines := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := readLine(lines)
		if len(bytes.TrimSpace(line)) > 0 && (err == nil || err == io.EOF) {
			if err := s.apply(line, changed); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case err == io.EOF, ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("%w: %w", errEnded, err)
		}
	}
}

// readLine reads one event, no longer than may be.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > objectBytesMax {
			return nil, fmt.Errorf("an event is larger than %d bytes", objectBytesMax)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (s *store[T, P]) apply(line []byte, changed func()) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("an event of the watch is not as it should be: %w", err)
	}
	if e.Type == "ERROR" {
		var st status
		if err := json.Unmarshal(e.Object, &st); err != nil {
			return fmt.Errorf("an error of the watch is not as it should be: %w", err)
		}
		if st.Code == http.StatusGone {
			return errExpired
		}
		return fmt.Errorf("the watch ended with %d %s: %s", st.Code, st.Reason, st.Message)
	}
	var o T
	if err := json.Unmarshal(e.Object, &o); err != nil {
		return fmt.Errorf("an object of the watch is not as it should be: %w", err)
	}
	m := P(&o).meta()
	if m.ResourceVersion != "" {
		s.version = m.ResourceVersion
	}
	switch e.Type {
	case "ADDED", "MODIFIED":
		s.put(o)
	case "DELETED":
		s.remove(m.Name)
	default: // BOOKMARK tells a version alone; what is new some day must not end the watch
		return nil
	}
	if len(s.order) > objectsMax {
		return fmt.Errorf("more than %d objects: narrow the selector", objectsMax)
	}
	changed()
	return nil
}

// get asks, and returns the body of an answer that is good.
func (c *Client) get(ctx context.Context, of Resource, query url.Values) (io.ReadCloser, error) {
	if of.Selector != "" {
		query.Set("labelSelector", of.Selector)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+of.Path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept", "application/json")
	q.Header.Set("User-Agent", "warmpath")
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return nil, err
		}
		q.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := c.http.Do(q)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("the API server %s does not answer: %w", c.base, err)
	}
	if a.StatusCode == http.StatusOK {
		return a.Body, nil
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(a.Body, 64<<10))
	var st status
	if json.Unmarshal(text, &st) != nil || st.Message == "" {
		st.Message = strings.TrimSpace(string(text[:min(len(text), 200)]))
	}
	switch a.StatusCode {
	case http.StatusGone:
		return nil, errExpired
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("the API server refuses with %d: %s; the service account needs get, list and watch of what is asked for", a.StatusCode, st.Message)
	}
	return nil, fmt.Errorf("the API server answered %d: %s", a.StatusCode, st.Message)
}
