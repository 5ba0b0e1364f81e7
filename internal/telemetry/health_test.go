package telemetry

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// words collects what engines say of themselves: "well", or the error; each as often as it comes.
type words struct {
	mu  sync.Mutex
	all []string
}

func (s *words) hear(_ Target, unwell error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unwell == nil {
		s.all = append(s.all, "well")
		return
	}
	s.all = append(s.all, unwell.Error())
}

func (s *words) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := strings.Join(s.all, ", ")
	s.all = nil
	return said
}

func TestAnEngineIsAskedWhetherItIsWellAndAskedMoreOftenWhileItIsNot(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		f, said := fakeVLLM(), &words{}
		f.set(healthPath, status(http.StatusOK))
		defer n.serve("a:1", f)()
		m := New(heard.options(Options{dial: n.dial, OnHealth: said.hear}))
		m.Watch(Target{ID: "a", URL: "http://a:1"})
		defer runs(t, m)()
		elapse(25 * time.Second)
		if got, asked := said.take(), f.times(healthPath); got != "well, well, well" {
			t.Errorf("in 25 s it was asked %d times: %s", asked, got)
		}
		for _, code := range []int{500, 503} { // vLLM of before and after its engine core has an exception of its own
			f.set(healthPath, status(code))
			elapse(15 * time.Second)
			if got := said.take(); strings.Count(got, "GET /health: status 50") < 4 || strings.Contains(got, "well") {
				t.Errorf("unwell with %d: %s", code, got)
			}
		}
		f.set(healthPath, status(http.StatusOK))
		elapse(2 * time.Second)
		if got := said.take(); got != "well" {
			t.Errorf("well again: %s", got)
		}
		for name, silence := range map[string]http.HandlerFunc{"no such path": http.NotFound, "wants a key": status(401), "not implemented": status(501), "hangs": hangs} {
			f.set(healthPath, silence)
			elapse(30 * time.Second)
			if got := said.take(); got != "" {
				t.Errorf("%s: it said %s", name, got)
			}
		}
	})
}

func TestAnEngineWhoseCountsFailIsAskedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *network, heard *news) {
		f, said := fakeVLLM(), &words{}
		f.set(healthPath, status(http.StatusOK))
		defer n.serve("a:1", f)()
		m := New(heard.options(Options{dial: n.dial, OnHealth: said.hear}))
		m.Watch(Target{ID: "a", URL: "http://a:1"})
		defer runs(t, m)()
		elapse(2 * time.Second)
		said.take()
		f.set("/metrics", status(http.StatusInternalServerError))
		f.set(healthPath, status(http.StatusServiceUnavailable))
		elapse(3 * time.Second)
		if got := said.take(); strings.Count(got, "status 503") < 2 {
			t.Errorf("within 3 s it said %q", got)
		}
	})
}

func TestAnEngineThatLoadsIsThereAndNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		models, health http.HandlerFunc
		loading        bool
	}{
		"llama.cpp reads its model":   {status(503), status(503), true},
		"an overloaded front":         {status(503), status(200), false},
		"a front without health":      {status(503), http.NotFound, false},
		"it wants a key":              {status(401), status(503), false},
		"health hangs":                {status(503), hangs, false},
		"broken rather than starting": {status(500), status(500), false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network, heard *news) {
				f := newFake(map[string]http.HandlerFunc{"/v1/models": c.models, healthPath: c.health})
				defer n.serve("a:1", f)()
				m := New(heard.options(Options{dial: n.dial}))
				m.Watch(Target{ID: "a", URL: "http://a:1"})
				defer runs(t, m)()
				elapse(5 * time.Second)
				var e *Error
				if fails := heard.of("a", "fail"); len(fails) == 0 || !errors.As(fails[0].err, &e) || e.Loading != c.loading {
					t.Errorf("loading is %v of %d failures", e != nil && e.Loading, len(fails))
				}
				f.set("/v1/models", says(listOfM))
				elapse(2 * time.Second)
				if got := heard.order("a"); !strings.HasPrefix(got, " fail info") {
					t.Errorf("heard%s", got)
				}
			})
		})
	}
}
