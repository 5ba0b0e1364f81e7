package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// crowd is many streams that stay open until they are let go, before a router that is a process of its own with a bound on descriptors.
type crowd struct {
	t      *testing.T
	router *servedRouter
	client *http.Client
	letGo  atomic.Pointer[chan struct{}] // closed to end the streams that are open
	open   atomic.Int64                  // streams that the workers have begun and not ended
}

// gather starts workers and a router that may hold so many descriptors.
func gather(t *testing.T, workers, descriptors int) *crowd {
	t.Helper()
	c := &crowd{t: t, client: newClient(t)}
	c.hold()
	var urls []string
	for range workers {
		w := newWorker(t, func(call *call) {
			c.open.Add(1)
			defer c.open.Add(-1)
			call.events()
			call.send(deltaOf("first"))
			select {
			case <-*c.letGo.Load():
				call.send(deltaOf("last") + "data: [DONE]\n\n")
			case <-call.gone:
			}
		})
		w.forgets = true
		urls = append(urls, w.url)
	}
	limited := filepath.Join(t.TempDir(), "limited")
	if err := os.WriteFile(limited, fmt.Appendf(nil, "#!/bin/sh\nulimit -n %d\nexec warmpath \"$@\"\n", descriptors), 0o700); err != nil {
		t.Fatal(err)
	}
	p := proofOf(new(bytes.Buffer))
	p.binary = limited
	var err error
	if c.router, err = p.startServed(context.Background(), t.TempDir(), urls...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if code := c.router.end(); code != 0 || strings.Contains(c.router.stderr.String(), "panic") {
			t.Errorf("the router ended with %d: %.2000s", code, c.router.stderr)
		}
	})
	if err := awaitReady(t.Context(), c.router.data); err != nil {
		t.Fatal(err)
	}
	return c
}

// hold makes the streams to come stay open; what it returns ends them.
func (c *crowd) hold() (end func()) {
	gate := make(chan struct{})
	c.letGo.Store(&gate)
	return func() { close(gate) }
}

// endings are how streams ended, by what their clients saw.
type endings struct {
	whole, refused, broken atomic.Int64
	why                    atomic.Pointer[error] // of one that broke
}

func (o *endings) broke(err error) {
	o.broken.Add(1)
	o.why.Store(&err)
}

func (o *endings) String() string {
	said := fmt.Sprintf("%d whole, %d refused, %d broken", o.whole.Load(), o.refused.Load(), o.broken.Load())
	if why := o.why.Load(); why != nil {
		said += fmt.Sprintf(" (%v)", *why)
	}
	return said
}

// come opens n streams at once. begun counts first bytes; wait returns when all have ended.
func (c *crowd) come(ctx context.Context, n int) (o *endings, begun *atomic.Int64, wait func()) {
	o, begun = &endings{}, &atomic.Int64{}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.router.data+"/v1/chat/completions", strings.NewReader(chat(fmt.Sprint("crowd ", i), true)))
			if err != nil {
				c.t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			res, err := c.client.Do(req)
			if err != nil {
				o.broke(err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode == http.StatusOK {
				begun.Add(1)
			}
			switch body, err := io.ReadAll(res.Body); {
			case res.StatusCode == http.StatusServiceUnavailable && err == nil:
				o.refused.Add(1)
			case res.StatusCode == http.StatusOK && err == nil && bytes.HasSuffix(body, []byte("data: [DONE]\n\n")):
				o.whole.Add(1)
			default:
				o.broke(fmt.Errorf("status %d, %v after %.200q", res.StatusCode, err, body))
			}
		})
	}
	return o, begun, all.Wait
}

