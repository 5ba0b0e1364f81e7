package upstream

import (
	"strings"
	"testing"
)

const (
	head200 = "HTTP/1.1 200 OK\r\n"
	chunked = head200 + "Transfer-Encoding: chunked\r\n\r\n"
)

// answers is a worker that reads each request and writes the same bytes, then closes if asked to.
func answers(t *testing.T, raw string, thenClose bool) *rawWorker {
	return startWorker(t, func(c *workerConn) {
		for c.request() != nil {
			c.say(raw)
			if thenClose {
				return
			}
		}
	})
}

func TestEveryWellFormedAnswerIsReadAndItsConnectionKeptOnlyWhenItMayBe(t *testing.T) {
	for _, c := range []struct {
		name, method, raw string
		close             bool
		status            int
		body              string
		length            int64
		kept              bool
	}{
		{"length", "POST", head200 + "Content-Length: 5\r\n\r\nhello", false, 200, "hello", 5, true},
		{"length zero", "POST", head200 + "Content-Length: 0\r\n\r\n", false, 200, "", 0, true},
		{"the same length twice", "POST", head200 + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 5, true},
		{"chunked", "POST", head200 + "Transfer-Encoding: Chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", false, 200, "hello", -1, true},
		{"chunk extensions and blanks", "POST", head200 + "Transfer-Encoding: chunked\r\n\r\n5 ;a=\"b\"\r\nhello\r\n000 \r\n\r\n", false, 200, "hello", -1, true},
		{"trailers", "POST", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n", false, 200, "hello", -1, true},
		{"until the end", "POST", head200 + "\r\nhello", true, 200, "hello", -1, false},
		{"connection close", "POST", head200 + "Connection: X-Hop, Close\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 5, false},
		{"HTTP/1.0", "POST", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 5, false},
		{"HTTP/1.0 kept alive", "POST", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 5, true},
		{"interim answers", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + head200 + "Content-Length: 5\r\n\r\nhello", false, 200, "hello", 5, true},
		{"HEAD", "HEAD", head200 + "Content-Length: 5\r\n\r\n", false, 200, "", 5, true},
		{"HEAD chunked", "HEAD", head200 + "Transfer-Encoding: chunked\r\n\r\n", false, 200, "", -1, true},
		{"204", "DELETE", "HTTP/1.1 204 No Content\r\n\r\n", false, 204, "", -1, true},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, 304, "", 5, true},
		{"no reason", "POST", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 5, true},
		{"odd status", "POST", "HTTP/1.1 599 \r\nContent-Length: 5\r\n\r\nhello", false, 599, "hello", 5, true},
		{"bare LF in the head", "POST", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", false, 200, "hello", 5, true},
		{"bytes after the answer", "POST", head200 + "Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n", false, 200, "hello", 5, false},
		{"bytes after the last chunk", "POST", head200 + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n\r\n", false, 200, "", -1, false},
		{"a body that 204 cannot have", "POST", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", false, 204, "", 5, false},
		{"gzip stays gzip", "POST", head200 + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x00\xff", false, 200, "\x1f\x8b\x00\xff", 4, true},
		{"a head of many buffers", "POST", head200 + "X-Big: " + strings.Repeat("x", 3*bufferBytes) + "\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 5, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := newClient(t, answers(t, c.raw, c.close).url, Options{})
			for round := range 2 {
				resp, body := mustFetch(t, client, &Request{Method: c.method, Path: "/"})
				if resp.Status != c.status || body != c.body || resp.ContentLength != c.length {
					t.Fatalf("round %d: status %d, body %q, length %d; want %d, %q, %d", round, resp.Status, body, resp.ContentLength, c.status, c.body, c.length)
				}
				if resp.Header.Has("Transfer-Encoding") {
					t.Error("Transfer-Encoding was left in the header")
				}
				if kept := client.idleConns() == 1; kept != c.kept {
					t.Fatalf("round %d: connection kept %v, want %v", round, kept, c.kept)
				}
			}
		})
	}
}

// malformed are answers that no careful parser takes.
var malformed = []struct{ name, raw string }{
	{"two lengths", head200 + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"},
	{"a list of lengths", head200 + "Content-Length: 5, 5\r\n\r\nhello"},
	{"length with chunked", head200 + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"negative length", head200 + "Content-Length: -5\r\n\r\nhello"},
	{"signed length", head200 + "Content-Length: +5\r\n\r\nhello"},
	{"hexadecimal length", head200 + "Content-Length: 0x5\r\n\r\nhello"},
	{"empty length", head200 + "Content-Length:\r\n\r\nhello"},
	{"huge length", head200 + "Content-Length: 99999999999999999999\r\n\r\nhello"},
	{"gzip then chunked", head200 + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
	{"chunked twice", head200 + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"identity", head200 + "Transfer-Encoding: identity\r\n\r\nhello"},
	{"chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"folded header", head200 + "X-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n"},
	{"blank before the colon", head200 + "Content-Length : 0\r\n\r\n"},
	{"no colon", head200 + "Content-Length\r\n\r\n"},
	{"no name", head200 + ": 1\r\n\r\n"},
	{"odd name", head200 + "X(A): 1\r\n\r\n"},
	{"NUL in a value", head200 + "X-A: 1\x002\r\n\r\n"},
	{"bare CR in a value", head200 + "X-A: 1\r2\r\n\r\n"},
	{"not HTTP", "SSH-2.0-OpenSSH_9.6\r\n\r\n"},
	{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"},
	{"HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n"},
	{"lower-case http", "http/1.1 200 OK\r\n\r\n"},
	{"two-digit status", "HTTP/1.1 20 OK\r\n\r\n"},
	{"four-digit status", "HTTP/1.1 2000 OK\r\n\r\n"},
	{"status below 100", "HTTP/1.1 099 OK\r\n\r\n"},
	{"signed status", "HTTP/1.1 +20 OK\r\n\r\n"},
	{"blank line first", "\r\n" + head200 + "\r\n"},
	{"switched protocols", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"},
	{"interim answers without end", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 100)},
	{"oversized head", head200 + strings.Repeat("X-A: 0123456789\r\n", 8000)},
	{"oversized line", head200 + "X-A: " + strings.Repeat("x", 100_000)},
	{"no chunk size", chunked + "\r\nhello\r\n0\r\n\r\n"},
	{"chunk size not hexadecimal", chunked + "5g\r\nhello\r\n0\r\n\r\n"},
	{"chunk size with a prefix", chunked + "0x5\r\nhello\r\n0\r\n\r\n"},
	{"negative chunk size", chunked + "-5\r\nhello\r\n0\r\n\r\n"},
	{"blank before the chunk size", chunked + " 5\r\nhello\r\n0\r\n\r\n"},
	{"chunk size beyond 64 bits", chunked + "10000000000000005\r\nhello\r\n0\r\n\r\n"},
	{"chunk size of a million zeros", chunked + strings.Repeat("0", 1_000_000) + "5\r\nhello\r\n0\r\n\r\n"},
	{"chunk size ended by LF", chunked + "5\nhello\r\n0\r\n\r\n"},
	{"bare CR in an extension", chunked + "5;a\rb\r\nhello\r\n0\r\n\r\n"},
	{"endless extension", chunked + "5;" + strings.Repeat("x", 100_000)},
	{"chunk longer than its size", chunked + "5\r\nhello!\r\n0\r\n\r\n"},
	{"chunk ended by LF", chunked + "5\r\nhello\n0\r\n\r\n"},
	{"chunk ended by CR alone", chunked + "5\r\nhello\r0\r\n\r\n"},
	{"malformed trailer", chunked + "0\r\nno colon\r\n\r\n"},
	{"folded trailer", chunked + "0\r\nX-A: 1\r\n 2\r\n\r\n"},
	{"trailers ended by LF", chunked + "0\r\n\n"},
	{"oversized trailers", chunked + "0\r\n" + strings.Repeat("X-A: 0123456789\r\n", 8000)},
}

func TestEveryMalformedAnswerIsABadShapeAndItsConnectionIsDropped(t *testing.T) {
	for _, c := range malformed {
		t.Run(c.name, func(t *testing.T) {
			worker := startWorker(t, func(w *workerConn) {
				if w.request() != nil {
					w.say(c.raw)
					w.untilClosed()
				}
			})
			client := newClient(t, worker.url, Options{})
			_, body, err := fetch(client, post("{}"))
			if err == nil {
				t.Fatalf("accepted, body %q", body)
			}
			e := asError(t, err)
			if e.Class != BadShape || !e.Sent || e.Reused {
				t.Fatalf("%v: class %v, sent %v, reused %v", e, e.Class, e.Sent, e.Reused)
			}
			within(t, worker.closed, "closing the connection")
			if n := client.idleConns(); n != 0 {
				t.Fatalf("%d connections in the pool", n)
			}
		})
	}
}

func TestAnAnswerThatBreaksOffIsAResetNeverAnEnd(t *testing.T) {
	for _, c := range []struct{ name, raw string }{
		{"before the first byte", ""},
		{"in the status line", "HTTP/1.1 2"},
		{"in the head", head200 + "Content-Le"},
		{"after an interim answer", "HTTP/1.1 100 Continue\r\n\r\n"},
		{"after the head", head200 + "Content-Length: 5\r\n\r\n"},
		{"in a body with a length", head200 + "Content-Length: 5\r\n\r\nhell"},
		{"in a chunk", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhell"},
		{"after a chunk", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello"},
		{"after a chunk's line end", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
		{"in a chunk size", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1"},
		{"before the trailers' end", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"},
		{"in a trailer", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A"},
	} {
		for how, end := range map[string]func(*workerConn){"closed": func(w *workerConn) {}, "reset": (*workerConn).reset} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				worker := startWorker(t, func(w *workerConn) {
					if w.request() != nil {
						w.say(c.raw)
						end(w)
					}
				})
				client := newClient(t, worker.url, Options{})
				_, body, err := fetch(client, post("{}"))
				if err == nil {
					t.Fatalf("ended cleanly, body %q", body)
				}
				if e := asError(t, err); e.Class != Reset || !e.Sent || e.Reused {
					t.Fatalf("%v: class %v, sent %v, reused %v", e, e.Class, e.Sent, e.Reused)
				}
				if worker.connections() != 1 {
					t.Fatalf("%d connections: a fresh one that breaks must not be retried here", worker.connections())
				}
			})
		}
	}
}

func TestABodyThatLastsAsLongAsItsConnectionBreaksOnlyWithAReset(t *testing.T) {
	worker := startWorker(t, func(w *workerConn) {
		if w.request() != nil {
			w.say("HTTP/1.1 200 OK\r\n\r\nhello")
			w.request() // the client's sign that it has read that far
			w.reset()
		}
	})
	client := newClient(t, worker.url, Options{})
	resp, err := client.Do(t.Context(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := resp.Body.Next(); string(p) != "hello" || err != nil {
		t.Fatalf("%q, %v", p, err)
	}
	resp.Body.(*exchange).c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	_, err = resp.Body.Next()
	if e := asError(t, err); e.Class != Reset {
		t.Fatal(e)
	}
}
