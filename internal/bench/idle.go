package bench

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

const (
	idleWorkers    = 100
	idleSettle     = 3 * time.Second
	idleWarmup     = 2000 // requests before it is left alone
	idleCoreMost   = 5.0  // percent of a core
	idleMemoryMost = 80.0 // MB
)

// Idle measures what a router with many workers uses while nobody asks for anything: it goes on scraping them.
func Idle(ctx context.Context, o Options) (Report, error) {
	o = o.WithDefaults()
	report := Report{Part: "idle"}
	dir, err := os.MkdirTemp("", "warmpath-bench-*")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(dir)
	w, err := startWorkers(ctx, o, idleWorkers)
	if err != nil {
		return report, err
	}
	defer w.Stop()
	c, err := startOurs(o, dir, w.urls)
	if err != nil {
		return report, err
	}
	defer c.proc.Stop()
	requests := newBodies(8, smallBytes, false)
	first, _ := requests.next(nil, 0)
	if err := ready(ctx, c.proc, first); err != nil {
		return report, err
	}
	warm := load{addr: c.proc.Addr, conns: 4, bodies: requests, serial: new(atomic.Uint64)}.paced(ctx, idleSettle, idleWarmup/int(idleSettle.Seconds()))
	if warm.err != nil {
		return report, warm.err
	}
	var cores, memory []float64
	window := 2 * o.Window
	for round := range o.Rounds {
		fmt.Fprintf(o.Progress, "idle, round %d of %d\n", round+1, o.Rounds)
		cpu, began := c.proc.CPU(), time.Now()
		wait := c.profile(o, "idle", int(window.Seconds()))
		time.Sleep(window)
		if err := wait(); err != nil {
			return report, err
		}
		cores = append(cores, 100*(c.proc.CPU()-cpu).Seconds()/time.Since(began).Seconds())
		memory = append(memory, float64(c.proc.Memory())/1e6)
	}
	report.Sections = []Section{{Name: "idle",
		Method: fmt.Sprintf("%d workers with metrics pages of 50 KB, scraped every second, after %d requests; nobody asks for anything; median of %d rounds of %v",
			idleWorkers, idleWarmup, o.Rounds, window),
		Columns: []string{"CPU % of a core", "RSS MB"},
		Rows:    []Row{{nameOurs, []Value{Value(Median(cores)), Value(Median(memory))}}},
		Checks:  []Check{Most("CPU", Median(cores), idleCoreMost, "% of a core"), Most("memory", Median(memory), idleMemoryMost, "MB")}}}
	return report, ctx.Err()
}
