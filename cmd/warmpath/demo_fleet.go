package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/workload"
)

const (
	// demoReadyMax is how long the router may take until it knows its workers.
	demoReadyMax  = 10 * time.Second
	demoReadyPoll = 20 * time.Millisecond
	// demoOutputMean is longer than any max_tokens of the workload, so that nearly every answer is as long as it may be.
	demoOutputMean = 4096
)

// demoFleet is the router before fresh simulated workers, all in this process.
type demoFleet struct {
	policy  string
	engines []*engine.Server
	servers []*http.Server
	router  *router
	folder  string // the router's secret, gone with it
	stop    context.CancelFunc
	running sync.WaitGroup
}

// startDemoFleet returns when the router is ready. Its close also works after a failure half-way.
func startDemoFleet(ctx context.Context, o demoOptions, policy string, stderr io.Writer) (*demoFleet, error) {
	ctx, stop := context.WithCancel(ctx)
	f := &demoFleet{policy: policy, stop: stop}
	if err := f.start(ctx, o, stderr); err != nil {
		f.close()
		return nil, fmt.Errorf("demo under %s: %w", policy, err)
	}
	return f, nil
}

func (f *demoFleet) start(ctx context.Context, o demoOptions, stderr io.Writer) (err error) {
	c := config.Default()
	c.Listen, c.Admin, c.Policy = "127.0.0.1:0", "127.0.0.1:0", f.policy
	for i := range demoWorkers {
		url, err := f.startWorker(ctx, o)
		if err != nil {
			return err
		}
		c.Workers = append(c.Workers, config.Worker{ID: fmt.Sprintf("sim-%d", i+1), URL: url})
	}
	if f.folder, err = os.MkdirTemp("", "warmpath-demo-"); err != nil {
		return err
	}
	c.StateDir = f.folder
	if f.router, err = startRouter(c, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))); err != nil {
		return err
	}
	return f.await(ctx)
}

// startWorker starts one simulated engine on a port of its own.
func (f *demoFleet) startWorker(ctx context.Context, o demoOptions) (url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	e := engine.New(engine.Options{
		Profile:    cost.Profiles[o.profile],
		Model:      demoModel,
		TimeScale:  o.timeScale,
		OutputMean: demoOutputMean,
		Seed:       o.seed,
	})
	server := &http.Server{Handler: e.Handler()}
	f.engines, f.servers = append(f.engines, e), append(f.servers, server)
	f.running.Go(func() { _ = e.Run(ctx) })             // it ends with ctx
	f.running.Go(func() { _ = server.Serve(listener) }) // it ends with Close
	return "http://" + listener.Addr().String(), nil
}

// await returns when the router says that it is ready and every worker has been looked at.
func (f *demoFleet) await(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, demoReadyMax)
	defer cancel()
	for !f.ready(limited) {
		pause(limited, demoReadyPoll)
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case limited.Err() != nil:
			return fmt.Errorf("the router was not ready within %v", demoReadyMax)
		}
	}
	return nil
}

func (f *demoFleet) ready(ctx context.Context) bool {
	reply, err := get(ctx, f.router.DataURL()+"/readyz")
	if err != nil {
		return false
	}
	reply.Body.Close()
	return reply.StatusCode == http.StatusOK
}

// close stops what was started and waits for it. A nil fleet has nothing to stop.
func (f *demoFleet) close() {
	if f == nil {
		return
	}
	if f.router != nil {
		f.router.Close()
		f.router = nil
	}
	f.stop()
	for _, s := range f.servers {
		s.Close()
	}
	f.running.Wait()
	if f.folder != "" {
		os.RemoveAll(f.folder)
		f.folder = ""
	}
}

// row adds the workers' own counts and the router's to what the clients saw.
func (f *demoFleet) row(ctx context.Context, r workload.Result) (demoRow, error) {
	declined, err := f.metric(ctx, "warmpath_hits_declined_total")
	if err != nil {
		return demoRow{}, err
	}
	row := demoRow{policy: f.policy, result: r, declined: int(declined)}
	var prompts, cached uint64
	var busy, busiest time.Duration
	for _, e := range f.engines {
		s := e.Stats()
		row.prefilled += int(s.PrefilledTokens)
		prompts, cached = prompts+s.PromptTokens, cached+s.CachedTokens
		busy, busiest = busy+s.BusyTime, max(busiest, s.BusyTime)
		row.slip += s.Slip
	}
	row.hitRate = float64(cached) / float64(max(prompts, 1))
	row.busiestOverMean = float64(busiest) * float64(len(f.engines)) / float64(max(busy, 1))
	return row, nil
}

// metric reads one family from the router's admin port and adds up its series.
func (f *demoFleet) metric(ctx context.Context, name string) (sum float64, err error) {
	reply, err := get(ctx, f.router.AdminURL()+"/metrics")
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || (rest[0] != ' ' && rest[0] != '{') {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += value
	}
	return sum, lines.Err()
}

func get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // rarely asked: no connection to keep, or to close later
	return http.DefaultClient.Do(request)
}
