package downstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/header"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves h on a free port and returns the address.
func start(t *testing.T, o Options, h http.HandlerFunc) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Handler = h
	if o.Context == nil {
		o.Context = t.Context()
	}
	s := New(o)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

// wire is a client that sees every byte.
type wire struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return &wire{c, bufio.NewReader(c)}
}

func (w *wire) send(text string) { io.WriteString(w.Conn, text) }

// answer reads one response; its body is read to the end.
func (w *wire) answer(t *testing.T, method string) (*http.Response, string) {
	t.Helper()
	r, err := http.ReadResponse(w.r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("after %q: %v", b, err)
	}
	return r, string(b)
}

func post(body string) string {
	return fmt.Sprintf("POST /v1/x?y=1 HTTP/1.1\r\nHost: h\r\ncontent-type: a/b\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// echo tells what it was asked, and by which of the two servers it runs.
func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	by := "net/http"
	if _, ok := w.(*reply); ok {
		by = "ours"
	}
	fmt.Fprintf(w, "%s %s %s %s %s by %s", r.Method, r.RequestURI, r.Host, r.Header.Get("Content-Type"), b, by)
}

func TestRequestsOfOneConnectionAreAnsweredInOrderAlsoWhenTheyCameTogether(t *testing.T) {
	_, addr := start(t, Options{}, echo)
	c := dial(t, addr)
	c.send(post("one") + post("two") + "GET /z HTTP/1.1\r\nHost: h\r\n\r\n")
	c.send(post(strings.Repeat("x", 100_000))[:50_000])
	for _, want := range []string{"POST /v1/x?y=1 h a/b one by ours", "POST /v1/x?y=1 h a/b two by ours", "GET /z h   by ours"} {
		r, got := c.answer(t, "POST")
		if got != want || r.ContentLength != int64(len(want)) || r.Header.Get("Date") == "" {
			t.Errorf("got %q, want %q; %v", got, want, r.Header)
		}
	}
	c.send(post(strings.Repeat("x", 100_000))[50_000:])
	if _, got := c.answer(t, "POST"); !strings.HasSuffix(got, "xxx by ours") || len(got) < 100_000 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestWhatIsNotPlainGoesToNetHTTPWithItsConnection(t *testing.T) {
	_, addr := start(t, Options{BodyBytesMax: 10}, echo)
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.0\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\nHost: h\nContent-Length: 3\n\nabc",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\nabcdefghijk",
		"GET /%7e HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", bufferBytes) + "\r\n\r\n",
	} {
		c := dial(t, addr)
		c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n" + request)
		if _, got := c.answer(t, "GET"); !strings.HasSuffix(got, "by ours") {
			t.Errorf("%q", got)
		}
		if r, got := c.answer(t, "POST"); !strings.HasSuffix(got, "by net/http") || !r.Close {
			t.Errorf("%.80q: %q, close %t: what comes behind it would not be looked at", request, got, r.Close)
		}
	}
}

func TestAStreamLeavesAtEachFlushAndEndsByItself(t *testing.T) {
	go_ := make(chan struct{})
	_, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		c.Flush()
		for i := range 3 {
			<-go_
			fmt.Fprintf(w, "event %d\n", i)
			c.Flush()
		}
	})
	c := dial(t, addr)
	c.send(post("x"))
	r, err := http.ReadResponse(c.r, nil)
	if err != nil || r.ContentLength != -1 {
		t.Fatal(r, err)
	}
	body := bufio.NewReader(r.Body)
	for i := range 3 {
		go_ <- struct{}{}
		if line, err := body.ReadString('\n'); line != fmt.Sprintf("event %d\n", i) {
			t.Fatalf("%q %v", line, err)
		}
	}
	if _, err := body.ReadByte(); err != io.EOF {
		t.Errorf("the end is %v", err)
	}
}

