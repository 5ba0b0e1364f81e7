// Package kubefake is a Kubernetes API server for tests: it lists in pages and watches by the real protocol (versions, chunked lines of
// JSON, bookmarks, 410 Gone, label selectors under which objects come and go), and has the faults that real ones have. Nothing of it is in
// the binary.
//
//	s := kubefake.New()
//	url, stop := s.Listen()
//	s.Put(kubefake.Pods("llm"), kubefake.Pod("p1", "uid-1", "10.0.0.1", true, map[string]string{"app": "vllm"}))
package kubefake

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Object is one as its JSON has it.
type Object = map[string]any

// Server holds objects, and whatever happened to them.
type Server struct {
	Token    string        // that requests have to show; "" none
	PageMax  int           // objects of a page at most; 0: as many as are asked for
	Bookmark time.Duration // between two bookmarks of a watch; 0: none

	mu      sync.Mutex
	objects map[string]map[string]Object // by path, by name
	log     []change
	version int
	oldest  int // versions before it are forgotten
	changed chan struct{}
	refuses int  // status of every answer; 0: it answers well
	silent  bool // watches are accepted, and nothing is sent on them
	cut     chan struct{}
	lists   int
	watches int
}

// change is what happened to an object. before is nil for one that is new, after for one that is gone.
type change struct {
	version       int
	path          string
	before, after Object
}

// New makes an empty server.
func New() *Server {
	return &Server{objects: map[string]map[string]Object{}, version: 1, changed: make(chan struct{}), cut: make(chan struct{})}
}

// Listen serves on a free port of this machine until stop.
func (s *Server) Listen() (url string, stop func()) { return s.ListenAt("127.0.0.1:0") }

// ListenAt serves at an address.
func (s *Server) ListenAt(address string) (url string, stop func()) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: s}
	var running sync.WaitGroup
	running.Go(func() { server.Serve(l) })
	return "http://" + l.Addr().String(), func() { server.Close(); running.Wait() }
}

// Pods is the path of a namespace's pods.
func Pods(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods" }

// Slices is the path of a namespace's EndpointSlices.
func Slices(namespace string) string {
	return "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices"
}

// Pod is one with an address, and ports by their numbers.
func Pod(name, uid, ip string, ready bool, labels map[string]string, ports ...int) Object {
	var declared []any
	for _, p := range ports {
		declared = append(declared, Object{"containerPort": p})
	}
	status := "False"
	if ready {
		status = "True"
	}
	return Object{"metadata": Object{"name": name, "uid": uid, "labels": labels}, "spec": Object{"containers": []any{Object{"ports": declared}}},
		"status": Object{"phase": "Running", "podIP": ip, "conditions": []any{Object{"type": "Ready", "status": status}}}}
}

// Terminating is a pod that has been told to end.
func Terminating(pod Object) Object {
	meta := maps.Clone(pod["metadata"].(Object))
	meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	pod = maps.Clone(pod)
	pod["metadata"] = meta
	return pod
}

// Slice is an EndpointSlice of a service.
func Slice(name, service string, ports map[string]int, endpoints ...any) Object {
	var all []any
	for _, p := range slices.Sorted(maps.Keys(ports)) {
		all = append(all, Object{"name": p, "port": ports[p]})
	}
	return Object{"metadata": Object{"name": name, "uid": name, "labels": map[string]string{"kubernetes.io/service-name": service}},
		"addressType": "IPv4", "endpoints": endpoints, "ports": all}
}

// Endpoint is one of a slice.
func Endpoint(pod, uid, ip string, ready, terminating bool) Object {
	return Object{"addresses": []any{ip}, "zone": "z1", "targetRef": Object{"kind": "Pod", "name": pod, "uid": uid},
		"conditions": Object{"ready": ready && !terminating, "serving": ready, "terminating": terminating}}
}

// Put adds an object, or replaces the one of its name.
func (s *Server) Put(path string, o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meta := maps.Clone(o["metadata"].(Object))
	s.version++
	meta["resourceVersion"] = strconv.Itoa(s.version)
	o = maps.Clone(o)
	o["metadata"] = meta
	if s.objects[path] == nil {
		s.objects[path] = map[string]Object{}
	}
	name := meta["name"].(string)
	s.note(change{s.version, path, s.objects[path][name], o})
	s.objects[path][name] = o
}

// Delete takes an object out.
func (s *Server) Delete(path, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[path][name]; o != nil {
		s.version++
		delete(s.objects[path], name)
		s.note(change{s.version, path, o, nil})
	}
}

func (s *Server) note(c change) {
	s.log = append(s.log, c)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Forget makes all versions until now too old to watch from.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.oldest = s.version
}

// Silence has watches be accepted and stay silent.
func (s *Server) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// Refuse answers everything with a status; 0 ends that.
func (s *Server) Refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = status
}

