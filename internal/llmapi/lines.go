package llmapi

import "bytes"

// keepLine keeps the beginning of a line whose end has not come.
func (s *Stream) keepLine(part []byte) {
	if s.over != 0 || len(part) == 0 {
		return
	}
	if len(s.line)+len(part) > eventBytesMax {
		s.over = max(1, append(s.line, part[0])[0]) // a NUL counts as a byte, too
		s.line = s.line[:0]
		return
	}
	s.line = append(s.line, part...)
}

// keepData moves the event's data out of the bytes being fed, which are the caller's again.
func (s *Stream) keepData() {
	if s.hasData && len(s.data) > 0 && (len(s.dataKept) == 0 || &s.data[0] != &s.dataKept[0]) {
		s.dataKept = append(s.dataKept[:0], s.data...)
		s.data = s.dataKept
	}
}

// takeLine takes a line, or the end of a line that began earlier, without its terminator.
func (s *Stream) takeLine(end []byte) verdict {
	if len(s.line) == 0 && s.over == 0 && len(end) <= eventBytesMax {
		return s.judge(end)
	}
	s.keepLine(end)
	v := s.judge(s.line)
	s.keepData()
	s.line, s.over = s.line[:0], 0
	return v
}

func (s *Stream) judge(line []byte) verdict {
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	switch {
	case s.over == ':' || len(line) > 0 && line[0] == ':':
		if s.open {
			return inside
		}
		return free
	case s.over != 0:
		s.open, s.skip = true, true
		return inside
	case len(line) == 0:
		if s.open {
			return s.endEvent()
		}
		return free
	}
	s.open = true
	s.takeField(line)
	return inside
}

func (s *Stream) takeField(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		s.errName = string(value) == "error"
	case "data":
		if !s.hasData {
			s.hasData, s.data = true, value
			return
		}
		if len(s.data)+len(value) >= eventBytesMax {
			s.skip = true
			return
		}
		s.keepData()
		s.dataKept = append(append(s.dataKept[:len(s.data)], '\n'), value...)
		s.data = s.dataKept
	}
}

// endEvent observes the event in progress and tells whether it is to be withheld.
func (s *Stream) endEvent() verdict {
	drop := false
	if s.skip {
		s.Events++
	} else if s.hasData {
		drop = s.observe(s.data) && s.withhold && !s.pass
	}
	s.open, s.skip, s.hasData, s.errName = false, false, false, false
	s.data, s.dataKept = nil, s.dataKept[:0]
	if drop {
		return endDrop
	}
	return endKeep
}

// like is the length of a whole event at the start of b that is like one before and framed in the usual way: most are. It observes it.
func (s *Stream) like(b []byte) int {
	const before, after = "data: ", "\n\n"
	if s.open || len(s.line) > 0 || s.over != 0 || len(b) < len(before) || string(b[:len(before)]) != before {
		return 0
	}
	n := len(before) + s.mold.Begins(b[len(before):])
	if n == len(before) || len(b) < n+len(after) || string(b[n:n+len(after)]) != after {
		return 0
	}
	s.common()
	return n + len(after)
}

// common observes an event that fits the mold.
func (s *Stream) common() {
	s.Events++
	s.Tokens++
	s.FirstContent = true
}

// observe reads one event and tells whether it is nothing but the usage report of a stream.
func (s *Stream) observe(data []byte) (usageOnly bool) {
	if !s.errName && s.mold.Fits(data) {
		s.common()
		return false
	}
	s.Events++
	if finished(data) {
		s.Done = true
		return false
	}
	e := &s.event
	whole := e.read(data)
	kind := e.kind.Of(data)
	s.observeEnd(kind)
	if e.isError = e.isError || s.errName; e.isError {
		s.Err = e.errorName(data)
		s.FirstEventIsError = s.FirstEventIsError || s.Events == s.pings+1
	}
	if string(kind) == "ping" {
		s.pings++
	}
	if e.id.Found() && s.ID == "" {
		s.ID = decode(e.id.Of(data), "")
	}
	s.Tokens += e.content
	s.FirstContent = s.Tokens > 0
	s.counts.merge(&e.counts)
	s.Usage = s.counts.usage(s.api)
	if whole && e.common() && !s.Done && string(kind) != "ping" && bytes.IndexByte(data, '\n') < 0 {
		s.mold.Set(data, &e.holes)
	}
	return whole && e.noChoices && e.hasUsage && !e.isError
}

// finished tells whether data is the terminator of OpenAI's streams.
func finished(data []byte) bool {
	return len(data) < 16 && string(bytes.TrimSpace(data)) == "[DONE]"
}

// observeEnd notes the event that ends a stream, and for Responses how it ended.
func (s *Stream) observeEnd(kind []byte) {
	if s.api == Messages && string(kind) == "message_stop" {
		s.Done = true
	}
	if s.api != Responses {
		return
	}
	switch string(kind) {
	case "response.completed", "response.failed", "response.incomplete", "response.cancelled":
		s.Done, s.Outcome = true, string(kind[len("response."):])
		s.event.isError = s.Outcome == "failed"
	case "error":
		s.Outcome = "failed"
	}
}
