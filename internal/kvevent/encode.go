package kvevent

import (
	"encoding/binary"
	"math"

	"github.com/warmpath/warmpath/internal/kvindex"
)

// AppendBatch writes events as vLLM does: the batch an array, each event a map with its type first. seconds is the batch's time. Of
// extra keys only the salt is written.
func AppendBatch(b []byte, seconds float64, rank int, events []Event) []byte {
	b = append(b, 0x93, 0xcb)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(seconds))
	b = appendHead(b, 0x90, 0xdc, len(events))
	for i := range events {
		b = events[i].append(b)
	}
	return appendInt(b, uint64(rank))
}

func (e *Event) append(b []byte) []byte {
	tag := map[Kind]string{Stored: "BlockStored", Removed: "BlockRemoved", Cleared: "AllBlocksCleared"}[e.Kind]
	fields := map[Kind]int{Stored: 11, Removed: 4, Cleared: 1}[e.Kind]
	b = append(b, 0x80|byte(fields))
	b = appendText(appendText(b, "type"), tag)
	if e.Kind == Cleared {
		return b
	}
	b = appendText(b, "block_hashes")
	b = appendHead(b, 0x90, 0xdc, len(e.Names))
	for _, name := range e.Names {
		b = appendInt(b, name)
	}
	if e.Kind == Stored {
		b = appendText(b, "parent_block_hash")
		if e.HasParent {
			b = appendInt(b, e.Parent)
		} else {
			b = append(b, 0xc0)
		}
		b = appendText(b, "token_ids")
		b = appendHead(b, 0x90, 0xdc, len(e.Tokens))
		for _, token := range e.Tokens {
			b = appendInt(b, uint64(token))
		}
		b = appendInt(appendText(b, "block_size"), uint64(e.BlockTokens))
		b = append(appendText(b, "lora_id"), 0xc0)
		b = appendText(b, "lora_name")
		if e.Adapter == "" {
			b = append(b, 0xc0)
		} else {
			b = appendText(b, e.Adapter)
		}
		b = e.appendSalt(appendText(b, "extra_keys"))
		b = appendText(appendText(b, "kv_cache_spec_kind"), "full_attention")
	}
	b = appendText(appendText(b, "medium"), map[kvindex.Tier]string{kvindex.GPU: "GPU", kvindex.CPU: "CPU", kvindex.Disk: "DISK"}[e.Tier])
	return appendInt(appendText(b, "group_idx"), uint64(max(0, e.Group)))
}

// appendSalt writes each block's extra keys: none, but the first one's salt.
func (e *Event) appendSalt(b []byte) []byte {
	b = appendHead(b, 0x90, 0xdc, len(e.Names))
	for i := range e.Names {
		if i == 0 && e.Salt != "" && !e.HasParent {
			b = appendText(append(b, 0x91), e.Salt)
		} else {
			b = append(b, 0xc0)
		}
	}
	return b
}

// appendHead writes the head of an array or map: fix for up to 15 elements, else with 16 or 32 bits.
func appendHead(b []byte, fix, wide byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, fix|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, wide), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, wide+1), uint32(n))
}

func appendText(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// appendInt writes the shortest form, as engines do.
func appendInt(b []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(b, byte(n))
	case n < 1<<8:
		return append(b, 0xcc, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}
