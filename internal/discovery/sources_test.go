package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/kube"
	"github.com/warmpath/warmpath/internal/kubefake"
)

// lines is a parser for these tests: a URL a line, ended by a line of its own.
func lines(text []byte) (set []Worker, err error) {
	all := strings.Fields(string(text))
	if len(all) == 0 || all[len(all)-1] != "end" {
		return nil, errors.New("no end")
	}
	for _, url := range all[:len(all)-1] {
		set = append(set, Worker{URL: url})
	}
	return set, nil
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFileIsFollowedHoweverItChanges(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "workers")
	h := follow(t, File{Path: file, Parse: lines, Every: 2 * time.Millisecond})
	h.fails("no such file")
	write(t, file, "a end")
	h.says("a")
	write(t, file, "a b end") // in place
	h.says("a b")
	write(t, file+".new", "c end")
	if err := os.Rename(file+".new", file); err != nil { // put in its place
		t.Fatal(err)
	}
	h.says("c")
	write(t, file, "half a li")
	h.fails("no end")
	if said(h.set) != "c" {
		t.Errorf("a bad file left %q", said(h.set))
	}
	write(t, file, "c end") // back as it was
	h.says("c")
	write(t, file, "")
	h.fails("no end")
	os.Remove(file)
	h.fails("no such file")
	write(t, file, "end")
	h.says("")
}