// Cut breaks off all watches.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Asked is how often something was listed and watched.
func (s *Server) Asked() (lists, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, s.watches
}

// ServeHTTP answers lists and watches.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refuses := s.refuses
	s.mu.Unlock()
	q := r.URL.Query()
	switch {
	case refuses != 0:
		fail(w, refuses, "it is out of order")
	case s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token:
		fail(w, http.StatusUnauthorized, "who are you?")
	case q.Get("watch") == "true":
		s.watch(w, r)
	default:
		s.list(w, r)
	}
}

func status(code int, message string) Object {
	return Object{"kind": "Status", "status": "Failure", "code": code, "reason": http.StatusText(code), "message": message}
}

func fail(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(status(code, message))
}

// matches is whether an object has the labels of a selector of equalities.
func matches(o Object, selector string) bool {
	if o == nil {
		return false
	}
	labels, _ := o["metadata"].(Object)["labels"].(map[string]string)
	for _, each := range strings.Split(selector, ",") {
		name, value, _ := strings.Cut(each, "=")
		if each != "" && labels[name] != value {
			return false
		}
	}
	return true
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	q, of := r.URL.Query(), s.objects[r.URL.Path]
	items := []Object{}
	next := ""
	limit, _ := strconv.Atoi(q.Get("limit"))
	if s.PageMax > 0 {
		limit = s.PageMax
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		switch {
		case name <= q.Get("continue") || !matches(of[name], q.Get("labelSelector")):
		case limit > 0 && len(items) == limit:
			next = items[limit-1]["metadata"].(Object)["name"].(string)
		default:
			items = append(items, of[name])
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(Object{"metadata": Object{"resourceVersion": strconv.Itoa(s.version), "continue": next}, "items": items})
}

// watch sends what happened after a version, and what happens, until its time is up.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	limit, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	over := time.NewTimer(time.Duration(limit) * time.Second)
	defer over.Stop()
	var bookmark <-chan time.Time
	if s.Bookmark > 0 {
		ticker := time.NewTicker(s.Bookmark)
		defer ticker.Stop()
		bookmark = ticker.C
	}
	s.mu.Lock()
	s.watches++
	cut, silent := s.cut, s.silent
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	out, lines := http.NewResponseController(w), json.NewEncoder(w)
	out.Flush()
	for {
		s.mu.Lock()
		changed, events, gone := s.changed, s.since(from, r.URL.Path, q.Get("labelSelector")), from < s.oldest
		from = max(from, s.version)
		at := s.version
		s.mu.Unlock()
		if silent {
			<-r.Context().Done()
			return
		}
		if gone {
			lines.Encode(Object{"type": "ERROR", "object": status(http.StatusGone, "too old resource version")})
			return
		}
		for _, e := range events {
			lines.Encode(e)
		}
		out.Flush()
		select {
		case <-changed:
		case <-bookmark:
			lines.Encode(Object{"type": "BOOKMARK", "object": Object{"metadata": Object{"resourceVersion": fmt.Sprint(at)}}})
			out.Flush()
		case <-over.C:
			return
		case <-cut:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			return
		}
	}
}

// since is called with mu held. An object that comes under the selector is added for the watcher, one that leaves it is deleted.
func (s *Server) since(from int, path, selector string) (events []Object) {
	for _, c := range s.log {
		if c.version <= from || c.path != path {
			continue
		}
		was, is := matches(c.before, selector), matches(c.after, selector)
		switch {
		case was && is:
			events = append(events, Object{"type": "MODIFIED", "object": c.after})
		case is:
			events = append(events, Object{"type": "ADDED", "object": c.after})
		case was && c.after != nil:
			events = append(events, Object{"type": "DELETED", "object": c.after})
		case was:
			events = append(events, Object{"type": "DELETED", "object": c.before})
		}
	}
	return events
}
