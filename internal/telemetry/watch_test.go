package telemetry

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// elapse lets virtual time pass, and everything that is due in it happen.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// bubble runs a test in virtual time, with engines reached through the network it is given.
func bubble(t *testing.T, test func(t *testing.T, n *network, heard *news)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &network{}, &news{}) })
}

func TestAWorkerIsKnownAtOnceAndThenScrapedEveryInterval(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		f := fakeVLLM()
		f.set("/metrics", load(1000, 3, 2))
		defer n.serve("a:1", f)()
		start := time.Now()
		m := New(heard.options(Options{dial: n.dial, InFlight: func(id string) int { return len(id) + 1 }}))
		m.Watch(Target{ID: "a", URL: "http://a:1", Incarnation: 7})
		stop := runs(t, m)
		synctest.Wait()
		if got := heard.order("a"); got != " info counts" || !heard.of("a", "counts")[0].counts.At.Equal(start) {
			t.Fatalf("at the start: %s", got)
		}
		elapse(10500 * time.Millisecond)
		stop()
		counts := heard.of("a", "counts")
		if len(counts) < 11 || len(counts) > 12 {
			t.Errorf("%d scrapes in 10.5 s", len(counts))
		}
		for i := 2; i < len(counts); i++ {
			if d := counts[i].counts.At.Sub(counts[i-1].counts.At); d != time.Second {
				t.Errorf("scrape %d came %v after the one before", i, d)
			}
		}
		if c := counts[0].counts; c.Running != 3 || c.Waiting != 2 || c.OursBefore != 2 || counts[0].target.Incarnation != 7 {
			t.Errorf("%+v", counts[0])
		}
		if got := heard.order("a"); got != " info counts" {
			t.Errorf("nothing changed, yet heard%s", got)
		}
	})
}

func TestWorkersAreNotScrapedInOneBurst(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		m := New(heard.options(Options{dial: n.dial}))
		for i := range 40 {
			name := fmt.Sprint("w", i)
			defer n.serve(name+":1", fakeVLLM())()
			m.Watch(Target{ID: name, URL: "http://" + name + ":1"})
		}
		stop := runs(t, m)
		elapse(1100 * time.Millisecond)
		stop()
		phases := map[time.Duration]bool{}
		for i := range 40 {
			counts := heard.of(fmt.Sprint("w", i), "counts")
			phases[counts[1].counts.At.Sub(counts[0].counts.At).Truncate(50*time.Millisecond)] = true
		}
		if len(phases) < 8 {
			t.Errorf("40 workers share %d phases of 50 ms", len(phases))
		}
	})
}

func TestTEL03AFrozenWorkerGoesSilentDelaysNobodyAndComesBack(t *testing.T) {
	broken := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "vllm:num_requests_running 0\nvllm:num_req")
	}
	for what, fault := range map[string]http.HandlerFunc{"hangs": hangs, "status 500": status(500), "cut short": broken, "cut short, and it says that this is all": says("vllm:num_reque")} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network, heard *news) {
				a, b := fakeVLLM(), fakeVLLM()
				defer n.serve("a:1", a)()
				defer n.serve("b:1", b)()
				m := New(heard.options(Options{dial: n.dial}))
				m.Watch(Target{ID: "a", URL: "http://a:1"})
				m.Watch(Target{ID: "b", URL: "http://b:1"})
				stop := runs(t, m)
				elapse(3 * time.Second)
				a.set("/metrics", fault)
				elapse(100 * time.Second)
				before, beside := heard.of("a", "counts"), heard.of("b", "counts")
				if last := before[len(before)-1].counts.At; time.Since(last) < 99*time.Second {
					t.Errorf("counts came %v ago from a page that fails", time.Since(last))
				}
				if len(heard.of("a", "fail")) < 60 || len(heard.of("a", "down")) != 0 {
					t.Errorf("%d failures, %d times down", len(heard.of("a", "fail")), len(heard.of("a", "down")))
				}
				if len(beside) < 103 || len(heard.of("b", "fail")) != 0 {
					t.Errorf("its neighbour was scraped %d times in 103 s", len(beside))
				}
				a.set("/metrics", load(1000, 5, 0))
				back := time.Now()
				elapse(2 * time.Second)
				stop()
				if after := heard.of("a", "counts"); len(after) == len(before) || after[len(before)].counts.Running != 5 {
					t.Errorf("no counts within two intervals of %v", back)
				}
			})
		})
	}
}

