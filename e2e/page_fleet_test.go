//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"

	"strconv"
	"strings"
	"sync"
	"testing"
)

// simulated is a router before simulated engines, all of them processes of their own, with the router's page open.
type simulated struct {
	data, admin string
	flags       []string
	router      *process
	workers     []*process
}

const simModel = "sim-8b"

// startSimulated starts n engines and a router before them.
func startSimulated(t *testing.T, n int, more ...string) *simulated {
	t.Helper()
	s := &simulated{}
	flags := []string{"serve", "--workers-register=false"}
	for i := range n {
		port := freePort(t)
		s.workers = append(s.workers, start(t, fmt.Sprint("worker", i+1), router, nil, "worker", "--port", port, "--seed", strconv.Itoa(i), "--output-mean", "120"))
		flags = append(flags, "--worker", "http://127.0.0.1:"+port)
	}
	listen, admin := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	s.data, s.admin = "http://"+listen, "http://"+admin
	s.flags = append(append(flags, "--listen", listen, "--admin", admin, "--state-dir", t.TempDir()), more...)
	s.serve(t)
	eventually(t, "all engines are ready", startWait, func() bool { return strings.Count(get(s.admin+"/workers"), `"state": "ready"`) == n })
	return s
}

// serve starts the router, again where it was stopped.
func (s *simulated) serve(t *testing.T) {
	t.Helper()
	s.router = start(t, "warmpath", router, nil, s.flags...)
	eventually(t, "warmpath is ready", startWait, func() bool { return get(s.data+"/readyz") != "" })
}

// crowd is a number of clients that talk without a pause, each of them one conversation after the other, until ctx is done.
func (s *simulated) crowd(ctx context.Context, clients int) (wait func()) {
	var all sync.WaitGroup
	system := strings.Repeat("You are exact, kind and short. ", 60)
	for c := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), 7))
			for ctx.Err() == nil {
				talk := []map[string]string{{"role": "system", "content": system}}
				for turn := 0; turn < 4 && ctx.Err() == nil; turn++ {
					talk = append(talk, map[string]string{"role": "user", "content": fmt.Sprintf("client %d asks %d: %s", c, random.Uint32(), strings.Repeat("word ", random.IntN(80)))})
					s.ask(ctx, map[string]any{"model": simModel, "messages": talk, "stream": true, "max_tokens": 20 + random.IntN(60)}, "X-Session-Id", fmt.Sprint("client-", c), "X-Tenant-Id", []string{"acme", "globex"}[c%2])
					talk = append(talk, map[string]string{"role": "assistant", "content": "so it is"})
				}
			}
		})
	}
	return all.Wait
}

// ask sends a chat request and reads its answer to the end.
func (s *simulated) ask(ctx context.Context, body map[string]any, headers ...string) (status int, answer string, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.data+"/v1/chat/completions", bytes.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	read, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(read), err
}

// metric is the sum of the series of a family that have all these labels.
func (s *simulated) metric(name string, labels ...string) (sum float64) {
	for line := range strings.SplitSeq(get(s.admin+"/metrics"), "\n") {
		series, value, ok := strings.Cut(line, " ")
		if !ok || series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		has := true
		for _, l := range labels {
			has = has && strings.Contains(series, l)
		}
		if v, err := strconv.ParseFloat(value, 64); has && err == nil {
			sum += v
		}
	}
	return sum
}

// axe is the checker of accessibility, installed by scripts/browser-install.sh.
func axe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../.cache/e2e-axe/package/axe.min.js")
	if err != nil {
		t.Fatalf("%v (scripts/browser-install.sh installs it)", err)
	}
	return string(text)
}

// kill ends a process as a machine does that loses its power.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
}
