package strict

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Schema is the JSON schema of a file with the keys of the struct defaults, made from its tags.
func Schema(title string, defaults any) string {
	schema := objectSchema(reflect.ValueOf(defaults))
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = title
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("strict: the schema cannot be written: " + err.Error()) // maps of plain values: cannot happen
	}
	return string(text) + "\n"
}

func objectSchema(at reflect.Value) map[string]any {
	properties := map[string]any{}
	var scalar any
	for _, f := range FieldsOf(at.Type()) {
		s := fieldSchema(f, at.Field(f.Index))
		s["description"] = f.Doc
		properties[f.Name] = s
		if f.Scalar {
			scalar = map[string]any{"type": "string", "description": f.Doc}
		}
	}
	object := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if scalar != nil {
		return map[string]any{"oneOf": []any{scalar, object}}
	}
	return object
}

// fieldSchema leaves room for ${env.NAME} wherever a value may stand.
func fieldSchema(f Field, value reflect.Value) map[string]any {
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
			return map[string]any{"type": "array", "items": fieldSchema(Field{}, entry)}
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
	if f.Enum != nil {
		s["enum"] = f.Enum
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

// Reference is a table in Markdown of the keys of the struct defaults, then one for each mapping in it.
func Reference(title string, defaults any) string {
	var b strings.Builder
	table(&b, title, reflect.ValueOf(defaults), "")
	return b.String()
}

// table writes one table for the plain keys of a mapping, then one for each mapping in it.
func table(b *strings.Builder, title string, at reflect.Value, path string) {
	fmt.Fprintf(b, "\n## %s\n\n| key | type | default | what it does |\n|---|---|---|---|\n", title)
	var later []Field
	for _, f := range FieldsOf(at.Type()) {
		value := at.Field(f.Index)
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
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", Join(path, f.Name), typeName(value), text, f.Describe())
	}
	for _, f := range later {
		value, key := at.Field(f.Index), Join(path, f.Name)
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
