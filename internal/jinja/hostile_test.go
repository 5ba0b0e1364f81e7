package jinja

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/jinjalib"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

var deepList = strings.Repeat("[", 400) + strings.Repeat("]", 400)

// hostile templates, and what each is stopped by.
var hostile = []struct{ name, source, stop string }{
	{"a huge range", "{% for x in range(10 ** 12) %}{% endfor %}", "limit"},
	{"loops in loops", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "limit"},
	{"a macro that calls itself", "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", "limit"},
	{"macros that call each other", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", "limit"},
	{"a macro in its own default", "{% macro m(x=m()) %}{% endmacro %}{{ m() }}", "limit"},
	{"a caller that calls", "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}", "limit"},
	{"a recursive loop on the same list", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "limit"},
	{"a string that doubles", "{% set n = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}", "limit"},
	{"a string times a billion", "{{ 'x' * 10 ** 9 * 10 ** 9 }}", "limit"},
	{"a list that doubles", "{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor %}", "limit"},
	{"an indent of a billion", "{{ 'a\nb' | indent(10 ** 9) }}{{ [1] | tojson(indent=10 ** 8) }}", "limit"},
	{"a replacement that grows", "{% set n = namespace(s='x' * 1000) %}{% for i in range(99) %}{% set n.s = n.s | replace('x', 'x' * 1000) %}{% endfor %}", "limit"},
	{"a join that grows", "{{ range(90000) | join('x' * 100000) }}", "limit"},
	{"a value that nests", "{% set n = namespace(l=[]) %}{% for i in range(5000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l | tojson }}", "error"},
	{"values that nest, compared", "{% set n = namespace(l=[], m=[]) %}{% for i in range(5000) %}{% set n.l = [n.l] %}{% set n.m = [n.m] %}{% endfor %}{{ n.l == n.m }}", "error"},
	{"a value that shares its parts", "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}", "error"},
	{"the same as JSON", "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l | tojson(indent=4) }}", "error"},
	{"two of them, compared", "{% set n = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% set n.m = [n.m, n.m] %}{% endfor %}{{ n.l == n.m }}", "error"},
	{"a method of another kind of value", "{{ [1]['get'](1) }}", "error"},
	{"a dict's method of a string", "{{ 'a'['keys']() }}", "error"},
	{"a string's method of a dict", "{{ {}['strip']() }}", "error"},
	{"a namespace in itself", "{% set n = namespace() %}{% set n.x = n %}{{ n }}{{ [n] | tojson }}", "error"},
	{"brackets in brackets", "{{ " + strings.Repeat("(", 100_000) + " }}", "syntax"},
	{"lists in lists", "{{ " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + " }}", "syntax"},
	{"minus minus minus", "{{ " + strings.Repeat("-", 100_000) + "1 }}", "syntax"},
	{"not not not", "{{ " + strings.Repeat("not ", 100_000) + "1 }}", "syntax"},
	{"ifs in ifs", strings.Repeat("{% if 1 %}", 10_000), "syntax"},
	{"a chain of ifs", "{{ " + strings.Repeat("1 if 0 else ", 10_000) + "2 }}", "syntax"},
	{"a long chain of operators", "{{ 1" + strings.Repeat(" + 1", 100_000) + " }}", "syntax"},
	{"a long chain of filters", "{{ 1" + strings.Repeat(" | string", 100_000) + " }}", "syntax"},
	{"a long chain of attributes", "{{ x" + strings.Repeat(".a", 100_000) + " }}", "syntax"},
	{"a number too big", "{{ 10 ** 30 }}", "error"},
	{"division by zero", "{{ 1 // 0 }}", "error"},
	{"a schema that nests, walked by a macro", "{% macro m(x) %}{% for y in x %}{{ m(y) }}{% endfor %}{% endmacro %}{{ m(deep) }}", "limit"},
}

func stopped(source string) string {
	tpl, err := Parse(source)
	if err != nil {
		return "syntax"
	}
	deep, err := pyvalue.ReadJSON(deepList)
	if err != nil {
		return "no value: " + err.Error()
	}
	_, err = tpl.Render(map[string]any{"deep": deep}, Options{})
	switch {
	case errors.Is(err, jinjalib.ErrLimit):
		return "limit"
	case err != nil:
		return "error"
	}
	return "nothing"
}

// They run in a process of their own: a stack or a memory that overflows ends that one, and no test after it.
func TestHostileTemplatesAreStoppedAndTheProcessLives(t *testing.T) {
	const child = "WARMPATH_HOSTILE"
	if os.Getenv(child) != "" {
		for _, h := range hostile {
			fmt.Printf("stopped %s by %s\n", h.name, stopped(h.source))
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", "GOMEMLIMIT=1GiB")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the process died: %v\n%s", err, out[max(0, len(out)-2000):])
	}
	t.Logf("%s", out)
	for _, h := range hostile {
		if want := fmt.Sprintf("stopped %s by %s\n", h.name, h.stop); !strings.Contains(string(out), want) {
			t.Errorf("wanted %q", want)
		}
	}
}

func TestARequestThatNestsTooDeepIsNotRead(t *testing.T) {
	if _, err := pyvalue.ReadJSON(strings.Repeat("[", 1_000_000)); !errors.Is(err, pyvalue.ErrDepth) {
		t.Error(err)
	}
}
