package kvfeed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// feed follows one worker.
type feed struct {
	target Target
	o      *Options
	cancel context.CancelFunc
	index  *kvindex.Index
	asks   chan ask // holds one: the newest

	mu       sync.Mutex // guards the fields below; the index's lock may be taken while it is held
	tracker  *kvevent.Tracker
	closed   bool
	epoch    int // of the connection; a replay asked for on an earlier one is void
	source   Source
	err      error
	state    kvevent.State
	expected time.Time // since when events are overdue, zero: they are not
	lag      kvevent.Lag
}

type ask struct {
	from  uint64
	epoch int
}

func newFeed(t Target, x *kvindex.Index, o *Options, cancel context.CancelFunc) *feed {
	f := &feed{target: t, o: o, index: x, cancel: cancel, asks: make(chan ask, 1), state: kvevent.Waiting}
	f.tracker = kvevent.NewTracker(x, f.trackerOptions(true))
	return f
}

func (f *feed) trackerOptions(replay bool) kvevent.TrackerOptions {
	t := f.target
	return kvevent.TrackerOptions{Seed: f.o.Seed, Model: t.Model, Slot: t.Slot, Rank: t.Rank, Replay: replay, BlocksMax: t.BlocksMax}
}

// stop forgets what the worker holds, at once, and lets the goroutines end.
func (f *feed) stop() {
	f.cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.tracker.Close()
}

func (f *feed) status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Status{ID: f.target.ID, Source: f.source, Subscribed: f.epoch > 0 && f.err == nil, TrackerStats: f.tracker.Stats()}
	s.Lag, s.ClockOffset, s.Stamped = f.lag.Most(time.Now())
	if f.err != nil {
		s.Error = f.err.Error()
	}
	return s
}

func (f *feed) expect(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
	case f.expected.IsZero():
		f.expected = now
	case now.Sub(f.expected) > f.o.SilentAfter:
		f.tracker.Doubt()
		f.changed()
	}
}

// tell does something with the tracker, unless the worker was left, and passes on what it asks for.
func (f *feed) tell(do func(*kvevent.Tracker) kvevent.Ask) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if a := do(f.tracker); a.Wanted {
		select {
		case <-f.asks: // an older question is void
		default:
		}
		f.asks <- ask{a.From, f.epoch}
	}
	f.changed()
}

// changed reports a new state. The caller holds mu.
func (f *feed) changed() {
	if s := f.tracker.State(); s != f.state {
		f.o.Log.Info("cache events", "worker", f.target.ID, "state", string(s), "before", string(f.state))
		f.state = s
		f.o.OnState(f.target.ID, s)
	}
}

// failed notes why nothing comes; nil that something does.
func (f *feed) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && (f.err == nil || f.err.Error() != err.Error()) && !errors.Is(err, context.Canceled) {
		f.sayFailed(err)
	}
	f.err = err
}

// sayFailed logs why nothing comes, as a warning where events were asked for, or told of, or came before, or where several ranks are
// in the way: most engines publish none as they
// come, and the router does without. The caller holds mu.
func (f *feed) sayFailed(err error) {
	var ranks severalRanks
	if t := &f.target; errors.As(err, &ranks) || t.Events != "" || t.Told != "" || f.o.Template != "" || f.epoch > 0 {
		f.o.Log.Warn("cache events do not come", "worker", t.ID, "endpoint", f.source.Endpoint, "error", err.Error())
		return
	}
	said := []any{"worker", f.target.ID, "why", err.Error()}
	if hint := f.o.Hints[f.target.Engine]; hint != "" {
		said = append(said, "to_gain", hint)
	}
	f.o.Log.Info("no cache events: it is taken to have cached what it was sent", said...)
}

// run finds out where the worker publishes, then reads until ctx ends.
func (f *feed) run(ctx context.Context) {
	source, err := f.find(ctx)
	if err != nil {
		f.failed(err)
		return
	}
	f.mu.Lock()
	f.source = source
	if !f.closed && (source.Replay == "" || source.Polled) {
		f.tracker.Close()
		f.tracker = kvevent.NewTracker(f.index, f.trackerOptions(false))
	}
	f.mu.Unlock()
	if source.Polled {
		f.poll(ctx)
		return
	}
	var replays sync.WaitGroup
	if source.Replay != "" {
		replays.Go(func() { f.replays(ctx) })
	}
	f.subscribe(ctx)
	replays.Wait()
}

// subscribe connects, reads until that breaks, and connects again.
func (f *feed) subscribe(ctx context.Context) {
	var listener net.Listener
	defer func() {
		if listener != nil {
			_ = listener.Close()
		}
	}()
	backoff := f.o.BackoffMin
	for ctx.Err() == nil {
		var c *zmtp.Conn
		var err error
		if from := f.from(); from.Bind {
			c, err = f.accept(ctx, from.Endpoint, &listener)
		} else {
			c, err = zmtp.Dial(ctx, from.Endpoint, zmtp.SUB, f.o.Socket)
		}
		if err == nil {
			begun := time.Now()
			err = f.read(ctx, c)
			_ = c.Close()
			if time.Since(begun) > backoff {
				backoff = f.o.BackoffMin
			}
		}
		if ctx.Err() != nil {
			return // it was us who closed the connection
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the publisher closed the connection: its engine ended, or is no publisher of cache events")
		}
		f.failed(err)
		if !pause(ctx, backoff/2+rand.N(backoff)) {
			return
		}
		backoff = min(2*backoff, f.o.BackoffMax)
		f.findAgain(ctx)
	}
}