func TestASlowPageIsNeverAskedForTwiceAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		f := fakeVLLM()
		var now, most atomic.Int32
		f.set("/metrics", func(w http.ResponseWriter, r *http.Request) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-time.After(1400 * time.Millisecond):
				load(1000, 1, 0)(w, r)
			case <-r.Context().Done():
			}
		})
		defer n.serve("a:1", f)()
		m := New(heard.options(Options{dial: n.dial}))
		m.Watch(Target{ID: "a", URL: "http://a:1"})
		stop := runs(t, m)
		elapse(60 * time.Second)
		stop()
		if got := len(heard.of("a", "counts")); most.Load() != 1 || got < 38 || got > 43 {
			t.Errorf("%d pages at once, %d pages in 60 s of 1.4 s each", most.Load(), got)
		}
	})
}

func TestAnotherProcessAtTheAddressIsARestart(t *testing.T) {
	for _, c := range []struct {
		what          string
		before, after string
		want          string
	}{
		{"its start time differs", "process_start_time_seconds 1\nvllm:num_requests_running 0\n", "process_start_time_seconds 2\nvllm:num_requests_running 0\n", " info counts restart info counts"},
		{"a total fell", "vllm:prompt_tokens_total 100\n", "vllm:prompt_tokens_total 3\n", " info counts restart info counts"},
		{"a total fell but the process is the same", "process_start_time_seconds 1\nvllm:prompt_tokens_total 100\n", "process_start_time_seconds 1\nvllm:prompt_tokens_total 3\n", " info counts"},
		{"it only learnt more", "vllm:num_requests_running 0\n", "vllm:num_requests_running 0\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"9\"} 1\n", " info counts info counts"},
	} {
		t.Run(c.what, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network, heard *news) {
				f := fakeVLLM()
				f.set("/metrics", says(c.before))
				defer n.serve("a:1", f)()
				m := New(heard.options(Options{dial: n.dial}))
				m.Watch(Target{ID: "a", URL: "http://a:1"})
				stop := runs(t, m)
				elapse(3 * time.Second)
				f.set("/metrics", says(c.after))
				elapse(5 * time.Second)
				stop()
				if got := heard.order("a"); got != c.want {
					t.Errorf("heard%s\nwant %s", got, c.want)
				}
			})
		})
	}
}

func TestAWorkerWhosePortWasClosedComesBackAsANewProcess(t *testing.T) {
	for what, page := range map[string]http.HandlerFunc{"with metrics": load(1000, 0, 0), "without metrics": status(404)} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network, heard *news) {
				f := newFake(handlers{"/v1/models": says(`{"data":[{"id":"m","owned_by":"sglang"}]}`)})
				if what == "with metrics" {
					f = fakeVLLM()
				}
				f.set("/metrics", page)
				m := New(heard.options(Options{dial: n.dial}))
				m.Watch(Target{ID: "a", URL: "http://a:1"})
				stop := runs(t, m)
				elapse(3 * time.Second)
				if downs := len(heard.of("a", "down")); downs < 3 || downs > 5 || len(heard.of("a", "restart")) != 0 {
					t.Errorf("a worker that was never up: %d times down,%s", downs, heard.order("a"))
				}
				gone := n.serve("a:1", f)
				elapse(3 * time.Second)
				gone()
				elapse(30 * time.Second)
				defer n.serve("a:1", f)()
				elapse(3 * time.Second)
				stop()
				if n := len(heard.of("a", "restart")); n != 1 || !strings.Contains(heard.order("a"), " restart info") {
					t.Errorf("%d restarts:%s", n, heard.order("a"))
				}
			})
		})
	}
}

