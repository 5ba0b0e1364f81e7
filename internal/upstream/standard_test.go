package upstream

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func startTLS(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports the handshakes that a test breaks
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func newTLSClient(t *testing.T, s *httptest.Server, o Options) Client {
	o.DialTLS = (&tls.Dialer{Config: s.Client().Transport.(*http.Transport).TLSClientConfig}).DialContext
	c, err := New(s.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestOverTLSTheSameBytesArriveAndTheSameAnswersComeBack(t *testing.T) {
	s := startTLS(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("User-Agent") != "" || r.Header.Get("Accept-Encoding") != "" || r.ProtoMajor != 1 {
			t.Errorf("%s %v", r.Proto, r.Header)
		}
		w.Header().Set("X-Seen", r.Method+" "+r.RequestURI+" "+r.Host)
		w.Write(body)
	})
	client := newTLSClient(t, s, Options{})
	for i, req := range []*Request{
		{Method: "POST", Path: "/v1/a%2Fb?x=1", Host: "model.example", Body: []byte("hello")},
		{Method: "POST", Path: "/v1/a%2Fb?x=1", Host: "model.example", BodyReader: strings.NewReader("hello"), ContentLength: -1},
		{Method: "POST", Path: "/v1/a%2Fb?x=1", Host: "model.example", BodyReader: strings.NewReader("hello"), ContentLength: 5},
	} {
		resp, body := mustFetch(t, client, req)
		if body != "hello" || resp.Status != 200 || resp.Header.Get("X-Seen") != "POST /v1/a%2Fb?x=1 model.example" || resp.Reused != (i > 0) {
			t.Fatalf("request %d: %q %+v", i, body, resp)
		}
	}
}

func TestOverTLSACancelAndAnIdleGapReachTheWorkerAndAreToldApart(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       Options
		headers bool
		cancel  bool
		want    Class
	}{
		{"cancel before the head", Options{}, false, true, Cancelled},
		{"cancel in the body", Options{}, true, true, Cancelled},
		{"head timeout", Options{HeaderTimeout: 50 * time.Millisecond}, false, false, Timeout},
		{"idle gap", Options{IdleGap: 50 * time.Millisecond}, true, false, Timeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			reached, left := make(chan struct{}, 1), make(chan struct{}, 1)
			s := startTLS(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if c.headers {
					io.WriteString(w, "hello")
					w.(http.Flusher).Flush()
				}
				reached <- struct{}{}
				<-r.Context().Done()
				left <- struct{}{}
			})
			client := newTLSClient(t, s, c.o)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if c.cancel {
				go func() {
					<-reached
					cancel()
				}()
			}
			resp, err := client.Do(ctx, post("{}"))
			var got []byte
			for err == nil {
				var p []byte
				p, err = resp.Body.Next()
				got = append(got, p...)
			}
			if !strings.HasPrefix("hello", string(got)) || c.headers && !c.cancel && len(got) == 0 {
				t.Fatalf("%q", got)
			}
			if e := asError(t, err); e.Class != c.want || !e.Sent {
				t.Fatalf("%v: class %v, sent %v", e, e.Class, e.Sent)
			}
			within(t, left, "the worker's notice")
		})
	}
}

func TestOverTLSFaultsHaveTheSameClasses(t *testing.T) {
	raw := map[string]struct {
		said string
		want Class
	}{
		"/reset":     {"", Reset},
		"/truncated": {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", Reset},
		"/chunked":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Reset},
		"/nonsense":  {"SSH-2.0-OpenSSH_9.6\r\n\r\n", BadShape},
		"/huge":      {"HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("x", 100_000) + "\r\n\r\n", BadShape},
		"/size":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", BadShape},
	}
	s := startTLS(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(c, raw[r.URL.Path].said)
		c.Close()
	})
	client := newTLSClient(t, s, Options{})
	for path, c := range raw {
		_, _, err := fetch(client, &Request{Method: "POST", Path: path, Body: []byte("{}")})
		if e := asError(t, err); e.Class != c.want || !e.Sent {
			t.Errorf("%s: %v: class %v, sent %v", path, e, e.Class, e.Sent)
		}
	}
	strict, err := New(s.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = fetch(strict, post("{}"))
	if e := asError(t, err); e.Class != Refused || e.Sent {
		t.Errorf("unknown authority: %v: class %v, sent %v", e, e.Class, e.Sent)
	}
	s.Close()
	_, _, err = fetch(client, post("{}"))
	if e := asError(t, err); e.Class != Refused || e.Sent {
		t.Errorf("nobody listens: %v: class %v, sent %v", e, e.Class, e.Sent)
	}
}
