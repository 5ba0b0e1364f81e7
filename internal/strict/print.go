package strict

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Print is the struct c as a file that reads back the same: every key, each under its description. Credentials are left out, and a
// comment says so.
func Print(head string, c any) string {
	var b bytes.Buffer
	b.WriteString(head)
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := encoder.Encode(mappingNode(reflect.ValueOf(c), true))
	if err == nil {
		err = encoder.Close()
	}
	if err != nil {
		panic("strict: the values cannot be written: " + err.Error()) // scalars, lists and mappings made here: cannot happen
	}
	return b.String()
}

// mappingNode has a key for each field of the struct at; describe puts their descriptions above them.
func mappingNode(at reflect.Value, describe bool) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range FieldsOf(at.Type()) {
		key, value := textNode(f.Name), valueNode(at.Field(f.Index), describe)
		if describe {
			key.HeadComment = f.Describe()
		}
		node.Content = append(node.Content, key, value)
	}
	return node
}

func valueNode(value reflect.Value, describe bool) *yaml.Node {
	switch v := value.Interface().(type) {
	case time.Duration:
		return textNode(plainDuration(v))
	case Bytes:
		return textNode(v.String())
	case Secret:
		node := textNode("")
		if v != "" {
			node.LineComment = "set, and not shown"
		}
		return node
	}
	switch value.Kind() {
	case reflect.Struct:
		return mappingNode(value, describe)
	case reflect.Slice:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range value.Len() {
			list.Content = append(list.Content, valueNode(value.Index(i), false))
		}
		return list
	case reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(value.Bool())}
	case reflect.Int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(value.Int(), 10)}
	case reflect.Float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: strconv.FormatFloat(value.Float(), 'g', -1, 64)}
	}
	return textNode(strings.ReplaceAll(fmt.Sprint(value.Interface()), "${", "$${"))
}

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// Describe is what the reference says of the key, its limits included.
func (f Field) Describe() string {
	doc := f.Doc
	if f.Enum != nil {
		doc += " One of " + strings.TrimPrefix(strings.Join(f.Enum, ", "), ", ") + "."
	}
	if f.Min != "" {
		doc += " At least " + f.Min + "."
	}
	return doc
}
