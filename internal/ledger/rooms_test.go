package ledger

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms says of each room that keeps a map or a channel what bounds it: names of Book, or why there is none to be shown. One that is new, or
// keeps something now, is entered here: with a bound that /state shows its use of, or with what else keeps it small.
var rooms = map[string]string{
	"bench":      "not in the router: it measures it",
	"bounds":     "not in the router: it studies traces",
	"canary":     "follows workers: one under way at each",
	"certs":      "files that the configuration names",
	"child":      "not in the router: it measures it",
	"choice":     "models of the configuration, their candidates and a few reasons",
	"collector":  "not in the router: it is for tests",
	"contest":    "not in the router: it compares policies",
	"cost":       "answer_lengths",
	"declog":     "decision_records decision_log_bytes",
	"dialog":     "not in the router: it is the simulated engine's",
	"digest":     "not in the router: it reads decision logs",
	"discovery":  "workers",
	"downstream": "connections connections_per_client",
	"engine":     "not in the router: it is the simulated engine",
	"feed":       "event_listeners",
	"fleet":      "workers requests_inside",
	"flow":       "queue_requests queue_bytes queue_work_seconds",
	"forecast":   "models, of which 256 are told apart",
	"gate":       "workers responses",
	"ghost":      "ghost_bytes ghost_requests",
	"handover":   "a few sockets and names, once",
	"hot":        "prefixes_tracked",
	"hush":       "messages of the log, of which 256 are told apart",
	"jinja":      "one template at a time, within limits of depth and work",
	"jinjalib":   "one template at a time, within limits of depth and work",
	"joins":      "one piece of text at a time",
	"keep":       "index_bytes",
	"kube":       "objects of one selector, in answers of bounded length",
	"kubefake":   "not in the router: it is for tests",
	"kvevent":    "what is held back behind a gap, by bytes",
	"kvfeed":     "workers",
	"kvindex":    "event_index_bytes",
	"kvpublish":  "not in the router: it is the simulated engine's",
	"ledger":     "the table of bounds itself",
	"life":       "requests_inside",
	"line":       "kinds of prefills that are told apart, forgotten all together when they are many",
	"metrics":    "model_labels worker_labels",
	"modelfile":  "one model's files at a time",
	"models":     "conversations",
	"openbench":  "not in the router: it measures it",
	"otlp":       "trace_requests",
	"page":       "files that are in the binary",
	"pools":      "pools of the configuration",
	"prompt":     "token_cache_bytes",
	"pyvalue":    "one request at a time, within its body's bound",
	"reckoning":  "not in the router: it proves forecasts",
	"reenact":    "not in the router: it proves ghosts",
	"render":     "token_cache_bytes token_questions workers",
	"roster":     "workers",
	"series":     "series_steps workers",
	"sim":        "not in the router: it replays traces",
	"smuggling":  "not in the router: it is for tests",
	"socket":     "connections worker_connections",
	"strict":     "one file at a time",
	"telemetry":  "workers",
	"template":   "special tokens of one model",
	"tenant":     "tenants",
	"tokenizer":  "one model's vocabulary",
	"truth":      "workers",
	"upstream":   "requests_inside",
	"usher":      "workers",
	"words":      "tables of Unicode",
	"zmtp":       "workers",
}

// keepers are the rooms of the house in which a struct has a map or a channel.
func keepers(t *testing.T) (all map[string]bool) {
	t.Helper()
	files, err := filepath.Glob("../*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	all = map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		room := filepath.Base(filepath.Dir(file))
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				all[room] = all[room] || slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool { return grows(f.Type) })
			}
			return true
		})
		if !all[room] {
			delete(all, room)
		}
	}
	return all
}

// grows says whether a value of that type is a map or a channel, or a list of such.
func grows(of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.MapType, *ast.ChanType:
		return true
	case *ast.ArrayType:
		return grows(of.Elt)
	case *ast.SelectorExpr:
		return of.Sel.Name == "Map" // of sync
	}
	return false
}

func TestEveryRoomThatKeepsSomethingHasABoundOrAReason(t *testing.T) {
	t.Parallel()
	book := map[string]bool{}
	for _, e := range Book {
		book[e.Name] = true
	}
	all := keepers(t)
	for _, room := range slices.Sorted(maps.Keys(all)) {
		if rooms[room] == "" {
			t.Errorf("internal/%s has a map or a channel in a struct: enter in rooms which bound of Book it is held to, shown with its use, or why it needs none", room)
		}
	}
	for room, what := range rooms {
		if !all[room] {
			t.Errorf("internal/%s keeps no map or channel, and stands among the rooms that do", room)
		}
		names := strings.Fields(what)
		if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "_") || book[name] }) {
			continue // a reason
		}
		for _, name := range names {
			if !book[name] {
				t.Errorf("internal/%s: there is no bound %q", room, name)
			}
		}
	}
}
