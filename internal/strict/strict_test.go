package strict

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSizesAreWrittenAsTheyAreRead(t *testing.T) {
	for _, b := range []Bytes{0, 1, 1000, 1 << 10, 3 << 20, 1 << 40, 1<<30 + 1} {
		if got, err := ParseBytes(b.String()); got != b || err != nil {
			t.Errorf("%d: %s, %v", b, got, err)
		}
	}
}

type inner struct {
	Wait time.Duration `yaml:"wait" min:"1ms" doc:"How long."`
	Key  Secret        `yaml:"key" doc:"A credential."`
}

type outer struct {
	Name  string  `yaml:"name" enum:"red,blue" doc:"A colour."`
	Size  Bytes   `yaml:"size" doc:"A size."`
	Inner inner   `yaml:"inner" doc:"More."`
	List  []inner `yaml:"list" doc:"Many."`
}

func readOuter(text string) (outer, error) {
	var o outer
	r := NewReader("f.yaml", func(string) (string, bool) { return "", false }, reflect.TypeFor[outer]())
	if root := r.Document([]byte(text)); root != nil {
		r.Mapping(root, "", reflect.ValueOf(&o).Elem())
	}
	for _, p := range Limits(reflect.ValueOf(o), "") {
		if !r.InTrouble(p.Key) {
			r.Report(r.LineOf(p.Key), p.Key, p.Message)
		}
	}
	return o, r.Problems()
}

func TestAFileIsReadAlongTheTypeOrEveryProblemIsNamedWithItsLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"name: red\nsize: 64MiB\ninner: {wait: 2s}\nlist: [{wait: 5ms, key: k}]", ""},
		{"nam: red\nsize: 1", "f.yaml:1: nam: unknown key; did you mean name?"},
		{"wait: 2s", "f.yaml:1: wait: unknown key here; did you mean inner.wait?"},
		{"name: rad", `did you mean red?`},
		{"name: blue\ninner:\n  wait: 5", "f.yaml:3: inner.wait: 5 has no unit; write 5s, 5ms or 5m"},
		{"name: red\ninner: {wait: 1us}", "f.yaml:2: inner.wait: 1µs is below the least, 1ms"},
		{"name: red\nlist:\n  - {wait: 1s}\n  - {wait: 1s, key: [s3cret]}", "f.yaml:4: list[1].key: wants a text, not a list"},
	} {
		_, err := readOuter(c.text)
		if c.want == "" {
			if err != nil && !strings.Contains(err.Error(), "inner.key") {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestWhatIsPrintedIsDescribedAndHidesCredentials(t *testing.T) {
	text := Print("# head\n\n", outer{Name: "red", Size: 3 << 20, Inner: inner{Wait: time.Minute, Key: "s3cret"}})
	for _, want := range []string{"# head", "# A colour. One of red, blue.", "size: 3MiB", "wait: 1m", `key: "" # set, and not shown`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("the credential is shown:\n%s", text)
	}
}
