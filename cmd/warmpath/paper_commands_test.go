package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// commandLine is a line of a document that calls the product, with or without a folder, a prompt or variables before it.
var commandLine = regexp.MustCompile(`^(?:\$ |sudo |[A-Z_]+=\S+ )*(?:\S*/)?warmpath((?: [^#|&;<>]*)?)`)

// writtenCommands are the arguments of every call of the product in a document: lines of blocks of code, and code within a line.
func writtenCommands(text string) (calls []string) {
	fenced := false
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		spans := []string{strings.TrimSpace(line)}
		if !fenced && !strings.HasPrefix(line, "    ") {
			spans = nil
			for i, span := range strings.Split(line, "`") {
				if i%2 == 1 {
					spans = append(spans, span)
				}
			}
		}
		for _, span := range spans {
			if found := commandLine.FindStringSubmatch(span); found != nil {
				calls = append(calls, strings.TrimSpace(found[1]))
			}
		}
	}
	return calls
}

func TestEveryCommandInTheDocumentsExistsWithItsFlags(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../../README.md")
	tried := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range writtenCommands(string(text)) {
			if complaint := unknownIn(strings.Fields(call)); complaint != "" {
				t.Errorf("%s: warmpath %s: %s", filepath.Base(file), call, complaint)
			}
			tried++
		}
	}
	if tried < 60 {
		t.Errorf("only %d commands were found", tried)
	}
}

// unknownIn says what of a command line is not the product's: its command, or a flag.
func unknownIn(args []string) string {
	if len(args) == 0 || strings.HasPrefix(args[0], "--") {
		return ""
	}
	if strings.Trim(args[0], "abcdefghijklmnopqrstuvwxyz-") != "" { // a file, a service, a placeholder: `warmpath.yaml`, `warmpath COMMAND`
		return ""
	}
	root := rootCommand()
	root.InitDefaultHelpCmd()
	cmd, _, err := root.Find(args)
	if err != nil || !cmd.HasParent() {
		return "there is no such command"
	}
	cmd.InitDefaultHelpFlag()
	for _, arg := range args {
		name, long := strings.CutPrefix(strings.Trim(arg, "[],.:()"), "--")
		name, _, _ = strings.Cut(name, "=")
		if long && name != "" && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return "it has no flag --" + name
		}
	}
	return ""
}

func TestEveryConfigurationInTheDocumentsIsGood(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	tried := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range block.FindAllSubmatch(text, -1) {
			if _, err := config.Parse(filepath.Base(file), found[1], func(string) (string, bool) { return "a-value-from-outside-the-file", true }); err != nil {
				t.Errorf("%v in\n%s", err, found[1])
			}
			tried++
		}
	}
	if tried < 5 {
		t.Errorf("only %d were found", tried)
	}
}

func TestACommandThatIsNotThereIsNoticed(t *testing.T) {
	for call, want := range map[string]string{
		"serve --worker http://a":  "",
		"serve --wroker http://a":  "it has no flag --wroker",
		"replay --log a --fleet b": "",
		"repaly --log a":           "there is no such command",
		"config check a.yaml":      "",
	} {
		if got := unknownIn(strings.Fields(call)); got != want {
			t.Errorf("warmpath %s: %q, want %q", call, got, want)
		}
	}
	text := "see `warmpath top --once`\n\n    sudo ./bin/warmpath doctor --json | jq   # all\n\n`make bench`\n"
	if got := writtenCommands(text); len(got) != 2 || got[0] != "top --once" || got[1] != "doctor --json" {
		t.Errorf("%q", got)
	}
}
