package kvevent

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
)

// TrackerOptions say whose events a Tracker follows. Zero bounds are taken from DefaultTrackerOptions.
type TrackerOptions struct {
	Seed   prefix.Seed
	Model  string // the base model; part of every key, see prefix.Seed.TokenRoot
	Slot   int    // the worker's
	Rank   int    // its data-parallel rank; batches of others on the same socket are passed over; -1 takes all
	Replay bool   // the engine can be asked for messages that were lost
	// BlocksMax is how many blocks the engine's cache holds, 0 unknown. Knowledge that began in the middle is complete once so many were
	// stored in a row that all had a known parent.
	BlocksMax int

	HeldBytesMax    int // messages that wait for a replay
	OrphanTokensMax int // tokens of blocks whose parent is not known
	AsksMax         int // replays in a row that bring nothing new, before what is missing is given up
}

// DefaultTrackerOptions are the defaults of the bounds as visible values.
func DefaultTrackerOptions() TrackerOptions {
	return TrackerOptions{Rank: -1, HeldBytesMax: 16 << 20, OrphanTokensMax: 1 << 18, AsksMax: 3}
}

// Ask is what a Tracker wants of the replay socket.
type Ask struct {
	Wanted bool
	From   uint64 // the first sequence number that is missing
}

// State is what a Tracker knows of its engine's cache.
type State string

// The states. Only in Exact the index answers for the worker.
const (
	Waiting  State = "waiting"  // nothing has come yet
	Catching State = "catching" // something is missing, and a replay may bring it
	Partial  State = "partial"  // it began in the middle, or something was lost: what it knows is right but not all there is
	Silent   State = "silent"   // what it knows was exact, but messages that should come do not
	Exact    State = "complete" // of what it holds; how a worker is known takes its prompts' tokens, too, and has words of its own
)

// TrackerStats are totals since the start, but for the first group.
type TrackerStats struct {
	State        State
	Next         uint64 // sequence number expected next
	Orphans      int    // blocks whose parent is not known
	HeldMessages int
	SlidingToo   bool // the engine has layers with a window: a hit may be shorter than what full-attention layers hold

	Messages, Stored, Removed, Cleared uint64 // messages applied; blocks; clears
	Gaps, Restarts, Forgotten          uint64 // messages missing, engines begun anew, times all was forgotten
	Repeats, Replayed                  uint64 // messages that came again, and that a replay brought
	Undecodable, UnknownEvents         uint64
	OtherRank, OtherGroup, OtherTier   uint64 // batches, events and events that are not the worker's, tracked or known
	Silences                           uint64 // times that no message came when some should have
	Malformed, OrphansDropped          uint64 // events that contradict themselves; blocks given up
}

// Tracker turns one engine's messages into what the index holds of one worker. It checks their order, has what is missing replayed, and
// says when its knowledge is complete. Tokens are hashed here, into the keys that requests have; the engine's hashes are only names. It is
// not synchronised, and knows no time and no sockets: kvfeed calls it.
//
// Live gets every message as it comes. When the Ask it returns is wanted, the caller asks the replay socket and gives the answers to
// Replayed and the end, or that none came, to ReplayEnded, which may ask again.
type Tracker struct {
	o       TrackerOptions
	x       *kvindex.Index
	handle  kvindex.Handle
	decoder Decoder

	started  bool // some message was seen, or it is known that there was none
	catching bool // live messages are held until a replay has brought what is missing
	missing  bool // while catching: a message came live that has a gap in front of it
	verify   bool // the replay's first message must be the last that was applied: the engine may be another
	next     uint64
	asks     int
	asked    uint64 // next when the last replay was asked for
	skipped  bool   // the replay at hand has a gap: what is left of it is of no use
	trimmed  uint64 // where the last replay began, when that was behind what was asked for
	held     []heldMessage
	heldSize int
	marks    [marksKept]mark // digests of the last messages, by sequence number

	partial  bool
	inARow   int // blocks stored since the last one without a known parent
	group    int // the layers that are followed; -1 not known yet
	removals []uint64
	left     []int
	tier     kvindex.Tier // of removals
	keys     []prefix.Key
	orphans  orphans
	silent   bool
	told     bool // the index may answer for the worker
	stats    TrackerStats
}

type heldMessage struct {
	seq     uint64
	payload []byte
}

type mark struct {
	seq    uint64
	digest prefix.Key
}

// marksKept is how many messages are known again when they are repeated.
const marksKept = 256

