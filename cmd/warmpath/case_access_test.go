package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/tenant"
)

// Tokens of the tests' admin ports, in the clear.
const (
	readToken    = "wp-reader-0123456789abcdefghij"
	operateToken = "wp-operator-0123456789abcdefgh"
	engineToken  = "wp-engine-0123456789abcdefghij"
)

// guardedBy gives the admin port a token of each role, in each of the ways in which one can be given.
func guardedBy(t *testing.T) func(*config.Config) {
	t.Helper()
	digest, err := tenant.Hash(readToken)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "operator")
	if err := os.WriteFile(file, []byte(operateToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_ENGINE_TOKEN", engineToken)
	return func(c *config.Config) {
		c.Access.Tokens = []guard.Entry{{Name: "prometheus", Role: "read", Digest: digest.String()}, {Name: "ops", Role: "operate", File: file}, {Name: "engines", Role: "register", Env: "TEST_ENGINE_TOKEN"}}
		c.Pprof = true
	}
}

// adminAsks sends one request to the admin port.
func (rt *testRouter) adminAsks(method, path, body, token, host string) reply {
	rt.t.Helper()
	r, err := http.NewRequest(method, rt.AdminURL()+path, strings.NewReader(body))
	if err != nil {
		rt.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if host != "" {
		r.Host = host
	}
	return read(rt.http.Do(r))
}

func TestAUT02EachPathOfTheAdminPortNeedsItsRole(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) {
		keyed(t, "")(c)
		guardedBy(t)(c)
	}, w)
	const read, operate = "read", "operate"
	for _, c := range []struct{ method, path, body, needs string }{
		{http.MethodGet, "/state", "", read}, {http.MethodGet, "/metrics", "", read}, {http.MethodGet, "/workers", "", read}, {http.MethodGet, "/policy", "", read},
		{http.MethodGet, "/workers/w1", "", read}, {http.MethodPost, "/explain", `{"model":"m","prompt":"x"}`, read}, {http.MethodHead, "/state", "", read},
		{http.MethodGet, "/debug/pprof/", "", operate}, {http.MethodGet, "/debug/pprof/cmdline", "", operate},
		{http.MethodPost, "/policy", `{"policy":"warm-cost"}`, operate}, {http.MethodPost, "/workers", `{"url":"http://127.0.0.1:1"}`, operate},
		{http.MethodPost, "/workers/w1/drain", "", operate}, {http.MethodPost, "/workers/w1/undrain", "", operate}, {http.MethodDelete, "/workers/127.0.0.1:1", "", operate},
		{http.MethodPut, "/state", "", operate}, {http.MethodGet, "/nowhere", "", read}, {http.MethodPatch, "/nowhere", "", operate}, {"PURGE", "/metrics", "", operate},
	} {
		for token, role := range map[string]string{"": "", searchKey: "", "wp-guess-0123456789abcdefghijk": "", engineToken: "register", readToken: read, operateToken: operate} {
			want := role == operate || role == c.needs
			r := rt.adminAsks(c.method, c.path, c.body, token, "")
			refused := http.StatusUnauthorized
			if role != "" {
				refused = http.StatusForbidden
			}
			if got := r.status != http.StatusUnauthorized && r.status != http.StatusForbidden; r.err != nil || got != want || !got && r.status != refused {
				t.Errorf("%s %s as %q: %d %s, want it answered %v", c.method, c.path, role, r.status, r.body, want)
			}
			if token != "" && strings.Contains(r.body, token) {
				t.Errorf("%s %s repeats the token: %s", c.method, c.path, r.body)
			}
		}
	}
	if r := rt.adminAsks(http.MethodGet, "/healthz", "", "", ""); r.status != http.StatusOK {
		t.Errorf("health: %d", r.status)
	}
	if n := w.count(); n != 0 {
		t.Errorf("the worker was asked %d times", n)
	}
	page := rt.adminAsks(http.MethodGet, "/metrics", "", readToken, "").body
	if sumMetric(page, "warmpath_admin_refused_total", `reason="token"`) == 0 || sumMetric(page, "warmpath_admin_refused_total", `reason="role"`) == 0 {
		t.Error("refusals are not counted")
	}
	if log := rt.log.String(); strings.Contains(log, readToken) || strings.Contains(log, operateToken) || strings.Contains(log, engineToken) {
		t.Error("the log has a token")
	}
}

