package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/tenant"
)

// TestSEC05NoSecretIsFoundInAnythingThatTheRouterWritesOrSends runs a router with every kind of secret that there is, asks for all that can go
// well and wrong, and then looks for each secret in whatever came out: logs at debug level, answers, /state, metrics, explanations, the
// decision log, every file in the state folder, and what workers were sent.
func TestSEC05NoSecretIsFoundInAnythingThatTheRouterWritesOrSends(t *testing.T) {
	const workerKey = "S3CR3T-OF-THE-WORKER-0123456789"
	p, folder, decisions := newPaper(t), t.TempDir(), filepath.Join(t.TempDir(), "decisions.jsonl")
	script := func(c *call) {
		if end := workerEnds[c.r.Header.Get("X-End")]; end != nil {
			end(c)
		}
	}
	w1, w2 := newWorker(t, script), newSecureWorker(t, p.server("w2", true), script)
	w2.on(script)
	cert, key := p.sign("router", "router", false, 1<<40)
	guarded, keys := guardedBy(t), keyed(t, "")
	rt := start(t, func(c *config.Config) {
		guarded(c)
		keys(c)
		c.StateDir, c.DecisionLog.File, c.ExplainHeaders, c.Isolate = folder, decisions, true, config.IsolateTenant
		c.Workers[0].Key, c.Workers[1].KeyFile = workerKey, p.write("credential", workerKey)
		c.Workers[1].TLS = certs.WorkerFiles{CA: p.ca, Cert: cert, Key: key}
		c.AdminTLS = p.server("admin", false)
	}, w1, w2)
	rt.trust(p.client(""))
	var out lockedBuffer
	note := func(r reply) { fmt.Fprintln(&out, r.status, r.header, r.body, r.err) }
	for end := range workerEnds {
		if strings.HasPrefix(end, "silent") {
			continue // nothing ends it but its client
		}
		for i, key := range []string{searchKey, agentsKey, oldKey, operateToken, ""} {
			note(rt.post("/v1/chat/completions?key="+key, chat(end, i%2 == 0), "Authorization", "Bearer "+key, "X-Api-Key", key, "X-Warmpath-Token", readToken, "X-End", end, "X-Warmpath-Cost", "1"))
		}
	}
	askAdminPort(rt, workerKey, note)
	p.write("credential", workerKey+"\nand a second line")
	p.write("admin.key", "-----BEGIN PRIVATE KEY-----\nno key\n-----END PRIVATE KEY-----\n")
	eventually(t, "both bad files to be told", func() bool { return strings.Count(rt.log.String(), "cannot be used") >= 2 })
	rt.idle()
	fmt.Fprintln(&out, rt.log.String())
	rt.Close()
	for _, root := range []string{folder, filepath.Dir(decisions)} {
		addFiles(t, &out, root)
	}
	secrets := map[string]string{"the worker's": workerKey, "search": searchKey, "agents": agentsKey, "an expired key": oldKey, "reader": readToken, "operator": operateToken, "engine": engineToken,
		"salt": tenant.Salt(rt.secret, "search", ""), "digest of search": digestText(t, searchKey), "digest of the operator": digestText(t, operateToken),
		"secret": string(rt.secret), "the router's private key": pemBody(t, key)}
	everything := out.String()
	for whose, secret := range secrets {
		if at := strings.Index(everything, secret); at >= 0 && whose != "secret" {
			t.Errorf("%s: %.300q", whose, everything[max(0, at-150):min(len(everything), at+150)])
		}
	}
	if n := strings.Count(everything, string(rt.secret)); n > 1 { // its own file
		t.Errorf("the installation's secret is found %d times", n)
	}
	for _, c := range append(w1.calls(), w2.calls()...) {
		sent, _ := json.Marshal(c.r.Header)
		sent = append(append(sent, c.r.URL.String()...), c.body...)
		for whose, secret := range secrets {
			if whose != "the worker's" && whose != "salt" && bytes.Contains(sent, []byte(secret)) && !strings.Contains(c.r.URL.RawQuery, secret) {
				t.Fatalf("%s was sent to a worker: %s", whose, sent)
			}
		}
	}
	if w1.count()+w2.count() == 0 || !strings.Contains(everything, `"tenant":"search"`) {
		t.Error("nothing was asked, so that nothing is shown")
	}
}

// askAdminPort asks what there is, under every token and none.
func askAdminPort(rt *testRouter, workerKey string, note func(reply)) {
	for _, token := range []string{"", searchKey, engineToken, readToken, operateToken} {
		for _, path := range []string{"/state", "/metrics", "/workers", "/workers/w1", "/policy", "/nowhere"} {
			note(rt.adminAsks(http.MethodGet, path, "", token, ""))
			note(rt.adminAsks(http.MethodGet, path, "", token, "evil.example"))
		}
		note(rt.adminAsks(http.MethodPost, "/explain", chat("x", false), token, ""))
		note(rt.adminAsks(http.MethodPost, "/policy", `{"policy":"`+operateToken+`x"`, token, ""))
		note(rt.adminAsks(http.MethodPost, "/workers", `{"url":"https://127.0.0.1:1","key":"`+workerKey+`"}`, token, ""))
	}
}

func digestText(t *testing.T, key string) string {
	t.Helper()
	d, err := tenant.Hash(key)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(d.String(), "sha256:")
}

// pemBody is a line from the middle of a PEM file.
func pemBody(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")[1]
}

// addFiles adds every file below a folder.
func addFiles(t *testing.T, out *lockedBuffer, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		fmt.Fprintf(out, "%s: %s\n", name, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
