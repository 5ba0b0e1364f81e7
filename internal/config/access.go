package config

import (
	"net"
	"net/url"
	"strconv"

	"github.com/warmpath/warmpath/internal/certs"
)

// The values of isolate.
const (
	IsolateNone   = "none"
	IsolateTenant = "tenant"
)

// AdminBeyond says whether the admin port is reached from other machines.
func (c Config) AdminBeyond() bool {
	host, _, err := net.SplitHostPort(c.Admin)
	return err == nil && !isLoopback(host)
}

// Keyed is a worker with the credential that is sent to it.
func (c Config) Keyed(w Worker) Worker {
	if w.Key == "" && w.KeyFile == "" {
		w.Key, w.KeyFile = c.WorkerKey, c.WorkerKeyFile
	}
	return w
}

// access holds what protects the ports and the workers.
func (v *verdict) access(c Config) {
	files := func(at string, check func() (key, message string)) {
		if key, message := check(); message != "" {
			v.wrong(at+"."+key, "%s", message)
		}
	}
	files("tls", c.TLS.Check)
	files("admin_tls", c.AdminTLS.Check)
	files("worker_tls", c.WorkerTLS.Check)
	for i, w := range c.Workers {
		at := "workers[" + strconv.Itoa(i) + "]"
		files(at+".tls", w.TLS.Check)
		if u, err := url.Parse(w.URL); w.TLS != (certs.WorkerFiles{}) && err == nil && u.Scheme == "http" {
			v.wrong(at+".tls", "is set, and http://%s is not reached over TLS; write https:// or take it out", u.Host)
		}
		if w.Key != "" && w.KeyFile != "" {
			v.wrong(at+".key_file", "stands beside key; write one of them")
		}
	}
	if c.WorkerKey != "" && c.WorkerKeyFile != "" {
		v.wrong("worker_key_file", "stands beside worker_key; write one of them")
	}
	for _, p := range c.Access.Check() {
		v.wrong("admin_access."+p.Key, "%s", p.Message)
	}
	if c.AdminBeyond() && len(c.Access.Tokens) == 0 && c.AdminTLS.ClientCA == "" && !c.Access.Open {
		v.wrong("admin", "%s is reached from beyond this machine, where whoever reaches it could read the state and drain workers: ask for a token (setting admin_access.tokens, flag --admin-token-file) or for certificates (admin_tls.client_ca), or let all in (admin_access.open, flag --admin-open)", c.Admin)
	}
}
