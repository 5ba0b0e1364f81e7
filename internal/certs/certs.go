// Package certs is TLS by files: what a port shows and asks for, and what workers are trusted by. Files that change are taken up by the
// connections that come after; those that cannot be used leave the ones before them in force (see filewatch).
//
//	s := certs.New(watcher)
//	config, err := s.Server("tls", certs.ServerFiles{Cert: "cert.pem", Key: "key.pem"})
//	listener = tls.NewListener(listener, config)
//
//	forget, err := s.Trust("gpu-1:8000", "workers.gpu-1.tls", certs.WorkerFiles{CA: "ca.pem"})
//	conn, err := s.DialTLS(ctx, "tcp", "gpu-1:8000")
package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/filewatch"
)

// ServerFiles are what a port is served with.
type ServerFiles struct {
	Cert     string `yaml:"cert" doc:"File of the certificate in PEM form, followed by those that lead to its root. Empty: plain HTTP."`
	Key      string `yaml:"key" doc:"File of its private key. Both are read again when they change; a pair that cannot be used leaves the one before it in force."`
	ClientCA string `yaml:"client_ca" doc:"File of the roots of certificates that clients have to show, health checks included. Empty: they need none."`
}

// WorkerFiles are what an https worker is reached by; the zero value is the system's roots and the name in its URL.
type WorkerFiles struct {
	CA         string `yaml:"ca" doc:"File of the roots that its certificate must come from, in PEM form. Empty: the system's."`
	Cert       string `yaml:"cert" doc:"File of the certificate that is shown to it. Empty: none."`
	Key        string `yaml:"key" doc:"File of that certificate's private key. All files are read again when they change."`
	ServerName string `yaml:"server_name" doc:"Name that is asked for (SNI) and that its certificate must be for, in place of the host in its URL."`
	Insecure   bool   `yaml:"insecure_skip_verify" doc:"Take any certificate. Whoever can stand in between then reads prompts and the worker's key: for tries only."`
}

// Check says what is wrong with the settings themselves, and below which key; "" for nothing.
func (f ServerFiles) Check() (key, message string) {
	if f.Cert == "" && f.Key == "" && f.ClientCA != "" {
		return "client_ca", "is set, and cert is not: without TLS no client can show a certificate"
	}
	return half(f.Cert, f.Key)
}

// Check says what is wrong with the settings themselves, and below which key; "" for nothing.
func (f WorkerFiles) Check() (key, message string) {
	if f.Insecure && f.CA != "" {
		return "insecure_skip_verify", "takes any certificate, so that ca says nothing; take one of them out"
	}
	return half(f.Cert, f.Key)
}

// half says which half of a pair is missing.
func half(cert, key string) (missing, message string) {
	switch {
	case cert != "" && key == "":
		return "key", "is not set, and cert is: a certificate needs its private key"
	case cert == "" && key != "":
		return "cert", "is not set, and key is: a private key needs its certificate"
	}
	return "", ""
}

// Certificate is one that is shown to others.
type Certificate struct {
	File     string
	NotAfter time.Time
}

// Store keeps all that was read. Only New makes a usable one; any number of goroutines may use it.
type Store struct {
	watcher *filewatch.Watcher
	general atomic.Pointer[tls.Config] // for workers without a trust of their own

	mu     sync.Mutex
	trusts map[string]*trust      // by host:port
	shown  map[string]Certificate // by setting
}

// trust is what the workers at one address are reached by.
type trust struct {
	address, setting string

	files  WorkerFiles
	config atomic.Pointer[tls.Config]
	stop   func()
	users  int
}

// New makes a store whose files watcher reads.
func New(watcher *filewatch.Watcher) *Store {
	s := &Store{watcher: watcher, trusts: map[string]*trust{}, shown: map[string]Certificate{}}
	s.general.Store(worker(WorkerFiles{}))
	return s
}

