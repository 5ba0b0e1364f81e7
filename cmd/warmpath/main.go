// Command warmpath stands in front of LLM inference engines and sends each request where its prompt is warm and the work is least.
//
//	warmpath serve --worker http://gpu-1:8000 --worker http://gpu-2:8000
//	warmpath doctor --worker http://gpu-1:8000
//	warmpath config check warmpath.yaml
//
// It ends with one of the exit codes below, so that a supervisor can tell what retrying cannot mend.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
)

// Exit codes.
const (
	exitOK         = 0
	exitRuntime    = 1 // it ran and failed
	exitUsage      = 2 // a flag, an argument or the configuration is wrong: starting again will not help
	exitPortInUse  = 3 // another process has the address
	exitCodesUsage = `Exit codes: 0 done, 1 failed while running, 2 wrong usage or configuration, 3 address in use.`
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		hear(atStart)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	started := false
	root := rootCommand()
	markStart(root, &started)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "%s %s\n", emphasis(stderr, "warmpath:"), plainLines(err.Error())) // it may repeat what others wrote
	code := exitCode(err)
	var usage usageError
	if !started || errors.As(err, &usage) {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		code = exitUsage
	}
	return code
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "warmpath",
		Short: "A router for LLM engines: warm prefix first, load in seconds",
		Long: `warmpath stands in front of LLM inference engines (vLLM, SGLang, llama.cpp and whatever speaks the OpenAI API)
and sends each request to the worker where it costs least: its prompt's warm prefix and the work already owed, in seconds.

` + exitCodesUsage,
		Version:       thisBuild().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("warmpath {{.Version}}\n")
	root.AddCommand(serveCommand(), topCommand(), workerCommand(), demoCommand(), replayCommand(), reportCommand(), proveCommand(), benchCommand(), benchWorkersCommand(), benchEventsCommand(), benchOpenWorkersCommand(), doctorCommand(), explainCommand(), prefixesCommand(), drainCommand(), undrainCommand(), reloadCommand(), upgradeCommand(), registerCommand(), tokenizeCommand(), tenantCommand(), configCommand(), healthcheckCommand(), versionCommand())
	root.SetFlagErrorFunc(suggestFlag)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // cobra's own takes a shell that it does not know for a wish to read its help
			c.Args, c.RunE = knownSubcommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}

// markStart notes when a command's own code begins: an error before that point is cobra's own, about flags and arguments, and has
// no type by which it could be told apart.
func markStart(c *cobra.Command, started *bool) {
	for _, sub := range c.Commands() {
		markStart(sub, started)
	}
	if inner := c.RunE; inner != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return inner(cmd, args)
		}
	}
}

// usageError is a wrong use of flags that only the command itself can see, such as two that exclude each other.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func exitCode(err error) int {
	var usage usageError
	var settings *config.Error
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return exitPortInUse
	case errors.As(err, &usage), errors.As(err, &settings):
		return exitUsage
	}
	return exitRuntime
}

// emphasis is text in bold red when w is a terminal that wants colours (see no-color.org), else text as it is.
func emphasis(w io.Writer, text string) string {
	if !wantsColour(w) {
		return text
	}
	return "\x1b[1;31m" + text + "\x1b[0m"
}

// wantsColour says whether w is a terminal on which escape sequences may be written.
func wantsColour(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != ""
}
