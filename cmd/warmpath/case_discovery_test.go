package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

func TestSHD_02_AWorkerThatLeavesDiscoveryDrainsAndNobodyWaitsForIt(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	l := newList(t, w1)
	rt := startWith(t, l, nil)
	rt.finds(w1)
	h := rt.occupy(w1, 10)
	l.has(w2)
	rt.finds(w2)
	h.moved(t)
	if s := rt.found(w1); s == nil || s.State != "draining" || s.Draining != "left" || s.InFlight != 10 {
		t.Errorf("the worker that left: %+v", s)
	}
	before := w1.count()
	for i := range 20 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("new ", i), false)); r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if n := w1.count(); n != before {
		t.Errorf("%d new requests on the worker that left", n-before)
	}
	l.has(w1, w2) // it thinks better of it while it drains
	eventually(t, "the worker to be back", func() bool { s := rt.found(w1); return s != nil && s.State == "ready" })
	if n := len(rt.state().Workers); n != 2 {
		t.Errorf("%d workers, want 2", n)
	}
	l.has(w2)
	eventually(t, "the worker to drain again", func() bool { s := rt.found(w1); return s != nil && s.State == "draining" })
	h.end(t)
	rt.loses(w1)
	if n := rt.metric("warmpath_worker_inflight_requests", fmt.Sprintf("worker=%q", strings.TrimPrefix(w1.url, "http://"))); n != 0 || strings.Contains(read(rt.http.Get(rt.AdminURL()+"/metrics")).body, strings.TrimPrefix(w1.url, "http://")) {
		t.Error("metrics tell of a worker that is gone")
	}
	rt.idle()
}

func TestSHD_02_WhereAllWorkersAreOthersRequestsWaitUntilOneIsKnown(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	w2.onGet(func(out http.ResponseWriter, r *http.Request) {
		w2.mu.Lock()
		w2.other = nil // it takes its time the first time that it is asked
		w2.mu.Unlock()
		select {
		case <-time.After(200 * time.Millisecond):
		case <-r.Context().Done():
		}
		w2.detection(out, r)
	})
	l := newList(t, w1)
	rt := startWith(t, l, nil)
	rt.finds(w1)
	h := rt.occupy(w1, 4)
	l.says(fmt.Sprintf("- %s\n", w2.url)) // whose model nobody knows
	h.moved(t)
	h.end(t)
	rt.loses(w1)
}