func TestTheAdminPortAnswersToNoNameThatAWebPageMayHave(t *testing.T) {
	open := start(t, func(c *config.Config) { c.Access.Hosts = []string{"router.internal"} }, newWorker(t, nil))
	for host, want := range map[string]int{"": 200, "localhost": 200, "10.0.0.7:8801": 200, "router.internal": 200, "evil.example": 421, "127.0.0.1.evil.example:8801": 421} {
		for _, path := range []string{"/state", "/metrics", "/workers"} {
			if r := open.adminAsks(http.MethodGet, path, "", "", host); r.status != want {
				t.Errorf("%s as %q: %d %s", path, host, r.status, r.body)
			}
		}
		if r := open.adminAsks(http.MethodPost, "/policy", `{"policy":"warm-cost"}`, "", host); r.status != want {
			t.Errorf("POST /policy as %q: %d %s", host, r.status, r.body)
		}
	}
	if n := open.metric("warmpath_admin_refused_total", `reason="host"`); n != 8 {
		t.Errorf("%v were counted", n)
	}
}

func TestATokenInAFileIsChangedWhileTheRouterRuns(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(operateToken)
	rt := start(t, func(c *config.Config) {
		c.Access.Tokens = []guard.Entry{{Name: "ops", Role: "operate", File: file}}
	}, newWorker(t, nil))
	opens := func(token string) bool {
		return rt.adminAsks(http.MethodGet, "/state", "", token, "").status == http.StatusOK
	}
	if !opens(operateToken) || opens(readToken) {
		t.Fatal("the token in the file does not count")
	}
	put("short")
	eventually(t, "the bad file to be told", func() bool { return strings.Contains(rt.log.String(), "cannot be used") })
	if !opens(operateToken) {
		t.Error("a bad file took the token away")
	}
	digest, _ := tenant.Hash(readToken)
	put(digest.String())
	eventually(t, "the new token", func() bool { return opens(readToken) })
	if opens(operateToken) {
		t.Error("the old token still opens")
	}
	if log := rt.log.String(); strings.Contains(log, operateToken) || strings.Contains(log, "short\n") {
		t.Error("the log has a token")
	}
}

func TestCommandsEnterAnAdminPortWithTokenAndTLS(t *testing.T) {
	p := newPaper(t)
	guarded := guardedBy(t)
	rt := start(t, func(c *config.Config) {
		guarded(c)
		keyed(t, "")(c)
		c.AdminTLS = p.server("admin", true)
	}, newWorker(t, nil))
	body := p.write("body.json", chat("x", false))
	cert, key := p.sign("operator", "operator", false, 1<<40)
	secure := []string{"--admin", rt.AdminURL(), "--admin-ca", p.ca, "--admin-cert", cert, "--admin-cert-key", key}
	said := func(code int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := run(args, &out, &errs); got != code {
			t.Errorf("%v: %d\n%s%s", args, got, &out, &errs)
		}
		return out.String() + errs.String()
	}
	explain := append([]string{"explain", "--body", body, "--header", "X-Api-Key: " + searchKey}, secure...)
	if text := said(exitRuntime, explain...); !strings.Contains(text, "--admin-token-file") {
		t.Errorf("without a token: %s", text)
	}
	if text := said(exitOK, append(explain, "--admin-token-file", p.write("token", readToken))...); !strings.Contains(text, "w1") {
		t.Errorf("with one that may read: %s", text)
	}
	if text := said(exitRuntime, append([]string{"drain", "w1", "--no-wait", "--admin-token-file", p.write("token", readToken)}, secure...)...); !strings.Contains(text, "needs operate") {
		t.Errorf("draining with one that may read: %s", text)
	}
	t.Setenv(adminTokenEnv, operateToken)
	said(exitOK, append([]string{"drain", "w1", "--no-wait"}, secure...)...)
	if s := rt.state().Workers[0].State; s != "draining" {
		t.Errorf("the worker is %s", s)
	}
	said(exitRuntime, append([]string{"drain", "w1", "--no-wait", "--admin", rt.AdminURL()}, "--admin-ca", p.ca)...)
}

