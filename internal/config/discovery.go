package config

import (
	"cmp"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/strict"
)

// Discovery is where workers are found that the configuration does not name.
type Discovery struct {
	File             string             `yaml:"file" doc:"File of workers, in the form of workers: it is watched, and what changes in it is taken up. A file that is not good changes nothing."`
	DNS              []DNSSource        `yaml:"dns" doc:"Names whose addresses are workers."`
	HTTP             []HTTPSource       `yaml:"http" doc:"Endpoints that list workers as Prometheus' http_sd does."`
	Kubernetes       []KubernetesSource `yaml:"kubernetes" doc:"Services, or pods by their labels."`
	Register         bool               `yaml:"register" doc:"Let engines register themselves at the admin port, by POST /workers with a heartbeat."`
	HeartbeatsMissed int                `yaml:"heartbeats_missed" change:"restart" min:"1" doc:"Heartbeats that an engine which registered itself may miss before it is taken to have left."`
	ForgetAfter      time.Duration      `yaml:"forget_after" change:"restart" doc:"How long a worker that left is kept, draining, when nothing of it is under way any more. One that comes back before is still warm."`
	StaleAfter       time.Duration      `yaml:"stale_after" change:"restart" min:"1s" doc:"Age from which on a set that its source did not tell again counts as stale. It is gone by all the same."`
	WorkersMax       int                `yaml:"workers_max" change:"restart" min:"1" doc:"Workers that there may be in all."`
}

// DNSSource is one name. In YAML a bare string is [SCHEME://]NAME[:PORT].
type DNSSource struct {
	Name   string        `yaml:"name,scalar" doc:"Name to look up. One that begins with an underscore, such as _http._tcp.engines.internal, has SRV records, which tell ports; any other has A or AAAA records."`
	Port   int           `yaml:"port" doc:"Port of A and AAAA records."`
	Scheme string        `yaml:"scheme" enum:",http,https" doc:"How workers are spoken to. Empty: http."`
	Family string        `yaml:"family" enum:",ipv4,ipv6" doc:"Which addresses count. Empty: IPv4 where there is any, else IPv6."`
	Server string        `yaml:"server" doc:"Name server to ask, host:port. Empty: those of /etc/resolv.conf, with its search list."`
	Every  time.Duration `yaml:"every" doc:"The longest time between two questions. A shorter TTL is heeded. 0: 30s."`
	Labels []string      `yaml:"labels" doc:"Labels of its workers."`
}

// HTTPSource is one endpoint. In YAML a bare string is its URL.
type HTTPSource struct {
	URL    string        `yaml:"url,scalar" doc:"Address that answers with a list of {targets, labels}."`
	Key    Secret        `yaml:"key" doc:"Sent to it as Authorization: Bearer."`
	Every  time.Duration `yaml:"every" doc:"Between two questions. 0: 10s."`
	Labels []string      `yaml:"labels" doc:"Labels of its workers, beside those that it tells."`
}

// KubernetesSource is a Service or a selector. In YAML a bare string is [NAMESPACE/]SERVICE[:PORT] or [NAMESPACE/]LABEL=VALUE[:PORT].
type KubernetesSource struct {
	Service    string        `yaml:"service,scalar" doc:"Service whose endpoints are workers."`
	Selector   string        `yaml:"selector" doc:"Labels of pods that are workers, such as app=vllm; instead of service. The pods' labels are the workers'."`
	Namespace  string        `yaml:"namespace" doc:"Where they are. Empty: the router's own, or the kubeconfig's."`
	Ports      []string      `yaml:"ports" doc:"Ports by name or number, each a worker. Empty: the only one, or the one that is called http."`
	Scheme     string        `yaml:"scheme" enum:",http,https" doc:"How workers are spoken to. Empty: http."`
	Kubeconfig string        `yaml:"kubeconfig" doc:"File that says where the API server is. Empty: the pod's service account, else $KUBECONFIG, else ~/.kube/config."`
	Context    string        `yaml:"context" doc:"Context of that file. Empty: its current one."`
	Resync     time.Duration `yaml:"resync" doc:"How often all is listed anew, beside being watched: what was missed is known after it. 0: 1m."`
	Labels     []string      `yaml:"labels" doc:"Labels of its workers, beside those that it tells."`
}

func defaultDiscovery() Discovery {
	return Discovery{HeartbeatsMissed: discovery.MissedMax, ForgetAfter: 10 * time.Second, StaleAfter: discovery.StaleAfter, WorkersMax: discovery.WorkersMax}
}

// Any says whether workers are looked for anywhere.
func (d Discovery) Any() bool {
	return d.File != "" || d.Register || len(d.DNS)+len(d.HTTP)+len(d.Kubernetes) > 0
}

// complete takes the short forms apart. What cannot be taken apart stays as it is, for Validate to refuse.
func (d *Discovery) complete() {
	for i := range d.DNS {
		d.DNS[i].complete()
	}
	for i := range d.Kubernetes {
		d.Kubernetes[i].complete()
	}
}

func (s *DNSSource) complete() {
	if scheme, name, port := discovery.SplitDNS(s.Name); (scheme == "" || s.Scheme == "") && (port == 0 || s.Port == 0) {
		s.Name, s.Scheme, s.Port = name, cmp.Or(s.Scheme, scheme), cmp.Or(s.Port, port)
	}
}

