package kvbench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// PublishCommand is the argument that makes the binary publish as a fleet of engines, see Publish.
const PublishCommand = "bench-events"

const (
	stepBlocks   = 8                     // stored in one step of an engine, and as many removed
	stepEvery    = 40 * time.Millisecond // of one engine
	prefillShare = 2                     // 1/prefillShare of the blocks come together, the others alone, as decoding fills them
	fillSteps    = 250                   // before the first removal: 2,000 blocks a worker
	fillTimes    = 4                     // as fast as later steps
)

// fleet is engines that publish. Each step of one is a message.
type fleet struct {
	sockets []*zmtp.Publisher
	steps   []uint64 // of each
}

// publishAs makes a fleet that listens, and its endpoints.
func publishAs(workers int) (f *fleet, endpoints []string, err error) {
	f = &fleet{steps: make([]uint64, workers)}
	for range workers {
		p, err := zmtp.Publish("tcp://127.0.0.1:0", zmtp.Options{})
		if err != nil {
			f.close()
			return nil, nil, err
		}
		f.sockets, endpoints = append(f.sockets, p), append(endpoints, p.Endpoint())
	}
	return f, endpoints, nil
}

func (f *fleet) close() {
	for _, p := range f.sockets {
		p.Close()
	}
}

// heard waits until every engine has a subscriber.
func (f *fleet) heard(ctx context.Context) error {
	for _, p := range f.sockets {
		for p.Subscribers() == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			sleep(time.Millisecond)
		}
	}
	return nil
}

// step sends one engine's next message: blocks stored, and once it is full as many removed, each told alone.
func (f *fleet) step(worker int) {
	n := f.steps[worker]
	f.steps[worker]++
	stored := stepEvent(n, worker)
	together := stepBlocks / prefillShare
	events := []kvevent.Event{{Kind: kvevent.Stored, BlockTokens: blockTokens, Names: stored.Names[:together], Tokens: stored.Tokens[:together*blockTokens]}}
	for i := together; i < stepBlocks; i++ {
		events = append(events, kvevent.Event{Kind: kvevent.Stored, BlockTokens: blockTokens, Parent: stored.Names[i-1], HasParent: true,
			Names: stored.Names[i : i+1], Tokens: stored.Tokens[i*blockTokens : (i+1)*blockTokens]})
	}
	if n >= fillSteps {
		names := stepEvent(n-fillSteps, worker).Names
		for i := range names {
			at := len(names) - 1 - i
			events = append(events, kvevent.Event{Kind: kvevent.Removed, Names: names[at : at+1]})
		}
	}
	f.send(worker, n, events)
}

func (f *fleet) send(worker int, seq uint64, events []kvevent.Event) {
	f.sockets[worker].Send([]byte("kv"), binary.BigEndian.AppendUint64(nil, seq), kvevent.AppendBatch(nil, 1, 0, events))
}

// stepEvent is the chain that a worker stores in a step.
func stepEvent(step uint64, worker int) kvevent.Event {
	return storedEvent(uint32(step*500+uint64(worker))+1, worker, stepBlocks)
}

// run sends messages for ever, each at its own time, until ctx ends; the workers' first fillSteps come fillTimes as fast, and when they
// have been sent full is called.
func (f *fleet) run(ctx context.Context, full func()) {
	gap := stepEvery / time.Duration(len(f.sockets)) / fillTimes
	begun := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		if i == fillSteps*len(f.sockets) {
			full()
			begun, gap = begun.Add(time.Duration(i)*gap-time.Duration(i)*gap*fillTimes), gap*fillTimes
		}
		if wait := time.Until(begun.Add(time.Duration(i) * gap)); wait > 0 {
			sleep(wait)
		}
		f.step(i % len(f.sockets))
	}
}

// Publish plays a number of engines that tell what they cache, as vLLM does. It writes their endpoints to out, in one line, waits for a
// subscriber of each, and writes another line when their caches are full. It ends when in does.
func Publish(ctx context.Context, workers int, in io.Reader, out io.Writer) error {
	f, endpoints, err := publishAs(workers)
	if err != nil {
		return err
	}
	defer f.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with in, at the latest with the process, which is there for this alone
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	for _, e := range endpoints {
		fmt.Fprint(out, e, " ")
	}
	fmt.Fprintln(out)
	if err := f.heard(ctx); err != nil {
		return err
	}
	f.run(ctx, func() { fmt.Fprintln(out, "full") })
	return nil
}
