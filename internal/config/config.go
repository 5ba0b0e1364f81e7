// Package config reads warmpath's configuration: strict YAML, where a key that nobody knows is an error with its line and the
// nearest right name, and every default is a value one can look at.
//
//	c, err := config.Load("warmpath.yaml") // or config.Default(), then flags
//	if err != nil {
//		return err // a *config.Error: one line a problem, "warmpath.yaml:7: timeouts.conect: unknown key; did you mean timeouts.connect?"
//	}
//
// The file, complete for most uses:
//
//	workers:
//	  - http://gpu-1:8000
//	  - {url: "https://gpu-2", key: "${env.GPU2_KEY}", in_flight_max: 64}
//	timeouts: {idle_gap: 10m}
//
// The struct tags are the one source of the keys: yaml names the key, doc describes it in docs/CONFIG.md and in the JSON schema.
package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// Config is the whole configuration. A Config made by Default or Load is complete: no field needs a further default.
type Config struct {
	Listen         string            `yaml:"listen" change:"restart" doc:"Address of the data port. Exposing it beyond this machine is a decision: write 0.0.0.0:8800."`
	Admin          string            `yaml:"admin" change:"restart" doc:"Address of the admin port (metrics, state, workers). Empty: none."`
	TLS            certs.ServerFiles `yaml:"tls" change:"restart" doc:"TLS on the data port (docs/SECURITY.md)."`
	AdminTLS       certs.ServerFiles `yaml:"admin_tls" change:"restart" doc:"TLS on the admin port."`
	Access         guard.Access      `yaml:"admin_access" change:"restart" doc:"Who may use the admin port. It is not opened beyond this machine unless this says to whom."`
	Workers        []Worker          `yaml:"workers" doc:"The engines, each a URL or a mapping. Empty: this machine's usual ports are probed."`
	Discovery      Discovery         `yaml:"discovery" doc:"Where further workers are found (docs/DISCOVERY.md)."`
	WorkerKey      Secret            `yaml:"worker_key" change:"restart" doc:"Credential of workers that have none of their own, those that are found included: whoever can have a worker found is sent it. Empty: the client's own passes."`
	WorkerKeyFile  string            `yaml:"worker_key_file" change:"restart" doc:"File of that credential, in place of worker_key; it is read again when it changes."`
	WorkerTLS      certs.WorkerFiles `yaml:"worker_tls" change:"restart" doc:"How https workers are reached that have no tls of their own."`
	Isolate        string            `yaml:"isolate" change:"restart" enum:"none,tenant" doc:"tenant: tenants share no cached prefixes, so that none can tell from how fast an answer begins what another has asked (docs/SECURITY.md). Each gets a cache salt of its own, here and in engines that know one. It costs the hits that they would have had on each other's prompts."`
	Policy         string            `yaml:"policy" enum:"affinity-filter,least-prefill,least-requests,least-tokens,linear,linear-tuned,multiply,power-of-two,random,round-robin,session-hash,threshold,warm-cost,weighted" doc:"How a worker is chosen."`
	DrainDelay     time.Duration     `yaml:"drain_delay" doc:"How long after SIGTERM requests are still taken while /readyz fails already, so that a load balancer has noticed before any is refused: its checks' interval times the failures that it waits for, and a little. 0: not at all."`
	HandoverTime   time.Duration     `yaml:"handover_timeout" min:"1s" doc:"How long a successor (SIGUSR2, warmpath upgrade) may take until it can serve. After it the router serves on by itself."`
	DrainTimeout   time.Duration     `yaml:"drain_timeout" doc:"How long running requests may go on after SIGTERM before they are cancelled."`
	Timeouts       Timeouts          `yaml:"timeouts" doc:"Waiting for workers and clients. There is no total timeout: it would cut healthy long streams."`
	BodyBytesMax   Bytes             `yaml:"body_bytes_max" doc:"Largest request body; beyond it the answer is 413."`
	BodiesBytesMax Bytes             `yaml:"bodies_bytes_max" doc:"Memory for all request bodies inside at one time; beyond it the answer is 503. 0: no limit."`
	BodySpoolBytes Bytes             `yaml:"body_spool_bytes" doc:"Size beyond which a form or a raw body (audio, images) waits in a temporary file in place of memory. JSON is always held in memory. 0: no files."`
	BodySpoolDir   string            `yaml:"body_spool_dir" doc:"Folder of those files, which have no name once they are open. Empty: the system's folder for temporary files. Where none can be made, bodies stay in memory."`
	BodySpoolMax   Bytes             `yaml:"body_spool_max" doc:"All such files together; beyond it the answer is 503. 0: no limit."`
	MemoryMax      string            `yaml:"memory_max" change:"restart" doc:"Memory that the process may have, such as 2GiB. Go's collector keeps to nine tenths of it; when little of that is left, caches give up what they hold, and before it is used up large bodies are refused (docs/BOUNDS.md). auto: GOMEMLIMIT where that is set, else what its control groups allow, else no limit."`
	ClientsMax     int               `yaml:"connections_max" change:"restart" doc:"Clients' connections at one time. Those beyond it are told so and not kept. 0: half of the limit of open files, less some for everything else; it is never more than that."`
	ClientMax      int               `yaml:"connections_per_client_max" change:"restart" doc:"Connections of one client address at one time, an IPv6 network of 64 bits being one; requests beyond it are answered 429. Behind a load balancer or NAT all clients have one address: leave it at 0 there. 0: no bound."`
	LogLinesMax    int               `yaml:"log_lines_max" doc:"Lines a minute of one message in the log; one more tells how many were left out. The access log is not counted. 0: no bound."`
	CORS           CORS              `yaml:"cors" doc:"Web pages of other origins that may use the data port. None unless named here; what engines say of it is taken out of their answers."`
	RetriesMax     int               `yaml:"retries_max" doc:"Further workers tried for one request before any byte of an answer reached the client. 0: none."`
	InFlightMax    int               `yaml:"in_flight_max" doc:"Requests in flight on one worker, unless the worker says otherwise. When all workers have so many, requests wait in the queue; without one the cap gives way rather than refuse. 0: twice the engine's own batch slots, no cap where they are unknown; the queue keeps nearer to the slots, see queue.depth."`
	InjectUsage    bool              `yaml:"inject_usage" doc:"Ask engines for the usage of streams, and withhold the usage event from clients that did not ask for it. The one exception to passing bytes untouched."`
	ExplainHeaders bool              `yaml:"explain_headers" doc:"Answer with X-Warmpath-Decision. It tells clients what others have cached. Streams do not carry it, because their head leaves before the worker is certain; the decision log has all."`
	AccessLog      bool              `yaml:"access_log" doc:"Log one line a request."`
	Pprof          bool              `yaml:"pprof" change:"restart" doc:"Serve Go profiles on the admin port under /debug/pprof/. A profile shows where time goes and costs some of it while it is taken; it holds no request."`
	LogLevel       string            `yaml:"log_level" enum:"debug,info,warn,error" doc:"Least level that is logged."`
	LogFormat      string            `yaml:"log_format" change:"restart" enum:"text,json" doc:"Shape of the log on standard error."`
	DecisionLog    DecisionLog       `yaml:"decision_log" doc:"One JSON line a request: what was decided, why, and what came of it."`
	IndexBytesMax  Bytes             `yaml:"index_bytes_max" change:"restart" doc:"Memory for the prefix index; beyond it the oldest entries are forgotten."`
	Queue          Queue             `yaml:"queue" doc:"Waiting for room on a worker: who goes first, and who may wait at all."`
	Tenants        Tenants           `yaml:"tenants" doc:"Who may use the router, and how much."`
	Pools          []pools.Pool      `yaml:"pools" doc:"Pools of workers, by name (docs/POOLS.md). A worker may be in several. None: every worker may take every request."`
	PoolRules      []pools.Rule      `yaml:"pool_rules" doc:"Which requests go to which pools. Rules that can match the same request need an order."`
	DefaultPool    string            `yaml:"default_pool" doc:"Pool of requests that no rule matches. Empty: any worker."`
	HeavyPool      string            `yaml:"heavy_pool" doc:"Pool that heavy requests (see queue.heavy) go to before those that the rules name. Empty: they go where the rules say."`
	Models         []models.Virtual  `yaml:"models" doc:"Names that stand for one of several models, and aliases (docs/MODELS.md). None: names mean what workers serve."`
	DefaultModel   string            `yaml:"default_model" doc:"Model of requests that name none. Empty: they are refused, unless there is only one."`
	Prices         []models.Priced   `yaml:"prices" doc:"What models cost that workers serve (docs/COST.md). None: requests are told in seconds and tokens only."`
	ValueOfSecond  float64           `yaml:"value_of_second" doc:"Money that one second less until the end of an answer is worth, in the money of the models' prices. 0: only money counts."`
	Conversations  int               `yaml:"conversations_max" doc:"Conversations whose model is remembered; those used longest ago are forgotten. 0: 100000."`
	Dash           Dash              `yaml:"dash" change:"restart" doc:"What the admin port keeps for those who look: recent decisions, and how many may follow its events (docs/ADMIN.md)."`
	Ghosts         Ghosts            `yaml:"ghosts" change:"restart" doc:"What other rules would have had to compute of the same traffic (docs/GHOSTS.md)."`
	Exact          Exact             `yaml:"exact" change:"restart" doc:"Routing by the model's own tokens and the engines' own cache events, where both can be shown to be right. See docs/EXACT.md."`
	Telemetry      Telemetry         `yaml:"telemetry" change:"restart" doc:"Asking the engines for their own counts."`
	Traces         Traces            `yaml:"traces" change:"restart" doc:"Spans of requests for an OpenTelemetry collector (docs/TRACES.md). None unless an endpoint is named."`
	WatchConfig    bool              `yaml:"watch_config" doc:"Take up changes of the configuration's own file within two seconds, as after SIGHUP or warmpath reload (docs/RELOAD.md). false: when it is asked for."`
	StateDir       string            `yaml:"state_dir" change:"restart" doc:"Folder of the installation's secret, which keys the prefix hashes, of what tenants spent today, of what was learned of engines and of what is assumed of their caches. Empty: $XDG_STATE_HOME/warmpath, or ~/.local/state/warmpath."`
	StateMaxAge    time.Duration     `yaml:"state_max_age" change:"restart" doc:"How old what was learned of engines and is assumed of their caches may be at a start that goes on from it (docs/ADMIN.md). 0: each start learns anew."`
	Ejection       Ejection          `yaml:"ejection" doc:"Putting a failing worker out for a while, and taking it back (docs/HEALTH.md). The last worker standing is not put out unless strict says so."`
}

