package config

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/leash"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/strict"
)

var update = flag.Bool("update", false, "write the generated documents")

func noEnv(string) (string, bool) { return "", false }

func env(pairs map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := pairs[name]; return v, ok }
}

func TestDefaultIsComplete(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestAnEmptyFileIsTheDefault(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "{}"} {
		c, err := Parse("w.yaml", []byte(text), noEnv)
		if err != nil || !reflect.DeepEqual(c, Default()) {
			t.Errorf("%q: %v, %+v", text, err, c)
		}
	}
}

const everySetting = `
listen: 0.0.0.0:80
admin: ""
workers:
  - HTTP://GPU-1:80/
  - url: https://gpu-2:443
    id: b
    key: ${env.K}
    in_flight_max: 64
    ranks: 2
    gpu_metrics: http://gpu-2:9400
    gpus: "0, 1"
    model: m
  - {url: http://gpu-4, events: "bind+tcp://*:5557", replay: "tcp://gpu-4:5558"}
  - {url: "http://[::1]:9000"}
  - http://front/gpu/3/
policy: least-tokens
drain_timeout: 1m30s
drain_delay: 5s
handover_timeout: 2m
timeouts: {connect: 1s, header: 0, idle_gap: "${env.GAP}", client: 90s}
body_bytes_max: 1GiB
bodies_bytes_max: 3GiB
body_spool_bytes: 1MiB
body_spool_dir: /var/tmp
cors: {origins: [https://chat.example.com, "http://localhost:3000"]}
retries_max: 0
in_flight_max: ${env.N}
inject_usage: ${env.OFF}
explain_headers: true
access_log: true
log_level: debug
log_format: json
decision_log: {file: "a$${b}.jsonl", bytes_max: 1048576, files_max: 2, compress: zstd, text: true}
index_bytes_max: 10MB
queue: {enabled: false, classes: [{name: a, order: fcfs, wait_max: 1m, ceiling: 0.5, shed_from: 0.25}, b], class: b, requests_max: 5, bytes_max: 1MiB, work_max: 1m, tenant_room: 2, ahead: 1s, size_multiple: 3, age_after: 1s, aged_share: 0.1, depth: 2s, reserve: 0.5, hold: 3s, body_priority: refuse, engine_priority: true, tell_position: 5s, heavy: {seconds: 4, multiple: 5, floor_seconds: 0.5, lanes_max: 2, light_share: 0}}
tenants: {file: /etc/tenants.yaml}
exact: {tokenizers: [{model: m, path: /models/m}], events: "tcp://{host}:5557", index_bytes_max: 8MiB, tokens_timeout: 20ms, tokens_in_flight_max: 4, cache_bytes_max: 2MiB}
telemetry: {interval: 2s, timeout: 3s, stale_after: 9s}
traces: {endpoint: "https://otel:4318", protocol: grpc, headers: [{name: a, value: b}], tls: {ca: /ca}, sample: 0.5, clients_decide: false}
dash: {decisions_max: 50, decisions_bytes_max: 2MiB, listeners_max: 3, show_text: true}
ghosts: {enabled: false, bytes_max: 4MiB, sample: 0.25}
state_dir: /var/lib/warmpath
state_max_age: 20m
discovery:
  file: /etc/workers.yaml
  dns: ["https://engines.internal:8443", {name: _http._tcp.engines, server: 10.0.0.53:53, family: ipv6, every: 5s, labels: [pool=x]}]
  http: ["http://inventory/workers", {url: "https://inventory", key: k, every: 1m}]
  kubernetes: [llm/vllm:http, "app.kubernetes.io/name=vllm:8000,8001", {service: s, namespace: n, kubeconfig: /k, context: c, resync: 30s, scheme: https, ports: [a]}]
  register: true
  heartbeats_missed: 5
  forget_after: 1m
  stale_after: 5m
  workers_max: 9
ejection: {after: 5, first: 2s, max: 2m, probes: 2, slow_start: 0, window: 1m, window_min: 30, share_max: 0.1, strict: true, canary: 30s}
`