func TestASymbolicLinkOnTheWayMayPointElsewhere(t *testing.T) {
	folder := t.TempDir() // as Kubernetes mounts a ConfigMap: file -> ..data/file, ..data -> ..version
	swap := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(folder, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, version, "workers"), text)
		next := filepath.Join(folder, "..next")
		if err := errors.Join(os.Symlink(version, next), os.Rename(next, filepath.Join(folder, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	swap("..1", "a end")
	if err := os.Symlink(filepath.Join("..data", "workers"), filepath.Join(folder, "workers")); err != nil {
		t.Fatal(err)
	}
	h := follow(t, File{Path: filepath.Join(folder, "workers"), Parse: lines, Every: 2 * time.Millisecond})
	h.says("a")
	for i, text := range []string{"b", "c", "d"} {
		swap(fmt.Sprint("..", i+2), text+" end")
		h.says(text)
	}
}

func TestAnEndpointListsWorkersAsPrometheusDoes(t *testing.T) {
	var mu sync.Mutex
	answer, kind, status := `[{"targets":["h1:1","h2:2","h1:1"],"labels":{"role":"long","__meta_x":"y"}},{"targets":["h3:3"],"labels":{"__scheme__":"https","__id__":"three","__instance__":"i","__model__":"m"}}]`, "application/json; charset=utf-8", 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("X-Prometheus-Refresh-Interval-Seconds") != "0.002" {
			status = http.StatusUnauthorized
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	h := follow(t, HTTP{URL: server.URL, Key: "k", Every: 2 * time.Millisecond, Labels: []string{"pool=x"}})
	const all = "http://h1:1,pool=x,role=long http://h2:2,pool=x,role=long three@https://h3:3#i,pool=x"
	h.says(all)
	for _, c := range []struct {
		answer, kind string
		status       int
		want         string
	}{
		{"oops", "application/json", 500, "500"}, {"[", "application/json", 200, "no list"}, {"{}", "application/json", 200, "no list"},
		{"null", "application/json", 200, "empty list"}, {"[]", "text/html", 200, "text/html"}, {"", "application/json", 302, "302"},
		{strings.Repeat(" ", httpBytesMax+1), "application/json", 200, "larger"},
	} {
		mu.Lock()
		answer, kind, status = c.answer, c.kind, c.status
		mu.Unlock()
		h.fails(c.want)
		if said(h.set) != all {
			t.Errorf("%q left %q", c.want, said(h.set))
		}
	}
	mu.Lock()
	answer, kind, status = "[]", "application/json", 200
	mu.Unlock()
	h.says("")
	server.Close()
	h.fails("refused")
}

func TestEnginesThatRegisterLeaveWhenTheyAreMissed(t *testing.T) {
	r := NewRegistry(2, 3)
	now := time.Now()
	beat := func(id string, every time.Duration) (bool, error) {
		_, fresh, err := r.Beat(Worker{ID: id, URL: "http://" + id}, every, now)
		return fresh, err
	}
	for _, every := range []time.Duration{0, HeartbeatMin - 1, HeartbeatMax + 1, -time.Hour} {
		if _, err := beat("x", every); err == nil {
			t.Errorf("heartbeat %v was taken", every)
		}
	}
	for _, id := range []string{"b", "a", "c"} {
		if fresh, err := beat(id, time.Minute); !fresh || err != nil {
			t.Errorf("%s: %v %v", id, fresh, err)
		}
	}
	if _, err := beat("d", time.Minute); err == nil || !strings.Contains(err.Error(), "workers_max") {
		t.Errorf("a fourth of three: %v", err)
	}
	if fresh, err := beat("a", time.Minute); fresh || err != nil {
		t.Errorf("again: %v %v", fresh, err)
	}
	_, _, err := r.Beat(Worker{ID: "a", URL: "http://elsewhere"}, time.Minute, now)
	if taken := (*TakenError)(nil); !errors.As(err, &taken) {
		t.Errorf("another with its id: %v", err)
	}
	if _, _, err := r.Beat(Worker{ID: "a", URL: "http://elsewhere", Instance: "2"}, time.Minute, now); err != nil {
		t.Errorf("the same, moved: %v", err)
	}
	set, next := r.take(now)
	if said(set) != "a@http://elsewhere#2 b@http://b c@http://c" || !next.Equal(now.Add(2*time.Minute)) {
		t.Errorf("%s until %v", said(set), next.Sub(now))
	}
	now = now.Add(time.Minute)
	beat("b", time.Minute)
	now = now.Add(time.Minute)
	if set, _ = r.take(now); said(set) != "b@http://b" {
		t.Errorf("after two missed: %s", said(set))
	}
	if !r.Leave("b") || r.Leave("b") {
		t.Error("who was there?")
	}
	h := follow(t, r)
	h.says("")
	now = time.Now()
	beat("b", time.Minute)
	h.says("b@http://b")
	now = time.Now().Add(time.Millisecond - 2*HeartbeatMin)
	beat("c", HeartbeatMin) // it is missed a moment later
	h.says("b@http://b")
	r.Leave("b")
	h.says("")
}

func TestKubernetesTellsItsPodsAsWorkers(t *testing.T) {
	s := kubefake.New()
	url, stop := s.Listen()
	defer stop()
	config := filepath.Join(t.TempDir(), "config")
	write(t, config, "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: "+url+"}}]\n")
	at := kube.Place{Kubeconfig: config}
	labels := map[string]string{"app": "vllm", "role": "prefill", "pod-template-hash": "x", "batch.kubernetes.io/job": "y", "topology.kubernetes.io/zone": "z9"}
	pods, slices := kubefake.Pods("llm"), kubefake.Slices("llm")
	h := follow(t, Kubernetes{Selector: "app=vllm", Namespace: "llm", Place: at, Labels: []string{"pool=x"}})
	h.says("")
	s.Put(pods, kubefake.Pod("p1", "u1", "10.0.0.1", true, labels, 8000))
	h.says("p1:8000@http://10.0.0.1:8000#u1,pool=x,app=vllm,role=prefill,zone=z9")
	s.Put(pods, kubefake.Pod("p2", "u2", "10.0.0.2", true, labels, 1, 2)) // which port? it keeps nobody else out
	s.Put(pods, kubefake.Pod("p3", "u3", "", true, labels, 8000))
	s.Put(pods, kubefake.Terminating(kubefake.Pod("p1", "u1", "10.0.0.1", true, labels, 8000)))
	h.says("p1:8000@http://10.0.0.1:8000#u1!,pool=x,app=vllm,role=prefill,zone=z9")
	s.Put(pods, kubefake.Pod("p4", "u4", "10.0.0.1", true, labels, 8000)) // its address is another pod's already
	h.says("p4:8000@http://10.0.0.1:8000#u4,pool=x,app=vllm,role=prefill,zone=z9")
	s.Delete(pods, "p4")
	s.Delete(pods, "p1")
	h.fails("pod p2")

	ports := map[string]int{"http": 8000, "metrics": 9000}
	s.Put(slices, kubefake.Slice("s-1", "s", ports, kubefake.Endpoint("p1", "u1", "10.0.0.1", true, false), kubefake.Endpoint("p2", "u2", "10.0.0.2", false, false)))
	s.Put(slices, kubefake.Slice("s-2", "s", ports, kubefake.Endpoint("p2", "u2", "10.0.0.2", true, false), kubefake.Endpoint("p3", "u3", "10.0.0.3", true, true)))
	s.Put(slices, kubefake.Slice("t-1", "t", ports, kubefake.Endpoint("p9", "u9", "10.0.0.9", true, false)))
	six := kubefake.Slice("s-0", "s", ports, kubefake.Endpoint("p1", "u1", "fd00::1", true, false)) // the same pod, by its other address
	six["addressType"] = "IPv6"
	s.Put(slices, six)
	one := "p1:8000@http://10.0.0.1:8000#u1,zone=z1 p2:8000@http://10.0.0.2:8000#u2,zone=z1 p3:8000@http://10.0.0.3:8000#u3!,zone=z1"
	h = follow(t, Kubernetes{Service: "s", Namespace: "llm", Place: at})
	h.says(one)
	s.Put(slices, kubefake.Slice("s-2", "s", map[string]int{"a": 1, "b": 2}, kubefake.Endpoint("p3", "u3", "10.0.0.3", true, false)))
	h.fails("a (1), b (2)")
	if said(h.set) != one {
		t.Errorf("a service that cannot be understood left %s", said(h.set))
	}
	follow(t, Kubernetes{Service: "s", Namespace: "llm", Place: at, Ports: []string{"nope"}}).fails(`"nope"`)
	follow(t, Kubernetes{Service: "t", Namespace: "llm", Place: at, Ports: []string{"metrics", "7"}, Scheme: "https"}).says("p9:9000@https://10.0.0.9:9000#u9,zone=z1 p9:7@https://10.0.0.9:7#u9,zone=z1")
	follow(t, Kubernetes{Service: "t", Place: kube.Place{Kubeconfig: config + ".none"}}).fails("kubeconfig")
}

// scripted is a source that says what a test has it say.
type scripted chan func(tell func([]Worker, error))

func (s scripted) Follow(ctx context.Context, tell func([]Worker, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case say := <-s:
			say(tell)
		}
	}
}

func TestAManagerKeepsWhatWasToldLastAndSaysThatItIsStale(t *testing.T) {
	source, sets := make(scripted), make(chan []Worker, 10)
	m := New(Options{WorkersMax: 2, StaleAfter: time.Hour, OnSet: func(name string, set []Worker) { sets <- set }})
	m.Add("one", source)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	say := func(set []Worker, err error) Status {
		done := make(chan struct{})
		source <- func(tell func([]Worker, error)) { tell(set, err); close(done) }
		<-done
		return m.Statuses(time.Now())[0]
	}
	if s := m.Statuses(time.Now())[0]; !s.Stale || !s.Told.IsZero() {
		t.Errorf("before anything was told: %+v", s)
	}
	if s := say([]Worker{{URL: "a"}}, nil); s.Stale || s.Workers != 1 || len(<-sets) != 1 {
		t.Errorf("%+v", s)
	}
	if s := say(nil, errors.New("no")); !s.Stale || s.Workers != 1 || s.Error != "no" || s.Errors != 1 || s.Failed.IsZero() {
		t.Errorf("%+v", s)
	}
	if s := say(make([]Worker, 3), nil); s.Workers != 1 || !strings.Contains(s.Error, "discovery.workers_max") || s.Errors != 2 {
		t.Errorf("%+v", s)
	}
	if s := say(nil, nil); s.Stale || s.Workers != 0 || s.Error != "" || len(<-sets) != 0 {
		t.Errorf("an empty set is one: %+v", s)
	}
	if s := m.Statuses(time.Now().Add(2 * time.Hour))[0]; !s.Stale {
		t.Errorf("after two hours of silence: %+v", s)
	}
	cancel()
	running.Wait()
	if len(sets) != 0 {
		t.Errorf("%d sets too many", len(sets))
	}
}

func TestAskingOnceIsOverWithTheFirstAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "workers")
	write(t, file, "a end")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	sets, errs := Once(ctx, File{Path: file, Parse: lines}, File{Path: file + ".none", Parse: lines}, make(scripted))
	if said(sets[0]) != "a" || errs[0] != nil || errs[1] == nil || errs[2] == nil || !strings.Contains(errs[2].Error(), "told nothing") {
		t.Errorf("%v %v", sets, errs)
	}
}
