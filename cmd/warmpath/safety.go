package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/filewatch"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/tenant"
)

// safety is what stands between the router and whoever may not use it: certificates, tokens of the admin port, credentials of workers, and
// the files that all of these are in.
type safety struct {
	files  *filewatch.Watcher
	certs  *certs.Store
	tokens []guard.Token // by place in the settings; it is changed by the watcher alone once the router runs

	data, admin *tls.Config // nil: plain HTTP

	good, bad atomic.Uint64             // changes of files
	refused   map[string]*atomic.Uint64 // by reason
}

// openSafety reads the files of ports and tokens.
func openSafety(c config.Config, log *slog.Logger) (*safety, error) {
	s := &safety{refused: map[string]*atomic.Uint64{}}
	s.files = filewatch.New(filewatch.Options{Log: log, Took: s.took, FileBytesMax: tenantsBytesMax})
	s.certs = certs.New(s.files)
	for _, reason := range guard.Reasons {
		s.refused[reason] = new(atomic.Uint64)
	}
	var err error
	if c.TLS.Cert != "" {
		if s.data, err = s.certs.Server("tls", c.TLS); err != nil {
			return nil, usageError{err}
		}
	}
	if c.AdminTLS.Cert != "" {
		if s.admin, err = s.certs.Server("admin_tls", c.AdminTLS); err != nil {
			return nil, usageError{err}
		}
	}
	if err := s.certs.General("worker_tls", c.WorkerTLS); err != nil {
		return nil, usageError{err}
	}
	for i, t := range c.Access.Tokens {
		one, err := entryToken(t)
		if err != nil {
			return nil, usageError{fmt.Errorf("admin_access.tokens[%d] (%s): %w", i, t.Name, err)}
		}
		s.tokens = append(s.tokens, one)
	}
	return s, nil
}

// took counts a change of files.
func (s *safety) took(_ string, good bool) {
	if good {
		s.good.Add(1)
		return
	}
	s.bad.Add(1)
}

// collect fills in what a scrape shows of it.
func (s *safety) collect(into *metrics.SafetyState) {
	into.FilesGood, into.FilesBad, into.Refused = s.good.Load(), s.bad.Load(), map[string]uint64{}
	for reason, n := range s.refused {
		into.Refused[reason] = n.Load()
	}
	for _, c := range s.certs.Certificates() {
		into.Certificates = append(into.Certificates, metrics.CertificateState{File: c.File, NotAfterUnixSecs: float64(c.NotAfter.Unix())})
	}
}

// entryToken is a token as it is at the start.
func entryToken(t guard.Entry) (guard.Token, error) {
	switch {
	case t.Env != "":
		text, ok := os.LookupEnv(t.Env)
		if !ok {
			return guard.Token{}, fmt.Errorf("the environment variable %s is not set", t.Env)
		}
		return t.Token(text)
	case t.File != "":
		text, err := os.ReadFile(t.File)
		if err != nil {
			return guard.Token{}, err
		}
		return t.Token(string(text))
	}
	return t.Token("")
}