// Server is the configuration of a port. setting names it in messages. HTTP/1.1 alone is offered: a request and its connection end
// together then, for clients as for workers, and so do the bounds on both.
func (s *Store) Server(setting string, f ServerFiles) (*tls.Config, error) {
	var now atomic.Pointer[tls.Config]
	files := []string{f.Cert, f.Key}
	if f.ClientCA != "" {
		files = append(files, f.ClientCA)
	}
	_, err := s.watcher.Add(setting, files, func(contents [][]byte) error {
		shown, err := pair(f.Cert, f.Key, contents[0], contents[1])
		if err != nil {
			return err
		}
		c := &tls.Config{Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
		if f.ClientCA != "" {
			if c.ClientCAs, err = roots(f.ClientCA, contents[2]); err != nil {
				return err
			}
			// A resumed session would show no certificate again: one whose root was taken out could go on.
			c.ClientAuth, c.SessionTicketsDisabled = tls.RequireAndVerifyClientCert, true
		}
		now.Store(c)
		s.note(setting, f.Cert, shown)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("setting %s: %w", setting, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: f.ClientCA != "",
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return now.Load(), nil }}, nil
}

// Trust says what workers at address, host:port, are reached by, until forget. Those at one address must be reached alike. Calls must not
// overlap.
func (s *Store) Trust(address, setting string, f WorkerFiles) (forget func(), err error) {
	s.mu.Lock()
	t := s.trusts[address]
	s.mu.Unlock()
	if t != nil && t.files != f {
		return nil, fmt.Errorf("setting %s: another worker at %s is reached by other certificates; one address has one kind", setting, address)
	}
	if t == nil {
		t = &trust{address: address, setting: setting, files: f}
		if t.stop, err = s.watch(setting, f, &t.config); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.trusts[address] = t
	t.users++
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		if s.leave(t) {
			t.stop()
		}
	}), nil
}

// leave says whether nobody is left who needs t.
func (s *Store) leave(t *trust) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.users--; t.users > 0 {
		return false
	}
	delete(s.trusts, t.address)
	delete(s.shown, t.setting)
	return true
}

// General says what workers are reached by that have no Trust of their own.
func (s *Store) General(setting string, f WorkerFiles) error {
	_, err := s.watch(setting, f, &s.general)
	return err
}

// Client is how one other service is reached, by the files as they are now. setting names it in messages.
func (s *Store) Client(setting string, f WorkerFiles) (*tls.Config, error) {
	var now atomic.Pointer[tls.Config]
	stop, err := s.watch(setting, f, &now)
	if err != nil {
		return nil, err
	}
	stop()
	c := now.Load().Clone()
	c.NextProtos = nil // its protocol is not ours to choose
	return c, nil
}

// watch keeps into at what the files say.
func (s *Store) watch(setting string, f WorkerFiles, into *atomic.Pointer[tls.Config]) (stop func(), err error) {
	var files []string
	for _, file := range []string{f.CA, f.Cert, f.Key} {
		if file != "" {
			files = append(files, file)
		}
	}
	stop, err = s.watcher.Add(setting, files, func(contents [][]byte) error {
		c := worker(f)
		if f.CA != "" {
			var err error
			if c.RootCAs, err = roots(f.CA, contents[0]); err != nil {
				return err
			}
			contents = contents[1:]
		}
		if f.Cert != "" {
			shown, err := pair(f.Cert, f.Key, contents[0], contents[1])
			if err != nil {
				return err
			}
			c.Certificates = []tls.Certificate{shown}
			s.note(setting, f.Cert, shown)
		}
		into.Store(c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("setting %s: %w", setting, err)
	}
	return stop, nil
}

func worker(f WorkerFiles) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, ServerName: f.ServerName, InsecureSkipVerify: f.Insecure}
}

// DialTLS connects to a worker and shakes hands with it, within ctx.
func (s *Store) DialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	c := s.general.Load()
	s.mu.Lock()
	if t := s.trusts[address]; t != nil {
		c = t.config.Load()
	}
	s.mu.Unlock()
	conn, err := (&tls.Dialer{Config: c}).DialContext(ctx, network, address)
	if err != nil {
		return nil, hinted(err)
	}
	return conn, nil
}

// hinted adds which setting a handshake failed for.
func hinted(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w (settings worker_tls.ca, tls.ca of the worker)", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w (setting tls.server_name of the worker)", err)
	case errors.As(err, &plain):
		return fmt.Errorf("%w (the worker speaks no TLS there: its URL should begin with http://)", err)
	}
	return err
}

// Certificates are those that are shown to clients and workers, by file.
func (s *Store) Certificates() []Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Values(s.shown))
	slices.SortFunc(all, func(a, b Certificate) int { return strings.Compare(a.File, b.File) })
	return slices.CompactFunc(all, func(a, b Certificate) bool { return a.File == b.File })
}

// pair is a certificate with its key. Its error names the files and repeats nothing of them.
func pair(certFile, keyFile string, cert, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("%s with %s: %w", certFile, keyFile, err)
	}
	return pair, nil
}

func roots(file string, text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New(file + " holds no certificate in PEM form")
	}
	return pool, nil
}

func (s *Store) note(setting, file string, pair tls.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown[setting] = Certificate{file, pair.Leaf.NotAfter}
}
