package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/jinjalex"
	"github.com/warmpath/warmpath/internal/jinjalib"
	"github.com/warmpath/warmpath/internal/leash"
	"github.com/warmpath/warmpath/internal/pyvalue"
)

func rendered(t *testing.T, source, values string) string {
	t.Helper()
	v, err := pyvalue.ReadJSON(values)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]any{}
	d := v.(*pyvalue.Dict)
	for _, key := range d.Keys() {
		names[key], _ = d.Get(key)
	}
	tpl, err := Parse(source)
	if err != nil {
		return "refused: " + err.Error()
	}
	text, err := tpl.Render(names, Options{Now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)})
	if err != nil {
		return "error: " + err.Error()
	}
	return text
}

func TestTemplatesRenderAsPythonRendersThem(t *testing.T) {
	f := func(source, want string) {
		t.Helper()
		values := `{"a": [1, 2.50, "x", null, true], "d": {"z": 1, "items": 2}, "s": " ab\n", "big": 123456789012345678901, "none": null}`
		if got := rendered(t, source, values); got != want {
			t.Errorf("%q\n got %q\nwant %q", source, got, want)
		}
	}
	f("{{ a }}{{ d }}{{ none }}", "[1, 2.5, 'x', None, True]{'z': 1, 'items': 2}None")
	f("{{ d | tojson }}{{ a | tojson(indent=1) }}{{ big | tojson }}", "{\"z\": 1, \"items\": 2}[\n 1,\n 2.5,\n \"x\",\n null,\n true\n]123456789012345678901")
	f("{{ 1 + 2 ~ 3 }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 2 ** 3 }}{{ 7 / 2 }}", "error: + of int and str")
	f("{{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 }} {{ 7 / 2 }} {{ 1 ~ 2 }}", "-4 2 8 3.5 12")
	f("  {% if a %}\nx\n  {%- endif +%}\n y", "x\n y")
	f("{# c #}\n{{ s | trim }}\n\n{{ s.strip() }}\n", "ab\n\nab")
	f("{% for x in a if x is string %}{{ loop.index }}{{ loop.last }}{{ x }}{% else %}none{% endfor %}", "1Truex")
	f("{% set n = namespace(k=0) %}{% for x in a %}{% set n.k = n.k + 1 %}{% if loop.first %}{% continue %}{% endif %}{% break %}{% endfor %}{{ n.k }}", "2")
	f("{% set x = 1 %}{% for y in a %}{% set x = 2 %}{% endfor %}{{ x }}", "1")
	f("{% macro m(x, y=2) %}[{{ x }}{{ y }}{{ caller() if caller }}]{% endmacro %}{{ m(1) }}{% call m(3, y=4) %}in{% endcall %}", "[12][34in]")
	f("{{ d.items() | list }}{{ d['items'] }}{{ d.nope }}{{ d.nope is defined }}", "[('z', 1), ('items', 2)]2False")
	f("{{ a[1:3] }}{{ s[::-1] | tojson }}{{ a[-1] }}{{ a[9] }}", "[2.5, 'x']\"\\nba \"True")
	f("{{ a | select('string') | list }}{{ [d] | map(attribute='z') | join('-') }}{{ 'x,y,z'.split(',', 1) }}", "['x']1['x', 'y,z']")
	f("{{ '%s-%d' % ('a', 3) }}{{ 'a' in 'cat' }}{{ 1 < 2 < 2 }}{{ not none }}", "a-3TrueFalseTrue")
	f("{% raw %}{{ x }}{% endraw %}{{ '{{' }}", "{{ x }}{{")
	f("{{ '<b>' + ('<i>' | safe) }}", "&lt;b&gt;<i>")
	f("{{ strftime_now('%d %b %Y') }}", "04 Mar 2026")
	f("{% filter upper %}a{% endfilter %}{% set b | trim %} c {% endset %}{{ b }}", "Ac")
	f("{{ nope.x }}", `error: "nope" is undefined`)
	f("{{ raise_exception('no') }}", "error: refused by the template: no")
	f("{{ a.append(1) }}", "error: the method append may not be called in a template")
}

func TestWhatIsNotKnownIsRefusedByItsName(t *testing.T) {
	f := func(source, name string) {
		t.Helper()
		_, err := Parse(source)
		var wrong *jinjalex.SyntaxError
		if !errors.As(err, &wrong) || !wrong.Unknown || !strings.Contains(wrong.What, name) {
			t.Errorf("%q: %v does not name %s", source, err, name)
		}
	}
	f("{{ x | from_json }}", "from_json")
	f("{{ x is prime }}", "prime")
	f("{{ x.casefold() }}", "casefold")
	f("{% include 'x' %}", "include")
	f("{{ x | map('nope') }}", "nope")
	f("{{ {1: 2} }}", "1")
	f("{{ f(*x) }}", "*")
	f("{% set a = x | safe %}{{ 'b' + a }}", "safe")
}

func TestBrokenTemplatesAreErrorsWithTheirLine(t *testing.T) {
	for _, source := range []string{"\n{{", "\n{% if %}", "\n{% for x in y %}", "\n{{ 'a }}", "\n{{ a ! }}", "\n{% endif %}", "\n{{ (a }}", "\n{% break %}", "\n{# a"} {
		if _, err := Parse(source); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", source, err)
		}
	}
}

func TestATemplateThatAsksForTheDateSaysSo(t *testing.T) {
	for source, want := range map[string]bool{"{% if strftime_now is defined %}{% endif %}": true, "{{ 'strftime_now' }}": false} {
		tpl, err := Parse(source)
		if err != nil || tpl.Dated() != want {
			t.Errorf("%q: %v %v", source, tpl, err)
		}
	}
}

// The sample is made by scripts/templates; its folder says whose the templates are.
func TestRealTemplatesRenderAsInTheSample(t *testing.T) {
	file, err := os.ReadFile("testdata/sample.json")
	if err != nil {
		t.Fatal(err)
	}
	var sample struct {
		Templates     map[string]string
		Conversations []json.RawMessage
		Want          map[string][]string
	}
	if err := json.Unmarshal(file, &sample); err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, source := range sample.Templates {
		for i, c := range sample.Conversations {
			got := rendered(t, source, string(c))
			want := sample.Want[name][i]
			if n++; want == "error" && strings.HasPrefix(got, "error: ") {
				continue
			}
			if got != want {
				t.Errorf("%s, conversation %d:\n got %q\nwant %q", name, i, got, want)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d renderings in the sample", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"{% for x in [1,2] %}{{ x | tojson(indent=2) }}{% endfor %}", "{%- macro m(a) -%}{{ m(a) }}{% endmacro %}{{ m(1) }}", "{{ 'a' * 9 ~ s[1:] }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		defer leash.Hold(t, len(source))()
		tpl, err := Parse(source)
		if err != nil {
			return
		}
		_, err = tpl.Render(map[string]any{"s": "text", "a": int64(1)}, Options{Limits: jinjalib.Limits{Steps: 20_000, Bytes: 1 << 20}})
		if err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
