package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// options of a run.
type options struct {
	seed     uint64
	total    time.Duration
	rate     float64 // requests a second
	faults   float64 // a second
	binary   string  // of the router
	folder   string  // for what is needed to look into an anomaly
	sabotage string
	soak     bool
	first    bool // stop at the first anomaly
	keep     bool // keep the folder even if there is none
	out      io.Writer
}

// suite is a run under way.
type suite struct {
	turning sync.Mutex // held while the router ends and starts again
	o       options
	router  *router
	workers []*member
	judge   *judge
	clients *clients
	keeper  *keeper
	phases  phases

	base     time.Time // now less the time of the schedule that has passed
	number   int       // of the next request
	requests atomic.Int64
	faults   atomic.Int64
	sizes    [][]size // at rests, for each life of the router
	upset    context.Context
	stop     context.CancelFunc
}

// inFlightMax bounds the requests of clients at one time.
const inFlightMax = 400

// run is a whole run. It returns an error when it could not be made; anomalies are the keeper's.
func run(o options) (*suite, error) {
	s := &suite{o: o, phases: phasesOf(o.total)}
	asked, forget := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer forget()
	s.upset, s.stop = context.WithCancel(asked)
	defer s.stop()
	var err error
	if s.keeper, err = newKeeper(o, s.stop); err != nil {
		return nil, err
	}
	s.judge = newJudge(o.seed, o.rate, s.keeper.anomaly)
	defer s.end()
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.sitting()()
	if o.soak {
		if err := s.soak(); err != nil {
			return nil, err
		}
		return s, nil
	}
	plan := schedule(o.seed, s.phases, o.faults, s.router.can)
	if err := s.keeper.schedule(plan); err != nil {
		return nil, err
	}
	at := time.Duration(0)
	for _, until := range append(slices.Clone(s.phases.rests), o.total) {
		if s.upset.Err() != nil {
			break
		}
		s.segment(at, until, plan)
		s.rest()
		at = until
		fmt.Fprintf(o.out, "%5.0f s: %d requests, %d faults, %d anomalies\n", until.Seconds(), s.requests.Load(), s.faults.Load(), s.keeper.count())
	}
	s.judge.sit(true)
	if asked.Err() != nil {
		return nil, errors.New("interrupted; what was found until then is in " + o.folder)
	}
	s.grown()
	s.slower()
	return s, nil
}

