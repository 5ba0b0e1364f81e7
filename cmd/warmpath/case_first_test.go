package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

func TestTheFirstRequestAfterAStartFindsTheWorkersOfAllSources(t *testing.T) {
	named, filed := newWorker(t, nil, "other"), newWorker(t, nil, "m")
	file := filepath.Join(t.TempDir(), "workers.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "- {url: %q, id: filed, model: m}\n", filed.url), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := start(t, func(c *config.Config) {
		c.Discovery.File = file
		c.Workers = []config.Worker{{ID: "named", URL: named.url, Model: "other"}}
	})
	if r := rt.post("/v1/chat/completions", chat("at once", false)); r.status != http.StatusOK {
		t.Errorf("%d %v %s", r.status, r.err, r.body)
	}
}

func TestASourceThatSaysNothingHoldsUpAStartForAMomentOnly(t *testing.T) {
	silent := newWorker(t, nil)
	silent.onGet(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	w := newWorker(t, nil)
	rt := start(t, func(c *config.Config) {
		c.Discovery.HTTP = append(c.Discovery.HTTP, config.HTTPSource{URL: silent.url + "/workers"})
	}, w)
	if r := rt.post("/v1/chat/completions", chat("all the same", false)); r.status != http.StatusOK {
		t.Errorf("%d %v %s", r.status, r.err, r.body)
	}
}