// CORS says which web pages may use the data port (https://fetch.spec.whatwg.org/#http-cors-protocol).
type CORS struct {
	Origins []string `yaml:"origins" doc:"Origins as browsers send them, such as https://chat.example.com, or * for all. Cookies are never allowed; keys are."`
}

// Worker is one serving engine address. In YAML a bare string is its URL.
type Worker struct {
	URL         string            `yaml:"url,scalar" doc:"Base address, http:// or https://, without /v1."`
	ID          string            `yaml:"id" doc:"Name in metrics, logs and headers. Empty: host and port of the URL."`
	Key         Secret            `yaml:"key" doc:"Credential of this worker, sent to it as Authorization: Bearer in place of the client's."`
	KeyFile     string            `yaml:"key_file" doc:"File of that credential, in place of key; it is read again when it changes."`
	InFlightMax int               `yaml:"in_flight_max" doc:"Requests in flight on this worker. 0: the general in_flight_max."`
	Ranks       int               `yaml:"ranks" doc:"Data-parallel ranks behind this address that are told apart: as many workers, ID-dp0, ID-dp1 and so on, each with its own cache and load. vLLM and SGLang take the rank from the X-Data-Parallel-Rank header. 0: one worker, its ranks summed."`
	GPUMetrics  string            `yaml:"gpu_metrics" doc:"Page of a DCGM or ROCm exporter that tells of this worker's GPUs, such as http://gpu-1:9400/metrics. They are shown, and a GPU that is busy without a request of ours counts as foreign load. Empty: none."`
	GPUs        string            `yaml:"gpus" doc:"Which GPUs of that page are this worker's, by the exporter's numbers, such as 0,1. Empty: all."`
	Events      string            `yaml:"events" doc:"Where its cache events are published, such as tcp://gpu-1:5557; with bind+ in front, where the engine connects to. Empty: as exact.events says."`
	Replay      string            `yaml:"replay" doc:"Where past cache events are replayed, such as tcp://gpu-1:5558. Only beside events."`
	Pool        string            `yaml:"pool" doc:"Pool that it is in; the same as the label pool=NAME."`
	Labels      []string          `yaml:"labels" doc:"What pools go by, such as role=long."`
	TLS         certs.WorkerFiles `yaml:"tls" doc:"How it is reached over https, in place of worker_tls."`
	Model       string            `yaml:"model" doc:"Model it serves, for an engine that does not tell. Empty: asked from the engine."`
}

