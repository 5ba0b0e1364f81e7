package kvevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Decoder reads the batches of vLLM and SGLang, whose forms are the same family: a batch and its events are arrays with the kind in
// front, or maps with it as "type", each for itself; fields were only ever added at the end, or by name. It keeps its memory from batch
// to batch, and belongs to one goroutine.
type Decoder struct {
	batch Batch
}

const (
	// eventsMax bounds the events of one batch: a step of an engine has some hundreds.
	eventsMax = 100_000
	// eventsKept is how many events' memory is kept for the next batch.
	eventsKept = 4096
)

// Decode reads one message. An error means that nothing of it may be used; what is only not known is skipped and counted. The batch is
// valid until the next call.
func (d *Decoder) Decode(payload []byte) (*Batch, error) {
	b := &d.batch
	if cap(b.Events) > eventsKept {
		b.Events = nil
	}
	*b = Batch{Events: b.Events[:0], Rank: -1}
	r := &reader{b: payload}
	seen := false
	switch r.next() {
	case kindArray:
		n := r.length(kindArray)
		for i := range n {
			switch i {
			case 1:
				d.events(r)
				seen = true
			case 2:
				b.readRank(r)
			default:
				r.skip()
			}
		}
	case kindMap:
		for range r.length(kindMap) {
			switch string(r.key()) {
			case "events":
				d.events(r)
				seen = true
			case "data_parallel_rank", "attn_dp_rank", "dp_rank":
				b.readRank(r)
			default:
				r.skip()
			}
		}
	default:
		return nil, errors.New("the message is no batch of events: neither array nor map")
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case !seen:
		return nil, errors.New("the message is no batch of events: it has none")
	case r.i != len(payload):
		return nil, fmt.Errorf("%d bytes follow the batch", len(payload)-r.i)
	}
	return b, nil
}

// key reads a map's key; one that is no text reads as empty.
func (r *reader) key() []byte {
	if b := r.short(); b != nil {
		return b
	}
	if r.next() != kindText {
		r.skip()
		return nil
	}
	return r.text()
}

func (b *Batch) readRank(r *reader) {
	if r.next() != kindInt {
		r.skip()
		return
	}
	if n, negative := r.integer(); !negative && n < 1<<16 {
		b.Rank = int(n)
	}
}

func (d *Decoder) events(r *reader) {
	if r.next() != kindArray {
		r.fail(errors.New("the events are no array"))
		return
	}
	n := r.length(kindArray)
	if n > eventsMax {
		r.fail(fmt.Errorf("%d events in a batch are more than %d", n, eventsMax))
		return
	}
	for range n {
		d.event(r)
		if r.err != nil {
			return
		}
	}
}

// event reads one event into the next place of the batch, which it gives back when the event is of no use.
func (d *Decoder) event(r *reader) {
	b := &d.batch
	if len(b.Events) < cap(b.Events) {
		b.Events = b.Events[:len(b.Events)+1]
	} else {
		b.Events = append(b.Events, Event{})
	}
	e := &b.Events[len(b.Events)-1]
	e.reset()
	switch r.next() {
	case kindArray:
		e.readArray(r)
	case kindMap:
		e.readMap(r)
	default:
		r.skip()
	}
	e.finish()
	if e.Kind == 0 || e.odd {
		b.Events = b.Events[:len(b.Events)-1]
		b.Unknown++
	}
}

// The fields in the order of the positional form. Newer ones are only known by name.
var (
	storedFields  = []string{"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"}
	removedFields = []string{"block_hashes", "medium", "group_idx"}
)

func (e *Event) readArray(r *reader) {
	n := r.length(kindArray)
	if n == 0 || r.next() != kindText {
		for range n {
			r.skip()
		}
		return
	}
	e.setKind(r.text())
	var fields []string
	switch e.Kind {
	case Stored:
		fields = storedFields
	case Removed:
		fields = removedFields
	}
	for i := range n - 1 {
		if i < len(fields) {
			e.field(r, []byte(fields[i]))
		} else {
			r.skip()
		}
	}
	if e.Kind == Stored && n-1 < 4 || e.Kind == Removed && n-1 < 1 {
		e.odd = true
	}
}

func (e *Event) readMap(r *reader) {
	for range r.length(kindMap) {
		if key := r.key(); string(key) != "type" {
			e.field(r, key)
		} else if r.next() == kindText {
			e.setKind(r.text())
		} else {
			r.skip()
		}
	}
}

