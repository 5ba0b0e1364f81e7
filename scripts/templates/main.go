// Templates holds internal/jinja against Python's Jinja2 and prints for each template of .cache/templates how many conversations render the
// same, why it is refused, or where it first differs. It fails where something differs.
//
//	go run ./scripts/templates            # after scripts/templates-install.sh; `make templates` does both
//	go run ./scripts/templates -sample internal/jinja/testdata/sample.json
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/jinja"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

const (
	cache      = ".cache/templates"
	casesFile  = cache + "/cases.json"
	templates  = 60 // fewer, and something is missing
	sampleEach = 3  // every so many of the conversations are in the sample
)

// sampled are the templates of the sample; all are under Apache-2.0.
var sampled = []string{"Qwen3-Coder", "Qwen-Qwen3-0.6B", "openai-gpt-oss-120b", "mistralai-Mistral-Nemo-Instruct-2407"}

// now is the reference's clock.
var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

type outcome struct {
	Text  *string
	Error string
}

type cases struct {
	Templates     map[string]string
	Conversations []json.RawMessage
	Want          map[string][]outcome
}

func main() {
	sample := flag.String("sample", "", "write the committed sample to this file and end")
	flag.Parse()
	if err := run(*sample); err != nil {
		fmt.Fprintln(os.Stderr, "templates:", err)
		os.Exit(1)
	}
}

func run(sample string) error {
	reference := exec.Command(cache+"/venv/bin/python", "scripts/templates/reference.py", cache, casesFile)
	reference.Stderr = os.Stderr
	if err := reference.Run(); err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	file, err := os.ReadFile(casesFile)
	if err != nil {
		return err
	}
	var c cases
	if err := json.Unmarshal(file, &c); err != nil {
		return err
	}
	if sample != "" {
		return c.sample(sample)
	}
	return c.compare()
}

func (c cases) compare() error {
	names := make([]string, 0, len(c.Templates))
	for name := range c.Templates {
		names = append(names, name)
	}
	slices.Sort(names)
	same, refused, different := 0, 0, 0
	for _, name := range names {
		t, err := jinja.Parse(c.Templates[name])
		if err != nil {
			refused++
			fmt.Printf("%-48s refused: %v\n", name, err)
			continue
		}
		errors, first := 0, ""
		for i, conversation := range c.Conversations {
			want := c.Want[name][i]
			if want.Text == nil {
				errors++
			}
			if first == "" {
				first = difference(t, conversation, want, i)
			}
		}
		if first != "" {
			different++
			fmt.Printf("%-48s different: %s\n", name, first)
			continue
		}
		same++
		fmt.Printf("%-48s same in %d conversations, %d of them errors in both\n", name, len(c.Conversations), errors)
	}
	fmt.Printf("%d templates with %d conversations each: %d same, %d refused, %d different\n", len(names), len(c.Conversations), same, refused, different)
	if different > 0 || len(names) < templates {
		return fmt.Errorf("%d differ of %d templates, of which there should be %d at least", different, len(names), templates)
	}
	return nil
}

// difference is "" where the template does with the conversation what it does in Python.
func difference(t *jinja.Template, conversation json.RawMessage, want outcome, i int) string {
	v, err := pyvalue.ReadJSON(string(conversation))
	if err != nil {
		return err.Error()
	}
	values := map[string]any{}
	for _, key := range v.(*pyvalue.Dict).Keys() {
		values[key], _ = v.(*pyvalue.Dict).Get(key)
	}
	got, err := t.Render(values, jinja.Options{Now: now})
	switch {
	case err != nil && want.Text == nil:
		return ""
	case err != nil:
		return fmt.Sprintf("conversation %d: error here alone: %v", i, err)
	case want.Text == nil:
		return fmt.Sprintf("conversation %d: error there alone: %s", i, want.Error)
	case got == *want.Text:
		return ""
	}
	at := 0
	for at < min(len(got), len(*want.Text)) && got[at] == (*want.Text)[at] {
		at++
	}
	cut := func(s string) string { return s[max(0, at-30):min(len(s), at+30)] }
	return fmt.Sprintf("conversation %d at byte %d: %q, there %q", i, at, cut(got), cut(*want.Text))
}

// sample writes some templates with some conversations and their texts; "error" stands for an error.
func (c cases) sample(name string) error {
	var s struct {
		Templates     map[string]string   `json:"templates"`
		Conversations []json.RawMessage   `json:"conversations"`
		Want          map[string][]string `json:"want"`
	}
	s.Templates, s.Want = map[string]string{}, map[string][]string{}
	for i := range c.Conversations[:len(c.Conversations)-1] { // the last is long
		if i%sampleEach != 0 {
			continue
		}
		s.Conversations = append(s.Conversations, c.Conversations[i])
		for _, t := range sampled {
			text := "error"
			if want := c.Want[t][i]; want.Text != nil {
				text = *want.Text
			}
			s.Want[t] = append(s.Want[t], text)
		}
	}
	for _, t := range sampled {
		if c.Templates[t] == "" {
			return fmt.Errorf("no template %s", t)
		}
		s.Templates[t] = c.Templates[t]
	}
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o644)
}
