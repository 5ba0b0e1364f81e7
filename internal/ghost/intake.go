package ghost

import (
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/prefix"
)

// Request is one that is over, as far as ghosts want to know it. It is read during Add only.
type Request struct {
	Model, Pool                string // the pool that it went to; "" any worker
	Start, End                 int64  // nanoseconds
	Session                    uint64 // 0 none
	PromptTokens, AnswerTokens int
	TextBytes                  int  // of the whole prompt, in the unit of Chain.Ends
	Predicted                  int  // prompt tokens that were taken to be cached,
	Cached                     int  // and those that the engine said were, where
	Reported                   bool // it did
	Slot                       int  // of the worker that it went to
	Chain                      prefix.Chain
}

// What waits between Add and Take is bounded; a request beyond it is dropped and counted.
const (
	recordsMax = 8192
	piecesMax  = 1 << 17
)

// Batch is requests in the order in which they ended.
type Batch struct {
	records []record
	pieces  []piece
	groups  []group
	dropped uint64
}

// record is a request with its sampled pieces.
type record struct {
	start, end                      int64
	session, threshold              uint64
	from, to                        int32 // its pieces, the answer's the last when
	answered                        bool
	last                            bool // the prompt's last piece is among them
	reported                        bool
	group, slot                     int32
	prompt, predicted, cached, tail int32 // tail: tokens that no block names
}

// own is the number of pieces that are the prompt's.
func (r *record) own(pieces []piece) int {
	if r.answered {
		return len(pieces) - 1
	}
	return len(pieces)
}

// Intake takes requests in where they end, and keeps them until somebody has time.
type Intake struct {
	threshold atomic.Uint64
	ready     chan struct{}

	mu      sync.Mutex // guards the fields below; held for one request
	filling *Batch
	spare   *Batch
	numbers map[group]int32
}

// NewIntake makes an empty one that looks at the blocks below the threshold.
func NewIntake(threshold uint64) *Intake {
	in := &Intake{ready: make(chan struct{}, 1), filling: &Batch{}, spare: &Batch{}, numbers: map[group]int32{}}
	in.threshold.Store(threshold)
	return in
}

// SetThreshold goes by the sample as it is now.
func (in *Intake) SetThreshold(threshold uint64) { in.threshold.Store(threshold) }

// Ready tells when half of what may wait does.
func (in *Intake) Ready() <-chan struct{} { return in.ready }

// Add takes one request in. It copies keys, and never waits for who places them.
func (in *Intake) Add(q *Request) {
	threshold := in.threshold.Load()
	in.mu.Lock()
	b := in.filling
	number, ok := in.number(b, group{q.Model, q.Pool})
	if !ok || len(b.records) >= recordsMax || len(b.pieces)+len(q.Chain.Keys) >= piecesMax {
		b.dropped++
		in.mu.Unlock()
		return
	}
	before := len(b.pieces)
	r := record{start: q.Start, end: q.End, session: q.Session, threshold: threshold, from: int32(before), group: number, slot: int32(q.Slot),
		prompt: int32(q.PromptTokens), predicted: int32(min(q.Predicted, q.PromptTokens)), cached: int32(min(q.Cached, q.PromptTokens)), reported: q.Reported}
	b.pieces = q.cut(&r, b.pieces)
	r.to = int32(len(b.pieces))
	b.records = append(b.records, r)
	half := len(b.records) == recordsMax/2 || before < piecesMax/2 && len(b.pieces) >= piecesMax/2
	in.mu.Unlock()
	if half {
		select {
		case in.ready <- struct{}{}:
		default:
		}
	}
}

// Waiting is how many requests wait to be placed, and how many may.
func (in *Intake) Waiting() (n, most int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.filling.records), recordsMax
}

// number is that of a group in the batch.
func (in *Intake) number(b *Batch, of group) (n int32, ok bool) {
	if n, ok = in.numbers[of]; ok || len(b.groups) >= groupsMax {
		return n, ok
	}
	n = int32(len(b.groups))
	b.groups = append(b.groups, of)
	in.numbers[of] = n
	return n, true
}

// Take is what came since the last call. It is valid until the next one.
func (in *Intake) Take() *Batch {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := in.filling
	s := in.spare
	s.records, s.pieces, s.groups, s.dropped = s.records[:0], s.pieces[:0], s.groups[:0], 0
	in.filling, in.spare = s, b
	clear(in.numbers)
	return b
}

// cut appends the sampled pieces of the prompt: its blocks, and each earlier answer as one piece named by the prompt that it answered, as
// it is entered behind that: its blocks are not known before the next request quotes them. Tokens are the prompt's in proportion to its text.
func (q *Request) cut(r *record, into []piece) []piece {
	keys, ends, replies := q.Chain.Keys, q.Chain.Ends, q.Chain.Replies
	whole := int64(max(q.TextBytes, q.Chain.Bytes(), 1))
	until := func(block int) int32 { // tokens before it
		if block == 0 {
			return 0
		}
		return int32(int64(q.PromptTokens) * int64(ends[block-1]) / whole)
	}
	for i, next := 0, 0; i < len(keys); i = next {
		key := uint64(keys[i])
		next = i + 1
		for len(replies) > 0 && int(replies[0].First) < i {
			replies = replies[1:]
		}
		if i > 0 && len(replies) > 0 && int(replies[0].First) == i && int(replies[0].Last) > i && int(replies[0].Last) <= len(keys) {
			key, next = answerKey(keys[i-1]), int(replies[0].Last)
		}
		if sampled(key, r.threshold) {
			into = append(into, piece{key, until(next) - until(i)})
			r.last = next == len(keys) && until(next) >= r.prompt
		}
	}
	r.tail = r.prompt - until(len(keys))
	if n := len(keys); n > 0 && q.AnswerTokens > 0 {
		if key := answerKey(keys[n-1]); sampled(key, r.threshold) {
			into = append(into, piece{key, int32(q.AnswerTokens)})
			r.answered = true
		}
	}
	return into
}

// answerKey names the answer to the prompt whose last block that is.
func answerKey(k prefix.Key) uint64 { return (uint64(k) ^ 0x616e73776572) * 0xd6e8feb86659fd93 }
