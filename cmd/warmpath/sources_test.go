package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/kube"
)

func TestEverySourceIsMadeAsTheSettingsSay(t *testing.T) {
	c := config.Default()
	f := sourceFlags{file: "w.yaml", dns: []string{"https://engines:8443"}, http: []string{"http://inventory/x?token=s3cret"}, kubernetes: []string{"llm/vllm:http"}, register: true}
	f.apply(&c)
	f.apply(&c) // each adds to what is there
	c.Discovery.DNS[1] = config.DNSSource{Name: "_http._tcp.e", Family: "ipv6", Server: "h:53", Every: time.Second, Labels: []string{"a=b"}}
	c.Discovery.HTTP[1].Key, c.Discovery.HTTP[1].Every, c.Discovery.HTTP[1].Labels = "k", time.Minute, []string{"a=b"}
	c.Discovery.Kubernetes[1] = config.KubernetesSource{Selector: "a=b", Kubeconfig: "/k", Context: "c", Resync: time.Second, Scheme: "https", Labels: []string{"c=d"}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	want := map[string]discovery.Source{
		"dns engines:8443":           discovery.DNS{Name: "engines", Port: 8443, Scheme: "https"},
		"dns _http._tcp.e":           discovery.DNS{Name: "_http._tcp.e", Family: "ipv6", Server: "h:53", Every: time.Second, Labels: []string{"a=b"}},
		"http http://inventory/x":    discovery.HTTP{URL: "http://inventory/x?token=s3cret"},
		"http http://inventory/x #2": discovery.HTTP{URL: "http://inventory/x?token=s3cret", Key: "k", Every: time.Minute, Labels: []string{"a=b"}},
		"kubernetes llm/vllm":        discovery.Kubernetes{Service: "vllm", Namespace: "llm", Ports: []string{"http"}},
		"kubernetes a=b":             discovery.Kubernetes{Selector: "a=b", Scheme: "https", Labels: []string{"c=d"}, Place: kube.Place{Kubeconfig: "/k", Context: "c"}, Pace: kube.Pace{Resync: time.Second}},
	}
	all := sourcesOf(c)
	if len(all) != len(want)+1 || all[0].name != "file w.yaml" {
		t.Fatalf("%d sources, the first %q", len(all), all[0].name)
	}
	for _, s := range all[1:] {
		if !reflect.DeepEqual(s.source, want[s.name]) {
			t.Errorf("%s: %+v, want %+v", s.name, s.source, want[s.name])
		}
	}
	if text := whoIsThere(c); !strings.HasPrefix(text, "0 workers, file w.yaml, dns engines:8443, ") || !strings.HasSuffix(text, "those that register themselves") || strings.Contains(text, "s3cret") {
		t.Error(text)
	}
}

func TestDoctorLooksAtWorkersThatAreFoundAndSaysWhichSourceFails(t *testing.T) {
	w := newWorker(t, nil)
	inventory := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `[{"targets":[%q,"not an address"]}]`, strings.TrimPrefix(w.url, "http://"))
	}))
	defer inventory.Close()
	file := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(file, []byte("workers: [http://h:1/v1]"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	run([]string{"doctor", "--no-requests", "--workers-http", inventory.URL, "--workers-file", file}, &out, &errs)
	if !strings.Contains(out.String(), w.url+": ") {
		t.Errorf("it did not look at the worker: %s", out.String())
	}
	for _, want := range []string{"http " + inventory.URL + ": 2 workers", "http://not an address cannot be used", "file " + file + ": no workers: " + file + ":1: workers[0].url"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no word of %q in %s", want, errs.String())
		}
	}
	out.Reset()
	errs.Reset()
	if code := run([]string{"doctor", "--no-requests", "--workers-file", file}, &out, &errs); code != exitRuntime || !strings.Contains(errs.String(), "no source names a worker") {
		t.Errorf("nobody found: %d %s", code, errs.String())
	}
}
