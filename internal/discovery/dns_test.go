package discovery

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/warmpath/warmpath/internal/leash"
)

const engines = "engines.test."

func TestTheAddressesOfANameAreWorkersForAsLongAsTheirTTL(t *testing.T) {
	s := startNameServer(t)
	s.set(engines, 0, a(2), a(1), aaaa(1))
	h := follow(t, DNS{Name: "engines.test", Port: 8000, Server: s.address, Labels: []string{"pool=x"}})
	h.says("http://10.0.0.1:8000,pool=x http://10.0.0.2:8000,pool=x")
	s.set(engines, 3600, a(3))
	h.says("http://10.0.0.3:8000,pool=x") // the TTL before was 0
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	h = follow(t, DNS{Name: "engines.test", Port: 8000, Server: s.address, Every: 10 * time.Millisecond})
	h.says("http://10.0.0.3:8000")
	s.set(engines, 3600, a(4))
	h.says("http://10.0.0.4:8000") // Every is shorter than the TTL
	if asked < 2 {
		t.Errorf("asked %d times", asked)
	}
}

func TestOnlyOneFamilyCountsAndAliasesAreFollowed(t *testing.T) {
	s := startNameServer(t)
	s.set("six.test.", 1, aaaa(2), aaaa(1))
	s.set("both.test.", 1, a(1), aaaa(1))
	s.set("alias.test.", 1, &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("both.test.")}, a(9))
	for _, c := range []struct{ name, family, want string }{
		{"six.test", "", "http://[fd00::1]:8000 http://[fd00::2]:8000"},
		{"both.test", "", "http://10.0.0.1:8000"},
		{"both.test", "ipv6", "http://[fd00::1]:8000"},
		{"BOTH.test", "ipv4", "http://10.0.0.1:8000"},
		{"alias.test", "", "http://10.0.0.9:8000"},
	} {
		follow(t, DNS{Name: c.name, Family: c.family, Port: 8000, Server: s.address}).says(c.want)
	}
	follow(t, DNS{Name: "six.test", Family: "ipv4", Port: 8000, Server: s.address}).fails("no such name")
}

func TestServiceRecordsTellPortsAndTheLeastPriorityCounts(t *testing.T) {
	s := startNameServer(t)
	s.set("_http._tcp.engines.test.", 1, srv(10, 8001, "b.test."), srv(10, 8000, "a.test."), srv(20, 8000, "spare.test."))
	s.set("a.test.", 1, a(1))
	s.set("b.test.", 1, aaaa(2))
	h := follow(t, DNS{Name: "_http._tcp.engines.test", Server: s.address, Every: 10 * time.Millisecond})
	h.says("a.test:8000@http://10.0.0.1:8000 b.test:8001@http://[fd00::2]:8001")
	follow(t, DNS{Name: "_http._tcp.engines.test", Scheme: "https", Server: s.address}).says("a.test:8000@https://a.test:8000 b.test:8001@https://b.test:8001")
	s.set("a.test.", 1, a(7))
	h.says("a.test:8000@http://10.0.0.7:8000 b.test:8001@http://[fd00::2]:8001")
	s.change(func() { delete(s.records, "a.test.") })
	h.fails("a.test")
}

func TestAnErrorOfANameServerEmptiesNothing(t *testing.T) {
	s := startNameServer(t)
	s.set(engines, 1, a(1))
	m := New(Options{OnSet: func(string, []Worker) {}})
	var kept [][]Worker
	m.o.OnSet = func(_ string, set []Worker) { kept = append(kept, slices.Clone(set)) }
	for _, wrong := range []struct {
		change func()
		want   string
	}{
		{func() { s.code = dnsmessage.RCodeServerFailure }, "ServerFailure"},
		{func() { s.code = dnsmessage.RCodeRefused }, "Refused"},
		{func() { delete(s.records, engines) }, "no such name"},
		{func() { s.records[engines] = nil }, "no such name"},
	} {
		s.change(func() { s.code = dnsmessage.RCodeSuccess })
		s.set(engines, 1, a(1))
		h := follow(t, DNS{Name: "engines.test", Port: 80, Server: s.address, Every: 10 * time.Millisecond})
		h.says("http://10.0.0.1:80")
		s.change(wrong.change)
		h.fails(wrong.want)
		f := &followed{name: "dns"}
		m.told(f, h.set, nil)
		m.told(f, nil, h.err)
		if f.status.Workers != 1 || f.status.Error == "" {
			t.Errorf("%s: %+v", wrong.want, f.status)
		}
	}
	if len(kept) != 4 || slices.ContainsFunc(kept, func(set []Worker) bool { return len(set) != 1 }) {
		t.Errorf("told %v", kept)
	}
}

