// Package warmpath_test holds the house rules: which room may import which, what pure rooms may not do, and how big things may get.
package warmpath_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/warmpath/warmpath/"

// rooms says what each room under internal may import beside the standard library: other rooms by name, modules by path.
// A new room is added here, with its line in docs/ARCHITECTURE.md.
var rooms = map[string][]string{
	"fleet":      {"outlier"},
	"jsontext":   {},
	"llmapi":     {"jsontext"},
	"socket":     {},
	"header":     {},
	"life":       {},
	"upstream":   {"socket", "header", "life"},
	"downstream": {"socket", "header", "life"},
	"declog":     {"github.com/klauspost/compress/"},
	"metrics":    {"github.com/prometheus/"},
	"prefix":     {"fleet"},
	"kvindex":    {"prefix"},
	"zmtp":       {},
	"kvevent":    {"prefix", "kvindex"},
	"kvfeed":     {"kvevent", "kvindex", "prefix", "zmtp"},
	"kvbench":    {"bench", "kvevent", "kvfeed", "kvindex", "prefix", "zmtp"},
	"kvpublish":  {"kvevent", "prefix", "zmtp"},
	"words":      {},
	"joins":      {},
	"tokenizer":  {"joins", "words"},
	"modelfile":  {"template", "tokenizer", "words"},
	"pyvalue":    {},
	"jinjalex":   {},
	"jinjalib":   {"jinjalex", "pyvalue"},
	"template":   {"jinja", "jinjalib", "pyvalue"},
	"jinja":      {"jinjalex", "jinjalib", "pyvalue"},
	"chat":       {"llmapi", "pyvalue", "template"},
	"tokenask":   {"chat"},
	"render":     {"chat", "tokenask", "modelfile", "prompt", "prefix", "tokenizer", "llmapi", "fleet"},
	"cost":       {"fleet"},
	"keep":       {"cost", "prefix", "truth"},
	"telemetry":  {"fleet"},
	"workload":   {"llmapi"},
	"checkup":    {"fleet", "llmapi", "telemetry", "upstream", "header"},
	"dialog":     {"llmapi", "prompt", "prefix"},
	"prompt":     {"llmapi", "prefix", "tokenizer"},
	"sched":      {"fleet", "prefix", "cost", "llmapi", "room", "tie"},
	"engine":     {"cost", "llmapi", "prompt", "prefix", "metrics", "dialog"},
	"facts":      {"forecast", "choice", "gate", "llmapi", "outcome", "prefix", "sched", "trace"},
	"trace":      {"header", "intake"},
	"collector":  {"go.opentelemetry.io/", "google.golang.org/"},
	"otlp":       {"facts", "fleet", "llmapi", "outcome", "trace", "go.opentelemetry.io/", "google.golang.org/grpc"},
	"line":       {"flow", "sched", "fleet", "heavy"},
	"forecast":   {"cost", "llmapi", "sched", "sketch"},
	"usher":      {"forecast", "line", "pools", "sched", "cost", "fleet", "llmapi"},
	"gate":       {"forecast", "room", "sched", "flow", "line", "usher", "pools", "llmapi", "prefix", "cost", "fleet", "upstream", "life"},
	"intake":     {"header", "life"},
	"flow":       {"spelling"},
	"tenant":     {"spelling", "go.yaml.in/yaml/v3"},
	"truth":      {},
	"pools":      {"llmapi", "declog", "spelling"},
	"models":     {"cost", "llmapi"},
	"refer":      {"gate", "intake", "header", "llmapi", "upstream"},
	"admission":  {"header", "tenant"},
	"bill":       {"cost", "outcome", "tenant"},
	"refusal":    {"admission", "choice", "complaint", "flow", "intake", "llmapi", "outcome", "sched", "tenant", "upstream"},
	"canary":     {"fleet", "gate", "header", "intake", "upstream"},
	"choice":     {"models", "cost", "gate", "llmapi", "prefix", "sched"},
	"outcome":    {"fleet"},
	"complaint":  {"header", "upstream"},
	"exact":      {"render", "prompt", "prefix", "kvindex", "sched", "fleet"},
	"proxy":      {"forecast", "facts", "admission", "bill", "refusal", "choice", "complaint", "models", "outcome", "refer", "flow", "tenant", "exact", "render", "gate", "sched", "prompt", "prefix", "llmapi", "fleet", "trace", "upstream", "inflight", "intake", "header", "life"},
	"child":      {},
	"openbench":  {"bench", "child"},
	"bench":      {"child", "gate", "sched", "prompt", "prefix", "llmapi", "fleet", "cost", "upstream"},
	"queuebench": {"bench", "gate", "flow", "heavy", "sched", "prefix", "fleet", "cost", "upstream"},
	"traces":     {"prefix", "declog", "fleet", "cost", "github.com/klauspost/compress/"},
	"evict":      {},
	"heavy":      {},
	"tie":        {},
	"repick":     {"declog", "tie"},
	"room":       {"fleet", "cost"},
	"sketch":     {},
	"outlier":    {},
	"lineup":     {"cost"},
	"bounds":     {"evict", "lineup", "prefix", "cost", "traces"},
	"sim":        {"bounds", "forecast", "engine", "sketch", "line", "flow", "lineup", "usher", "pools", "models", "sched", "prefix", "cost", "fleet", "traces", "room"},
	"sweep":      {"sim", "bounds", "lineup"},
	"report":     {"sweep", "sim", "bounds", "lineup", "digest"},
	"digest":     {"declog", "sketch"},
	"contest":    {"sweep", "sim", "lineup", "traces", "sched"},
	"reckoning":  {"forecast", "lineup", "sim", "traces"},
	"ghost":      {"prefix", "sched"},
	"regret":     {"sched"},
	"hot":        {"prefix"},
	"reenact":    {"ghost", "lineup", "prefix", "sim", "traces"},
	"crowd":      {"sim", "lineup", "traces", "flow", "pools", "heavy"},
	"filewatch":  {},
	"memory":     {},
	"hush":       {},
	"ledger":     {},
	"mint":       {},
	"certs":      {"filewatch"},
	"guard":      {"tenant"},
	"handover":   {},
	"spelling":   {},
	"roster":     {},
	"delta":      {},
	"kube":       {"go.yaml.in/yaml/v3"},
	"kubefake":   {},
	"leash":      {},
	"patrons":    {},
	"smuggling":  {},
	"series":     {},
	"recent":     {"declog"},
	"inflight":   {"life"},
	"feed":       {},
	"discovery":  {"kube", "life", "golang.org/x/net/dns/dnsmessage"},
	"page":       {},
	"strict":     {"delta", "spelling", "go.yaml.in/yaml/v3"},
	"config":     {"strict", "fleet", "certs", "guard", "sched", "flow", "pools", "models", "prefix", "kvindex", "zmtp", "upstream", "telemetry", "discovery", "declog", "go.yaml.in/yaml/v3", "heavy", "room"},
}

