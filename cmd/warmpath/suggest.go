package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/internal/spelling"
)

// suggestFlag adds the flag that was probably meant to the error about one that a command does not have.
func suggestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name := unknown.GetSpecifiedName()
	if group := unknown.GetSpecifiedShortnames(); len(group) > 1 {
		name = group // one dash was written where two belong: -worker
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return fmt.Errorf("%w%s", err, didYouMean("--"+name, names, ""))
}

// didYouMean is "; did you mean X?" for the nearest of names, else the text for when none is near.
func didYouMean(given string, names []string, otherwise string) string {
	if near := spelling.Nearest(given, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return otherwise
}
