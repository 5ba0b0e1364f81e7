// Package patrons is clients that ask a router all the time, while a test does to it what they are not to notice: short requests, and streams of
// several seconds, on connections that are kept. What failed and what was cut is counted. It is for tests, and not in the binary.
//
//	p := patrons.Come(url, patrons.Party{Short: 8, Streams: 8, Body: body})
//	... // restart the router
//	t.Log(p.Leave()) // requests 9416, failed 0, cut 0
package patrons

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Party is who comes.
type Party struct {
	Short, Streams int                                // clients of each kind
	Pause          time.Duration                      // of each client between two requests
	Body           func(unique string, s bool) string // of a chat request, streamed or not
}

// Patrons are there until Leave.
type Patrons struct {
	url  string
	p    Party
	ctx  context.Context
	stop context.CancelFunc
	all  sync.WaitGroup

	requests, failed, cut atomic.Int64
	first                 atomic.Pointer[string]
}

// Tally is how they fared.
type Tally struct {
	Requests, Failed, Cut int64
	First                 string // thing that went wrong; "" nothing did
}

// String is the line by which a proof is read.
func (t Tally) String() string {
	text := fmt.Sprintf("requests %d, failed %d, cut %d", t.Requests, t.Failed, t.Cut)
	if t.First != "" {
		text += "; the first: " + t.First
	}
	return text
}

// Come has them come to a data port, http://address.
func Come(url string, p Party) *Patrons {
	ctx, stop := context.WithCancel(context.Background())
	all := &Patrons{url: url, p: p, ctx: ctx, stop: stop}
	for i := range p.Short {
		all.seat(p.Body(fmt.Sprintf("short %d", i), false), all.answered)
	}
	for i := range p.Streams {
		all.seat(p.Body(fmt.Sprintf("long %d", i), true), all.streamed)
	}
	return all
}

// seat starts one client, with connections of its own.
func (p *Patrons) seat(body string, judge func(*http.Response)) {
	p.all.Go(func() {
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		h := &http.Client{Transport: tr}
		for p.ctx.Err() == nil {
			p.requests.Add(1)
			resp, err := h.Post(p.url+"/v1/chat/completions", "application/json", io.NopCloser(strings.NewReader(body))) // not one that package http could send again
			if err != nil {
				p.wrong(&p.failed, err.Error())
				continue
			}
			judge(resp)
			resp.Body.Close()
			t := time.NewTimer(p.p.Pause)
			select {
			case <-t.C:
			case <-p.ctx.Done():
				t.Stop()
			}
		}
	})
}

func (p *Patrons) answered(r *http.Response) {
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(text), `"finish_reason":"stop"`) {
		p.wrong(&p.failed, fmt.Sprintf("%d %.300s %v", r.StatusCode, text, err))
	}
}

func (p *Patrons) streamed(r *http.Response) {
	text, err := io.ReadAll(r.Body)
	switch {
	case r.StatusCode != http.StatusOK:
		p.wrong(&p.failed, fmt.Sprintf("%d %.300s %v", r.StatusCode, text, err))
	case err != nil || !strings.HasSuffix(string(text), "data: [DONE]\n\n") || strings.Contains(string(text), `"error"`):
		p.wrong(&p.cut, fmt.Sprintf("a stream of %d bytes ended with %q: %v", len(text), text[max(0, len(text)-100):], err))
	}
}

func (p *Patrons) wrong(n *atomic.Int64, what string) {
	n.Add(1)
	what = time.Now().Format(time.StampMilli) + " " + what
	p.first.CompareAndSwap(nil, &what)
}

// Requests is how many there were so far.
func (p *Patrons) Requests() int64 { return p.requests.Load() }

// Leave has them leave when each has its answer, and tells how they fared. It may be called again.
func (p *Patrons) Leave() Tally {
	p.stop()
	p.all.Wait()
	t := Tally{Requests: p.requests.Load(), Failed: p.failed.Load(), Cut: p.cut.Load()}
	if f := p.first.Load(); f != nil {
		t.First = *f
	}
	return t
}
