package kvbench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvfeed"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/zmtp"
)

const (
	socketWorkers  = 500
	socketOps      = 200_000 // block operations a second, of all of them
	socketCPUMost  = 40      // % of a core
	visibleMost    = 5.0     // ms
	probeEvery     = 4 * time.Millisecond
	probeBlocks    = 4
	probeLook      = 20 * time.Microsecond // between two looks for an event
	probeLost      = 2 * time.Second
	subscribedWait = time.Minute
)

const socketsMethod = `%d engines in a process of their own, each with a ZeroMQ socket, tell of a step every %v: %d blocks stored, half of them together and the others alone, and %d removed, each alone; the whole way is in it: socket, order, msgpack, token hashing, index;
CPU of this process only, which does nothing else, for %d block operations a second; then another engine tells of %d blocks every %v, and look-ups ask every %v whether they are there: the time from before the message is sent to the look-up that shows it; medians of %d rounds`

// sockets measures what a large fleet's events cost, and when they can be seen.
func sockets(ctx context.Context, o bench.Options, engines *engines) (bench.Section, error) {
	s := bench.Section{Name: "events from sockets",
		Method:  fmt.Sprintf(socketsMethod, socketWorkers, stepEvery, stepBlocks, stepBlocks, socketOps, probeBlocks, probeEvery, probeLook, o.Rounds),
		Columns: []string{"block_ops_s", "cpu_percent_of_a_core", "visible_p50_ms", "visible_p99_ms"}}
	debug.FreeOSMemory() // of what was measured before
	seed := prefix.NewSeed([]byte("bench"))
	x := kvindex.New(kvindex.Options{})
	feeds := kvfeed.New(x, kvfeed.Options{Seed: seed})
	defer feeds.Close()
	for i, endpoint := range engines.endpoints {
		feeds.Follow(kvfeed.Target{ID: strconv.Itoa(i), Slot: i, Rank: -1, Model: "bench", Events: endpoint})
	}
	fmt.Fprintf(o.Progress, "index: %d engines fill their caches\n", len(engines.endpoints))
	if err := engines.full(ctx); err != nil {
		return s, err
	}
	p, err := newProbe(ctx, x, feeds, seed, len(engines.endpoints))
	if err != nil {
		return s, err
	}
	defer p.socket.Close()
	var rates, percents, p50s, p99s []float64
	for range o.Rounds {
		fmt.Fprintln(o.Progress, "index: events from sockets")
		began, used, ops := time.Now(), cpu(), operations(x)
		sleep(o.Window)
		done, seconds := float64(operations(x)-ops), (cpu() - used).Seconds()
		rates = append(rates, done/time.Since(began).Seconds())
		percents = append(percents, 100*seconds/done*socketOps)
		l, err := p.run(ctx, o.Window)
		if err != nil {
			return s, err
		}
		p50s, p99s = append(p50s, l.p50/1000), append(p99s, l.p99/1000)
	}
	if st := x.Stats(); st.Unknown+st.Conflicts > 0 {
		return s, fmt.Errorf("%d removals of unknown blocks, %d conflicts: events were lost", st.Unknown, st.Conflicts)
	}
	percent, p99 := bench.Median(percents), bench.Median(p99s)
	s.Rows = []bench.Row{{Contestant: fmt.Sprintf("%d workers", len(engines.endpoints)), Values: []bench.Value{bench.Value(bench.Median(rates)), bench.Value(percent), bench.Value(bench.Median(p50s)), bench.Value(p99)}}}
	s.Checks = []bench.Check{
		{Name: fmt.Sprintf("%d block operations a second of %d workers", socketOps, len(engines.endpoints)), Value: bench.Value(percent), Limit: socketCPUMost, Unit: "% of a core", Pass: percent < socketCPUMost},
		{Name: "an event is seen by look-ups, p99", Value: bench.Value(p99), Limit: visibleMost, Unit: "ms", Pass: p99 <= visibleMost},
	}
	return s, nil
}

func operations(x *kvindex.Index) uint64 {
	s := x.Stats()
	return s.Stored + s.Removed
}