// pure are the rooms and files that decide: no goroutine, socket, clock or global random source.
var pure = []string{"internal/fleet/", "internal/outlier/", "internal/llmapi/", "internal/jsontext/", "internal/dialog/", "internal/prompt/", "internal/words/", "internal/joins/", "internal/tokenizer/", "internal/pyvalue/", "internal/jinjalex/", "internal/jinjalib/", "internal/jinja/", "internal/template/", "internal/chat/", "internal/prefix/", "internal/kvindex/", "internal/cost/", "internal/keep/", "internal/sched/", "internal/engine/step.go", "internal/engine/stretch.go", "internal/engine/blocks.go", "internal/engine/tier.go", "internal/kvevent/", "internal/truth/", "internal/pools/", "internal/models/", "internal/flow/", "internal/line/", "internal/heavy/", "internal/tie/", "internal/repick/", "internal/room/", "internal/forecast/", "internal/usher/", "internal/evict/", "internal/sketch/", "internal/tenant/", "internal/bill/", "internal/roster/", "internal/delta/", "internal/series/", "internal/ghost/", "internal/hot/", "internal/regret/"}

// impure are the imports that pure code may not have, and impureCalls the functions of packages it may otherwise use.
var (
	impure      = []string{"net", "os", "syscall", "log", "math/rand", "crypto/rand", "hash/maphash", "context", "testing"}
	impureCalls = map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	}
)

// Sizes, in lines.
const (
	fileLinesMax     = 400
	functionLinesMax = 70
	roomLinesMax     = 2000 // without tests
)

type source struct {
	path  string // slash-separated, from the root
	test  bool
	lines int
	text  string
	tree  *ast.File
	files *token.FileSet
}

func (s source) line(p token.Pos) int { return s.files.Position(p).Line }

