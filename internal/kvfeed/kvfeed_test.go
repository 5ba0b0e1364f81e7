package kvfeed

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/zmtp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seed = prefix.NewSeed([]byte("test"))

const block = 4

// chain is a prompt's tokens, our keys of its blocks and the engine's names for them; equal topics are equal prompts.
func chain(topic, blocks int) (tokens []uint32, keys []prefix.Key, names []uint64) {
	key, name := seed.TokenRoot("m", ""), uint64(topic)+1
	for i := range blocks {
		for j := range block {
			tokens = append(tokens, uint32(topic*100+i*block+j))
		}
		key = seed.NextTokens(key, tokens[i*block:], nil)
		name = (name + uint64(i)) * 0x9e3779b97f4a7c15
		keys, names = append(keys, key), append(names, name)
	}
	return tokens, keys, names
}

// fakeEngine publishes over real sockets, and keeps what it published for replays.
type fakeEngine struct {
	pub    *zmtp.Publisher
	replay *zmtp.Router

	mu    sync.Mutex
	log   [][]byte
	held  map[uint64]int
	asks  int
	spoil func(seq int, frames [][]byte) [][]byte // what a replay makes of a message; nil drops it
	mute  bool                                    // replays have no end marker
}

func startEngine(t *testing.T) *fakeEngine {
	t.Helper()
	e := &fakeEngine{held: map[uint64]int{}, spoil: func(_ int, f [][]byte) [][]byte { return f }}
	var err error
	if e.pub, err = zmtp.Publish("tcp://127.0.0.1:0", zmtp.Options{}); err != nil {
		t.Fatal(err)
	}
	if e.replay, err = zmtp.Route("tcp://127.0.0.1:0", zmtp.Options{}, e.answer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.pub.Close(); e.replay.Close() })
	return e
}

func number(seq int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(seq)) }

func (e *fakeEngine) answer(message [][]byte, reply func(...[]byte) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asks++
	for seq := int(binary.BigEndian.Uint64(message[1])); seq < len(e.log); seq++ {
		if frames := e.spoil(seq, [][]byte{{}, []byte("kv"), number(seq), e.log[seq]}); frames != nil {
			_ = reply(frames...)
		}
	}
	if !e.mute {
		_ = reply([]byte{}, []byte{}, number(-1), []byte{})
	}
}

// publish numbers and logs a message; send says how often it goes out.
func (e *fakeEngine) publish(send int, events ...kvevent.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	payload := kvevent.AppendBatch(nil, 1, 0, events)
	e.log = append(e.log, payload)
	for range send {
		e.pub.Send([]byte("kv"), number(len(e.log)-1), payload)
	}
}

// store computes a prompt: what follows the first block that is not cached, and the last one in any case.
func (e *fakeEngine) store(send, topic, blocks int) {
	tokens, _, names := chain(topic, blocks)
	e.mu.Lock()
	from := 0
	for from < blocks-1 && e.held[names[from]] > 0 {
		from++
	}
	for _, n := range names[from:] {
		e.held[n]++
	}
	e.mu.Unlock()
	ev := kvevent.Event{Kind: kvevent.Stored, Names: names[from:], Tokens: tokens[from*block:], BlockTokens: block, HasParent: from > 0}
	if from > 0 {
		ev.Parent = names[from-1]
	}
	e.publish(send, ev)
}

// remove takes out one copy of a prompt's last block.
func (e *fakeEngine) remove(send, topic, blocks int) {
	_, _, names := chain(topic, blocks)
	e.mu.Lock()
	e.held[names[blocks-1]] = max(0, e.held[names[blocks-1]]-1)
	e.mu.Unlock()
	e.publish(send, kvevent.Event{Kind: kvevent.Removed, Names: names[blocks-1:]})
}

func quick() Options {
	return Options{Seed: seed, BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond, ReplayWait: 100 * time.Millisecond, ReplayPause: time.Millisecond, PollInterval: time.Millisecond}
}

func manager(t *testing.T, o Options) (*Manager, *kvindex.Index) {
	x := kvindex.New(kvindex.Options{})
	m := New(x, o)
	t.Cleanup(m.Close)
	return m, x
}

func (e *fakeEngine) target(id string, slot int) Target {
	return Target{ID: id, Slot: slot, Rank: -1, Model: "m", URL: "http://127.0.0.1:1", Events: e.pub.Endpoint(), Replay: e.replay.Endpoint()}
}

// until waits for something to become so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick, over := time.NewTicker(time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("%s does not become so", what)
		}
	}
}

