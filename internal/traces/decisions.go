package traces

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
)

// decisions reads a router's decision log. A block there is a run of bytes, also cut where messages end: here all are taken to be of the
// same tokens, as many as they have on the mean.
type decisions struct {
	blockTokens int
	start       time.Time // of the trace's time
	numbers     []uint64
}

func promptTokens(r *declog.Record) int {
	if r.Metered && r.PromptTokens > 0 {
		return r.PromptTokens
	}
	return r.PromptTokensEst
}

// parse takes a record. What was never answered and has no length is no load, and is left out. Records are in order of their end: their
// arrivals are sorted by the caller.
func (d *decisions) parse(line []byte, into []Request) ([]Request, error) {
	var r declog.Record
	if err := declog.NewReader(bytes.NewReader(line)).Next(&r); err != nil {
		if err == io.EOF {
			return into, nil
		}
		var bad *declog.LineError
		if errors.As(err, &bad) {
			return into, bad.Err
		}
		return into, err
	}
	prompt := promptTokens(&r)
	if prompt <= 0 {
		return into, nil
	}
	output := r.StreamedTokenCount
	if r.Metered {
		output = r.CompletionTokens
	}
	if err := checkLengths(prompt, output); err != nil {
		return into, err
	}
	q := Request{At: r.Time.Sub(d.start), Tenant: r.Tenant, Prompt: prompt, Output: output}
	if r.Session != "" {
		q.Session = hash(r.Session)
		if n, err := strconv.ParseUint(r.Session, 16, 64); err == nil {
			q.Session = n
		}
	}
	own := mix(hash(r.Boot)) // numbers compare within one life of the router
	d.numbers = r.Numbers(d.numbers[:0])
	for _, n := range d.numbers[:min(len(d.numbers), prompt/d.blockTokens)] {
		q.Blocks = appendName(q.Blocks, own+n)
	}
	return append(into, q), nil
}
