package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/feed"
)

// toldEvent is one event as a page reads it.
type toldEvent struct {
	Sequence uint64     `json:"sequence"`
	Whole    bool       `json:"whole"`
	Head     eventHead  `json:"head"`
	Rows     []eventRow `json:"rows"`
	Gone     []string   `json:"gone"`
}

// listen follows the events of a router until the test ends.
func (rt *testRouter) listen() (next func() toldEvent) {
	rt.t.Helper()
	resp, err := rt.http.Get(rt.AdminURL() + "/events")
	if err != nil {
		rt.t.Fatal(err)
	}
	rt.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		rt.t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	read := eventsOf(resp)
	return func() (e toldEvent) {
		rt.t.Helper()
		for {
			text, err := read()
			if err != nil {
				rt.t.Fatal(err)
			}
			if _, data, is := strings.Cut(text, "event: snapshot\ndata: "); is {
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					rt.t.Fatalf("%v: %s", err, text)
				}
				return e
			}
		}
	}
}

func TestThoseWhoListenAreToldAllWorkersOnceAndThenWhatChanges(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil), newWorker(t, nil))
	next := rt.listen()
	first := next()
	if !first.Whole || len(first.Rows) != 2 || first.Rows[0].ID != "w1" || first.Rows[0].State != "ready" || first.Head.Workers["ready"] != 2 || first.Head.Version != version || first.Rows[0].Mode == "" {
		t.Fatalf("%+v", first)
	}
	for range 3 {
		rt.post("/v1/chat/completions", chat("x", false))
	}
	if _, err := rt.members.drain("w2", true); err != nil {
		t.Fatal(err)
	}
	var requests float64
	drained := false
	for last := first; requests < 3 || !drained; {
		e := next()
		if e.Whole || e.Sequence != last.Sequence+1 {
			t.Fatalf("%+v after %d", e, last.Sequence)
		}
		if n := e.Head.Second["requests"]; n != nil {
			requests += *n
		}
		for _, row := range e.Rows {
			drained = drained || row.ID == "w2" && row.State == "draining" && row.Why == "by hand"
		}
		last = e
	}
	if n := rt.metric("warmpath_requests_total"); n != requests {
		t.Errorf("%g requests in the events, %g in the metrics", requests, n)
	}
}

func TestThereMayBeOnlySoManyListenersAndEachNeedsToBeLetIn(t *testing.T) {
	guarded := guardedBy(t)
	rt := start(t, func(c *config.Config) { guarded(c); c.Dash.ListenersMax = 1 }, newWorker(t, nil))
	if r := rt.adminAsks(http.MethodGet, "/events", "", "", ""); r.status != http.StatusUnauthorized {
		t.Errorf("%d", r.status)
	}
	if r := rt.adminAsks(http.MethodGet, "/events", "", engineToken, ""); r.status != http.StatusForbidden {
		t.Errorf("%d", r.status)
	}
	l, err := rt.archive.feed.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if r := rt.adminAsks(http.MethodGet, "/events", "", readToken, ""); r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "dash.listeners_max") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestDSH_01_ListenersThatReadNothingMoreSlowNobodyAndLoseSnapshots(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	var stuck []net.Conn
	for range 5 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(rt.AdminURL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		stuck = append(stuck, conn)
	}
	for _, conn := range stuck {
		if _, err := io.ReadFull(conn, make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	rows := make([]feed.Row, 500)
	for n := range 80 { // more than kernels hold for a connection
		for i := range rows {
			rows[i] = feed.Row{ID: fmt.Sprint("w", i), JSON: fmt.Appendf(nil, `{"id":"w%d","n":%d,"pad":%q}`, i, n, strings.Repeat("x", 400))}
		}
		rt.archive.feed.Tell(func() feed.Snapshot { return feed.Snapshot{Head: []byte("{}"), Rows: rows} })
		if n%8 > 0 {
			continue
		}
		if r := rt.post("/v1/chat/completions", chat("x", n%16 == 0)); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grew := int64(after.HeapAlloc) - int64(before.HeapAlloc); grew > 5*4<<20 {
		t.Errorf("5 stuck listeners hold %d bytes", grew)
	}
	in := bufio.NewReaderSize(stuck[0], 1<<20)
	stuck[0].SetReadDeadline(time.Now().Add(30 * time.Second))
	for line, lost := "", false; !lost; {
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatalf("no word of lost snapshots: %v", err)
		}
		lost = strings.HasPrefix(line, "event: lost")
	}
}
