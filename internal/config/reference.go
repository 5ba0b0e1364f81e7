package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

//go:generate go test -count=1 -run ^TestTheGeneratedDocumentsAreCurrent$ . -args -update

// Schema is the JSON schema of the configuration file, made from the Config's own tags.
func Schema() string {
	schema := objectSchema(reflect.ValueOf(Default()))
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "warmpath configuration"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("config: the schema cannot be written: " + err.Error()) // maps of plain values: cannot happen
	}
	return string(text) + "\n"
}

func objectSchema(at reflect.Value) map[string]any {
	properties := map[string]any{}
	var scalar any
	for _, f := range fieldsOf(at.Type()) {
		s := fieldSchema(f, at.Field(f.index))
		s["description"] = f.doc
		properties[f.name] = s
		if f.scalar {
			scalar = map[string]any{"type": "string", "description": f.doc}
		}
	}
	object := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if scalar != nil {
		return map[string]any{"oneOf": []any{scalar, object}}
	}
	return object
}

// fieldSchema leaves room for ${env.NAME} wherever a value may stand.
func fieldSchema(f field, value reflect.Value) map[string]any {
	fromEnv := map[string]any{"type": "string", "pattern": `\$\{env\.[^}]+\}`}
	either := func(s map[string]any) map[string]any {
		return map[string]any{"anyOf": []any{s, fromEnv}, "default": defaultOf(value)}
	}
	switch value.Interface().(type) {
	case time.Duration:
		return either(map[string]any{"type": []any{"string", "integer"}, "maximum": 0, "minimum": 0,
			"pattern": `^\+?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|^0$`})
	case Bytes:
		return either(map[string]any{"type": []any{"string", "integer"}, "minimum": 0, "pattern": `^[0-9]+ *([kMGT]B|[KMGT]iB|B)?$`})
	}
	switch value.Kind() {
	case reflect.Struct:
		return objectSchema(value)
	case reflect.Slice:
		entry := reflect.New(value.Type().Elem()).Elem()
		if entry.Kind() != reflect.Struct {
			return map[string]any{"type": "array", "items": fieldSchema(field{}, entry)}
		}
		return map[string]any{"type": "array", "items": objectSchema(entry)}
	case reflect.Bool:
		return either(map[string]any{"type": "boolean"})
	case reflect.Int:
		return either(map[string]any{"type": "integer", "minimum": leastOf(f, value).Int()})
	case reflect.Float64:
		return either(map[string]any{"type": "number", "minimum": 0})
	}
	s := map[string]any{"type": "string"}
	if f.enum != nil {
		s["enum"] = f.enum
		return either(s)
	}
	if text := defaultOf(value); text != "" {
		s["default"] = text
	}
	return s
}

// defaultOf is value as the file would have it.
func defaultOf(value reflect.Value) any {
	switch v := value.Interface().(type) {
	case time.Duration:
		return plainDuration(v)
	case Bytes:
		return v.String()
	case Secret:
		return ""
	}
	return value.Interface()
}

// plainDuration drops the zero parts that time.Duration writes: 5m, not 5m0s.
func plainDuration(d time.Duration) string {
	text := d.String()
	if head, ok := strings.CutSuffix(text, "m0s"); ok {
		text = head + "m"
	}
	if head, ok := strings.CutSuffix(text, "h0m"); ok {
		text = head + "h"
	}
	return text
}

// Reference is docs/CONFIG.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	table(&b, "The keys", reflect.ValueOf(Default()), "")
	return b.String()
}

// table writes one table for the plain keys of a mapping, then one for each mapping in it.
func table(b *strings.Builder, title string, at reflect.Value, path string) {
	fmt.Fprintf(b, "\n## %s\n\n| key | type | default | what it does |\n|---|---|---|---|\n", title)
	var later []field
	for _, f := range fieldsOf(at.Type()) {
		value := at.Field(f.index)
		text := fmt.Sprint(defaultOf(value))
		switch value.Kind() {
		case reflect.Slice:
			if text = ""; value.Type().Elem().Kind() == reflect.Struct {
				later = append(later, f)
			}
		case reflect.Struct:
			later = append(later, f)
			text = ""
		}
		if text != "" {
			text = "`" + text + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", join(path, f.name), typeName(value), text, f.describe())
	}
	for _, f := range later {
		value, key := at.Field(f.index), join(path, f.name)
		if value.Kind() == reflect.Slice {
			value, key = reflect.New(value.Type().Elem()).Elem(), key+"[]"
		}
		table(b, "`"+key+"`", value, key)
	}
}

func typeName(value reflect.Value) string {
	switch value.Interface().(type) {
	case time.Duration:
		return "duration"
	case Bytes:
		return "size"
	case Secret:
		return "secret text"
	}
	switch value.Kind() {
	case reflect.Struct:
		return "keys"
	case reflect.Slice:
		return "list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Float64:
		return "number"
	}
	return "text"
}

const referenceHead = `# Configuration

Generated from the Config type; ` + "`make generate`" + ` writes it again.

Nothing here is required: ` + "`warmpath serve --worker URL`" + ` starts with the defaults below. Flags win over the file.
` + "`warmpath config print`" + ` writes them all out as a file to start from; ` + "`warmpath config print FILE`" + ` shows what a file comes to.
` + "`warmpath config check FILE`" + ` gives the verdict that ` + "`serve`" + ` would give, without starting anything, and ends with 0 or 2;
` + "`warmpath config schema`" + ` prints the JSON schema (also in config.schema.json here) for editors.

` + "```yaml" + `
listen: 127.0.0.1:8800
admin: 127.0.0.1:8801
workers:
  - http://gpu-1:8000                  # a URL alone
  - url: https://gpu-2.internal        # or more
    id: gpu-2
    key: ${env.GPU2_KEY}
    in_flight_max: 64
policy: warm-cost
drain_timeout: 1m
timeouts:
  connect: 2s
  idle_gap: 10m
decision_log:
  file: decisions.jsonl
` + "```" + `

- An unknown or misspelt key, a value of the wrong type, a value out of its limits, two settings that contradict each other and a
  worker listed twice are errors at start, all of them reported at once with file, line, key and the nearest right name.
- Durations need a unit: ` + "`250ms`, `30s`, `5m`" + `. Sizes take one: ` + "`64MiB`, `1GiB`, `500kB`" + `, or plain bytes.
- ` + "`${env.NAME}`" + ` in any value is replaced by the environment variable; one that is unset or empty is an error. ` + "`$${`" + ` is a literal ` + "`${`" + `.
`
