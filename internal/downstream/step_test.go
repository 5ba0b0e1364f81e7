package downstream

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// say writes text in pieces, cut where the generator says.
func say(c net.Conn, text string, rng *rand.Rand) {
	for text != "" {
		n := min(len(text), 1+rng.IntN(1+rng.IntN(400)))
		if io.WriteString(c, text[:n]); rng.IntN(2) == 0 {
			runtime.Gosched()
		}
		text = text[n:]
	}
}

// script is requests of all lengths, and the bodies that come back for them.
func script(rng *rand.Rand, requests int) (text string, want []string) {
	var b strings.Builder
	for i := range requests {
		body := fmt.Sprint(i, strings.Repeat("x", rng.IntN(1+rng.IntN(20_000))))
		fmt.Fprintf(&b, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		want = append(want, body)
	}
	return b.String(), want
}

func repeats(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Write(b)
}

func TestNoByteIsMissedHoweverRequestsAreCutAndRunIntoEachOther(t *testing.T) {
	_, addr := start(t, Options{}, repeats)
	var all sync.WaitGroup
	for range 40 {
		seed := rand.Uint64()
		c := dial(t, addr)
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			text, want := script(rng, 1+rng.IntN(30))
			all.Go(func() { say(c, text, rng) })
			for i := range want {
				r, err := http.ReadResponse(c.r, nil)
				if err != nil {
					t.Errorf("seed %d, answer %d of %d: %v", seed, i, len(want), err)
					return
				}
				if b, err := io.ReadAll(r.Body); err != nil || string(b) != want[i] {
					t.Errorf("seed %d, answer %d of %d: %d bytes, want %d, %v", seed, i, len(want), len(b), len(want[i]), err)
					return
				}
			}
		})
	}
	all.Wait()
}

// The end may come in one edge with bytes, or between a read and the wait that follows.
func TestWhatWasSentBeforeTheClientsEndIsAnsweredAndThenTheConnectionEnds(t *testing.T) {
	_, addr := start(t, Options{}, repeats)
	for range 200 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 2))
		text, want := script(rng, rng.IntN(4))
		if rng.IntN(3) == 0 {
			text += "POST / HTTP/1.1\r\nHos" // and one that never becomes whole
		}
		c := dial(t, addr)
		if rng.IntN(2) == 0 {
			io.WriteString(c, text)
		} else {
			say(c, text, rng)
		}
		c.Conn.(*net.TCPConn).CloseWrite()
		for i := range want {
			if _, b := c.answer(t, http.MethodPost); b != want[i] {
				t.Fatalf("seed %d, answer %d of %d: %d bytes, want %d", seed, i, len(want), len(b), len(want[i]))
			}
		}
		if _, err := c.r.ReadByte(); err != io.EOF {
			t.Fatalf("seed %d: the connection did not end: %v", seed, err)
		}
	}
}

func TestARequestThatComesWhileAnotherIsAnsweredIsNotMissed(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	_, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-goOn
		w.Write([]byte(r.URL.Path))
	})
	c := dial(t, addr)
	c.send("GET /0 HTTP/1.1\r\nHost: h\r\n\r\n")
	for i := range 100 {
		<-begun
		next := fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", i+1)
		half := i * len(next) / 100 // from nothing of it to nearly all
		c.send(next[:half])
		goOn <- true
		if _, b := c.answer(t, http.MethodGet); b != fmt.Sprint("/", i) {
			t.Fatalf("request %d was answered %q", i, b)
		}
		c.send(next[half:])
	}
	<-begun
	goOn <- true
	c.answer(t, http.MethodGet)
}

func TestTheServerEndsWhileRequestsAreAnswered(t *testing.T) {
	begun := make(chan bool)
	s, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
	})
	for range 5 {
		dial(t, addr).send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		<-begun
	}
	dial(t, addr) // and one that waits
	s.EndKeepAlives()
	s.Close()
}
