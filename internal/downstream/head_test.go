package downstream

import (
	"bufio"
	"bytes"
	"net/http"
	"reflect"
	"testing"

	"github.com/warmpath/warmpath/internal/leash"
)

// same checks that what parse takes is what net/http reads there, and returns whether it took it.
func same(t *testing.T, text []byte) bool {
	t.Helper()
	end := bytes.Index(text, []byte("\r\n\r\n"))
	if end < 0 {
		return false
	}
	theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	h := head{byName: http.Header{"Of-The-One-Before": {"1"}}}
	if !h.parse(bytes.Clone(text[:end+4])) {
		return false
	}
	h.index()
	if err != nil {
		t.Fatalf("%q: taken, and net/http says %v", text, err)
	}
	delete(theirs.Header, "Cache-Control") // net/http adds one beside Pragma
	delete(h.byName, "Cache-Control")
	if h.method != theirs.Method || h.target != theirs.RequestURI || h.host != theirs.Host || h.length != theirs.ContentLength || h.close != theirs.Close ||
		!reflect.DeepEqual(h.path, *theirs.URL) || !reflect.DeepEqual(h.byName, theirs.Header) || len(theirs.TransferEncoding) > 0 {
		t.Fatalf("%q: %+v %q, net/http reads %+v %q", text, h, h.byName, theirs, theirs.Header)
	}
	inOrder := http.Header{}
	h.fields.AddTo(inOrder)
	delete(inOrder, "Cache-Control")
	if !reflect.DeepEqual(inOrder, h.byName) {
		t.Fatalf("%q: in order %q, by name %q", text, inOrder, h.byName)
	}
	return true
}

var heads = []struct {
	text string
	ours bool
}{
	{"POST /v1/chat/completions HTTP/1.1\r\nHost: a:80\r\nContent-Length: 12\r\nauthorization: Bearer x\r\nX-A:  b \r\nx-a: c\r\n\r\n", true},
	{"GET /?a=b&c=%20 HTTP/1.1\r\nHost: [::1]:80\r\nConnection: Close\r\n\r\n", true},
	{"GET /a%2Fb/../c HTTP/1.1\r\nHost: h\r\nconnection: keep-alive\r\n\r\n", true},
	{"GET /? HTTP/1.1\r\nHost: h\r\nPragma: no-cache\r\n\r\n", true},
	{"GET //evil/x HTTP/1.1\r\nHost: h\r\n\r\n", true},
	{"GET / HTTP/1.1\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", false},
	{"GET http://x/ HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n", true},
	{"POST / HTTP/1.1\r\nHost: a\r\nX: 1\r\n Transfer-Encoding: chunked\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nX: 1\rTransfer-Encoding: chunked\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nX: 1\nTransfer-Encoding: chunked\r\n\r\n", false},
	{"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", false},
	{"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n", false},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
}

func TestOnlyPlainHeadsAreTakenAndThenAsNetHTTPReadsThem(t *testing.T) {
	for _, c := range heads {
		if got := same(t, []byte(c.text)); got != c.ours {
			t.Errorf("%q: taken %v, want %v", c.text, got, c.ours)
		}
	}
}

func FuzzAHeadThatIsTakenIsReadAsNetHTTPReadsIt(f *testing.F) {
	for _, c := range heads {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer leash.Hold(t, len(text))()
		same(t, text)
	})
}
