package kvfeed

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/leash"
)

func TestEndpointsAreFoundInEveryForm(t *testing.T) {
	for body, want := range map[string]string{
		`{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://[::ffff:127.0.0.1]:5557","replay_endpoint":"tcp://127.0.0.1:5558","topic":"kv"}}`: "tcp://10.1.2.3:5557 tcp://10.1.2.3:5558 kv",
		`[{"data_parallel_rank":0,"endpoint":"tcp://10.0.0.1:5557","replay_endpoint":null,"topic":""}]`:                                                            "tcp://10.0.0.1:5557  ",
		`{"sources":[{"data_parallel_rank":0,"endpoint":"tcp://*:7001"}]}`:                                                                                         "tcp://10.1.2.3:7001  ",
		`{"0":{"endpoint":"ipc:///tmp/x"}}`:                                                          "ipc:///tmp/x  ",
		`{"0":{"endpoint":"tcp://[::]:1"}}`:                                                          "tcp://10.1.2.3:1  ",
		`{"1":{"endpoint":"tcp://*:1"}}`:                                                             "none",
		`{"0":{"endpoint":"tcp://*:1","publisher":"null"}}`:                                          "none",
		`{"0":{"endpoint":"a","enable_kv_cache_events":false}}`:                                      "none",
		`{"0":{"endpoint":"tcp://*:1"},"1":{"endpoint":"tcp://*:2"}}`:                                "none",
		`{"0":{"endpoint":"tcp://*:1"},"1":{"endpoint":"tcp://*:2","enable_kv_cache_events":false}}`: "tcp://10.1.2.3:1  ",
		`[]`: "none", `{}`: "none", `{"sources":{"sources":[{"endpoint":"tcp://*:1"}]}}`: "none",
	} {
		s, err := parseSources([]byte(body), Target{URL: "http://10.1.2.3:8000", Rank: -1})
		got := fmt.Sprint(s.Endpoint, " ", s.Replay, " ", s.Topic)
		if err != nil {
			got = "none"
		}
		if got != want {
			t.Errorf("%s: %s, want %s (%v)", body, got, want, err)
		}
	}
	for url, want := range map[string]string{"http://h:80": "tcp://h:5559", "http://[::1]:80/v1": "tcp://[::1]:5559", "https://u:p@h": "tcp://h:5559"} {
		if s, err := fromTemplate("tcp://{host}:5557", Target{URL: url, Rank: 2}); err != nil || s.Endpoint != want {
			t.Errorf("%s: %s, want %s (%v)", url, s.Endpoint, want, err)
		}
	}
}

func TestEndpointsAreFoundInAnEnginesOwnSettings(t *testing.T) {
	const zmq = `{\"publisher\":\"zmq\"`
	for told, want := range map[string]string{
		`"` + zmq + `,\"endpoint\":\"tcp://*:7001\",\"replay_endpoint\":\"tcp://*:8001\",\"topic\":\"kv\"}"`: "tcp://10.1.2.3:7001 tcp://10.1.2.3:8001 kv | tcp://10.1.2.3:7003 tcp://10.1.2.3:8003 kv",
		`"` + zmq + `}"`: "tcp://10.1.2.3:5557   | tcp://10.1.2.3:5559  ",
		`"` + zmq + `,\"endpoint\":\"tcp://[::]:7001\",\"replay_endpoint\":null}"`:                 "tcp://10.1.2.3:7001   | tcp://10.1.2.3:7003  ",
		`"` + zmq + `,\"endpoint\":\"ipc:///tmp/x\"}"`:                                             "ipc:///tmp/x   | \"ipc:///tmp/x\" has no port",
		`"` + zmq + `,\"endpoint\":\"tcp://10.9.9.9:7001\"}"`:                                      "connects to tcp://10.9.9.9:7001 | connects to tcp://10.9.9.9:7001",
		`{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":7001,"topic":"","dp_size":4}`: "tcp://10.1.2.3:7001   | tcp://10.1.2.3:7003  ",
		`{"publisher":"zmq","endpoint_host":"10.7.7.7","endpoint_port_base":7001}`:                 "tcp://10.7.7.7:7001   | tcp://10.7.7.7:7003  ",
		`{"publisher":"zmq","endpoint_host":"::","endpoint_port_base":7001}`:                       "tcp://10.1.2.3:7001   | tcp://10.1.2.3:7003  ",
		`"{\"publisher\":\"null\"}"`:                                                               "publishes no cache events | publishes no cache events",
		`"{}"`:                                                                                     "publishes no cache events | publishes no cache events",
		`"not-json"`:                                                                               "not understood | not understood",
		`[1]`:                                                                                      "not understood | not understood",
	} {
		for i, want := range strings.Split(want, " | ") {
			s, err := fromSettings(Target{URL: "http://10.1.2.3:30000", Rank: []int{-1, 2}[i], Told: told})
			got := fmt.Sprint(s.Endpoint, " ", s.Replay, " ", s.Topic)
			if err != nil {
				got = err.Error()
			}
			if err == nil && got != want || !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", told, got, want)
			}
		}
		if Publishes(told) != (strings.Contains(want, "tcp://") || strings.Contains(want, "ipc://")) {
			t.Errorf("%s: publishes %v", told, Publishes(told))
		}
	}
	if _, err := fromSettings(Target{URL: "http://10.1.2.3:30000", Rank: -1, Ranks: 4, Told: `"` + zmq + `}"`}); err == nil || !strings.Contains(err.Error(), "4 data-parallel ranks") {
		t.Errorf("four ranks that are one worker: %v", err)
	}
	if Publishes("") {
		t.Error("an engine that tells nothing publishes")
	}
}

