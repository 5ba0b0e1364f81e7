package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/delta"
	"github.com/warmpath/warmpath/internal/models"
)

const reloadLong = `reload has a running router read its configuration file again, with the flags that it was started with, and prints what changed.
All of it is in force with the next request, or nothing is: a file that is wrong, or that changes what a restart only can change, is refused
with the place and the reason. Answers under way go on. Workers that stay keep their caches, costs and counts; workers that the file names no
more drain. Credentials are never printed.

SIGHUP does the same, and so does a change of the file where watch_config is set.

`

// reloadTimeout bounds the wait for a router's answer.
const reloadTimeout = time.Minute

// reloadCommand is `warmpath reload`.
func reloadCommand() *cobra.Command {
	var admin adminFlags
	var dry, asJSON bool
	command := &cobra.Command{
		Use: "reload", Short: "Have a running router read its configuration again", Long: reloadLong + exitCodesUsage, Args: cobra.NoArgs,
		Example: `  warmpath reload
  warmpath reload --dry-run       # what would change
  warmpath config check new.yaml --against http://127.0.0.1:8801`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), reloadTimeout)
			defer cancel()
			path := "/reload"
			if dry {
				path += "?dry_run=true"
			}
			var report reloadReport
			if err := admin.call(ctx, http.MethodPost, path, &report); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			}
			return printReload(cmd.OutOrStdout(), report)
		},
	}
	admin.add(command)
	command.Flags().BoolVar(&dry, "dry-run", false, "only say what would change")
	command.Flags().BoolVar(&asJSON, "json", false, "one JSON object on standard output")
	return command
}

func printReload(w io.Writer, report reloadReport) error {
	out := &strings.Builder{}
	for _, c := range report.Changes {
		fmt.Fprintln(out, c)
	}
	switch n := counted(len(report.Changes), "change"); report.Result {
	case reloadApplied:
		fmt.Fprintf(out, "%s in force, generation %d, hash %s\n", n, report.Generation, report.Hash)
	case reloadWould:
		if len(report.Changes) == 0 {
			n = "nothing"
		}
		fmt.Fprintf(out, "%s would be taken up; nothing was\n", n)
	default:
		fmt.Fprintf(out, "nothing changed, generation %d, hash %s\n", report.Generation, report.Hash)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

const checkLong = `check reads FILE as serve would, starts nothing, and gives the same verdict: all that is wrong, each with its line and key,
also of the file of tenants that it names.
With --against it also says how FILE differs from what a running router goes by, and which of that needs a restart. What flags of the running
router changed counts as a difference; credentials are not compared, because a router tells nobody its own.

`

func configCheckCommand() *cobra.Command {
	var admin adminFlags
	var against string
	var asJSON bool
	command := &cobra.Command{
		Use: "check FILE", Short: "Check a configuration file, with the verdict that serve would give", Long: checkLong + exitCodesUsage,
		Example: `  warmpath config check warmpath.yaml
  warmpath config check warmpath.yaml --against http://127.0.0.1:8801`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("config check wants one FILE, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(args[0])
			if err == nil && c.Tenants.File != "" {
				_, err = readTenants(c.Tenants.File, models.PricesOf(c.ModelOptions()))
			}
			if err != nil {
				return err
			}
			v := checkVerdict{File: args[0], Hash: configHash(c), Workers: len(c.Workers), From: whoIsThere(c), Policy: c.Policy, Listen: c.Listen, Admin: c.Admin}
			if against != "" {
				admin.url, v.Against = against, against
				if v.Changes, v.NoFile, err = differences(cmd.Context(), &admin, c); err != nil {
					return err
				}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			return v.print(cmd.OutOrStdout())
		},
	}
	admin.add(command)
	command.Flags().MarkHidden("admin")
	command.Flags().StringVar(&against, "against", "", "admin port of a running router that FILE is held against, http://host:port")
	command.Flags().BoolVar(&asJSON, "json", false, "one JSON object on standard output")
	return command
}

// checkVerdict is on a file that is good.
type checkVerdict struct {
	File    string         `json:"file"`
	Hash    string         `json:"hash"`
	Workers int            `json:"workers"`
	From    string         `json:"workers_from"` // in words, sources that are asked for more included
	Policy  string         `json:"policy"`
	Listen  string         `json:"listen"`
	Admin   string         `json:"admin"`
	Against string         `json:"against,omitempty"`
	Changes []delta.Change `json:"changes,omitempty"`
	NoFile  bool           `json:"against_has_no_file,omitempty"` // that router was started without one: it has nothing to reload
}

func (v *checkVerdict) print(w io.Writer) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s: good: %s, policy %s, listening on %s, admin on %s\n", v.File, v.From, v.Policy, v.Listen, v.Admin)
	if v.Against != "" {
		restart := len(delta.Restart(v.Changes))
		fmt.Fprintf(out, "against %s: %s, %d of them with a restart only; credentials are not compared\n", v.Against, counted(len(v.Changes), "change"), restart)
		if v.NoFile {
			fmt.Fprintf(out, "that router was started without a configuration file and has none to reload: all of them need a start with serve --config %s\n", v.File)
		}
		for _, c := range v.Changes {
			mark := "  "
			if c.Restart {
				mark = "! "
			}
			fmt.Fprintln(out, mark+c.String())
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// differences are how a configuration differs from the one that a router goes by.
func differences(ctx context.Context, admin *adminFlags, c config.Config) (changes []delta.Change, noFile bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	q, err := admin.request(ctx, http.MethodGet, "/config", nil)
	if err != nil {
		return nil, false, err
	}
	text, err := admin.do(q, watchBytesMax)
	if err != nil {
		return nil, false, err
	}
	running, err := config.Parse(admin.url+"/config", text, os.LookupEnv)
	var wrong *config.Error
	if errors.As(err, &wrong) {
		return nil, false, fmt.Errorf("%s goes by a configuration that this build does not understand; is it another version? %s", admin.url, wrong.Problems[0])
	}
	if err != nil {
		return nil, false, err
	}
	var now struct {
		Config configState `json:"config"`
	}
	if err := admin.call(ctx, http.MethodGet, "/state", &now); err != nil {
		return nil, false, err
	}
	return delta.Of(running, withoutQueries(c), reflect.TypeFor[config.Secret]()), now.Config.File == "", nil
}
