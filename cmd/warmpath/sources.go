package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/kube"
)

// named is a source of workers with its name in logs, metrics and /state.
type named struct {
	name   string
	source discovery.Source
	spec   any // what the configuration says of it
}

// sourcesOf are the sources that a configuration names, the first of which counts where two name the same worker.
func sourcesOf(c config.Config) (all []named) {
	seen := map[string]int{}
	add := func(name string, s discovery.Source, spec any) {
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s #%d", name, seen[name])
		}
		all = append(all, named{name, s, spec})
	}
	if file := c.Discovery.File; file != "" {
		add("file "+file, discovery.File{Path: file, Parse: func(text []byte) ([]discovery.Worker, error) { return workersIn(c, text) }}, file)
	}
	for _, s := range c.Discovery.DNS {
		name := "dns " + s.Name
		if s.Port != 0 {
			name += fmt.Sprint(":", s.Port)
		}
		add(name, discovery.DNS{Name: s.Name, Port: s.Port, Scheme: s.Scheme, Family: s.Family, Server: s.Server, Every: s.Every, Labels: s.Labels}, s)
	}
	for _, s := range c.Discovery.HTTP {
		name := "http " + s.URL
		if u, err := url.Parse(s.URL); err == nil {
			name = "http " + u.Scheme + "://" + u.Host + u.Path // a query may hold a credential
		}
		add(name, discovery.HTTP{URL: s.URL, Key: string(s.Key), Every: s.Every, Labels: s.Labels}, s)
	}
	for _, s := range c.Discovery.Kubernetes {
		name := "kubernetes " + strings.TrimPrefix(s.Namespace+"/", "/") + s.Service + s.Selector
		add(name, discovery.Kubernetes{Service: s.Service, Selector: s.Selector, Namespace: s.Namespace, Ports: s.Ports, Scheme: s.Scheme, Labels: s.Labels,
			Place: kube.Place{Kubeconfig: s.Kubeconfig, Context: s.Context}, Pace: kube.Pace{Resync: s.Resync}}, s)
	}
	return all
}

// workersIn reads a file of workers.
func workersIn(c config.Config, text []byte) ([]discovery.Worker, error) {
	workers, err := c.ParseWorkers(c.Discovery.File, text)
	if err != nil {
		return nil, err
	}
	set := make([]discovery.Worker, 0, len(workers))
	for _, w := range workers {
		set = append(set, discovery.Worker{URL: w.URL, ID: w.ID, Settings: w})
	}
	return set, nil
}

// sourceFlags are those by which serve and doctor look for workers alike. Each adds to what the file names.
type sourceFlags struct {
	file                  string
	dns, http, kubernetes []string
	register              bool
}

func (f *sourceFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "workers-file", "", "file of workers (YAML, as under workers); it is watched")
	flags.StringArrayVar(&f.dns, "workers-dns", nil, "name whose addresses are workers: NAME:PORT, or _SERVICE._tcp.NAME for SRV records; repeat for more")
	flags.StringArrayVar(&f.http, "workers-http", nil, "endpoint that lists workers as Prometheus' http_sd does; repeat for more")
	flags.StringArrayVar(&f.kubernetes, "workers-kubernetes", nil, "[NAMESPACE/]SERVICE[:PORT] or [NAMESPACE/]LABEL=VALUE[:PORT]; repeat for more")
	cmd.MarkFlagFilename("workers-file", "yaml", "yml", "json")
}

// apply puts the flags that were given into a configuration.
func (f *sourceFlags) apply(c *config.Config) {
	if f.file != "" {
		c.Discovery.File = f.file
	}
	for _, text := range f.dns {
		c.Discovery.DNS = append(c.Discovery.DNS, config.DNSAt(text))
	}
	for _, text := range f.http {
		c.Discovery.HTTP = append(c.Discovery.HTTP, config.HTTPSource{URL: text})
	}
	for _, text := range f.kubernetes {
		c.Discovery.Kubernetes = append(c.Discovery.Kubernetes, config.KubernetesAt(text))
	}
	c.Discovery.Register = c.Discovery.Register || f.register
}

// findOnceMax bounds how long sources are asked for a look that is over soon.
const findOnceMax = 10 * time.Second

// findWorkers asks the sources that a configuration names once, and adds whom they name. What goes wrong is written to out.
func findWorkers(ctx context.Context, c *config.Config, out io.Writer) {
	sources := sourcesOf(*c)
	ask := make([]discovery.Source, len(sources))
	for i, s := range sources {
		ask[i] = s.source
	}
	ctx, cancel := context.WithTimeout(ctx, findOnceMax)
	defer cancel()
	sets, errs := discovery.Once(ctx, ask...)
	known := map[string]bool{}
	for _, w := range c.Workers {
		known[w.URL] = true
	}
	for i, s := range sources {
		if errs[i] != nil {
			fmt.Fprintf(out, "%s: no workers: %v\n", s.name, errs[i])
			continue
		}
		fmt.Fprintf(out, "%s: %s\n", s.name, counted(len(sets[i]), "worker"))
		for _, f := range sets[i] {
			w := workerOf(f)
			if err := c.CheckWorker(&w); err != nil {
				fmt.Fprintf(out, "%s: %s cannot be used: %v\n", s.name, f.URL, err)
				continue
			}
			if !known[w.URL] {
				known[w.URL], c.Workers = true, append(c.Workers, w)
			}
		}
	}
}

// workerOf is a worker that was found, as the configuration would name it.
func workerOf(f discovery.Worker) config.Worker {
	if w, ok := f.Settings.(config.Worker); ok {
		return w
	}
	return config.Worker{URL: f.URL, ID: f.ID, Model: f.Model, Labels: f.Labels}
}
