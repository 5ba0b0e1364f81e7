package engine

import (
	"bufio"
	"context"
	json "encoding/json/v2"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/cost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// real is one engine behind a loopback socket.
type real struct {
	*Server
	url string
}

// start serves a simulated engine, 100 times faster than an 8B model on an H100 unless the options say otherwise.
func start(t *testing.T, o Options) real {
	t.Helper()
	if o.Profile.Name == "" {
		o.Profile = cost.Profiles["h100-8b"]
	}
	if o.TimeScale == 0 {
		o.TimeScale = 100
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, time.Second) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return real{s, "http://" + l.Addr().String()}
}

// call sends one request and returns status and body.
func (e real) call(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, e.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Header.Get("Server") != "warmpath-sim" {
		t.Errorf("%s %s: Server is %q", method, path, answer.Header.Get("Server"))
	}
	return answer.StatusCode, string(out)
}

// decode sends a request that must succeed and returns its JSON.
func (e real) decode(t *testing.T, path, body string) map[string]any {
	t.Helper()
	status, out := e.call(t, "POST", path, body)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, out)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%s: %v in %s", path, err, out)
	}
	return v
}

// at walks into decoded JSON: at(v, "usage", "prompt_tokens"), at(v, "choices", 0).
func at(v any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

// until waits for a state of the engine that its own steps bring about.
func (e real) until(t *testing.T, what string, ok func(Stats) bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok(e.Stats()) {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: still %+v", what, e.Stats())
		}
	}
}

func (e real) events(t *testing.T, path, body string) []string {
	t.Helper()
	status, out := e.call(t, "POST", path, body)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, out)
	}
	var list []string
	for line := range strings.Lines(out) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			list = append(list, strings.TrimSuffix(data, "\n"))
		}
	}
	return list
}

func TestAClientThatLeavesFreesItsRoomWithinAStep(t *testing.T) {
	e := start(t, Options{TimeScale: 1})
	for _, stream := range []string{"true", "false"} {
		ctx, leave := context.WithCancel(context.Background())
		r, err := http.NewRequestWithContext(ctx, "POST", e.url+"/v1/completions",
			strings.NewReader(`{"prompt":"a","max_tokens":100000,"ignore_eos":true,"stream":`+stream+`}`))
		if err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		wait.Go(func() {
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		})
		e.until(t, "running", func(n Stats) bool { return n.Running == 1 && n.ContextTokens > 2 })
		leave()
		e.until(t, "gone", func(n Stats) bool { return n.Running == 0 && n.KVUsage == 0 })
		wait.Wait()
	}
	if n := e.Stats(); n.Aborted != 2 {
		t.Errorf("%+v", n)
	}
}

func TestTheHeadOfAStreamComesBeforeItsFirstToken(t *testing.T) {
	e := start(t, Options{TimeScale: .001}) // a first token would take seconds
	r, err := http.NewRequest("POST", e.url+"/v1/completions", strings.NewReader(`{"prompt":"a","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if n := e.Stats(); n.GeneratedTokens != 0 || answer.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Errorf("%+v, header %v", n, answer.Header)
	}
	answer.Body.Close()
}

func TestAnEngineThatStopsBreaksItsStreams(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Profile: cost.Profiles["h100-8b"]})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, 0) }()
	answer, err := http.Post("http://"+l.Addr().String()+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"a","max_tokens":100000,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Scan()
	stop()
	for lines.Scan() {
		if lines.Text() == "data: [DONE]" {
			t.Error("a clean end")
		}
	}
	if lines.Err() == nil {
		t.Error("the body ended as if it were whole")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestADrainLetsRequestsFinish(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := real{New(Options{Profile: cost.Profiles["h100-8b"], TimeScale: 10}), "http://" + l.Addr().String()}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx, l, time.Minute) }()
	var wait sync.WaitGroup
	wait.Go(func() {
		v := e.decode(t, "/v1/completions", `{"prompt":"a","max_tokens":100,"ignore_eos":true}`)
		if at(v, "usage", "completion_tokens") != 100.0 {
			t.Errorf("%v", v)
		}
	})
	e.until(t, "running", func(n Stats) bool { return n.Running == 1 })
	stop()
	wait.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAFullQueueAnswers503(t *testing.T) {
	e := start(t, Options{WaitingMax: 1})
	if status, out := e.call(t, "POST", "/v1/completions", `{"prompt":"a","n":2}`); status != 503 || !strings.Contains(out, "the limit of 1") {
		t.Errorf("%d %s", status, out)
	}
}

func TestMetricsAgreeWithTheCountsUnderVLLMsNames(t *testing.T) {
	e := start(t, Options{Model: "m"})
	prompt := strings.Repeat("0123456789abcdef", 16)
	for range 2 {
		e.decode(t, "/v1/completions", `{"prompt":"`+prompt+`","max_tokens":10,"ignore_eos":true}`)
	}
	_, out := e.call(t, "GET", "/metrics", "")
	for _, want := range []string{
		`vllm:num_requests_running{engine="0",model_name="m"} 0`,
		`vllm:num_requests_waiting{engine="0",model_name="m"} 0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0`,
		`vllm:prompt_tokens_total{engine="0",model_name="m"} 128`,
		`vllm:prefix_cache_queries_total{engine="0",model_name="m"} 128`,
		`vllm:prefix_cache_hits_total{engine="0",model_name="m"} 48`,
		`vllm:generation_tokens_total{engine="0",model_name="m"} 20`,
		`vllm:request_success_total{engine="0",model_name="m",finished_reason="length"} 2`,
		`vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 2`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 2`,
		`vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 18`,
		`vllm:cache_config_info{engine="0",model_name="m",block_size="16",num_gpu_blocks="25000",kv_cache_size_tokens="400000",enable_prefix_caching="True"} 1`,
		`process_start_time_seconds `,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestTheEngineSaysWhatItIs(t *testing.T) {
	e := start(t, Options{Model: "m", ContextMax: 4096})
	if _, out := e.call(t, "GET", "/v1/models", ""); !strings.Contains(out, `"id":"m"`) || !strings.Contains(out, `"max_model_len":4096`) {
		t.Error(out)
	}
	if status, out := e.call(t, "GET", "/health", ""); status != 200 || out != "" {
		t.Errorf("%d %s", status, out)
	}
	if _, out := e.call(t, "GET", "/version", ""); !strings.Contains(out, `"simulated":true`) || !strings.Contains(out, `"max_num_seqs":`) {
		t.Error(out)
	}
}

func TestTimesFollowTheProfileAndTheScale(t *testing.T) {
	e := start(t, Options{TimeScale: 2})
	began := time.Now()
	e.decode(t, "/v1/completions", `{"prompt":"a","max_tokens":50,"ignore_eos":true}`)
	took := time.Since(began)
	// Prefill 1.3 + 6.24 ms, 49 decodes of 6.25 ms: 314 ms, at twice the speed. Being early would be a fault of the
	// clock; being late is the machine's.
	if took < 157*time.Millisecond {
		t.Errorf("took %v, less than the profile's time", took)
	}
	if busy := e.Stats().BusyTime; busy < 313*time.Millisecond || busy > 315*time.Millisecond {
		t.Errorf("busy for %v of virtual time", busy)
	}
}
