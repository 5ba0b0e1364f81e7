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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/life"
)

// Simulated workers in this process, and the router before them: what demo and prove run.

const (
	// embeddedReadyMax is how long the router may take until it knows its workers.
	embeddedReadyMax  = 10 * time.Second
	embeddedReadyPoll = 20 * time.Millisecond
	// embeddedKeepAlive is how long the workers keep an idle connection, as the real engines' own servers do.
	embeddedKeepAlive = 5 * time.Second
)

// embeddedEngine is one simulated engine behind a port of its own.
type embeddedEngine struct {
	*engine.Server
	id, url string
	web     *http.Server
	open    atomic.Int64 // connections
}

// embeddedEngines are stopped together.
type embeddedEngines struct {
	engines []*embeddedEngine
	stop    context.CancelFunc
	running sync.WaitGroup
}

// alike are the options of n engines.
func alike(n int, o engine.Options) []engine.Options { return slices.Repeat([]engine.Options{o}, n) }

// startEngines starts an engine for each options, named sim-1 and so on. Its close also works after a failure half-way.
func startEngines(ctx context.Context, each []engine.Options) (*embeddedEngines, error) {
	ctx, stop := context.WithCancel(ctx)
	all := &embeddedEngines{stop: stop}
	for i, o := range each {
		if err := all.start(ctx, fmt.Sprintf("sim-%d", i+1), o); err != nil {
			all.close()
			return nil, err
		}
	}
	return all, nil
}

func (all *embeddedEngines) start(ctx context.Context, id string, o engine.Options) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e := &embeddedEngine{Server: engine.New(o), id: id, url: "http://" + listener.Addr().String()}
	e.web = &http.Server{Handler: e.Handler(), IdleTimeout: embeddedKeepAlive, ConnState: func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			e.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			e.open.Add(-1)
		}
	}}
	all.engines = append(all.engines, e)
	all.running.Go(func() { _ = e.Run(ctx) })            // it ends with ctx
	all.running.Go(func() { _ = e.web.Serve(listener) }) // it ends with Close
	return nil
}

// close stops the engines and waits for them.
func (all *embeddedEngines) close() {
	all.stop()
	for _, e := range all.engines {
		e.web.Close()
	}
	all.running.Wait()
}

// slip is the time by which the engines ran late in all, because this machine was too slow.
func (all *embeddedEngines) slip() (sum time.Duration) {
	for _, e := range all.engines {
		sum += e.Stats().Slip
	}
	return sum
}

// busiestOverMean is the busy time of the busiest engine over the mean.
func (all *embeddedEngines) busiestOverMean() float64 {
	var sum, most time.Duration
	for _, e := range all.engines {
		busy := e.Stats().BusyTime
		sum, most = sum+busy, max(most, busy)
	}
	return float64(most) * float64(len(all.engines)) / float64(max(sum, 1))
}

// embeddedFleet is the router before fresh engines.
type embeddedFleet struct {
	*embeddedEngines
	policy string
	router *router
	folder string // the router's secret and decision log, gone with it
}

// startFleet returns when the router is ready. change may alter the configuration first; it is given the fleet's own folder.
func startFleet(ctx context.Context, each []engine.Options, policy string, stderr io.Writer, change func(c *config.Config, folder string)) (*embeddedFleet, error) {
	engines, err := startEngines(ctx, each)
	if err != nil {
		return nil, err
	}
	f := &embeddedFleet{embeddedEngines: engines, policy: policy}
	if err := f.route(ctx, stderr, change); err != nil {
		f.close()
		return nil, fmt.Errorf("under %s: %w", policy, err)
	}
	return f, nil
}

func (f *embeddedFleet) route(ctx context.Context, stderr io.Writer, change func(*config.Config, string)) (err error) {
	c := config.Default()
	c.Listen, c.Admin, c.Policy = "127.0.0.1:0", "127.0.0.1:0", f.policy
	for _, e := range f.engines {
		c.Workers = append(c.Workers, config.Worker{ID: e.id, URL: e.url})
	}
	if f.folder, err = os.MkdirTemp("", "warmpath-"); err != nil {
		return err
	}
	c.StateDir = f.folder
	if change != nil {
		change(&c, f.folder)
	}
	if f.router, err = startRouter(c, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))); err != nil {
		return err
	}
	return awaitReady(ctx, f.router.DataURL())
}

// awaitReady returns when the router says that it is ready and every worker has been looked at.
func awaitReady(ctx context.Context, dataURL string) error {
	limited, cancel := context.WithTimeout(ctx, embeddedReadyMax)
	defer cancel()
	for !ready(limited, dataURL) {
		life.Pause(limited, embeddedReadyPoll)
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case limited.Err() != nil:
			return fmt.Errorf("the router was not ready within %v", embeddedReadyMax)
		}
	}
	return nil
}

func ready(ctx context.Context, dataURL string) bool {
	reply, err := get(ctx, dataURL+"/readyz")
	if err != nil {
		return false
	}
	reply.Body.Close()
	return reply.StatusCode == http.StatusOK
}

// close stops what was started and waits for it. A nil fleet has nothing to stop.
func (f *embeddedFleet) close() {
	if f == nil {
		return
	}
	f.closeRouter()
	f.embeddedEngines.close()
	if f.folder != "" {
		os.RemoveAll(f.folder)
		f.folder = ""
	}
}

// closeRouter stops the router alone; its decision log is whole then.
func (f *embeddedFleet) closeRouter() {
	if f.router != nil {
		f.router.Close()
		f.router = nil
	}
}

// scrape is one read of a /metrics page.
type scrape []string

func readMetrics(ctx context.Context, base string) (scrape, error) {
	reply, err := get(ctx, base+"/metrics")
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	var s scrape
	lines := bufio.NewScanner(reply.Body)
	for lines.Scan() {
		s = append(s, lines.Text())
	}
	return s, lines.Err()
}

// sum adds up the series of a family whose labels have each of the given texts in them, such as `worker="sim-1"`.
func (s scrape) sum(name string, labels ...string) (sum float64) {
	for _, line := range s {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || (rest[0] != ' ' && rest[0] != '{') {
			continue
		}
		for _, l := range labels {
			ok = ok && strings.Contains(rest, l)
		}
		if value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64); ok && err == nil {
			sum += value
		}
	}
	return sum
}

func get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // rarely asked: no connection to keep, or to close later
	return http.DefaultClient.Do(request)
}