func TestAUT02ServeDoesNotOpenItsAdminPortToEverybody(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--admin", "0.0.0.0:0"}, "admin: 0.0.0.0:0 is reached from beyond this machine"},
		{[]string{"--admin", ":0"}, "--admin-token-file"},
		{[]string{"--admin", "0.0.0.0:0", "--admin-token-file", "/nowhere/token"}, "/nowhere/token: no such file"},
		{[]string{"--tls-cert", "/nowhere/cert.pem"}, "tls.key: is not set"},
		{[]string{"--tls-cert", "/nowhere/cert.pem", "--tls-key", "/nowhere/key.pem"}, "setting tls: open /nowhere/cert.pem"},
		{[]string{"--worker-ca", "/nowhere/ca.pem"}, "setting worker_tls: open /nowhere/ca.pem"},
		{[]string{"--isolate", "tenants"}, `isolate: "tenants" is not known; did you mean tenant?`},
	} {
		var errs bytes.Buffer
		args := append([]string{"serve", "--listen", "127.0.0.1:0", "--state-dir", t.TempDir(), "--worker", "http://127.0.0.1:1"}, c.args...)
		if code := run(args, io.Discard, &errs); code != exitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: %d %s", c.args, code, errs.String())
		}
	}
	fine := config.Default()
	fine.Listen, fine.Admin, fine.StateDir, fine.Access.Open = "127.0.0.1:0", "0.0.0.0:0", t.TempDir(), true
	log := &lockedBuffer{}
	r, err := startRouter(fine, newLogger(log, fine))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if !strings.Contains(log.String(), "without TLS") {
		t.Errorf("an admin port that is open to all is not worth a word: %s", log)
	}
}

func TestHLT07TheWorkersCredentialGoesWithEveryCallAndIsChangedInItsFile(t *testing.T) {
	t.Parallel()
	const first, second = "S3CR3T-OF-THE-WORKER-1", "S3CR3T-OF-THE-WORKER-2"
	file := filepath.Join(t.TempDir(), "credential")
	put := func(text string) {
		if err := os.WriteFile(file+".new", []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	put(first)
	w := newWorker(t, nil)
	shown := &lockedBuffer{} // path and credential of each call
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(shown, r.URL.Path, r.Header.Get("Authorization"))
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer S3CR3T") {
			http.Error(out, "who are you?", http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(out, `{"data":[{"id":"m","owned_by":"vllm"}]}`)
		case "/metrics":
			fmt.Fprint(out, "vllm:num_requests_running 0\n")
		default:
			w.detection(out, r)
		}
	})
	rt := start(t, func(c *config.Config) { c.WorkerKeyFile = file }, w) // it has none of its own
	eventually(t, "the counts to come", func() bool { return rt.state().Workers[0].Telemetry == "fresh" })
	ask := func(want string) bool {
		r := rt.post("/v1/chat/completions", chat(want, false), "Authorization", "Bearer of the client")
		all := w.calls()
		return r.status == http.StatusOK && all[len(all)-1].r.Header.Get("Authorization") == "Bearer "+want
	}
	if !ask(first) {
		t.Error("the request did not carry the worker's credential")
	}
	put(second)
	eventually(t, "requests with the new credential", func() bool { return ask(second) })
	eventually(t, "scrapes with the new credential", func() bool { return strings.Contains(shown.String(), "/metrics Bearer "+second) })
	put("") // no use: the one before stays
	eventually(t, "the empty file to be told", func() bool { return strings.Contains(rt.log.String(), "cannot be used") })
	if !ask(second) {
		t.Error("an empty file took the credential away")
	}
	for _, path := range []string{"/v1/models", "/metrics"} {
		if !strings.Contains(shown.String(), path+" Bearer "+first) {
			t.Errorf("%s was asked without the credential: %s", path, shown)
		}
	}
	rt.idle()
	everything := rt.log.String()
	for _, path := range []string{"/state", "/metrics", "/workers"} {
		everything += read(rt.http.Get(rt.AdminURL() + path)).body
	}
	if strings.Contains(everything, "S3CR3T") {
		t.Error("the credential is in the log, the state or the metrics")
	}
}

func TestSEC06WhoHasNoKeyIsRefusedBeforeTheBodyComes(t *testing.T) {
	w := newWorker(t, nil)
	rt := start(t, keyed(t, ""), w)
	for _, framing := range []string{"Content-Length: 1073741824\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n40000000\r\n", "Content-Length: 1073741824\r\nContent-Encoding: gzip\r\n\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(rt.DataURL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s", framing) // and nothing more
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 401 ") {
			t.Errorf("%q: %q %v", framing, line, err)
		}
		conn.Close()
	}
	if n := w.count(); n != 0 {
		t.Errorf("the worker was asked %d times", n)
	}
}
