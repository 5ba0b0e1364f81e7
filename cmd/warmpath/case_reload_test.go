package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/tenant"
)

// tenantsFile is a file of tenants as clusters mount them: a link to a link, the inner one of which is swapped.
type tenantsFile struct {
	t      *testing.T
	folder string
	n      int
}

func (f *tenantsFile) path() string { return filepath.Join(f.folder, "tenants.yaml") }

// put swaps in another text, all of it at one moment.
func (f *tenantsFile) put(text string) {
	f.t.Helper()
	f.n++
	version := fmt.Sprint("version-", f.n)
	if err := os.Mkdir(filepath.Join(f.folder, version), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.folder, version, "tenants.yaml"), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	next := filepath.Join(f.folder, "next")
	if err := os.Symlink(version, next); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(f.folder, "now")); err != nil {
		f.t.Fatal(err)
	}
	if f.n == 1 {
		if err := os.Symlink(filepath.Join("now", "tenants.yaml"), f.path()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// lineOf is a tenant of the file.
func lineOf(t *testing.T, name, key, more string) string {
	t.Helper()
	digest, err := tenant.Hash(key)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("  - {name: %s, keys: [%q]%s}\n", name, digest.String(), more)
}

func TestAChangedFileOfTenantsIsTakenUpWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	turns := make(chan struct{})
	w := newWorker(t, func(c *call) {
		if strings.Contains(string(c.body), "held") {
			<-turns
		}
		c.good("x")
	})
	f := &tenantsFile{t: t, folder: t.TempDir()}
	f.put("tenants:\n" + lineOf(t, "search", searchKey, ", in_flight: 2"))
	rt := start(t, func(c *config.Config) { c.Tenants.File = f.path() }, w)
	ask := func(key, body string) int {
		return rt.do(t.Context(), http.MethodPost, "/v1/chat/completions", body, "X-Api-Key", key).status
	}
	if got := [2]int{ask(searchKey, chat("a", false)), ask(agentsKey, chat("b", false))}; got != [2]int{200, 401} {
		t.Fatal(got)
	}
	held := make(chan int, 1)
	go func() { held <- ask(searchKey, chat("held", false)) }()
	eventually(t, "one to be in flight", func() bool { return rt.who("search").InFlight == 1 && w.count() == 2 })

	f.put("tenants:\n" + lineOf(t, "search", searchKey, ", in_flight: 1, requests_per_minute: 100") + lineOf(t, "agents", agentsKey, ""))
	eventually(t, "another tenant's key to be one", func() bool { return ask(agentsKey, chat("c", false)) == 200 })
	if status := ask(searchKey, chat("the one in flight counts", false)); status != 429 {
		t.Errorf("the limit that is new: %d", status)
	}
	if s := rt.who("search"); s.InFlight != 1 || s.RequestsLastMinute != 2 {
		t.Errorf("counts did not survive: %+v", s)
	}

	for i, bad := range []string{"tenants:\n" + lineOf(t, "search", searchKey, ", class: made-up"), "tenants:\n" + lineOf(t, "search", searchKey, ", spend_per_day: 5")} {
		f.put(bad)
		eventually(t, fmt.Sprintf("mistake %d to be told", i), func() bool { return rt.metric("warmpath_file_changes_total", `result="refused"`) == float64(i+1) })
		if got := [2]int{ask(agentsKey, chat("still there", false)), ask(searchKey, chat("still one", false))}; got != [2]int{200, 429} {
			t.Errorf("mistake %d changed something: %v", i, got)
		}
	}
	for _, why := range []string{"made-up", "no model has a price"} {
		if !strings.Contains(rt.log.String(), why) {
			t.Errorf("the log does not say %q", why)
		}
	}
	if strings.Contains(rt.log.String(), searchKey) {
		t.Error("the log has a key")
	}

	close(turns)
	if status := <-held; status != 200 {
		t.Errorf("the one under way: %d", status)
	}
	f.put("tenants:\n" + lineOf(t, "agents", agentsKey, ""))
	eventually(t, "a key that was taken out to be none", func() bool { return ask(searchKey, chat("gone", false)) == 401 })
	if status := ask(agentsKey, chat("stays", false)); status != 200 {
		t.Error(status)
	}
}

func TestAFileOfTenantsThatIsNotThereOrWrongIsNoStart(t *testing.T) {
	for name, text := range map[string]string{"not there": "", "wrong": "tenants: 7\n"} {
		file := filepath.Join(t.TempDir(), "tenants.yaml")
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := config.Default()
		c.Listen, c.Admin, c.StateDir, c.Tenants.File = "127.0.0.1:0", "127.0.0.1:0", t.TempDir(), file
		r, err := startRouter(c, newLogger(&lockedBuffer{}, c))
		if err == nil {
			r.Close()
			t.Errorf("%s: it starts", name)
		} else if !strings.Contains(err.Error(), "tenants.yaml") || exitCode(err) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
