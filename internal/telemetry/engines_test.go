package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

// examined is what an engine behind those answers is found to be and to count, in words.
func examined(t *testing.T, answers handlers, rank string) string {
	t.Helper()
	o := DefaultOptions()
	e := NewExaminer(Target{ID: "w", URL: newFake(answers).listen(t), Rank: rank}, o)
	defer e.Close()
	if _, err := e.Identify(context.Background()); err != nil {
		return err.Error()
	}
	c, info, err := e.Counts(context.Background())
	s := describe(info) + " |"
	for _, part := range []struct {
		has  fleet.Has
		text string
	}{{fleet.HasRunning, fmt.Sprint(" running ", c.Running)}, {fleet.HasWaiting, fmt.Sprint(" waiting ", c.Waiting)}, {fleet.HasKVUsage, fmt.Sprintf(" kv %.3f", c.KVUsage)},
		{fleet.HasPrefixCache, fmt.Sprint(" hits ", c.PrefixHits, " of ", c.PrefixQueries)}} {
		if c.Has&part.has != 0 {
			s += part.text
		}
	}
	if err != nil {
		s += " " + err.Error()
	}
	return s
}

func TestEveryEngineIsReadInItsOwnWords(t *testing.T) {
	const llama = "meta-llama/Llama-3.1-8B-Instruct"
	sglangAnswers := func(more handlers) handlers {
		h := handlers{"/v1/models": recorded(t, "sglang/models.json"), "/get_server_info": recorded(t, "sglang/server_info.json"), "/metrics": recorded(t, "sglang/metrics.txt")}
		for path, answer := range more {
			h[path] = answer
		}
		return h
	}
	tensorrtAnswers := func(prometheus, metrics http.HandlerFunc) handlers {
		return handlers{"/v1/models": recorded(t, "tensorrt/models.json"), "/version": says(`{"version":"1.2.0"}`), "/prometheus/metrics": prometheus, "/metrics": metrics}
	}
	const page = `tensorrt-llm "1.2.0" block 64 kv 64000 slots 0 usage true: Llama-3.1-8B-Instruct/0 | running 5 waiting 3 kv 0.600 hits 6000 of 8000`
	for _, c := range []struct {
		what    string
		answers handlers
		rank    string
		want    string
	}{
		{"SGLang with two ranks", sglangAnswers(nil), "",
			`sglang "0.5.12" block 64 kv 524288 slots 256 usage true: ` + llama + `/131072 | running 20 waiting 3 kv 0.375 hits 3000 of 5000`},
		{"the second of them", sglangAnswers(nil), "1",
			`sglang "0.5.12" block 64 kv 262144 slots 128 usage true: ` + llama + `/131072 | running 4 waiting 0 kv 0.250 hits 3000 of 5000`},
		{"SGLang without --enable-metrics", sglangAnswers(handlers{"/metrics": status(404), "/get_load": recorded(t, "sglang/load.json")}), "",
			`sglang "0.5.12" block 64 kv 524288 slots 256 usage true: ` + llama + `/131072 | running 6 waiting 2`},
		{"a rank of it", sglangAnswers(handlers{"/metrics": status(404), "/get_load": recorded(t, "sglang/load.json")}), "1",
			`sglang "0.5.12" block 64 kv 262144 slots 128 usage true: ` + llama + `/131072 | running 1 waiting 0`},
		{"SGLang that tells nothing", sglangAnswers(handlers{"/metrics": status(404), "/get_server_info": status(404)}), "",
			`sglang "" block 0 kv 0 slots 0 usage true: ` + llama + `/131072 | GET /metrics: status 404`},
		{"SGLang whose settings moved", sglangAnswers(handlers{"/get_server_info": status(404), "/server_info": recorded(t, "sglang/server_info.json"), "/metrics": says("sglang:num_running_reqs 1\n")}), "",
			`sglang "0.5.12" block 64 kv 524288 slots 256 usage true: ` + llama + `/131072 | running 1`},
		{"SGLang whose tensor ranks all speak", sglangAnswers(handlers{"/metrics": says("sglang:num_running_reqs{tp_rank=\"0\"} 9\nsglang:num_running_reqs{tp_rank=\"1\"} 9\n" +
			"sglang:max_total_num_tokens{tp_rank=\"1\"} 1000\nsglang:max_total_num_tokens{tp_rank=\"0\"} 1000\n")}), "",
			`sglang "0.5.12" block 64 kv 1000 slots 256 usage true: ` + llama + `/131072 | running 9`},
		{"an old SGLang", sglangAnswers(handlers{"/metrics": says("sglang:cache_config_info{page_size=\"16\",num_pages=\"100\"} 1\nsglang:num_running_reqs 1\n")}), "",
			`sglang "0.5.12" block 16 kv 1600 slots 256 usage true: ` + llama + `/131072 | running 1`},
		{"TensorRT-LLM", tensorrtAnswers(recorded(t, "tensorrt/prometheus.txt"), says("[]")), "", page},
		{"TensorRT-LLM without perf metrics", tensorrtAnswers(status(404), recorded(t, "tensorrt/iterations.json")), "",
			`tensorrt-llm "1.2.0" block 64 kv 128000 slots 0 usage true: Llama-3.1-8B-Instruct/0 | running 7 waiting 3 kv 0.400`},
		{"a rank of it", tensorrtAnswers(status(404), recorded(t, "tensorrt/iterations.json")), "1",
			`tensorrt-llm "1.2.0" block 64 kv 64000 slots 0 usage true: Llama-3.1-8B-Instruct/0 | running 2 waiting 0 kv 0.200`},
		{"TensorRT-LLM with only requests on its page", tensorrtAnswers(says("trtllm_prompt_tokens_total 10\n"), recorded(t, "tensorrt/iterations.json")), "",
			`tensorrt-llm "1.2.0" block 64 kv 128000 slots 0 usage true: Llama-3.1-8B-Instruct/0 | running 7 waiting 3 kv 0.400`},
		{"TensorRT-LLM with no iteration to tell", tensorrtAnswers(status(404), says("[]")), "", `tensorrt-llm "1.2.0" block 0 kv 0 slots 0 usage true: Llama-3.1-8B-Instruct/0 |`},
		{"TensorRT-LLM with odd numbers", tensorrtAnswers(status(404), says(`[{"numActiveRequests":-1,"numQueuedRequests":1e12,"kvCacheStats":{"maxNumBlocks":-5}}]`)), "",
			`tensorrt-llm "1.2.0" block 0 kv 0 slots 0 usage true: Llama-3.1-8B-Instruct/0 |`},
		{"Ollama", handlers{"/v1/models": recorded(t, "ollama/models.json"), "/api/version": says(`{"version":"0.12.6"}`), "/api/ps": recorded(t, "ollama/ps.json")}, "",
			`ollama "0.12.6" block 0 kv 0 slots 0 usage true: qwen3:8b/8192 hf.co/acme/tiny:latest/0 | this kind of engine is not asked for its counts`},
		{"Ollama with a model of somebody's own first", handlers{"/v1/models": says(`{"data":[{"id":"a/b","owned_by":"a"}]}`), "/api/version": says(`{"version":"0.12.6"}`)}, "",
			`ollama "0.12.6" block 0 kv 0 slots 0 usage true: a/b/0 | this kind of engine is not asked for its counts`},
		{"LM Studio", handlers{"/v1/models": recorded(t, "lmstudio/models.json"), "/api/v0/models": recorded(t, "lmstudio/api_models.json")}, "",
			`lm-studio "" block 0 kv 0 slots 0 usage false: qwen3-8b/8192 gemma-3-4b/32768 | this kind of engine is not asked for its counts`},
		{"LM Studio under another owner", handlers{"/v1/models": says(`{"data":[{"id":"qwen3-8b","owned_by":"x"}]}`), "/api/v0/models": recorded(t, "lmstudio/api_models.json")}, "",
			`lm-studio "" block 0 kv 0 slots 0 usage false: qwen3-8b/8192 | this kind of engine is not asked for its counts`},
		{"vLLM with two ranks, the second", handlers{"/v1/models": says(listOfM), "/metrics": says("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 8\nvllm:num_requests_running{engine=\"1\",model_name=\"m\"} 2\n")}, "1",
			`vllm "" block 0 kv 0 slots 0 usage true: m/4096 | running 2`},
		{"a plain server", handlers{"/v1/models": says(`{"data":[{"id":"m"}]}`)}, "", `openai "" block 0 kv 0 slots 0 usage false: m/0 | this kind of engine is not asked for its counts`},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := examined(t, c.answers, c.rank); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAnEngineWithNothingNewToTellHasNotFailed(t *testing.T) {
	var n news
	f := newFake(handlers{"/v1/models": recorded(t, "tensorrt/models.json"), "/metrics": says("[]")})
	w := newWatch(Target{ID: "w", URL: f.listen(t)}, ptr(n.options(DefaultOptions()).withDefaults()))
	defer w.client.close()
	w.round(context.Background())
	if got := n.order("w"); got != " info" {
		t.Errorf("told%s, want the engine alone", got)
	}
}

func ptr[T any](v T) *T { return &v }

func TestWhatSGLangSaysOfItsCacheEventsIsKeptAsItSaysIt(t *testing.T) {
	const config, resolved = `"{\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:5557\"}"`, `{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557}`
	for settings, want := range map[string]string{
		`"kv_events_config":` + config + `,"kv_events":` + resolved: config,
		`"kv_events_config":` + config:                              config,
		`"kv_events":` + resolved:                                   resolved,
		`"kv_events_config":null,"kv_events":null`:                  "",
		`"kv_events_config":"` + strings.Repeat("x", 5000) + `"`:    "",
		`"page_size":1`: "",
	} {
		e := NewExaminer(Target{ID: "w", URL: newFake(handlers{"/v1/models": recorded(t, "sglang/models.json"), "/get_server_info": says("{" + settings + "}")}).listen(t)}, DefaultOptions())
		if info, err := e.Identify(context.Background()); err != nil || info.Events != want || info.Ranks != 1 {
			t.Errorf("%s: %q of %d ranks, %v, want %q", settings, info.Events, info.Ranks, err, want)
		}
		e.Close()
	}
}

func TestTheModelsPathIsAsTheEngineNamesIt(t *testing.T) {
	for _, c := range []struct {
		what    string
		answers handlers
		want    string
	}{
		{"vLLM", handlers{"/v1/models": says(`{"data":[{"id":"lora","root":"/adapters/l","parent":"m","owned_by":"vllm"},{"id":"m","root":"/models/m","owned_by":"vllm"}]}`), "/version": says(`{"version":"0.32.0"}`)}, "/models/m"},
		{"SGLang", handlers{"/v1/models": recorded(t, "sglang/models.json"), "/get_server_info": says(`{"model_path":"/m","tokenizer_path":"/t"}`)}, "/t"},
		{"SGLang that tells its settings to nobody", handlers{"/v1/models": says(`{"data":[{"id":"m","root":"org/m","owned_by":"sglang"}]}`), "/get_server_info": status(404)}, "org/m"},
		{"llama.cpp", handlers{"/v1/models": recorded(t, "llamacpp/models.json"), "/props": recorded(t, "llamacpp/props.json")}, "SmolLM2-135M-Instruct.Q4_1.gguf"},
		{"a path that is none", handlers{"/v1/models": says(`{"data":[{"id":"m","root":"/` + strings.Repeat("x", pathBytesMax) + `","owned_by":"vllm"}]}`)}, ""},
	} {
		e := NewExaminer(Target{ID: "w", URL: newFake(c.answers).listen(t)}, DefaultOptions())
		info, err := e.Identify(context.Background())
		if err != nil || info.Path != c.want {
			t.Errorf("%s: %.60q %v", c.what, info.Path, err)
		}
		e.Close()
	}
}
