package main

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/warmpath/warmpath/internal/checkup"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/facts"
)

// What clients, engines and listeners send or leave undone, where operators look.

func TestWhatIsKeptOfARequestHoldsNothingElseThatItsClientSent(t *testing.T) {
	a := newArchive(config.Default(), nil, time.Now())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 100 {
		head, model := strings.Repeat("h", 1<<20), strings.Repeat("m", 1<<20)
		a.settled(&facts.Facts{ID: head[100:132], Tenant: head[200:210], Model: model, Asked: model, Error: model}, nil)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grew := int64(after.HeapAlloc) - int64(before.HeapAlloc); grew > 10<<20 {
		t.Errorf("100 decisions hold %d bytes, and say they have %d", grew, a.recent.Stats().Bytes)
	}
	runtime.KeepAlive(a)
}

func TestAModelsNameHasABound(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, nil, w)
	for bytes, want := range map[int]int{1 << 10: http.StatusNotFound, 1<<10 + 1: http.StatusBadRequest, 1 << 20: http.StatusBadRequest} {
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			if r := rt.post(path, fmt.Sprintf(`{"model":%q,"max_tokens":5,"messages":[]}`, strings.Repeat("m", bytes))); r.status != want || want == http.StatusBadRequest && !strings.Contains(r.body, "the limit is 1024") {
				t.Errorf("%s, a name of %d bytes: %d %s", path, bytes, r.status, r.body)
			}
		}
	}
	if n := w.count(); n != 0 {
		t.Errorf("the worker was asked %d times", n)
	}
}

// nasty is what a terminal would act on: a colour, a title, a line that passes for another, text that runs the other way, C1's and DEL.
const nasty = "\x1b[31mred\x1b]0;title\a\r\nforged: line\t\u202eesrever\u0090\x7f"

// still says that a text moves no terminal.
func still(t *testing.T, what, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || strings.Contains(text, "\nforged") {
		t.Errorf("%s: %q", what, text)
	}
}

func TestNothingThatOthersWroteMovesTheTerminal(t *testing.T) {
	var out bytes.Buffer
	e := explanation{ID: nasty, API: nasty, Model: nasty, Asked: nasty, Choice: nasty, Others: []string{nasty}, Tenant: nasty, Class: nasty, Worker: nasty, Reason: nasty, Relaxed: nasty, Only: nasty, Pool: nasty, PoolWhy: nasty,
		Policy: nasty, Prompt: explainedPrompt{Why: nasty}, Came: &explainedEnd{Outcome: nasty, Error: nasty, Tries: []string{nasty}}, Rows: []explainedRow{{Worker: nasty, Chosen: true}, {Worker: nasty}, {Worker: nasty, Why: nasty}}}
	for _, verdict := range []string{verdictPlaced, verdictRefused} {
		e.Verdict, e.Error = verdict, nasty
		if err := printExplanation(&out, &e, 0); err != nil {
			t.Fatal(err)
		}
	}
	still(t, "explain", out.String())
	out.Reset()
	if err := listPrefixes(&out, &prefixesFound{ShowText: true, Prefixes: []prefixRow{{Model: nasty, Holders: []string{nasty}, Text: nasty}}}); err != nil {
		t.Fatal(err)
	}
	still(t, "prefixes", out.String())
	out.Reset()
	if err := sumUp([]checkup.Report{{URL: "http://w", Engine: nasty, Version: nasty, Verdict: checkup.VerdictBroken, Checks: []checkup.Check{{Part: "engine", Level: checkup.Broken, Found: nasty, Without: nasty, Gain: nasty}}}}).print(&out); err != nil {
		t.Fatal(err)
	}
	still(t, "doctor", out.String())
	v := topView{admin: nasty, connected: true, rows: []eventRow{{ID: nasty, State: nasty, Engine: nasty, Mode: nasty, Why: nasty}}}
	v.head.Version, v.head.Policy, v.head.Started, v.head.Workers = nasty, nasty, time.Now(), map[string]int{nasty: 1}
	v.head.Queue = &eventQueue{Classes: []eventQueueClass{{Class: nasty}}}
	still(t, "top --once", strings.Join(v.table(0), "\n"))
	still(t, "top", strings.Join(v.screen(400, 20), "\n"))
	for _, v := range []topView{{asks: nasty}, {message: nasty, connected: true}, {why: nasty}} {
		still(t, "top's last line", v.footer(400, 1, 1))
	}
	var errs lockedBuffer
	run([]string{"replay", "--log", "no-such\x1b[2J-file"}, &errs, &errs)
	still(t, "an error", errs.String())
}