// sitting has the judge at work from now on, until the function that it returns is called.
func (s *suite) sitting() (over func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		every := time.NewTicker(200 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				s.judge.sit(false)
			case <-ended:
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

// begin starts the workers and the router.
func (s *suite) begin() error {
	for i := range workersCount {
		port, err := freePort()
		if err != nil {
			return err
		}
		events := 0
		if served[i][0] == beta {
			if events, err = freePort(); err != nil {
				return err
			}
		}
		s.workers = append(s.workers, &member{name: workerName(i), key: "key-of-" + workerName(i), models: strings.Join(served[i], ","), port: port, events: events})
		if err := s.workers[i].start(s.judge.hear); err != nil {
			return err
		}
	}
	var err error
	if s.router, err = newRouter(s.o.binary, s.keeper.folder, s.workers); err != nil {
		return err
	}
	if err = s.router.start(); err != nil {
		return err
	}
	s.clients = &clients{address: s.router.data}
	s.sizes = append(s.sizes, nil)
	return nil
}

// end stops all processes.
func (s *suite) end() {
	if s.router != nil && s.router.cmd != nil && s.router.alive() {
		if err := s.router.stop(syscall.SIGTERM); err != nil {
			s.keeper.anomaly(anomaly{what: err.Error()})
		}
	}
	for _, w := range s.workers {
		w.kill()
	}
	if text, err := os.ReadFile(s.keeper.path("router.log")); err == nil {
		for _, bad := range []string{"panic", "DATA RACE", "fatal error"} {
			if strings.Contains(string(text), bad) {
				s.keeper.anomaly(anomaly{what: "the router's log has a " + bad})
			}
		}
	}
}

// segment lets traffic and faults run between two points of the schedule, and returns when both are over.
func (s *suite) segment(from, until time.Duration, plan []fault) {
	s.base = time.Now().Add(-from)
	if from >= s.phases.storm && s.judge.storm.IsZero() {
		s.judge.mu.Lock()
		s.judge.storm = time.Now()
		s.judge.mu.Unlock()
	}
	var all sync.WaitGroup
	all.Go(func() { s.traffic(from, until) })
	for _, f := range plan {
		if f.at >= from && f.at < until {
			all.Go(func() {
				if s.wait(s.base.Add(f.at)) {
					s.apply(f)
				}
			})
		}
	}
	all.Wait()
}

// wait waits until then; false when the run is to end.
func (s *suite) wait(then time.Time) bool {
	t := time.NewTimer(time.Until(then))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.upset.Done():
		return false
	}
}

// traffic sends the requests of a segment, each at its time, and returns when all are answered.
func (s *suite) traffic(from, until time.Duration) {
	var under sync.WaitGroup
	room := make(chan struct{}, inFlightMax)
	for due := s.base.Add(from); ; s.number++ {
		r := plan(s.o.seed, s.number, s.o.rate)
		if due = due.Add(r.at); due.Sub(s.base) >= until {
			break
		}
		if late := time.Since(due); late > time.Second { // a machine that cannot keep up gets fewer, not all at once
			due = due.Add(late)
		}
		if !s.wait(due) {
			break
		}
		s.judge.issue(s.number)
		room <- struct{}{}
		under.Go(func() {
			defer func() { <-room }()
			s.clients.do(r, func(res *result) {
				s.requests.Add(1)
				s.judge.end(res)
			})
		})
	}
	under.Wait()
}

// apply does what a fault says, and undoes it.
func (s *suite) apply(f fault) {
	s.keeper.applied(f)
	s.faults.Add(1)
	if f.action != switches && f.action != reloads {
		defer s.judge.fault(f)()
	}
	lasts := func() { s.wait(time.Now().Add(f.lasts)) }
	switch f.action {
	case kills:
		s.workers[f.worker].kill()
		lasts()
		if err := s.workers[f.worker].start(s.judge.hear); err != nil {
			s.keeper.anomaly(anomaly{what: err.Error()})
		}
	case freezes:
		s.workers[f.worker].signal(syscall.SIGSTOP)
		lasts()
		s.workers[f.worker].signal(syscall.SIGCONT)
	case turns:
		s.workers[f.worker].turn(f.mode, f.lasts)
		lasts()
	case drains, removes:
		s.takeOut(f, lasts)
	case switches:
		s.router.call(s.upset, http.MethodPost, "/policy", fmt.Sprintf(`{"policy":%q}`, f.policy))
		lasts()
		s.router.call(s.upset, http.MethodPost, "/policy", `{"policy":"warm-cost"}`)
	case flaps:
		if err := s.router.list(f.worker); err != nil {
			s.keeper.anomaly(anomaly{what: err.Error()})
		}
		lasts()
		s.router.list(-1)
	case reloads:
		if err := s.router.reload(); err != nil {
			s.keeper.anomaly(anomaly{what: err.Error()})
		}
	case restarts, crashes:
		s.restart(f)
	}
}

// takeOut drains or removes a worker by the admin port, and brings it back. Where the router restarts in between there is nothing to undo.
func (s *suite) takeOut(f fault, lasts func()) {
	w := s.workers[f.worker]
	method, path := http.MethodPost, "/workers/"+w.name+"/drain"
	if f.action == removes {
		method, path = http.MethodDelete, "/workers/"+w.name
	}
	s.router.call(context.Background(), method, path, "")
	lasts()
	pool := ""
	if poolOf(f.worker) != "" {
		pool = `,"pool":"long"`
	}
	s.router.call(context.Background(), http.MethodPost, "/workers", fmt.Sprintf(`{"url":"http://127.0.0.1:%d","id":%q,"key":%q,"model":%q%s}`, w.port, w.name, w.key, w.models, pool))
}

// restart ends the router and starts it again.
func (s *suite) restart(f fault) {
	s.turning.Lock() // a router that drains is not killed by the next fault
	defer s.turning.Unlock()
	how := syscall.SIGTERM
	if f.action == crashes {
		how = syscall.SIGKILL
	}
	if err := s.router.stop(how); err != nil {
		s.keeper.anomaly(anomaly{what: err.Error()})
	}
	s.clients.closeIdle()
	if err := s.router.start(); err != nil {
		s.keeper.anomaly(anomaly{what: err.Error()})
		s.stop()
	}
	s.clients.closeIdle()
	s.sizes = append(s.sizes, nil)
}
