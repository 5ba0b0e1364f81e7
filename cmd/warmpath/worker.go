package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/kvpublish"
)

// workerFlags are the flags of `warmpath worker`, before they are checked.
type workerFlags struct {
	options engine.Options
	profile string
	host    string
	port    int
	drain   time.Duration
	// events and replay are where cache events are published and replayed; "" nowhere.
	events, replay string
	// kvTokens and batch replace the profile's limits when they are not 0.
	kvTokens, batch int
}

const workerLong = `worker runs a simulated inference engine: an HTTP server that batches, caches prefixes and queues
like vLLM, takes as long as a real model on real GPUs would, and answers with made-up words. It needs no GPU.
Use it to try warmpath, to test a client, or to see what a policy does before a fleet is at stake.

It serves /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses, /v1/messages, /v1/models,
/tokenize, /health, /version and /metrics (vLLM's names). Every answer has the header "Server: warmpath-sim".

Times come from a profile, measured kernels of a model on a GPU:
%s
An answer's length is drawn from the seed and the prompt (mean --output-mean tokens), unless the request says
ignore_eos; max_tokens and min_tokens hold. The same seed and prompt give the same answer on every worker.

--kv-events publishes what is stored in the cache and evicted from it over ZeroMQ, as vLLM does, and --replay answers
for messages that were missed. GET /kv_event_sources tells both. A token is four bytes of text.

--time-scale 10 makes everything ten times faster; the times it reports are those you can measure.`

const workerExample = `  warmpath worker --profile h100-8b --port 9001
  warmpath worker --profile a100-70b-tp4 --port 9002 --model big --time-scale 10
  curl localhost:9001/v1/chat/completions -d '{"model":"sim-8b","messages":[{"role":"user","content":"hello"}]}'`

// workerCommand is `warmpath worker`.
func workerCommand() *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:     "worker",
		Short:   "Run a simulated inference engine (no GPU needed)",
		Long:    fmt.Sprintf(workerLong, profileTable()),
		Example: workerExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runWorker(cmd, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", "h100-8b", "engine profile: "+strings.Join(profileNames(), ", "))
	flags.StringVar(&f.host, "host", "127.0.0.1", "address to listen on; 0.0.0.0 exposes it")
	flags.IntVar(&f.port, "port", 9001, "port to listen on; 0 takes a free one and prints it")
	flags.Float64Var(&f.options.TimeScale, "time-scale", 1, "times faster than the profile")
	flags.StringVar(&f.options.Model, "model", "sim-8b", "name of the model it serves")
	flags.IntVar(&f.options.ContextMax, "context", 131072, "context length in tokens (max_model_len), at most the KV cache")
	flags.IntVar(&f.options.OutputMean, "output-mean", 256, "mean answer length in tokens")
	flags.Uint64Var(&f.options.Seed, "seed", 0, "seed of the answers")
	flags.IntVar(&f.kvTokens, "kv-tokens", 0, "KV cache size in tokens; 0 is the profile's")
	flags.IntVar(&f.batch, "batch", 0, "sequences that run at once; 0 is the profile's. A router caps the requests in flight there at twice as many")
	flags.DurationVar(&f.drain, "drain-timeout", 30*time.Second, "time that running requests get after SIGTERM; a second signal stops at once")
	flags.StringVar(&f.events, "kv-events", "", "publish cache events here, as tcp://127.0.0.1:5557")
	flags.StringVar(&f.replay, "replay", "", "replay cache events here, as tcp://127.0.0.1:5558; needs --kv-events")
	cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(profileNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func profileNames() []string { return slices.Sorted(maps.Keys(cost.Profiles)) }

// profileTable is one line a profile: what a user needs to choose one.
func profileTable() string {
	var b strings.Builder
	for _, name := range profileNames() {
		p := cost.Profiles[name]
		fmt.Fprintf(&b, "  %-13s %5.0f prompt tokens/s, %4.1f ms a decode step, %d KV tokens, batch %d\n",
			name, 1/p.B, p.D0*1e3, p.KVTokensMax, p.BatchMax)
	}
	return b.String()
}

// resolve checks the flags and completes the engine's options.
func (f *workerFlags) resolve() error {
	p, ok := cost.Profiles[f.profile]
	if !ok {
		return fmt.Errorf("--profile %q is not known; choose one of %s", f.profile, strings.Join(profileNames(), ", "))
	}
	if f.kvTokens != 0 {
		p.KVTokensMax = f.kvTokens
	}
	if f.batch != 0 {
		p.BatchMax = f.batch
	}
	switch {
	case f.options.TimeScale <= 0 || f.options.TimeScale > 1000:
		return fmt.Errorf("--time-scale %g: it must be above 0 and at most 1000", f.options.TimeScale)
	case p.KVTokensMax < p.BlockTokens:
		return fmt.Errorf("--kv-tokens %d: it must be at least one block of %d", p.KVTokensMax, p.BlockTokens)
	case p.BatchMax < 1:
		return fmt.Errorf("--batch %d: it must be at least 1", p.BatchMax)
	case f.options.ContextMax < 1:
		return fmt.Errorf("--context %d: it must be at least 1", f.options.ContextMax)
	case f.options.OutputMean < 1:
		return fmt.Errorf("--output-mean %d: it must be at least 1", f.options.OutputMean)
	case f.options.Model == "":
		return errors.New("--model is empty: name the model to serve")
	case f.replay != "" && f.events == "":
		return fmt.Errorf("--replay %s: without --kv-events there is nothing to replay", f.replay)
	case f.drain < 0:
		return fmt.Errorf("--drain-timeout %v: it must not be negative", f.drain)
	}
	for flag, endpoint := range map[string]string{"--kv-events": f.events, "--replay": f.replay} {
		if endpoint != "" {
			if err := kvpublish.CheckEndpoint(endpoint); err != nil {
				return fmt.Errorf("%s: %w", flag, err)
			}
		}
	}
	f.options.Profile = p
	return nil
}

func runWorker(cmd *cobra.Command, f workerFlags) error {
	if err := f.resolve(); err != nil {
		return usageError{err}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d on %s: %w; stop what listens there or choose another with --port", f.port, f.host, syscall.EADDRINUSE)
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %s port %d (--host, --port): %w", f.host, f.port, err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// From the first signal on, the next one has its usual effect: it ends the process.
	context.AfterFunc(ctx, stop)
	if f.events != "" {
		p, err := kvpublish.New(kvpublish.Options{Events: f.events, Replay: f.replay, BlockTokens: f.options.Profile.BlockTokens})
		if err != nil {
			return fmt.Errorf("cannot publish cache events (--kv-events, --replay): %w", err)
		}
		defer p.Close()
		f.options.Events = &engine.Events{Begin: p.Begin, Block: p.Block, Step: p.Step, Sources: p}
		events, _ := p.Endpoints()
		fmt.Fprintf(cmd.OutOrStdout(), "cache events: %s\n", events)
	}
	s := engine.New(f.options)
	fmt.Fprintf(cmd.OutOrStdout(), "simulated engine: %s on http://%s\n", s, l.Addr())
	return s.Serve(ctx, l, f.drain)
}
