package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/handover"
	"github.com/warmpath/warmpath/internal/life"
	"github.com/warmpath/warmpath/internal/tenant"
)

// A router that makes way for another process on the same ports: the successor is started with the sockets, and with what this one knows; when it
// is ready this one takes no more connections, and ends with its last request. Until then nothing has changed.

// succession is how that stands.
type succession struct {
	self string     // the program, as it was started: what is there now is the successor's
	mu   sync.Mutex // one successor at a time
	may  context.Context
	stop context.CancelFunc // nobody takes over any more, because this process is to end
	done chan struct{}      // closed when one has taken over

	// Of the successor, once there is one.
	next   *handover.Successor
	spent  tenant.Spent // as it was told
	silent atomic.Bool  // the files of state are its to write
}

func (s *succession) begin() {
	s.self, s.done = ownProgram(), make(chan struct{})
	s.may, s.stop = context.WithCancel(context.Background())
}

// ownProgram is the program that this process was started as. The link that Linux keeps is of no use: it leads to the old file when a new one
// is in its place.
func ownProgram() string {
	self, err := exec.LookPath(os.Args[0])
	if err == nil {
		self, err = filepath.Abs(self)
	}
	if err != nil {
		return os.Args[0]
	}
	return self
}

// What stands against a successor.
var (
	errSucceeding = errors.New("a successor is being started already")
	errSucceeded  = errors.New("a successor has taken over already: this process only ends what is under way")
	errStopping   = errors.New("this process is about to end")
	errInit       = errors.New("this process is the first of its container, which ends with it: replace the container instead, behind a load balancer (docs/OPERATIONS.md)")
)

// upgradeReport is what whoever asked is told.
type upgradeReport struct {
	PID     int     `json:"pid"`     // of the successor
	From    int     `json:"from"`    // of this process
	Program string  `json:"program"` // that was started
	Running int     `json:"running"` // requests that end here
	Seconds float64 `json:"seconds"` // until it was ready
}

// upgrade has another process take over. An error says why it did not, and that nothing changed.
func (r *router) upgrade(why string) (upgradeReport, error) {
	if os.Getpid() == 1 {
		return upgradeReport{}, errInit
	}
	if !r.succession.mu.TryLock() {
		return upgradeReport{}, errSucceeding
	}
	defer r.succession.mu.Unlock()
	switch {
	case r.handedOver():
		return upgradeReport{}, errSucceeded
	case r.succession.may.Err() != nil:
		return upgradeReport{}, errStopping
	}
	began, limit := time.Now(), r.settings().HandoverTime
	r.log.Info("a successor is started", "asked_by", why, "program", r.succession.self, "limit", limit)
	ctx, cancel := context.WithTimeoutCause(r.succession.may, limit, fmt.Errorf("it may take %v (setting handover_timeout)", limit))
	defer cancel()
	estate, err := r.bequeath()
	var next *handover.Successor
	if err == nil {
		r.succession.silent.Store(true)
		next, err = handover.Start(ctx, handover.Next{Path: r.succession.self, Args: os.Args[1:], Sockets: r.sockets(), Ready: r.workersReady(), Estate: estate,
			Stdout: os.Stdout, Stderr: os.Stderr})
	}
	if err != nil {
		r.succession.silent.Store(false)
		r.log.Error("no successor: this process serves on", "asked_by", why, "error", err)
		return upgradeReport{}, err
	}
	report := upgradeReport{PID: next.PID, From: os.Getpid(), Program: r.succession.self, Running: r.proxy.Running(), Seconds: time.Since(began).Seconds()}
	r.succession.next = next
	close(r.succession.done)
	if err := handover.Notify(handover.MainPID(next.PID), handover.IsReady); err != nil {
		r.log.Warn("systemd was not told of the successor", "error", err)
	}
	r.log.Info("the successor has taken over", "pid", next.PID, "running", report.Running)
	return report, nil
}

func (r *router) handedOver() bool {
	select {
	case <-r.succession.done:
		return true
	default:
		return false
	}
}

