package main

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/mint"
)

// paper is a root and a folder of what it signed, as PEM files.
type paper struct {
	t    *testing.T
	dir  string
	root *mint.Root
	ca   string // file of the root
}

func newPaper(t *testing.T) paper {
	t.Helper()
	root, err := mint.NewRoot("root of " + t.Name())
	if err != nil {
		t.Fatal(err)
	}
	p := paper{t: t, dir: t.TempDir(), root: root}
	p.ca = p.write("ca.pem", string(root.PEM))
	return p
}

// write replaces a file as tools that renew certificates do.
func (p paper) write(name, text string) string {
	p.t.Helper()
	file := filepath.Join(p.dir, name)
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		p.t.Fatal(err)
	}
	return file
}

// sign writes NAME.pem and NAME.key: for a server on this machine, or for a client.
func (p paper) sign(name, common string, server bool, valid time.Duration) (cert, key string) {
	p.t.Helper()
	l := mint.Leaf{Name: common, For: valid}
	if server {
		l.Names = []string{"127.0.0.1", common}
	}
	c, k, err := p.root.Sign(l)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.write(name+".pem", string(c)), p.write(name+".key", string(k))
}

// server are files for a port; mutual asks clients for certificates of the same root.
func (p paper) server(name string, mutual bool) certs.ServerFiles {
	p.t.Helper()
	var f certs.ServerFiles
	f.Cert, f.Key = p.sign(name, name, true, time.Hour)
	if mutual {
		f.ClientCA = p.ca
	}
	return f
}

// client is a TLS configuration that trusts the root and shows a certificate of it, if it is to.
func (p paper) client(shows string) *tls.Config {
	p.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.root.PEM)
	c := &tls.Config{RootCAs: pool}
	if shows != "" {
		pair, err := tls.LoadX509KeyPair(p.sign("client-"+shows, shows, false, time.Hour))
		if err != nil {
			p.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// trust has rt's own client go by the root.
func (rt *testRouter) trust(c *tls.Config) { rt.http.Transport.(*http.Transport).TLSClientConfig = c }

// newSecureWorker is newWorker over TLS. Its certificate is read for each connection, so that it can be renewed too.
func newSecureWorker(t *testing.T, f certs.ServerFiles, script func(*call)) *worker {
	t.Helper()
	c := &tls.Config{NextProtos: []string{"http/1.1"}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		return &pair, err
	}}
	if f.ClientCA != "" {
		text, err := os.ReadFile(f.ClientCA)
		if err != nil {
			t.Fatal(err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		c.ClientCAs.AppendCertsFromPEM(text)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, url: "https://" + l.Addr().String(), models: []string{"m"}, script: script, detectable: true}
	w.server = &http.Server{Handler: w, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var done sync.WaitGroup
	done.Go(func() { w.server.Serve(tls.NewListener(l, c)) })
	t.Cleanup(func() { w.stop(); done.Wait() })
	return w
}
