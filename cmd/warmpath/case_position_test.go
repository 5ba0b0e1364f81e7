package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// told has clients that wait for streams told how they stand.
func told(c *config.Config) { c.Queue.TellPosition = 100 * time.Millisecond }

// streams are requests for a stream, by path.
var streams = map[string]string{
	"/v1/chat/completions": `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`,
	"/v1/completions":      `{"model":"m","stream":true,"prompt":"x"}`,
	"/v1/messages":         `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
	"/v1/responses":        `{"model":"m","stream":true,"input":"x"}`,
}

var positionComment = regexp.MustCompile(`^: warmpath queue position (\d+)(, about \d+\.\d s)?\n\n$`)

// waits opens a stream that has to wait and reads its first comments, which say that so many go before it.
func (h *house) waits(path string, position string, headers ...string) (*http.Response, func() (string, error)) {
	h.t.Helper()
	resp, err := h.testRouter.open(h.t.Context(), path, streams[path], headers...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { resp.Body.Close() })
	next := eventsOf(resp)
	for range 3 {
		comment, err := next()
		if m := positionComment.FindStringSubmatch(comment); err != nil || m == nil || m[1] != position {
			h.t.Fatalf("%s: %q, %v; want position %s", path, comment, err, position)
		}
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") || resp.Header.Get("X-Request-Id") == "" {
		h.t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
	}
	return resp, next
}

// rest is what comes of a stream behind the comments.
func rest(next func() (string, error)) (text string, err error) {
	for {
		event, err := next()
		if !strings.HasPrefix(event, ": warmpath queue") {
			text += event
		}
		if err != nil {
			return text, err
		}
	}
}

func TestFLW04ClientsThatWaitForAStreamAreToldTheirPositionInEveryDialect(t *testing.T) {
	h := newHouse(t, 1, told)
	first := h.ask(t.Context(), chat("first", false))
	h.inside(1, 0)
	waiting := map[string]func() (string, error){}
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"} {
		_, next := h.waits(path, fmt.Sprint(len(waiting)+1))
		waiting[path] = next
	}
	whole := h.ask(t.Context(), chat("who wants no stream is told nothing", false))
	h.inside(1, 5)
	h.all()
	for path, next := range waiting {
		if text, err := rest(next); err != io.EOF || !strings.HasPrefix(text, `data: {"id":"chatcmpl-1"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if r := <-whole; r.status != http.StatusOK || !strings.HasPrefix(r.body, "{") {
		t.Errorf("%d %s", r.status, r.body)
	}
	<-first
	h.empty()
}

func TestOnceAStreamHasBegunErrorsComeAsItsEvents(t *testing.T) {
	t.Parallel()
	words := map[string]string{
		"/v1/chat/completions": `data: {"error":{"message":`, "/v1/completions": `data: {"error":{"message":`,
		"/v1/messages": "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"", "/v1/responses": "event: error\ndata: {\"type\":\"error\",\"code\":\"queue_timeout\"",
	}
	for path, want := range words {
		h := newHouse(t, 1, func(c *config.Config) { told(c); c.Queue.Classes[1].WaitMax = 900 * time.Millisecond })
		first := h.ask(t.Context(), chat("first", false))
		h.inside(1, 0)
		_, next := h.waits(path, "1")
		if text, err := rest(next); err == io.EOF || !strings.HasPrefix(text, want) || !strings.Contains(text, "no worker had room") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		h.all()
		<-first
		h.empty()
		if !strings.Contains(h.log.String(), "refused=queue_timeout") {
			t.Errorf("%s: the access log does not say why", path)
		}
	}
}

func TestAWorkersRefusalReachesAStreamThatHasBegunInItsWords(t *testing.T) {
	for status, outcome := range map[int]string{http.StatusBadRequest: "client_error", http.StatusInternalServerError: "failed", http.StatusServiceUnavailable: "busy"} {
		h := newHouse(t, 1, told)
		first := h.ask(t.Context(), chat("first", false))
		h.inside(1, 0)
		_, next := h.waits("/v1/chat/completions", "1")
		h.w.on(func(c *call) { c.json(status, `{"error":{"message":"the worker's own words","type":"x"}}`) })
		h.all()
		if text, err := rest(next); err == io.EOF || !strings.Contains(text, fmt.Sprintf("answered %d", status)) || !strings.Contains(text, "the worker's own words") {
			t.Errorf("%d: %q, %v", status, text, err)
		}
		<-first
		h.idle()
		if n := h.metric("warmpath_requests_total", `outcome="`+outcome+`"`); n != 1 {
			t.Errorf("%d: %v requests count as %s", status, n, outcome)
		}
	}
}

func TestAStreamThatWasToldIsTriedElsewhereAsAnyOther(t *testing.T) {
	turns := make(chan struct{})
	broken, well := newWorker(t, nil), newWorker(t, nil)
	rt := start(t, func(c *config.Config) { told(c); c.InFlightMax = 1 }, broken, well)
	hold := func(c *call) { <-turns; c.good("done") }
	broken.on(hold)
	well.on(hold)
	h := &house{testRouter: rt, w: broken, turns: turns}
	held := []<-chan reply{h.ask(t.Context(), chat("a", false)), h.ask(t.Context(), chat("b", false))}
	eventually(t, "both workers to be busy", func() bool { return broken.count() == 1 && well.count() == 1 })
	_, next := h.waits("/v1/chat/completions", "1")
	for _, w := range []*worker{broken, well} {
		w.on(func(c *call) {
			if broken.count()+well.count() == 3 { // whoever is asked first
				c.reset()
				return
			}
			c.good("from", "elsewhere")
		})
	}
	close(turns)
	if text, err := rest(next); err != io.EOF || !strings.Contains(text, "elsewhere") {
		t.Errorf("%q, %v", text, err)
	}
	for _, answer := range held {
		<-answer
	}
}

func TestFLW02WhoLeavesWhileItIsToldIsOutOfTheQueue(t *testing.T) {
	h := newHouse(t, 1, told)
	first := h.ask(t.Context(), chat("first", false))
	h.inside(1, 0)
	ctx, leave := context.WithCancel(t.Context())
	resp, err := h.testRouter.open(ctx, "/v1/chat/completions", chat("leaves", true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eventsOf(resp)(); err != nil {
		t.Fatal(err)
	}
	leave()
	resp.Body.Close()
	h.inside(1, 0)
	h.all()
	<-first
	h.empty()
	if n := h.w.count(); n != 1 {
		t.Errorf("the worker saw %d requests", n)
	}
}
