package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/filewatch"
	"github.com/warmpath/warmpath/internal/mint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paper is one folder of files in PEM.
type paper struct {
	t   *testing.T
	dir string
}

func (p paper) at(name string) string { return filepath.Join(p.dir, name) }

func (p paper) write(name string, text []byte) string {
	p.t.Helper()
	if err := os.WriteFile(p.at(name), text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return p.at(name)
}

// sign writes NAME.pem and NAME.key.
func (p paper) sign(root *mint.Root, name string, l mint.Leaf) (cert, key string) {
	p.t.Helper()
	c, k, err := root.Sign(l)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.write(name+".pem", c), p.write(name+".key", k)
}

func newRoot(t *testing.T, name string) *mint.Root {
	t.Helper()
	r, err := mint.NewRoot(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// running is a store whose files are looked at every millisecond.
func running(t *testing.T) *Store {
	w := filewatch.New(filewatch.Options{Interval: time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return New(w)
}

// listen answers each connection with the common name of whoever it was; "" who showed none.
func listen(t *testing.T, c *tls.Config) (address string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer conn.Close()
				if s := conn.(*tls.Conn); s.HandshakeContext(context.Background()) == nil {
					name := ""
					if peers := s.ConnectionState().PeerCertificates; len(peers) > 0 {
						name = peers[0].Subject.CommonName
					}
					io.WriteString(conn, "hello "+name)
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); done.Wait() })
	return l.Addr().String()
}

// said is what a server answered, and who it was.
func said(dial func() (net.Conn, error)) (text, server string, err error) {
	conn, err := dial()
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	b, err := io.ReadAll(conn)
	return string(b), conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName, err
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited half a minute for %s", what)
		}
	}
}

func TestTLS01APortShowsTheNewPairAsSoonAsItIsWholeAndTheOldOneUntilThen(t *testing.T) {
	p, root, s := paper{t, t.TempDir()}, newRoot(t, "root"), running(t)
	cert, key := p.sign(root, "server", mint.Leaf{Name: "first", Names: []string{"127.0.0.1"}, For: time.Minute})
	c, err := s.Server("tls", ServerFiles{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	at := listen(t, c)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root.PEM)
	who := func() string {
		_, server, err := said(func() (net.Conn, error) { return tls.Dial("tcp", at, &tls.Config{RootCAs: pool}) })
		if err != nil {
			t.Error(err)
		}
		return server
	}
	if got := who(); got != "first" {
		t.Fatalf("served by %q", got)
	}
	before := s.Certificates()
	p.write("server.pem", []byte("no certificate"))
	_, otherKey, _ := root.Sign(mint.Leaf{For: time.Hour})
	for range 20 {
		if got := who(); got != "first" {
			t.Fatalf("with a broken file: %q", got)
		}
	}
	p.sign(root, "server", mint.Leaf{Name: "second", Names: []string{"127.0.0.1"}, For: time.Hour})
	eventually(t, "the second pair", func() bool { return who() == "second" })
	p.write("server.key", otherKey)
	for range 20 {
		if got := who(); got != "second" {
			t.Fatalf("with a key that does not match: %q", got)
		}
	}
	if now := s.Certificates(); len(before) != 1 || len(now) != 1 || now[0].File != cert || now[0].NotAfter.Sub(before[0].NotAfter) < 50*time.Minute {
		t.Errorf("certificates %v, then %v", before, now)
	}
}

func TestAPortThatAsksForCertificatesTakesThoseOfItsRootsAlone(t *testing.T) {
	p, root, stranger, s := paper{t, t.TempDir()}, newRoot(t, "root"), newRoot(t, "stranger"), running(t)
	cert, key := p.sign(root, "server", mint.Leaf{Name: "server", Names: []string{"127.0.0.1"}, For: time.Hour})
	ca := p.write("ca.pem", root.PEM)
	c, err := s.Server("admin_tls", ServerFiles{Cert: cert, Key: key, ClientCA: ca})
	if err != nil {
		t.Fatal(err)
	}
	at := listen(t, c)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(root.PEM)
	sessions := tls.NewLRUClientSessionCache(8)
	enter := func(by *mint.Root, name string) string {
		o := &tls.Config{RootCAs: pool, ClientSessionCache: sessions}
		if by != nil {
			certPEM, keyPEM, _ := by.Sign(mint.Leaf{Name: name, For: time.Hour})
			pair, err := tls.X509KeyPair(certPEM, keyPEM)
			if err != nil {
				t.Fatal(err)
			}
			o.Certificates = []tls.Certificate{pair}
		}
		text, _, err := said(func() (net.Conn, error) { return tls.Dial("tcp", at, o) })
		if err != nil {
			return "refused"
		}
		return text
	}
	if got := enter(root, "alice"); got != "hello alice" {
		t.Errorf("with a certificate of the root: %s", got)
	}
	if got := enter(nil, ""); got != "refused" {
		t.Errorf("without one: %s", got)
	}
	if got := enter(stranger, "mallory"); got != "refused" {
		t.Errorf("with a stranger's: %s", got)
	}
	p.write("ca.pem", stranger.PEM) // the old root is trusted no more, also by those who were in before
	eventually(t, "the old root to be gone", func() bool { return enter(root, "alice") == "refused" })
	if got := enter(stranger, "mallory"); got != "hello mallory" {
		t.Errorf("with the new root: %s", got)
	}
}

// serveAs listens as a worker does: with a certificate for names, and mutual asks for one of root's.
func serveAs(t *testing.T, root *mint.Root, name string, mutual bool, names ...string) (address string) {
	t.Helper()
	certPEM, keyPEM, err := root.Sign(mint.Leaf{Name: name, Names: names, For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}}
	if mutual {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		c.ClientCAs.AppendCertsFromPEM(root.PEM)
	}
	return listen(t, c)
}

func TestWorkersAreTrustedByWhatIsSaidOfTheirAddress(t *testing.T) {
	p, root, s := paper{t, t.TempDir()}, newRoot(t, "root"), running(t)
	serve := func(name string, mutual bool, names ...string) string {
		return serveAs(t, root, name, mutual, names...)
	}
	ca := p.write("ca.pem", root.PEM)
	cert, key := p.sign(root, "client", mint.Leaf{Name: "router", For: time.Hour})
	mutual, named, plain := serve("mutual", true, "127.0.0.1"), serve("named", false, "gpu-1.internal"), serve("plain", false, "127.0.0.1")
	ask := func(at string) string {
		text, _, err := said(func() (net.Conn, error) { return s.DialTLS(t.Context(), "tcp", at) })
		if err != nil {
			return err.Error()
		}
		return text
	}
	trust := func(at string, f WorkerFiles) func() {
		forget, err := s.Trust(at, "workers."+at+".tls", f)
		if err != nil {
			t.Fatal(err)
		}
		return forget
	}
	if got := ask(plain); !strings.Contains(got, "unknown authority") || !strings.Contains(got, "worker_tls.ca") {
		t.Errorf("by the system's roots: %s", got)
	}
	forget := trust(plain, WorkerFiles{CA: ca})
	again := trust(plain, WorkerFiles{CA: ca}) // another rank at the same address
	trust(mutual, WorkerFiles{CA: ca, Cert: cert, Key: key})
	trust(named, WorkerFiles{CA: ca, ServerName: "gpu-1.internal"})
	for at, want := range map[string]string{plain: "hello ", mutual: "hello router", named: "hello "} {
		if got := ask(at); got != want {
			t.Errorf("%s: %s", at, got)
		}
	}
	if _, err := s.Trust(plain, "workers.x.tls", WorkerFiles{Insecure: true}); err == nil || !strings.Contains(err.Error(), "workers.x.tls") {
		t.Errorf("two kinds of trust at one address: %v", err)
	}
	forget()
	if got := ask(plain); got != "hello " {
		t.Errorf("while one still needs it: %s", got)
	}
	again()
	if got := ask(plain); !strings.Contains(got, "unknown authority") {
		t.Errorf("once it is forgotten: %s", got)
	}
	if err := s.General("worker_tls", WorkerFiles{CA: ca}); err != nil {
		t.Fatal(err)
	}
	if got := ask(plain); got != "hello " {
		t.Errorf("by the roots of all: %s", got)
	}
	nameless := serve("nameless", false, "elsewhere.internal")
	if got := ask(nameless); !strings.Contains(got, "127.0.0.1") || !strings.Contains(got, "tls.server_name") {
		t.Errorf("under another name: %s", got)
	}
	trust(nameless, WorkerFiles{Insecure: true})
	if got := ask(nameless); got != "hello " {
		t.Errorf("with any certificate: %s", got)
	}
	p.sign(root, "client", mint.Leaf{Name: "router again", For: time.Hour})
	eventually(t, "the router's new certificate", func() bool { return ask(mutual) == "hello router again" })
}

func TestFilesThatCannotBeUsedAreNamedWithTheirSetting(t *testing.T) {
	p, root, s := paper{t, t.TempDir()}, newRoot(t, "root"), running(t)
	cert, key := p.sign(root, "a", mint.Leaf{Name: "a", Names: []string{"a"}, For: time.Hour})
	_, otherKey := p.sign(root, "b", mint.Leaf{Name: "b", Names: []string{"b"}, For: time.Hour})
	empty := p.write("empty", nil)
	for _, c := range []struct {
		f    ServerFiles
		want string
	}{
		{ServerFiles{Cert: p.at("none"), Key: key}, "none: no such file"},
		{ServerFiles{Cert: cert, Key: otherKey}, cert + " with " + otherKey},
		{ServerFiles{Cert: empty, Key: key}, empty + " with " + key},
		{ServerFiles{Cert: cert, Key: key, ClientCA: empty}, empty + " holds no certificate"},
	} {
		if _, err := s.Server("tls", c.f); err == nil || !strings.HasPrefix(err.Error(), "setting tls: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.f, err)
		}
	}
	for _, f := range []WorkerFiles{{CA: empty}, {CA: p.at("none")}, {Cert: cert, Key: otherKey}} {
		if _, err := s.Trust("a:1", "worker_tls", f); err == nil || !strings.HasPrefix(err.Error(), "setting worker_tls: ") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
