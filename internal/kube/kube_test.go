package kube

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/kubefake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is what Follow told last.
type seen struct {
	mu    sync.Mutex
	names string
	err   error
	errs  int
}

func (s *seen) tell(pods []Pod, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err != nil {
		s.errs++
		return
	}
	var names []string
	for _, p := range pods {
		names = append(names, p.Metadata.Name)
	}
	slices.Sort(names)
	s.names = strings.Join(names, " ")
}

func (s *seen) now() (names string, errs int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names, s.errs, s.err
}

func (s *seen) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited a minute for %s; told last: %+v", what, s)
		}
	}
}

func (s *seen) sees(t *testing.T, names string) {
	t.Helper()
	s.await(t, fmt.Sprintf("%q", names), func() bool { now, _, err := s.now(); return now == names && err == nil })
}

var pods = kubefake.Pods("llm")

func pod(name string) kubefake.Object {
	return kubefake.Pod(name, "uid-"+name, "10.0.0.1", true, map[string]string{"app": "vllm"}, 8000)
}

// followed follows the pods of a server.
func followed(t *testing.T, url string, pace Pace) *seen {
	t.Helper()
	c, err := at(t, url, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &seen{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { Follow(ctx, c, Pods("llm", "app=vllm"), pace, s.tell) })
	t.Cleanup(func() { cancel(); running.Wait(); c.Close() })
	return s
}

// at writes a kubeconfig for a server and opens it.
func at(t *testing.T, url, token string) (*Client, error) {
	t.Helper()
	c, namespace, err := Open(Place{Kubeconfig: kubeconfigFile(t, "server: "+url, "token: "+token)})
	if err == nil && namespace != "llm" {
		t.Errorf("namespace %q", namespace)
	}
	return c, err
}

func kubeconfigFile(t *testing.T, cluster, user string) string {
	t.Helper()
	text := fmt.Sprintf(`
current-context: here
contexts: [{name: here, context: {cluster: c, user: u, namespace: llm}}]
clusters: [{name: c, cluster: {%s}}]
users: [{name: u, user: {%s}}]
`, cluster, user)
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func started(t *testing.T) (*kubefake.Server, string) {
	s := kubefake.New()
	url, stop := s.Listen()
	t.Cleanup(stop)
	return s, url
}

func TestWhatHappensIsSeenAsItHappens(t *testing.T) {
	s, url := started(t)
	s.PageMax, s.Bookmark = 2, 10*time.Millisecond
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.Put(pods, pod(name))
	}
	got := followed(t, url, Pace{})
	got.sees(t, "a b c d e")
	s.Put(pods, pod("f"))
	got.sees(t, "a b c d e f")
	s.Delete(pods, "a")
	got.sees(t, "b c d e f")
	s.Put(pods, kubefake.Pod("b", "uid-b", "10.0.0.1", true, map[string]string{"app": "other"}))
	got.sees(t, "c d e f")
	s.Put(pods, kubefake.Pod("c", "another", "10.0.0.1", true, map[string]string{"app": "vllm"}))
	s.Delete(pods, "c")
	got.sees(t, "d e f")
	lists, watches := s.Asked()
	if lists != 3 || watches != 1 {
		t.Errorf("%d pages and %d watches, want 3 and 1", lists, watches)
	}
}

func TestAWatchIsNotTrustedForLong(t *testing.T) {
	s, url := started(t)
	s.Put(pods, pod("a"))
	s.Silence(true)
	got := followed(t, url, Pace{Resync: 50 * time.Millisecond, Grace: 50 * time.Millisecond})
	got.sees(t, "a")
	s.Put(pods, pod("b"))
	got.sees(t, "a b")
	s.Delete(pods, "a")
	got.sees(t, "b")
	if _, errs, _ := got.now(); errs != 0 {
		t.Errorf("silence was told as %d errors", errs)
	}
}

func TestWhoWantsAllAnewSoonWaitsNoLongerForWhatFails(t *testing.T) {
	for resync, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Minute: 5 * time.Second, time.Second: time.Second} {
		if p := (Pace{Resync: resync}).withDefaults(); p.Grace != want || p.Backoff != want {
			t.Errorf("listed anew each %v, a silent watch has %v more, and a server that fails is asked again after %v at most, want %v", resync, p.Grace, p.Backoff, want)
		}
	}
}

func TestWhatHappensWhileAWatchIsBrokenIsSeenAfterwards(t *testing.T) {
	s, url := started(t)
	s.Put(pods, pod("a"))
	got := followed(t, url, Pace{Backoff: 20 * time.Millisecond})
	for round := range 4 {
		s.Cut()
		name := fmt.Sprint("r", round)
		s.Put(pods, pod(name))
		got.sees(t, "a "+name)
		s.Cut()
		s.Delete(pods, name)
		got.sees(t, "a")
	}
	s.Forget() // what is watched from now is too old: 410
	s.Cut()
	s.Put(pods, pod("z"))
	got.sees(t, "a z")
}

