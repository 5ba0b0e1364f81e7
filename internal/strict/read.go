package strict

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmpath/warmpath/internal/delta"
	"github.com/warmpath/warmpath/internal/spelling"
)

// Reader walks the YAML nodes along Go types. The YAML library's strict mode was not enough: it knows neither key paths nor near
// names, takes a number for a duration in nanoseconds, and stops at types it can coerce.
type Reader struct {
	file     string
	env      func(string) (string, bool)
	lines    map[string]int // line of each key that the file sets
	problems []Problem
	whole    reflect.Type
}

// NewReader reads a file of that name; env answers ${env.NAME}, and whole is the struct whose keys are offered where one stands in the
// wrong place.
func NewReader(file string, env func(string) (string, bool), whole reflect.Type) *Reader {
	return &Reader{file: file, env: env, lines: map[string]int{}, whole: whole}
}

// Problems are all that were reported, as an *Error in the order of the file; nil when there are none.
func (d *Reader) Problems() error { return AsError(d.problems) }

// Report adds a problem of the key's.
func (d *Reader) Report(line int, key, message string) {
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Key: key, Message: message})
}

// IsSet says whether the file has the key.
func (d *Reader) IsSet(key string) bool { _, ok := d.lines[key]; return ok }

// LineOf is the line of key, or of the nearest key around it that the file has.
func (d *Reader) LineOf(key string) int {
	for key != "" {
		if line, ok := d.lines[key]; ok {
			return line
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return 0
}

// InTrouble says whether key or a key around it has a problem already, so that its value is not the user's.
func (d *Reader) InTrouble(key string) bool {
	for _, p := range d.problems {
		if p.Key != "" && (p.Key == key || strings.HasPrefix(key, p.Key+".") || strings.HasPrefix(key, p.Key+"[")) {
			return true
		}
	}
	return false
}

// Field is one key of a mapping.
type Field struct {
	Name, Doc, Min string
	Enum           []string
	Scalar         bool // a bare scalar in place of the whole mapping means this key
	Index          int  // of the Go field
}

// FieldsOf are the keys of a struct, by the tags of its fields: yaml (the name), doc, min, enum, and change (see delta).
func FieldsOf(t reflect.Type) []Field {
	fields := make([]Field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, option, _ := strings.Cut(tag.Get("yaml"), ",")
		f := Field{Name: name, Doc: tag.Get("doc") + delta.Note(tag.Get("change")), Min: tag.Get("min"), Scalar: option == "scalar", Index: i}
		if values := tag.Get("enum"); values != "" {
			f.Enum = strings.Split(values, ",")
		}
		fields = append(fields, f)
	}
	return fields
}

// Join is the path of the key name within path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Mapping reads node into the struct at into; path is of the keys around it, "" at the root.
func (d *Reader) Mapping(node *yaml.Node, path string, into reflect.Value) {
	node = target(node)
	fields := FieldsOf(into.Type())
	if node.Kind == yaml.ScalarNode {
		for _, f := range fields {
			if f.Scalar {
				d.Value(node, Join(path, f.Name), into.Field(f.Index))
				return
			}
		}
	}
	if node.Kind != yaml.MappingNode {
		d.Report(node.Line, path, "wants keys and values, not "+kindName(node))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name := key.Value
		if first, twice := seen[name]; twice {
			d.Report(key.Line, Join(path, name), fmt.Sprintf("stands twice, first on line %d; keep one", first))
			continue
		}
		seen[name] = key.Line
		f, known := find(fields, name)
		if !known || key.Kind != yaml.ScalarNode {
			d.Report(key.Line, Join(path, name), d.unknownKey(path, name, fields))
			continue
		}
		d.lines[Join(path, name)] = key.Line
		d.Value(value, Join(path, name), into.Field(f.Index))
	}
}

func find(fields []Field, name string) (Field, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// unknownKey looks for the right name first where the key stands, then in the whole configuration: a key put one level too high or
// too low is as common as a misspelt one.
func (d *Reader) unknownKey(path, name string, here []Field) string {
	names := make([]string, len(here))
	for i, f := range here {
		names[i] = f.Name
	}
	if near := spelling.Nearest(name, names); near != "" {
		return "unknown key; did you mean " + Join(path, near) + "?"
	}
	if name == "<<" {
		return "merge keys are not supported; write the keys out"
	}
	everywhere := KeyPaths(d.whole, "")
	for _, p := range everywhere {
		if p[strings.LastIndexByte(p, '.')+1:] == name {
			return "unknown key here; did you mean " + p + "?"
		}
	}
	if near := spelling.Nearest(Join(path, name), everywhere); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	return "unknown key; known here: " + strings.Join(names, ", ")
}

// KeyPaths are all keys below t, in order of declaration; those of a list's entries as workers[].url.
func KeyPaths(t reflect.Type, path string) []string {
	var paths []string
	for _, f := range FieldsOf(t) {
		p, ft := Join(path, f.Name), t.Field(f.Index).Type
		paths = append(paths, p)
		switch ft.Kind() {
		case reflect.Struct:
			paths = append(paths, KeyPaths(ft, p)...)
		case reflect.Slice:
			if ft.Elem().Kind() == reflect.Struct {
				paths = append(paths, KeyPaths(ft.Elem(), p+"[]")...)
			}
		}
	}
	return paths
}

// Value reads node into the field at into.
func (d *Reader) Value(node *yaml.Node, path string, into reflect.Value) {
	node = target(node)
	if node.ShortTag() == "!!null" {
		d.Report(node.Line, path, "has no value; give it one or take the key out")
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		d.Mapping(node, path, into)
	case reflect.Slice:
		d.list(node, path, into)
	default:
		if err := d.scalar(node, path, into); err != nil {
			d.Report(node.Line, path, err.Error())
		}
	}
}

func (d *Reader) list(node *yaml.Node, path string, into reflect.Value) {
	if node.Kind != yaml.SequenceNode {
		d.Report(node.Line, path, "wants a list (lines that begin with a dash), not "+kindName(node))
		return
	}
	if len(node.Content) == 0 {
		into.SetZero() // an empty list is none
		return
	}
	entries := reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content))
	for i, entry := range node.Content {
		p := path + "[" + strconv.Itoa(i) + "]"
		d.lines[p] = entry.Line
		d.Value(entry, p, entries.Index(i))
	}
	into.Set(entries)
}

// scalar reads one plain value. Numbers and switches may come out of the environment as well, where everything is text.
func (d *Reader) scalar(node *yaml.Node, path string, into reflect.Value) error {
	_, secret := into.Interface().(Secret)
	if node.Kind != yaml.ScalarNode {
		return fmt.Errorf("wants %s, not %s", wanted(into), kindName(node))
	}
	text, err := expand(node.Value, d.env)
	if err != nil {
		return err
	}
	tag := node.ShortTag()
	given := fmt.Sprintf("%s %s", kindName(node), strconv.Quote(node.Value))
	if secret {
		given = kindName(node)
	}
	if text != node.Value { // it came from the environment and is as good as plain
		tag, given = "", "the expanded text of "+strconv.Quote(node.Value)
	}
	wrong := fmt.Errorf("wants %s, not %s", wanted(into), given)
	switch into.Interface().(type) {
	case time.Duration:
		return setDuration(into, text)
	case Bytes:
		size, err := ParseBytes(text)
		into.SetInt(int64(size))
		return err
	}
	switch into.Kind() {
	case reflect.String:
		if tag != "!!str" && tag != "" {
			return fmt.Errorf("%w; put it in quotes if it is meant", wrong)
		}
		into.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" || tag == "!!str" {
			return wrong
		}
		into.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil || tag == "!!str" {
			return wrong
		}
		into.SetInt(int64(n))
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || tag == "!!str" {
			return wrong
		}
		into.SetFloat(n)
	}
	return nil
}

func setDuration(into reflect.Value, text string) error {
	length, err := time.ParseDuration(text)
	if err == nil {
		into.SetInt(int64(length))
		return nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return fmt.Errorf("%s has no unit; write %ss, %sms or %sm", text, text, text, text)
	}
	return fmt.Errorf("%q is no duration; write a number with a unit, such as 250ms, 30s or 5m", text)
}

// target follows an alias to what it stands for.
func target(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func wanted(into reflect.Value) string {
	switch into.Interface().(type) {
	case time.Duration:
		return "a duration such as 30s"
	case Bytes:
		return "a size such as 64MiB"
	}
	switch into.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a text"
}

func kindName(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case "!!int", "!!float":
		return "the number"
	case "!!bool":
		return "the switch"
	case "!!null":
		return "nothing"
	}
	return "the text"
}
