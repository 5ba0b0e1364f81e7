package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/ledger"
)

// bodyMax is the router's limit on bodies in the leak test.
const bodyMax = 32 << 10

// The ways in which an exchange can end, by the worker's part in it. The client names one in a header.
var workerEnds = map[string]func(*call){
	"well":                 func(c *call) { c.good("a", "b", "c") },
	"400":                  func(c *call) { c.json(http.StatusBadRequest, `{"error":{"message":"no"}}`) },
	"429":                  func(c *call) { c.json(http.StatusTooManyRequests, `{}`) },
	"500":                  func(c *call) { c.json(http.StatusInternalServerError, `{}`) },
	"503":                  func(c *call) { c.json(http.StatusServiceUnavailable, `{}`) },
	"redirect":             func(c *call) { c.w.Header().Set("Location", "/elsewhere"); c.w.WriteHeader(http.StatusFound) },
	"reset before head":    func(c *call) { c.reset() },
	"close before head":    func(c *call) { c.raw().Close() },
	"reset in head":        func(c *call) { cut(c, "HTTP/1.1 200 OK\r\nContent-", true) },
	"reset after head":     func(c *call) { cut(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", true) },
	"close in body":        func(c *call) { cut(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"half\":", false) },
	"reset in chunk":       func(c *call) { cut(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\nhalf", true) },
	"close between chunks": func(c *call) { cut(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", false) },
	"ends by closing":      func(c *call) { cut(c, "HTTP/1.1 200 OK\r\n\r\n{}", false) },
	"garbage":              func(c *call) { cut(c, "what?\r\n\r\n", false) },
	"two lengths":          func(c *call) { cut(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", false) },
	"more than it said":    func(c *call) { cut(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}{}{}", false) },
	"reset in stream":      func(c *call) { c.events(); c.send(deltaOf("a")); c.reset() },
	"stream without end":   func(c *call) { c.events(); c.send(deltaOf("a")) },
	"error event": func(c *call) {
		c.events()
		c.send("data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}\n\n")
	},
	"silent":           func(c *call) { c.stall() },
	"silent in stream": func(c *call) { c.events(); c.send(deltaOf("a")); c.stall() },
	"gzip": func(c *call) {
		c.w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(c.w)
		io.WriteString(z, `{"id":"x"}`)
		z.Close()
	},
}

// cut answers with raw bytes and breaks the connection.
func cut(c *call, bytes string, reset bool) {
	conn := c.raw()
	io.WriteString(conn, bytes)
	if reset {
		conn.SetLinger(0)
	}
	conn.Close()
}

// clientEnds are those by the client's part.
var clientEnds = []func(rt *testRouter, body string){
	func(rt *testRouter, body string) { // leaves at some moment
		ctx, leave := context.WithTimeout(context.Background(), time.Duration(rand.IntN(5000))*time.Microsecond)
		defer leave()
		rt.do(ctx, http.MethodPost, "/v1/chat/completions", body, "X-End", []string{"well", "silent", "silent in stream"}[rand.IntN(3)])
	},
	func(rt *testRouter, body string) { // leaves a stream after its first bytes
		resp, err := rt.open(context.Background(), "/v1/chat/completions", body, "X-End", "silent in stream")
		if err == nil {
			resp.Body.Read(make([]byte, 1))
			resp.Body.Close()
		}
	},
	func(rt *testRouter, _ string) { rt.post("/v1/chat/completions", strings.Repeat("x", bodyMax+1)) },
	func(rt *testRouter, body string) { // too long, and does not say so
		req, _ := http.NewRequest(http.MethodPost, rt.DataURL()+"/v1/chat/completions", io.MultiReader(strings.NewReader(body), strings.NewReader(strings.Repeat(" ", bodyMax))))
		read(rt.http.Do(req))
	},
	func(rt *testRouter, body string) { rt.post("/v1/chat/completions", body[:len(body)/2]) },
	func(rt *testRouter, _ string) { askForNobody(rt, rand.IntN(leakNames)) },
	func(rt *testRouter, body string) { // leaves in the middle of its own body
		conn, err := net.Dial("tcp", strings.TrimPrefix(rt.DataURL(), "http://"))
		if err == nil {
			fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n%s", body)
			conn.Close()
		}
	},
	func(rt *testRouter, body string) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		io.WriteString(z, body)
		z.Close()
		rt.post("/v1/chat/completions", packed.String(), "Content-Encoding", "gzip")
	},
	func(rt *testRouter, _ string) { rt.post("/v1/responses", `{"model":"m","input":"x"}`) },
	func(rt *testRouter, _ string) { rt.get(fmt.Sprint("/v1/responses/resp_", rand.IntN(1_000_000))) },
	func(rt *testRouter, _ string) { rt.get("/v1/models") },
}

// What is remembered of prompts and names is all there before the first measurement, so that only what is lost grows: so many of each there are.
const (
	leakPrompts = 40
	leakNames   = 200 // models that nobody serves
)

func askForNobody(rt *testRouter, i int) {
	rt.post("/v1/chat/completions", fmt.Sprintf(`{"model":"nobody's %d"}`, i))
}

// holdings is what a process holds.
type holdings struct {
	descriptors, halfClosed, goroutines int
	heap                                uint64
}

// holding measures when all is quiet: clients gone, and the router's idle connections to workers past their time. What comes and goes meanwhile,
// as telemetry does, counts as little as it ever was.
func (rt *testRouter) holding() holdings {
	rt.t.Helper()
	rt.idle()
	eventually(rt.t, "idle connections to workers to be closed", func() bool { return rt.bound(ledger.WorkerConns).Used == 0 })
	rt.http.CloseIdleConnections()
	for range 3 { // pools are emptied by the second collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	least, looks := holdings{math.MaxInt, math.MaxInt, math.MaxInt, m.HeapAlloc}, 0
	eventually(rt.t, "sixty looks", func() bool {
		looks++
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			rt.t.Fatal(err)
		}
		least.descriptors = min(least.descriptors, len(open))
		least.goroutines = min(least.goroutines, runtime.NumGoroutine())
		if looks%20 == 0 { // the system's table of connections is long
			least.halfClosed = min(least.halfClosed, rt.halfClosed(open))
		}
		return looks == 60
	})
	return least
}

// halfClosed counts those of this process's descriptors that are connections which the other side has closed and this one has not.
func (rt *testRouter) halfClosed(open []os.DirEntry) (n int) {
	rt.t.Helper()
	ours := map[string]bool{}
	for _, d := range open {
		if to, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil {
			ours[to] = true
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			rt.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const state, inode, closeWait = 3, 9, "08" // https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt
			if f := strings.Fields(line); len(f) > inode && f[state] == closeWait && ours["socket:["+f[inode]+"]"] {
				n++
			}
		}
	}
	return n
}

// flock is workers that are restarted, and of which the test itself keeps nothing; beside them an engine that publishes what it caches and a cluster
// that is watched, both of which break off again and again.
type flock struct {
	addresses []string // the last one's worker comes and goes
	stop      []func()
	teller    *teller
	cluster   *cluster
	pod       *worker // of the cluster, when it is there
}

// newFlock starts all of it; the workers of the configuration are returned.
func newFlock(t *testing.T) (f *flock, workers []*worker) {
	f = &flock{stop: make([]func(), 5), teller: newTeller(t, true), cluster: newCluster(t), pod: newWorker(t, leakScript)}
	for k := range f.stop {
		f.addresses = append(f.addresses, freeAddress(t))
		workers = append(workers, f.start(t, k))
	}
	t.Cleanup(func() {
		for _, stop := range f.stop {
			stop()
		}
	})
	f.pod.forgets, f.teller.forgets = true, true
	f.teller.server.SetKeepAlivesEnabled(false) // who asks for tokens keeps as many connections as it happened to need
	f.teller.on(func(c *call) {
		if c.r.URL.Path == "/tokenize" || strings.HasSuffix(c.r.URL.Path, "/render") {
			f.teller.script(c)
			return
		}
		leakScript(c)
	})
	return f, append(workers[:4:4], f.teller.worker)
}

func (f *flock) start(t *testing.T, k int) *worker {
	w, ended := startWorker(t, f.addresses[k], nil)
	w.mu.Lock()
	w.script, w.forgets = leakScript, true
	w.mu.Unlock()
	f.stop[k] = func() { w.stop(); ended() }
	return w
}

// churn restarts a worker at its address, breaks the publisher and the watch, and adds or removes another worker and a pod, each time it is told to.
func (f *flock) churn(rt *testRouter, restart chan int) {
	extra := `{"id":"extra","url":"http://` + f.addresses[len(f.addresses)-1] + `"}`
	leave := func() {
		rt.adminCall(http.MethodDelete, "/workers/extra", "", nil)
		f.cluster.Delete(podsOf, "p1")
	}
	for i := range restart {
		k := i % (len(f.addresses) - 1)
		f.stop[k]()
		f.teller.publishAt(f.teller.die())
		f.cluster.Forget()
		f.cluster.Cut()
		<-time.After(150 * time.Millisecond) // long enough for telemetry to see it closed
		f.start(rt.t, k)
		f.teller.say(cached(long(fmt.Sprint("life ", i%2)), kvevent.Event{})...)
		if i%2 == 0 {
			rt.adminCall(http.MethodPost, "/workers", extra, nil)
			f.cluster.Put(podsOf, f.cluster.pod("p1", fmt.Sprint("u", i), f.pod))
		} else {
			leave()
		}
	}
	leave()
}

// settled waits until whatever broke off stands again, and returns how often the router connected to the publisher's engine and to the cluster.
func (f *flock) settled(rt *testRouter) (watches int) {
	rt.t.Helper()
	f.teller.awaitSubscriber()
	rt.heard("w5", f.teller, kvevent.Exact)
	rt.awaitSource("kubernetes", func(s sourceState) bool { return s.Error == "" && s.Workers == 0 })
	rt.loses(f.pod)
	_, watches = f.cluster.Asked()
	return watches
}

// leakScript ends each call in the way its header names.
func leakScript(c *call) {
	if end := workerEnds[c.r.Header.Get("X-End")]; end != nil {
		end(c)
		return
	}
	if strings.HasPrefix(c.r.URL.Path, "/v1/responses") {
		c.json(http.StatusNotFound, `{}`)
		return
	}
	c.good("a")
}

func TestLEK_01_NoExchangeLeavesAnythingBehind(t *testing.T) {
	f, workers := newFlock(t)
	rt := start(t, func(c *config.Config) {
		c.LogLevel, c.BodyBytesMax = "error", bodyMax
		c.Dash.DecisionsMax = 100 // full before the first measurement
		c.Timeouts.Header, c.Timeouts.IdleGap = 40*time.Millisecond, 40*time.Millisecond
		c.Ejection = config.Ejection{After: 3, First: 5 * time.Millisecond, Max: 20 * time.Millisecond}
		c.Discovery.ForgetAfter = 10 * time.Millisecond
		c.Discovery.Kubernetes = []config.KubernetesSource{{Selector: "app=vllm", Kubeconfig: f.cluster.kubeconfig, Resync: time.Second}}
	}, workers...)
	names := slices.Sorted(maps.Keys(workerEnds))
	var answered atomic.Int64
	one := func(i int) {
		body := chat(fmt.Sprint("leak ", i%leakPrompts), i%2 == 0)
		if n := i % (len(names) + len(clientEnds)); n >= len(names) {
			clientEnds[n-len(names)](rt, body)
		} else if r := rt.post("/v1/chat/completions", body, "X-End", names[n]); r.status == http.StatusOK {
			answered.Add(1)
		}
	}
	exchanges := func(from, to int) (watches int) {
		restart, next := make(chan int, to), atomic.Int64{}
		next.Store(int64(from))
		var churning, all sync.WaitGroup
		churning.Go(func() { f.churn(rt, restart) })
		for range 24 {
			all.Go(func() {
				for i := int(next.Add(1) - 1); i < to; i = int(next.Add(1) - 1) {
					if i%500 == 0 {
						restart <- i / 500
					}
					one(i)
				}
			})
		}
		all.Wait()
		close(restart)
		churning.Wait()
		return f.settled(rt)
	}
	for i := range leakNames {
		askForNobody(rt, i)
	}
	before := exchanges(0, 1000)
	first := rt.holding()
	after := exchanges(1000, 12_000)
	last := rt.holding()
	heard := rt.exact.feeds.Statuses()[0]
	t.Logf("after 1,000: %+v; after 12,000: %+v; %d answered well, %d restarts of the publisher heard, %d watches broke off", first, last, answered.Load(), heard.Restarts, after-before)
	within := func(what string, before, after, slack int) {
		t.Helper()
		if after > before+before/20+slack {
			t.Errorf("%s: %d after 1,000 exchanges, %d after 12,000", what, before, after)
		}
	}
	within("descriptors", first.descriptors, last.descriptors, 2)
	within("connections that the other side has closed", first.halfClosed, last.halfClosed, 0)
	within("goroutines", first.goroutines, last.goroutines, 2)
	within("bytes of live heap", int(first.heap), int(last.heap), 128<<10)
	if answered.Load() == 0 || heard.Restarts < 3 || after-before < 3 {
		t.Error("nothing was answered well, or nothing broke off: the test shows nothing")
	}
}
