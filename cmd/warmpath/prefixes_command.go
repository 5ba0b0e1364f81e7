package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/hot"
)

// prefixesCommand is `warmpath prefixes`.
func prefixesCommand() *cobra.Command {
	var admin adminFlags
	var asJSON bool
	var limit int
	var sort string
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "prefixes",
		Short: "Show the beginnings that most prompts share, and where they are cached",
		Long: `prefixes asks a running router for the hottest prefixes: how long they are, how many requests a minute begin so, on which workers they are
cached, what that saved so far, and what it would cost to lose them. A prefix is named by its key, a hash of all of it; its text is shown
where the router keeps it (serve --show-text, setting dash.show_text). --json prints what GET /prefixes has (docs/LOOK.md).`,
		Example: `  warmpath prefixes
  warmpath prefixes --sort tokens --limit 5
  warmpath prefixes --json | jq '.prefixes[] | select(.copies > 4)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case timeout <= 0:
				return usageError{fmt.Errorf("--timeout %v: it must be above 0", timeout)}
			case limit < 1 || limit > prefixesShownMax:
				return usageError{fmt.Errorf("--limit %d: write a number from 1 to %d", limit, prefixesShownMax)}
			case !slices.Contains(hot.Orders, sort):
				return usageError{fmt.Errorf("--sort %q is none of %s", sort, strings.Join(hot.Orders, ", "))}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			var found prefixesFound
			if err := admin.call(ctx, http.MethodGet, "/prefixes?limit="+strconv.Itoa(limit)+"&sort="+url.QueryEscape(sort), &found); err != nil {
				return err
			}
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				return out.Encode(found)
			}
			return listPrefixes(cmd.OutOrStdout(), &found)
		},
	}
	admin.add(command)
	flags := command.Flags()
	flags.BoolVar(&asJSON, "json", false, "one JSON object on standard output")
	flags.IntVar(&limit, "limit", 20, "how many are shown")
	flags.StringVar(&sort, "sort", string(hot.ByRequests), "what comes first: most "+strings.Join(hot.Orders, ", "))
	flags.DurationVar(&timeout, "timeout", 10*time.Second, "how long the router's answer may take")
	command.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(hot.Orders, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// holdersShown is how many holders a line names.
const holdersShown = 4

func listPrefixes(w io.Writer, found *prefixesFound) error {
	if len(found.Prefixes) == 0 {
		_, err := fmt.Fprintf(w, "no beginning is shared by three requests so far; by two: %d (that may be a conversation's next turn)\n", found.Tracked)
		return err
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "prefix\tmodel\ttokens\trequests/min\trequests\tsaved s\tloss s/min\tcopies\tholders"
	if found.ShowText {
		head += "\ttext"
	}
	fmt.Fprintln(columns, head)
	for i := range found.Prefixes {
		p := &found.Prefixes[i]
		holders := strings.Join(p.Holders[:min(holdersShown, len(p.Holders))], " ")
		if more := len(p.Holders) - holdersShown; more > 0 {
			holders += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%.1f\t%.0f\t%.4g\t%.3g\t%d\t%s", p.Key, plain(p.Model), thousands(p.Tokens), p.RequestsPerMinute, p.Requests, p.SecondsSaved, p.EvictionSeconds,
			p.Copies, plain(orDash(holders)))
		if found.ShowText {
			fmt.Fprintf(columns, "\t%q", p.Text)
		}
		fmt.Fprintln(columns)
	}
	return columns.Flush()
}