func TestAClientThatLeavesEndsItsRequestsContextWhileNobodyReads(t *testing.T) {
	inside, ended := make(chan struct{}), make(chan error)
	_, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	})
	c := dial(t, addr)
	c.send(post("x"))
	<-inside
	c.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTheCauseOfTheServersContextIsThatOfItsRequests(t *testing.T) {
	base, cut := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	inside := make(chan struct{})
	_, addr := start(t, Options{Context: base}, func(w http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
		io.WriteString(w, context.Cause(r.Context()).Error())
	})
	c := dial(t, addr)
	c.send(post("x"))
	<-inside
	cut(why)
	if _, got := c.answer(t, "POST"); got != why.Error() {
		t.Errorf("%q", got)
	}
}

func TestAnAnswerThatIsCutNeverLooksWhole(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"aborted stream": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"panic": func(w http.ResponseWriter, r *http.Request) { panic("inside") },
		"short": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "half")
		},
	} {
		_, addr := start(t, Options{}, h)
		c := dial(t, addr)
		c.send(post("x"))
		r, err := http.ReadResponse(c.r, nil)
		if err == nil {
			_, err = io.ReadAll(r.Body)
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAnswerBeforeTheBodyIsReadArrivesWhole(t *testing.T) {
	_, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	for _, size := range []int{1000, unreadBytesMax - 1, 4 * unreadBytesMax} {
		c := dial(t, addr)
		go c.send(post(strings.Repeat("x", size)))
		r, got := c.answer(t, "POST")
		if r.StatusCode != http.StatusForbidden || got != "no\n" || r.Close != (size > unreadBytesMax) {
			t.Errorf("%d bytes: %s %q close %v", size, r.Status, got, r.Close)
		}
	}
}

func TestConnectionsEndWhenTheyAreNotKept(t *testing.T) {
	s, addr := start(t, Options{}, echo)
	idle, asking := dial(t, addr), dial(t, addr)
	idle.send(post("x"))
	idle.answer(t, "POST")
	s.EndKeepAlives()
	if _, err := idle.r.ReadByte(); err == nil {
		t.Error("an idle connection is kept")
	}
	asking.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if r, err := http.ReadResponse(asking.r, nil); err == nil && !r.Close {
		t.Error("a connection is to be kept after its answer")
	}
}

func TestAStatusWithoutABodyHasNone(t *testing.T) {
	_, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
			t.Error(err)
		}
	})
	c := dial(t, addr)
	for range 2 {
		c.send(post("x"))
		if r, got := c.answer(t, "POST"); r.StatusCode != http.StatusNoContent || got != "" || r.Header["Content-Length"] != nil {
			t.Error(r.Status, got, r.Header)
		}
	}
}

func TestAHeadThatDoesNotCompleteIsGivenUp(t *testing.T) {
	_, addr := start(t, Options{HeadTimeout: time.Millisecond}, echo)
	for _, text := range []string{"", "POST / HTT"} {
		c := dial(t, addr)
		c.send(text)
		if _, err := c.r.ReadByte(); err != io.EOF {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAnAnswerCanBeTakenBackUntilSomethingOfItLeft(t *testing.T) {
	_, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/declared" {
			w.Header().Set("X-Stays", "yes")
			w.(*reply).WriteFields(http.StatusOK, header.Fields{{Name: "Content-Length", Value: "100"}, {Name: "X-Goes", Value: "yes"}})
		}
		io.WriteString(w, "part")
		if r.URL.Path == "/flushed" {
			http.NewResponseController(w).Flush()
		}
		if w.(*reply).TakeBack() {
			w.WriteHeader(http.StatusBadGateway)
			io.WriteString(w, "other")
		}
	})
	c := dial(t, addr)
	for path, want := range map[string]string{"/": "502 other", "/declared": "502 other", "/flushed": "200 part"} {
		c.send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n")
		r, body := c.answer(t, "GET")
		if got := fmt.Sprint(r.StatusCode, " ", body); got != want || r.Header.Get("X-Goes") != "" || path == "/declared" && r.Header.Get("X-Stays") == "" {
			t.Errorf("%s: %q, want %q; %v", path, got, want, r.Header)
		}
	}
}