// Exact is what knowing for certain takes.
type Exact struct {
	Tokenizers    []ModelFiles  `yaml:"tokenizers" doc:"Models' own files. A model that is not named here has those that its engine names, when they can be read here, else its engines are asked for tokens."`
	Events        string        `yaml:"events" doc:"Where workers publish cache events that do not say so themselves. auto: vLLM is asked, SGLang's own settings are read, other engines are left alone. off: nobody is subscribed to. tcp://{host}:5557: there; a data-parallel rank's number is added to the port."`
	IndexBytesMax Bytes         `yaml:"index_bytes_max" min:"4MiB" doc:"Memory for what engines say they hold; beyond it the subtrees used longest ago are forgotten."`
	TokensTimeout time.Duration `yaml:"tokens_timeout" min:"1ms" doc:"How long a request waits for an engine to tell its tokens, where the model's files are not at hand. Late answers are of use to those that follow."`
	TokensMax     int           `yaml:"tokens_in_flight_max" min:"1" doc:"How many such questions may be under way at one time; requests beyond it do without."`
	CacheBytesMax Bytes         `yaml:"cache_bytes_max" min:"1MiB" doc:"Memory for tokens that were worked out or told, for each model."`
}

// ModelFiles is where a model's tokenizer and chat template are.
type ModelFiles struct {
	Model string `yaml:"model" doc:"Name by which requests ask for it."`
	Path  string `yaml:"path" doc:"A folder with tokenizer.json, that file, a .gguf file or a Hugging Face cache folder. Read once, at start."`
}

