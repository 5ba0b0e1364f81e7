// Package delta tells how two values of settings differ: key by key, as the file that they come from has them, without credentials. It knows
// nothing of what the settings mean. It is pure.
//
//	for _, c := range delta.Of(running, loaded, nil) {
//		fmt.Println(c) // timeouts.connect: 2s -> 5s
//	}
//
// Values are structs whose fields have yaml names. What a change takes is said by the tag change of a field:
//
//	Listen  string  `yaml:"listen" change:"restart"`     // it, and all that is in it, changes with a restart only
//	Classes []Class `yaml:"classes" change:"entries"`    // which entries there are, and in which order, does; what they say does not
//	File    string  `yaml:"file" change:"presence"`      // whether it is empty does
package delta

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Change is one setting that is another. Was is "" where there was none, Is where there is none any more: an entry of a list.
type Change struct {
	Key     string `json:"key"`
	Was     string `json:"was"`
	Is      string `json:"is"`
	Restart bool   `json:"needs_restart,omitempty"`
}

// Note says what a change takes, by the tag of its field; "" nothing.
func Note(tag string) string {
	switch tag {
	case "restart":
		return " Changes with a restart only."
	case "entries":
		return " Their names, number and order change with a restart only."
	case "presence":
		return " Whether there is one changes with a restart only."
	}
	return ""
}

// notShown stands for a value that nobody is to read.
const notShown = "(not shown)"

func (c Change) String() string {
	text := fmt.Sprintf("%s: %s -> %s", c.Key, c.Was, c.Is)
	switch {
	case c.Was == "":
		text = fmt.Sprintf("%s: added %s", c.Key, c.Is)
	case c.Is == "":
		text = fmt.Sprintf("%s: removed", c.Key)
	case c.Was == notShown && c.Is == notShown:
		text = fmt.Sprintf("%s: changed %s", c.Key, notShown)
	}
	return text
}

// Of is how is differs from was, two structs of one type, in the order of their fields. Values of the type that skip is, which may be nil, are
// left out: they are not known on one side.
func Of(was, is any, skip reflect.Type) []Change {
	d := &differ{skip: skip}
	d.structs("", reflect.ValueOf(was), reflect.ValueOf(is), false)
	return d.changes
}

// Restart are the changes that take one.
func Restart(changes []Change) (some []Change) {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return !c.Restart })
}

type differ struct {
	skip    reflect.Type
	changes []Change
}

func (d *differ) add(key, was, is string, restart bool) {
	d.changes = append(d.changes, Change{key, was, is, restart})
}

func (d *differ) structs(path string, was, is reflect.Value, restart bool) {
	for i := range was.NumField() {
		f := was.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if path != "" {
			name = path + "." + name
		}
		d.values(name, f.Tag.Get("change"), was.Field(i), is.Field(i), restart)
	}
}

func (d *differ) values(key, needs string, was, is reflect.Value, restart bool) {
	if was.Type() == d.skip || reflect.DeepEqual(was.Interface(), is.Interface()) {
		return
	}
	restart = restart || needs == "restart"
	switch {
	case was.Kind() == reflect.Struct:
		d.structs(key, was, is, restart)
	case was.Kind() == reflect.Slice && was.Type().Elem().Kind() == reflect.Struct:
		d.lists(key, needs == "entries", was, is, restart)
	default:
		restart = restart || needs == "presence" && was.IsZero() != is.IsZero()
		a, b := text(was), text(is)
		if a == b && a != "" { // the same as far as it is shown
			a, b = notShown, notShown
		}
		d.add(key, a, b, restart)
	}
}

// lists compares lists of structs entry by entry: those of one name, where they have names that differ, else those of one place.
func (d *differ) lists(key string, fixed bool, was, is reflect.Value, restart bool) {
	before, after := names(was), names(is)
	if before == nil || after == nil {
		before, after = places(was), places(is)
	}
	gone, kept := []string(nil), []string(nil)
	for i, name := range before {
		at, j := key+"["+name+"]", slices.Index(after, name)
		if j < 0 {
			gone = append(gone, at)
			continue
		}
		kept = append(kept, name)
		d.structs(at, was.Index(i), is.Index(j), restart)
	}
	for _, at := range gone {
		d.add(at, text(was.Index(slices.Index(before, at[len(key)+1:len(at)-1]))), "", restart || fixed)
	}
	for j, name := range after {
		if !slices.Contains(before, name) {
			d.add(key+"["+name+"]", "", text(is.Index(j)), restart || fixed)
		}
	}
	still := slices.DeleteFunc(slices.Clone(after), func(name string) bool { return !slices.Contains(before, name) })
	if !slices.Equal(kept, still) {
		d.add(key, "in the order "+strings.Join(kept, ", "), "in the order "+strings.Join(still, ", "), restart || fixed)
	}
}

// names are what entries are called, by id, name, model or url; nil where one has none or two have the same.
func names(list reflect.Value) []string {
	all := []string{}
	for i := range list.Len() {
		name := nameOf(list.Index(i))
		if name == "" || slices.Contains(all, name) {
			return nil
		}
		all = append(all, name)
	}
	return all
}

func nameOf(entry reflect.Value) string {
	for _, wanted := range []string{"id", "name", "model", "url"} {
		for i := range entry.NumField() {
			if name, _, _ := strings.Cut(entry.Type().Field(i).Tag.Get("yaml"), ","); name == wanted && entry.Field(i).Kind() == reflect.String {
				return public(entry.Field(i).String())
			}
		}
	}
	return ""
}

func places(list reflect.Value) []string {
	all := make([]string, list.Len())
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}

// text is a value as people read it; of a struct, the fields that are not empty.
func text(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case encoding.TextMarshaler: // a credential has no other text
		if b, err := x.MarshalText(); err == nil && len(b) > 0 {
			return notShown
		}
		return `""`
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Struct:
		var parts []string
		for i := range v.NumField() {
			if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ","); !v.Field(i).IsZero() {
				parts = append(parts, name+": "+text(v.Field(i)))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = text(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.String:
		if v.String() == "" {
			return `""`
		}
		return public(v.String())
	}
	return fmt.Sprint(v.Interface())
}

// public is a text without what may be a credential: the query of an address, and the user in it.
func public(s string) string {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		return s
	}
	if before, _, query := strings.Cut(rest, "?"); query {
		rest = before + "?" + notShown
	}
	if host, path, _ := strings.Cut(rest, "/"); strings.Contains(host, "@") {
		rest = notShown + host[strings.LastIndexByte(host, '@'):] + "/" + path
	}
	return scheme + "://" + rest
}
