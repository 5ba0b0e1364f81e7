package smuggling

import (
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheCorpusIsWrittenAsItIsReadAndGivesEachDifferenceAReason(t *testing.T) {
	names := map[string]bool{}
	all, err := files.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		bytes, err := files.ReadFile("testdata/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := string(bytes)
		cases, head, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if Format(head, cases) != text {
			t.Errorf("%s is not as Format writes it", file.Name())
		}
		for _, c := range cases {
			if _, err := c.Bytes(1); err != nil {
				t.Error(err)
			}
			if _, told := c.Outcomes["ours"]; !told || names[c.Name] || (c.Relation == "") != (c.Why == "") {
				t.Errorf("%s: there is another of that name, nothing is recorded, or %q has no reason", c.Name, c.Relation)
			}
			names[c.Name] = true
		}
	}
	if len(names) < 150 {
		t.Errorf("the corpus has %d cases", len(names))
	}
}

func TestTheOriginTakesNothingThatCouldBeReadOtherwise(t *testing.T) {
	for request, want := range map[string]string{
		"GET /v1/0001 HTTP/1.1\r\nHost: h\r\nX: y\r\nA: b\r\n\r\n":                                       `GET /v1/@@@@ "" | a: b | x: y`,
		"POST /v1/0001 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello":                            `POST /v1/@@@@ "hello"`,
		"POST /v1/0001 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n": `POST /v1/@@@@ "hello"`,
		"POST /v1/0001 HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n":                       "VIOLATION",
		"POST /v1/0001 HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":     "VIOLATION",
		"POST /v1/0001 HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n":                                  "VIOLATION",
		"POST /v1/0001 HTTP/1.1\r\nContent-Length: +5\r\n\r\nhello":                                      "VIOLATION",
		"GET /v1/0001 HTTP/1.1\r\nX: y\n\r\n":                                                            "VIOLATION",
		"GET /v1/0001 HTTP/1.1\r\nX : y\r\n\r\n":                                                         "VIOLATION",
		"GET /v1/0001 HTTP/1.1\r\nX: y\r\n z\r\n\r\n":                                                    "VIOLATION",
		"POST /v1/0001 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n":          "VIOLATION",
		"POST /v1/0001 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n":              "VIOLATION",
		"GET /v1/0001 HTTP/1.1\r\nX: \x01\r\n\r\n":                                                       "VIOLATION",
		"GET /v1/0001/a b HTTP/1.1\r\n\r\n":                                                              "VIOLATION",
	} {
		o, err := StartOrigin()
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", o.Addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, request)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		c.Close()
		o.Close()
		got := append(o.Reached(1), o.Stray()...)
		if len(got) != 1 || !strings.HasPrefix(got[0], want) || !strings.HasPrefix(want, "V") && got[0] != want {
			t.Errorf("%q: %q, want %q", request, got, want)
		}
	}
}

func TestOneThingReachesNoMoreThanAnotherWhenItIsAsMuchOrLess(t *testing.T) {
	a, b, hidden := `GET /a "" | x: y`, `GET /a ""`, `GET /hidden ""`
	for _, c := range []struct {
		ours, judge []string
		want        string
	}{
		{nil, nil, ""},
		{[]string{a}, []string{a}, ""},
		{nil, []string{a}, "stricter"},
		{[]string{b}, []string{a}, "stricter"},
		{[]string{a}, []string{a, hidden}, "stricter"},
		{[]string{a}, []string{b}, "laxer"},
		{[]string{a}, nil, "laxer"},
		{[]string{a, hidden}, []string{a}, "laxer"},
		{[]string{hidden}, []string{a, hidden}, "laxer"},
	} {
		if got := Compare(c.ours, c.judge); got != c.want {
			t.Errorf("%q against %q: %q, want %q", c.ours, c.judge, got, c.want)
		}
	}
}