func TestAnAPIServerThatIsDownIsToldAndComesBack(t *testing.T) {
	s, url := started(t)
	s.Put(pods, pod("a"))
	got := followed(t, url, Pace{Backoff: 20 * time.Millisecond})
	got.sees(t, "a")
	s.Refuse(http.StatusServiceUnavailable)
	s.Cut()
	got.await(t, "errors", func() bool { _, errs, _ := got.now(); return errs >= 2 })
	names, _, err := got.now()
	if names != "a" || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("told %q and %v", names, err)
	}
	s.Put(pods, pod("b"))
	s.Refuse(0)
	got.sees(t, "a b")
}

func TestWhatIsNoAPIServerIsToldInWords(t *testing.T) {
	for _, c := range []struct{ answer, want string }{
		{`{"items":[]}`, "resourceVersion"},
		{`<html>`, "not as it should be"},
		{`{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"labels":7}}]}`, "not as it should be"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(c.answer)) }))
		got := followed(t, server.URL, Pace{Backoff: 10 * time.Millisecond})
		got.await(t, "an error", func() bool { _, _, err := got.now(); return err != nil && strings.Contains(err.Error(), c.want) })
		server.Close()
	}
}

func TestOddEventsEndAWatchAndNothingElse(t *testing.T) {
	for _, line := range []string{"nonsense", `{"type":"ADDED","object":[]}`, `{"type":"ERROR","object":{"code":500,"message":"x"}}`, `{"type":"ERROR","object":7}`, `{"type":"NEWS","object":{}}`} {
		lists := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "" {
				lists++
				fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"n%d"}}]}`, lists)
				return
			}
			fmt.Fprintln(w, line)
		}))
		got := followed(t, server.URL, Pace{Backoff: 10 * time.Millisecond})
		got.await(t, "a second list", func() bool { names, _, _ := got.now(); return names != "" && names != "n1" })
		server.Close()
	}
}

func TestATokenIsReadAnewForEachRequest(t *testing.T) {
	s, url := started(t)
	s.Token = "one"
	s.Put(pods, pod("a"))
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong")
	c, _, err := Open(Place{Kubeconfig: kubeconfigFile(t, "server: "+url, "tokenFile: "+file)})
	if err != nil {
		t.Fatal(err)
	}
	got := &seen{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { Follow(ctx, c, Pods("llm", "app=vllm"), Pace{Backoff: 10 * time.Millisecond}, got.tell) })
	defer func() { cancel(); running.Wait(); c.Close() }()
	got.await(t, "a refusal", func() bool {
		_, _, err := got.now()
		return err != nil && strings.Contains(err.Error(), "service account")
	})
	write("one")
	got.sees(t, "a")
}

func TestAPodFindsItsClusterByItsServiceAccount(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/api/v1/namespaces/llm/pods" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a"}}]}`)
	}))
	defer server.Close()
	folder := t.TempDir()
	for name, text := range map[string]string{"token": "secret", "namespace": "llm", "ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
	env := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	c, namespace, err := Open(Place{Account: folder, Env: func(name string) string { return env[name] }})
	if err != nil || namespace != "llm" {
		t.Fatal(namespace, err)
	}
	defer c.Close()
	s := store[Pod, *Pod]{objects: map[string]Pod{}}
	if err := s.list(t.Context(), c, Pods(namespace, ""), Pace{}.withDefaults()); err != nil || len(s.all()) != 1 {
		t.Errorf("%v %v", s.all(), err)
	}
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	c, _, err = Open(Place{Kubeconfig: kubeconfigFile(t, "server: "+server.URL+", certificate-authority-data: "+authority, "token: secret")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := s.list(t.Context(), c, Pods("llm", ""), Pace{}.withDefaults()); err != nil {
		t.Error(err)
	}
}

func TestAKubeconfigThatCannotBeUsedSaysWhy(t *testing.T) {
	for _, c := range []struct{ cluster, user, want string }{
		{"server: here", "token: x", "no address"},
		{"server: https://h", "exec: {command: aws}", "another program"},
		{"server: https://h", "auth-provider: {name: gcp}", "another program"},
		{"server: https://h", "username: u, password: p", "service account"},
		{"server: https://h, certificate-authority: nowhere.pem", "token: x", "nowhere.pem"},
		{"server: https://h, certificate-authority-data: bm9wZQ==", "token: x", "no certificate"},
		{"server: https://h", "client-certificate-data: bm9wZQ==, client-key-data: bm9wZQ==", "client certificate"},
	} {
		_, _, err := Open(Place{Kubeconfig: kubeconfigFile(t, c.cluster, c.user)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, _, err := Open(Place{Kubeconfig: kubeconfigFile(t, "server: https://h", "token: x"), Context: "there"}); err == nil || !strings.Contains(err.Error(), `"there"`) {
		t.Error(err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	if _, _, err := Open(Place{Env: func(string) string { return "" }}); err == nil || !strings.Contains(err.Error(), "kubeconfig") {
		t.Error(err)
	}
}
