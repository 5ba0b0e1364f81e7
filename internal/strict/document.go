package strict

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is the root node of the only document in text; nil when there is none or the YAML is broken.
func (d *Reader) Document(text []byte) *yaml.Node {
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
		d.Report(second.Line, "", "a second YAML document begins here; a configuration is one document")
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
func (d *Reader) reportSyntax(err error) {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := yamlLine.FindStringSubmatchIndex(message); m != nil {
		line, _ = strconv.Atoi(message[m[2]:m[3]])
		message = message[:m[0]] + message[m[1]:]
	}
	d.Report(line, "", "not YAML: "+message)
}
