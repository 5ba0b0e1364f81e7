package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// outcome is what a load saw.
type outcome struct {
	requests  int
	elapsed   time.Duration
	latencies []time.Duration // to the end of each answer
	heads     []time.Duration
	holds     []time.Duration // from the head to the first piece of the body
	err       error           // the first
}

// load is a number of connections that ask in turn.
type load struct {
	addr   string
	conns  int
	bodies *bodies
	events int // that each answer must have; 0 for answers that are no stream
	serial *atomic.Uint64
}

// closed asks on every connection as fast as answers come, for a window.
func (l load) closed(ctx context.Context, window time.Duration) outcome {
	return l.each(ctx, window, func(int, time.Time) func() bool { return func() bool { return true } })
}

// paced asks so many times a second over all connections together, each at its own times whatever the answers take.
func (l load) paced(ctx context.Context, window time.Duration, perSecond int) outcome {
	gap := time.Duration(l.conns) * time.Second / time.Duration(perSecond)
	return l.each(ctx, window, func(conn int, began time.Time) func() bool {
		due := began.Add(gap * time.Duration(conn) / time.Duration(l.conns))
		return func() bool {
			time.Sleep(time.Until(due))
			due = due.Add(gap)
			return true
		}
	})
}

func (l load) each(ctx context.Context, window time.Duration, pace func(conn int, began time.Time) func() bool) outcome {
	var mu sync.Mutex
	var all outcome
	var running sync.WaitGroup
	began := time.Now()
	over := began.Add(window)
	for i := range l.conns {
		running.Go(func() {
			one := l.one(ctx, over, pace(i, began))
			mu.Lock()
			defer mu.Unlock()
			all.requests += one.requests
			all.latencies = append(all.latencies, one.latencies...)
			all.heads = append(all.heads, one.heads...)
			all.holds = append(all.holds, one.holds...)
			if all.err == nil {
				all.err = one.err
			}
		})
	}
	running.Wait()
	all.elapsed = time.Since(began)
	return all
}

func (l load) one(ctx context.Context, over time.Time, wait func() bool) (o outcome) {
	k := newClient(l.addr)
	defer k.close()
	var buf []byte
	for wait() && time.Now().Before(over) && ctx.Err() == nil {
		buf, _ = l.bodies.next(buf, l.serial.Add(1))
		a, err := k.ask(buf, nil)
		if err == nil && a.events != l.events {
			err = fmt.Errorf("an answer had %d events, want %d", a.events, l.events)
		}
		if err != nil {
			o.err = err
			return o
		}
		o.requests++
		o.latencies = append(o.latencies, a.end)
		o.heads = append(o.heads, a.head)
		o.holds = append(o.holds, a.first-a.head)
	}
	return o
}