// NewTracker opens the worker's slot in the index; Close must be called.
func NewTracker(x *kvindex.Index, o TrackerOptions) *Tracker {
	d := DefaultTrackerOptions()
	if o.HeldBytesMax <= 0 {
		o.HeldBytesMax = d.HeldBytesMax
	}
	if o.OrphanTokensMax <= 0 {
		o.OrphanTokensMax = d.OrphanTokensMax
	}
	if o.AsksMax <= 0 {
		o.AsksMax = d.AsksMax
	}
	t := &Tracker{o: o, x: x, handle: x.Open(o.Slot), group: -1}
	t.orphans.tokensMax = o.OrphanTokensMax
	return t
}

// Close forgets all. Nothing comes back afterwards, whatever is still called.
func (t *Tracker) Close() { t.x.Close(t.handle) }

// Connected says that a connection stands, the first or a new one, and that messages may have been missed. It asks for what there is.
func (t *Tracker) Connected() Ask {
	if !t.o.Replay {
		return Ask{}
	}
	t.catching, t.asks = true, 0
	t.complete()
	if t.started && t.next > 0 {
		t.verify = true
		return t.ask(t.next - 1)
	}
	return t.ask(t.next)
}

func (t *Tracker) ask(from uint64) Ask {
	t.asked, t.skipped = t.next, false
	return Ask{true, from}
}

// Live takes a message as it came from the publisher.
func (t *Tracker) Live(seq uint64, payload []byte) Ask {
	switch {
	case t.catching:
		return t.liveWhileCatching(seq, payload)
	case !t.started && seq == 0, t.started && seq == t.next:
		t.apply(seq, payload)
		return Ask{}
	case !t.started:
		return t.gap(seq, payload)
	case seq > t.next:
		t.stats.Gaps++
		return t.gap(seq, payload)
	case t.repeats(seq, payload):
		t.stats.Repeats++
		return Ask{}
	}
	t.restart()
	return t.Live(seq, payload)
}

// liveWhileCatching holds the message, unless it closes the gap by itself or shows that the engine began anew.
func (t *Tracker) liveWhileCatching(seq uint64, payload []byte) Ask {
	if seq == 0 && t.next > 0 && !t.repeats(seq, payload) {
		t.restart()
		t.caughtUp()
		t.apply(seq, payload)
		return Ask{}
	}
	t.hold(seq, payload)
	if !t.verify && len(t.held) > 0 && t.held[0].seq <= t.next && t.drainHeld() {
		t.caughtUp()
	}
	return Ask{}
}

// restart forgets all: the engine began anew, with an empty cache and at 0.
func (t *Tracker) restart() {
	t.stats.Restarts++
	t.forget()
	t.started, t.partial, t.next, t.trimmed, t.group = false, false, 0, 0, -1
	clear(t.marks[:])
}

// caughtUp ends the wait for a replay.
func (t *Tracker) caughtUp() {
	t.catching, t.verify, t.skipped, t.missing = false, false, false, false
	t.dropHeld()
	t.complete()
}

// gap deals with a message behind some that are missing.
func (t *Tracker) gap(seq uint64, payload []byte) Ask {
	if !t.o.Replay {
		t.giveUp(seq)
		t.apply(seq, payload)
		return Ask{}
	}
	t.catching, t.asks = true, 0
	t.complete()
	t.hold(seq, payload)
	return t.ask(t.next)
}

// giveUp accepts that what is before seq is lost: all that is known may be wrong by now.
func (t *Tracker) giveUp(seq uint64) {
	t.forget()
	t.partial, t.next, t.started = true, seq, true
}

func (t *Tracker) forget() {
	t.stats.Forgotten++
	t.handle = t.x.Clear(t.handle)
	t.told = false
	t.orphans.clear()
	t.inARow = 0
}

// hold keeps a message for later, in the order of their numbers.
func (t *Tracker) hold(seq uint64, payload []byte) {
	if t.heldSize+len(payload) > t.o.HeldBytesMax {
		t.dropHeld() // the replay has them too, or else there is a gap again
	}
	t.missing = t.missing || seq > t.next
	at, _ := slices.BinarySearchFunc(t.held, seq, func(m heldMessage, seq uint64) int { return cmp.Compare(m.seq, seq) })
	t.held = slices.Insert(t.held, at, heldMessage{seq, slices.Clone(payload)})
	t.heldSize += len(payload)
	t.stats.HeldMessages = len(t.held)
}

func (t *Tracker) dropHeld() { t.held, t.heldSize, t.stats.HeldMessages = nil, 0, 0 }

