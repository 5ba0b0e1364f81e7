package main

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// oneStream opens a stream, reads it until a text has come and closes it there.
func (rt *testRouter) oneStream(until string) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	resp, err := rt.open(ctx, "/v1/chat/completions", chat("x", true))
	if err != nil {
		rt.t.Error(err)
		return
	}
	defer resp.Body.Close()
	next := eventsOf(resp)
	for {
		event, err := next()
		if strings.Contains(event, until) {
			return
		}
		if err != nil {
			if err != io.EOF {
				rt.t.Error(err)
			}
			return
		}
	}
}

func TestOBS01StreamsAreCountedInFullWheneverTheirClientLeaves(t *testing.T) {
	const streams, words = 100, 5
	var mu sync.Mutex
	ends := true
	w := newWorker(t, func(c *call) {
		c.events()
		for range words {
			c.send(deltaOf("word "))
		}
		c.send(usageEvent(20, words, 4))
		mu.Lock()
		end := ends
		mu.Unlock()
		if !end { // the client is to leave before the terminator
			c.stall()
			return
		}
		c.send("data: [DONE]\n\n")
	})
	rt := start(t, func(c *config.Config) { c.AccessLog = true }, w)
	for range streams {
		rt.oneStream("[DONE]")
	}
	rt.idle()
	counted := func(outcome string) float64 { return rt.metric("warmpath_requests_total", `outcome="`+outcome+`"`) }
	if n := counted("succeeded"); n != streams {
		t.Errorf("%v of %d streams that were read to their end count as succeeded", n, streams)
	}
	if n := rt.metric("warmpath_completion_tokens_total"); n != streams*words {
		t.Errorf("%v tokens are counted, %d were sent", n, streams*words)
	}
	if n := rt.metric("warmpath_e2e_seconds_count"); n != streams {
		t.Errorf("%v durations are counted", n)
	}
	mu.Lock()
	ends = false
	mu.Unlock()
	for range streams {
		rt.oneStream("word")
	}
	rt.idle()
	if n := counted("cancelled"); n != streams {
		t.Errorf("%v of %d streams that were left count as cancelled", n, streams)
	}
	if n := counted("succeeded"); n != streams {
		t.Errorf("%v count as succeeded now", n)
	}
	if n := strings.Count(rt.log.String(), "msg=request "); n != 2*streams {
		t.Errorf("the access log has %d lines of %d requests", n, 2*streams)
	}
	if n := rt.metric("warmpath_queue_wait_seconds_count", `class="standard"`); n != 2*streams {
		t.Errorf("%v waits are counted", n)
	}
}