// probe asks whether the router lives until stop is called, which returns how often and the longest time an answer took.
func (c *crowd) probe() (stop func() (n int, longest time.Duration)) {
	quit, done, n, longest := make(chan struct{}), make(chan struct{}), 0, time.Duration(0)
	go func() {
		defer close(done)
		for {
			began := time.Now()
			if r := read(c.client.Get(c.router.data + "/healthz")); r.status != http.StatusOK {
				c.t.Errorf("the probe got %d %v", r.status, r.err)
			}
			longest = max(longest, time.Since(began))
			n++
			select {
			case <-quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() (int, time.Duration) { close(quit); <-done; return n, longest }
}

func (c *crowd) metric(name string) float64 {
	c.t.Helper()
	page, err := readMetrics(c.t.Context(), c.router.admin)
	if err != nil {
		c.t.Fatal(err)
	}
	return page.sum(name)
}

// streamsAtOnce is as many as are wanted, or as this test's own bound on descriptors leaves room for: it has both ends of each stream.
func streamsAtOnce(t *testing.T, wanted int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return min(wanted, int(limit.Cur)/3)
}

func TestPRF_06_ThousandsOfStreamsComeVanishAndComeAgain(t *testing.T) {
	now := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, now) }) // after the workers and the router have ended
	n := streamsAtOnce(t, 2000)
	c := gather(t, 8, 8192)
	before := c.metric("go_memstats_sys_bytes")
	stop := c.probe()

	ctx, vanish := context.WithCancel(t.Context())
	o, begun, wait := c.come(ctx, n)
	eventually(t, "every stream to begin", func() bool { return begun.Load() == int64(n) || o.broken.Load()+o.refused.Load() > 0 })
	eachKB := (c.metric("go_memstats_sys_bytes") - before) / float64(n) / 1e3
	if begun.Load() != int64(n) {
		t.Errorf("of %d streams %d began; %v", n, begun.Load(), o)
	}
	if eachKB > 150 {
		t.Errorf("%.0f KB a stream", eachKB)
	}
	vanish()
	wait()
	vanished := time.Now()
	eventually(t, "the workers to be left alone", func() bool { return c.open.Load() == 0 })
	eventually(t, "the router to be idle", func() bool { return c.metric("warmpath_worker_inflight_requests") == 0 })
	settled := time.Since(vanished)

	end := c.hold()
	o, begun, wait = c.come(t.Context(), n)
	eventually(t, "every stream of the second wave to begin", func() bool { return begun.Load() == int64(n) || o.broken.Load()+o.refused.Load() > 0 })
	end()
	wait()
	if o.whole.Load() != int64(n) {
		t.Errorf("of %d streams of the second wave: %v", n, o)
	}
	probes, longest := stop()
	t.Logf("%d streams, %.0f KB each; idle %v after all vanished; %d probes, the slowest took %v", n, eachKB, settled, probes, longest)
	c.client.CloseIdleConnections()
}

// Beyond its bound on descriptors the router refuses or lets wait, and is whole again as soon as there are some.
func TestPRF_06_OutOfDescriptorsTheRouterRefusesAndRecovers(t *testing.T) {
	const descriptors, many = 200, 400
	c := gather(t, 2, descriptors)
	end := c.hold()
	o, begun, wait := c.come(t.Context(), many)
	eventually(t, "the descriptors to be used up", func() bool { return o.refused.Load() > 0 && begun.Load() > 0 })
	if begun.Load() > descriptors/2 {
		t.Errorf("%d streams are open, of two descriptors each, with %d", begun.Load(), descriptors)
	}
	if r := read(newClient(t).Get(c.router.data + "/healthz")); r.status != http.StatusOK {
		t.Errorf("a probe amid the crowd got %d %v", r.status, r.err)
	}
	end()
	wait()
	if o.broken.Load() > 0 || o.whole.Load()+o.refused.Load() != many {
		t.Errorf("of %d streams: %v", many, o)
	}
	again, _, wait := c.come(t.Context(), descriptors/6)
	wait()
	if again.whole.Load() != descriptors/6 {
		t.Errorf("afterwards, of %d streams: %v", descriptors/6, again)
	}
	if r := read(c.client.Get(c.router.data + "/healthz")); r.status != http.StatusOK {
		t.Errorf("the probe got %d %v", r.status, r.err)
	}
	t.Logf("of %d streams with %d descriptors: %v", many, descriptors, o)
}
