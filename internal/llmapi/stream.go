package llmapi

import (
	"bytes"

	"github.com/warmpath/warmpath/internal/jsontext"
)

// eventBytesMax bounds what is kept of a stream in passing. A longer line or event is forwarded unobserved.
const eventBytesMax = 1 << 20

// Stream watches a stream of server-sent events in passing. It understands whatever framing the standard allows (LF,
// CRLF, CR, no space after the colon, data over several lines, comments), cut anywhere. It is reusable.
type Stream struct {
	Events            int    // events with data so far, the terminator included
	Tokens            int    // deltas that carried content: one a token with most engines
	FirstContent      bool   // a delta with content has passed
	Usage             Usage  // the latest reported
	ID                string // id of the response
	Err               string // type (else code, else message) of an error event
	FirstEventIsError bool   // the error came before any other event (pings aside)
	Done              bool   // the terminator has passed: [DONE], message_stop, response.completed, .failed, .incomplete
	Outcome           string // Responses: completed, failed, incomplete, cancelled
	Withheld          int    // usage events not forwarded

	api      API
	withhold bool
	counts   tally
	event    event
	mold     jsontext.Mold // of the latest common event: most that follow are like it

	line     []byte // a line that began in an earlier Feed
	over     byte   // first byte of that line when it is too long to keep
	begun    bool   // the first line is behind us (it may carry a byte order mark)
	open     bool   // an event is in progress
	skip     bool   // the event in progress is too long to observe
	hasData  bool
	errName  bool   // the event is named "error"
	pings    int    // events that say nothing
	data     []byte // the event's data: aliases the bytes being fed until Feed returns
	dataKept []byte // backs data from one Feed to the next

	held []byte  // bytes of the event in progress, not forwarded yet
	out  []byte  // what Feed returns when it is not a piece of its argument
	pass bool    // the event in progress is forwarded as it comes
	cr   bool    // the last byte was a carriage return: a line feed may complete it
	last verdict // on the line that it ended
}

// Reset prepares s for a new stream. withholdUsage drops the usage event that the client did not ask for.
func (s *Stream) Reset(api API, withholdUsage bool) {
	*s = Stream{
		mold: s.mold.Emptied(), api: api, withhold: withholdUsage && (api == Chat || api == Completions),
		line: s.line[:0], dataKept: s.dataKept[:0], held: s.held[:0], out: s.out[:0],
	}
}

// verdict is what a line means for forwarding.
type verdict uint8

const (
	inside  verdict = iota // part of the event in progress
	free                   // nothing depends on it
	endKeep                // ends an event
	endDrop                // ends an event that is withheld
)

// Feed observes b and returns the bytes to forward now. They alias b, or a buffer of s valid until the next call.
// Without withholding they are always b itself. With it, an event leaves once it is complete: half an event is of no
// use to a client, and only its end shows whether it is the usage event.
func (s *Stream) Feed(b []byte) (forward []byte) {
	s.out = s.out[:0]
	from, event, i := 0, 0, 0 // b[from:event] may leave, b[event:] belongs to the event in progress
	if s.cr && len(b) > 0 {
		s.cr = false
		if b[0] == '\n' { // it goes where its line went
			i = 1
			if s.last != inside {
				event = 1
			}
			if s.last == endDrop {
				from = 1
			}
		}
	}
	lf := -1 // the next line feed, looked for once
	for i < len(b) {
		if n := s.like(b[i:]); n > 0 {
			s.last = endKeep
			from, event = s.route(endKeep, b, from, event, i+n)
			i += n
			continue
		}
		if lf < i {
			lf = len(b)
			if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
				lf = i + n
			}
		}
		end := lf
		if cr := bytes.IndexByte(b[i:end], '\r'); cr >= 0 {
			end = i + cr
		}
		if end == len(b) {
			s.keepLine(b[i:])
			break
		}
		next := end + 1
		atCR := b[end] == '\r'
		if atCR && next < len(b) && b[next] == '\n' {
			next++
		}
		s.last = s.takeLine(b[i:end])
		s.cr = atCR && next == end+1 && next == len(b)
		from, event = s.route(s.last, b, from, event, next)
		i = next
	}
	s.keepData()
	if !s.withhold {
		return b
	}
	return s.release(b, from, event)
}

// route moves the borders of what may leave after a line that ends before next.
func (s *Stream) route(v verdict, b []byte, from, event, next int) (int, int) {
	if !s.withhold || v == inside {
		return from, event
	}
	if v == endDrop {
		s.out = append(s.out, b[from:event]...)
		s.held = s.held[:0]
		s.Withheld++
		return next, next
	}
	s.out = append(s.out, s.held...)
	s.held = s.held[:0]
	s.pass = false
	return from, next
}

// release returns what may leave and holds the rest back, unless that grew too long.
func (s *Stream) release(b []byte, from, event int) []byte {
	if s.pass || len(s.held)+len(b)-event > eventBytesMax {
		s.out = append(s.out, s.held...)
		s.held = s.held[:0]
		s.pass = s.pass || s.open || len(s.line) > 0 || s.over != 0
		event = len(b)
	}
	s.held = append(s.held, b[event:]...)
	if len(s.out) == 0 {
		return b[from:event]
	}
	s.out = append(s.out, b[from:event]...)
	return s.out
}

// Gap is what has to go before an event that follows what was forwarded so far: nothing between events, else the end of the one that was
// not finished. Without it a client would read both as one, and understand neither.
func (s *Stream) Gap() string {
	if s.withhold && !s.pass || !s.open && len(s.line) == 0 && s.over == 0 {
		return ""
	}
	if len(s.line) == 0 && s.over == 0 && !s.cr { // its last line is at its end
		return "\n"
	}
	return "\n\n"
}

// Flush ends the stream and returns what was held back. An event whose last line end is missing is observed when it
// is whole all the same; half an event is not one.
func (s *Stream) Flush() []byte {
	if len(s.line) > 0 || s.over != 0 {
		s.takeLine(nil)
	}
	if s.hasData && !s.skip && (finished(s.data) || s.event.read(s.data)) && s.endEvent() == endDrop {
		s.Withheld++
		s.held = s.held[:0]
	}
	s.out = append(s.out[:0], s.held...)
	s.held = s.held[:0]
	return s.out
}
