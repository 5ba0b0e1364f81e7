package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	streamEvents = 50
	streamConns  = 200
	streamPace   = 20 * time.Millisecond
	streamHold   = 200 * time.Millisecond

	openStreamsMax  = 10_000
	openPace        = time.Second
	openRampPerSec  = 2000
	descriptorsHeld = 200 // of the limit, for everything that is no stream

	cpuOfNginxBackToBack = 1.2
	cpuOfNginxPaced      = 1.6
	headEarlyLeast       = 0.9 // of the hold that a client must see between head and first event
	openBytesMost        = 40.0
	openLateMost         = 50.0
)

// Streams measures server-sent events: CPU a stream, how soon the head leaves, and many streams open at once.
func Streams(ctx context.Context, o Options) (Report, error) {
	o = o.WithDefaults()
	report := Report{Part: "streams"}
	f, err := startField(ctx, o, nameNginx, "HAProxy", nameOurs)
	if err != nil {
		return report, err
	}
	serial := new(atomic.Uint64)
	shapes := []streamShape{
		{"back to back", behaviour{Events: streamEvents}, saturatedConns, cpuOfNginxBackToBack},
		{"paced", behaviour{Events: streamEvents, Pace: streamPace}, streamConns, cpuOfNginxPaced},
	}
	for _, shape := range shapes {
		var s Section
		if s, err = shape.run(ctx, o, f, serial); err != nil {
			break
		}
		report.Sections = append(report.Sections, s)
	}
	if err == nil {
		var s Section
		if s, err = headFirst(ctx, o, f, serial); err == nil {
			report.Sections = append(report.Sections, s)
		}
	}
	f.stop()
	if err != nil {
		return report, err
	}
	s, err := openStreams(ctx, o)
	report.Sections = append(report.Sections, s)
	return report, err
}

// streamShape is one way for events to come.
type streamShape struct {
	name  string
	how   behaviour
	conns int
	most  float64 // CPU, of nginx's
}

func (shape streamShape) run(ctx context.Context, o Options, f *field, serial *atomic.Uint64) (Section, error) {
	if err := f.workers.behave(shape.how); err != nil {
		return Section{}, err
	}
	requests := newBodies(5, smallBytes, true)
	window := max(o.Window, time.Duration(shape.how.Events)*shape.how.Pace*3/2)
	results, order, err := f.runs(ctx, o, shape.name, func(c *contestant) (outcome, error) {
		wait := c.profile(o, "streams-"+shape.name[:4], int(window.Seconds()))
		got := load{addr: c.proc.Addr, conns: shape.conns, bodies: requests, serial: serial, events: streamEvents}.closed(ctx, window)
		return got, wait()
	})
	if err != nil {
		return Section{}, err
	}
	s := Section{Name: shape.name,
		Method: fmt.Sprintf("%d connections ask in a closed loop for streams of %d events, each written by itself, %v apart; bodies as in proxy; median of %d rounds of %v",
			shape.conns, shape.how.Events, shape.how.Pace, o.Rounds, window),
		Columns: []string{"streams/s", "CPU us a stream", "p50 ms", "p99 ms", "allocations", "least share"}}
	for _, name := range order {
		m := results[name]
		s.Rows = append(s.Rows, Row{name, []Value{Value(Median(m.rate)), Value(Median(m.cpu)), Value(Median(m.p50) / 1000), Value(Median(m.p99) / 1000),
			Value(Median(m.mallocs)), Value(Median(m.leastPut))}})
	}
	ours := results[nameOurs]
	s.Checks = append(s.Checks, Most("CPU a stream, of nginx's", Median(rounds(ours.cpu, results[nameNginx].cpu, ratio)), shape.most, "x"),
		least("share of the worker that got fewer", Median(ours.leastPut), shareLeast, ""))
	return s, nil
}

// headFirst looks whether a client has the head while the first event is still to come.
func headFirst(ctx context.Context, o Options, f *field, serial *atomic.Uint64) (Section, error) {
	if err := f.workers.behave(behaviour{Events: streamEvents, Hold: streamHold}); err != nil {
		return Section{}, err
	}
	holds := map[string][]float64{}
	requests := newBodies(6, smallBytes, true)
	results, order, err := f.runs(ctx, o, "head first", func(c *contestant) (outcome, error) {
		got := load{addr: c.proc.Addr, conns: 2, bodies: requests, serial: serial, events: streamEvents}.closed(ctx, 2*streamHold)
		holds[c.name] = append(holds[c.name], milliseconds(Quantile(got.holds, 0.5)))
		return got, nil
	})
	if err != nil {
		return Section{}, err
	}
	s := Section{Name: "head first",
		Method:  fmt.Sprintf("workers send the head at once and the first event %v later; time between the two at the client; median of %d rounds", streamHold, o.Rounds),
		Columns: []string{"head before first event ms"}}
	for _, name := range order {
		s.Rows = append(s.Rows, Row{results[name].name, []Value{Value(Median(holds[name]))}})
	}
	s.Checks = append(s.Checks, least("head before the first event", Median(holds[nameOurs]), headEarlyLeast*milliseconds(streamHold), "ms"))
	return s, nil
}

