package kvevent

import (
	"strconv"

	"github.com/warmpath/warmpath/internal/prefix"
)

// finish puts together what depends on several fields.
func (e *Event) finish() {
	if e.Adapter == "" && e.adapterID > 0 {
		e.Adapter = "#" + strconv.FormatInt(e.adapterID, 10) // an engine that tells the number only
	}
	if len(e.Left) != len(e.Names) {
		e.Left = e.Left[:0]
	}
	if len(e.extraRaw) > 0 {
		e.readExtra()
	}
}

// readExtra takes each block's extra keys apart. The adapter's name stands among them too, first; it is in the chain's root already.
func (e *Event) readExtra() {
	r := &reader{b: e.extraRaw}
	if r.next() != kindArray {
		e.odd = true
		return
	}
	some := false
	for range r.length(kindArray) {
		from := len(e.extraBytes)
		if r.next() == kindArray {
			for i := range r.length(kindArray) {
				e.readExtraKey(r, i == 0)
			}
		} else if r.next() != kindNil {
			e.odd = true
			r.skip()
		} else {
			r.skip()
		}
		some = some || len(e.extraBytes) > from
		e.Extra = append(e.Extra, e.extraBytes[from:len(e.extraBytes):len(e.extraBytes)])
	}
	if !some {
		e.Extra = e.Extra[:0]
	}
}

func (e *Event) readExtraKey(r *reader, first bool) {
	switch r.next() {
	case kindText:
		text := r.text()
		if first && e.Adapter != "" && string(text) == e.Adapter {
			return
		}
		e.extraBytes = prefix.AppendExtra(e.extraBytes, string(text))
	case kindInt:
		bits, _ := r.integer()
		if first && e.adapterID > 0 && bits == uint64(e.adapterID) {
			return
		}
		e.extraBytes = prefix.AppendExtra(e.extraBytes, strconv.FormatUint(bits, 10))
	case kindArray: // a piece of media: its hash and where it begins
		n := r.length(kindArray)
		if n == 2 && r.next() == kindText {
			hash := string(r.text())
			if r.next() == kindInt {
				at, _ := r.integer()
				e.extraBytes = prefix.AppendExtraMedia(e.extraBytes, hash, int64(at))
				return
			}
			n--
		}
		for range n {
			r.skip()
		}
		e.odd = true
	default:
		r.skip()
		e.odd = true
	}
}