// EventsAuto and EventsOff are the values of exact.events that are no address.
const (
	EventsAuto = "auto"
	EventsOff  = "off"
)

// Timeouts bound the waits for a worker, and for a client.
type Timeouts struct {
	Connect time.Duration `yaml:"connect" min:"1ms" doc:"Until a worker takes the connection."`
	Header  time.Duration `yaml:"header" doc:"Until a worker's answer begins. 0: no limit, because a long prefill is silent."`
	IdleGap time.Duration `yaml:"idle_gap" doc:"Between two pieces of an answer. 0: no limit."`
	Client  time.Duration `yaml:"client" doc:"For a client that stops: 16 KiB more of its body must come within it, and each piece of its answer must be taken within it. 0: no limit."`
}

// DecisionLog is where decisions are written and how much is kept.
type DecisionLog struct {
	File     string `yaml:"file" doc:"File of JSON lines. Empty: no decision log."`
	BytesMax Bytes  `yaml:"bytes_max" min:"64KiB" doc:"Size at which the file is put aside and a new one begun."`
	FilesMax int    `yaml:"files_max" min:"1" doc:"Full files kept beside the current one."`
	Compress string `yaml:"compress" enum:",zstd" doc:"zstd: the file is compressed, a frame a second at least; whatever reads a decision log reads it so. One of the other form is put aside. Empty: plain lines."`
	Text     bool   `yaml:"text" doc:"Write the first 16 KiB of each prompt too (flag --log-text). Whoever can read the file can then read what users wrote."`
}

// Telemetry is how the engines are asked.
type Telemetry struct {
	Interval   time.Duration `yaml:"interval" min:"50ms" doc:"Between two scrapes of a worker."`
	Timeout    time.Duration `yaml:"timeout" min:"10ms" doc:"For one answer of an engine."`
	StaleAfter time.Duration `yaml:"stale_after" min:"100ms" doc:"Age at which an engine's counts become unknown. Unknown is neutral, never idle. A worker whose counts are this old, and whose answers are overdue by this much and by four times the prediction, without a byte of any kind from it, is put out until one comes."`
}