func (e *Event) setKind(tag []byte) {
	switch string(tag) {
	case "BlockStored":
		e.Kind = Stored
	case "BlockRemoved":
		e.Kind = Removed
	case "AllBlocksCleared":
		e.Kind = Cleared
	}
}

// field reads one field's value. Values of a form that is not known make the event odd, where the field matters.
func (e *Event) field(r *reader, name []byte) {
	k := r.next()
	if k == kindNil {
		r.i++
		return
	}
	switch string(name) {
	case "block_hashes":
		e.readNames(r)
	case "parent_block_hash":
		var ok bool
		e.Parent, ok = readName(r)
		e.HasParent, e.odd = true, e.odd || !ok
	case "token_ids":
		e.readTokens(r)
	case "block_size":
		e.BlockTokens = e.readInt(r, k)
	case "lora_id":
		e.adapterID = int64(e.readInt(r, k))
	case "group_idx":
		e.Group = e.readInt(r, k)
	case "extra_keys":
		e.extraRaw = r.raw()
	case "medium", "lora_name", "kv_cache_spec_kind", "origin":
		e.readText(r, k, name)
	case "remaining_copy_counts":
		e.readLeft(r, k)
	default:
		r.skip()
	}
}

func (e *Event) readText(r *reader, k kind, name []byte) {
	if k != kindText {
		r.skip()
		e.odd = true
		return
	}
	switch text := r.text(); string(name) {
	case "medium":
		e.setMedium(text)
	case "lora_name":
		e.Adapter = string(text)
	case "kv_cache_spec_kind":
		e.GroupKind = groupKind(text)
	case "origin":
		e.Reused = string(text) == "REUSED" || string(text) == "reused"
	}
}

func (e *Event) readInt(r *reader, k kind) int {
	if k != kindInt {
		r.skip()
		e.odd = true
		return 0
	}
	n, negative := r.integer()
	if negative || n > 1<<31-1 {
		e.odd = true
		return 0
	}
	return int(n)
}

func (e *Event) readNames(r *reader) {
	if r.next() != kindArray {
		r.skip()
		e.odd = true
		return
	}
	for n := r.length(kindArray); n > 0 && r.err == nil; n-- {
		name, ok := readName(r)
		e.Names = append(e.Names, name)
		e.odd = e.odd || !ok
	}
}

// readName reads a hash: an integer of any width, or a digest as bytes or hex.
func readName(r *reader) (uint64, bool) {
	switch r.next() {
	case kindInt:
		return nameOfInt(r.integer()), true
	case kindText:
		text := r.b[r.i] < 0xc4 || r.b[r.i] > 0xc6
		return nameOfBytes(r.text(), text)
	}
	r.skip()
	return 0, false
}

func (e *Event) readTokens(r *reader) {
	if r.next() != kindArray {
		r.skip()
		e.odd = true
		return
	}
	for n := r.length(kindArray); n > 0 && r.err == nil; n-- {
		if n = e.readShort(r, n); n == 0 {
			return
		}
		if r.next() != kindInt {
			r.skip()
			e.odd = true // pairs of tokens, as with some speculative decoders, are keys that no request has
			continue
		}
		token, negative := r.integer()
		e.odd = e.odd || negative || token > 1<<32-1
		e.Tokens = append(e.Tokens, uint32(token))
	}
}

// readShort reads tokens as long as they are in the forms that nearly all are in, up to n of them, and returns how many are left. Tokens
// are nearly all of a message.
func (e *Event) readShort(r *reader, n int) int {
	b, tokens := r.b[r.i:], slices.Grow(e.Tokens, n)
short:
	for ; n > 0 && len(b) >= 5; n-- {
		switch c := b[0]; {
		case c == 0xcd:
			tokens = append(tokens, uint32(b[1])<<8|uint32(b[2]))
			b = b[3:]
		case c == 0xce:
			tokens = append(tokens, binary.BigEndian.Uint32(b[1:5]))
			b = b[5:]
		case c < 0x80:
			tokens = append(tokens, uint32(c))
			b = b[1:]
		default:
			break short
		}
	}
	e.Tokens, r.i = tokens, len(r.b)-len(b)
	return n
}

func (e *Event) readLeft(r *reader, k kind) {
	if k != kindArray {
		r.skip()
		return
	}
	for n := r.length(kindArray); n > 0 && r.err == nil; n-- {
		e.Left = append(e.Left, e.readInt(r, r.next()))
	}
}
