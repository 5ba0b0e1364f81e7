package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/warmpath/warmpath/internal/life"
)

const topLong = `top shows a router's workers and its headline numbers in the terminal, once a second: what is in flight, what waits, times to the first
token, hit rates, and why a worker gets no requests. It asks GET /events at the admin port, works over ssh, and comes back by itself
when the router restarts.

Keys: q quit, s another column to sort by, r the other way round, up and down (or k and j), page up and page down, home and end to
choose a worker, d drain it (asks first), u take it back.

--once prints one table and ends, --json what the router tells: one object, or with --every one a second. Both are for scripts; so is
GET /events itself. Rates of workers and the hit rate are of the last half minute, all else of the last 30 seconds or of the moment.

`

const topExample = `  warmpath top
  warmpath top --admin https://router:8801 --admin-token-file token --sort tokens
  warmpath top --once | head -20
  warmpath top --json | jq '.rows[] | select(.state != "ready") | .id'`

// topFlags are the flags of `warmpath top`.
type topFlags struct {
	admin      adminFlags
	sort       string
	once, json bool
	every      bool
	timeout    time.Duration
}

// topCommand is `warmpath top`.
func topCommand() *cobra.Command {
	var f topFlags
	command := &cobra.Command{
		Use: "top", Short: "Show the workers and the headline numbers, live", Long: topLong + exitCodesUsage, Example: topExample, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.admin.add(command)
	flags := command.Flags()
	flags.StringVar(&f.sort, "sort", topSorts[0].name, "column to sort by: "+sortNames())
	flags.BoolVar(&f.once, "once", false, "print one table, and end")
	flags.BoolVar(&f.json, "json", false, "print what the router tells as JSON, and end: docs/LOOK.md names its fields")
	flags.BoolVar(&f.every, "every", false, "with --json: one line a second, until it is interrupted")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long the router may take with --once and --json")
	command.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(topSortNames(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

func (f *topFlags) run(cmd *cobra.Command) error {
	sort, known := sortOf(f.sort)
	switch {
	case !known:
		return usageError{fmt.Errorf("--sort %q: there are %s", f.sort, sortNames())}
	case f.once && f.json:
		return usageError{errors.New("--once with --json: one is a table, the other is JSON; choose one")}
	case f.every && !f.json:
		return usageError{errors.New("--every without --json: top shows a table each second by itself")}
	case f.timeout <= 0:
		return usageError{fmt.Errorf("--timeout %v: it must be above 0", f.timeout)}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	out := cmd.OutOrStdout()
	if f.once || f.json {
		return f.print(ctx, out, sort)
	}
	file, is := out.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return usageError{errors.New("standard output is no terminal that can be drawn on: use --once for a table, or --json")}
	}
	return f.live(ctx, file, topView{sort: sort, admin: f.admin.url})
}

// errEnough ends following the events.
var errEnough = errors.New("enough")

// print tells once what the router tells, or each second.
func (f *topFlags) print(ctx context.Context, out io.Writer, sort int) error {
	if !f.every {
		limited, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("%s told nothing for %v (--timeout)", f.admin.url, f.timeout))
		defer cancel()
		ctx = limited
	}
	err := f.follow(ctx, func(data []byte) error {
		if f.json {
			if _, err := fmt.Fprintf(out, "%s\n", data); err != nil || f.every {
				return err
			}
			return errEnough
		}
		v := topView{sort: sort, admin: f.admin.url, connected: true}
		if err := v.take(data); err != nil {
			return err
		}
		for _, line := range v.table(0) {
			fmt.Fprintln(out, line)
		}
		return errEnough
	})
	switch {
	case errors.Is(err, errEnough), f.every && ctx.Err() != nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// eventBytesMax bounds one event: some 600 bytes a worker.
const eventBytesMax = 16 << 20

// follow gives each snapshot of GET /events to a function until that has an error, or the stream ends.
func (f *topFlags) follow(ctx context.Context, each func(data []byte) error) error {
	q, err := f.admin.request(ctx, http.MethodGet, "/events", nil)
	if err != nil {
		return err
	}
	client, err := f.admin.client()
	if err != nil {
		return err
	}
	answer, err := client.Do(q)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("%s does not answer: is it a router's admin port (--admin; serve prints it when it starts)? %w", f.admin.url, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, answerShownMax))
		return refusedBy(f.admin.url, answer.StatusCode, said)
	}
	in := bufio.NewScanner(answer.Body)
	in.Buffer(nil, eventBytesMax)
	snapshot := false
	for in.Scan() {
		switch line := in.Bytes(); {
		case bytes.HasPrefix(line, []byte("event: ")):
			snapshot = string(line) == "event: snapshot"
		case snapshot && bytes.HasPrefix(line, []byte("data: ")):
			if err := each(line[len("data: "):]); err != nil {
				return err
			}
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s broke off: %w", f.admin.url, err)
	}
	return fmt.Errorf("%s ended the events", f.admin.url)
}

// news is what the goroutine that follows the events has to say.
type news struct {
	data []byte
	err  error // the connection is gone, and is tried again
}

// listen follows the events until ctx is done, and comes back when they end. What can never work is told once, and ends it.
func (f *topFlags) listen(ctx context.Context, tell chan<- news) {
	say := func(n news) {
		select {
		case tell <- n:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		err := f.follow(ctx, func(data []byte) error {
			say(news{data: bytes.Clone(data)})
			return ctx.Err()
		})
		say(news{err: err})
		life.Pause(ctx, time.Second)
	}
}

// hopeless says of an error that coming again will not help: the address is none, or the token may not.
func hopeless(err error) bool {
	var usage usageError
	var refused *refusalError
	return errors.As(err, &usage) || errors.As(err, &refused) && refused.status/100 == 4
}

// command does to a worker what a key asked for, and says what came of it.
func (f *topFlags) command(ctx context.Context, what, worker string) string {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var said json.RawMessage
	if err := f.admin.call(ctx, http.MethodPost, "/workers/"+url.PathEscape(worker)+"/"+what, &said); err != nil {
		return what + " " + worker + ": " + err.Error()
	}
	return what + " " + worker + ": done"
}
