package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestSourcesThatCannotWorkAreRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"dns: [engines]", "discovery.dns[0].port: 0: on which port are the workers of engines?"},
		{"dns: [\"engines:70000\"]", "discovery.dns[0].port: 70000"},
		{"dns: [\"_http._tcp.engines:8000\"]", "discovery.dns[0].port: 8000: the SRV records of _http._tcp.engines tell the ports"},
		{"dns: [{name: engines, port: 1, scheme: ftp}]", "discovery.dns[0].scheme"},
		{"dns: [{name: engines, port: 1, server: here}]", "discovery.dns[0].server: \"here\" is no address"},
		{"dns: [{name: engines, port: 1, labels: [x]}]", "discovery.dns[0].labels[0]: \"x\" is no label"},
		{"http: [inventory]", "discovery.http[0].url: it is no address"},
		{"http: [\"http://u:p@h\"]", "discovery.http[0].url: it carries a user or password"},
		{"kubernetes: [{namespace: n}]", "discovery.kubernetes[0]: names neither"},
		{"kubernetes: [{service: s, selector: a=b}]", "discovery.kubernetes[0]: names a service"},
		{"kubernetes: [\"s:8000,\"]", "discovery.kubernetes[0].ports: one of them is empty"},
		{"kubernetes: [{service: s, resync: 1ms}]", "discovery.kubernetes[0].resync: 1ms is below the least, 1s"},
		{"http: [{url: \"http://h\", every: 2m}]", "discovery.http[0].every: 2m0s is not below discovery.stale_after, 2m0s"},
		{"dns: [{name: e, port: 1, every: 1h}]", "discovery.dns[0].every: 1h0m0s is not below"},
		{"kubernetes: [{service: s, resync: 1h}]", "discovery.kubernetes[0].resync: 1h0m0s is not below"},
		{"kubernetes: [{service: \"s:1\", ports: [a]}]", "discovery.kubernetes[0].service: \"s:1\" is no name"},
		{"kubernetes: [{service: n/s, namespace: m}]", "discovery.kubernetes[0].service: \"n/s\" is no name"},
		{"dns: [{name: \"e:1\", port: 2}]", "discovery.dns[0].name: \"e:1\" is no name"},
		{"workers_max: 0", "discovery.workers_max: 0 is below the least, 1"},
		{"stale_after: 1ms", "discovery.stale_after: 1ms is below the least, 1s"},
	} {
		_, err := Parse("w.yaml", []byte("discovery:\n  "+c.text+"\n"), env(nil))
		if err == nil || !strings.Contains(err.Error(), "w.yaml:2: "+c.want) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

func TestShortFormsOfSourcesAreTakenApart(t *testing.T) {
	for text, want := range map[string]KubernetesSource{
		"vllm":                              {Service: "vllm"},
		"llm/vllm:http,9000":                {Service: "vllm", Namespace: "llm", Ports: []string{"http", "9000"}},
		"app=vllm,role=long:8000":           {Selector: "app=vllm,role=long", Ports: []string{"8000"}},
		"llm/app=vllm":                      {Selector: "app=vllm", Namespace: "llm"},
		"app.kubernetes.io/name=vllm":       {Selector: "app.kubernetes.io/name=vllm"},
		"llm/app.kubernetes.io/name=vllm:1": {Selector: "app.kubernetes.io/name=vllm", Namespace: "llm", Ports: []string{"1"}},
	} {
		if got := KubernetesAt(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]DNSSource{
		"engines:8000":       {Name: "engines", Port: 8000},
		"https://engines:1":  {Name: "engines", Port: 1, Scheme: "https"},
		"_http._tcp.engines": {Name: "_http._tcp.engines"},
		"engines:http":       {Name: "engines:http"}, // it is refused
	} {
		if got := DNSAt(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func TestAFileOfWorkersIsReadAsStrictlyAsTheConfiguration(t *testing.T) {
	c := Default()
	c.Admin = "127.0.0.1:8801"
	for _, text := range []string{"- http://a\n- {url: http://b/, labels: [x=y]}", "workers: [http://a, {url: http://b:80, labels: [x=y]}]", `["http://a", {"url": "http://b", "labels": ["x=y"]}]`} {
		got, err := c.ParseWorkers("w", []byte(text))
		want := []Worker{{URL: "http://a", ID: "a"}, {URL: "http://b", ID: "b", Labels: []string{"x=y"}}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"[]", "workers: []"} {
		if got, err := c.ParseWorkers("w", []byte(text)); err != nil || len(got) != 0 {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	for _, bad := range []struct{ text, want string }{
		{"", "w: it is empty; no workers are an empty list"},
		{"# nobody\n", "w: it is empty"},
		{"{}", "w:1: it has no workers"},
		{"http://a", "wants keys and values"},
		{"- http://a\n- http://a", "w:2: workers[1].url: http://a is workers[0] already"},
		{"- {url: http://a, in_flght_max: 1}", "did you mean workers[0].in_flight_max?"},
		{"- {url: http://a, in_flight_max: -1}", "workers[0].in_flight_max: -1 is below the least"},
		{"- http://127.0.0.1:8801", "this router's own listen address"},
		{"- {url: http://a, pool: x}", "workers[0].pool: \"x\" is no pool"},
		{"- {url: http://a, labels: [x]}", "is no label"},
		{"workers: []\nlisten: x", "unknown key"},
		{"- http://a\n---\n- http://b", "a second YAML document"},
	} {
		if _, err := c.ParseWorkers("w", []byte(bad.text)); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q: %v", bad.text, err)
		}
	}
}

func TestAWorkerThatWasFoundIsCheckedByItself(t *testing.T) {
	c := Default()
	w := Worker{URL: "HTTP://GPU-1:80/"}
	if err := c.CheckWorker(&w); err != nil || w.URL != "http://gpu-1" || w.ID != "gpu-1" {
		t.Errorf("%+v %v", w, err)
	}
	for _, bad := range []struct {
		w    Worker
		want string
	}{
		{Worker{URL: "gpu-1:8000"}, "no worker address"}, {Worker{URL: "http://"}, "no worker address"}, {Worker{URL: "http://a", ID: "x y"}, "may have letters"},
		{Worker{URL: "http://a", Labels: []string{"x"}}, "is no label"}, {Worker{URL: "http://127.0.0.1:8800"}, "own listen address"},
	} {
		if err := c.CheckWorker(&bad.w); err == nil || !strings.Contains(err.Error(), bad.want) || strings.Contains(err.Error(), "workers[0]") {
			t.Errorf("%+v: %v", bad.w, err)
		}
	}
}
