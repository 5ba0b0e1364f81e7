package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/child"
)

// contestant is a proxy that can be started in front of workers.
type contestant struct {
	name  string
	admin string // base URL of its metrics; ours only
	proc  *child.Process
}

// Names of the contestants that checks refer to.
const (
	nameDirect = "no proxy"
	nameNginx  = "nginx"
	nameOurs   = "warmpath"
)

// nginxConfig passes events on at once and keeps bodies in memory, as one would for this traffic.
const nginxConfig = `daemon off;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 8192; }
http {
  access_log off;
  client_max_body_size 64m;
  client_body_buffer_size 1m;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s; keepalive_requests 1000000000;
  upstream workers { %[2]s keepalive 512; keepalive_requests 1000000000; }
  server {
    listen %[3]s;
    location / {
      proxy_pass http://workers; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 300s;
    }
  }
}
`

const haproxyConfig = `global
  maxconn 9000
defaults
  mode http
  option http-no-delay
  timeout connect 2s
  timeout client 300s
  timeout server 300s
frontend in
  bind %[3]s
  default_backend workers
backend workers
  balance roundrobin
  http-reuse always
%[2]s`

// rest is a proxy from the distribution's packages: its configuration, of folder, servers and address; a server in it; its command line.
type rest struct {
	config, server string
	argv           func(dir, file string) []string
}

var rests = map[string]rest{
	nameNginx: {nginxConfig, "server %[2]s; ", func(dir, file string) []string { return []string{"nginx", "-e", "stderr", "-p", dir, "-c", file} }},
	"HAProxy": {haproxyConfig, "  server w%[1]d %[2]s\n", func(_, file string) []string { return []string{"haproxy", "-db", "-f", file} }},
}

func (r rest) start(name, dir string, urls []string) (*child.Process, error) {
	addr, err := child.FreeAddr()
	if err != nil {
		return nil, err
	}
	var servers strings.Builder
	for i, u := range urls {
		fmt.Fprintf(&servers, r.server, i, strings.TrimPrefix(u, "http://"))
	}
	file := filepath.Join(dir, name+".conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, r.config, dir, servers.String(), addr), 0o644); err != nil {
		return nil, err
	}
	return child.Start(name, addr, r.argv(dir, file))
}

// startOurs starts the product as a user does; the flags only say where.
func startOurs(o Options, dir string, urls []string) (*contestant, error) {
	addr, admin, err := child.FreeAddrs()
	if err != nil {
		return nil, err
	}
	argv := []string{o.Self, "serve", "--listen", addr, "--admin", admin, "--state-dir", dir, "--log-level", "error"}
	if o.Pprof != "" {
		argv = append(argv, "--pprof")
	}
	for _, u := range urls {
		argv = append(argv, "--worker", u)
	}
	p, err := child.Start(nameOurs, addr, argv)
	return &contestant{name: nameOurs, admin: "http://" + admin, proc: p}, err
}

// field is what a part needs: workers and contestants in front of them, all running.
type field struct {
	dir     string
	workers *workers
	all     []*contestant // nameDirect first: the first worker itself
}

// startField starts two workers and the contestants, and waits until each answers.
func startField(ctx context.Context, o Options, names ...string) (*field, error) {
	dir, err := os.MkdirTemp("", "warmpath-bench-*")
	if err != nil {
		return nil, err
	}
	os.Chmod(dir, 0o755) // nginx's workers run as another user when started by root
	f := &field{dir: dir}
	if f.workers, err = startWorkers(ctx, o, 2); err != nil {
		f.stop()
		return nil, err
	}
	f.all = []*contestant{{name: nameDirect, proc: f.workers.Process}}
	if err = f.enter(o, names); err == nil {
		err = f.ready(ctx)
	}
	if err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

func (f *field) enter(o Options, names []string) error {
	urls := f.workers.urls
	for _, name := range names {
		c := &contestant{name: name}
		var err error
		if name == nameOurs {
			c, err = startOurs(o, f.dir, urls)
		} else {
			c.proc, err = rests[name].start(name, f.dir, urls)
		}
		if err != nil {
			return err
		}
		f.all = append(f.all, c)
	}
	if o.Peers == "" {
		return nil
	}
	for _, r := range rivals {
		for _, policy := range []string{"round_robin", cacheAware} {
			p, err := r.start(o.Peers, policy, urls)
			if err != nil {
				return err
			}
			f.all = append(f.all, &contestant{name: p.Name, proc: p})
		}
	}
	return nil
}

func (f *field) ready(ctx context.Context) error {
	request, _ := newBodies(1, 600, false).next(nil, 0)
	for _, c := range f.all {
		if err := ready(ctx, c.proc, request); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) stop() {
	for _, c := range f.all {
		if c.name != nameDirect {
			c.proc.Stop()
		}
	}
	if f.workers != nil {
		f.workers.Stop()
	}
	os.RemoveAll(f.dir)
}

// turn is the contestants in the order of a round: each begins once in as many rounds.
func (f *field) turn(round int) []*contestant {
	return slices.Concat(f.all[round%len(f.all):], f.all[:round%len(f.all)])
}

// mallocs is the heap allocations that a Go process has made, by its own metrics; bytes likewise.
func (c *contestant) mallocs() (count, bytes float64) {
	r, err := http.Get(c.admin + "/metrics")
	if err != nil {
		return 0, 0
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		switch name, value, _ := strings.Cut(lines.Text(), " "); name {
		case "go_memstats_mallocs_total":
			count, _ = strconv.ParseFloat(value, 64)
		case "go_memstats_alloc_bytes_total":
			bytes, _ = strconv.ParseFloat(value, 64)
		}
	}
	return count, bytes
}

// profile asks ours for a CPU profile while it works, in the background, and returns the wait for its end.
func (c *contestant) profile(o Options, name string, seconds int) (wait func() error) {
	if o.Pprof == "" || c.name != nameOurs {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		done <- fetch(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", c.admin, max(seconds, 1)), o.Pprof, name+".prof")
	}()
	return func() error { return <-done }
}

// fetch writes what url answers into a file of a folder, which is made when there is none.
func fetch(url, folder, name string) error {
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, r.Status)
	}
	return errors.Join(err, os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, name), b, 0o644))
}