func TestSHD_02_DrainingByHandMovesWhatWaitsAndOutlastsDiscovery(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	l := newList(t, w1)
	rt := startWith(t, l, nil)
	rt.finds(w1)
	id := strings.TrimPrefix(w1.url, "http://")
	h := rt.occupy(w1, 10)
	l.has(w1, w2)
	rt.finds(w2)
	if code := rt.adminCall(http.MethodPost, "/workers/"+id+"/drain", "", nil); code != http.StatusOK {
		t.Fatalf("drain: %d", code)
	}
	h.moved(t)
	drained := func(when string) {
		t.Helper()
		if s := rt.found(w1); s == nil || s.State != "draining" || s.Draining != "by hand" {
			t.Errorf("%s: %+v", when, s)
		}
	}
	drained("drained by hand")
	l.has(w2, w1) // told again: that is no reason
	rt.awaitSource("file", func(s sourceState) bool { return s.Workers == 2 })
	drained("named again")
	if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"url":%q,"id":"another"}`, w1.url), nil); code != http.StatusConflict {
		t.Errorf("the same address under another id: %d", code)
	}
	h.end(t)
	rt.idle()
	drained("when nothing was under way")
	if code := rt.adminCall(http.MethodPost, "/workers/"+id+"/undrain", "", nil); code != http.StatusOK {
		t.Fatalf("undrain: %d", code)
	}
	rt.finds(w1)
	if n := len(rt.state().Workers); n != 2 {
		t.Errorf("%d workers, want 2", n)
	}
}

func TestTMO_04_NobodyWaitsForAWorkerThatDiscoveryTookOut(t *testing.T) {
	t.Parallel()
	const clients = 120
	var frozen []*worker
	for range 6 {
		frozen = append(frozen, newWorker(t, func(c *call) { c.stall() }))
	}
	there := frozen
	l := newList(t, there...)
	rt := startWith(t, l, nil)
	rt.finds(there...)
	var all sync.WaitGroup
	var served, failed atomic.Int32
	for i := range clients {
		all.Go(func() {
			if r := rt.post("/v1/chat/completions", chat(fmt.Sprint("bound ", i), i%2 == 0)); r.status == http.StatusOK {
				served.Add(1)
			} else if failed.Add(1); r.status < 500 || !strings.Contains(r.body, `"error"`) {
				t.Errorf("%d %q %v", r.status, r.body, r.err)
			}
		})
	}
	eventually(t, "all requests to be on a worker, or to wait for one", func() bool {
		n := rt.state().Queue.Waiting
		for _, w := range frozen {
			n += w.count()
		}
		return n >= clients
	})
	for range frozen { // one leaves, one comes
		there = append(there[1:len(there):len(there)], newWorker(t, nil))
		l.has(there...)
		rt.finds(there[len(there)-1])
	}
	all.Wait()
	if n := served.Load(); n < clients/2 {
		t.Errorf("%d of %d were served elsewhere", n, clients)
	}
	rt.loses(frozen...)
	rt.idle()
}

func TestHLT_06_NobodyIsFoundYet(t *testing.T) {
	l := newList(t)
	rt := startWith(t, l, nil)
	rt.unready()
	w := newWorker(t, nil)
	l.has(w)
	rt.comesUp(w, new(atomic.Int32))
}

func TestFLW_05_RequestsThatComeBeforeTheFirstWorkerAreHeldOrRefusedAtOnce(t *testing.T) {
	for name, hold := range map[string]time.Duration{"on": time.Minute, "off": 0} {
		t.Run(name, func(t *testing.T) {
			l := newList(t)
			rt := startWith(t, l, func(c *config.Config) { c.Queue.Hold = hold })
			const clients = 20
			replies := make(chan reply, clients)
			for i := range clients {
				go func() { replies <- rt.post("/v1/chat/completions", chat(fmt.Sprint("early ", i), i%2 == 0)) }()
			}
			if hold == 0 {
				for range clients {
					if r := <-replies; r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, `"error"`) {
						t.Errorf("%d %s", r.status, r.body)
					}
				}
				return
			}
			eventually(t, "all to wait", func() bool { s := rt.state(); return s.Queue != nil && s.Queue.Waiting == clients })
			leaving, leave := context.WithCancel(context.Background())
			gone := make(chan reply)
			go func() {
				gone <- rt.do(leaving, http.MethodPost, "/v1/chat/completions", chat("nobody waits for this", false))
			}()
			eventually(t, "one more to wait", func() bool { return rt.state().Queue.Waiting == clients+1 })
			leave()
			<-gone
			eventually(t, "it to be gone", func() bool { return rt.state().Queue.Waiting == clients })
			w := newWorker(t, nil)
			l.has(w)
			for range clients {
				if r := <-replies; r.status != http.StatusOK || r.err != nil {
					t.Errorf("%d %s %v", r.status, r.body, r.err)
				}
			}
			if n := w.count(); n != clients {
				t.Errorf("%d requests came to the worker, want %d", n, clients)
			}
		})
	}
	t.Run("in vain", func(t *testing.T) {
		rt := startWith(t, newList(t), func(c *config.Config) { c.Queue.Hold = 50 * time.Millisecond })
		if r := rt.post("/v1/chat/completions", chat("early", false)); r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

func TestDSC_03_AWorkerThatIsListedBeforeItKnowsItsModelServesOnceItDoes(t *testing.T) {
	address := freeAddress(t)
	empty := newWorker(t, nil)
	tells := new(atomic.Bool)
	models := func(w *worker, otherwise func(http.ResponseWriter)) http.HandlerFunc {
		return func(out http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" && !tells.Load() {
				otherwise(out)
				return
			}
			w.detection(out, r)
		}
	}
	empty.onGet(models(empty, func(out http.ResponseWriter) { io.WriteString(out, `{"object":"list","data":[]}`) }))
	l := newList(t)
	l.says(fmt.Sprintf("workers: [\"http://%s\", %q]\n", address, empty.url))
	rt := startWith(t, l, nil)
	stateOf := func(url string) *workerState { return rt.found(&worker{url: url}) }
	eventually(t, "the closed port to be seen", func() bool { s := stateOf("http://" + address); return s != nil && s.State == "down" })
	rt.awaitTelemetryFailures(address, 2)
	late := newWorkerAt(t, address, nil)
	late.onGet(models(late, func(out http.ResponseWriter) { out.WriteHeader(http.StatusServiceUnavailable) }))
	for _, url := range []string{late.url, empty.url} {
		eventually(t, url+" to be up without a model", func() bool { s := stateOf(url); return s != nil && s.State != "down" && len(s.Models) == 0 })
	}
	tells.Store(true)
	rt.finds(late, empty)
	for _, w := range []*worker{late, empty} {
		eventually(t, "traffic on "+w.url, func() bool {
			rt.post("/v1/chat/completions", chat(fmt.Sprint("now ", time.Now().UnixNano()), false))
			return w.count() > 0
		})
	}
}

func TestREL_01_AFileOfWorkersThatIsBrokenChangesNothingAndRecovers(t *testing.T) {
	t.Parallel()
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	l := newList(t, w1)
	rt := startWith(t, l, nil)
	rt.finds(w1)
	for _, bad := range []struct{ text, want string }{
		{"workers: [", "not YAML"}, {"- {url: 7}", "url"}, {"- {uri: http://h:1}", "url"}, {"", "empty"}, {"workrs: []", "workers"},
		{fmt.Sprintf("- %s\n- %s\n", w1.url, w1.url), "already"}, {"- http://h/v1", "/v1"}, {"[\"${env.WARMPATH_NO_SUCH}\"]", "WARMPATH_NO_SUCH"},
	} {
		l.says(bad.text)
		rt.awaitSource("file", func(s sourceState) bool { return s.Stale && s.Workers == 1 && strings.Contains(s.Error, bad.want) })
		if r := rt.post("/v1/chat/completions", chat(bad.text, false)); r.status != http.StatusOK {
			t.Errorf("%q: %d %s", bad.text, r.status, r.body)
		}
		if rt.metric("warmpath_discovery_stale") != 1 || rt.metric("warmpath_discovery_workers") != 1 {
			t.Errorf("%q: metrics do not say so", bad.text)
		}
		l.has(w1) // the old content is put back
		rt.awaitSource("file", func(s sourceState) bool { return !s.Stale && s.Error == "" && s.Workers == 1 })
	}
	l.has(w2)
	rt.finds(w2)
	rt.loses(w1)
}
