package main

import (
	"fmt"
	"strings"
)

// mode is how a worker answers for a while.
type mode string

// Modes whose answers are HTTP in good order. All of them are to reach the client as they are, or, where they are errors, may be tried elsewhere.
const (
	well     mode = "well"
	slow     mode = "slow"     // a quarter of a second late
	dribble  mode = "dribble"  // a few bytes at a time
	wrong    mode = "wrong"    // the answer to another request
	twice    mode = "twice"    // each event two times
	noEnd    mode = "noend"    // a stream without its terminator
	junk     mode = "junk"     // bytes that are neither JSON nor events
	empty    mode = "empty"    // 200 and nothing
	errFirst mode = "errfirst" // 200, and the answer is an error
	e500     mode = "500"
	e503     mode = "503"
	e429     mode = "429"
)

// Modes whose answers break, or are no HTTP.
const (
	cut      mode = "cut"      // the connection ends halfway, between two events
	half     mode = "half"     // the connection ends within an event
	resets   mode = "reset"    // likewise, by a reset
	longCL   mode = "longcl"   // a Content-Length beyond what comes
	shortCL  mode = "shortcl"  // a Content-Length that what comes goes beyond
	badChunk mode = "badchunk" // chunked framing that goes wrong halfway
	tail     mode = "tail"     // a good answer, and bytes after it
	garbled  mode = "garbled"  // no HTTP at all
	hugeHead mode = "hugehead" // a head of 200 KiB
	interim  mode = "interim"  // 100 Continue for ever
	closes   mode = "closes"   // the connection ends before a head
	deaf     mode = "deaf"     // silence, then the end
	blind    mode = "blind"    // answers well, but tells nothing of itself
)

// goodModes and brokenModes are what the schedule draws from.
var goodModes = []mode{slow, dribble, wrong, twice, noEnd, junk, empty, errFirst, e500, e503, e429, blind, tail}
var brokenModes = []mode{cut, half, resets, longCL, shortCL, badChunk, garbled, hugeHead, interim, closes, deaf}

// said is what a worker says in one attempt: the bytes of its body, and how it goes on from there.
type said struct {
	status int
	pieces []piece
	whole  bool // the body comes to its end by HTTP's rules
	head   bool // there is a head that HTTP allows
}

// says is what a worker says in mode m to an ask. Worker and checker both go by it.
func (m mode) says(a ask, w want, tag string) said {
	s := said{status: 200, whole: true, head: true}
	switch m {
	case e500, e503, e429:
		fmt.Sscan(string(m), &s.status)
		s.pieces = []piece{{text: complaint(w.api, tag)}}
		return s
	case errFirst:
		s.pieces = []piece{{text: complaint(w.api, tag)}}
		if w.stream {
			s.pieces[0].text = "data: " + s.pieces[0].text + "\n\n"
			if w.api == messages {
				s.pieces[0].text = "event: error\n" + s.pieces[0].text
			}
		}
		return s
	case wrong:
		a.id++
	case empty:
		return s
	case garbled, hugeHead, interim, closes, deaf:
		return said{}
	}
	s.pieces = a.answer(w, tag)
	switch m {
	case twice:
		s.pieces = doubled(s.pieces)
	case noEnd:
		if w.stream {
			s.pieces = s.pieces[:len(s.pieces)-1]
		}
	case junk:
		s.pieces = append(s.pieces[:len(s.pieces)/2:len(s.pieces)/2], piece{text: "\x00\xff\xfe junk of " + tag + "\r\n\r\n:\n\ndata\n\n"})
	case cut, half, resets, longCL, badChunk:
		s.whole = false
		s.pieces = upTo(s.pieces, a.id, m)
	case shortCL:
		s.pieces = []piece{{text: shortened(joined(s.pieces))}}
	}
	return s
}

// complaint is an error that a worker answers with.
func complaint(a api, tag string) string {
	if a == messages {
		return fmt.Sprintf(`{"type":"error","error":{"type":"api_error","message":"trouble in %s"}}`, tag)
	}
	return fmt.Sprintf(`{"error":{"message":"trouble in %s","type":"server_error","param":null,"code":null}}`, tag)
}

func doubled(pieces []piece) (out []piece) {
	for _, p := range pieces {
		out = append(out, p)
		if !p.usage && len(pieces) > 1 {
			out = append(out, p)
		}
	}
	return out
}

// upTo is a part of an answer: whole pieces, and of the next one the half, unless the mode breaks between pieces.
func upTo(pieces []piece, id int, m mode) []piece {
	if m == longCL {
		return pieces
	}
	n := int(mix(id, -1) % uint64(len(pieces)))
	out := pieces[:n:n]
	if m == cut && len(pieces) > 1 {
		return out
	}
	return append(out, piece{text: pieces[n].text[:len(pieces[n].text)/2]})
}

func shortened(s string) string { return s[:len(s)-len(s)/4-1] }

func joined(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.text)
	}
	return b.String()
}

// view is what a client is to see of it: the usage event only where it asked for that.
func (s said) view(usage bool) string {
	var b strings.Builder
	for _, p := range s.pieces {
		if usage || !p.usage {
			b.WriteString(p.text)
		}
	}
	return b.String()
}