func (s *KubernetesSource) complete() {
	short := discovery.SplitKubernetes(s.Service)
	if s.Service == "" || len(short.Ports) > 0 && len(s.Ports) > 0 || short.Namespace != "" && s.Namespace != "" || short.Selector != "" && s.Selector != "" {
		return // said twice
	}
	s.Service, s.Selector, s.Namespace = short.Service, cmp.Or(s.Selector, short.Selector), cmp.Or(s.Namespace, short.Namespace)
	s.Ports = append(s.Ports, short.Ports...)
}

// DNSAt is a source in its short form.
func DNSAt(text string) DNSSource {
	s := DNSSource{Name: text}
	s.complete()
	return s
}

// KubernetesAt is a source in its short form.
func KubernetesAt(text string) KubernetesSource {
	s := KubernetesSource{Service: text}
	s.complete()
	return s
}

// discovery refuses sources that cannot work.
func (v *verdict) discovery(d Discovery) {
	labels := func(key string, all []string) {
		for i, l := range all {
			v.label(key+".labels["+strconv.Itoa(i)+"]", l)
		}
	}
	often := func(key string, every time.Duration) {
		if every >= d.StaleAfter {
			v.wrong(key, "%v is not below discovery.stale_after, %v: every set would be stale", every, d.StaleAfter)
		}
	}
	for i, s := range d.DNS {
		key := "discovery.dns[" + strconv.Itoa(i) + "]"
		services := strings.HasPrefix(s.Name, "_")
		switch {
		case s.Name == "" || strings.ContainsAny(s.Name, "/: "):
			v.wrong(key+".name", "%q is no name; write NAME:PORT, or the name of SRV records, such as _http._tcp.engines.internal", s.Name)
		case services && s.Port != 0:
			v.wrong(key+".port", "%d: the SRV records of %s tell the ports; take it out", s.Port, s.Name)
		case !services && (s.Port < 1 || s.Port > 65535):
			v.wrong(key+".port", "%d: on which port are the workers of %s? It is 1 to 65535", s.Port, s.Name)
		}
		often(key+".every", s.Every)
		if s.Server != "" {
			v.address(key+".server", s.Server, "")
		}
		labels(key, s.Labels)
	}
	for i, s := range d.HTTP {
		key := "discovery.http[" + strconv.Itoa(i) + "]"
		u, err := url.Parse(s.URL)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			v.wrong(key+".url", "it is no address; write http://host:port/path")
		case u.User != nil:
			v.wrong(key+".url", "it carries a user or password; write it as the source's key")
		}
		often(key+".every", s.Every)
		labels(key, s.Labels)
	}
	for i, s := range d.Kubernetes {
		key := "discovery.kubernetes[" + strconv.Itoa(i) + "]"
		switch {
		case s.Service == "" && s.Selector == "":
			v.wrong(key, "names neither a service nor a selector")
		case s.Service != "" && s.Selector != "":
			v.wrong(key, "names a service, %q, and a selector, %q; it is one of them", s.Service, s.Selector)
		case strings.ContainsAny(s.Service, "/: "):
			v.wrong(key+".service", "%q is no name; write NAMESPACE/SERVICE:PORT", s.Service)
		}
		if slices.Contains(s.Ports, "") {
			v.wrong(key+".ports", "one of them is empty; write names or numbers")
		}
		if s.Resync != 0 && s.Resync < time.Second {
			v.wrong(key+".resync", "%v is below the least, 1s", s.Resync)
		}
		often(key+".resync", s.Resync)
		labels(key, s.Labels)
	}
}

func (v *verdict) label(key, label string) {
	if name, _, ok := strings.Cut(label, "="); !ok || strings.TrimSpace(name) == "" {
		v.wrong(key, "%q is no label, write key=value", label)
	}
}

// CheckWorker says what is wrong with a worker that was found; its address is written in its one form and its id is filled in.
func (c Config) CheckWorker(w *Worker) error {
	w.complete()
	trial := Config{Listen: c.Listen, Admin: c.Admin, Pools: c.Pools, Workers: []Worker{*w}}
	var v verdict
	v.workers(trial)
	v.workerPools(trial)
	for i := range v { // there is one: which it is need not be said
		v[i].Key = strings.TrimPrefix(strings.TrimPrefix(v[i].Key, "workers[0]"), ".")
	}
	return strict.AsError(v)
}

// ParseWorkers reads a file of workers: a list as in workers, alone or under that key. Any error is an *Error that names the lines.
func (c Config) ParseWorkers(name string, text []byte) ([]Worker, error) {
	var file struct {
		Workers []Worker `yaml:"workers"`
	}
	into := reflect.ValueOf(&file).Elem()
	d := strict.NewReader(name, os.LookupEnv, into.Type())
	root := d.Document(text)
	switch {
	case root == nil && d.Problems() == nil:
		return nil, &Error{Problems: []Problem{{File: name, Message: "it is empty; no workers are an empty list, []"}}}
	case root == nil:
	case root.Kind == yaml.SequenceNode:
		d.Value(root, "workers", into.Field(0))
	default:
		d.Mapping(root, "", into)
		if d.Problems() == nil && !d.IsSet("workers") {
			d.Report(root.Line, "", "it has no workers; write a list, or workers: []")
		}
	}
	for i := range file.Workers {
		file.Workers[i].complete()
	}
	trial := Config{Listen: c.Listen, Admin: c.Admin, Pools: c.Pools, Workers: file.Workers}
	var v verdict
	v.fields(into, "")
	v.workers(trial)
	v.workerPools(trial)
	for _, p := range v {
		if !d.InTrouble(p.Key) {
			d.Report(d.LineOf(p.Key), p.Key, p.Message)
		}
	}
	if err := d.Problems(); err != nil {
		return nil, err
	}
	return file.Workers, nil
}
