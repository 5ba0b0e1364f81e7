package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/sched"
)

const explainLong = `explain asks a running router what would become of a request if it came now: how many tokens its prompt has and how that is known,
what it is expected to cost, every worker with the seconds that going there would take and cost others, the filters that put workers
out, and whether it would have to wait. Nothing is sent to a worker to be answered, and the router stays as it was.

The request is the body that a client would send (--body; - is standard input), with the headers that it would send (--header): a
tenant's key, a class. Its API is guessed from the body where --api does not say. --policy asks what another policy would
choose, and --without what would be chosen if a worker were not there.

With --id it says the same of a request that was: the best eight workers as they were, and what came of it. The router has the last ones
(GET /decisions/ID of its admin port); with --log they are looked for in its decision log (serve --decision-log). The id is that of the
answer's X-Request-Id header, or so much of its beginning as no other one has.

Of each worker: cached, the prompt's tokens that it holds, told by its cache events (*) or assumed; wait, for prefills queued there and
for room, and what that wait costs others; prefill, its own; delays, what its prefill costs those who wait or decode; decode, its answer
among those under way; batch, what its presence costs them; displ., what it displaces from the cache. The least sum is best:
docs/POLICY.md has the formula. Sums within 1 ms or 2 % of the least are as good: the reason says what decided. Other policies choose by a
score of their own, which is no time; a line below the table says what it is.

Of a body that would be refused the exit code is 1.

`

const explainExample = `  warmpath explain --body request.json
  warmpath explain --body request.json --policy least-requests --json
  warmpath explain --body request.json --without gpu-3
  echo '{"model":"m","prompt":"Hello"}' | warmpath explain --body - --header 'X-Warmpath-Class: batch'
  warmpath explain --id 4f2c
  warmpath explain --id 4f2c --log decisions.jsonl`

// explainFlags are the flags of `warmpath explain`.
type explainFlags struct {
	admin                      adminFlags
	body, api, policy, id, log string
	without                    []string
	headers                    []string
	rows                       int
	json                       bool
	timeout                    time.Duration
}

