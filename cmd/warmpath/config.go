package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
)

// configCommand is `warmpath config`: looking at a configuration without starting anything.
func configCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "Print, check and describe the configuration",
		Long: `config looks at the configuration without starting anything: print shows every setting with its value,
check gives the verdict that serve would give, schema describes the file for editors, pools tries rules on requests that were.`,
		Example: `  warmpath config print > warmpath.yaml
  warmpath config check warmpath.yaml
  warmpath config schema > warmpath.schema.json`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(configPrintCommand(), configCheckCommand(), configSchemaCommand(), configPoolsCommand())
	return command
}

func configPrintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "print [FILE]",
		Short: "Print every setting with its value: the defaults, or what FILE makes of them",
		Long: `print writes a whole configuration file: every key under its description, with its default or with the value
that FILE gives it. What it prints is itself a good file. Credentials are not printed.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := config.Default()
			if len(args) == 1 {
				var err error
				if c, err = config.Load(args[0]); err != nil {
					return err
				}
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), config.Print(c))
			return err
		},
	}
}

func configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of the file, for editors",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), config.Schema())
			return err
		},
	}
}

// knownSubcommand refuses arguments of a command that only has subcommands, and names the nearest one: cobra does so for the root
// alone, and shows the help of any other with exit code 0.
func knownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), didYouMean(args[0], names, "; there are "+strings.Join(names, ", ")))
}
