package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/recent"
)

// cli runs a command line against the router's admin port.
func (rt *testRouter) cli(args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(append(args, "--admin", rt.AdminURL()), &out, &err)
	return code, out.String(), err.String()
}

func TestDrainWaitsUntilNothingIsUnderWay(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	l := newList(t, w1)
	rt := startWith(t, l, nil)
	rt.finds(w1)
	id := strings.TrimPrefix(w1.url, "http://")
	h := rt.occupy(w1, 4)
	l.has(w1, w2)
	rt.finds(w2)
	code, out, errs := rt.cli("drain", id, "--timeout", "300ms")
	if code != exitRuntime || out != "" || !strings.Contains(errs, "4 requests under way") || !strings.Contains(errs, "after 300ms (--timeout); it goes on draining") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	h.moved(t)
	rt.movedAlone(4)
	code, out, _ = rt.cli("drain", id, "--no-wait", "--json")
	var d drained
	if err := json.Unmarshal([]byte(out), &d); code != exitOK || err != nil || d.State != "draining" || d.InFlight != 4 || d.Worker != id {
		t.Errorf("%d %q %v", code, out, err)
	}
	done := make(chan string)
	go func() {
		code, out, errs := rt.cli("drain", id)
		done <- fmt.Sprint(code, " ", out, errs)
	}()
	h.end(t)
	if got := <-done; !strings.HasPrefix(got, "0 "+id+" is drained") || !strings.Contains(got, "0 requests under way") {
		t.Error(got)
	}
	before := w1.count()
	for i := range 10 {
		rt.post("/v1/chat/completions", chat(fmt.Sprint("elsewhere ", i), false))
	}
	if n := w1.count() - before; n != 0 {
		t.Errorf("%d requests to a drained worker", n)
	}
	if code, out, _ := rt.cli("undrain", id); code != exitOK || out != id+" takes requests again\n" {
		t.Errorf("%d %q", code, out)
	}
	rt.finds(w1)
	rt.idle()
}

func TestDrainWithKeepLeavesRequestsWhereTheyAre(t *testing.T) {
	answer := make(chan struct{})
	w := newWorker(t, func(c *call) {
		select {
		case <-answer:
		case <-c.gone:
		}
		c.good("late")
	})
	rt := start(t, nil, w, newWorker(t, nil, "another"))
	got := make(chan reply)
	go func() { got <- rt.post("/v1/chat/completions", chat("slow", false)) }()
	eventually(t, "the request to be there", func() bool { return w.count() == 1 })
	if code, out, errs := rt.cli("drain", "w1", "--keep", "--no-wait"); code != exitOK || !strings.Contains(out, "w1 drains: 1 request under way") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	close(answer)
	if r := <-got; r.status != http.StatusOK || !strings.Contains(r.body, "late") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if w.count() != 1 {
		t.Error("it was sent again")
	}
}

func TestDrainOfAllRanksAndOfOne(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) { c.Workers = []config.Worker{{ID: "n", URL: w.url, Ranks: 2}} })
	draining := func() (ids string) {
		for _, s := range rt.state().Workers {
			if s.State == "draining" {
				ids += s.ID + " "
			}
		}
		return ids
	}
	for _, c := range []struct{ command, id, want string }{
		{"drain", "n-dp1", "n-dp1 "}, {"undrain", "n-dp1", ""}, {"drain", "n", "n-dp0 n-dp1 "}, {"undrain", "n-dp0", "n-dp1 "}, {"undrain", "n", ""},
	} {
		if code, out, errs := rt.cli(c.command, c.id); code != exitOK || draining() != c.want {
			t.Errorf("%s %s: %d %q %q; draining %q", c.command, c.id, code, out, errs, draining())
		}
	}
	if code := rt.adminCall(http.MethodDelete, "/workers/n", "", nil); code != http.StatusOK || len(rt.state().Workers) != 0 {
		t.Errorf("%d, %d workers left", code, len(rt.state().Workers))
	}
}

// movedAlone checks that so many requests were taken back from a worker on its leave, and none counts as a failure.
func (rt *testRouter) movedAlone(n int) {
	rt.t.Helper()
	eventually(rt.t, "the decisions", func() bool { return len(rt.tries("moved")) == n })
	if all := rt.tries(""); len(all) != n {
		rt.t.Errorf("tries: %+v", all)
	}
	if moved, failed := rt.metric("warmpath_moved_total"), rt.metric("warmpath_retries_total"); moved != float64(n) || failed != 0 {
		rt.t.Errorf("%v moved, %v tried again", moved, failed)
	}
}

// tries are those of the last decisions, of one class; "" all of them.
func (rt *testRouter) tries(class string) (all []declog.Try) {
	found, _ := rt.archive.recent.List(recent.Filter{Limit: 1000})
	for _, d := range found {
		for _, t := range d.Tries {
			if class == "" || t.Class == class {
				all = append(all, t)
			}
		}
	}
	return all
}

func TestAWrongDrainSaysWhatIsWrong(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"drain", "w2"}, exitRuntime, `no worker "w2" in the fleet; there are: w1`},
		{[]string{"undrain", "w2"}, exitRuntime, `no worker "w2" in the fleet; there are: w1`},
		{[]string{"drain"}, exitUsage, "wants one WORKER"},
		{[]string{"drain", "w1", "w2"}, exitUsage, "not 2"},
		{[]string{"drain", "w1", "--timeout", "0s"}, exitUsage, "--no-wait"},
	} {
		if code, _, errs := rt.cli(c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: %d %q", c.args, code, errs)
		}
	}
	var out, errs strings.Builder
	if code := run([]string{"drain", "w1", "--admin", "http://" + freeAddress(t)}, &out, &errs); code != exitRuntime || !strings.Contains(errs.String(), "--admin") {
		t.Errorf("nobody there: %d %q", code, errs.String())
	}
	out.Reset()
	run([]string{"__complete", "drain", "--admin", rt.AdminURL(), ""}, &out, &errs)
	if !strings.HasPrefix(out.String(), "w1\n") {
		t.Errorf("completion offers %q", out.String())
	}
}

func TestWhatIsTakenOutByHandStaysOutThoughASourceNamesIt(t *testing.T) {
	w1, w2 := newWorker(t, nil), newWorker(t, nil)
	l := newList(t, w1, w2)
	rt := startWith(t, l, nil)
	rt.finds(w1, w2)
	id := strings.TrimPrefix(w1.url, "http://")
	if code := rt.adminCall(http.MethodDelete, "/workers/"+id, "", nil); code != http.StatusOK {
		t.Fatalf("%d", code)
	}
	l.has(w2, w1)
	rt.awaitSource("file", func(s sourceState) bool { return s.AgeSeconds < 0.05 })
	if rt.found(w1) != nil {
		t.Error("it is back")
	}
	if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"url":%q}`, w1.url), nil); code != http.StatusCreated {
		t.Errorf("adding it by hand: %d", code)
	}
	rt.finds(w1)
	rt.adminCall(http.MethodDelete, "/workers/"+id, "", nil)
	l.has(w2)
	rt.awaitSource("file", func(s sourceState) bool { return s.Workers == 1 })
	l.has(w2, w1)
	rt.finds(w1)
}