// explainCommand is `warmpath explain`.
func explainCommand() *cobra.Command {
	var f explainFlags
	command := &cobra.Command{
		Use: "explain --body FILE | --id ID [--log FILE]", Short: "Say where a request would go now, or why one went where it did",
		Long: explainLong + exitCodesUsage, Example: explainExample, Args: nothingBare,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := command.Flags()
	flags.StringVar(&f.body, "body", "", "file with the request's body, - for standard input")
	f.admin.add(command)
	flags.StringVar(&f.api, "api", "", "what the body is: "+strings.Join(apiNames(), ", ")+", or a path such as /v1/rerank; guessed if not given")
	flags.StringVar(&f.policy, "policy", "", "policy to go by, in place of the one in force")
	flags.StringArrayVar(&f.without, "without", nil, "id of a worker to be left out, as if it had failed the request already; repeat for more")
	flags.StringArrayVar(&f.headers, "header", nil, "header of the request, 'Name: value'; repeat for more")
	flags.StringVar(&f.id, "id", "", "id of a request that was, or the beginning of it")
	flags.StringVar(&f.log, "log", "", "decision log that --id is looked for in, and files that it was rotated to; without it the router is asked")
	flags.IntVar(&f.rows, "rows", 20, "workers shown at most; 0 shows all")
	flags.BoolVar(&f.json, "json", false, "one JSON object: docs/ADMIN.md names its fields")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long the router may take")
	command.MarkFlagFilename("body", "json")
	command.MarkFlagFilename("log", "jsonl")
	command.RegisterFlagCompletionFunc("api", cobra.FixedCompletions(apiNames(), cobra.ShellCompDirectiveNoFileComp))
	command.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(sched.PolicyNames(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

func apiNames() []string { return slices.Sorted(maps.Keys(pathOf)) }

func (f *explainFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return usageError{err}
	}
	var e explanation
	var err error
	switch {
	case f.log != "":
		e, err = findDecision(f.log, f.id)
	case f.id != "":
		e, err = f.askDecision(cmd.Context())
	default:
		e, err = f.ask(cmd.Context(), cmd.InOrStdin())
	}
	if err != nil {
		return err
	}
	if err := f.print(cmd.OutOrStdout(), &e); err != nil {
		return err
	}
	if f.id == "" && e.Verdict == verdictRefused {
		return fmt.Errorf("the request would be refused with %d: %s", e.Status, e.Error)
	}
	return nil
}

func (f *explainFlags) print(out io.Writer, e *explanation) error {
	if !f.json {
		return printExplanation(out, e, f.rows)
	}
	j := json.NewEncoder(out)
	j.SetIndent("", "  ")
	j.SetEscapeHTML(false)
	return j.Encode(e)
}

// nothingBare refuses what stands there without a flag, and says which one was probably meant.
func nothingBare(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	flag := "--id"
	if _, err := os.Stat(args[0]); err == nil || strings.ContainsAny(args[0], "./") || args[0] == "-" {
		flag = "--body"
	}
	return fmt.Errorf("%q stands there without a flag; did you mean %s %s?", args[0], flag, args[0])
}

func (f *explainFlags) check(cmd *cobra.Command) error {
	switch {
	case f.body == "" && f.id == "":
		return errors.New("neither --body nor --id is given: a request that could come, or the id of one that came")
	case f.body != "" && f.id != "":
		return errors.New("--body with --id: explain a request that could come, or one that came")
	case f.log != "" && f.id == "":
		return errors.New("--log without --id: which of its requests?")
	case f.rows < 0:
		return fmt.Errorf("--rows %d: it must be 0 or more", f.rows)
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %v: it must be above 0", f.timeout)
	case f.api != "" && !strings.HasPrefix(f.api, "/") && pathOf[f.api] == "":
		return fmt.Errorf("--api %q: there are %s, or a path that begins with /", f.api, strings.Join(apiNames(), ", "))
	case f.policy != "" && sched.Policies[f.policy] == nil:
		return fmt.Errorf("--policy %q: there are %s", f.policy, strings.Join(sched.PolicyNames(), ", "))
	}
	for _, name := range []string{"api", "policy", "without", "header"} {
		if f.id != "" && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s with --id: it is decided already", name)
		}
	}
	if f.log != "" && cmd.Flags().Changed("admin") {
		return errors.New("--admin with --log: look for it in the log, or ask the router")
	}
	for _, h := range f.headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || strings.TrimSpace(name) == "" {
			return fmt.Errorf("--header %q: write 'Name: value'", h)
		}
	}
	return nil
}

// explainAnswerBytesMax bounds what a router may answer: some 400 bytes a worker.
const explainAnswerBytesMax = 16 << 20

// ask has a router explain a request.
func (f *explainFlags) ask(ctx context.Context, stdin io.Reader) (e explanation, err error) {
	body := stdin
	if f.body != "-" {
		file, err := os.Open(f.body)
		if err != nil {
			return e, usageError{fmt.Errorf("--body: %w", err)}
		}
		defer file.Close()
		body = file
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return e, fmt.Errorf("--body cannot be read: %w", err)
	}
	path := f.api
	if pathOf[path] != "" {
		path = pathOf[path]
	}
	query := url.Values{}
	for name, value := range map[string]string{"path": path, "policy": f.policy} {
		if value != "" {
			query.Set(name, value)
		}
	}
	query["without"] = f.without
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	q, err := f.admin.request(ctx, http.MethodPost, "/explain?"+query.Encode(), bytes.NewReader(text))
	if err != nil {
		return e, err
	}
	for _, h := range f.headers {
		name, value, _ := strings.Cut(h, ":")
		q.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	said, err := f.admin.do(q, explainAnswerBytesMax)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(said, &e); err != nil || e.Verdict == "" {
		return e, fmt.Errorf("%s answered what is no explanation: is it a router's admin port (--admin)?", f.admin.url)
	}
	return e, nil
}