func (f *feed) from() Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.source
}

// findAgain looks whether an engine that told its endpoint has another one now: those that choose free ports do, after a restart.
func (f *feed) findAgain(ctx context.Context) {
	old := f.from()
	if old.Found != foundByEngine {
		return
	}
	if s, err := f.ask(ctx); err == nil && (s.Replay == "") == (old.Replay == "") {
		f.mu.Lock()
		f.source = s
		f.mu.Unlock()
	}
}

// accept waits for the engine to connect. The newest connection is the one that counts.
func (f *feed) accept(ctx context.Context, endpoint string, listener *net.Listener) (*zmtp.Conn, error) {
	network, address, err := zmtp.Address(endpoint)
	if err != nil {
		return nil, err
	}
	if *listener == nil {
		if *listener, err = net.Listen(network, address); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = (*listener).Close() })
	defer stop()
	conn, err := (*listener).Accept()
	if err != nil {
		return nil, err
	}
	c, err := zmtp.Handshake(conn, zmtp.SUB, f.o.Socket)
	if err != nil {
		_ = conn.Close()
	}
	return c, err
}

// read subscribes and takes messages until the connection breaks.
func (f *feed) read(ctx context.Context, c *zmtp.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.Subscribe(f.from().Topic); err != nil {
		return err
	}
	f.failed(nil)
	f.mu.Lock()
	f.epoch++
	f.lag = kvevent.Lag{} // another engine may have another clock
	f.mu.Unlock()
	f.tell((*kvevent.Tracker).Connected)
	var frames [][]byte
	for {
		var err error
		if frames, err = c.Receive(frames[:0]); err != nil {
			return err
		}
		seq, payload, err := message(frames)
		if err != nil {
			return err
		}
		came := time.Now()
		made, stamped := kvevent.Stamp(payload)
		f.tell(func(t *kvevent.Tracker) kvevent.Ask {
			f.expected = time.Time{}
			if stamped {
				f.lag.Note(came, made)
			}
			return t.Live(seq, payload)
		})
	}
}

// message takes the sequence number and the payload from the last two frames: what is in front of them differs.
func message(frames [][]byte) (seq uint64, payload []byte, err error) {
	if len(frames) < 2 || len(frames[len(frames)-2]) != 8 {
		return 0, nil, fmt.Errorf("a message of %d frames has no sequence number of 8 bytes before its payload: these are no cache events", len(frames))
	}
	return binary.BigEndian.Uint64(frames[len(frames)-2]), frames[len(frames)-1], nil
}

// pause waits, and is false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// endSeq is the number of a replay's end marker.
const endSeq = 1<<64 - 1

// replays answers the tracker's questions, one at a time and not too often.
func (f *feed) replays(ctx context.Context) {
	last := time.Time{}
	for {
		var a ask
		select {
		case <-ctx.Done():
			return
		case a = <-f.asks:
		}
		if !pause(ctx, time.Until(last.Add(f.o.ReplayPause))) {
			return
		}
		last = time.Now()
		told, err := f.replay(ctx, a)
		if err != nil && ctx.Err() == nil {
			f.o.Log.Debug("replay of cache events", "worker", f.target.ID, "endpoint", f.from().Replay, "error", err.Error())
		}
		f.tell(func(t *kvevent.Tracker) kvevent.Ask {
			if a.epoch != f.epoch {
				return kvevent.Ask{}
			}
			return t.ReplayEnded(told)
		})
	}
}

// replay asks once and takes what comes. told says that the engine marked the end.
func (f *feed) replay(ctx context.Context, a ask) (told bool, err error) {
	c, err := zmtp.Dial(ctx, f.from().Replay, zmtp.DEALER, f.o.Socket)
	if err != nil {
		return false, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.Send(nil, binary.BigEndian.AppendUint64(nil, a.from)); err != nil {
		return false, err
	}
	late := time.AfterFunc(f.o.ReplayWait, func() { _ = c.Close() })
	defer late.Stop()
	var frames [][]byte
	for {
		if frames, err = c.Receive(frames[:0]); err != nil {
			return false, err
		}
		late.Reset(f.o.ReplayWait)
		seq, payload, err := message(frames)
		switch {
		case err != nil:
			return false, err
		case seq == endSeq:
			return true, nil
		}
		f.tell(func(t *kvevent.Tracker) kvevent.Ask {
			if a.epoch == f.epoch {
				t.Replayed(seq, payload)
			}
			return kvevent.Ask{}
		})
	}
}

// hostOf is the host of a worker's URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "/")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	if host, _, err := net.SplitHostPort(rest); err == nil {
		return host
	}
	return strings.Trim(rest, "[]")
}
