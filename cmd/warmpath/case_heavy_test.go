package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
)

// TestHeavyPrefillsLeaveAWorkerToChatsAndAreAllDone sends more of them at once than there are workers, among chats: the rest waits here, one
// worker is always without, and chats hardly notice.
func TestHeavyPrefillsLeaveAWorkerToChatsAndAreAllDone(t *testing.T) {
	const workers, jobs, jobTokens = 4, 6, 60_000
	o := engine.Options{Profile: cost.Profiles["h100-8b"], Model: demoModel, TimeScale: 4}
	f, err := startFleet(t.Context(), alike(workers, o), "warm-cost", io.Discard, func(c *config.Config, _ string) { c.Queue.Heavy.FloorSeconds = 0.05 })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	seed := rand.Uint64()
	t.Logf("prompts by seed %d", seed)
	c := &crowded{embeddedFleet: f, t: t, client: newClient(t), prompt: rand.New(rand.NewPCG(seed, 1))}

	chats := &loop{clients: 4, tokens: 400}
	ctx, stop := context.WithCancel(t.Context())
	var talking, working sync.WaitGroup
	chats.run(ctx, c, &talking)
	eventually(t, "what is usual to be known", func() bool { return chats.done.Load() >= 60 })
	for range jobs {
		unique := c.prompt.Uint64()
		working.Go(func() {
			body := fmt.Sprintf(`{"model": %q, "stream": true, "max_tokens": 1, "prompt": "%x %s"}`, demoModel, unique, strings.Repeat("word ", jobTokens*4/5))
			r := read(c.client.Post(c.router.DataURL()+"/v1/completions", "application/json", strings.NewReader(body)))
			if r.err != nil || r.status != http.StatusOK || !strings.Contains(r.body, "[DONE]") {
				t.Errorf("a heavy job: %d %.200q, %v", r.status, r.body, r.err)
			}
		})
	}
	eventually(t, "heavy jobs to wait", func() bool {
		for _, class := range c.router.queueNow().Classes {
			if class.Heavy > 0 {
				return true
			}
		}
		return false
	})
	before := chats.done.Load()
	most := mostAtOnce(&working, func() (n int) {
		for _, e := range c.engines {
			if e.Stats().ContextTokens >= jobTokens/2 {
				n++
			}
		}
		return n
	})
	during := chats.done.Load() - before
	stop()
	talking.Wait()
	t.Logf("%d of %d workers had a heavy job at one time; %d chats were answered meanwhile", most, workers, during)
	if most == 0 || most >= workers {
		t.Errorf("%d of %d workers had a heavy job at one time, want one at least without", most, workers)
	}
	if during < 60 {
		t.Errorf("%d chats were answered while %d heavy jobs ran", during, jobs)
	}
}

// mostAtOnce is the largest of the counts taken until all are done.
func mostAtOnce(all *sync.WaitGroup, count func() int) (most int) {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	often := time.NewTicker(time.Millisecond)
	defer often.Stop()
	for {
		select {
		case <-done:
			return most
		case <-often.C:
			most = max(most, count())
		}
	}
}
