package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// registers runs `warmpath register` for an engine until stop, which says how it ended.
func (rt *testRouter) registers(address string) (log *lockedBuffer, stop func() error) {
	log = &lockedBuffer{}
	f := registerFlags{admin: adminFlags{url: rt.AdminURL()}, id: "gpu-7", heartbeat: time.Second}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- f.beat(ctx, log, newLogger(log, config.Default()), "http://"+address, fmt.Appendf(nil, `{"url":"http://%s","id":"gpu-7","model":"m"}`, address))
	}()
	rt.t.Cleanup(cancel)
	return log, func() error { cancel(); return <-done }
}

func TestRegisterTellsOfAnEngineWhileItAnswersAndSaysGoodbye(t *testing.T) {
	t.Parallel()
	rt := start(t, registering)
	address := freeAddress(t)
	log, stop := rt.registers(address)
	eventually(t, "the engine to be missed", func() bool { return strings.Contains(log.String(), "the engine does not answer") })
	if n := len(rt.state().Workers); n != 0 {
		t.Errorf("%d workers, and none answers", n)
	}
	w, ended := startWorker(t, address, nil)
	rt.finds(w)
	if !strings.Contains(log.String(), "gpu-7 is registered at "+rt.AdminURL()) {
		t.Error(log.String())
	}
	w.stop()
	ended()
	rt.loses(w)
	w = newWorkerAt(t, address, nil)
	rt.finds(w)
	if err := stop(); err != nil || !strings.HasSuffix(log.String(), "gpu-7 has said goodbye\n") {
		t.Errorf("%v %s", err, log.String())
	}
	rt.loses(w)
}

func TestRegisterEndsWhenTheRouterWillNotHaveIt(t *testing.T) {
	rt := start(t, nil)
	w := newWorker(t, nil)
	f := registerFlags{admin: adminFlags{url: rt.AdminURL()}, id: "gpu-7", heartbeat: time.Second}
	err := f.beat(t.Context(), io.Discard, newLogger(io.Discard, config.Default()), w.url, fmt.Appendf(nil, `{"url":%q}`, w.url))
	var refused *refusalError
	if !errors.As(err, &refused) || refused.status != http.StatusForbidden || !strings.Contains(refused.text, "--workers-register") {
		t.Error(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"register"}, `--worker: url: "" is no worker address`}, {[]string{"register", "--worker", "http://h:1", "--heartbeat", "1ms"}, "it may be 1s to 5m0s"},
		{[]string{"register", "--worker", "http://u:p@h:1"}, "carries a user or password"},
	} {
		var out, errs strings.Builder
		if code := run(c.args, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), c.want) || strings.Contains(errs.String(), "u:p") {
			t.Errorf("%v: %d %s", c.args, code, errs.String())
		}
	}
}