// sockets are those that go on. A TLS port's are beneath its TLS.
func (r *router) sockets() (all []handover.Socket) {
	add := func(name, address string, l net.Listener) {
		tcp, ok := l.(*net.TCPListener)
		if !ok {
			return
		}
		if r.came.OfInit(name) {
			address = ""
		}
		all = append(all, handover.Socket{Name: name, Address: address, Listener: tcp})
	}
	add(handover.Data, r.settings().Listen, r.dataAt)
	add(handover.Admin, r.settings().Admin, r.adminAt)
	return all
}

// workersReady is how many workers can serve.
func (r *router) workersReady() (n int) {
	r.gate.View(func(v gate.View) {
		for _, w := range v.Workers {
			if w.Ready(v.Now) {
				n++
			}
		}
	})
	return n
}

// asManyTime is how long a successor waits for as many workers as could serve in the process before. One it waits for in any case: else it
// would refuse what the other could serve.
const asManyTime = 3 * time.Second

// awaitWorkers waits until this process can serve as well as the one that hands over.
func (r *router) awaitWorkers(ctx context.Context) error {
	there := r.came.ReadyThere()
	began := time.Now()
	for ctx.Err() == nil {
		n := r.workersReady()
		if n >= there || n > 0 && time.Since(began) >= asManyTime {
			return nil
		}
		life.Pause(ctx, drainPoll)
	}
	return context.Cause(ctx)
}

// Retire ends what is under way here after a successor took over: its connections get one more answer each, and those that ask for nothing are closed
// after a while. It returns how many requests were cut off at the limit. ctx ends the wait early.
func (r *router) Retire(ctx context.Context, limit time.Duration) int {
	r.data.Retire()
	r.stopFind()
	r.archive.feed.Close() // those who listen come again, to the successor
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	patience, enough := context.WithTimeout(ctx, quietTime)
	defer enough()
	var admin sync.WaitGroup
	if r.admin != nil {
		admin.Go(func() { r.admin.Shutdown(patience) }) // who asked for the successor may still have to be answered
	}
	for r.data.Connections() > 0 && patience.Err() == nil {
		life.Pause(patience, drainPoll)
	}
	for r.proxy.Running() > 0 && ctx.Err() == nil {
		life.Pause(ctx, drainPoll)
	}
	admin.Wait()
	return r.Drain(ctx, limit)
}

// quietTime is how long connections without a request are kept after a successor took over. A client may be sending on one just when it is closed, and
// cannot tell then whether it was heard; one that has been silent for so long hardly is.
const quietTime = 5 * time.Second

// legacy is the last that a process tells its successor.
type legacy struct {
	Spent tenant.Spent `json:"spent"` // since the successor read what had been spent
}

// leaveLegacy tells the successor what requests cost that ended here after it took over.
func (r *router) leaveLegacy() {
	if !r.handedOver() {
		return
	}
	text, err := json.Marshal(legacy{Spent: r.spentSince(r.succession.spent)})
	if err == nil {
		err = r.succession.next.Leave(text)
	}
	if err != nil {
		r.log.Warn("what tenants spent here at last could not be told to the successor", "error", err)
	}
}

// spentSince is what tenants spent after it was so much.
func (r *router) spentSince(was tenant.Spent) tenant.Spent {
	is, _ := r.desk.Spent(time.Now())
	if is.Day == was.Day {
		for name, m := range was.Money {
			is.Money[name] -= m
		}
	}
	return is
}

// takeLegacy takes what the process before tells at last.
func (r *router) takeLegacy() {
	text, err := r.came.Legacy()
	var l legacy
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		r.log.Warn("what tenants spent in the process before at last cannot be read", "error", err)
		return
	}
	r.desk.Restore(time.Now(), l.Spent)
}

// postUpgrade has a successor take over: POST /upgrade. The answer comes when it has.
func (r *router) postUpgrade(w http.ResponseWriter, _ *http.Request) {
	report, err := r.upgrade("the admin port")
	switch {
	case errors.Is(err, errSucceeding), errors.Is(err, errSucceeded), errors.Is(err, errStopping), errors.Is(err, errInit):
		refuse(w, http.StatusConflict, err.Error())
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, err.Error()+"; this process serves on")
	default:
		answer(w, http.StatusOK, report)
	}
}
