//go:build conform

package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/smuggling"
)

var record = flag.Bool("record", false, "write what came of each case into the corpus, for the differences to be read and given reasons")

// judgeConfig is nginx as it comes, before an origin. It is told to go on when a client has closed its side: that is how the client says
// that it has sent all.
const judgeConfig = `daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  client_max_body_size 64m;
  large_client_header_buffers 4 16k;
  upstream origin { server %[2]s; keepalive 16; }
  server {
    listen %[3]s;
    proxy_ignore_client_abort on;
    location /v1/ { proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_next_upstream off; }
    location / { return 404; }
  }
}
`

// startJudge runs nginx until stop, which the test's end calls too.
func startJudge(t *testing.T, origin string) (dial func() (net.Conn, error), stop func()) {
	t.Helper()
	folder, err := os.MkdirTemp("", "warmpath-conform-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	os.Chmod(folder, 0o755) // nginx's worker is another user when root starts it
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	file := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, judgeConfig, folder, origin, address), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nginx", "-e", "stderr", "-p", folder, "-c", file)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin")
	if path, err := exec.LookPath("nginx"); err != nil {
		cmd.Path = "/usr/sbin/nginx"
	} else {
		cmd.Path = path
	}
	cmd.Err = nil
	if err := cmd.Start(); err != nil {
		t.Fatalf("nginx does not start (make conform installs it): %v", err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cmd.Process.Signal(syscall.SIGTERM)
			<-done
		}
	}
	t.Cleanup(stop)
	dial = func() (net.Conn, error) { return net.Dial("tcp", address) }
	eventually(t, "nginx to listen", func() bool {
		c, err := dial()
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return dial, stop
}

func TestNoMoreReachesAWorkerThanThroughNginx(t *testing.T) {
	c := newCorpus(t)
	judge, stopJudge := startJudge(t, c.origin.Addr)
	plain, overTLS, stop := c.routers()
	expected := func(who func(smuggling.Case) *smuggling.Outcome) func(smuggling.Case) *smuggling.Outcome {
		if *record {
			return nil
		}
		return who
	}
	ours := c.send(lean, plain, expected(func(one smuggling.Case) *smuggling.Outcome { o := one.Outcomes["ours"]; return &o }))
	theirs := c.send(judged, judge, nil)
	second := c.send(secure, overTLS, expected(ofTLS))
	if *record {
		c.again(lean, plain, ours)
		c.again(secure, overTLS, second)
	}
	stop()
	stopJudge()
	c.reached(lean, ours)
	c.reached(secure, second)
	c.reached(judged, theirs)
	counts := map[string]int{}
	for i := range c.cases {
		one := &c.cases[i]
		for way, reached := range map[string][]string{"": ours[i].Reached, " over TLS": second[i].Reached} {
			recorded := one.Outcomes["ours"]
			if way != "" {
				recorded = *ofTLS(*one)
			}
			relation, known := smuggling.Compare(reached, theirs[i].Reached), one.Relates(recorded)
			counts[relation]++
			if relation == "" || relation == known && one.Why != "" || *record {
				continue
			}
			t.Errorf("%s%s is %s than nginx, and the corpus says %q:\n ours %s\nnginx %s", one.Name, way, relation, known,
				strings.Join(reached, "\n      "), strings.Join(theirs[i].Reached, "\n      "))
		}
	}
	if stray := c.origin.Stray(); len(stray) > 0 {
		t.Errorf("requests that belong to no case: %q", stray)
	}
	fmt.Printf("conform: %d cases at two servers, as nginx %d, stricter %d, laxer for a reason %d\n", len(c.cases), counts[""], counts["stricter"], counts["laxer"])
	if *record {
		write(t, ours, second, theirs)
	}
}

// again sends what turned out to wait for more once more, without the request by which that was found out.
func (c *corpus) again(way int, dial func() (net.Conn, error), got []smuggling.Outcome) {
	for i, one := range c.cases {
		if got[i].End != smuggling.Waits {
			continue
		}
		c.origin.Forget(way + i)
		ask := smuggling.Ask{Dial: dial, Number: way + i, Expect: &got[i]}
		if _, err := ask.Run(one); err != nil {
			c.t.Error(err)
		}
	}
}

// write puts what came into the files of the corpus. Reasons stay where the relation does.
func write(t *testing.T, ours, second, theirs []smuggling.Outcome) {
	names, err := filepath.Glob("../../internal/smuggling/testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		cases, head, err := smuggling.Parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		for i := range cases {
			one := &cases[i]
			one.Outcomes = map[string]smuggling.Outcome{"ours": ours[n]}
			if !reflect.DeepEqual(second[n], ours[n]) {
				one.Outcomes["tls"] = second[n]
			}
			relation := smuggling.Compare(ours[n].Reached, theirs[n].Reached)
			if relation == "" && !slices.Equal(second[n].Reached, ours[n].Reached) {
				relation = smuggling.Compare(second[n].Reached, theirs[n].Reached)
			}
			if relation != "" {
				one.Outcomes["nginx"] = theirs[n]
			}
			if one.Relation != relation {
				one.Relation, one.Why = relation, ""
			}
			n++
		}
		if err := os.WriteFile(name, []byte(smuggling.Format(head, cases)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	io.WriteString(os.Stdout, "conform: the corpus is written; read `git diff`, and give each difference its reason\n")
}