func depth(x *kvindex.Index, slot, topic, blocks int) int32 {
	_, keys, _ := chain(topic, blocks)
	return x.Match(keys, kvindex.Match{}).Depth[slot]
}

func TestAWorkerIsFollowedFromItsFirstMessageThoughWeCameLater(t *testing.T) {
	e := startEngine(t)
	e.store(1, 1, 6)
	m, x := manager(t, quick())
	m.Follow(e.target("a", 2))
	until(t, "what was replayed", func() bool { return depth(x, 2, 1, 6) == 6 })
	e.remove(1, 1, 6)
	until(t, "the removal", func() bool { return depth(x, 2, 1, 6) == 5 })
	m.Leave("a")
	if d := depth(x, 2, 1, 6); d != -1 {
		t.Errorf("a worker that was left still has %d blocks", d)
	}
	e.store(1, 1, 6)
}

func TestAnEngineThatPublishedNothingIsKnownToHoldNothing(t *testing.T) {
	e := startEngine(t)
	m, x := manager(t, quick())
	m.Follow(e.target("a", 0))
	until(t, "the answer that there is nothing", func() bool { return depth(x, 0, 1, 6) == 0 })
}

func TestKVE01ARestartedEngineIsFollowedAnew(t *testing.T) {
	e := startEngine(t)
	m, x := manager(t, quick())
	m.Follow(e.target("a", 0))
	e.store(1, 1, 6)
	until(t, "the first life", func() bool { return depth(x, 0, 1, 6) == 6 })
	events, replay := e.pub.Endpoint(), e.replay.Endpoint()
	e.pub.Close()
	e.replay.Close()
	next := &fakeEngine{held: map[uint64]int{}, spoil: e.spoil}
	var err error
	if next.replay, err = zmtp.Route(replay, zmtp.Options{}, next.answer); err != nil {
		t.Fatal(err)
	}
	defer next.replay.Close()
	if next.pub, err = zmtp.Publish(events, zmtp.Options{}); err != nil {
		t.Fatal(err)
	}
	defer next.pub.Close()
	next.store(1, 2, 3)
	until(t, "the second life", func() bool { return depth(x, 0, 2, 3) == 3 })
	if d := depth(x, 0, 1, 6); d != 0 {
		t.Errorf("%d blocks of the first life are left", d)
	}
}

