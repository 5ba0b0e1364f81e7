//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/patrons"
)

const (
	streamSeconds = 4
	partyShort    = 8
	partyStreams  = 8
)

// steadyEngine answers short requests at once and streams over some seconds. It stands for an engine that nothing happens to.
func steadyEngine(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/models":
			io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model","owned_by":"test"}]}`)
			return
		case r.Method != http.MethodPost || r.UserAgent() == "warmpath":
			http.NotFound(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 10 * streamSeconds {
			io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word"}}]}`+"\n\n")
			http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
		io.WriteString(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// party has clients come who ask all the time.
func party(t *testing.T, url string) *patrons.Patrons {
	p := patrons.Come(url, patrons.Party{Short: partyShort, Streams: partyStreams, Pause: 5 * time.Millisecond, Body: func(unique string, stream bool) string {
		return fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, unique)
	}})
	t.Cleanup(func() { p.Leave() })
	return p
}

// nothingLost prints the line by which the proof is read.
func nothingLost(t *testing.T, p *patrons.Patrons) {
	t.Helper()
	tally := p.Leave()
	fmt.Println(tally)
	if tally.Failed+tally.Cut > 0 || tally.Requests < 100 {
		t.Error(tally)
	}
}

// more waits for so many more requests.
func more(t *testing.T, p *patrons.Patrons, n int64) {
	t.Helper()
	from := p.Requests()
	eventually(t, "more requests", startWait, func() bool { return p.Requests() >= from+n })
}

// served is one router on a configuration of its own.
type served struct {
	data, admin, file string
	*process
}

func (s *served) begin(t *testing.T, n string) {
	s.process = start(t, "warmpath "+n, router, nil, "serve", "--config", s.file)
	eventually(t, "router "+n+" is ready", startWait, func() bool { return get("http://"+s.data+"/readyz") != "" })
}

// settings writes its file and returns its lines, to be written again with others.
func (s *served) settings(t *testing.T, lines string) {
	t.Helper()
	text := fmt.Sprintf("listen: %s\nadmin: %s\nstate_dir: %s\n%s", s.data, s.admin, filepath.Dir(s.file), lines)
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newServed(t *testing.T, data, lines string) *served {
	s := &served{data: data, admin: "127.0.0.1:" + freePort(t), file: filepath.Join(t.TempDir(), "warmpath.yaml")}
	s.settings(t, lines)
	return s
}

func TestPortsAreHandedOverAndTheConfigurationIsReadTenTimesUnderLoad(t *testing.T) {
	workers := fmt.Sprintf("workers: [%s, %s]\n", steadyEngine(t), steadyEngine(t))
	s := newServed(t, "127.0.0.1:"+freePort(t), workers)
	s.begin(t, "a")
	p := party(t, "http://"+s.data)
	for i := range 10 {
		more(t, p, 50)
		s.settings(t, workers+fmt.Sprintf("retries_max: %d\nqueue: {requests_max: %d}\n", i%3+1, 1000+i))
		if out, err := exec.Command(router, "reload", "--admin", "http://"+s.admin).CombinedOutput(); err != nil || !strings.Contains(string(out), "in force") {
			t.Fatalf("reload %d: %v\n%s", i+1, err, out)
		}
	}
	for i := range 3 {
		more(t, p, 50)
		out, err := exec.Command(router, "upgrade", "--json", "--admin", "http://"+s.admin).Output()
		var report struct{ PID int }
		if err != nil || json.Unmarshal(out, &report) != nil {
			t.Fatalf("upgrade %d: %v\n%s", i+1, err, out)
		}
		t.Cleanup(func() {
			syscall.Kill(report.PID, syscall.SIGTERM)
			eventually(t, "the successor has ended", startWait, func() bool { return syscall.Kill(report.PID, 0) != nil })
		})
	}
	<-s.done
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the first process ended with %d", code)
	}
	more(t, p, 50)
	nothingLost(t, p)
}

// haproxy is where Debian has it; scripts/bench-install.sh installs it.
func haproxy(t *testing.T) string {
	t.Helper()
	for _, at := range []string{"haproxy", "/usr/sbin/haproxy"} {
		if file, err := exec.LookPath(at); err == nil {
			return file
		}
	}
	t.Fatal("there is no haproxy: scripts/bench-install.sh installs it")
	return ""
}

func TestTwoRoutersBehindHAProxyAreRestartedOneAfterTheOtherUnderLoad(t *testing.T) {
	program := haproxy(t)
	lines := fmt.Sprintf("workers: [%s, %s]\ndrain_delay: 3s\ndrain_timeout: 30s\n", steadyEngine(t), steadyEngine(t))
	a, b := newServed(t, "127.0.0.1:"+freePort(t), lines), newServed(t, "127.0.0.1:"+freePort(t), lines)
	a.begin(t, "a")
	b.begin(t, "b")
	text, err := os.ReadFile("../packaging/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	front := "127.0.0.1:" + freePort(t)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	text = []byte(strings.NewReplacer("127.0.0.1:8800", front, "127.0.0.1:8810", a.data, "127.0.0.1:8820", b.data).Replace(string(text)))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "haproxy", program, nil, "-db", "-f", file)
	eventually(t, "the balancer listens", startWait, func() bool {
		c, err := net.Dial("tcp", front)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	p := party(t, "http://"+front)
	for _, s := range []*served{a, b} {
		more(t, p, 200)
		s.cmd.Process.Signal(syscall.SIGTERM)
		<-s.done
		if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("a router ended with %d", code)
		}
		s.begin(t, "again")
		eventually(t, "the balancer sends it requests again", startWait, func() bool {
			return strings.Contains(get("http://"+s.admin+"/metrics"), `warmpath_requests_total{`)
		})
	}
	more(t, p, 200)
	nothingLost(t, p)
}
