package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/certs"
	"github.com/warmpath/warmpath/internal/checkup"
	"github.com/warmpath/warmpath/internal/config"
)

// shownBy is whose certificate a port shows to a new connection.
func shownBy(t *testing.T, url string, c *tls.Config) (name string, ends time.Time) {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), c)
	if err != nil {
		t.Errorf("%s: %v", url, err)
		return "", time.Time{}
	}
	defer conn.Close()
	leaf := conn.ConnectionState().PeerCertificates[0]
	return leaf.Subject.CommonName, leaf.NotAfter
}

// neverIdle has three clients ask without a pause, over connections that are new now and then, until end, which tells how many requests failed.
func neverIdle(t *testing.T, rt *testRouter) (end func() int64) {
	stop, failed := make(chan struct{}), atomic.Int64{}
	var load sync.WaitGroup
	for i := range 3 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if n%10 == 9 {
					rt.http.CloseIdleConnections()
				}
				if r := rt.post("/v1/chat/completions", chat(fmt.Sprint(i, n), n%2 == 0)); r.err != nil || r.status != http.StatusOK {
					failed.Add(1)
					t.Errorf("%d %s %v", r.status, r.body, r.err)
					return
				}
			}
		})
	}
	return sync.OnceValue(func() int64 {
		close(stop)
		load.Wait()
		return failed.Load()
	})
}

func TestTLS01CertificatesAreRenewedUnderLoadWithoutAFailedRequest(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	var peers sync.Map // who the worker saw
	var asked atomic.Int64
	w := newSecureWorker(t, p.server("worker", true), nil)
	w.onGet(func(out http.ResponseWriter, r *http.Request) {
		peers.Store(r.TLS.PeerCertificates[0].Subject.CommonName+" GET", true)
		w.detection(out, r)
	})
	w.on(func(c *call) {
		peers.Store(c.r.TLS.PeerCertificates[0].Subject.CommonName+" POST", true)
		if asked.Add(1)%10 == 0 {
			c.w.Header().Set("Connection", "close") // else one that never rests is used for ever
		}
		c.good("hello")
	})
	w.forgets = true
	cert, key := p.sign("router", "router one", false, time.Minute)
	rt := start(t, func(c *config.Config) {
		c.TLS, c.AdminTLS = p.server("data", false), p.server("admin", false)
		c.WorkerTLS = certs.WorkerFiles{CA: p.ca, Cert: cert, Key: key}
	}, w)
	trusting := p.client("")
	rt.trust(trusting)
	failed := neverIdle(t, rt)
	defer failed()
	before := rt.metric("warmpath_certificate_expiry_timestamp_seconds", cert)
	p.sign("data", "data two", true, 48*time.Hour)
	p.sign("admin", "admin two", true, 48*time.Hour)
	p.sign("worker", "worker two", true, 48*time.Hour)
	p.sign("router", "router two", false, 48*time.Hour)
	eventually(t, "the ports' new certificates", func() bool {
		data, _ := shownBy(t, rt.DataURL(), trusting)
		admin, _ := shownBy(t, rt.AdminURL(), trusting)
		return data == "data two" && admin == "admin two"
	})
	eventually(t, "the router's new certificate at the worker, for requests", func() bool { _, seen := peers.Load("router two POST"); return seen })
	if now := rt.metric("warmpath_certificate_expiry_timestamp_seconds", cert); now-before < 24*3600 {
		t.Errorf("the end of %s was told as %v, and now as %v", cert, before, now)
	}
	if _, scraped := peers.Load("router one GET"); !scraped {
		t.Error("the worker was not asked with the router's certificate")
	}
	used := rt.metric("warmpath_file_changes_total", `result="used"`)
	p.write("data.pem", "no certificate")
	_, other := p.sign("spare", "spare", true, time.Hour)
	text, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	p.write("admin.key", string(text))
	eventually(t, "both mistakes to be told", func() bool { return rt.metric("warmpath_file_changes_total", `result="refused"`) == 2 })
	data, _ := shownBy(t, rt.DataURL(), trusting)
	admin, _ := shownBy(t, rt.AdminURL(), trusting)
	if data != "data two" || admin != "admin two" || used != 3 {
		t.Errorf("after broken files %q and %q are shown; %v changes were used", data, admin, used)
	}
	lost := failed()
	log := rt.log.String()
	for _, file := range []string{"data.pem", "admin.key"} {
		if n := strings.Count(log, file); n < 1 || strings.Count(log, "changed files cannot be used") != 2 {
			t.Errorf("%s is named %d times in the log", file, n)
		}
	}
	if strings.Contains(log, "PRIVATE") || lost != 0 {
		t.Errorf("%d requests failed", lost)
	}
}

