package main

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/smuggling"
)

// How a case of the corpus is sent. Each way has a thousand case numbers of its own, so that one origin can tell them all apart.
const (
	lean    = iota * 1000 // to the data port, whose own server begins every connection
	secure                // over TLS, where net/http's server has it from the start
	follows               // to the data port, behind a good request
	judged                // to nginx
)

// corpus is the corpus and the origin that everything in it is sent to.
type corpus struct {
	t      *testing.T
	cases  []smuggling.Case
	origin *smuggling.Origin
}

func newCorpus(t *testing.T) *corpus {
	cases, err := smuggling.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	origin, err := smuggling.StartOrigin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(origin.Close)
	return &corpus{t, cases, origin}
}

// atOnce is how many cases run at once. Most of them wait, if for anything, for a server that lets its last answer arrive.
const atOnce = 32

// send sends every case in one way and returns what the clients saw of them. expect may be nil.
func (c *corpus) send(way int, dial func() (net.Conn, error), expect func(smuggling.Case) *smuggling.Outcome) []smuggling.Outcome {
	got := make([]smuggling.Outcome, len(c.cases))
	var running sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for i, one := range c.cases {
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			ask := smuggling.Ask{Dial: dial, Number: way + i, After: way == follows, Ends: way == judged, Quiet: 700 * time.Millisecond}
			if expect != nil {
				ask.Expect = expect(one)
			}
			var err error
			if got[i], err = ask.Run(one); err != nil {
				c.t.Errorf("%s: %v", one.Name, err)
			}
		})
	}
	running.Wait()
	return got
}

// reached fills in what came to the origin, once whatever stood before it has stopped.
func (c *corpus) reached(way int, got []smuggling.Outcome) {
	for i := range got {
		got[i].Reached = c.origin.Reached(way + i)
	}
}

// routers starts the product before the origin, with and without TLS; stop returns when nothing runs any more.
func (c *corpus) routers() (plain, overTLS func() (net.Conn, error), stop func()) {
	before := func(cfg *config.Config) {
		cfg.Workers = []config.Worker{{ID: "origin", URL: "http://" + c.origin.Addr, Model: "m"}}
	}
	p := newPaper(c.t)
	bare := start(c.t, before)
	wrapped := start(c.t, func(cfg *config.Config) {
		before(cfg)
		cfg.TLS = p.server("router", false)
	})
	trust := p.client("")
	plain = func() (net.Conn, error) { return net.Dial("tcp", bare.dataAt.Addr().String()) }
	overTLS = func() (net.Conn, error) {
		return tls.Dial("tcp", wrapped.dataAt.Addr().String(), trust)
	}
	return plain, overTLS, func() { bare.Close(); wrapped.Close() }
}

// ofTLS is what is recorded of a case over TLS: as otherwise, unless something else is.
func ofTLS(c smuggling.Case) *smuggling.Outcome {
	o, differs := c.Outcomes["tls"]
	if !differs {
		o = c.Outcomes["ours"]
	}
	return &o
}

func TestWhatCouldBeReadInTwoWaysReachesAWorkerAsIsRecordedWithBothServers(t *testing.T) {
	c := newCorpus(t)
	plain, overTLS, stop := c.routers()
	ours := func(one smuggling.Case) *smuggling.Outcome {
		o := one.Outcomes["ours"]
		return &o
	}
	second := func(one smuggling.Case) *smuggling.Outcome {
		o := one.Outcomes["ours"]
		o.Answers = append([]string{"200"}, o.Answers...)
		return &o
	}
	ways := map[int]func(smuggling.Case) *smuggling.Outcome{lean: ours, secure: ofTLS, follows: second}
	got := map[int][]smuggling.Outcome{lean: c.send(lean, plain, ours), secure: c.send(secure, overTLS, ofTLS), follows: c.send(follows, plain, second)}
	stop()
	names := map[int]string{lean: "", secure: " over TLS", follows: " behind a good request"}
	for way, outcomes := range got {
		c.reached(way, outcomes)
		for i, one := range c.cases {
			want, is := ways[way](one), outcomes[i]
			if is.End != want.End || !slices.Equal(is.Answers, want.Answers) || !slices.Equal(is.Reached, want.Reached) {
				t.Errorf("%s%s:\n got %v %s %s\nwant %v %s %s", one.Name, names[way],
					is.Answers, is.End, strings.Join(is.Reached, "\n"), want.Answers, want.End, strings.Join(want.Reached, "\n"))
			}
		}
	}
	if stray := c.origin.Stray(); len(stray) > 0 {
		t.Errorf("requests that belong to no case reached the worker: %q", stray)
	}
}
