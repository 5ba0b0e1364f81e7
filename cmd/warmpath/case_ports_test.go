package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/kubefake"
)

// streamOn opens streams until one is on a worker whose streams go on.
func (rt *testRouter) streamOn(w *worker) *http.Response {
	rt.t.Helper()
	for i := 0; ; i++ {
		before := w.count()
		resp, err := rt.open(context.Background(), "/v1/chat/completions", chat(fmt.Sprint("a stream ", i), true))
		if err != nil || resp.StatusCode != http.StatusOK {
			rt.t.Fatal(resp, err)
		}
		if w.count() > before {
			return resp
		}
		read(resp, nil)
	}
}

// onePod puts a slice of one pod there whose ports have these names, and never touches the pod.
func (c *cluster) onePod(ports map[string]*worker) {
	numbers, host := map[string]int{}, ""
	for name, w := range ports {
		host, numbers[name] = where(w)
	}
	c.Put(slicesOf, kubefake.Slice("s-1", "s", numbers, kubefake.Endpoint("p1", "u1", host, true, false)))
}

// shrinking are the two ways in which a pod's list of ports changes while the pod stays as it is. What is returned sets the list anew.
var shrinking = map[string]func(t *testing.T, c *cluster, all ...*worker) (*testRouter, func(...*worker)){
	"by the resource": func(t *testing.T, c *cluster, _ ...*worker) (*testRouter, func(...*worker)) {
		rt := startIn(t, c, config.KubernetesSource{Service: "s", Ports: []string{"x", "y"}}, nil)
		return rt, func(has ...*worker) { c.onePod(map[string]*worker{"x": has[0], "y": has[len(has)-1]}) }
	},
	"by the configuration": func(t *testing.T, c *cluster, all ...*worker) (*testRouter, func(...*worker)) {
		names := map[*worker]string{}
		ports := map[string]*worker{}
		for i, w := range all {
			names[w] = string(rune('x' + i))
			ports[names[w]] = w
		}
		c.onePod(ports)
		listed := func(has ...*worker) string {
			var named []string
			for _, w := range has {
				named = append(named, names[w])
			}
			return fmt.Sprintf("discovery: {forget_after: 100ms, kubernetes: [{service: s, kubeconfig: %q, ports: [%s]}]}\n", c.kubeconfig, strings.Join(named, ", "))
		}
		rt, f := startFile(t, "", listed(all[0], all[1]))
		return rt, func(has ...*worker) {
			f.write(listed(has...))
			if _, err := rt.reload("the test", false); err != nil {
				t.Fatal(err)
			}
		}
	},
}

func TestDSC_04_PortsThatAreTakenAwayGetNothingNewAndEndInPeace(t *testing.T) {
	for way, begin := range shrinking {
		t.Run(way, func(t *testing.T) {
			one, two, three := newWorker(t, nil), newWorker(t, nil), newWorker(t, nil)
			rt, has := begin(t, newCluster(t), one, two, three)
			has(one, two)
			rt.finds(one, two)
			ends := map[*worker]chan struct{}{one: make(chan struct{}), two: make(chan struct{})}
			streams := map[*worker]*http.Response{}
			for w, end := range ends {
				w.on(hold(end))
				streams[w] = rt.streamOn(w)
				defer streams[w].Body.Close()
				w.on(nil)
			}
			series := func(w *worker) bool {
				_, port := where(w)
				return strings.Contains(read(rt.http.Get(rt.AdminURL()+"/metrics")).body, fmt.Sprintf(`worker="p1:%d"`, port))
			}
			if !series(one) || !series(two) {
				t.Fatal("no series of the workers")
			}
			leaves := func(w, stays *worker) {
				t.Helper()
				eventually(t, "the port to drain", func() bool { s := rt.found(w); return s != nil && s.State == "draining" })
				before := w.count()
				if n := rt.asks(stays, "m", 20); n != 20 || w.count() != before {
					t.Errorf("of 20 requests %d went to the only port, and %d to one that was taken away", n, w.count()-before)
				}
			}
			has(one) // [x, y] -> [x]
			leaves(two, one)
			has(three) // [x] -> [z]
			rt.finds(three)
			leaves(one, three)
			for w, end := range ends {
				if s := rt.found(w); s == nil || s.InFlight != 1 {
					t.Errorf("while its stream runs: %+v", s)
				}
				close(end)
				if text, err := io.ReadAll(streams[w].Body); err != nil || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
					t.Errorf("the stream on a port that was taken away: %q %v", text, err)
				}
				rt.loses(w)
			}
			if series(one) || series(two) || !series(three) {
				t.Error("series of ports that are gone")
			}
			if n := len(rt.state().Workers); n != 1 {
				t.Errorf("%d workers, want 1", n)
			}
		})
	}
}
