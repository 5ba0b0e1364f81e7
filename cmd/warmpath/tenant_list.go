package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// tenantListCommand is `warmpath tenant list`.
func tenantListCommand() *cobra.Command {
	var admin adminFlags
	var asJSON bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "list",
		Short: "Show what tenants use of a running router",
		Long: `list asks a running router what its tenants use now: requests inside, what counts against their limits, and which limits kept requests
out since the start. Those that have not asked since the start are not listed. --json prints what /state has of them (docs/ADMIN.md).`,
		Example: `  warmpath tenant list
  warmpath tenant list --admin http://127.0.0.1:9801 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError{fmt.Errorf("--timeout %v: it must be above 0", timeout)}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			var s struct {
				Tenants []tenantState `json:"tenants"`
				More    int           `json:"tenants_left_out"`
			}
			if err := admin.call(ctx, http.MethodGet, "/state", &s); err != nil {
				return err
			}
			if asJSON {
				if s.Tenants == nil {
					s.Tenants = []tenantState{}
				}
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				return out.Encode(s.Tenants)
			}
			return listTenants(cmd.OutOrStdout(), s.Tenants, s.More)
		},
	}
	admin.add(command)
	command.Flags().BoolVar(&asJSON, "json", false, "one JSON array on standard output")
	command.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long the router's answer may take")
	return command
}

func listTenants(w io.Writer, all []tenantState, more int) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no tenant has asked since the start, or nobody is asked for a key (setting tenants.file)")
		return err
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "tenant\tin flight\trequests/min\ttokens/min\tspent today\tof\trequests\trefused by")
	for _, t := range all {
		of := "-"
		if t.SpendPerDay > 0 {
			of = fmt.Sprintf("%.4g", t.SpendPerDay)
		}
		var refused []string
		for limit, n := range t.Refused {
			refused = append(refused, fmt.Sprintf("%s %d", limit, n))
		}
		slices.Sort(refused)
		fmt.Fprintf(columns, "%s\t%d\t%d\t%d\t%.4g\t%s\t%d\t%s\n", t.Tenant, t.InFlight, t.RequestsLastMinute, t.TokensLastMinute, t.SpentToday, of,
			t.Requests-t.NeverRan, orDash(strings.Join(refused, ", ")))
	}
	if err := columns.Flush(); err != nil || more == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "and %s with fewer tokens in the last minute\n", counted(more, "tenant"))
	return err
}
