//go:build e2e

package e2e

import (
	"bytes"
	"embed"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

//go:embed testdata
var testdata embed.FS

// scripted is a worker for what simulated engines do not do: its model "tools" thinks, calls a tool and takes its result, "shy" has a client
// come again later, "slow" does not answer. What it says is in testdata/tools, in the shapes of vLLM's and Anthropic's servers.
type scripted struct {
	*httptest.Server
	left atomic.Int64 // clients of "slow" that went
}

func startScripted(t *testing.T) *scripted {
	s := &scripted{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		io.WriteString(w, `{"object":"list","data":[{"id":"tools","object":"model"},{"id":"shy","object":"model"},{"id":"slow","object":"model"}]}`)
		return
	}
	var ask struct {
		Model    string
		Stream   bool
		Format   json.RawMessage   `json:"response_format"`
		Messages []json.RawMessage `json:"messages"`
	}
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || r.UserAgent() == "warmpath" || err != nil || json.Unmarshal(body, &ask) != nil || len(ask.Messages) == 0 {
		http.NotFound(w, r)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/v1/")
	name = strings.ReplaceAll(name, "/", "_")
	last := ask.Messages[len(ask.Messages)-1]
	switch {
	case ask.Model == "slow":
		<-r.Context().Done()
		s.left.Add(1)
		return
	case ask.Model == "shy" && r.Header.Get("X-Stainless-Retry-Count") == "0":
		w.Header().Set("Retry-After", "1")
		s.say(w, http.StatusTooManyRequests, name+".busy.json")
		return
	case ask.Format != nil:
		name += ".shaped"
	case ask.Model == "shy" || bytes.Contains(last, []byte(`tool_result`)) || bytes.Contains(last, []byte(`"role":"tool"`)):
		name += ".told"
	}
	if ask.Stream {
		s.say(w, http.StatusOK, name+".sse")
		return
	}
	s.say(w, http.StatusOK, name+".json")
}

func (s *scripted) say(w http.ResponseWriter, status int, name string) {
	text, err := testdata.ReadFile("testdata/tools/" + name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if strings.HasSuffix(name, ".sse") {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(status)
		for event := range strings.SplitAfterSeq(string(text), "\n\n") {
			io.WriteString(w, event)
			http.NewResponseController(w).Flush()
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}