func TestLongAnswersComeOverTCPAndStrangersAreNotBelieved(t *testing.T) {
	s := startNameServer(t)
	var many []dnsmessage.ResourceBody
	for i := range 200 {
		many = append(many, a(byte(i)))
	}
	s.set(engines, 1, many...)
	s.change(func() { s.short, s.lies = true, false })
	h := follow(t, DNS{Name: "engines.test", Port: 80, Server: s.address})
	h.eventually("200 workers", func() bool { return len(h.set) == 200 })
	s.set(engines, 1, a(1))
	s.change(func() { s.short, s.lies = false, true })
	follow(t, DNS{Name: "engines.test", Port: 80, Server: s.address}).says("http://10.0.0.1:80")
}

func TestASilentNameServerIsLeftForTheNext(t *testing.T) {
	mute, good := startNameServer(t), startNameServer(t)
	mute.change(func() { mute.mute = true })
	good.set(engines, 1, a(1))
	r := &resolver{servers: []string{mute.address, good.address}, timeout: 50 * time.Millisecond, tries: 1}
	if told, err := r.ask(t.Context(), "engines.test", dnsmessage.TypeA); err != nil || len(told.addresses) != 1 {
		t.Errorf("%+v %v", told, err)
	}
	r.servers = r.servers[:1]
	if _, err := r.ask(t.Context(), "engines.test", dnsmessage.TypeA); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Error(err)
	}
}

func TestNamesOfFewDotsAreLookedForAsTheSystemDoes(t *testing.T) {
	s := startNameServer(t)
	s.set("engines.llm.svc.cluster.local.", 1, a(1))
	s.set("engines.", 1, a(9))
	s.set("a.b.c.d.e.f.", 1, a(2))
	r := &resolver{timeout: 5 * time.Second, tries: 1}
	r.read(strings.NewReader("# a comment\nnameserver 192.0.2.1\nsearch llm.svc.cluster.local svc.cluster.local\noptions ndots:5 edns0\n"))
	if r.ndots != 5 || len(r.search) != 2 || !slices.Equal(r.servers, []string{"192.0.2.1:53"}) {
		t.Fatalf("%+v", r)
	}
	r.servers = []string{s.address}
	for name, want := range map[string]string{"engines": "10.0.0.1", "engines.": "10.0.0.9", "a.b.c.d.e.f": "10.0.0.2"} {
		told, err := r.ask(context.Background(), name, dnsmessage.TypeA)
		if err != nil || len(told.addresses) != 1 || told.addresses[0].String() != want {
			t.Errorf("%s: %+v %v", name, told, err)
		}
	}
}

// Whatever comes from the network is no more than an error.
func FuzzAnswers(f *testing.F) {
	q := dnsmessage.Question{Name: dnsmessage.MustNewName(engines), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	asked, err := question(7, q)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(asked[2:])
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, Response: true}, Questions: []dnsmessage.Question{q}}
	m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: a(1)})
	packed, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Fuzz(func(t *testing.T, text []byte) {
		defer leash.Hold(t, len(text))()
		var p dnsmessage.Parser
		h, err := p.Start(text)
		if err != nil {
			return
		}
		if _, err := p.AllQuestions(); err != nil {
			return
		}
		if told, err := answerOf(h, "here", &p); err == nil && len(told.addresses)+len(told.services) == 0 {
			t.Error("nothing was told, and no error")
		}
	})
}
