package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// handlers is short for the answers of one engine.
type handlers = map[string]http.HandlerFunc

func describe(i fleet.Info) string {
	s := fmt.Sprintf("%s %q block %d kv %d slots %d usage %v:", i.Engine, i.Version, i.BlockTokens, i.KVTokensMax, i.SlotsMax, i.UsageOption)
	for _, m := range i.Models {
		s += fmt.Sprintf(" %s/%d", m.ID, m.ContextMax)
		if m.Parent != "" {
			s += "<" + m.Parent
		}
		for _, a := range m.Aliases {
			s += "=" + a
		}
	}
	if i.SharesSteps {
		s += ", shares its steps"
	}
	return s
}

func TestEnginesAreRecognisedByTheirOwnAnswers(t *testing.T) {
	list := func(owner, more string) http.HandlerFunc {
		return says(fmt.Sprintf(`{"object":"list","data":[{"id":"m","owned_by":%q%s}]}`, owner, more))
	}
	for _, c := range []struct {
		what    string
		answers handlers
		want    string
	}{
		{"vLLM, recorded", handlers{"/v1/models": recorded(t, "vllm/models.json"), "/version": recorded(t, "vllm/version.json"), "/metrics": recorded(t, "vllm/metrics_saturated.txt")},
			`vllm "0.32.0" block 32 kv 16384 slots 0 usage true: tiny/8192`},
		{"vLLM with an adapter and its metrics away", handlers{"/v1/models": says(`{"data":[{"id":"m","owned_by":"vllm","max_model_len":4096,"parent":null},{"id":"ad","owned_by":"vllm","max_model_len":null,"parent":"m"}]}`)},
			`vllm "" block 0 kv 0 slots 0 usage true: m/4096 ad/0<m`},
		{"llama.cpp, recorded", handlers{"/v1/models": recorded(t, "llamacpp/models.json"), "/props": recorded(t, "llamacpp/props.json"), "/metrics": recorded(t, "llamacpp/metrics.txt")},
			`llama.cpp "b1-571d0d5" block 0 kv 0 slots 4 usage true: smollm2/8192, shares its steps`},
		{"llama.cpp behind a key that we lack", handlers{"/v1/models": recorded(t, "llamacpp/models.json"), "/props": status(401), "/metrics": status(401)},
			`llama.cpp "" block 0 kv 0 slots 0 usage true: smollm2/8192, shares its steps`},
		{"llama.cpp with several models", handlers{"/v1/models": recorded(t, "llamacpp/router_models.json")},
			`llama.cpp "" block 0 kv 0 slots 0 usage true: smol-a/0 smol-b/0, shares its steps`},
		{"the simulated engine", handlers{"/v1/models": list("warmpath-sim", `,"max_model_len":131072`), "/version": says(`{"version":"0.0.0+warmpath-sim","max_num_seqs":256}`),
			"/metrics": says("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"25000\",kv_cache_size_tokens=\"400000\"} 1\nvllm:num_requests_running 0\n")},
			`warmpath "0.0.0+warmpath-sim" block 16 kv 400000 slots 256 usage true: m/131072`},
		{"SGLang", handlers{"/v1/models": list("sglang", `,"max_model_len":32768`)}, `sglang "" block 0 kv 0 slots 0 usage true: m/32768`},
		{"Ollama", handlers{"/v1/models": list("library", ""), "/api/version": says(`{"version":"0.9.1"}`)}, `ollama "0.9.1" block 0 kv 0 slots 0 usage true: m/0`},
		{"vLLM's metrics under a list signed by somebody else", handlers{"/v1/models": list("acme", ""), "/metrics": load(1, 0, 0)}, `vllm "" block 0 kv 0 slots 0 usage true: m/0`},
		{"llama.cpp's metrics likewise", handlers{"/v1/models": list("acme", ""), "/metrics": recorded(t, "llamacpp/metrics.txt")}, `llama.cpp "" block 0 kv 0 slots 0 usage true: m/0, shares its steps`},
		{"anything else", handlers{"/v1/models": list("acme", `,"max_model_len":"odd"`), "/metrics": says("up 1\n")}, `openai "" block 0 kv 0 slots 0 usage false: m/0`},
	} {
		info, err := Detect(t.Context(), Target{URL: newFake(c.answers).listen(t) + "/v1/"})
		if err != nil || describe(info) != c.want || info.At.IsZero() {
			t.Errorf("%s: %s, %v\nwant %s", c.what, describe(info), err, c.want)
		}
	}
}