// Ejection is when and for how long a failing worker is put out.
type Ejection struct {
	After int           `yaml:"after" min:"1" doc:"Faults in a row (refused, reset, timeout, wrong shape, 5xx other than 503) that put a worker out."`
	First time.Duration `yaml:"first" min:"1ms" doc:"How long the first time. It doubles with each ejection after it."`
	Max   time.Duration `yaml:"max" min:"1ms" doc:"The longest ejection."`

	Probes    int           `yaml:"probes" min:"1" doc:"Good answers that take a worker back when its time is up, and how many requests may try it at one time."`
	SlowStart time.Duration `yaml:"slow_start" doc:"How long a worker that came, or came back, takes to get its whole part: until then it has at most a growing part of what the others have in flight on the mean, and one request in any case. It holds only beside workers that are past it. 0: none."`
	Window    time.Duration `yaml:"window" doc:"Time over which a worker's share of faults is compared with its peers'. One that fails far more often than they do is put out, though it never fails several times in a row. 0: it is not looked at."`
	WindowMin int           `yaml:"window_min" min:"1" doc:"Answers in that time, of the worker and of its peers, without which the share says nothing."`
	ShareMax  float64       `yaml:"share_max" doc:"Share of all workers that may be out for their share of faults at one time, from 0 to 1; one always may."`
	Strict    bool          `yaml:"strict" doc:"Put out the last worker standing of a model as well. Its requests are then refused with 503 and Retry-After, in place of being sent where they most probably fail."`
	Canary    time.Duration `yaml:"canary" doc:"Send a request of one token to each worker that had nothing to do for so long, and to one that is out and whose time is up, so that no client has to try it. 0: none."`
}

// Default is the configuration of a start without a file.
func Default() Config {
	workers, index, decisions, asking := fleet.DefaultOptions(), prefix.DefaultOptions(), declog.DefaultOptions(), telemetry.DefaultOptions()
	return Config{
		Listen:         "127.0.0.1:8800",
		Admin:          "127.0.0.1:8801",
		Discovery:      defaultDiscovery(),
		Isolate:        IsolateNone,
		Policy:         sched.DefaultPolicy,
		DrainTimeout:   30 * time.Second,
		HandoverTime:   time.Minute,
		StateMaxAge:    15 * time.Minute,
		Timeouts:       Timeouts{Connect: 2 * time.Second, IdleGap: 5 * time.Minute, Client: time.Minute},
		BodyBytesMax:   64 << 20,
		BodiesBytesMax: 2 << 30,
		BodySpoolBytes: 4 << 20,
		RetriesMax:     2,
		BodySpoolMax:   16 << 30,
		MemoryMax:      MemoryAuto,
		LogLinesMax:    60,
		InjectUsage:    true,
		LogLevel:       "info",
		LogFormat:      "text",
		DecisionLog:    DecisionLog{BytesMax: Bytes(decisions.FileBytesMax), FilesMax: decisions.FilesMax},
		IndexBytesMax:  Bytes(index.BytesMax),
		Queue:          defaultQueue(),
		Dash:           defaultDash(),
		Ghosts:         defaultGhosts(),
		Exact:          Exact{Events: EventsAuto, IndexBytesMax: Bytes(kvindex.DefaultOptions().BytesMax), TokensTimeout: 50 * time.Millisecond, TokensMax: 32, CacheBytesMax: 64 << 20},
		Traces:         Traces{Sample: 1, Clients: true},
		Telemetry:      Telemetry{Interval: asking.Interval, Timeout: asking.Timeout, StaleAfter: workers.StaleAfter},
		Ejection: Ejection{After: workers.EjectAfter, First: workers.EjectFor, Max: workers.EjectMax, Probes: workers.Probes, SlowStart: workers.SlowStart,
			Window: workers.Window, WindowMin: workers.WindowMin, ShareMax: workers.OutShareMax},
	}
}

// Level is LogLevel as slog knows it.
func (c Config) Level() slog.Level {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(c.LogLevel)) // Validate refuses what is none
	return level
}

// StateFolder is StateDir, or the user's own state folder when none is set.
func (c Config) StateFolder() (string, error) {
	if c.StateDir != "" {
		return c.StateDir, nil
	}
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "warmpath"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", &Error{Problems: []Problem{{Key: "state_dir", Message: "no home folder to keep the installation's secret in (" + err.Error() + "); set state_dir"}}}
	}
	return filepath.Join(home, ".local", "state", "warmpath"), nil
}