func TestAPublisherThatWentIsToldInWords(t *testing.T) {
	e := startEngine(t)
	m, _ := manager(t, quick())
	m.Follow(e.target("a", 0))
	e.store(1, 1, 1)
	until(t, "it to be heard", func() bool { return m.Statuses()[0].State == kvevent.Exact })
	var gone net.Listener
	endpoint := strings.TrimPrefix(e.pub.Endpoint(), "tcp://")
	e.pub.Close()
	until(t, "the address to be free", func() (ok bool) {
		var err error
		gone, err = net.Listen("tcp", endpoint)
		return err == nil
	})
	defer gone.Close()
	go func() { // whoever is there now hangs up at once
		for conn, err := gone.Accept(); err == nil; conn, err = gone.Accept() {
			conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	until(t, "the reason", func() bool { return strings.Contains(m.Statuses()[0].Error, "the publisher closed the connection") })
}

func TestKVE02AHostilePublisherNeverMakesUsPromiseTooMuch(t *testing.T) {
	for s := range uint64(4) {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			r := rand.New(rand.NewPCG(s, 4))
			e := startEngine(t)
			e.mute = s%2 == 1
			cut := 0
			e.spoil = func(seq int, f [][]byte) [][]byte { // re-orders nothing, but cuts, drops and repeats
				if cut--; cut > 0 && cut < 3 {
					return nil
				}
				return f
			}
			m, x := manager(t, quick())
			m.Follow(e.target("a", 0))
			until(t, "the subscription", func() bool { return e.pub.Subscribers() == 1 })
			for i := range 300 {
				send := 1
				switch r.IntN(12) {
				case 0:
					send = 0
				case 1:
					send = 2
				}
				e.mu.Lock()
				cut = r.IntN(20)
				e.mu.Unlock()
				topic := r.IntN(20)
				switch r.IntN(5) {
				case 0, 1:
					e.remove(send, topic, 1+r.IntN(6))
				case 2:
					if i%50 == 0 {
						e.publish(send, kvevent.Event{Kind: kvevent.Cleared})
						e.mu.Lock()
						clear(e.held)
						e.mu.Unlock()
					}
				default:
					e.store(send, topic, 6)
				}
			}
			e.mu.Lock()
			cut = -1 << 30
			e.mu.Unlock()
			e.store(1, 100, 2)
			until(t, "the last message", func() bool { return depth(x, 0, 100, 2) == 2 })
			for topic := range 20 {
				_, _, names := chain(topic, 6)
				really := slices.IndexFunc(names, func(n uint64) bool { return e.held[n] == 0 })
				if really < 0 {
					really = 6
				}
				if d := depth(x, 0, topic, 6); d != int32(really) {
					t.Errorf("topic %d has %d blocks, the index says %d", topic, really, d)
				}
			}
			if st := m.Statuses()[0]; st.State != kvevent.Exact || st.Gaps+st.Repeats == 0 || st.Replayed == 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestKVE02ADeadReplaySocketIsNotAskedForEver(t *testing.T) {
	e := startEngine(t)
	e.mute = true
	e.spoil = func(int, [][]byte) [][]byte { return nil }
	m, x := manager(t, quick())
	m.Follow(e.target("a", 0))
	until(t, "the subscription", func() bool { return e.pub.Subscribers() == 1 })
	e.store(1, 1, 6)
	until(t, "the first message", func() bool { return depth(x, 0, 1, 6) == 6 })
	e.remove(0, 1, 6)
	e.store(1, 2, 6)
	until(t, "giving up", func() bool { return m.Statuses()[0].State == kvevent.Partial })
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := depth(x, 0, 1, 6); d != -1 || e.asks > 6 {
		t.Errorf("depth %d after %d questions", d, e.asks)
	}
}

func TestAnEngineMayConnectToUs(t *testing.T) {
	o := quick()
	m, x := manager(t, o)
	listener, err := zmtp.Publish("tcp://127.0.0.1:0", zmtp.Options{}) // a free port
	if err != nil {
		t.Fatal(err)
	}
	endpoint := listener.Endpoint()
	listener.Close()
	m.Follow(Target{ID: "a", Rank: -1, Model: "m", Events: "bind+" + endpoint})
	var c *zmtp.Conn
	until(t, "the connection", func() bool {
		c, err = zmtp.Dial(t.Context(), endpoint, zmtp.PUB, zmtp.Options{})
		return err == nil
	})
	defer c.Close()
	tokens, _, names := chain(1, 3)
	if err := c.Send([]byte("kv@pod@model"), number(0), kvevent.AppendBatch(nil, 1, 0, []kvevent.Event{{Kind: kvevent.Stored, Names: names, Tokens: tokens, BlockTokens: block}})); err != nil {
		t.Fatal(err)
	}
	until(t, "the message", func() bool { return depth(x, 0, 1, 3) == 3 })
}

func TestWorkersThatShouldTellAndDoNotAreDoubted(t *testing.T) {
	e := startEngine(t)
	m, x := manager(t, quick())
	m.Follow(e.target("a", 0))
	until(t, "the subscription", func() bool { return e.pub.Subscribers() == 1 })
	e.store(1, 1, 6)
	until(t, "the message", func() bool { return depth(x, 0, 1, 6) == 6 })
	now := time.Now()
	m.Expect("a", now)
	m.Expect("a", now.Add(29*time.Second))
	if d := depth(x, 0, 1, 6); d != 6 {
		t.Errorf("depth %d too early", d)
	}
	m.Expect("a", now.Add(31*time.Second))
	if d := depth(x, 0, 1, 6); d != -1 {
		t.Errorf("depth %d in spite of the silence", d)
	}
	e.store(1, 2, 6)
	until(t, "the next message", func() bool { return depth(x, 0, 1, 6) == 6 })
}

func TestIDX03WhatAWorkerHeldIsOutOfMemoryThoughNoEventComesAfterIt(t *testing.T) {
	m, x := manager(t, quick())
	engines := map[string]*fakeEngine{"a": startEngine(t), "b": startEngine(t), "c": startEngine(t)}
	for id, e := range engines {
		slot := int(id[0] - 'a')
		m.Follow(e.target(id, slot))
		for topic := range 20 {
			e.store(1, 100*slot+topic, 6)
		}
		until(t, "what "+id+" said", func() bool { return depth(x, slot, 100*slot+19, 6) == 6 })
	}
	m.Leave("a")
	m.Leave("b")
	until(t, "what two held to be swept out", func() bool { s := x.Stats(); return s.Pairs == 120 && s.Dying == 0 })
	if d := depth(x, 2, 219, 6); d != 6 {
		t.Errorf("of the third %d blocks are left", d)
	}
}