func TestWhatIsNoEngineSaysWhy(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	closed.Close()
	for _, c := range []struct {
		what, url, want string
		unreachable     bool
	}{
		{"nobody", nobody, "connection refused", true},
		{"a wrong key", newFake(handlers{"/v1/models": needsKey("right", says(listOfM))}).listen(t), "set the worker's key", false},
		{"still loading", newFake(handlers{"/v1/models": status(503)}).listen(t), "status 503", false},
		{"another server", newFake(nil).listen(t), "status 404", false},
		{"a page", newFake(handlers{"/v1/models": says("<html>")}).listen(t), "invalid character", false},
		{"no models", newFake(handlers{"/v1/models": says(`{"data":[]}`)}).listen(t), "lists no models", false},
		{"a redirect, not followed", newFake(handlers{"/v1/models": http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP}).listen(t), "status 302", false},
		{"no URL", "://", "missing protocol scheme", false},
	} {
		_, err := Detect(t.Context(), Target{URL: c.url, Key: "wrong"})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.Unreachable() != c.unreachable || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

func TestTheKeyGoesToEveryEndpoint(t *testing.T) {
	f := newFake(handlers{"/v1/models": needsKey("k", says(listOfM)), "/version": needsKey("k", says(`{"version":"1"}`)),
		"/metrics": needsKey("k", says("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"10\"} 1\n"))})
	info, err := Detect(t.Context(), Target{URL: f.listen(t), Key: "k"})
	if err != nil || info.KVTokensMax != 160 || info.Version != "1" || len(f.keys) != 1 {
		t.Errorf("%s, %v; keys %v", describe(info), err, f.keys)
	}
}

func TestAnEndlessAnswerIsCutAtItsBound(t *testing.T) {
	f := fakeVLLM()
	endless := func(w http.ResponseWriter, r *http.Request) {
		chunk := []byte(strings.Repeat("a 1\n", 8<<10))
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	o := (&Options{BodyBytesMax: 1 << 20, Timeout: time.Minute}).withDefaults()
	c := newClient(Target{URL: f.listen(t)}, &o)
	defer c.close()
	f.set("/metrics", endless)
	if _, err := scrapeVLLM(t.Context(), c, nil, o.BodyBytesMax); err == nil || !strings.Contains(err.Error(), "longer than 1048576 bytes") {
		t.Errorf("metrics: %v", err)
	}
	f.set("/v1/models", endless)
	if _, err := detect(t.Context(), c, o.BodyBytesMax); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("models: %v", err)
	}
}

func TestLlamacppWithoutItsMetricsTellsWhatRunsByItsSlots(t *testing.T) {
	f := newFake(handlers{"/metrics": status(501), "/slots": recorded(t, "llamacpp/slots_busy.json")})
	o := Options{}.withDefaults()
	c := newClient(Target{URL: f.listen(t)}, &o)
	defer c.close()
	p, err := scrapeLlamacpp(t.Context(), c, nil, o.BodyBytesMax)
	if err != nil || p.counts.Running != 2 || p.counts.Has != fleet.HasRunning {
		t.Errorf("%+v, %v", p.counts, err)
	}
	f.set("/slots", status(501))
	var e *Error
	if _, err = scrapeLlamacpp(t.Context(), c, nil, o.BodyBytesMax); !errors.As(err, &e) || e.Path != "/metrics" || !e.absent() {
		t.Errorf("neither: %v", err)
	}
}

func TestAProbeFindsTheEnginesThatAnswer(t *testing.T) {
	a, silent, b := fakeVLLM().listen(t), newFake(handlers{"/v1/models": hangs}).listen(t), newFake(handlers{"/v1/models": recorded(t, "llamacpp/models.json")}).listen(t)
	other := newFake(nil).listen(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	found := Probe(ctx, []string{a, silent, "http://127.0.0.1:1", other, b})
	if len(found) != 2 || found[0].URL != a || found[0].Info.Engine != "vllm" || found[1].URL != b || found[1].Info.Engine != "llama.cpp" {
		t.Errorf("found %+v", found)
	}
}
