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

	"github.com/warmpath/warmpath/internal/config"
)

// inside waits until a request is inside in a state, and returns it.
func (rt *testRouter) inside(id, state string) (row requestRow) {
	rt.t.Helper()
	eventually(rt.t, "request "+id+" to be in the state "+state, func() bool {
		var l requestsInside
		if rt.adminCall(http.MethodGet, "/requests?id="+id, "", &l); len(l.Requests) == 1 {
			row = l.Requests[0]
		}
		return row.State == state
	})
	return row
}

// cancel cancels the requests of an id.
func (rt *testRouter) cancel(id string) {
	rt.t.Helper()
	var said struct{ Cancelled int }
	if status := rt.adminCall(http.MethodDelete, "/requests/"+id, "", &said); status != http.StatusOK || said.Cancelled != 1 {
		rt.t.Errorf("cancelling %s: %d, %+v", id, status, said)
	}
}

func TestARequestThatAnOperatorCancelsIsToldSoInItsDialectAndItsEngineIsFreed(t *testing.T) {
	w := newWorker(t, func(c *call) { c.stall() })
	rt := start(t, nil, w)
	for i, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		id := fmt.Sprint("silent", i)
		answered := make(chan reply, 1)
		go func() {
			answered <- rt.post(path, `{"model":"m","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"x"}]}`, "X-Request-Id", id, "X-Tenant-Id", "acme")
		}()
		row := rt.inside(id, "prefill")
		if row.Worker != "w1" || row.Tenant != "acme" || row.Model != "m" || !row.Stream || row.OutputTokens <= 0 || row.AgeSeconds <= 0 || row.Tries != 1 {
			t.Errorf("%+v", row)
		}
		var known struct {
			InFlight []requestRow `json:"in_flight"`
		}
		if rt.adminCall(http.MethodGet, "/decisions/"+id, "", &known); len(known.InFlight) != 1 || known.InFlight[0].ID != id {
			t.Errorf("%+v", known)
		}
		known.InFlight = nil
		if rt.adminCall(http.MethodGet, "/decisions/silen", "", &known); i == 0 && (len(known.InFlight) != 1 || known.InFlight[0].ID != id) {
			t.Errorf("by the beginning of its id: %+v", known)
		}
		eventually(t, "its engine to have it", func() bool { return w.count() == i+1 })
		rt.cancel(id)
		r := <-answered
		if r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "cancelled by an operator") || r.header.Get("X-Should-Retry") != "false" || strings.Contains(r.body, `"type":"error"`) != (i == 1) {
			t.Errorf("%s: %d %v %s", path, r.status, r.header, r.body)
		}
		<-w.calls()[i].ended
	}
	rt.idle()
	if a, b, c := rt.metric("warmpath_requests_total", `outcome="cancelled"`), rt.metric("warmpath_cancellations_total", `by="operator"`), rt.metric("warmpath_upstream_errors_total"); a != 2 || b != 2 || c != 0 {
		t.Errorf("%v cancelled, %v by operators, %v worker errors", a, b, c)
	}
	var d decisionFound
	if rt.adminCall(http.MethodGet, "/decisions/silent0", "", &d); d.Record.Outcome != "cancelled" || !strings.HasPrefix(d.Record.Operator, "127.0.0.1:") {
		t.Errorf("%+v", d.Record)
	}
	if !strings.Contains(rt.log.String(), "cancelled by an operator") {
		t.Error("nothing of it is in the log")
	}
	var e struct{ Error struct{ Message string } }
	if status := rt.adminCall(http.MethodDelete, "/requests/silent0", "", &e); status != http.StatusNotFound || !strings.Contains(e.Error.Message, "GET /decisions/silent0") {
		t.Errorf("%d %s", status, e.Error.Message)
	}
}

