package downstream

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestAClientBeyondItsConnectionsIsToldSoAndNobodyElseIs(t *testing.T) {
	crowded := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, "too many of "+r.URL.Path)
	}
	s, addr := start(t, Options{ClientConnectionsMax: 2, Crowded: crowded}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })
	chunked := strings.Replace(plainGet, "GET", "PUT", 1) // for net/http
	held := []*wire{dial(t, addr), dial(t, addr)}
	held[0].send(plainGet)
	held[0].answered(t)
	held[1].send(plainGet)
	held[1].answered(t)
	for _, request := range []string{plainGet, chunked} {
		w := dial(t, addr)
		w.send(request)
		if res, body := w.answer(t, http.MethodGet); res.StatusCode != http.StatusTooManyRequests || !res.Close || body != "too many of /" {
			t.Errorf("%q: %d, closes %v, %q", request[:3], res.StatusCode, res.Close, body)
		}
	}
	other := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	nc, err := other.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	io.WriteString(nc, plainGet)
	if head := make([]byte, 12); first(nc, head) != "HTTP/1.1 200" {
		t.Errorf("another client is answered %q", head)
	}
	st := s.Stats()
	if st.ClientRefused != 2 || st.ClientMost < 2 || st.ClientMax != 2 {
		t.Errorf("the counts are %+v", st)
	}
	for _, w := range held {
		w.Close()
	}
	for end := time.Now().Add(20 * time.Second); ; {
		w := dial(t, addr)
		w.send(plainGet)
		res, _ := w.answer(t, http.MethodGet)
		w.Close()
		if res.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("connections that are gone still count: %+v", s.Stats())
		}
	}
}

func first(r io.Reader, into []byte) string {
	n, _ := io.ReadFull(r, into)
	return string(into[:n])
}

func TestAFloodOfOneClientIsClosedUnheardOnceEnoughAreTold(t *testing.T) {
	c := clients{max: 3, held: map[netip.Addr]int{}, over: map[string]bool{}}
	at := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port} }
	told, dropped := 0, 0
	for port := range 100 {
		over, drop := c.enter(at(port))
		if drop {
			dropped++
		} else if over {
			told++
		}
	}
	if told != toldMost || dropped != 100-3-toldMost || c.refused != 97 {
		t.Errorf("%d told, %d dropped, %d refused", told, dropped, c.refused)
	}
	for port := range 3 + toldMost {
		c.leave(at(port))
	}
	if len(c.held) != 0 || len(c.over) != 0 {
		t.Errorf("%v and %v are still held", c.held, c.over)
	}
}

func TestOneClientIsAnAddressAndOfIPv6ANetwork(t *testing.T) {
	for in, want := range map[string]string{
		"10.1.2.3": "10.1.2.3", "::ffff:10.1.2.3": "10.1.2.3", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "fe80::1": "fe80::", "::1": "::",
	} {
		if got := clientOf(&net.TCPAddr{IP: net.ParseIP(in), Port: 1}).String(); got != want {
			t.Errorf("%s counts as %s, want %s", in, got, want)
		}
	}
}

func TestHeadsThatAreTooLongAreCounted(t *testing.T) {
	s, addr := start(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })
	w := dial(t, addr)
	w.send("GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 100<<10) + "\r\n\r\n")
	if got := first(w, make([]byte, 12)); got != "HTTP/1.1 431" {
		t.Errorf("answered %q", got)
	}
	if st := s.Stats(); st.HeadsRefused != 1 || st.HeadBytesMax != 64<<10 {
		t.Errorf("the counts are %+v", st)
	}
}
