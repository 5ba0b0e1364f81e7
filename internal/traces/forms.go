package traces

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/prefix"
)

// tokensMax bounds a prompt and an answer: more is a broken line.
const tokensMax = 100_000_000

func checkLengths(prompt, output int) error {
	switch {
	case prompt < 1 || prompt > tokensMax:
		return fmt.Errorf("%d prompt tokens; a prompt has 1 to %d", prompt, tokensMax)
	case output < 0 || output > tokensMax:
		return fmt.Errorf("%d output tokens; an answer has 0 to %d", output, tokensMax)
	}
	return nil
}

// mooncakeBlockTokens is the block of Mooncake's traces (Qin et al., FAST 2025).
const mooncakeBlockTokens = 512

// mooncake reads Mooncake's form: an id names a block and all before it. The last block of a prompt is named too where it is not
// full; it is no cache's to share and left out.
type mooncake struct{ last float64 }

func (m *mooncake) parse(line []byte, into []Request) ([]Request, error) {
	var l struct {
		Timestamp *float64 `json:"timestamp"`
		Input     int      `json:"input_length"`
		Output    int      `json:"output_length"`
		IDs       []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return into, err
	}
	if l.Timestamp == nil {
		return into, errors.New(`there is no "timestamp"`)
	}
	if *l.Timestamp < m.last {
		return into, fmt.Errorf("timestamp %v is before that of an earlier line, %v", *l.Timestamp, m.last)
	}
	if err := checkLengths(l.Input, l.Output); err != nil {
		return into, err
	}
	m.last = *l.Timestamp
	r := Request{At: time.Duration(*l.Timestamp * float64(time.Millisecond)), Prompt: l.Input, Output: l.Output}
	for _, id := range l.IDs[:min(len(l.IDs), l.Input/mooncakeBlockTokens)] {
		r.Blocks = appendName(r.Blocks, id)
	}
	return append(into, r), nil
}

// azure reads the Azure LLM inference traces: arrivals and lengths; no two prompts share anything.
type azure struct {
	start time.Time
	last  time.Duration
}

func (a *azure) parse(line []byte, into []Request) ([]Request, error) {
	fields := strings.Split(string(line), ",")
	if strings.EqualFold(strings.TrimPrefix(fields[0], "\ufeff"), "TIMESTAMP") {
		return into, nil
	}
	if len(fields) != 3 {
		return into, fmt.Errorf("%d fields; a line is TIMESTAMP,ContextTokens,GeneratedTokens", len(fields))
	}
	at, err := time.Parse("2006-01-02 15:04:05", strings.TrimSuffix(strings.Replace(fields[0], "T", " ", 1), "Z"))
	if err != nil {
		return into, fmt.Errorf("timestamp %q is not like 2023-11-16 18:17:03.9799600", fields[0])
	}
	prompt, err := strconv.Atoi(strings.TrimSpace(fields[1]))
	if err != nil {
		return into, fmt.Errorf("ContextTokens %q is no number of tokens", fields[1])
	}
	output, err := strconv.Atoi(strings.TrimSpace(fields[2]))
	if err != nil {
		return into, fmt.Errorf("GeneratedTokens %q is no number of tokens", fields[2])
	}
	if err := checkLengths(prompt, output); err != nil {
		return into, err
	}
	if a.start.IsZero() {
		a.start = at
	}
	since := at.Sub(a.start)
	if since < a.last {
		return into, fmt.Errorf("timestamp %s is before that of an earlier line", fields[0])
	}
	a.last = since
	return append(into, Request{At: since, Prompt: prompt, Output: output}), nil
}

// microsecondsMax is in the year 2200.
const microsecondsMax = 7.26e15

// A text's tokens are taken to be of textTokenBytes; its blocks are of textBlockBytes.
const (
	textTokenBytes = 4
	textBlockBytes = 64
)

// texts reads prompts as they were, and names their blocks by their hash. Lines stand in the order in which answers were complete, or in
// none: their arrivals are sorted by the caller.
type texts struct {
	seed  prefix.Seed
	start time.Time // of the trace's time
	chain prefix.Chain
}

func newTexts(start time.Time) *texts {
	return &texts{seed: prefix.NewSeed([]byte("traces")), start: start}
}

func (x *texts) parse(line []byte, into []Request) ([]Request, error) {
	var l struct {
		Timestamp *float64 `json:"timestamp"`
		Input     string   `json:"input"`
		Output    string   `json:"output"`
		Session   string   `json:"session_id"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return into, err
	}
	if l.Timestamp == nil || l.Input == "" {
		return into, errors.New(`"timestamp" and "input" are needed, and not empty`)
	}
	if *l.Timestamp < 0 || *l.Timestamp > microsecondsMax {
		return into, fmt.Errorf("timestamp %v is not in microseconds since 1970, or since the start", *l.Timestamp)
	}
	at := time.UnixMicro(int64(*l.Timestamp)).Sub(x.start)
	r := Request{At: at, Prompt: max(1, len(l.Input)/textTokenBytes), Output: len(l.Output) / textTokenBytes}
	if l.Session != "" {
		r.Session = hash(l.Session)
	}
	x.chain, _, _ = x.seed.Extend(x.chain.Reset(), x.seed.Root(), []byte(l.Input), textBlockBytes)
	for _, k := range x.chain.Keys {
		r.Blocks = appendName(r.Blocks, uint64(k))
	}
	return append(into, r), nil
}