func TestEverySettingArrives(t *testing.T) {
	got, err := Parse("w.yaml", []byte(everySetting), env(map[string]string{"K": "s3cret: x", "GAP": "7m", "N": "12", "OFF": "false"}))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Listen: "0.0.0.0:80",
		Workers: []Worker{
			{URL: "http://gpu-1", ID: "gpu-1"},
			{URL: "https://gpu-2", ID: "b", Key: "s3cret: x", InFlightMax: 64, Ranks: 2, GPUMetrics: "http://gpu-2:9400", GPUs: "0, 1", Model: "m"},
			{URL: "http://gpu-4", ID: "gpu-4", Events: "bind+tcp://*:5557", Replay: "tcp://gpu-4:5558"},
			{URL: "http://[::1]:9000", ID: "[::1]:9000"},
			{URL: "http://front/gpu/3", ID: "front-gpu-3"},
		},
		Isolate: IsolateNone, Policy: "least-tokens", DrainTimeout: 90 * time.Second, DrainDelay: 5 * time.Second, HandoverTime: 2 * time.Minute, Timeouts: Timeouts{Connect: time.Second, IdleGap: 7 * time.Minute, Client: 90 * time.Second},
		BodiesBytesMax: 3 << 30, BodySpoolBytes: 1 << 20, BodySpoolDir: "/var/tmp", BodySpoolMax: 16 << 30, MemoryMax: "auto", LogLinesMax: 60, CORS: CORS{Origins: []string{"https://chat.example.com", "http://localhost:3000"}}, BodyBytesMax: 1 << 30, InFlightMax: 12, ExplainHeaders: true, AccessLog: true, LogLevel: "debug", LogFormat: "json",
		DecisionLog: DecisionLog{File: "a${b}.jsonl", BytesMax: 1 << 20, FilesMax: 2, Compress: "zstd", Text: true}, IndexBytesMax: 10e6,
		Queue: Queue{Classes: []Class{{Name: "a", Order: "fcfs", WaitMax: time.Minute, Ceiling: 0.5, ShedFrom: 0.25}, {Name: "b", Order: "shortest", WaitMax: 10 * time.Minute, Ceiling: 0.5, ShedFrom: 1}}, Class: "b", BodyPriority: "refuse", EnginePriority: true, TellPosition: 5 * time.Second, RequestsMax: 5, BytesMax: 1 << 20, WorkMax: time.Minute,
			TenantRoom: 2, Ahead: time.Second, SizeMultiple: 3, AgeAfter: time.Second, AgedShare: 0.1, Depth: 2 * time.Second, Reserve: 0.5, Hold: 3 * time.Second, PreemptedMax: 2, Heavy: Heavy{4, 5, 0.5, 2, 0}},
		Tenants: Tenants{File: "/etc/tenants.yaml"}, Exact: Exact{Tokenizers: []ModelFiles{{"m", "/models/m"}}, Events: "tcp://{host}:5557", IndexBytesMax: 8 << 20, TokensTimeout: 20 * time.Millisecond, TokensMax: 4, CacheBytesMax: 2 << 20},
		Telemetry: Telemetry{Interval: 2 * time.Second, Timeout: 3 * time.Second, StaleAfter: 9 * time.Second}, Dash: Dash{DecisionsMax: 50, DecisionsBytesMax: 2 << 20, ListenersMax: 3, ShowText: true}, Ghosts: Ghosts{BytesMax: 4 << 20, Sample: 0.25},
		Traces: Traces{"https://otel:4318", "grpc", []TraceHeader{{"a", "b"}}, certs.WorkerFiles{CA: "/ca"}, 0.5, false}, StateDir: "/var/lib/warmpath", StateMaxAge: 20 * time.Minute,
		Discovery: Discovery{File: "/etc/workers.yaml",
			DNS:  []DNSSource{{Name: "engines.internal", Port: 8443, Scheme: "https"}, {Name: "_http._tcp.engines", Server: "10.0.0.53:53", Family: "ipv6", Every: 5 * time.Second, Labels: []string{"pool=x"}}},
			HTTP: []HTTPSource{{URL: "http://inventory/workers"}, {URL: "https://inventory", Key: "k", Every: time.Minute}},
			Kubernetes: []KubernetesSource{{Service: "vllm", Namespace: "llm", Ports: []string{"http"}}, {Selector: "app.kubernetes.io/name=vllm", Ports: []string{"8000", "8001"}},
				{Service: "s", Namespace: "n", Kubeconfig: "/k", Context: "c", Resync: 30 * time.Second, Scheme: "https", Ports: []string{"a"}}},
			Register: true, HeartbeatsMissed: 5, ForgetAfter: time.Minute, StaleAfter: 5 * time.Minute, WorkersMax: 9},
		Ejection: Ejection{After: 5, First: 2 * time.Second, Max: 2 * time.Minute, Probes: 2, Window: time.Minute, WindowMin: 30, ShareMax: 0.1, Strict: true, Canary: 30 * time.Second},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

var wrongSettings = []struct{ text, want string }{
	{"polcy: random", "w.yaml:1: polcy: unknown key; did you mean policy?"},
	{"drain-timeout: 1s", "w.yaml:1: drain-timeout: unknown key; did you mean drain_timeout?"},
	{"bodyBytesMax: 1", "w.yaml:1: bodyBytesMax: unknown key; did you mean body_bytes_max?"},
	{"timeouts:\n  conect: 1s", "w.yaml:2: timeouts.conect: unknown key; did you mean timeouts.connect?"},
	{"workers:\n- url: http://a\n  in_flght_max: 3", "w.yaml:3: workers[0].in_flght_max: unknown key; did you mean workers[0].in_flight_max?"},
	{"connect: 1s", "w.yaml:1: connect: unknown key here; did you mean timeouts.connect?"},
	{"ejection: {policy: random}", "w.yaml:1: ejection.policy: unknown key here; did you mean policy?"},
	{"zzzzzzzzzz: 1", "w.yaml:1: zzzzzzzzzz: unknown key; known here: listen, admin"},
	{"? [a]\n: 1", "w.yaml:1: unknown key"},
	{"listen: 127.0.0.1:1\nlisten: 127.0.0.1:2", "w.yaml:2: listen: stands twice, first on line 1; keep one"},
	{"timeouts: &t {connect: 1s}\nejection:\n  <<: *t", "w.yaml:3: ejection.<<: merge keys are not supported"},
	{"policy: 5", `w.yaml:1: policy: wants a text, not the number "5"; put it in quotes if it is meant`},
	{"policy: [a]", "w.yaml:1: policy: wants a text, not a list"},
	{"workers: http://a", "w.yaml:1: workers: wants a list"},
	{"workers: {url: http://a}", "w.yaml:1: workers: wants a list"},
	{"workers: [[http://a]]", "w.yaml:1: workers[0]: wants keys and values, not a list"},
	{"timeouts: 5s", "w.yaml:1: timeouts: wants keys and values, not the text"},
	{"- a", "w.yaml:1: wants keys and values, not a list"},
	{"retries_max: two", `w.yaml:1: retries_max: wants a whole number, not the text "two"`},
	{"retries_max: 1.5", `w.yaml:1: retries_max: wants a whole number, not the number "1.5"`},
	{"retries_max: \"2\"", `w.yaml:1: retries_max: wants a whole number, not the text "2"`},
	{"access_log: yes", `w.yaml:1: access_log: wants true or false, not the text "yes"`},
	{"access_log: 1", `w.yaml:1: access_log: wants true or false, not the number "1"`},
	{"workers:", "w.yaml:1: workers: has no value; give it one or take the key out"},
	{"drain_timeout: -5s", "w.yaml:1: drain_timeout: -5s is below the least, 0s"},
	{"timeouts:\n  idle_gap: -1m", "w.yaml:2: timeouts.idle_gap: -1m0s is below the least, 0s"},
	{"telemetry: {interval: 1ms}", "w.yaml:1: telemetry.interval: 1ms is below the least, 50ms"},
	{"drain_timeout: 30", "w.yaml:1: drain_timeout: 30 has no unit; write 30s, 30ms or 30m"},
	{"drain_timeout: 1.5", "w.yaml:1: drain_timeout: 1.5 has no unit"},
	{"drain_timeout: soon", `w.yaml:1: drain_timeout: "soon" is no duration`},
	{"drain_timeout: {s: 5}", "w.yaml:1: drain_timeout: wants a duration such as 30s, not keys and values"},
	{"body_bytes_max: -1", "w.yaml:1: body_bytes_max: -1 is negative"},
	{"body_bytes_max: big", `w.yaml:1: body_bytes_max: "big" is no size`},
	{"body_bytes_max: 9000000TiB", "w.yaml:1: body_bytes_max: 9000000TiB is more than any machine has"},
	{"retries_max: -1", "w.yaml:1: retries_max: -1 is below the least, 0"},
	{"ejection: {after: 0}", "w.yaml:1: ejection.after: 0 is below the least, 1"},
	{"workers: [http://a, {url: http://a/}]", "w.yaml:1: workers[1].url: http://a is workers[0] already"},
	{"workers:\n- http://a:80\n- HTTP://A", "w.yaml:3: workers[1].url: http://a is workers[0] already"},
	{"workers: [{url: http://a, id: x}, {url: http://b, id: x}]", `w.yaml:1: workers[1].id: "x" is the id of workers[0] already`},
	{"workers: [{url: http://a, id: 'x y'}]", `w.yaml:1: workers[0].id: "x y" may have letters`},
	{"workers: [{id: x}]", `w.yaml:1: workers[0].url: "" is no worker address`},
	{"workers: [gpu-1:8000]", `w.yaml:1: workers[0].url: "gpu-1:8000" is no worker address; write http://host:port`},
	{"workers: [http://a/v1]", "w.yaml:1: workers[0].url: http://a/v1: leave out /v1"},
	{"workers: [http://a/x/v1/]", "w.yaml:1: workers[0].url: http://a/x/v1/: leave out /v1"},
	{"workers: ['http://127.0.0.1:8800']", "is this router's own listen address"},
	{"listen: ':8800'\nadmin: ''\nworkers: ['http://localhost:8800']", "w.yaml:3: workers[0].url: http://localhost:8800 is this router's own listen address"},
	{"workers: [{url: http://a, key: \"k\\n\"}]", "w.yaml:1: workers[0].key: has a line break"},
	{"policy: warm_cost", `w.yaml:1: policy: "warm_cost" is not known; did you mean warm-cost?`},
	{"policy: magic", `w.yaml:1: policy: "magic" is not known; choose one of `},
	{"log_level: verbose", `w.yaml:1: log_level: "verbose" is not known; choose one of debug, info, warn, error`},
	{"state_dir: ${env.NOPE}", "w.yaml:1: state_dir: ${env.NOPE}: the environment variable NOPE is not set or empty"},
	{"state_dir: ${env.EMPTY}", "the environment variable EMPTY is not set or empty"},
	{"state_dir: ${HOME}", `w.yaml:1: state_dir: "${HOME}" is no reference; write ${env.NAME}`},
	{"state_dir: ${env.A", `has no closing brace`},
	{"retries_max: ${env.WORD}", `w.yaml:1: retries_max: wants a whole number, not the expanded text of "${env.WORD}"`},
	{"admin: 127.0.0.1:8800", "w.yaml:1: admin: 127.0.0.1:8800 clashes with listen, 127.0.0.1:8800"},
	{"listen: :8801", "admin: 127.0.0.1:8801 clashes with listen, :8801"},
	{"listen: '8800'", `w.yaml:1: listen: "8800" is no address`},
	{"listen: 127.0.0.1:99999", `w.yaml:1: listen: port "99999" of "127.0.0.1:99999" is not a number from 0 to 65535`},
	{"ejection: {first: 2m}", "w.yaml:1: ejection.first: 2m0s is longer than ejection.max, 1m0s"},
	{"exact: {tokenizers: [{model: m, path: a}, {model: m, path: b}]}", `w.yaml:1: exact.tokenizers[1].model: "m" is that of exact.tokenizers[0] already`},
	{"exact: {tokenizers: [{path: c}]}", "w.yaml:1: exact.tokenizers[0]: needs both a model and a path: {model: llama-8b, path: /models/llama-8b}"},
	{"exact: {events: http://x}", `w.yaml:1: exact.events: "http://x" is no address of cache events, such as tcp://gpu-1:5557: endpoint "http://x": only tcp://host:port and ipc://path are known; or write auto or off`},
	{"exact: {events: 'tcp://{host}'}", `w.yaml:1: exact.events: "tcp://{host}" is no address of cache events`},
	{"exact: {events: 'tcp://{host}:99999'}", `port "99999" is not a number from 0 to 65535`},
	{"workers: [{url: http://a, events: 'tcp://{host}:x'}]", `w.yaml:1: workers[0].events: "tcp://{host}:x" is no address`},
	{"workers: [{url: http://a, replay: tcp://a:1}]", "w.yaml:1: workers[0].replay: is set and events is not: there is nothing to replay"},
	{"workers: [{url: http://a, events: tcp://a:1, ranks: 2}]", "w.yaml:1: workers[0].events: is one address for 2 ranks, each of which has its own; leave it out, the engine tells them, or set exact.events"},
	{"queue: {class: x}", `w.yaml:1: queue.class: "x" is no class; there are: interactive, standard, batch`},
	{"queue: {class: a b, classes: [a b]}", `w.yaml:1: queue: "a b" is no name for a class, want 1 to 64 letters`},
	{"queue: {aged_share: 5}", "w.yaml:1: queue.aged_share: 5 is no share, want 0 to 1"},
	{"queue: {heavy: {floor_seconds: -1}}", "w.yaml:1: queue.heavy.floor_seconds: -1 is below the least, 0"},
	{"queue: {aged_share: a}", `w.yaml:1: queue.aged_share: wants a number, not the text "a"`},
	{"queue: {body_priority: never}", `w.yaml:1: queue.body_priority: "never" is not known; choose one of ignore, refuse, off`},
	{"queue: {tell_position: 10ms}", "w.yaml:1: queue.tell_position: 10ms is below the least, 100ms; 0 is never"},
	{"tenants: {file: a, keys_env: B}", "w.yaml:1: tenants.keys_env: B and tenants.file exclude each other"},
	{"telemetry: {interval: 10s}", "w.yaml:1: telemetry.stale_after: 5s is shorter than telemetry.interval, 10s"},
	{"decision_log: {bytes_max: 1GiB}", "w.yaml:1: decision_log.bytes_max: is set, but decision_log.file is not"},
	{"decision_log: {text: true}", "w.yaml:1: decision_log.text: is set, but decision_log.file is not"},
	{"decision_log: {file: a, compress: gzip}", `w.yaml:1: decision_log.compress: "gzip" is not known`},
	{"cors: {origin: [https://a]}", "w.yaml:1: cors.origin: unknown key; did you mean cors.origins?"},
	{"cors: https://a", "w.yaml:1: cors: wants keys and values, not the text"},
	{"cors: {origins: https://a}", "w.yaml:1: cors.origins: wants a list"},
	{"cors: {origins: [5]}", `w.yaml:1: cors.origins[0]: wants a text, not the number "5"`},
	{"cors:\n  origins:\n  - https://a/", `w.yaml:3: cors.origins[0]: "https://a/" is no origin; write scheme and host alone, such as https://chat.example.com, or *; did you mean https://a?`},
	{"cors: {origins: [chat.example.com]}", `w.yaml:1: cors.origins[0]: "chat.example.com" is no origin`},
	{"cors: {origins: ['https://*.example.com']}", "a star inside an origin matches nothing"},
	{"cors: {origins: ['*', https://a]}", "w.yaml:1: cors.origins[0]: * lets every origin in"},
	{"cors: {origins: [https://a, https://a]}", `w.yaml:1: cors.origins[1]: "https://a" stands twice`},
	{"body_spool_bytes: -1", "w.yaml:1: body_spool_bytes: -1 is negative"},
	{"body_spool: 1MiB", "w.yaml:1: body_spool: unknown key; did you mean body_spool_dir?"},
	{"workers: [{url: http://a, ranks: -1}]", "w.yaml:1: workers[0].ranks: -1 is below the least, 0"},
	{"workers: [{url: http://a, ranks: 999}]", "w.yaml:1: workers[0].ranks: 999 is more than 256"},
	{"workers: [{url: http://a, gpus: '0'}]", "w.yaml:1: workers[0].gpus: is set, but gpu_metrics is not"},
	{"workers: [{url: http://a, gpu_metrics: gpu:9400}]", `w.yaml:1: workers[0].gpu_metrics: "gpu:9400" is no page`},
	{"workers: [{url: http://a, gpu_metrics: 'http://g', gpus: '0,,1'}]", `w.yaml:1: workers[0].gpus: "0,,1" has an empty entry`},
	{"workers: [{url: http://a, gpu_metric: 'http://g'}]", "w.yaml:1: workers[0].gpu_metric: unknown key; did you mean workers[0].gpu_metrics?"},
	{"policy: [", "w.yaml:1: not YAML: "},
	{"a: b: c", "w.yaml:1: not YAML: "},
	{"policy: random\n---\npolicy: random", "w.yaml:2: a second YAML document begins here"},
}

// CFG-01: a wrong setting, of whatever kind and at whatever level, is an error that names the line, the key and what to write.
func TestWrongSettingsAreNamed_CFG_01(t *testing.T) {
	for _, c := range wrongSettings {
		_, err := Parse("w.yaml", []byte(c.text), env(map[string]string{"EMPTY": "", "WORD": "two"}))
		var settings *Error
		if !errors.As(err, &settings) {
			t.Errorf("%q: got %v, want a *Error", c.text, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || len(settings.Problems) != 1 {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestEveryProblemIsReportedAtOnceInTheOrderOfTheFile(t *testing.T) {
	_, err := Parse("w.yaml", []byte("policy: magik\nretries_max: x\ntimeouts:\n  conect: 1s\n"), noEnv)
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != 3 {
		t.Fatalf("want 3 problems, got\n%v", err)
	}
	for i, want := range []string{"w.yaml:1: policy:", "w.yaml:2: retries_max:", "w.yaml:4: timeouts.conect:"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d: %s, want %s", i, lines[i], want)
		}
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	const canary = "S3CR3T"
	for _, text := range []string{
		"workers: [{url: 'http://u:S3CR3T@a'}]", "workers: [{url: 'http://a?key=S3CR3T'}]", "workers: [{url: 'ftp://u:S3CR3T@a'}]",
		"workers: [{url: http://a, key: [S3CR3T]}]", "workers: ['http://u:S3CR3T@a:b:c']", "workers: [{url: 'http://a/#S3CR3T'}]",
		"workers: [{url: http://a, key: '${env.K'}]",
	} {
		_, err := Parse("w.yaml", []byte(text), env(map[string]string{"K": canary}))
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", text, err)
		}
	}
	w := Worker{URL: "http://a", Key: canary}
	asJSON, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{fmt.Sprint(w), fmt.Sprintf("%+v %#v %q", w, w, w.Key), string(asJSON), w.Key.LogValue().String()} {
		if strings.Contains(printed, canary) {
			t.Errorf("shows the key: %s", printed)
		}
	}
}

func TestWorkersFromFlagsAreHeldToTheSameRules(t *testing.T) {
	c := Default()
	c.Workers = []Worker{WorkerAt("http://a:8000"), WorkerAt("http://a:8000/")}
	if err := c.Validate(); err == nil || err.Error() != "workers[1].url: http://a:8000 is workers[0] already; a worker listed twice would count as two" {
		t.Error(err)
	}
	c.Workers = []Worker{WorkerAt("a:8000")}
	if err := c.Validate(); err == nil {
		t.Error("an address without a scheme passed")
	}
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := Load(missing); err == nil || err.Error() != missing+": no such file or directory" {
		t.Error(err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("# comment\n", fileBytesMax/10+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "larger than 4MiB") {
		t.Error(err)
	}
}

func TestEveryPolicyMayBeChosen(t *testing.T) {
	for _, f := range strict.FieldsOf(reflect.TypeFor[Config]()) {
		if f.Name == "policy" && !slices.Equal(f.Enum, sched.PolicyNames()) {
			t.Errorf("the setting takes %v; there are %v", f.Enum, sched.PolicyNames())
		}
	}
}

func TestTheExampleInTheReferenceIsValid(t *testing.T) {
	_, rest, _ := strings.Cut(Reference(), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	c, err := Parse("example", []byte(example), env(map[string]string{"GPU2_KEY": "k"}))
	if err != nil || len(c.Workers) != 2 {
		t.Fatal(err, c.Workers)
	}
}

func TestTheGeneratedDocumentsAreCurrent(t *testing.T) {
	for name, want := range map[string]string{"config.schema.json": Schema(), "CONFIG.md": Reference()} {
		file := filepath.Join("..", "..", "docs", name)
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("docs/%s is out of date: run make generate (%v)", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "workers: [http://a]", "timeouts: {connect: 1s}", "a: &a [*a]", "workers: &w [*w]", "policy: ${env.X}",
		"? {a: b}\n: c", "workers: [{url: 'http://[::1%25x]:1', key: !!binary aGk=}]", "listen: \"\\0\"", "---\n---\n", "body_bytes_max: 1KiBB"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer leash.Hold(t, len(text))()
		c, err := Parse("f", text, func(name string) (string, bool) { return name, true })
		if err == nil {
			if err = c.Validate(); err != nil {
				t.Errorf("Parse passed what Validate refuses: %v", err)
			}
			if printed := Print(c); !strings.Contains(printed, "# set, and not shown") {
				again, err := Parse("printed", []byte(printed), env(nil))
				if err != nil || Print(again) != printed {
					t.Errorf("printed, it does not read back as the same: %v\n%s\n%s", err, printed, Print(again))
				}
			}
		}
	})
}

func TestWhatIsPrintedReadsBackAsTheSame(t *testing.T) {
	full, err := Parse("w.yaml", []byte("workers: [http://a, {url: http://b, id: x, in_flight_max: 3, model: \"5\"}]\n"+
		"admin: \"\"\nstate_dir: \"a: $${b} # c\"\ntimeouts: {header: 90s}\nindex_bytes_max: 1000\ninject_usage: false\n"), env(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{Default(), full} {
		text := Print(c)
		got, err := Parse("printed.yaml", []byte(text), env(nil))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !reflect.DeepEqual(got, c) {
			t.Errorf("got  %+v\nwant %+v\n%s", got, c, text)
		}
		for _, key := range strict.KeyPaths(reflect.TypeFor[Config](), "") {
			if name := key[strings.LastIndexByte(key, '.')+1:]; !strings.Contains(key, "[]") && !strings.Contains(text, name+":") {
				t.Errorf("%s is not printed", key)
			}
		}
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	c := Default()
	c.Workers = []Worker{{URL: "http://a", ID: "a", Key: "s3cret"}}
	if text := Print(c); strings.Contains(text, "s3cret") || !strings.Contains(text, `key: "" # set, and not shown`) {
		t.Errorf("printed\n%s", text)
	}
}