// room is the name of the room that the file is in; "" outside internal.
func (s source) room() string {
	rest, ok := strings.CutPrefix(s.path, "internal/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// sources are all Go files of the module. They are read once: no test changes them.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var readSources = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "bin") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		tree, err := parser.ParseFile(files, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, source{path: filepath.ToSlash(name), test: strings.HasSuffix(name, "_test.go"),
			lines: strings.Count(string(text), "\n"), text: string(text), tree: tree, files: files})
		return nil
	})
	return all, err
})

func imports(s source) map[string]string {
	names := map[string]string{}
	for _, i := range s.tree.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if name == "v2" || name == "v3" {
			name = path.Base(path.Dir(p))
		}
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = p
	}
	return names
}

func TestArrowsBetweenRoomsPointDownwardsOnly(t *testing.T) {
	for _, s := range sources(t) {
		if s.room() == "" || s.test {
			continue
		}
		allowed, known := rooms[s.room()]
		if !known {
			t.Errorf("%s: the room %s is not in the table of this test", s.path, s.room())
			continue
		}
		if dir := path.Dir(s.path); dir != "internal/"+s.room() {
			t.Errorf("%s: rooms have one level, %s is a room within a room", s.path, dir)
		}
		for _, p := range imports(s) {
			if !mayImport(allowed, p) {
				t.Errorf("%s: %s may not import %s", s.path, s.room(), p)
			}
		}
	}
}

func TestTheChaosSuiteSharesNoCodeWithWhatItChecks(t *testing.T) {
	for _, s := range sources(t) {
		for _, p := range imports(s) {
			if strings.HasPrefix(s.path, "chaos/") && !s.test && !mayImport(nil, p) {
				t.Errorf("%s: the suite imports %s; it may use the standard library alone", s.path, p)
			}
		}
	}
}

func mayImport(allowed []string, p string) bool {
	if p == "C" {
		return false
	}
	if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") {
		return true
	}
	name, own := strings.CutPrefix(p, module+"internal/")
	for _, a := range allowed {
		if own && a == name || !own && strings.HasPrefix(p, a) && strings.Contains(a, ".") {
			return true
		}
	}
	return false
}

func TestPureRoomsStartNothingAndReadNoClock(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !slices.ContainsFunc(pure, func(p string) bool { return strings.HasPrefix(s.path, p) }) {
			continue
		}
		names := imports(s)
		for _, p := range names {
			for _, bad := range impure {
				if p == bad || strings.HasPrefix(p, bad+"/") && p != "math/rand/v2" {
					t.Errorf("%s: pure code may not import %s", s.path, p)
				}
			}
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			if what := impurity(n, names); what != "" {
				t.Errorf("%s:%d: pure code may not %s", s.path, s.line(n.Pos()), what)
			}
			return true
		})
	}
}

// impurity says what n does that pure code may not; "" when nothing.
func impurity(n ast.Node, names map[string]string) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "start a goroutine"
	case *ast.SelectorExpr:
		if n.Sel.Name == "Go" {
			return "start a goroutine" // sync.WaitGroup.Go
		}
		id, ok := n.X.(*ast.Ident)
		if !ok || id.Obj != nil {
			return ""
		}
		p, called := names[id.Name], n.Sel.Name
		if slices.Contains(impureCalls[p], called) {
			return "use " + p + "." + called
		}
		if p == "math/rand/v2" && ast.IsExported(called) && !strings.HasPrefix(called, "New") && !slices.Contains([]string{"Rand", "PCG", "ChaCha8", "Source", "Zipf"}, called) {
			return "use the global random source by rand." + called
		}
	}
	return ""
}

func TestFilesAndFunctionsAndRoomsStaySmall(t *testing.T) {
	sizes := map[string]int{}
	for _, s := range sources(t) {
		if s.lines > fileLinesMax {
			t.Errorf("%s: %d lines, more than %d", s.path, s.lines, fileLinesMax)
		}
		if !s.test {
			sizes[s.room()] += s.lines
		}
		for _, d := range s.tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := s.line(f.End()) - s.line(f.Pos()) + 1; lines > functionLinesMax {
				t.Errorf("%s:%d: %s has %d lines, more than %d", s.path, s.line(f.Pos()), f.Name.Name, lines, functionLinesMax)
			}
		}
	}
	for room, lines := range sizes {
		if room != "" && lines > roomLinesMax {
			t.Errorf("internal/%s: %d lines without tests, more than %d", room, lines, roomLinesMax)
		}
	}
}
