package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/digest"
	"github.com/warmpath/warmpath/internal/report"
	"github.com/warmpath/warmpath/internal/traces"
)

const reportLong = `report makes one HTML page of a router's decision log (serve --decision-log) and of what was rotated from it: the traffic step by step, times
to the first token, between tokens and end to end by what the cache did, hits and hits that were given up, who asked most, what failed
and was tried again, and what was predicted against what it was. The page needs no network and no script, and can be sent by mail.

Then the log is replayed on simulated workers with the timing that it shows (as warmpath replay --log FILE --fit FILE does): what other
policies would have made of it, and how much faster requests could come until fewer than 95 % are good. --slo says what good is; without
it a request is good that takes no more than twice what 95 % of them took at the load there was. --no-replay leaves that out.

`

const reportExample = `  warmpath report decisions.jsonl
  warmpath report decisions.jsonl.zst --out monday.html --slo ttft=2s,tpot=50ms
  warmpath report decisions.jsonl --json --no-replay | jq .hit_rate`

// reportFlags are the flags of `warmpath report`.
type reportFlags struct {
	out, slo, fleet string
	requests        int
	json, noReplay  bool
	skipBad, quiet  bool
}

// reportCommand is `warmpath report`.
func reportCommand() *cobra.Command {
	var f reportFlags
	command := &cobra.Command{
		Use: "report LOG...", Short: "Make one page of a decision log: traffic, tails, hits, heavy users, what-ifs, capacity", Long: reportLong + exitCodesUsage, Example: reportExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name a decision log (serve --decision-log writes one)")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return usageError{err}
			}
			return f.run(cmd, args)
		},
	}
	flags := command.Flags()
	flags.StringVar(&f.out, "out", "", "the page's file (default report.html, and none with --json)")
	flags.BoolVar(&f.json, "json", false, "print all figures as one JSON object")
	flags.BoolVar(&f.noReplay, "no-replay", false, "leave out what other policies would have done, and the capacity that is left")
	flags.StringVar(&f.slo, "slo", "", "what a request must meet to be good, as in ttft=2s,tpot=50ms,e2e=30s,share=0.95")
	flags.StringVar(&f.fleet, "fleet", "", "workers that it is replayed on, as in h100-8b:4 (default as many as the log has, with the timing that it shows)")
	flags.IntVar(&f.requests, "requests", 20_000, "replay no more than the first so many requests")
	flags.BoolVar(&f.skipBad, "skip-bad", false, "leave out lines that cannot be read, and count them")
	flags.BoolVar(&f.quiet, "quiet", false, "show no progress")
	_ = command.MarkFlagFilename("out", "html")
	completeFleet(command)
	return command
}

func (f *reportFlags) check() error {
	if f.requests < 1 {
		return fmt.Errorf("--requests %d: it must be 1 or more; --no-replay replays none", f.requests)
	}
	for flag, given := range map[string]bool{"slo": f.slo != "", "fleet": f.fleet != ""} {
		if given && f.noReplay {
			return fmt.Errorf("--%s with --no-replay: it is the replay's", flag)
		}
	}
	_, err := parseSLO(f.slo)
	return err
}

// dayReport is what --json prints.
type dayReport struct {
	digest.Digest
	Bad      int            `json:"bad_lines"`
	Replay   *digest.WhatIf `json:"replay,omitempty"`
	NoReplay string         `json:"no_replay,omitempty"` // why there is none
}

func (f *reportFlags) run(cmd *cobra.Command, args []string) error {
	files := rotated(args)
	b := digest.New()
	bad := 0
	for _, file := range files {
		n, err := eachRecord(file, f.skipBad, b.Add)
		if err != nil {
			return err
		}
		bad += n
	}
	r := dayReport{Digest: b.Digest(), Bad: bad}
	if r.Requests == 0 {
		return usageError{fmt.Errorf("%s: no record of a decision log in it", strings.Join(files, ", "))}
	}
	if f.noReplay {
		r.NoReplay = "--no-replay"
	} else if err := f.replay(cmd.Context(), &r, files, cmd.ErrOrStderr()); err != nil {
		return err
	}
	out := f.out
	if out == "" && !f.json {
		out = "report.html"
	}
	if out != "" {
		in := report.Day{Title: "What " + filepath.Base(args[0]) + " tells", Command: strings.Join(append([]string{"warmpath"}, quoted(os.Args[1:])...), " "),
			Digest: &r.Digest, Replay: r.Replay, NoReplay: r.NoReplay, Bad: bad}
		if err := writeWhole(out, func(w io.Writer) error { return report.WriteDay(w, in) }); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "report: %s\n", out)
	}
	if f.json {
		j := json.NewEncoder(cmd.OutOrStdout())
		j.SetIndent("", "  ")
		j.SetEscapeHTML(false)
		return j.Encode(r)
	}
	for _, line := range report.Headlines(&r.Digest, r.Replay) {
		fmt.Fprintln(cmd.OutOrStdout(), line)
	}
	return nil
}

// eachRecord calls f with each record of a file. bad counts lines that were left out.
func eachRecord(file string, skipBad bool, f func(*declog.Record)) (bad int, err error) {
	in, done, err := traces.OpenFile(file)
	if err != nil {
		return 0, usageError{err}
	}
	defer done()
	var r declog.Record
	for lines := declog.NewReader(in); ; {
		err := lines.Next(&r)
		switch {
		case err == io.EOF:
			return bad, nil
		case skipBad && errors.As(err, new(*declog.LineError)):
			bad++
		case err != nil:
			return bad, fmt.Errorf("%s: %w (--skip-bad leaves such lines out)", file, err)
		default:
			f(&r)
		}
	}
}
