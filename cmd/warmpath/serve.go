package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/handover"
	"github.com/warmpath/warmpath/internal/hush"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/telemetry"
)

const serveLong = `serve stands in front of inference engines and sends each request to the worker where it costs least:
the warm prefix it finds there against the work already owed, in seconds of engine time.

Name the engines with --worker, or in a file with --config, or have them found: --workers-file, --workers-dns, --workers-http and
--workers-kubernetes follow who is there (docs/DISCOVERY.md), and a worker that leaves drains. With nothing of it, the usual ports of
this machine are asked (vLLM 8000, SGLang 30000, llama.cpp 8080, Ollama 11434, LM Studio 1234) and what answers is used.

Clients use the data port as they used the engine: http://127.0.0.1:8800/v1. Operators use the admin port:
/metrics, /state, POST /workers, POST /workers/{id}/drain, DELETE /workers/{id}, POST /policy, POST /explain (docs/ADMIN.md).
Both listen on this machine only until you say otherwise; the admin port is opened beyond it only to those who show a token
(--admin-token-file) or a certificate, unless --admin-open says that all may come in. Clients are asked for a key once a file says
whose keys there are (setting tenants.file, warmpath tenant --help): have one before you expose the data port. Until then whoever
reaches it may use it.

A worker gets no more requests at once than keep it busy: its batch slots and a few, a second of queued prefill, its KV memory, and
in_flight_max where that is set. When all workers have so much, requests wait here, in the order in which they deserve to go (setting
queue), and are refused with a reason and a time to come again where the queue is full. Without the queue they wait in the engines.

SIGTERM or Ctrl-C: /readyz fails at once, running answers finish within --drain-timeout; a second signal stops at once. With drain_delay requests
are still taken for so long after SIGTERM, until a load balancer has noticed.
SIGUSR2 or warmpath upgrade: a new process of the program as it is now on disk takes the ports over, and this one ends with its last answer; no
connection is refused in between (docs/OPERATIONS.md). Sockets of systemd are served in place of --listen and --admin (LISTEN_FDS), and systemd is
told how the process stands (NOTIFY_SOCKET).
SIGHUP, warmpath reload or, with watch_config, the file itself: the configuration is read again, flags included, and is in force whole or
not at all (docs/RELOAD.md). Answers under way go on, and workers that stay keep what is known of them. Files of tenants, certificates and tokens are taken up by themselves when they change.`

const serveExample = `  warmpath serve --worker http://gpu-1:8000 --worker http://gpu-2:8000
  warmpath serve --config warmpath.yaml --listen 0.0.0.0:8800
  warmpath serve --workers-dns engines.internal:8000 --workers-kubernetes llm/vllm:http
  warmpath serve                                  # finds the engines of this machine
  curl -X POST localhost:8801/workers -d '{"url":"http://gpu-3:8000"}'`

// serveFlags are the flags of `warmpath serve`; each that is given replaces its setting of the file.
type serveFlags struct {
	file                                string
	watch                               bool
	workers                             []string
	listen, admin, policy               string
	drain                               time.Duration
	decisionLog, level                  string
	explain, access, noInject, showText bool
	logText                             bool
	pprof, strict                       bool
	stateDir                            string
	tokenizers                          []string
	events                              string
	safety                              accessFlags
	sources                             sourceFlags
}

// serveCommand is `warmpath serve`.
func serveCommand() *cobra.Command {
	var f serveFlags
	d := config.Default()
	cmd := &cobra.Command{
		Use: "serve", Short: "Route requests to inference engines", Long: serveLong, Example: serveExample, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			came, err := handover.Inherit()
			if err != nil {
				return err
			}
			defer func() {
				if err != nil {
					came.Failed(err)
				}
			}()
			cfg, err := f.config(cmd)
			if err != nil {
				return err
			}
			var again func() (config.Config, error)
			if f.file != "" {
				again = func() (config.Config, error) { return f.config(cmd) }
			}
			return runServe(atStart, came, cmd.OutOrStdout(), cmd.ErrOrStderr(), cfg, f.file, again)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.file, "config", "", "configuration file (YAML); see config print and config schema")
	flags.StringArrayVar(&f.workers, "worker", nil, "address of an engine, http://host:port; repeat for more")
	flags.BoolVar(&f.watch, "watch-config", false, "take up changes of the configuration file by themselves")
	flags.StringVar(&f.listen, "listen", d.Listen, "address of the data port; 0.0.0.0:8800 exposes it")
	flags.StringVar(&f.admin, "admin", d.Admin, "address of the admin port; empty for none")
	flags.StringVar(&f.policy, "policy", d.Policy, "how a worker is chosen: "+strings.Join(sched.PolicyNames(), ", "))
	flags.DurationVar(&f.drain, "drain-timeout", d.DrainTimeout, "how long running answers may go on after SIGTERM")
	flags.StringVar(&f.decisionLog, "decision-log", "", "file for one JSON line a request: who could serve it, at what cost, what came of it")
	flags.StringVar(&f.level, "log-level", d.LogLevel, "debug, info, warn or error")
	flags.BoolVar(&f.logText, "log-text", false, "write the first 16 KiB of each prompt into the decision log too: whoever reads the file reads what users wrote")
	flags.BoolVar(&f.showText, "show-text", false, "keep the first 200 characters of the prefixes that GET /prefixes shows: whoever reads the admin port reads them")
	flags.BoolVar(&f.explain, "explain-headers", false, "answer with X-Warmpath-Decision, streams excepted; tells clients what others have cached")
	flags.BoolVar(&f.access, "access-log", false, "log one line a request")
	flags.BoolVar(&f.strict, "strict", false, "put out the last failing worker of a model as well: its requests are then refused with 503 and Retry-After")
	flags.BoolVar(&f.pprof, "pprof", false, "serve Go profiles on the admin port, under /debug/pprof/")
	flags.BoolVar(&f.noInject, "no-inject-usage", false, "leave stream_options alone: streams pass byte for byte, and those whose client does not ask for usage are not metered")
	flags.StringVar(&f.stateDir, "state-dir", "", "folder of the installation's secret (default: the user's state folder)")
	f.sources.add(cmd)
	flags.BoolVar(&f.sources.register, "workers-register", false, "let engines register themselves at the admin port, by POST /workers with a heartbeat")
	f.exactFlags(cmd)
	f.safety.flags(cmd)
	cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(sched.PolicyNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// exactFlags are those that serve and doctor have alike.
func (f *serveFlags) exactFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.tokenizers, "tokenizer", nil, "a model's own files, MODEL=PATH: a folder, tokenizer.json, a .gguf file or a Hugging Face cache; repeat for more")
	cmd.Flags().StringVar(&f.events, "events", config.Default().Exact.Events, "cache events of engines: auto (vLLM and SGLang tell where), off, or where, such as tcp://{host}:5557")
}

