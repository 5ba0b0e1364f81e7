package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/warmpath/warmpath/internal/spelling"
)

// scenarioFlag names the file with a replay's flags, and tracesKey what is there of its arguments.
const scenarioFlag, tracesKey = "scenario", "traces"

// scenario sets the flags that a file names and the command line does not, and returns the traces that it names.
func scenario(cmd *cobra.Command, file string, args []string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var root yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&root); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	top := root.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want the flags of replay by their names, as in \"fleet: h100-8b:8\"", file, top.Line)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		values, err := scenarioValues(value)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", file, value.Line, key.Value, err)
		}
		if key.Value == tracesKey {
			if len(args) == 0 {
				args = values
			}
			continue
		}
		if err := setScenario(cmd.Flags(), key.Value, values); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, key.Line, err)
		}
	}
	return args, nil
}

// scenarioValues are a value's words: one, or those of a list.
func scenarioValues(n *yaml.Node) (values []string, err error) {
	all := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		all = n.Content
	}
	for _, v := range all {
		if v.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("want one value, or a list of them")
		}
		values = append(values, v.Value)
	}
	return values, nil
}

// setScenario sets one flag, unless the command line did. A list is all values of a flag that may be given again, and a,b,c of any other.
func setScenario(flags *pflag.FlagSet, name string, values []string) error {
	f := flags.Lookup(name)
	if f == nil || name == scenarioFlag || name == "help" {
		names := []string{tracesKey}
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		hint := ""
		if near := spelling.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
		}
		return fmt.Errorf("%q is no flag of replay%s", name, hint)
	}
	if f.Changed {
		return nil
	}
	if _, again := f.Value.(pflag.SliceValue); !again {
		values = []string{strings.Join(values, ",")}
	}
	for _, v := range values {
		if err := flags.Set(name, v); err != nil {
			return err
		}
	}
	return nil
}
