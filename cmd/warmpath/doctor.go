package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/checkup"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/telemetry"
	"github.com/warmpath/warmpath/internal/upstream"
)

const doctorLong = `doctor looks at each worker as serve would: with the same client, the same way of recognising engines and the same
settings. It says how well each part works, what the router does without it, and which flag of the engine gains more.

    full    all that the router can use
    partly  less than engines can give
    none    not there; the router does without
    unseen  could not be seen, or was not asked for
    broken  must be mended

It sends at most three small chat requests to each worker (about 100 tokens or four blocks of its cache, up to 8 generated):
a stream, the same prompt again to see what is cached, and a long answer whose client leaves at its first token.
--no-requests leaves them out.

Whether prompts can be matched exactly is seen as serve would see it: engines are asked for the tokens of some built-in conversations,
which are compared with those of the model's own files (--tokenizer), and their cache events are listened to (--events).

Workers that are found (--workers-dns and the like, or the file's discovery) are looked for once, and what their sources say is told.

Without --worker, --config and these the usual ports of this machine are looked at. Exit code: 0 nothing is broken, 1 something is.`

const doctorExample = `  warmpath doctor --worker http://gpu-1:8000 --worker http://gpu-2:8000
  warmpath doctor --config warmpath.yaml --json
  warmpath doctor --worker http://gpu-1:8000 --no-requests`

// doctorFlags are the flags of `warmpath doctor`.
type doctorFlags struct {
	fleet              serveFlags // --config and --worker mean what they mean to serve
	asJSON, noRequests bool
	timeout            time.Duration
}

// doctorCommand is `warmpath doctor`.
func doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look at workers as serve would, and say what is missing", Long: doctorLong, Example: doctorExample, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.fleet.file, "config", "", "configuration file (YAML) whose workers are looked at")
	flags.StringArrayVar(&f.fleet.workers, "worker", nil, "address of an engine, http://host:port; repeat for more")
	f.fleet.sources.add(cmd)
	f.fleet.exactFlags(cmd)
	f.fleet.safety.workerFlags(cmd)
	flags.BoolVar(&f.asJSON, "json", false, "print the findings as JSON")
	flags.BoolVar(&f.noRequests, "no-requests", false, "send no chat requests: only what engines say of themselves is seen")
	flags.DurationVar(&f.timeout, "timeout", checkup.DefaultOptions().Timeout, "how long one chat request may take")
	cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// examined is what --json prints.
type examined struct {
	Verdict  string           `json:"verdict"` // the worst of its workers'
	Requests int              `json:"requests_sent"`
	Workers  []checkup.Report `json:"workers"`
}

func runDoctor(cmd *cobra.Command, f doctorFlags) error {
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout %v: it must be above 0", f.timeout)}
	}
	c, err := f.fleet.config(cmd)
	if err != nil {
		return err
	}
	if c.Discovery.Any() {
		findWorkers(cmd.Context(), &c, cmd.ErrOrStderr())
		if len(c.Workers) == 0 {
			return errors.New("no source names a worker")
		}
	}
	if len(c.Workers) == 0 {
		if c.Workers, err = findLocal(cmd.Context(), cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	o := checkup.DefaultOptions()
	s, err := openSafety(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	o.Dial = dialOptions(c, s.certs.DialTLS)
	o.Telemetry = telemetry.Options{DialTLS: s.certs.DialTLS, Interval: c.Telemetry.Interval, Timeout: c.Telemetry.Timeout}
	o.InjectUsage, o.Requests, o.Timeout = c.InjectUsage, !f.noRequests, f.timeout
	var workers []checkup.Worker
	for i, w := range c.Workers {
		to, err := s.reach(c.Keyed(w), func(string) {})
		if err != nil {
			return usageError{err}
		}
		defer to.stop()
		c.Workers[i].Key = config.Secret(to.key)
		workers = append(workers, checkup.Worker{ID: w.ID, URL: w.URL, Key: to.key, Model: w.Model, Ranks: w.Ranks, GPUMetrics: w.GPUMetrics, GPUs: w.GPUList()})
	}
	reports := checkup.All(cmd.Context(), workers, o)
	addExact(cmd.Context(), c, s, reports)
	addTransport(cmd.Context(), c, s, reports)
	for _, text := range unservedFiles(c.Exact.Tokenizers, served(reports)) {
		fmt.Fprintln(cmd.ErrOrStderr(), text)
	}
	found := sumUp(reports)
	if f.asJSON {
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		err = out.Encode(found)
	} else {
		err = found.print(cmd.OutOrStdout())
	}
	if broken := found.count(checkup.VerdictBroken); err == nil && broken > 0 {
		return fmt.Errorf("%d of %s broken", broken, counted(len(found.Workers), "worker"))
	}
	return err
}

// dialOptions is how workers are talked to, for serve and doctor alike.
func dialOptions(c config.Config, dialTLS func(ctx context.Context, network, address string) (net.Conn, error)) upstream.Options {
	idle := c.Timeouts.IdleGap
	if idle == 0 {
		idle = -1 // the upstream client's word for none
	}
	return upstream.Options{ConnectTimeout: c.Timeouts.Connect, HeaderTimeout: c.Timeouts.Header, IdleGap: idle, DialTLS: dialTLS}
}

func sumUp(reports []checkup.Report) examined {
	e := examined{Workers: reports, Verdict: checkup.VerdictGood}
	for _, r := range reports {
		e.Requests += r.Requests
	}
	for _, verdict := range []string{checkup.VerdictImprovable, checkup.VerdictBroken} {
		if e.count(verdict) > 0 {
			e.Verdict = verdict
		}
	}
	return e
}

func (e examined) count(verdict string) int {
	n := 0
	for _, r := range e.Workers {
		if r.Verdict == verdict {
			n++
		}
	}
	return n
}

// print writes the findings for people: a block a worker, a line a part, and below it what it costs and what would mend it.
func (e examined) print(w io.Writer) error {
	var failed error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		failed = errors.Join(failed, err)
	}
	for _, r := range e.Workers {
		what := r.Engine
		if r.Version != "" {
			what += " " + r.Version
		}
		if what == "" {
			what = "no engine recognised"
		}
		verdict := r.Verdict
		if verdict == checkup.VerdictBroken {
			verdict = emphasis(w, verdict)
		}
		line("%s: %s: %s", r.URL, plain(what), verdict) // an engine says what it is
		for _, c := range r.Checks {
			level := fmt.Sprintf("%-7s", c.Level)
			if c.Level == checkup.Broken {
				level = emphasis(w, level)
			}
			line("  %-14s %s %s", c.Part, level, plain(c.Found))
			if c.Without != "" {
				line("  %-14s         %s", "", plain(c.Without))
			}
			if c.Gain != "" {
				line("  %-14s         to gain: %s", "", plain(c.Gain))
			}
		}
		line("")
	}
	line("%d good, %d improvable, %d broken; %d chat requests sent", e.count(checkup.VerdictGood), e.count(checkup.VerdictImprovable),
		e.count(checkup.VerdictBroken), e.Requests)
	return failed
}