// Replayed takes a message as the replay socket brought it.
func (t *Tracker) Replayed(seq uint64, payload []byte) {
	if !t.catching || t.skipped {
		return
	}
	t.stats.Replayed++
	if t.verify {
		t.verify = false
		if seq+1 == t.next && !t.repeats(seq, payload) {
			t.restart() // another message stands in its place: it is another engine, of which all is wanted
			t.skipped = seq > 0
		}
	}
	switch {
	case t.skipped || seq < t.next:
	case seq == t.next:
		t.apply(seq, payload)
	case t.next == t.asked && t.trimmed == seq:
		// Twice the answer began there: the engine's buffer does not reach back to what is missing. Learn anew from where it begins.
		t.giveUp(seq)
		t.apply(seq, payload)
	default:
		if t.next == t.asked {
			t.trimmed = seq
		}
		t.skipped = true // dropped on the way, perhaps: ask again from the last good one
	}
}

// ReplayEnded says that no more comes: told is whether the engine said so itself. It is asked again while something is missing and answers
// bring something. An answer without an end proves nothing, unless it meets the messages that came live meanwhile, or asking again from
// its last message brings none.
func (t *Tracker) ReplayEnded(told bool) Ask {
	switch {
	case !t.catching:
		return Ask{}
	case t.verify && told:
		t.restart() // an engine that does not know its own last message is another one
		t.verify, t.asks = false, 0
		return t.ask(0)
	case told && !t.started && !t.skipped && len(t.held) == 0:
		t.started = true // nothing was ever published
	}
	met := len(t.held) > 0
	if !t.verify && !t.skipped && t.drainHeld() && (met || told && t.started) {
		t.caughtUp()
		return Ask{}
	}
	if t.asks++; t.next > t.asked {
		t.asks = 0
	}
	if t.asks < t.o.AsksMax {
		if t.verify {
			return t.ask(t.next - 1)
		}
		return t.ask(t.next)
	}
	if t.started && len(t.held) == 0 && (t.missing || t.skipped) {
		t.giveUp(t.next)
	}
	for !t.drainHeld() {
		t.giveUp(t.held[0].seq)
	}
	t.caughtUp()
	return Ask{}
}

// drainHeld applies the messages that waited, up to the first that has a gap in front of it. It is true when none is left.
func (t *Tracker) drainHeld() bool {
	for len(t.held) > 0 {
		m := t.held[0]
		if m.seq < t.next && !t.repeats(m.seq, m.payload) {
			t.restart()
		}
		if m.seq > t.next {
			return false
		}
		if m.seq == t.next {
			t.apply(m.seq, m.payload)
		}
		t.held = t.held[1:]
		t.heldSize -= len(m.payload)
	}
	t.dropHeld()
	return true
}

// repeats says whether the message is one of the last that were applied, and notes nothing.
func (t *Tracker) repeats(seq uint64, payload []byte) bool {
	m := t.marks[seq%marksKept]
	return m.digest != 0 && m.seq == seq && m.digest == t.digest(payload)
}

func (t *Tracker) digest(payload []byte) prefix.Key { return t.o.Seed.Next(1, payload) }

// Polled takes events from an engine that numbers them one by one and keeps none for a second asking.
func (t *Tracker) Polled(seq uint64, b *Batch) {
	switch {
	case t.started && seq == t.next:
	case t.started && seq < t.next:
		t.restart()
		if seq > 0 {
			t.giveUp(seq)
		}
	case t.started || seq > 0:
		t.stats.Gaps++
		t.giveUp(seq)
	}
	t.started, t.next = true, seq+1
	t.stats.Messages++
	t.Apply(b)
}

// Doubt says that messages should have come and did not: until the next one the index does not answer for the worker.
func (t *Tracker) Doubt() {
	if !t.silent {
		t.silent = true
		t.stats.Silences++
		t.complete()
	}
}

// State says how much is known.
func (t *Tracker) State() State {
	switch {
	case t.catching && t.started:
		return Catching
	case !t.started:
		return Waiting
	case t.partial:
		return Partial
	case t.silent:
		return Silent
	}
	return Exact
}

// complete tells the index whether it may answer for the worker.
func (t *Tracker) complete() {
	if exact := t.State() == Exact; exact != t.told {
		t.told = exact
		t.x.Complete(t.handle, exact)
	}
}

// Stats returns what was counted.
func (t *Tracker) Stats() TrackerStats {
	s := t.stats
	s.State, s.Next, s.Orphans = t.State(), t.next, t.orphans.blocks
	return s
}
