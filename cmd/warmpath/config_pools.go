package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/traces"
)

func configPoolsCommand() *cobra.Command {
	var before string
	var logs []string
	command := &cobra.Command{
		Use:   "pools FILE",
		Short: "Say which pools the requests of a decision log would have belonged to by the rules of FILE",
		Long: `pools tries the pools and pool_rules of FILE on requests that were, without starting anything: how many belong to
which pool, by which rule, and with --before which of them would go elsewhere than by another file. Load is left aside: it
says where a request belongs, not where it would spill to. A log knows neither images nor urgency, so that rules on
modalities and best_effort see requests of text that may not be dropped.`,
		Example: `  warmpath config pools new.yaml --before warmpath.yaml --log decisions.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("config pools wants one FILE, not %d", len(args))
			}
			if len(logs) == 0 {
				return errors.New("config pools wants requests to try the rules on (flag --log)")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			after, err := poolsOf(args[0])
			if err != nil {
				return err
			}
			from, _ := pools.New(pools.Options{})
			if before != "" {
				if from, err = poolsOf(before); err != nil {
					return err
				}
			}
			var failed error
			change := pools.Compare(from, after, recorded(logs, &failed))
			if failed != nil {
				return failed
			}
			return printChange(cmd.OutOrStdout(), change, before != "")
		},
	}
	command.Flags().StringVar(&before, "before", "", "file with the rules to compare with")
	command.Flags().StringArrayVar(&logs, "log", nil, "decision log, once for each file")
	return command
}

func poolsOf(file string) (*pools.Set, error) {
	c, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	set, problems := pools.New(c.PoolOptions())
	if len(problems) > 0 { // Load has said so before
		return nil, errors.New(problems[0].String())
	}
	return set, nil
}

// recorded are the requests of decision logs. Torn lines, as a crash leaves them, are passed over.
func recorded(files []string, failed *error) iter.Seq[pools.Request] {
	return func(yield func(pools.Request) bool) {
		for _, file := range files {
			in, done, err := traces.OpenFile(file)
			if err != nil {
				*failed = err
				return
			}
			more := requestsOf(in, yield, failed)
			_ = done() // it was read only
			if !more {
				return
			}
		}
	}
}

func requestsOf(f io.Reader, yield func(pools.Request) bool, failed *error) bool {
	var record declog.Record
	var torn *declog.LineError
	for r := declog.NewReader(f); ; {
		switch err := r.Next(&record); {
		case err == io.EOF:
			return true
		case errors.As(err, &torn):
			continue
		case err != nil:
			*failed = err
			return false
		}
		if !yield(pools.RequestOf(&record)) {
			return false
		}
	}
}

func printChange(out io.Writer, c pools.Change, compared bool) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s", counted(c.Requests, "request"))
	if compared {
		fmt.Fprintf(t, ", %d would go to another pool\n\nfrom\tto\trequests\tprompt tokens\n", c.Moved)
		for _, m := range c.Moves {
			fmt.Fprintf(t, "%s\t%s\t%d\t%d\n", m.From, m.To, m.Requests, m.PromptTokens)
		}
	} else {
		fmt.Fprintln(t)
	}
	fmt.Fprintf(t, "\npool\trule\trequests\ttokens\n")
	for _, n := range c.After {
		rule := n.Rule
		if rule == "" {
			rule = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\n", n.Pool, rule, n.Requests, n.Tokens)
	}
	return t.Flush()
}
