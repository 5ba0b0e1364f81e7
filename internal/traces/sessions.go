package traces

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// sessionBlockTokens is the block of sessions that do not say.
const sessionBlockTokens = 64

var blockSize = regexp.MustCompile(`"block_size":\s*(\d+)`)

// sessionBlock is the block size that the first line names.
func sessionBlock(first []byte, told int) int {
	if told > 0 {
		return told
	}
	if m := blockSize.FindSubmatch(first); m != nil {
		if n, err := strconv.Atoi(string(m[1])); err == nil && n > 0 {
			return n
		}
	}
	return sessionBlockTokens
}

// sessions reads one agent's session a line. Ids are local to it; those of the leading blocks that hold the tools and the system prompt
// are made common to all sessions in which these are equally long, as the same agent's are. The requests of a sub-agent take their
// place among its parent's: the parent waits for it.
type sessions struct{ blockTokens int }

type sessionLine struct {
	ID       string           `json:"id"`
	Block    int              `json:"block_size"`
	Tools    int              `json:"tool_tokens"`
	System   int              `json:"system_tokens"`
	Requests []sessionRequest `json:"requests"`
}

type sessionRequest struct {
	At     float64          `json:"t"`
	In     int              `json:"in"`
	Out    int              `json:"out"`
	Think  float64          `json:"think_time"`
	Ranges [][2]uint64      `json:"hash_ranges"`
	Tools  int              `json:"tool_tokens"`
	System int              `json:"system_tokens"`
	Nested []sessionRequest `json:"requests"`
}

func (s *sessions) parse(line []byte, into []Request) ([]Request, error) {
	var l sessionLine
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&l); err != nil {
		return into, err
	}
	if l.Block != 0 && l.Block != s.blockTokens {
		return into, fmt.Errorf("blocks of %d tokens; the first line has %d", l.Block, s.blockTokens)
	}
	if len(l.Requests) == 0 {
		return into, errors.New("a session without requests")
	}
	into, err := s.add(into, &l, l.Requests, l.Tools, l.System)
	if err != nil || len(into) == 0 {
		return into, err
	}
	into[0].Follows = false
	into[0].At, into[0].Think = time.Duration(l.Requests[0].At*float64(time.Second)), 0
	return into, nil
}

func (s *sessions) add(into []Request, l *sessionLine, all []sessionRequest, tools, system int) ([]Request, error) {
	for i := range all {
		q := &all[i]
		if len(q.Nested) > 0 {
			var err error
			if into, err = s.add(into, l, q.Nested, q.Tools, q.System); err != nil {
				return into, err
			}
			continue
		}
		if q.In == 0 && q.Out == 0 {
			continue // a sub-agent that asked nothing
		}
		if err := checkLengths(q.In, q.Out); err != nil {
			return into, err
		}
		if q.Think < 0 || q.Think > 1e6 {
			return into, fmt.Errorf("think_time of %v seconds", q.Think)
		}
		into = append(into, Request{
			Follows: true, Think: time.Duration(q.Think * float64(time.Second)), Session: hash(l.ID),
			Prompt: q.In, Output: q.Out, Blocks: s.names(l, q, tools, system),
		})
	}
	return into, nil
}

// names makes ids of a session unique among sessions, and those of its leading blocks common.
func (s *sessions) names(l *sessionLine, q *sessionRequest, tools, system int) []Run {
	shared := int32((tools + system) / s.blockTokens)
	common := mix(uint64(tools)<<32 | uint64(system))
	own := mix(hash(l.ID))
	left := int32(q.In / s.blockTokens)
	var runs []Run
	if n := min(shared, left); n > 0 {
		runs = append(runs, Run{First: common, Count: n})
	}
	at := int32(0)
	for _, r := range q.Ranges {
		count := int32(min(r[1], uint64(left-at)))
		skip := min(max(shared-at, 0), count)
		if count > skip {
			runs = append(runs, Run{First: own + r[0] + uint64(skip), Count: count - skip})
		}
		if at += count; at == left {
			break
		}
	}
	return runs
}
