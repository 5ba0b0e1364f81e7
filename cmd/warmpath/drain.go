package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/life"
)

const drainLong = `drain keeps new requests from a worker, and waits until nothing of this router is under way there: then its engine can be stopped
without anybody noticing. Streams run to their end. Requests that have no byte of their answer yet are placed elsewhere at once;
--keep leaves them where they are. Conversations go on with other workers.

The worker stays in the fleet, draining, whatever discovery says, until it is taken back with undrain, or leaves. Its metrics and its
learned speed stay, and so does what it has cached: taken back, it goes on as it was.

Progress goes to standard error, one line when the number of requests changes. When --timeout is over drain ends with exit code 1, and
the worker goes on draining. --no-wait does not wait at all.

`

const drainExample = `  warmpath drain gpu-3:8000
  warmpath drain gpu-3:8000 --timeout 30m && systemctl stop vllm
  warmpath drain gpu-3:8000 --no-wait --json
  warmpath undrain gpu-3:8000`

// drainFlags are the flags of `warmpath drain` and `warmpath undrain`.
type drainFlags struct {
	admin        adminFlags
	timeout      time.Duration
	keep, noWait bool
	json         bool
}

// drainCommand is `warmpath drain`.
func drainCommand() *cobra.Command {
	var f drainFlags
	command := &cobra.Command{
		Use: "drain WORKER", Short: "Keep new requests from a worker, and wait until it has none", Long: drainLong + exitCodesUsage, Example: drainExample,
		Args: oneWorker, ValidArgsFunction: f.complete,
		RunE: func(cmd *cobra.Command, args []string) error { return f.drain(cmd, args[0]) },
	}
	f.admin.add(command)
	flags := command.Flags()
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long to wait until nothing is under way there")
	flags.BoolVar(&f.keep, "keep", false, "leave requests there that have no byte of their answer yet")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait")
	flags.BoolVar(&f.json, "json", false, "one JSON object on standard output, and no progress")
	return command
}

// undrainCommand is `warmpath undrain`.
func undrainCommand() *cobra.Command {
	var f drainFlags
	command := &cobra.Command{
		Use: "undrain WORKER", Short: "Take a worker back that was drained", Args: oneWorker, ValidArgsFunction: f.complete,
		Long: `undrain ends a drain by hand: the worker gets requests again, as it was, its caches included. One that discovery drains, because it is
leaving or has left, goes on draining until discovery takes it back.

` + exitCodesUsage,
		Example: `  warmpath undrain gpu-3:8000`,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.undrain(cmd, args[0]) },
	}
	f.admin.add(command)
	command.Flags().BoolVar(&f.json, "json", false, "one JSON object on standard output")
	return command
}

func oneWorker(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants one WORKER, by its id in /state, not %d", cmd.Name(), len(args))
	}
	return nil
}

// complete offers the ids of workers, when a router is there to name them.
func (f *drainFlags) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	var ids []string
	workers, _ := f.workers(ctx)
	for _, w := range workers {
		ids = append(ids, w.ID)
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// drained is what --json prints.
type drained struct {
	Worker   string  `json:"worker"`
	State    string  `json:"state"` // drained, draining or ready
	InFlight int     `json:"inflight_requests"`
	Seconds  float64 `json:"seconds"`
}

const drainEvery = 250 * time.Millisecond

func (f *drainFlags) drain(cmd *cobra.Command, id string) error {
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout %v: it must be above 0; --no-wait does not wait", f.timeout)}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	var of struct{ Workers []string }
	if err := f.admin.call(ctx, http.MethodPost, "/workers/"+url.PathEscape(id)+"/drain?move="+fmt.Sprint(!f.keep), &of); err != nil {
		return err
	}
	told, progress := -1, cmd.ErrOrStderr()
	if f.json || f.noWait {
		progress = io.Discard
	}
	for {
		all, err := f.workers(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		left := 0
		for _, w := range all {
			if slices.Contains(of.Workers, w.ID) {
				left += w.InFlight
			}
		}
		if err == nil && left != told {
			told = left
			fmt.Fprintf(progress, "%s: %s under way\n", id, counted(left, "request"))
		}
		state := drained{Worker: id, State: "draining", InFlight: max(told, 0), Seconds: time.Since(began).Seconds()}
		switch {
		case err == nil && left == 0:
			state.State = "drained"
			return f.report(cmd, state, fmt.Sprintf("%s is drained: nothing is under way there; warmpath undrain %s takes it back", id, id))
		case f.noWait:
			return f.report(cmd, state, fmt.Sprintf("%s drains: %s under way", id, counted(left, "request")))
		case ctx.Err() != nil:
			if err := f.report(cmd, state, ""); err != nil {
				return err
			}
			return fmt.Errorf("%s still has %s after %v (--timeout); it goes on draining", id, counted(state.InFlight, "request"), f.timeout)
		}
		life.Pause(ctx, drainEvery)
	}
}

func (f *drainFlags) undrain(cmd *cobra.Command, id string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
	defer cancel()
	var now struct {
		State    string `json:"state"`
		Draining string `json:"draining"`
	}
	if err := f.admin.call(ctx, http.MethodPost, "/workers/"+url.PathEscape(id)+"/undrain", &now); err != nil {
		return err
	}
	text := id + " takes requests again"
	if now.Draining != "" {
		text = fmt.Sprintf("%s is not held back by hand any more, but goes on draining: %s", id, now.Draining)
	}
	return f.report(cmd, drained{Worker: id, State: now.State}, text)
}

func (f *drainFlags) report(cmd *cobra.Command, d drained, text string) error {
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(d)
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// workers are those of the router.
func (f *drainFlags) workers(ctx context.Context) (all []workerState, err error) {
	return all, f.admin.call(ctx, http.MethodGet, "/workers", &all)
}
