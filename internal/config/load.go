package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileBytesMax bounds the configuration file; 500 workers take 50 KB.
const fileBytesMax = 4 << 20

// Load reads the file at path over Default, checks it and returns it complete. Any error is an *Error.
func Load(path string) (Config, error) {
	text, err := read(path)
	if err != nil {
		var inPath *os.PathError
		if errors.As(err, &inPath) {
			err = inPath.Err // the path stands in front already
		}
		return Config{}, &Error{Problems: []Problem{{File: path, Message: err.Error()}}}
	}
	return Parse(path, text, os.LookupEnv)
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err == nil && len(text) > fileBytesMax {
		err = fmt.Errorf("larger than %s, the most a configuration may have", Bytes(fileBytesMax))
	}
	return text, err
}

// Parse is Load on a text: name stands in front of each problem, env answers ${env.NAME}.
func Parse(name string, text []byte, env func(string) (string, bool)) (Config, error) {
	c := Default()
	d := &decoder{file: name, env: env, lines: map[string]int{}}
	if root := d.document(text); root != nil {
		d.mapping(root, "", valueOf(&c))
	}
	for i := range c.Workers {
		c.Workers[i].complete()
	}
	c.Discovery.complete()
	above := 1.0
	for i := range c.Queue.Classes {
		c.Queue.Classes[i].complete(above)
		above = c.Queue.Classes[i].Ceiling
	}
	for _, p := range c.problems(d.isSet) {
		if !d.inTrouble(p.Key) {
			d.report(d.lineOf(p.Key), p.Key, p.Message)
		}
	}
	if err := asError(d.problems); err != nil {
		return Config{}, err
	}
	return c, nil
}

// document is the root node of the only document in text; nil when there is none or the YAML is broken.
func (d *decoder) document(text []byte) *yaml.Node {
	reader := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	if err := reader.Decode(&first); err != nil {
		if err != io.EOF {
			d.reportSyntax(err)
		}
		return nil
	}
	switch err := reader.Decode(&second); {
	case err == nil:
		d.report(second.Line, "", "a second YAML document begins here; a configuration is one document")
	case err != io.EOF:
		d.reportSyntax(err)
	}
	if len(first.Content) == 0 || first.Content[0].ShortTag() == "!!null" {
		return nil
	}
	return first.Content[0]
}

var yamlLine = regexp.MustCompile(`line (\d+)(?:, column \d+)?: `)

// reportSyntax moves the line number out of the YAML reader's message to where all others have it. The reader leaves it out for
// the first line.
func (d *decoder) reportSyntax(err error) {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := yamlLine.FindStringSubmatchIndex(message); m != nil {
		line, _ = strconv.Atoi(message[m[2]:m[3]])
		message = message[:m[0]] + message[m[1]:]
	}
	d.report(line, "", "not YAML: "+message)
}
