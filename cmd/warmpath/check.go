package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
)

// checkCommand reads a configuration as serve would and says what is wrong with it, without starting anything.
func checkCommand() *cobra.Command {
	var schema bool
	command := &cobra.Command{
		Use:   "check-config FILE",
		Short: "Check a configuration file, with the verdict that serve would give",
		Example: `  warmpath check-config warmpath.yaml
  warmpath check-config --schema > warmpath.schema.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if schema {
				return cobra.NoArgs(cmd, args)
			}
			if len(args) != 1 {
				return fmt.Errorf("check-config wants one FILE, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if schema {
				_, err := fmt.Fprint(out, config.Schema())
				return err
			}
			c, err := config.Load(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s: good: %d workers, policy %s, listening on %s, admin on %s\n",
				args[0], len(c.Workers), c.Policy, c.Listen, c.Admin)
			return err
		},
	}
	command.Flags().BoolVar(&schema, "schema", false, "print the JSON schema of the file, for editors")
	return command
}
