package upstream

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/header"
)

func TestEventsThatComeTogetherAreOnePieceAndEachThatComesAloneIsHandedOutAtOnce(t *testing.T) {
	step := make(chan string)
	worker := startWorker(t, func(w *workerConn) {
		for w.request() != nil {
			for raw := range step {
				w.say(raw)
			}
		}
	})
	client := newClient(t, worker.url, Options{})
	go func() { step <- "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" }()
	resp, err := client.Do(t.Context(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.More() {
		t.Fatal("more before the first event")
	}
	event := func(n int) string { return fmt.Sprintf("%x\r\n%s\r\n", len(sse(n)), sse(n)) }
	for _, c := range []struct {
		raw, want string
		more      bool
	}{
		{event(1), sse(1), false},
		{event(2) + event(3) + event(4), sse(2) + sse(3) + sse(4), false},
		{event(5) + "9\r\ndata", sse(5) + "data", false},
		{": 6\n\n\r\n", ": 6\n\n", false},
		{event(7) + "0\r\n\r\n", sse(7), true},
	} {
		step <- c.raw
		p, err := resp.Body.Next()
		if string(p) != c.want || err != nil {
			t.Fatalf("%q: got %q, %v", c.raw, p, err)
		}
		if more := resp.Body.More(); more != c.more {
			t.Fatalf("%q: more %v, want %v", c.raw, more, c.more)
		}
	}
	close(step)
	for range 2 {
		if p, err := resp.Body.Next(); len(p) != 0 || err != io.EOF {
			t.Fatalf("at the end: %q, %v", p, err)
		}
	}
	if n := client.idleConns(); n != 1 {
		t.Fatalf("%d idle connections", n)
	}
}

func sse(n int) string { return fmt.Sprintf("data: %d\n\n", n) }

func TestWhatCameBeforeAFaultIsHandedOutBeforeIt(t *testing.T) {
	worker := answers(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", false)
	client := newClient(t, worker.url, Options{})
	resp, err := client.Do(t.Context(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := resp.Body.Next(); string(p) != "hello" || err != nil {
		t.Fatalf("%q, %v", p, err)
	}
	for range 2 {
		_, err := resp.Body.Next()
		if e := asError(t, err); e.Class != BadShape {
			t.Fatal(e)
		}
	}
}

func TestBodiesOfEveryFramingSurviveEveryCutAndEveryWayOfReading(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	raws := make(chan string, 1)
	worker := startWorker(t, func(w *workerConn) {
		cuts := rand.New(rand.NewPCG(seed, uint64(w.number)))
		for w.request() != nil {
			for raw := <-raws; len(raw) > 0; {
				n := min(len(raw), 1+cuts.IntN(1<<cuts.IntN(18)))
				w.say(raw[:n])
				raw = raw[n:]
			}
			if w.number%3 == 0 {
				return
			}
		}
	})
	client := newClient(t, worker.url, Options{})
	for round := range 150 {
		want := strings.Repeat("0123456789abcdef", random.IntN(8000))
		var raw strings.Builder
		raw.WriteString("HTTP/1.1 200 OK\r\n")
		if round%2 == 0 {
			fmt.Fprintf(&raw, "Content-Length: %d\r\n\r\n%s", len(want), want)
		} else {
			raw.WriteString("Transfer-Encoding: chunked\r\n\r\n")
			for rest := want; len(rest) > 0; {
				n := min(len(rest), 1+random.IntN(5000))
				fmt.Fprintf(&raw, "%x;x=y\r\n%s\r\n", n, rest[:n])
				rest = rest[n:]
			}
			raw.WriteString("0\r\n\r\n")
		}
		raws <- raw.String()
		resp, err := client.Do(t.Context(), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readInWays(resp.Body, random)
		if got != want || err != nil {
			t.Fatalf("round %d: %d bytes, want %d; %v", round, len(got), len(want), err)
		}
	}
}

// readInWays reads a body by Read with small and large memory, by Next, and by asking for More at odd moments.
func readInWays(body Body, random *rand.Rand) (string, error) {
	var got strings.Builder
	for {
		var p []byte
		var err error
		if random.IntN(3) == 0 {
			body.More()
		}
		if random.IntN(2) == 0 {
			p, err = body.Next()
		} else {
			p = make([]byte, 1+random.IntN(1<<random.IntN(16)))
			var n int
			n, err = body.Read(p)
			p = p[:n]
		}
		got.Write(p)
		if err == io.EOF {
			return got.String(), nil
		}
		if err != nil {
			return got.String(), err
		}
	}
}

func TestHeaderNamesBecomeCanonicalAndRepeatedOnesKeepTheirOrder(t *testing.T) {
	worker := answers(t, "HTTP/1.1 200 OK\r\ncontent-TYPE: text/event-stream\r\nx-a: 1\r\nX-A:\t2 \r\nX-a:3\r\nx-empty:\r\ncontent-length: 0\r\n\r\n", false)
	resp, _ := mustFetch(t, newClient(t, worker.url, Options{}), post("{}"))
	want := header.Fields{{Name: "Content-Type", Value: "text/event-stream"}, {Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "X-A", Value: "3"}, {Name: "X-Empty"}, {Name: "Content-Length", Value: "0"}}
	if !slices.Equal(resp.Header, want) {
		t.Fatalf("%v", resp.Header)
	}
}