func TestBothPortsLetInWhoeverShowsACertificateOfTheirRoots(t *testing.T) {
	p := newPaper(t)
	rt := start(t, func(c *config.Config) { c.TLS, c.AdminTLS = p.server("data", true), p.server("admin", true) }, newWorker(t, nil))
	rt.trust(p.client("alice"))
	if r := rt.post("/v1/chat/completions", chat("x", true)); r.status != http.StatusOK || !strings.Contains(r.body, "[DONE]") {
		t.Errorf("%d %s %v", r.status, r.body, r.err)
	}
	if r := read(rt.http.Get(rt.AdminURL() + "/state")); r.status != http.StatusOK {
		t.Errorf("%d %v", r.status, r.err)
	}
	for name, c := range map[string]*tls.Config{"nobody's": p.client(""), "a stranger's": newPaper(t).client("mallory")} {
		c.RootCAs = p.client("").RootCAs
		client := newClient(t)
		client.Transport.(*http.Transport).TLSClientConfig = c
		for _, url := range []string{rt.DataURL() + "/v1/models", rt.DataURL() + "/healthz", rt.AdminURL() + "/state", rt.AdminURL() + "/healthz"} {
			if r := read(client.Get(url)); r.err == nil {
				t.Errorf("with %s certificate, %s: %d %s", name, url, r.status, r.body)
			}
		}
	}
	for _, url := range []string{rt.DataURL(), rt.AdminURL()} {
		plain := read(http.Get(strings.Replace(url, "https://", "http://", 1)))
		if plain.status != http.StatusBadRequest {
			t.Errorf("plain HTTP on %s: %d %v", url, plain.status, plain.err)
		}
		if _, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
			t.Errorf("%s speaks TLS 1.1", url)
		}
	}
}

