package upstream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

const chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// steps starts a worker that answers with what is sent on the channel, piece by piece; a closed channel closes the connection.
func steps(t *testing.T, o Options) (client *lean, worker *rawWorker, say chan<- string, resp *Response) {
	t.Helper()
	pieces := make(chan string)
	worker = startWorker(t, func(w *workerConn) {
		w.request()
		for raw := range pieces {
			w.say(raw)
		}
	})
	client = newClient(t, worker.url, o)
	go func() { pieces <- chunkedHead }()
	resp, err := client.Do(t.Context(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return client, worker, pieces, resp
}

func TestEachHandsOutWhatNextWouldAtOnceAndTheConnectionIsUsedAgain(t *testing.T) {
	client, _, say, resp := steps(t, Options{})
	pieces := []struct{ raw, want string }{
		{"5\r\nhello\r\n", "hello"}, {"3\r\nab", "ab"}, {"c\r\n2\r\nde\r\n", "cde"}, {"1\r\nf\r\n0\r\n\r\n", "f"},
	}
	next := 0
	say <- pieces[0].raw
	err := resp.Body.Each(func(p []byte) error {
		if string(p) != pieces[next].want {
			t.Errorf("piece %d: %q, want %q", next, p, pieces[next].want)
		}
		last := next == len(pieces)-1
		if more := resp.Body.More(); more != last {
			t.Errorf("piece %d: more %v", next, more)
		}
		if next++; !last {
			say <- pieces[next].raw // it may be there before this piece is done with
		}
		return nil
	})
	close(say)
	if err != nil || next != len(pieces) {
		t.Fatalf("%v after %d pieces", err, next)
	}
	if n := client.idleConns(); n != 1 {
		t.Fatalf("%d idle connections", n)
	}
	if err := resp.Body.Each(func([]byte) error { return io.ErrShortWrite }); err != nil {
		t.Fatal(err)
	}
}

func TestBodiesOfEveryFramingSurviveEachHoweverTheyAreCut(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, framing := range []string{"length", "chunked", "close"} {
		for range 20 {
			want := strings.Repeat("0123456789abcdef", random.IntN(6000))
			raw := framed(framing, want, random)
			worker := startWorker(t, func(w *workerConn) {
				cuts := rand.New(rand.NewPCG(seed, uint64(len(raw))))
				w.request()
				for rest := raw; len(rest) > 0; {
					n := min(len(rest), 1+cuts.IntN(1<<(4+cuts.IntN(13))))
					w.say(rest[:n])
					rest = rest[n:]
				}
			})
			resp, err := newClient(t, worker.url, Options{}).Do(t.Context(), post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			if random.IntN(2) == 0 { // a part of it in another way before
				p := make([]byte, random.IntN(100))
				n, _ := resp.Body.Read(p)
				got.Write(p[:n])
			}
			err = resp.Body.Each(func(p []byte) error {
				got.Write(p)
				return nil
			})
			if err != nil || got.String() != want {
				t.Fatalf("%s: %v, %d bytes of %d", framing, err, got.Len(), len(want))
			}
		}
	}
}

func TestAWorkerThatEndsInTheMiddleOfAnEventIsReset(t *testing.T) {
	for _, raw := range []string{"5\r\nhe", "5\r\nhello\r\n", ""} {
		_, _, say, resp := steps(t, Options{})
		go func() {
			say <- raw
			close(say) // bytes and end together
		}()
		got := ""
		err := resp.Body.Each(func(p []byte) error {
			got += string(p)
			return nil
		})
		if e := asError(t, err); e.Class != Reset || !strings.HasPrefix("hello", got) {
			t.Fatalf("%q: %q, %v", raw, got, err)
		}
		if err := resp.Body.Each(func([]byte) error { return nil }); asError(t, err).Class != Reset {
			t.Fatal(err)
		}
	}
}

func TestTheIdleGapStrikesInEachThoughWhatIsDoneWithAPieceMayTakeLonger(t *testing.T) {
	const gap = 50 * time.Millisecond
	_, worker, say, resp := steps(t, Options{IdleGap: gap})
	say <- "5\r\nhello\r\n"
	got := 0
	start := time.Now()
	err := resp.Body.Each(func(p []byte) error {
		if got++; got == 1 {
			<-time.After(2 * gap) // a slow client
			say <- "5\r\nhello\r\n"
		}
		return nil
	})
	if e := asError(t, err); e.Class != Timeout || got != 2 || time.Since(start) < 3*gap {
		t.Fatalf("%v after %d pieces, %v", err, got, time.Since(start))
	}
	close(say)
	within(t, worker.closed, "the end of the connection")
}

func TestWhateverEndsEachClosesTheConnectionAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, resp *Response, cancel func()) error
		want error
	}{
		{"the function's error", func(t *testing.T, resp *Response, cancel func()) error {
			defer resp.Body.Close()
			return resp.Body.Each(func([]byte) error { return io.ErrShortWrite })
		}, io.ErrShortWrite},
		{"a panic", func(t *testing.T, resp *Response, cancel func()) (err error) {
			defer resp.Body.Close()
			defer func() { err, _ = recover().(error) }()
			return resp.Body.Each(func([]byte) error { panic(io.ErrNoProgress) })
		}, io.ErrNoProgress},
		{"the context, between events", func(t *testing.T, resp *Response, cancel func()) error {
			return resp.Body.Each(func([]byte) error {
				go cancel()
				return nil
			})
		}, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			worker := startWorker(t, func(w *workerConn) {
				w.request()
				w.say(chunkedHead + "5\r\nhello\r\n")
				w.untilClosed()
			})
			client := newClient(t, worker.url, Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := client.Do(ctx, post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.end(t, resp, cancel); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			within(t, worker.closed, "the worker's seeing its connection closed")
			if n := client.idleConns(); n != 0 {
				t.Fatalf("%d idle connections", n)
			}
		})
	}
}

func TestTheEndOfTheContextReachesTheWorkerWhileAPieceIsStillBeingDealtWith(t *testing.T) {
	worker := startWorker(t, func(w *workerConn) {
		w.request()
		w.say(chunkedHead + "5\r\nhello\r\n")
		w.untilClosed()
	})
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := newClient(t, worker.url, Options{}).Do(ctx, post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	err = resp.Body.Each(func([]byte) error {
		cancel()
		within(t, worker.closed, "the worker's seeing its connection closed") // a client that takes nothing
		return nil
	})
	if e := asError(t, err); e.Class != Cancelled {
		t.Fatal(err)
	}
}

func TestAClientThatIsClosedLetsAStreamGoOn(t *testing.T) {
	client, worker, say, resp := steps(t, Options{})
	say <- "5\r\nhello\r\n"
	got := ""
	err := resp.Body.Each(func(p []byte) error {
		if got += string(p); got == "hello" {
			client.Close()
			say <- "6\r\n world\r\n"
		}
		if got == "hello world" {
			say <- "0\r\n\r\n"
		}
		return nil
	})
	if err != nil || got != "hello world" {
		t.Fatalf("%q, %v", got, err)
	}
	close(say)
	within(t, worker.closed, "the end of the connection")
}

// framed is a body with its head.
func framed(framing, body string, random *rand.Rand) string {
	var raw strings.Builder
	raw.WriteString("HTTP/1.1 200 OK\r\n")
	switch framing {
	case "length":
		raw.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	case "close":
		raw.WriteString("\r\n" + body)
	default:
		raw.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for rest := body; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(5000))
			raw.WriteString(strconv.FormatInt(int64(n), 16) + ";x=y\r\n" + rest[:n] + "\r\n")
			rest = rest[n:]
		}
		raw.WriteString("0\r\n\r\n")
	}
	return raw.String()
}