func TestAWorkerThatRefusesToBeScrapedIsAskedRarely(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		f := fakeVLLM()
		f.set("/metrics", needsKey("k", load(1, 0, 0)))
		defer n.serve("a:1", f)()
		m := New(heard.options(Options{dial: n.dial}))
		m.Watch(Target{ID: "a", URL: "http://a:1"})
		stop := runs(t, m)
		elapse(60 * time.Second)
		if asked := f.times("/metrics"); asked < 5 || asked > 8 || len(heard.of("a", "counts")) != 0 || len(heard.of("a", "info")) != 1 {
			t.Errorf("asked %d times in a minute:%s", asked, heard.order("a"))
		}
		m.Watch(Target{ID: "a", URL: "http://a:1", Key: "k"}) // the key is set: it starts afresh
		synctest.Wait()
		stop()
		if len(heard.of("a", "counts")) != 1 {
			t.Errorf("with its key:%s", heard.order("a"))
		}
	})
}

func TestAModelListThatFailsForAWhileTakesNothingAway(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		f := fakeVLLM()
		defer n.serve("a:1", f)()
		m := New(heard.options(Options{dial: n.dial}))
		m.Watch(Target{ID: "a", URL: "http://a:1"})
		stop := runs(t, m)
		elapse(5 * time.Second)
		f.set("/v1/models", status(503))
		elapse(60 * time.Second)
		f.set("/v1/models", says(`{"data":[{"id":"m","owned_by":"vllm"},{"id":"adapter","owned_by":"vllm","parent":"m"}]}`))
		elapse(11 * time.Second)
		stop()
		if got := len(heard.of("a", "counts")); got < 75 {
			t.Errorf("%d scrapes in 76 s", got)
		}
		if infos := heard.of("a", "info"); len(infos) != 2 || len(infos[1].info.Models) != 2 {
			t.Errorf("a new adapter was not told: %v", infos)
		}
	})
}

func TestAnUnwatchedWorkerIsNeverHeardOfAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		for _, name := range []string{"a:1", "b:1"} {
			defer n.serve(name, fakeVLLM())()
		}
		m := New(heard.options(Options{dial: n.dial}))
		stop := runs(t, m)
		synctest.Wait()
		m.Watch(Target{ID: "a", URL: "http://a:1"})
		m.Watch(Target{ID: "b", URL: "http://b:1"})
		elapse(2 * time.Second)
		m.Unwatch("a")
		m.Unwatch("nobody")
		m.Watch(Target{ID: "b", URL: "http://b:1", Incarnation: 2})
		synctest.Wait()
		a := len(heard.of("a", "counts"))
		elapse(10 * time.Second)
		stop()
		m.Watch(Target{ID: "c", URL: "http://b:1"}) // after the end: nothing starts
		bs := heard.of("b", "counts")
		if len(heard.of("a", "counts")) != a || bs[len(bs)-1].target.Incarnation != 2 || len(heard.of("b", "info")) != 1 {
			t.Errorf("a: %d then %d scrapes; b: %+v", a, len(heard.of("a", "counts")), bs[len(bs)-1].target)
		}
	})
}

func TestAHookMayUnwatchItsOwnWorker(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		defer n.serve("a:1", fakeVLLM())()
		o := heard.options(Options{dial: n.dial})
		var m *Manager
		told := o.OnInfo
		o.OnInfo = func(t Target, i fleet.Info) {
			told(t, i)
			m.Unwatch(t.ID)
		}
		m = New(o)
		m.Watch(Target{ID: "a", URL: "http://a:1"})
		stop := runs(t, m)
		elapse(10 * time.Second)
		stop()
		if got := heard.order("a"); got != " info" {
			t.Errorf("heard%s", got)
		}
	})
}

func TestTelemetryOverRealSocketsReusesOneConnection(t *testing.T) {
	f := fakeVLLM()
	connections := map[string]bool{}
	scrapes := make(chan struct{}, 100)
	f.set("/metrics", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		connections[r.RemoteAddr] = true
		f.mu.Unlock()
		load(1, 1, 1)(w, r)
		select {
		case scrapes <- struct{}{}:
		default:
		}
	})
	var heard news
	m := New(heard.options(Options{Interval: 5 * time.Millisecond, Timeout: 10 * time.Second}))
	m.Watch(Target{ID: "a", URL: f.listen(t)})
	stop := runs(t, m)
	for range 20 {
		<-scrapes
	}
	stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(connections) != 1 {
		t.Errorf("20 scrapes over %d connections", len(connections))
	}
}
