package patrons

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatFailsAndWhatIsCutIsNoticed(t *testing.T) {
	const good, whole = `{"choices":[{"finish_reason":"stop"}]}`, "data: {}\n\ndata: [DONE]\n\n"
	for _, c := range []struct {
		what, short, stream string
		status              int
		failed, cut         bool
	}{
		{"all is well", good, whole, 200, false, false},
		{"a refusal", good, whole, 503, true, false},
		{"an answer that is none", `{}`, whole, 200, true, false},
		{"a stream without its end", good, "data: {}\n\n", 200, false, true},
		{"a stream that ends with an error", good, "data: {\"error\":{}}\n\ndata: [DONE]\n\n", 200, false, true},
	} {
		var n atomic.Int32
		enough := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 10 {
				close(enough)
			}
			body, _ := io.ReadAll(r.Body)
			text := c.short
			if string(body) == "stream" {
				text = c.stream
			}
			w.WriteHeader(c.status)
			io.WriteString(w, text)
		}))
		p := Come(s.URL, Party{Short: 1, Streams: 1, Pause: time.Millisecond, Body: func(_ string, stream bool) string {
			if stream {
				return "stream"
			}
			return "short"
		}})
		<-enough
		got := p.Leave()
		if got.Failed > 0 != c.failed || got.Cut > 0 != c.cut || got.Requests != int64(n.Load()) || strings.Contains(got.String(), "first") != (c.failed || c.cut) {
			t.Errorf("%s: %s, and the server got %d", c.what, got, n.Load())
		}
		s.Close()
	}
}