// config is the file, changed by the flags that were given, checked as a whole.
func (f *serveFlags) config(cmd *cobra.Command) (config.Config, error) {
	cfg := config.Default()
	if f.file != "" {
		var err error
		if cfg, err = config.Load(f.file); err != nil {
			return cfg, err
		}
	}
	if len(f.workers) > 0 {
		if len(cfg.Workers) > 0 {
			return cfg, usageError{fmt.Errorf("--worker and the workers of %s exclude each other; name them in one place", f.file)}
		}
		for _, address := range f.workers {
			cfg.Workers = append(cfg.Workers, config.WorkerAt(address))
		}
	}
	given := func(name string, set func()) {
		if cmd.Flags().Changed(name) {
			set()
		}
	}
	given("watch-config", func() { cfg.WatchConfig = f.watch })
	given("listen", func() { cfg.Listen = f.listen })
	given("admin", func() { cfg.Admin = f.admin })
	given("policy", func() { cfg.Policy = f.policy })
	given("drain-timeout", func() { cfg.DrainTimeout = f.drain })
	given("decision-log", func() { cfg.DecisionLog.File = f.decisionLog })
	given("log-level", func() { cfg.LogLevel = f.level })
	given("log-text", func() { cfg.DecisionLog.Text = f.logText })
	given("show-text", func() { cfg.Dash.ShowText = f.showText })
	given("explain-headers", func() { cfg.ExplainHeaders = f.explain })
	given("access-log", func() { cfg.AccessLog = f.access })
	given("pprof", func() { cfg.Pprof = f.pprof })
	given("strict", func() { cfg.Ejection.Strict = f.strict })
	given("no-inject-usage", func() { cfg.InjectUsage = !f.noInject })
	given("state-dir", func() { cfg.StateDir = f.stateDir })
	f.safety.change(&cfg, given)
	given("events", func() { cfg.Exact.Events = f.events })
	for _, text := range f.tokenizers {
		files, err := config.ParseModelFiles(text)
		if err != nil {
			return cfg, usageError{err}
		}
		cfg.Exact.Tokenizers = append(cfg.Exact.Tokenizers, files)
	}
	f.sources.apply(&cfg)
	return cfg, cfg.Validate()
}

// whoIsThere is where workers come from, in words.
func whoIsThere(cfg config.Config) string {
	text := counted(len(cfg.Workers), "worker")
	for _, s := range sourcesOf(cfg) {
		text += ", " + s.name
	}
	if cfg.Discovery.Register {
		text += ", those that register themselves"
	}
	return text
}

// counted is "1 worker" or "2 workers".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// localProbeMax bounds the wait for engines on this machine's usual ports.
const localProbeMax = time.Second

// findLocal looks for engines on this machine, for a start without any setting.
func findLocal(ctx context.Context, stderr io.Writer) ([]config.Worker, error) {
	ctx, cancel := context.WithTimeout(ctx, localProbeMax)
	defer cancel()
	var workers []config.Worker
	for _, found := range telemetry.Probe(ctx, telemetry.LoopbackURLs()) {
		fmt.Fprintf(stderr, "found %s at %s\n", found.Info.Engine, found.URL)
		workers = append(workers, config.WorkerAt(found.URL))
	}
	if len(workers) > 0 {
		return workers, nil
	}
	return nil, usageError{fmt.Errorf(`no engine answers on this machine's usual ports (8000, 30000, 8080, 11434, 1234).
Name yours:      warmpath serve --worker http://HOST:PORT --worker http://HOST:PORT
Or try it alone: warmpath demo --keep`)}
}

func newLogger(w io.Writer, cfg config.Config) *slog.Logger {
	at := new(slog.LevelVar)
	at.Set(cfg.Level())
	o := &slog.HandlerOptions{Level: at}
	lines := hush.NewTable(cfg.LogLinesMax, accessMessage)
	if cfg.LogFormat == "json" {
		return slog.New(levelled{lines.Limit(slog.NewJSONHandler(w, o)), at, lines})
	}
	return slog.New(levelled{lines.Limit(slog.NewTextHandler(w, o)), at, lines})
}
