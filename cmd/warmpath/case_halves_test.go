package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAWorkerThatBreaksHalfAnEventLeavesAnErrorEventThatCanBeRead(t *testing.T) {
	w := newWorker(t, func(c *call) {
		c.events()
		c.send(delta("one"))
		c.send(`data: {"id":"chatcmpl-1","choices":[{"index":0,"del`)
		c.reset()
	})
	rt := start(t, nil, w)
	for _, body := range []string{chat("half", true), strings.Replace(chat("half", true), "{", `{"stream_options":{"include_usage":true},`, 1)} {
		res, err := rt.open(context.Background(), "/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		events := strings.Split(strings.TrimSpace(string(got)), "\n\n")
		if last := events[len(events)-1]; err == nil || !strings.HasPrefix(strings.TrimLeft(last, "\n"), `data: {"error":`) {
			t.Errorf("the stream ended with %v and %q", err, last)
		}
	}
}

func TestAShortAnswerThatBreaksBeforeAnythingOfItLeftIsAnErrorAnswer(t *testing.T) {
	for name, raw := range map[string]string{
		"chunks": "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\nzz\r\n",
		"length": "Content-Length: 100\r\n\r\n{\"id\":\"x",
	} {
		w := newWorker(t, func(c *call) {
			conn := c.raw()
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n", raw)
		})
		rt := start(t, nil, w)
		r := rt.post("/v1/chat/completions", chat(name, false))
		if r.status == http.StatusOK && r.err != nil {
			continue // its beginning had left before it broke
		}
		if r.status != http.StatusBadGateway || r.err != nil || !strings.Contains(r.body, `"error"`) || !strings.Contains(r.body, "w1") {
			t.Errorf("%s: %d %v %q", name, r.status, r.err, r.body)
		}
	}
}
