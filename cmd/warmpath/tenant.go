package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/tenant"
)

// tenantCommand is `warmpath tenant`: keys, and the file that says whose they are.
func tenantCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "tenant",
		Short: "Make API keys, check the file of tenants, and show what tenants use",
		Long: `tenant helps with the file that says who may use the router (setting tenants.file, docs/TENANTS.md): key makes a fresh API key
and what the file is to have of it, check reads a file with the verdict that serve would give. Neither needs a running router; list asks
one what its tenants use now. A running router takes up a changed file by itself: check it first.`,
		Example: `  warmpath tenant key --name search
  warmpath tenant check tenants.yaml
  warmpath tenant list`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(tenantKeyCommand(), tenantCheckCommand(), tenantListCommand())
	return command
}

func tenantKeyCommand() *cobra.Command {
	var name string
	var stdin bool
	command := &cobra.Command{
		Use:   "key [--name NAME]",
		Short: "Make a fresh API key, and its lines for the file of tenants",
		Long: `key makes an API key of 256 random bits and prints it with the lines that the file of tenants is to have.

The key itself is shown this once and kept nowhere: hand it to whoever is to use it. The file has its digest alone (SHA-256), from which
nobody finds the key. Clients send it as Authorization: Bearer KEY, as OpenAI's do, or as X-Api-Key: KEY, as Anthropic's do.

With --stdin it makes no key: it reads one that you have, of 22 to 256 characters, and prints its lines. It is not shown again.`,
		Example: `  warmpath tenant key --name search
  printf %s "$KEY" | warmpath tenant key --name search --stdin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var random [32]byte
			rand.Read(random[:])
			key := tenant.Fresh(random)
			if stdin {
				text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 1024))
				if err != nil {
					return err
				}
				key = strings.TrimRight(string(text), "\r\n")
			}
			digest, err := tenant.Hash(key)
			if err != nil {
				return usageError{err}
			}
			lines := fmt.Sprintf("  - name: %s\n    keys: [%q]\n", name, digest.String())
			if _, err := tenant.Parse("--name", []byte("tenants:\n"+lines)); err != nil {
				return usageError{fmt.Errorf("%q is no name for a tenant: want 1 to 64 letters, digits, dots, underscores and hyphens, beginning with a letter or digit (flag --name)", name)}
			}
			if !stdin {
				fmt.Fprintf(cmd.OutOrStdout(), "# for the client, shown this once:\n%s\n\n", key)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "# for the file of tenants, under `tenants:`\n%s", lines)
			return err
		},
	}
	command.Flags().StringVar(&name, "name", "somebody", "the tenant's name")
	command.Flags().BoolVar(&stdin, "stdin", false, "read the key instead of making one")
	return command
}

func tenantCheckCommand() *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "check FILE [--config FILE]",
		Short: "Check a file of tenants, with the verdict that serve would give",
		Long: `check reads a file of tenants and prints who may do what. What is wrong is told with its line, and never repeats what may be a key.
Classes are those of the configuration that --config names, else the usual ones: interactive, standard, batch.`,
		Example: `  warmpath tenant check tenants.yaml
  warmpath tenant check tenants.yaml --config warmpath.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("tenant check wants one FILE, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c := config.Default()
			if file != "" {
				var err error
				if c, err = config.Load(file); err != nil {
					return err
				}
			}
			table, err := readTenants(args[0], models.PricesOf(c.ModelOptions()))
			if err == nil {
				err = table.CheckClasses(c.Queue.ClassNames())
			}
			if err != nil {
				return usageError{err}
			}
			return printTenants(cmd.OutOrStdout(), args[0], table, c.Queue.Class)
		},
	}
	command.Flags().StringVar(&file, "config", "", "the router's configuration, for its classes")
	command.MarkFlagFilename("config", "yaml", "yml")
	return command
}

// printTenants prints who may do what; class is the one of tenants that have none of their own.
func printTenants(w io.Writer, file string, table *tenant.Table, class string) error {
	all := table.Tenants()
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s: good: %s\n\n", file, counted(len(all), "tenant"))
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "tenant\tkeys\tclass\tmay ask for\tweight\tin flight\trequests/min\ttokens/min\tspend/day\tmodels")
	for _, t := range all {
		l, own := t.Limits, t.Class
		if own == "" {
			own = class
		}
		keys := fmt.Sprint(table.Keys(t))
		if t == table.Anonymous() {
			keys = "none needed"
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%v\t%s\t%s\t%s\t%s\t%s\n", t.Name, keys, own, orDash(strings.Join(t.Classes, " ")), t.Weight,
			limit(l.InFlight), limit(l.RequestsPerMinute), limit(l.TokensPerMinute), spendLimit(l.SpendPerDay), orAll(t.Models))
	}
	columns.Flush()
	_, err := io.WriteString(w, out.String())
	return err
}

func limit(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func spendLimit(m tenant.Money) string {
	if m == 0 {
		return "-"
	}
	return m.String()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func orAll(models []string) string {
	if len(models) == 0 {
		return "all"
	}
	return strings.Join(models, " ")
}