// ways is what a client sees of the same exchange over http and over https to workers; each entry answers in words.
var ways = map[string]func(rt *testRouter, w1, w2 *worker) string{
	"a stream comes event by event": func(rt *testRouter, w1, w2 *worker) string {
		next := make(chan struct{})
		both(w1, w2, func(c *call) {
			c.events()
			for _, word := range []string{"a", "b", "c"} {
				c.send(deltaOf(word))
				<-next
			}
			c.send("data: [DONE]\n\n")
		})
		resp, err := rt.open(context.Background(), "/v1/chat/completions", chat("s", true))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		event, text := eventsOf(resp), ""
		for range 3 {
			e, _ := event() // each has to come before the worker goes on
			text += e
			next <- struct{}{}
		}
		e, err := event()
		return fmt.Sprint(resp.StatusCode, text, e, err)
	},
	"a client that leaves frees the worker": func(rt *testRouter, w1, w2 *worker) string {
		reached, left := make(chan struct{}, 2), make(chan struct{}, 2)
		both(w1, w2, func(c *call) {
			c.events()
			c.send(deltaOf("a"))
			reached <- struct{}{}
			c.stall()
			left <- struct{}{}
		})
		ctx, cancel := context.WithCancel(context.Background())
		resp, err := rt.open(ctx, "/v1/chat/completions", chat("l", true))
		if err != nil {
			cancel()
			return err.Error()
		}
		<-reached
		cancel()
		<-left
		resp.Body.Close()
		return "left"
	},
	"a worker that resets is tried elsewhere": func(rt *testRouter, w1, w2 *worker) string {
		both(w1, w2, func(c *call) {
			if w1.count()+w2.count() < 2 {
				c.reset()
				return
			}
			c.good("well")
		})
		r := rt.post("/v1/chat/completions", chat("r", false))
		return fmt.Sprint(r.status, strings.Contains(r.body, "well"), w1.count()+w2.count())
	},
	"a stream that breaks ends with an error event": func(rt *testRouter, w1, w2 *worker) string {
		both(w1, w2, func(c *call) {
			c.events()
			c.send(deltaOf("a"))
			c.reset()
		})
		r := rt.post("/v1/chat/completions", chat("b", true))
		return fmt.Sprint(r.status, strings.Contains(r.body, `"a"`), strings.Contains(r.body, `"error"`), strings.Contains(r.body, "[DONE]"))
	},
	"a busy worker's 503 is tried elsewhere": func(rt *testRouter, w1, w2 *worker) string {
		both(w1, w2, func(c *call) {
			if w1.count()+w2.count() < 2 {
				c.json(http.StatusServiceUnavailable, `{"error":"busy"}`)
				return
			}
			c.good("well")
		})
		r := rt.post("/v1/chat/completions", chat("u", false))
		return fmt.Sprint(r.status, w1.count()+w2.count())
	},
	"an answer that does not begin in time": func(rt *testRouter, w1, w2 *worker) string {
		both(w1, w2, func(c *call) { c.stall() })
		r := rt.post("/v1/chat/completions", chat("t", false))
		return fmt.Sprint(r.status)
	},
	"a large body arrives whole": func(rt *testRouter, w1, w2 *worker) string {
		both(w1, w2, nil)
		body := chat(strings.Repeat("y", 9<<20), false)
		r := rt.post("/v1/chat/completions", body)
		got := append(w1.calls(), w2.calls()...)
		return fmt.Sprint(r.status, len(got), len(got) == 1 && string(got[0].body) == body)
	},
	"a worker that is gone is tried elsewhere": func(rt *testRouter, w1, w2 *worker) string {
		both(w1, w2, nil)
		w1.stop()
		text := ""
		for i := range 4 {
			text += fmt.Sprint(rt.post("/v1/chat/completions", chat(fmt.Sprint("g", i), false)).status, " ")
		}
		return text
	},
}

func both(w1, w2 *worker, script func(*call)) {
	w1.on(script)
	w2.on(script)
}

func TestWorkersAreReachedOverTLSAsOverPlainHTTP(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, said := newPaper(t), map[string]string{}
			for _, scheme := range []string{"http", "https"} {
				w1, w2 := newWorker(t, nil), newWorker(t, nil)
				if scheme == "https" {
					w1, w2 = newSecureWorker(t, p.server("w1", true), nil), newSecureWorker(t, p.server("w2", true), nil)
				}
				cert, key := p.sign("router", "router", false, time.Hour)
				rt := start(t, func(c *config.Config) {
					c.Timeouts.Header = time.Second
					c.WorkerTLS = certs.WorkerFiles{CA: p.ca, Cert: cert, Key: key}
				}, w1, w2)
				said[scheme] = way(rt, w1, w2)
				rt.idle()
			}
			if said["http"] != said["https"] || said["http"] == "" {
				t.Errorf("over http: %s\nover https: %s", said["http"], said["https"])
			}
		})
	}
}

