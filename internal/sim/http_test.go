package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/traces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The engine behind a socket, driven in wall time, and the one in the lab are the same engine: the same requests at the same times have
// the same mean time to the first token within a tenth.
func TestTheWorkerBehindASocketAgreesWithTheLab(t *testing.T) {
	profile := cost.Profiles["a100-70b-tp4"] // slow, so that sockets and timers are small beside it
	server := engine.New(engine.Options{Profile: profile, Model: "m"})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: server.Handler()}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { _ = web.Serve(listener) })
	parts.Go(func() { _ = server.Run(ctx) })
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer func() {
		transport.CloseIdleConnections()
		web.Close()
		cancel()
		parts.Wait()
	}()

	load := trial()
	times := make([]float64, len(load))
	start := time.Now().Add(50 * time.Millisecond)
	var clients sync.WaitGroup
	for i, q := range load {
		clients.Go(func() {
			due := start.Add(q.At)
			<-time.After(time.Until(due))
			times[i] = ask(t, &http.Client{Transport: transport}, "http://"+listener.Addr().String(), q).Sub(due).Seconds()
		})
	}
	clients.Wait()
	if slip := server.Stats().Slip; slip > 200*time.Millisecond {
		t.Logf("this machine is too busy: the engine ran %v late", slip)
	}
	var wall float64
	for _, s := range times {
		wall += s / float64(len(times))
	}
	trace := open(t, "bursts:requests="+fmt.Sprint(len(load)))
	i := 0
	trace.Map(func(q *traces.Request) { *q = load[i]; i++ })
	r := run(t, Config{Trace: trace, Fleet: []lineup.Worker{{Profile: profile}}, Policy: "round-robin", Seed: 1})
	late := server.Stats().Slip.Seconds()
	if math.Abs(wall-r.TTFT.Mean()) > 0.1*r.TTFT.Mean()+late {
		t.Errorf("mean TTFT %.4f s behind a socket, %.4f s in the lab", wall, r.TTFT.Mean())
	}
	t.Logf("mean TTFT %.4f s behind a socket, %.4f s in the lab", wall, r.TTFT.Mean())
}

// trial is some seconds of requests of unlike lengths, a third of which begin alike.
func trial() (load []traces.Request) {
	for i := range 24 {
		q := traces.Request{At: time.Duration(i*i%24) * 120 * time.Millisecond, Prompt: 400 + 150*(i%7), Output: 8 + i%9}
		first := uint64(i+1) << 32
		if i%3 == 0 {
			first = 1 << 20
		}
		q.Blocks = []traces.Run{{First: first, Count: int32(q.Prompt / 16)}}
		load = append(load, q)
	}
	for i := range load {
		for j := i; j > 0 && load[j].At < load[j-1].At; j-- {
			load[j], load[j-1] = load[j-1], load[j]
		}
	}
	return load
}

// ask sends a request as a prompt of its tokens and returns when the first token came.
func ask(t *testing.T, client *http.Client, url string, q traces.Request) time.Time {
	const tokenBytes = 4 // of the simulated engine's tokenizer
	seed := fmt.Sprintf("%-8d", q.Blocks[0].First>>32)
	prompt := strings.Repeat(seed, q.Prompt*tokenBytes/len(seed))
	body := fmt.Sprintf(`{"model":"m","prompt":%q,"max_tokens":%d,"ignore_eos":true,"stream":true}`, prompt, q.Output)
	response, err := client.Post(url+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return time.Now()
	}
	defer response.Body.Close()
	buffer := make([]byte, 4096)
	var seen []byte
	for {
		n, err := response.Body.Read(buffer)
		seen = append(seen, buffer[:n]...)
		if bytes.Contains(seen, []byte(`"text"`)) || err != nil {
			at := time.Now()
			_, _ = io.Copy(io.Discard, response.Body)
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", response.Status, seen)
			}
			return at
		}
	}
}
