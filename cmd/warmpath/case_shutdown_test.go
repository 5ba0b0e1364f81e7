package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSHD_01_StreamsUnderWayFinishWhileReadinessIsRedAndNothingNewIsTaken(t *testing.T) {
	const streams = 10
	goOn := make(chan struct{})
	w := newWorker(t, func(c *call) {
		c.events()
		c.send(deltaOf("a"))
		select {
		case <-goOn:
		case <-c.gone:
			return
		}
		c.send(deltaOf("b"))
		c.send("data: [DONE]\n\n")
	})
	rt := start(t, nil, w)
	var open []func() (string, error)
	for range streams {
		resp, err := rt.open(t.Context(), "/v1/chat/completions", chat("stop", true))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		next := eventsOf(resp)
		if _, err := next(); err != nil {
			t.Fatal(err)
		}
		open = append(open, next)
	}
	cut := make(chan int, 1)
	go func() { cut <- rt.Drain(context.WithoutCancel(t.Context()), time.Minute) }()
	eventually(t, "readiness to turn red", func() bool { return rt.get("/readyz").status == http.StatusServiceUnavailable })
	r := rt.post("/v1/chat/completions", chat("too late", false)) // on a new connection: the others are closed
	if r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, `"error"`) {
		t.Errorf("a request while the router stops: %d %s %v", r.status, r.body, r.err)
	}
	if n := w.count(); n != streams {
		t.Errorf("the worker got %d requests, want %d", n, streams)
	}
	close(goOn)
	for i, next := range open {
		var got string
		for {
			event, err := next()
			got += event
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("stream %d broke after %q: %v", i, got, err)
			}
		}
		if !strings.Contains(got, `"b"`) || !strings.Contains(got, "[DONE]") || strings.Contains(got, `"error"`) {
			t.Errorf("stream %d ended with %q", i, got)
		}
	}
	if n := <-cut; n != 0 {
		t.Errorf("%d streams cut off, want none", n)
	}
}