func FuzzSources(f *testing.F) {
	for _, s := range []string{
		`{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":null}}`, `[{"data_parallel_rank":1,"endpoint":"tcp://[::1]:1"}]`, `{"sources":{"sources":[]}}`,
		`"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:65535\"}"`, `{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":7001}`, `"\"{}\""`, `null`,
	} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, said string, rank int) {
		defer leash.Hold(t, len(said))()
		at := Target{URL: "http://10.1.2.3:8000", Rank: rank, Told: said}
		told, err := fromSettings(at)
		if err == nil && (told.Endpoint == "" || !Publishes(said)) {
			t.Errorf("%q: %+v", said, told)
		}
		if told, err = parseSources([]byte(said), at); err == nil && told.Endpoint == "" {
			t.Errorf("%q: %+v", said, told)
		}
	})
}

func TestTheEngineItselfTellsWhereItPublishes(t *testing.T) {
	e := startEngine(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/kv_event_sources" || r.Header.Get("Authorization") != "Bearer k" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"0":{"endpoint":%q,"replay_endpoint":%q}}`, strings.Replace(e.pub.Endpoint(), "127.0.0.1", "*", 1), e.replay.Endpoint())
	}))
	defer web.Close()
	o := quick()
	o.Client = web.Client()
	m, x := manager(t, o)
	m.Follow(Target{ID: "a", URL: web.URL, Key: "k", Rank: -1, Model: "m"})
	e.store(1, 1, 6)
	until(t, "the message", func() bool { return depth(x, 0, 1, 6) == 6 })
}

func TestTensorRTLLMIsPolled(t *testing.T) {
	answers := make(chan string, 8)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case a := <-answers:
			_, _ = w.Write([]byte(a))
		default:
			_, _ = w.Write([]byte("[]"))
		}
	}))
	defer web.Close()
	tokens, keys, _ := chain(1, 2)
	list := func(t []uint32) string {
		var all []string
		for _, id := range t {
			all = append(all, fmt.Sprintf(`{"type":"unique_token","token_id":%d,"token_extra_id":0}`, id))
		}
		return strings.Join(all, ",")
	}
	stored := fmt.Sprintf(`[{"event_id":0,"window_size":512,"data":{"type":"created","num_blocks_per_cache_level":[10,0]}},
		{"event_id":1,"window_size":512,"data":{"type":"stored","parent_hash":null,"blocks":[
		{"block_hash":18446744073709551615,"tokens":[%s],"cache_level":0,"priority":35},{"block_hash":8,"tokens":[%s],"cache_level":0},{"block_hash":9,"tokens":[%s],"cache_level":0}]}}]`,
		list(tokens[:block]), list(tokens[block:]), list(tokens[:1]))
	o := quick()
	o.Client = web.Client()
	m, x := manager(t, o)
	m.Follow(Target{ID: "a", URL: web.URL, Rank: -1, Model: "m", Engine: "tensorrt-llm"})
	check := func(what string, d, fast int32) {
		t.Helper()
		until(t, what, func() bool {
			got := x.Match(keys, kvindex.Match{})
			return got.Depth[0] == d && got.Fast[0] == fast
		})
	}
	answers <- stored
	check("stored", 2, 2)
	answers <- `[{"event_id":2,"window_size":512,"data":{"type":"updated","block_hash":8,"cache_level":{"type":"event_diff","new_value":1,"old_value":0}}}]`
	check("moved to the host", 2, 1)
	answers <- `[{"event_id":3,"window_size":128,"data":{"type":"removed","block_hashes":[8]}},{"event_id":4,"window_size":512,"data":{"type":"removed","block_hashes":[8,9]}}]`
	check("removed", 1, 1)
	answers <- `[{"event_id":6,"window_size":512,"data":{"type":"removed","block_hashes":[1]}}]`
	check("a number was missing", -1, 0)
	answers <- `[{"event_id":0,"window_size":512,"data":{"type":"created","num_blocks_per_cache_level":[10,0]}}]`
	check("begun anew", 0, 0)
}

func TestThatNothingIsPublishedIsAWarningOnlyWhereItWasExpected(t *testing.T) {
	f := func(target Target, template string, before int, err error, want string) {
		t.Helper()
		var said strings.Builder
		o := Options{Template: template, Hints: map[string]string{"vllm": "start it so"}, Log: slog.New(slog.NewTextHandler(&said, nil))}.withDefaults()
		one := &feed{target: target, o: &o, epoch: before}
		one.failed(err)
		one.failed(err)
		if got := said.String(); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%+v: %q instead of one %s", target, got, want)
		}
	}
	f(Target{Engine: "vllm"}, "", 0, errNoSource, `level=INFO msg="no cache events: it is taken to have cached what it was sent" worker="" why="no endpoint`)
	f(Target{Engine: "vllm"}, "", 0, errNoSource, `to_gain="start it so"`)
	f(Target{Engine: "vllm", Events: "tcp://h:1"}, "", 0, errNoSource, "level=WARN")
	f(Target{Engine: "vllm"}, "tcp://{host}:5557", 0, errNoSource, "level=WARN")
	f(Target{Engine: "vllm"}, "", 1, errNoSource, "level=WARN")
	f(Target{Engine: "vllm"}, "", 0, severalRanks(2), "level=WARN")
}
