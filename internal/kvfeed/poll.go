package kvfeed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/kvevent"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prefix"
)

// pollBytesMax bounds one answer.
const pollBytesMax = 64 << 20

// poll asks a TensorRT-LLM server for its events, which it hands out once each: nobody else may ask it, and what an answer that got lost
// had in it is missed, which the numbers show.
func (f *feed) poll(ctx context.Context) {
	var p polled
	backoff := f.o.BackoffMin
	for ctx.Err() == nil {
		wait := f.o.PollInterval
		body, err := f.get(ctx, http.MethodPost, "/kv_cache_events", pollBytesMax)
		if err == nil {
			err = p.read(body, f.target.Rank, func(seq uint64, b *kvevent.Batch) {
				f.tell(func(t *kvevent.Tracker) kvevent.Ask {
					f.expected = time.Time{}
					t.Polled(seq, b)
					return kvevent.Ask{}
				})
			})
		}
		if err != nil {
			wait, backoff = backoff, min(2*backoff, f.o.BackoffMax)
		} else {
			backoff = f.o.BackoffMin
		}
		f.failed(err)
		if !pause(ctx, wait) {
			return
		}
	}
}

// polled reads TensorRT-LLM's events. A block with fewer tokens than the fullest one seen is not full yet and cannot be matched.
type polled struct {
	blockTokens int
	window      int // the widest attention window: the layers that decide
	batch       kvevent.Batch
}

type polledEvent struct {
	ID     uint64 `json:"event_id"`
	Window int    `json:"window_size"`
	Rank   *int   `json:"attention_dp_rank"`
	Data   struct {
		Type   string        `json:"type"`
		Parent polledHash    `json:"parent_hash"`
		Blocks []polledBlock `json:"blocks"`
		Hashes []polledHash  `json:"block_hashes"`
		Hash   polledHash    `json:"block_hash"`
		Level  *struct {
			New int `json:"new_value"`
			Old int `json:"old_value"`
		} `json:"cache_level"`
	} `json:"data"`
}

type polledBlock struct {
	Hash   polledHash `json:"block_hash"`
	Tokens []struct {
		ID uint32 `json:"token_id"`
	} `json:"tokens"`
	Level int    `json:"cache_level"`
	Lora  *int64 `json:"lora_id"`
	Salt  string `json:"cache_salt"`
	Media []struct {
		Hash   string `json:"hash"`
		Offset int64  `json:"start_offset"`
	} `json:"mm_keys"`
}

// polledHash is a number or hex text, or null.
type polledHash struct {
	name uint64
	set  bool
}

func (h *polledHash) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	name, ok := kvevent.NameOf(bytes.Trim(b, `"`), b[0] == '"')
	if !ok {
		return fmt.Errorf("%s is no block hash", b)
	}
	*h = polledHash{name, true}
	return nil
}

// read calls tell for each event in order.
func (p *polled) read(body []byte, rank int, tell func(seq uint64, b *kvevent.Batch)) error {
	var events []polledEvent
	if err := json.Unmarshal(body, &events); err != nil {
		return err
	}
	for i := range events {
		e := &events[i]
		if e.Rank != nil && rank >= 0 && *e.Rank != rank {
			continue // ranks have numbers of their own
		}
		p.window = max(p.window, e.Window)
		p.batch = kvevent.Batch{Events: p.batch.Events[:0], Rank: -1}
		p.convert(e)
		tell(e.ID, &p.batch)
	}
	return nil
}

func (p *polled) convert(e *polledEvent) {
	ev := kvevent.Event{TierKnown: true, Group: -1}
	if e.Window < p.window {
		ev.GroupKind = "sliding_window"
	}
	switch e.Data.Type {
	case "created":
		return
	case "stored":
		p.stored(e, ev)
		return
	case "removed":
		ev.Kind = kvevent.Removed
		for _, h := range e.Data.Hashes {
			ev.Names = append(ev.Names, h.name)
		}
		// It does not say from which memory. Removing what is not there is passed over.
		for _, tier := range []kvindex.Tier{kvindex.GPU, kvindex.CPU} {
			ev.Tier = tier
			p.batch.Events = append(p.batch.Events, ev)
		}
	case "updated":
		if level := e.Data.Level; level != nil && level.New != level.Old {
			ev.Kind, ev.Names, ev.Tier, ev.From = kvevent.Moved, []uint64{e.Data.Hash.name}, tierOf(level.New), tierOf(level.Old)
			p.batch.Events = append(p.batch.Events, ev)
		}
	default:
		p.batch.Unknown++
	}
}

func tierOf(level int) kvindex.Tier {
	if level == 0 {
		return kvindex.GPU
	}
	return kvindex.CPU
}

// stored makes one event of each run of full blocks in the same memory.
func (p *polled) stored(e *polledEvent, ev kvevent.Event) {
	ev.Kind, ev.Parent, ev.HasParent = kvevent.Stored, e.Data.Parent.name, e.Data.Parent.set
	for _, b := range e.Data.Blocks {
		p.blockTokens = max(p.blockTokens, len(b.Tokens))
	}
	for _, b := range e.Data.Blocks {
		if len(b.Tokens) < p.blockTokens || p.blockTokens == 0 {
			return
		}
		one := ev
		one.Names, one.BlockTokens, one.Tier = []uint64{b.Hash.name}, p.blockTokens, tierOf(b.Level)
		for _, t := range b.Tokens {
			one.Tokens = append(one.Tokens, t.ID)
		}
		if b.Lora != nil && *b.Lora > 0 {
			one.Adapter = "#" + strconv.FormatInt(*b.Lora, 10)
		}
		var extra []byte
		for _, m := range b.Media {
			extra = prefix.AppendExtraMedia(extra, m.Hash, m.Offset)
		}
		if b.Salt != "" && !ev.HasParent {
			extra = prefix.AppendExtra(extra, b.Salt)
		}
		if len(extra) > 0 {
			one.Extra = [][]byte{extra}
		}
		p.batch.Events = append(p.batch.Events, one)
		ev.Parent, ev.HasParent = b.Hash.name, true
	}
}