func TestAWorkerWhoseCertificateIsNotTrustedGetsNothingAndTheReasonIsTold(t *testing.T) {
	p := newPaper(t)
	cert, key := p.sign("router", "router", false, time.Hour)
	for name, c := range map[string]struct {
		mutual bool
		trust  certs.WorkerFiles
		want   string // in the log; "" it is served
	}{
		"unknown root":            {false, certs.WorkerFiles{}, "unknown authority"},
		"another name":            {false, certs.WorkerFiles{CA: p.ca, ServerName: "gpu-9.internal"}, "gpu-9.internal"},
		"known root":              {false, certs.WorkerFiles{CA: p.ca}, ""},
		"name by server_name":     {false, certs.WorkerFiles{CA: p.ca, ServerName: "worker"}, ""},
		"any certificate":         {false, certs.WorkerFiles{Insecure: true}, ""},
		"no certificate of ours":  {true, certs.WorkerFiles{CA: p.ca}, "certificate required"},
		"the certificate it asks": {true, certs.WorkerFiles{CA: p.ca, Cert: cert, Key: key}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSecureWorker(t, p.server("worker", c.mutual), nil)
			w.detectable = c.want == ""
			rt := start(t, func(cfg *config.Config) {
				cfg.Workers[0].TLS, cfg.Workers[0].Model = c.trust, "m"
				cfg.Timeouts.Connect, cfg.Telemetry.Timeout = 30*time.Second, 30*time.Second // the system's roots take their time to load
			}, w)
			r := rt.post("/v1/chat/completions", chat("x", false))
			if c.want == "" {
				if r.status != http.StatusOK {
					t.Errorf("%d %s", r.status, r.body)
				}
				return
			}
			if r.status/100 != 5 || w.count() != 0 {
				t.Errorf("%d %s, %d calls", r.status, r.body, w.count())
			}
			eventually(t, "the reason", func() bool { return strings.Contains(rt.log.String(), c.want) })
		})
	}
}

func TestAWorkerThatNeverShakesHandsIsGivenUpWithinTheConnectTimeout(t *testing.T) {
	l := newWorker(t, nil) // speaks plain HTTP, and so waits for a request while we wait for its hello
	good := newWorker(t, nil)
	rt := start(t, func(c *config.Config) {
		c.Timeouts.Connect = 200 * time.Millisecond
		c.Workers = append(c.Workers, config.Worker{ID: "mute", URL: strings.Replace(l.url, "http://", "https://", 1), Model: "m"})
	}, good)
	for i := range 6 {
		if r := rt.post("/v1/chat/completions", chat(fmt.Sprint(i), false)); r.status != http.StatusOK {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if n := l.count(); n != 0 {
		t.Errorf("the mute one got %d requests", n)
	}
}

func TestTwoKindsOfTrustAtOneAddressAreRefused(t *testing.T) {
	p := newPaper(t)
	w := newSecureWorker(t, p.server("worker", false), nil)
	c := config.Default()
	c.Listen, c.Admin, c.StateDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	c.Workers = []config.Worker{{ID: "a", URL: w.url + "/a", TLS: certs.WorkerFiles{CA: p.ca}}, {ID: "b", URL: w.url + "/b", TLS: certs.WorkerFiles{Insecure: true}}}
	if err := checkWorkers(c); err == nil || !strings.Contains(err.Error(), "workers.b.tls") {
		t.Errorf("before a change of the configuration: %v", err)
	}
	r, err := startRouter(c, newLogger(io.Discard, c))
	if err == nil {
		r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "workers.b.tls") {
		t.Errorf("%v", err)
	}
}

func TestDoctorTellsByWhatAWorkerIsReached(t *testing.T) {
	p := newPaper(t)
	w := newSecureWorker(t, p.server("worker", false), nil)
	at := func(want int, flags ...string) checkup.Check {
		t.Helper()
		found := doctor(t, want, append([]string{"--worker", w.url, "--no-requests", "--events", "off"}, flags...)...)
		for _, c := range found.Workers[0].Checks {
			if c.Part == "transport" {
				return c
			}
		}
		t.Fatalf("nothing is said of the transport: %+v", found)
		return checkup.Check{}
	}
	if c := at(exitRuntime); c.Level != checkup.Broken || !strings.Contains(c.Found, "worker_tls.ca") {
		t.Errorf("an unknown root: %+v", c)
	}
	if c := at(exitOK, "--worker-ca", p.ca); c.Level != checkup.Partly || !strings.Contains(c.Found, "TLS 1.3, certificate until 20") || !strings.Contains(c.Gain, "new certificate") {
		t.Errorf("a certificate that is about to end: %+v", c) // an hour from now
	}
	p.sign("worker", "worker", true, 90*24*time.Hour)
	if c := at(exitOK, "--worker-ca", p.ca); c.Level != checkup.Full || c.Gain != "" {
		t.Errorf("a good one: %+v", c)
	}
}