// engines is the process that publishes.
type engines struct {
	command   *exec.Cmd
	in        io.Closer
	out       *bufio.Reader
	endpoints []string
}

// startEngines has the binary self play that many.
func startEngines(ctx context.Context, self string, number int) (*engines, error) {
	e := &engines{command: exec.CommandContext(ctx, self, PublishCommand, strconv.Itoa(number))}
	e.command.Stderr = os.Stderr
	in, err := e.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := e.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	e.in, e.out = in, bufio.NewReader(out)
	if err := e.command.Start(); err != nil {
		return nil, err
	}
	line, err := e.out.ReadString('\n')
	if e.endpoints = strings.Fields(line); err != nil || len(e.endpoints) != number {
		e.close()
		return nil, fmt.Errorf("the engines' process said %q: %w", line, err)
	}
	return e, nil
}

// full waits until the engines' caches are.
func (e *engines) full(ctx context.Context) error {
	if line, err := e.out.ReadString('\n'); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("the engines' process said %q: %w", line, err))
	}
	return nil
}

func (e *engines) close() {
	e.in.Close()
	_ = e.command.Wait() // it has said all that it had to
}

// probe is one more engine, whose events are looked for.
type probe struct {
	x      *kvindex.Index
	seed   prefix.Seed
	socket *zmtp.Publisher
	slot   int
	seq    uint64
}

func newProbe(ctx context.Context, x *kvindex.Index, feeds *kvfeed.Manager, seed prefix.Seed, slot int) (*probe, error) {
	socket, err := zmtp.Publish("tcp://127.0.0.1:0", zmtp.Options{})
	if err != nil {
		return nil, err
	}
	feeds.Follow(kvfeed.Target{ID: strconv.Itoa(slot), Slot: slot, Rank: -1, Model: "bench", Events: socket.Endpoint()})
	for late := time.Now().Add(subscribedWait); socket.Subscribers() == 0; sleep(time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(late) {
			socket.Close()
			return nil, errors.Join(ctx.Err(), errors.New("the engine whose events are looked for has no subscriber"))
		}
	}
	return &probe{x: x, seed: seed, socket: socket, slot: slot}, nil
}

// run publishes from a goroutine of its own, and looks.
func (p *probe) run(ctx context.Context, window time.Duration) (latency, error) {
	type sent struct {
		keys []prefix.Key
		at   time.Time
	}
	out := make(chan sent)
	stop := make(chan struct{})
	go func() {
		defer close(out)
		tick := time.NewTicker(probeEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			e := stepEvent(p.seq, p.slot)
			e.Names, e.Tokens = e.Names[:probeBlocks], e.Tokens[:probeBlocks*blockTokens]
			payload := kvevent.AppendBatch(nil, 1, 0, []kvevent.Event{e})
			one := sent{keys: p.keys(e.Tokens), at: time.Now()}
			p.socket.Send([]byte("kv"), binary.BigEndian.AppendUint64(nil, p.seq), payload)
			p.seq++
			select {
			case <-stop:
				return
			case out <- one:
			}
		}
	}()
	defer func() {
		close(stop)
		for range out {
		}
	}()
	var took []time.Duration
	m := kvindex.Match{}
	for over := time.Now().Add(window); ctx.Err() == nil && time.Now().Before(over); {
		one := <-out
		for {
			m = p.x.Match(one.keys, m)
			if depth, _ := m.Of(p.slot); int(depth) == probeBlocks {
				break
			}
			if time.Since(one.at) > probeLost {
				return latency{}, fmt.Errorf("an event could not be seen %v after it was sent", probeLost)
			}
			sleep(probeLook)
		}
		took = append(took, time.Since(one.at))
	}
	slices.Sort(took)
	return quantiles(took), ctx.Err()
}

// keys are those of a chain's blocks, as requests have them.
func (p *probe) keys(tokens []uint32) (keys []prefix.Key) {
	key := p.seed.TokenRoot("bench", "")
	for ; len(tokens) > 0; tokens = tokens[blockTokens:] {
		key = p.seed.NextTokens(key, tokens[:blockTokens], nil)
		keys = append(keys, key)
	}
	return keys
}