func TestAStreamThatAnOperatorCancelsEndsWithAnErrorEventAndNotAsIfItWereWhole(t *testing.T) {
	w := newWorker(t, func(c *call) { c.events(); c.send(deltaOf("one")); c.send(deltaOf("two")); c.stall() })
	rt := start(t, nil, w)
	resp, err := rt.open(t.Context(), "/v1/chat/completions", chat("x", true), "X-Request-Id", "half")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	eventually(t, "two tokens", func() bool { return rt.inside("half", "streaming").Tokens == 2 })
	rt.cancel("half")
	text, err := io.ReadAll(resp.Body)
	if err == nil || !strings.Contains(string(text), "cancelled by an operator") || strings.Contains(string(text), "[DONE]") {
		t.Errorf("%v: %s", err, text)
	}
	<-w.calls()[0].ended
}

func TestARequestThatWaitsShowsItsPlaceAndLeavesTheQueueWhenItIsCancelled(t *testing.T) {
	let := make(chan struct{})
	w := newWorker(t, func(c *call) { <-let; c.good("ok") })
	rt := start(t, func(c *config.Config) { c.InFlightMax = 1 }, w)
	answers := map[string]chan reply{}
	for _, id := range []string{"first", "second", "third"} {
		answer := make(chan reply, 1)
		answers[id] = answer
		go func() { answer <- rt.post("/v1/chat/completions", chat(id, false), "X-Request-Id", id) }()
		if id == "first" {
			rt.inside(id, "running")
		} else {
			rt.inside(id, "waiting")
		}
	}
	eventually(t, "both to have a place", func() bool {
		return rt.inside("second", "waiting").Position > 0 && rt.inside("third", "waiting").Position > 0
	})
	var l requestsInside
	if rt.adminCall(http.MethodGet, "/requests?state=waiting&limit=1", "", &l); len(l.Requests) != 1 || l.Found != 2 || l.Inside != 3 || l.States["running"] != 1 {
		t.Errorf("%+v", l)
	}
	rt.cancel("second")
	if r := <-answers["second"]; r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "cancelled by an operator") {
		t.Errorf("%d %s", r.status, r.body)
	}
	close(let)
	for _, id := range []string{"first", "third"} {
		if r := <-answers[id]; r.status != http.StatusOK {
			t.Errorf("%s: %d %s", id, r.status, r.body)
		}
	}
	if n := w.count(); n != 2 {
		t.Errorf("%d requests reached the worker", n)
	}
}

func TestABodyThatIsStillComingIsBrokenOffWhenItsRequestIsCancelled(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	for _, upload := range []string{"Content-Length: 5000\r\n", "Transfer-Encoding: chunked\r\n"} { // our own server, and net/http's
		conn, err := net.Dial("tcp", strings.TrimPrefix(rt.DataURL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: slow\r\nContent-Type: application/json\r\n%s\r\n", upload)
		if strings.Contains(upload, "chunked") {
			io.WriteString(conn, "9\r\n{\"model\":\r\n")
		} else {
			io.WriteString(conn, `{"model":`)
		}
		rt.inside("slow", "body")
		rt.cancel("slow")
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		text, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(text), " 503 ") || !strings.Contains(string(text), "cancelled by an operator") {
			t.Errorf("%s%v: %s", upload, err, text)
		}
	}
	rt.idle()
}

func TestWhoMayOnlyReadCancelsNothing(t *testing.T) {
	w := newWorker(t, func(c *call) { c.stall() })
	rt := start(t, guardedBy(t), w)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	answered := make(chan reply, 1)
	go func() {
		answered <- rt.do(ctx, http.MethodPost, "/v1/chat/completions", chat("x", false), "X-Request-Id", "kept")
	}()
	eventually(t, "the request to be inside", func() bool { return w.count() == 1 })
	if status := rt.adminAsks(http.MethodDelete, "/requests/kept", "", readToken, "").status; status != http.StatusForbidden {
		t.Errorf("%d", status)
	}
	if status := rt.adminAsks(http.MethodGet, "/requests", "", readToken, "").status; status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if status := rt.adminAsks(http.MethodDelete, "/requests/kept", "", operateToken, "").status; status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if r := <-answered; r.status != http.StatusServiceUnavailable {
		t.Errorf("%d %v", r.status, r.err)
	}
	rt.idle()
	if !strings.Contains(rt.log.String(), "by=ops") {
		t.Error("the log does not say who did it")
	}
}
