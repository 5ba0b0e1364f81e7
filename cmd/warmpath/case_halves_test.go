package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAWorkerThatBreaksHalfAnEventLeavesAnErrorEventThatCanBeRead(t *testing.T) {
	w := newWorker(t, func(c *call) {
		c.events()
		c.send(deltaOf("one"))
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

// askRaw sends a request head and body as they are and reads all that comes until the connection ends.
func askRaw(t *testing.T, rt *testRouter, request string) (string, error) {
	t.Helper()
	c, err := net.Dial("tcp", rt.dataAt.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, request)
	got, err := io.ReadAll(c)
	return string(got), err
}

func TestABrokenAnswerLooksBrokenToClientsOfEveryVersion(t *testing.T) {
	broken := func(c *call) {
		conn := c.raw()
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\nzz\r\n")
	}
	rt := start(t, nil, newWorker(t, broken))
	body := chat("old", false)
	head := "POST /v1/chat/completions HTTP/%s\r\nHost: h\r\nContent-Type: application/json\r\n%s\r\n\r\n%s"
	got, err := askRaw(t, rt, fmt.Sprintf(head, "1.0", fmt.Sprintf("Content-Length: %d", len(body)), body))
	if err == nil && !strings.Contains(got, " 502 ") {
		t.Errorf("HTTP/1.0: a broken answer ends like a whole one: %q", got)
	}
	got, err = askRaw(t, rt, fmt.Sprintf(head, "1.1", "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)))
	if err != nil || !strings.HasPrefix(got, "HTTP/1.1 ") || strings.HasSuffix(got, "0\r\n\r\n") {
		t.Errorf("HTTP/1.1 in chunks: %v %q", err, got)
	}
}