func TestAHeadRequestForTheEventsListensToNothing(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil))
	r := read(rt.http.Head(rt.AdminURL() + "/events"))
	if r.status != http.StatusOK || !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("%d %v", r.status, r.header)
	}
	eventually(t, "nobody to listen", func() bool { return rt.archive.feed.Listening() == 0 })
}

func TestThoseWhoListenComeAgainToTheSuccessorAtOnce(t *testing.T) {
	let := make(chan struct{})
	rt := start(t, nil, newWorker(t, func(c *call) { <-let; c.good("ok") }))
	answered := make(chan reply, 1)
	go func() { answered <- rt.post("/v1/chat/completions", chat("x", false), "X-Request-Id", "long") }()
	rt.inside("long", "running")
	resp, err := rt.http.Get(rt.AdminURL() + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	next, retired := eventsOf(resp), make(chan int, 1)
	if _, err := next(); err != nil {
		t.Fatal(err)
	}
	go func() { retired <- rt.Retire(t.Context(), time.Minute) }()
	told := 0
	for ; err == nil && told < 8; told++ {
		_, err = next()
	}
	if err == nil {
		t.Errorf("after %d events of a process that serves nobody any more there is no end", told)
	}
	close(let)
	if r := <-answered; r.status != http.StatusOK || <-retired != 0 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestANumberThatJSONHasNoWordForIsNoEmptyAnswer(t *testing.T) {
	for _, n := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		w := httptest.NewRecorder()
		answer(w, http.StatusOK, map[string]float64{"n": n})
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "unsupported value") {
			t.Errorf("%g: %d %q", n, w.Code, w.Body)
		}
	}
}

func TestWhoAnnouncesABodyAndSendsNoneIsAnsweredByTheAdminPort(t *testing.T) {
	rt := start(t, guardedBy(t), newWorker(t, nil))
	for _, c := range []struct{ head, want string }{
		{"Content-Length: 100\r\n", " 401 "}, {"Transfer-Encoding: chunked\r\n", " 401 "}, {"Authorization: Bearer " + readToken + "\r\nContent-Length: 100\r\n", " 403 "},
		{"Authorization: Bearer " + operateToken + "\r\nContent-Length: 100\r\n", ""},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(rt.AdminURL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /workers/w1/undrain HTTP/1.1\r\nHost: localhost\r\n%s\r\n", c.head)
		conn.SetReadDeadline(time.Now().Add(adminBodyTime / 3))
		answer := make([]byte, 64)
		if n, err := conn.Read(answer); err != nil || !strings.Contains(string(answer[:n]), c.want) {
			t.Errorf("%s: %v, %q", c.head, err, answer[:n])
		}
	}
}

func TestABodyToBeExplainedCountsAmongAllBodies(t *testing.T) {
	rt := start(t, func(c *config.Config) { c.BodiesBytesMax, c.BodyBytesMax = 64<<10, 256<<10 }, newWorker(t, nil))
	for bytes, want := range map[int]int{1 << 10: http.StatusOK, 128 << 10: http.StatusServiceUnavailable} {
		for range 3 {
			if r := rt.adminAsks(http.MethodPost, "/explain", chat(strings.Repeat("x", bytes), false), "", ""); r.status != want {
				t.Errorf("%d bytes: %d %.300s", bytes, r.status, r.body)
			}
		}
	}
	if bodies, _ := rt.proxy.Held(); bodies != nil {
		if held, _ := bodies.Use(); held != 0 {
			t.Errorf("%d bytes are still held", held)
		}
	}
}

func TestAReportThatIsInterruptedWhileItReadsEnds(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(log, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("warmpath", "report", "--no-replay", log)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	pipe, err := os.OpenFile(log, os.O_WRONLY, 0) // which waits until it reads
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	c.Process.Signal(os.Interrupt)
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("it reads on")
		c.Process.Kill()
		<-ended
	}
}

// timed notes until when an answer may be written.
type timed struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (w *timed) SetWriteDeadline(t time.Time) error { w.until = t; return nil }

func TestWhoTakesNothingOfAnAnswerOfTheAdminPortIsGivenUp(t *testing.T) {
	for path, lasts := range map[string]bool{"/state": false, "/metrics": false, "/": false, "/decisions/events": false, "/explain": false, "/events": true, "/try/v1/chat/completions": true, "/debug/pprof/profile": true, "/upgrade": true} {
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		soon(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if left := time.Until(w.until); lasts != w.until.IsZero() || !lasts && (left < adminAnswerTime/2 || left > adminAnswerTime) {
			t.Errorf("%s: given up in %v", path, left)
		}
	}
}
