package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

func TestREL_01_BadSavesChangeNothingAndTheWatcherGoesOn(t *testing.T) {
	t.Parallel()
	a, b, extra := newWorker(t, nil), newWorker(t, nil), newWorker(t, nil)
	good := fileOf("", a, b)
	rt, f := startFile(t, "watch_config: true\n", good)
	rt.ready(2)
	stop := rt.traffic(1, 2)
	refused := func(n float64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%v refusals", n), func() bool { return rt.metric("warmpath_config_reloads_total", `result="refused"`) == n })
		if s := rt.state(); s.Config.Error == "" || s.Config.Generation != 1 || len(s.Workers) != 2 || rt.metric("warmpath_config_last_reload_successful") != 0 {
			t.Errorf("%+v, %d workers", s.Config, len(s.Workers))
		}
	}
	f.write("workers: [\n")
	refused(1)
	f.write(good + "policy: luck\n")
	refused(2)
	if text := rt.state().Config.Error; !strings.Contains(text, "policy") || !strings.Contains(text, "luck") || !strings.Contains(text, f.path+":") {
		t.Errorf("the error does not help: %s", text)
	}
	f.write(good)
	if err := os.WriteFile(f.path, []byte(f.head), 0o600); err != nil { // half of a save in place: without its workers
		t.Fatal(err)
	}
	half, err := os.OpenFile(f.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := half.WriteString(fileOf("", a, b, extra)); err != nil {
		t.Fatal(err)
	}
	half.Close()
	generation := func(n, workers int) {
		t.Helper()
		eventually(t, fmt.Sprintf("generation %d", n), func() bool { return rt.state().Config.Generation == n })
		rt.ready(workers)
	}
	generation(2, 3)
	if s := rt.state().Config; s.Error != "" || rt.metric("warmpath_config_last_reload_successful") != 1 {
		t.Errorf("the error stays: %+v", s)
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	f.write(good + "retries_max: 1\n") // created anew
	generation(3, 2)
	aside := filepath.Join(filepath.Dir(f.path), "version-2.yaml")
	if err := os.WriteFile(aside, []byte(f.head+good+"retries_max: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(aside, f.path+".link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.path+".link", f.path); err != nil { // a link in its place, as clusters do
		t.Fatal(err)
	}
	generation(4, 2)
	if sent, wrong := stop(); len(wrong) > 0 {
		t.Errorf("%d of %d requests went wrong: %s", len(wrong), sent, wrong[0])
	}
}

func TestBadRulesAreRefusedWithPlaceAndReasonAndTheOldOnesStay(t *testing.T) {
	a := newWorker(t, nil)
	rt, f := startFile(t, "", fileOf("", a))
	rt.ready(1)
	pools := "pools: [{name: short}, {name: long}]\n"
	for name, c := range map[string]struct {
		text    string
		setting string
	}{
		"rules that overlap without an order": {pools + "pool_rules: [{name: x, to: [short]}, {name: y, to: [long]}]\n", "pool_rules"},
		"an unknown pool":                     {pools + "pool_rules: [{name: x, to: [wide]}]\n", "pool_rules[0].to"},
		"a worker in an unknown pool":         {"pools: [{name: short}]\ndefault_pool: wide\n", "default_pool"},
		"aliases in a circle":                 {"models: [{name: x, candidates: [{model: y}]}, {name: y, candidates: [{model: x}]}]\n", "models"},
		"a negative weight":                   {"models: [{name: x, choose: weight, candidates: [{model: m, weight: -1}]}]\n", "models[0].candidates[0].weight"},
		"no share":                            {"queue: {reserve: 7}\n", "queue.reserve"},
		"an unknown key":                      {"retry_max: 7\n", "retry_max"},
	} {
		f.write(fileOf("", a) + c.text)
		var no refusedReload
		if status := rt.reloadNow(&no); status != http.StatusUnprocessableEntity || no.Result != reloadRefused || len(no.Problems) == 0 {
			t.Errorf("%s: %d, %+v", name, status, no)
			continue
		}
		if p := no.Problems[0]; p.File != f.path || p.Line == 0 || !strings.HasPrefix(p.Setting, c.setting) || p.Message == "" {
			t.Errorf("%s: %+v, want the setting %s", name, p, c.setting)
		}
		if r := rt.post("/v1/chat/completions", chat(name, false)); r.status != http.StatusOK || rt.state().Config.Generation != 1 {
			t.Errorf("%s: a request after it: %d %s", name, r.status, r.body)
		}
	}
	if n := rt.metric("warmpath_config_reloads_total", `result="refused"`); n != 7 {
		t.Errorf("%v refusals are counted", n)
	}
}

func TestWhatNeedsARestartIsNamedAndNothingChanges(t *testing.T) {
	a := newWorker(t, nil)
	rt, f := startFile(t, "", fileOf("", a))
	f.write(fileOf("", a) + "log_format: json\nretries_max: 9\nqueue: {classes: [only], class: only}\n")
	var no refusedReload
	if status := rt.reloadNow(&no); status != http.StatusUnprocessableEntity || len(no.Restart) < 2 || rt.settings().RetriesMax == 9 {
		t.Fatalf("%d, %+v", status, no)
	}
	for _, want := range []string{"log_format: text -> json", "queue.classes[interactive]: removed", "restart"} {
		if !strings.Contains(no.Error.Message, want) {
			t.Errorf("%q is not in: %s", want, no.Error.Message)
		}
	}
	f.write("")
	if status := rt.reloadNow(&no); status != http.StatusUnprocessableEntity || !strings.Contains(no.Error.Message, "workers") {
		t.Errorf("a file without workers: %d, %s", status, no.Error.Message)
	}
	f.write(fileOf(", key_file: /nowhere", a))
	if status := rt.reloadNow(&no); status != http.StatusUnprocessableEntity || !strings.Contains(no.Error.Message, "/nowhere") {
		t.Errorf("a credential that is not there: %d, %s", status, no.Error.Message)
	}
	f.write(fileOf("", a) + "decision_log: {file: /nowhere/at/all.jsonl}\n")
	if status := rt.reloadNow(&no); status != http.StatusUnprocessableEntity || !strings.Contains(no.Error.Message, "decision_log.file") {
		t.Errorf("a decision log that cannot be: %d, %s", status, no.Error.Message)
	}
}

func TestAConfigurationIsHeldAgainstTheOneOfARunningRouter(t *testing.T) {
	a := newWorker(t, nil)
	rt, f := startFile(t, "", fileOf(", key: hush", a))
	f.write(fileOf(", key: murmur", a) + "retries_max: 4\nlog_format: json\n")
	out, log := &lockedBuffer{}, &lockedBuffer{}
	if code := run([]string{"config", "check", f.path, "--against", rt.AdminURL()}, out, log); code != exitOK {
		t.Fatalf("%d: %s", code, log.String())
	}
	for _, want := range []string{"2 changes, 1 of them with a restart only", "retries_max: 2 -> 4", "! log_format: text -> json"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if text := out.String() + read(rt.http.Get(rt.AdminURL()+"/config")).body; strings.Contains(text, "hush") || strings.Contains(text, "murmur") {
		t.Errorf("a credential is shown:\n%s", text)
	}
	f.write(fileOf(", key: murmur", a) + "retries_max: 4\n")
	out = &lockedBuffer{}
	for _, c := range []struct{ args, want string }{{"reload --dry-run", "would be taken up"}, {"reload", "2 changes in force, generation 2"}, {"reload", "nothing changed, generation 2"}, {"reload --json", `"result":"unchanged"`}} {
		if code := run(append(strings.Fields(c.args), "--admin", rt.AdminURL()), out, log); code != exitOK || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %d, %s%s", c.args, code, out.String(), log.String())
		}
	}
	f.write("nonsense")
	if code := run([]string{"reload", "--admin", rt.AdminURL()}, out, log); code == exitOK || !strings.Contains(log.String(), "not YAML") {
		t.Errorf("%d, %s", code, log.String())
	}
}

func TestSIGHUPReadsTheConfigurationAgain(t *testing.T) {
	a, b := newWorker(t, nil), newWorker(t, nil)
	file := filepath.Join(t.TempDir(), "warmpath.yaml")
	f := &configFile{t, file, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: \"\"\nstate_dir: %q\n", t.TempDir())}
	f.write(fileOf("", a))
	load := func() (config.Config, error) { return config.Load(file) }
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	out, log, ended := &lockedBuffer{}, &lockedBuffer{}, make(chan error, 1)
	go func() { ended <- serveHere(out, log, c, file, load) }()
	eventually(t, "the router to serve", func() bool { return strings.Contains(out.String(), "1 worker)") })
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	f.write(fileOf("", a, b) + "log_level: debug\n")
	signal(syscall.SIGHUP)
	eventually(t, "the log to speak of it", func() bool {
		return strings.Contains(log.String(), "is in force") && strings.Contains(log.String(), "workers[w2]: added")
	})
	f.write("policy: luck\n")
	signal(syscall.SIGHUP)
	eventually(t, "the log to refuse", func() bool { return strings.Contains(log.String(), "stays as it was") })
	signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestARouterWithoutAFileSaysThatItHasNoneAndWhatItWillNotRemember(t *testing.T) {
	t.Parallel()
	a, b := newWorker(t, nil), newWorker(t, nil)
	rt := start(t, nil, a)
	file := filepath.Join(t.TempDir(), "new.yaml")
	os.WriteFile(file, []byte(fileOf("", a)), 0o600)
	var out, errs strings.Builder
	if code := run([]string{"config", "check", file, "--against", rt.AdminURL()}, &out, &errs); code != exitOK || !strings.Contains(out.String(), "started without a configuration file and has none to reload: all of them need a start with serve --config "+file) {
		t.Errorf("%d: %s%s", code, out.String(), errs.String())
	}
	if code := rt.adminCall(http.MethodPost, "/workers", fmt.Sprintf(`{"id":"by-hand","url":%q}`, b.url), nil); code != http.StatusCreated {
		t.Fatal(code)
	}
	rt.Close()
	if text := rt.log.String(); !strings.Contains(text, "are not remembered: name them in the configuration") || !strings.Contains(text, "workers=1 first=by-hand") {
		t.Error("its end says nothing of a worker that was added by hand")
	}
}
