package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
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

func TestSHD_01_WhoWaitsIsServedAndWhoIsIdleIsLeftWhileTheRouterStops(t *testing.T) {
	const idle, waiting = 20, 5
	h := newHouse(t, 1, nil)
	var kept []net.Conn
	for range idle { // each has had an answer, and its connection is kept
		conn := h.dial()
		fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q %v", line, err)
		}
		kept = append(kept, conn)
	}
	all := []<-chan reply{h.ask(t.Context(), chat("first", false))}
	h.inside(1, 0)
	all = append(all, h.line(waiting, "waits")...)
	cut := make(chan int, 1)
	go func() { cut <- h.Drain(context.WithoutCancel(t.Context()), time.Minute) }()
	eventually(t, "readiness to turn red", func() bool { return h.get("/readyz").status == http.StatusServiceUnavailable })
	for i, conn := range kept {
		conn.SetReadDeadline(time.Now().Add(patience()))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("idle connection %d: %v, want its end", i, err)
		}
	}
	h.all()
	for i, answer := range all {
		if r := <-answer; r.status != http.StatusOK || !strings.Contains(r.body, "done") {
			t.Errorf("request %d: %d %s %v", i, r.status, r.body, r.err)
		}
	}
	if n := <-cut; n != 0 {
		t.Errorf("%d requests were cut off", n)
	}
}

func TestSHD_01_ASecondSignalEndsTheProcessAtOnceAndItsStreamsWithAnError(t *testing.T) {
	c := gather(t, 1, 200)
	resp, err := c.client.Post(c.router.data+"/v1/chat/completions", "application/json", strings.NewReader(chat("cut", true)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	next := eventsOf(resp)
	if event, err := next(); err != nil || event != deltaOf("first") {
		t.Fatalf("%q %v", event, err)
	}
	if err := c.router.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first signal to be seen", func() bool { return read(newClient(t).Get(c.router.data+"/readyz")).status != http.StatusOK })
	if code := c.router.end(); code != 0 { // the second; its answers have 30 s else, and are killed before that
		t.Errorf("exit code %d", code)
	}
	if event, _ := next(); !strings.Contains(event, `"error"`) {
		t.Errorf("the stream ended with %q, want an error event", event)
	}
}
