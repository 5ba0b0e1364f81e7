package telemetry

import (
	"context"
	"sync"

	"github.com/warmpath/warmpath/internal/fleet"
)

// LoopbackURLs are where engines listen on this machine when nobody tells them otherwise: vLLM, SGLang, llama.cpp, Ollama, LM Studio.
func LoopbackURLs() []string {
	return []string{"http://127.0.0.1:8000", "http://127.0.0.1:30000", "http://127.0.0.1:8080", "http://127.0.0.1:11434", "http://127.0.0.1:1234"}
}

// Found is an engine that answered a probe.
type Found struct {
	URL  string
	Info fleet.Info
}

// Probe asks all addresses at once and returns those where an engine listed its models, in the order given. A closed port of this
// machine answers at once; ctx bounds the wait for those that take the connection and say nothing.
func Probe(ctx context.Context, urls []string) []Found {
	infos := make([]fleet.Info, len(urls))
	var wg sync.WaitGroup
	for i, u := range urls {
		wg.Go(func() {
			if info, err := Detect(ctx, Target{ID: u, URL: u}); err == nil {
				infos[i] = info
			}
		})
	}
	wg.Wait()
	var found []Found
	for i, info := range infos {
		if len(info.Models) > 0 {
			found = append(found, Found{URL: urls[i], Info: info})
		}
	}
	return found
}
