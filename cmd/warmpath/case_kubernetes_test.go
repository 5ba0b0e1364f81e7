package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kubefake"
	"github.com/warmpath/warmpath/internal/pools"
)

// The API server of these tests is a small one of our own that speaks the real protocol over loopback: lists in pages, watches as lines of
// JSON, versions, bookmarks, 410 Gone.

var podsOf, slicesOf = kubefake.Pods("llm"), kubefake.Slices("llm")

// cluster is an API server and how the router finds it.
type cluster struct {
	*kubefake.Server
	t          *testing.T
	kubeconfig string
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{Server: kubefake.New(), t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	address, stop := c.Listen()
	t.Cleanup(stop)
	c.Token, c.Bookmark = "a-service-account", 50*time.Millisecond
	text := fmt.Sprintf("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u, namespace: llm}}]\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: u, user: {token: %s}}]\n", address, c.Token)
	if err := os.WriteFile(c.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// pod is one whose engine is a worker of the test.
func (c *cluster) pod(name, uid string, w *worker, labels ...string) kubefake.Object {
	host, port := where(w)
	all := map[string]string{"app": "vllm"}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		all[key] = value
	}
	return kubefake.Pod(name, uid, host, true, all, port)
}

func where(w *worker) (host string, port int) {
	u, _ := url.Parse(w.url)
	host, text, _ := net.SplitHostPort(u.Host)
	port, _ = strconv.Atoi(text)
	return host, port
}

// startIn runs a router whose workers are found in a cluster.
func startIn(t *testing.T, c *cluster, source config.KubernetesSource, change func(*config.Config)) *testRouter {
	source.Kubeconfig = c.kubeconfig
	return start(t, func(cfg *config.Config) {
		cfg.Discovery.Kubernetes, cfg.Discovery.ForgetAfter = []config.KubernetesSource{source}, 100*time.Millisecond
		if change != nil {
			change(cfg)
		}
	})
}

// asks sends requests of a model until none fails, and says how many of them came to w.
func (rt *testRouter) asks(w *worker, model string, n int) (came int) {
	rt.t.Helper()
	before := w.count()
	for i := range n {
		body := strings.Replace(chat(fmt.Sprint("ask ", time.Now().UnixNano(), i), false), `"model":"m"`, fmt.Sprintf(`"model":%q`, model), 1)
		if r := rt.post("/v1/chat/completions", body); r.status != http.StatusOK {
			rt.t.Errorf("model %s: %d %s", model, r.status, r.body)
		}
	}
	return w.count() - before
}

func TestDSC_01_AnAddressThatIsAnothersOrNobodysGetsNothingOfWhatItGot(t *testing.T) {
	c := newCluster(t)
	one, two := newWorker(t, nil, "a"), newWorker(t, nil, "a")
	rt := startIn(t, c, config.KubernetesSource{Selector: "app=vllm"}, func(cfg *config.Config) {
		cfg.Pools = []pools.Pool{{Name: "prefill", Labels: []string{"role=prefill"}}, {Name: "decode", Labels: []string{"role=decode"}}}
	})
	c.Put(podsOf, c.pod("p1", "u1", one, "role=prefill"))
	c.Put(podsOf, c.pod("p0", "u0", two))
	rt.finds(one, two)
	if s := rt.found(one); len(s.Pools) != 1 || s.Pools[0] != "prefill" || !strings.HasPrefix(s.ID, "p1:") {
		t.Errorf("%+v", s)
	}
	// (d) its role changes: it changes pools, and goes on as it is
	was := rt.found(one).Incarnation
	c.Put(podsOf, c.pod("p1", "u1", one, "role=decode"))
	eventually(t, "the pool to change", func() bool { s := rt.found(one); return s != nil && len(s.Pools) == 1 && s.Pools[0] == "decode" })
	if s := rt.found(one); s.Incarnation != was || s.State != "ready" {
		t.Errorf("%+v", s)
	}
	// (a) its labels do not match any more, though it answers
	c.Put(podsOf, c.pod("p1", "u1", one, "app=other"))
	rt.loses(one)
	if n := rt.asks(one, "a", 20); n != 0 {
		t.Errorf("%d requests to a worker whose labels do not match", n)
	}
	// (b) the pod is made again, elsewhere
	c.Delete(podsOf, "p0")
	three := newWorker(t, nil, "a")
	c.Put(podsOf, c.pod("p0", "u2", three))
	rt.finds(three)
	rt.loses(two)
	if n := rt.asks(three, "a", 10); n != 10 {
		t.Errorf("%d of 10 requests to the new address", n)
	}
	// (c) the old address is another model's, in another pod
	if out := rt.asks(three, "a", 1); out != 1 {
		t.Errorf("%d", out)
	}
	address := strings.TrimPrefix(two.url, "http://")
	two.stop()
	other := newWorkerAt(t, address, nil, "b")
	c.Put(podsOf, c.pod("p9", "u9", other))
	rt.finds(other)
	if n := rt.asks(other, "a", 10); n != 0 {
		t.Errorf("%d requests of model a to the address that is model b's now", n)
	}
	if n := rt.asks(other, "b", 10); n != 10 {
		t.Errorf("%d of 10 requests of model b", n)
	}
	if s := rt.found(other); s.Incarnation == was || !strings.HasPrefix(s.ID, "p9:") {
		t.Errorf("%+v", s)
	}
}

func TestDSC_01_ANewPodAtAnOldAddressStartsCold(t *testing.T) {
	c := newCluster(t)
	w := newWorker(t, func(c *call) {
		c.json(http.StatusOK, `{"id":"x","object":"chat.completion","choices":[],"usage":{"prompt_tokens":500,"completion_tokens":1,"total_tokens":501}}`)
	})
	rt := startIn(t, c, config.KubernetesSource{Selector: "app=vllm"}, nil)
	c.Put(podsOf, c.pod("p1", "u1", w))
	rt.finds(w)
	rt.post("/v1/chat/completions", chat(strings.Repeat("a long prompt ", 200), false))
	eventually(t, "its cache to be known", func() bool { return rt.found(w).AssumedBytes > 0 })
	was := rt.found(w)
	c.Put(podsOf, c.pod("p1", "another", w)) // under its own name even, without a word between
	eventually(t, "another instance", func() bool { s := rt.found(w); return s != nil && s.Incarnation != was.Incarnation })
	if s := rt.found(w); s.AssumedBytes != 0 || s.PrefillsLearned != 0 {
		t.Errorf("it inherited: %+v", s)
	}
	rt.finds(w)
}

func TestDSC_02_WhateverAWatchMissesIsKnownSoon(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	one, two := newWorker(t, nil), newWorker(t, nil)
	rt := startIn(t, c, config.KubernetesSource{Selector: "app=vllm", Resync: time.Second}, func(cfg *config.Config) { cfg.Discovery.StaleAfter = time.Minute })
	c.Put(podsOf, c.pod("p1", "u1", one))
	rt.finds(one)
	swap := func(what string, from, to *worker, n int) {
		t.Helper()
		name := fmt.Sprint("p", n)
		c.Put(podsOf, c.pod(name, fmt.Sprint("u", n), to))
		c.Delete(podsOf, fmt.Sprint("p", n-1))
		rt.finds(to)
		rt.loses(from)
		if came := rt.asks(to, "m", 3); came != 3 {
			t.Errorf("%s: %d of 3 requests", what, came)
		}
	}
	c.Silence(true) // (a) watches are accepted and say nothing, the connection open
	c.Cut()
	swap("a silent watch", one, two, 2)
	c.Silence(false)
	for n := 3; n < 7; n += 2 { // (b) watches break off, again and again
		c.Cut()
		swap("a broken watch", two, one, n)
		c.Cut()
		swap("a broken watch", one, two, n+1)
	}
	c.Forget() // (c) 410 Gone, (d) what is deleted meanwhile
	c.Cut()
	swap("410 Gone", two, one, 7)
	c.Refuse(http.StatusServiceUnavailable) // (e) the API server is down
	c.Cut()
	rt.awaitSource("kubernetes", func(s sourceState) bool {
		return s.Stale && s.Errors >= 3 && s.Workers == 1 && strings.Contains(s.Error, "503")
	})
	c.Put(podsOf, c.pod("p8", "u8", two))
	if came := rt.asks(one, "m", 10); came != 10 {
		t.Errorf("%d of 10 requests while the API server is down", came)
	}
	if rt.metric("warmpath_discovery_stale") != 1 || rt.metric("warmpath_discovery_errors_total") < 3 {
		t.Error("metrics do not say so")
	}
	c.Refuse(0)
	rt.finds(two, one)
	rt.awaitSource("kubernetes", func(s sourceState) bool { return !s.Stale && s.Error == "" })
}

// refusing is a worker that can cease to take connections while it serves those that it has.
func refusing(t *testing.T, script func(*call)) (w *worker, shut func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = &worker{t: t, url: "http://" + l.Addr().String(), models: []string{"m"}, script: script, detectable: true}
	w.server = &http.Server{Handler: w}
	var running sync.WaitGroup
	running.Go(func() { w.server.Serve(l) })
	t.Cleanup(func() { w.server.Close(); running.Wait() })
	return w, func() { l.Close() }
}

// goesOn answers at once, or by a stream that takes a while.
func goesOn(c *call) {
	if !c.wantsStream() {
		c.good("quick")
		return
	}
	c.events()
	for range 20 {
		c.send(deltaOf("a"))
		if !c.wait(20 * time.Millisecond) {
			return
		}
	}
	c.send("data: [DONE]\n\n")
}

func TestDSC_05_ARollingReplacementOfAllPodsFailsNoRequest(t *testing.T) {
	c := newCluster(t)
	rt := startIn(t, c, config.KubernetesSource{Service: "s"}, nil)
	type pod struct {
		w    *worker
		shut func()
	}
	var all []pod
	show := func(name int, p pod, terminating bool) {
		host, port := where(p.w)
		c.Put(slicesOf, kubefake.Slice(fmt.Sprint("s-", name), "s", map[string]int{"http": port}, kubefake.Endpoint(fmt.Sprint("p", name), fmt.Sprint("u", name), host, true, terminating)))
	}
	add := func() {
		w, shut := refusing(t, goesOn)
		all = append(all, pod{w, shut})
		show(len(all)-1, all[len(all)-1], false)
		rt.finds(w)
	}
	for range 3 {
		add()
	}
	var clients sync.WaitGroup
	var sent, late atomic.Int64
	stop := make(chan struct{})
	for k := range 8 {
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r := rt.post("/v1/chat/completions", chat(fmt.Sprint("roll ", k, i), i%4 == 0))
				if sent.Add(1); r.status != http.StatusOK || r.err != nil || strings.Contains(r.body, `"error"`) {
					t.Errorf("request %d/%d: %d %v %s", k, i, r.status, r.err, r.body)
				}
			}
		})
	}
	for i := range 10 { // pod i terminates, another has come
		add()
		p := all[i]
		show(i, p, true)
		eventually(t, "the pod to drain", func() bool { s := rt.found(p.w); return s == nil || s.State == "draining" })
		marked := p.w.count()
		p.shut()
		eventually(t, "its requests to end", func() bool { s := rt.found(p.w); return s == nil || s.InFlight == 0 })
		late.Add(int64(max(0, p.w.count()-marked-8))) // those that were chosen before the mark
		c.Delete(slicesOf, fmt.Sprint("s-", i))
		p.w.stop()
		rt.loses(p.w)
	}
	close(stop)
	clients.Wait()
	t.Logf("%d requests", sent.Load())
	if late.Load() > 0 {
		t.Errorf("%d requests came to pods after they were marked", late.Load())
	}
	rt.idle()
}
