package strict

import (
	"fmt"
	"regexp"
	"strings"
)

var reference = regexp.MustCompile(`\$?\$\{[^}]*\}?`)

// expand replaces each ${env.NAME} by the variable's value; $${ stands for a literal ${. It works on one scalar at a time, so that a
// value with a colon or a newline in it cannot add keys. A variable that is unset or empty is an error: an empty key or address that
// nobody sees is worse than no start.
func expand(text string, env func(string) (string, bool)) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var first error
	expanded := reference.ReplaceAllStringFunc(text, func(found string) string {
		if literal, ok := strings.CutPrefix(found, "$$"); ok {
			return "$" + literal
		}
		value, err := resolve(found, env)
		if first == nil {
			first = err
		}
		return value
	})
	return expanded, first
}

// resolve is the value of one reference such as ${env.NAME}.
func resolve(found string, env func(string) (string, bool)) (string, error) {
	inner, closed := strings.CutSuffix(strings.TrimPrefix(found, "${"), "}")
	name, isEnv := strings.CutPrefix(inner, "env.")
	switch {
	case !closed:
		return "", fmt.Errorf("%q has no closing brace; write ${env.NAME}, or $${ for a literal ${", found)
	case !isEnv || name == "":
		return "", fmt.Errorf("%q is no reference; write ${env.NAME}, or $${ for a literal ${", found)
	}
	if value, ok := env(name); ok && value != "" {
		return value, nil
	}
	return "", fmt.Errorf("%s: the environment variable %s is not set or empty", found, name)
}
