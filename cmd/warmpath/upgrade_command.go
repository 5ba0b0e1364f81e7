package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

const upgradeLong = `upgrade has a running router start its program anew, as it is on disk now, with the flags that it was started with, and hand its ports over to it.
The new process takes connections once it has read its configuration and can serve; the one before takes no more then, ends the answers that are
under way (for as long as drain_timeout), and is gone. No connection is refused in between. What was learned of engines, what is assumed of their
caches, what tenants spent, and workers and drains that were set at the admin port go along.

When the new process does not start, because its configuration is wrong or it has no worker that answers, the one before serves on and says why.
So a change of what changes with a restart only is taken up this way, too. SIGUSR2 does the same.

In a container whose first process the router is this is refused: the container would end with it (docs/OPERATIONS.md).

`

// upgradeWaitMax bounds the wait for a router's answer, which comes by its own handover_timeout.
const upgradeWaitMax = time.Hour

// upgradeCommand is `warmpath upgrade`.
func upgradeCommand() *cobra.Command {
	var admin adminFlags
	var asJSON bool
	command := &cobra.Command{
		Use: "upgrade", Short: "Have a running router hand over to a new process, without a connection lost", Long: upgradeLong + exitCodesUsage, Args: cobra.NoArgs,
		Example: `  warmpath upgrade
  install -m 755 warmpath-new /usr/local/bin/warmpath && warmpath upgrade`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), upgradeWaitMax)
			defer cancel()
			var report upgradeReport
			if err := admin.call(ctx, http.MethodPost, "/upgrade", &report); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "process %d serves, %.1fs after it was started; %s of process %d still end there\n", report.PID, report.Seconds,
				counted(report.Running, "request"), report.From)
			return err
		},
	}
	admin.add(command)
	command.Flags().BoolVar(&asJSON, "json", false, "one JSON object on standard output")
	return command
}
