package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/handover"
	"github.com/warmpath/warmpath/internal/life"
)

// serve's process: what it is told by signals, and how it begins and ends.

// atStart are the signals of a process that serves, heard before it has read its flags: SIGHUP would end it then.
var atStart = make(chan os.Signal, 8)

// hear has signals come to a channel, and is done as early as main can.
func hear(signals chan os.Signal) {
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR2)
}

// orders are what signals ask for. Of each kind one may wait.
type orders struct {
	stop     chan os.Signal
	reload   chan struct{}
	upgrade  chan struct{}
	starting context.Context // ends with the first wish to stop
	giveUp   context.CancelFunc
	ending   chan struct{}
	sorting  sync.WaitGroup
}

// follow sorts signals until close.
func follow(signals <-chan os.Signal) *orders {
	o := &orders{stop: make(chan os.Signal, 2), reload: make(chan struct{}, 1), upgrade: make(chan struct{}, 1), ending: make(chan struct{})}
	o.starting, o.giveUp = context.WithCancel(context.Background())
	o.sorting.Go(func() {
		for {
			select {
			case s := <-signals:
				o.sort(s)
			case <-o.ending:
				return
			}
		}
	})
	return o
}

func (o *orders) sort(s os.Signal) {
	ask := func(c chan struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	switch s {
	case syscall.SIGHUP:
		ask(o.reload)
	case syscall.SIGUSR2:
		ask(o.upgrade)
	default:
		o.giveUp()
		select {
		case o.stop <- s:
		default:
		}
	}
}

func (o *orders) close() {
	o.giveUp()
	close(o.ending)
	o.sorting.Wait()
}

// runServe serves until a signal, then drains, or until a successor took over. again reads the configuration's file again; nil: there is none.
func runServe(signals chan os.Signal, came *handover.Inherited, stdout, stderr io.Writer, cfg config.Config, file string, again func() (config.Config, error)) error {
	hear(signals)
	defer signal.Stop(signals)
	o := follow(signals)
	defer o.close()
	log := newLogger(stderr, cfg)
	found := len(cfg.Workers) == 0 && !cfg.Discovery.Any()
	if found {
		var err error
		cfg.Workers, err = findLocal(o.starting, stderr)
		if o.starting.Err() != nil {
			return nil // nothing has begun yet that would have to end
		}
		if err != nil {
			return err
		}
	}
	r, err := succeed(o.starting, cfg, log, came)
	if err != nil {
		return err
	}
	defer r.Close()
	r.canReload(file, found, again)
	fmt.Fprintf(stdout, "serving on %s/v1 (policy %s, %s)\n", r.DataURL(), cfg.Policy, whoIsThere(cfg))
	if r.AdminURL() != "" {
		fmt.Fprintf(stdout, "admin on %s (/metrics, /state)\n", r.AdminURL())
	}
	r.begun()
	for {
		select {
		case <-o.reload:
			_, _ = r.reload("SIGHUP", false) // the log tells
		case <-o.upgrade:
			r.running.Go(func() { _, _ = r.upgrade("SIGUSR2") }) // likewise
		case s := <-o.stop:
			r.end(o, log, s)
			return nil
		case <-r.succession.done:
			r.makeWay(o, log)
			return nil
		}
	}
}

// begun tells whoever waits for it that this process serves.
func (r *router) begun() {
	if from := r.came.From(); from != 0 {
		r.log.Info("took over", "from", from)
		r.running.Go(r.takeLegacy)
	}
	r.came.Ready()
	if r.came.From() == 0 { // else the one before does, which is still the one that systemd listens to
		r.notify(handover.IsReady)
	}
}

// notify tells systemd, where it is there.
func (r *router) notify(lines ...string) {
	if r.handedOver() {
		return // it is the successor's to tell
	}
	if err := handover.Notify(lines...); err != nil {
		r.log.Warn("systemd was not told", "error", err)
	}
}

// end ends the process after a signal: unready first, then without new requests, and at last without those that take too long.
func (r *router) end(o *orders, log *slog.Logger, s os.Signal) {
	r.succession.stop()
	c := r.settings()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	patient := o.untilAgain(log, cancel, 1)
	defer patient()
	r.notify(handover.IsStopping)
	if c.DrainDelay > 0 && s != os.Interrupt { // nobody at a terminal is a load balancer
		log.Info("unready: requests are still taken for a while", "signal", s.String(), "delay", c.DrainDelay)
		r.Leave(ctx, c)
	}
	log.Info("stopping: no new requests, running ones go on", "signal", s.String(), "running", r.proxy.Running(), "limit", c.DrainTimeout)
	if cut := r.Drain(ctx, c.DrainTimeout); cut > 0 {
		log.Warn("requests cut off at the end of the drain", "requests", cut)
	}
}

// makeWay ends the process after a successor took over. The first wish to stop is one that all processes of a service are sent.
func (r *router) makeWay(o *orders, log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	patient := o.untilAgain(log, cancel, 2)
	defer patient()
	if cut := r.Retire(ctx, r.settings().DrainTimeout); cut > 0 {
		log.Warn("requests cut off at the end of the drain", "requests", cut)
	}
	log.Info("ended: the successor serves", "pid", r.succession.next.PID)
}

// untilAgain has so many more wishes to stop end the patience, until the function that it returns is called.
func (o *orders) untilAgain(log *slog.Logger, stop context.CancelFunc, times int) (end func()) {
	over := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for left := times; left > 0; left-- {
			select {
			case s := <-o.stop:
				if left == 1 {
					log.Warn("second signal: stopping at once", "signal", s.String())
					stop()
				}
			case <-over:
				return
			}
		}
	})
	return func() { close(over); waiting.Wait() }
}

// Leave makes the router unready while it goes on to take requests, until drain_delay is over or ctx ends. Answers say that their connection ends
// with them, so that clients come back elsewhere.
func (r *router) Leave(ctx context.Context, c *config.Config) {
	r.leaving.Store(true)
	r.data.Part()
	life.Pause(ctx, c.DrainDelay)
}