// streamsPossible is how many streams the descriptor limit leaves room for: the router holds two connections for each.
func streamsPossible() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return openStreamsMax
	}
	return min(openStreamsMax, (int(min(limit.Max, 1<<20))-descriptorsHeld)/2)
}

// openStreams holds many streams open and watches memory and lateness.
func openStreams(ctx context.Context, o Options) (Section, error) {
	f, err := startField(ctx, o, nameOurs)
	if err != nil {
		return Section{}, err
	}
	defer f.stop()
	n := streamsPossible()
	ramp := time.Duration(n) * time.Second / openRampPerSec
	window := 2 * o.Window
	events := int((2*ramp + time.Duration(o.Rounds)*window) / openPace)
	if err := f.workers.behave(behaviour{Events: events + 10, Pace: openPace}); err != nil {
		return Section{}, err
	}
	ours := f.all[1]
	before := ours.proc.Memory()
	w := watchers{addr: ours.proc.Addr, requests: newBodies(7, smallBytes, true)}
	hold, release := context.WithCancel(ctx)
	defer w.running.Wait()
	defer release()
	fmt.Fprintf(o.Progress, "open streams: opening %d\n", n)
	w.open(hold, n, ramp)
	time.Sleep(openPace)
	var p50, p99, worst, perStream, cores []float64
	for round := range o.Rounds {
		fmt.Fprintf(o.Progress, "open streams, round %d of %d: %d open\n", round+1, o.Rounds, w.opened.Load())
		w.take()
		cpu := ours.proc.CPU()
		wait := ours.profile(o, "open", int(window.Seconds()))
		time.Sleep(window)
		if err := wait(); err != nil {
			return Section{}, err
		}
		late := w.take()
		cores = append(cores, (ours.proc.CPU()-cpu).Seconds()/window.Seconds())
		p50, p99 = append(p50, milliseconds(Quantile(late, 0.5))), append(p99, milliseconds(Quantile(late, 0.99)))
		worst = append(worst, milliseconds(Quantile(late, 1)))
		perStream = append(perStream, float64(ours.proc.Memory()-before)/1024/float64(n))
	}
	if failed := w.failed.Load(); failed != nil {
		return Section{}, fmt.Errorf("open streams: %w", *failed)
	}
	s := Section{Name: "open streams",
		Method: fmt.Sprintf("%d streams open through the router, an event each every %v (%d is what the limit of open files leaves room for, %d wanted); an event's lateness is from the worker's write to the client's read; median of %d rounds of %v",
			n, openPace, n, openStreamsMax, o.Rounds, window),
		Columns: []string{"late p50 ms", "late p99 ms", "latest ms", "KB a stream", "CPU cores"},
		Rows:    []Row{{nameOurs, []Value{Value(Median(p50)), Value(Median(p99)), Value(Median(worst)), Value(Median(perStream)), Value(Median(cores))}}}}
	s.Checks = append(s.Checks, Most("lateness at p99", Median(p99), openLateMost, "ms"), Most("memory a stream", Median(perStream), openBytesMost, "KB"))
	return s, nil
}

// watchers read many streams and note how late their events come.
type watchers struct {
	addr     string
	requests *bodies
	running  sync.WaitGroup
	opened   atomic.Int64
	failed   atomic.Pointer[error]

	mu   sync.Mutex
	late []time.Duration
}

// open starts n streams, spread over a time.
func (w *watchers) open(ctx context.Context, n int, over time.Duration) {
	began := time.Now()
	for i := range n {
		time.Sleep(time.Until(began.Add(over * time.Duration(i) / time.Duration(n))))
		w.running.Go(func() { w.watch(ctx, uint64(i)) })
	}
}

func (w *watchers) watch(ctx context.Context, serial uint64) {
	k := &client{addr: w.addr, buf: make([]byte, 2048)}
	err := k.dial()
	if err == nil {
		c := k.c // k itself is this goroutine's
		defer context.AfterFunc(ctx, func() { c.Close() })()
		defer k.close()
		w.opened.Add(1)
		request, _ := w.requests.next(nil, serial)
		_, err = k.ask(request, func(late time.Duration) {
			w.mu.Lock()
			w.late = append(w.late, late)
			w.mu.Unlock()
		})
	}
	if err != nil && ctx.Err() == nil {
		w.failed.CompareAndSwap(nil, &err)
	}
}

// take returns what was noted since the last call.
func (w *watchers) take() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	late := w.late
	w.late = nil
	return late
}