// watchTokens has the guard go by the tokens in files as they change.
func (s *safety) watchTokens(c config.Config, g *guard.Guard) error {
	for i, t := range c.Access.Tokens {
		if t.File == "" {
			continue
		}
		setting := fmt.Sprintf("admin_access.tokens[%d]", i)
		if _, err := s.files.Add(setting, []string{t.File}, func(contents [][]byte) error {
			one, err := t.Token(string(contents[0]))
			if err != nil {
				return fmt.Errorf("%s: %w", t.File, err)
			}
			s.tokens[i] = one
			g.Replace(s.tokens)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// guardAdmin puts the guard before the admin port.
func (r *router) guardAdmin(mux http.Handler) (http.Handler, error) {
	c := *r.settings()
	names := slices.Clone(c.Access.Hosts)
	if own, err := os.Hostname(); err == nil {
		names = append(names, own)
	}
	if host, _, err := net.SplitHostPort(c.Admin); err == nil {
		names = append(names, host)
	}
	g := guard.New(guard.Options{Tokens: r.safety.tokens, Names: names, Needs: adminNeeds, Refuse: refuse, Refused: func(reason string) { r.safety.refused[reason].Add(1) }})
	if err := r.safety.watchTokens(c, g); err != nil {
		return nil, usageError{err}
	}
	if c.AdminBeyond() && r.safety.admin == nil {
		what := "tokens pass in the clear"
		if len(r.safety.tokens) == 0 {
			what = "whoever reaches it may drain workers and read the state"
		}
		r.log.Warn("the admin port is reached from beyond this machine without TLS: "+what+" (settings admin, admin_tls)", "admin", c.Admin)
	}
	return soon(g.Before(mux)), nil
}

// How long a body of the admin port may take to come, unless somebody reads it who has a time of his own, how long what nobody wants of it, and
// how long an answer may take to be made and taken, but for those that last.
const (
	adminBodyTime   = 30 * time.Second
	adminRestTime   = time.Second
	adminAnswerTime = 2 * time.Minute
)

// adminLasts are the beginnings of paths whose answers take their time, or bound it themselves.
var adminLasts = []string{"/events", tryPath, "/debug/", "/upgrade"}

// soon has a request answered at once, also where its body is yet to come and nobody wants it, and bounds how long that may take: the server
// waits for all of it, and whoever announces bodies that never come could have all connections of the port, without a token. Who takes nothing of
// an answer is given up.
func soon(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		c := http.NewResponseController(w)
		if !slices.ContainsFunc(adminLasts, func(begins string) bool { return strings.HasPrefix(q.URL.Path, begins) }) {
			_ = c.SetWriteDeadline(time.Now().Add(adminAnswerTime)) // the server takes it back when the answer is over
		}
		if q.ContentLength != 0 {
			_ = errors.Join(c.EnableFullDuplex(), c.SetReadDeadline(time.Now().Add(adminBodyTime))) // a connection that is gone is seen by who reads
			body := &soonBody{ReadCloser: q.Body, of: c}
			q.Body = body
			defer body.leave()
		}
		next.ServeHTTP(w, q)
	})
}

// soonBody takes the bound away at its end: the server reads on, to see the client leave.
type soonBody struct {
	io.ReadCloser
	of    *http.ResponseController
	ended bool
}

func (b *soonBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended = true
		_ = b.of.SetReadDeadline(time.Time{})
	}
	return n, err
}

// leave is called when the request is answered.
func (b *soonBody) leave() {
	if !b.ended {
		_ = b.of.SetReadDeadline(time.Now().Add(adminRestTime))
	}
}

// adminNeeds is what it takes to have a path of the admin port answered. What is not named here and is no question needs the most.
func adminNeeds(q *http.Request) guard.Role {
	switch {
	case q.URL.Path == "/healthz":
		return guard.None
	case q.Method == http.MethodPost && q.URL.Path == "/workers" && q.URL.Query().Has(heartbeat),
		q.Method == http.MethodDelete && q.URL.Query().Get("registered") == "true":
		return guard.Register
	case strings.HasPrefix(q.URL.Path, "/debug/"): // profiles take time from requests
		return guard.Operate
	case q.Method == http.MethodGet, q.Method == http.MethodHead, q.URL.Path == "/explain":
		return guard.Read
	}
	return guard.Operate
}

// salts are what keeps tenants' caches apart; nil where they share them.
func (r *router) salts(c config.Config) func(tenant, own string) string {
	if c.Isolate != config.IsolateTenant {
		return nil
	}
	if c.Tenants.File == "" && c.Tenants.KeysEnv == "" {
		r.log.Warn("tenants are kept apart by a header that anybody can write (" + tenantHeader + "), because nobody is asked for a key (settings isolate, tenants.file)")
	}
	return func(name, own string) string { return tenant.Salt(r.secret, name, own) }
}

// over is a port's listener, with TLS where there is any.
func over(l net.Listener, c *tls.Config) net.Listener {
	if c == nil {
		return l
	}
	return tls.NewListener(l, c)
}

func scheme(c *tls.Config) string {
	if c == nil {
		return "http://"
	}
	return "https://"
}

// reached is how one worker is reached: what it is trusted by, and its credential.
type reached struct {
	key  string
	stop func() // forgets its files
}

// reach reads the files of a worker. changed hears its credential when the file changes.
func (s *safety) reach(w config.Worker, changed func(key string)) (reached, error) {
	to := reached{key: string(w.Key), stop: func() {}}
	if w.TLS != (certs.WorkerFiles{}) {
		forget, err := s.certs.Trust(addressOf(w.URL), "workers."+w.ID+".tls", w.TLS)
		if err != nil {
			return to, err
		}
		to.stop = forget
	}
	if w.KeyFile == "" {
		return to, nil
	}
	first := true
	stop, err := s.files.Add("workers."+w.ID+".key_file", []string{w.KeyFile}, func(contents [][]byte) error {
		key := strings.TrimSpace(string(contents[0]))
		if key == "" || strings.ContainsFunc(key, unicode.IsControl) {
			return errors.New(w.KeyFile + " must hold one line, the credential")
		}
		if first {
			first, to.key = false, key
			return nil
		}
		changed(key)
		return nil
	})
	if err != nil {
		to.stop()
		return to, fmt.Errorf("setting workers.%s.key_file: %w", w.ID, err)
	}
	forget := to.stop
	to.stop = func() { stop(); forget() }
	return to, nil
}

// checkWorkers says whether the files by which workers are reached can be used; it uses none of them.
func checkWorkers(c config.Config) error {
	files := filewatch.New(filewatch.Options{})
	s := &safety{files: files, certs: certs.New(files)}
	for _, w := range c.Workers {
		if _, err := s.reach(c.Keyed(w), func(string) {}); err != nil {
			return err
		}
	}
	return nil
}

// addressOf is the host and port that a worker's URL stands for.
func addressOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
