package telemetry

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"github.com/warmpath/warmpath/internal/fleet"
)

// family is what a metric means to us, whatever its engine calls it.
type family uint8

const (
	running family = iota
	waiting
	kvUsage
	kvUsageOld // an engine may show the old and the new name at once: the new one wins
	prefixQueries
	prefixQueriesOld
	prefixHits
	prefixHitsOld
	promptTokens
	processStart
	blockTokens
	blockCount
	kvTokens
	gpuPercent
	gpuShare
	gpuUsed
	gpuFree
	gpuTotal
	cacheConfig // its labels, not its value
	families
)

// tally sums the samples of each family; several ranks behind one address each give one.
type tally struct {
	sum [families]float64
	n   [families]int
}

func (t *tally) add(o *tally) {
	for f := range t.sum {
		t.sum[f] += o.sum[f]
		t.n[f] += o.n[f]
	}
}

// exposition reads a page of metrics in the Prometheus text format as it arrives, keeping only the families wanted. It allocates
// nothing per line. Pages of 2 MB, mostly histogram buckets, are normal.
type exposition struct {
	wanted map[string]family
	models []string // names the engine serves; samples of others do not count
	rank   string   // the one data-parallel rank that counts; "" all of them together
	gpus   []string // the GPUs that count; nil all of the page's

	heads []uint64 // the first headBytes of the names wanted; nil: every line is looked at

	ranks        [ranksMax]bool // data-parallel ranks that the page names
	leaders      [ranksMax]int  // of each data-parallel rank: the tensor-parallel one that speaks for it, plus 1
	mine, others tally
	matched      bool   // a sample named one of models
	otherModel   string // the first model name that is not among models
	severalOther bool

	configBlock, configTokens int // from cacheConfig; configTokens summed over ranks
}

// ranksMax bounds the data-parallel ranks behind one address that are told apart; those beyond share a place.
const ranksMax = 256

// lineBytesMax bounds a line; a longer one is skipped.
const lineBytesMax = 32 << 10

var lineBuffers = sync.Pool{New: func() any { return new([lineBytesMax]byte) }}

// read reads a whole page. A page longer than bytesMax, or cut short, is an error: then nothing read from it may be used.
func (x *exposition) read(resp *http.Response, bytesMax int64) error {
	buf := lineBuffers.Get().(*[lineBytesMax]byte)
	defer lineBuffers.Put(buf)
	x.heads = headsOf(x.wanted)
	held, total, skipping := 0, int64(0), false
	for {
		n, err := resp.Body.Read(buf[held:])
		if total += int64(n); total > bytesMax {
			return fmt.Errorf("page longer than %d bytes", bytesMax)
		}
		// Only what is new is searched for a line's end, so that a page that drips in costs no more than one that pours.
		start, searched, end := 0, held, held+n
		for {
			i := bytes.IndexByte(buf[searched:end], '\n')
			if i < 0 {
				break
			}
			if !skipping {
				x.line(buf[start : searched+i])
			}
			start, skipping = searched+i+1, false
			searched = start
		}
		if held = end - start; start > 0 {
			copy(buf[:], buf[start:end])
		}
		if held == lineBytesMax {
			held, skipping = 0, true
		}
		if err == nil {
			continue
		}
		if err != io.EOF {
			return err
		}
		if held > 0 && !skipping {
			if resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 {
				return io.ErrUnexpectedEOF // ended by closing, in the middle of a line: nobody says that this was all
			}
			x.line(buf[:held])
		}
		return nil
	}
}

// Most lines are known not to be wanted by their first headBytes, which cost less to compare than a name to look for. headsMax is how many
// beginnings may differ until comparing them costs as much.
const headBytes, headsMax = 8, 16

// headsOf are the beginnings of the names; nil when there are too many, or a name is too short.
func headsOf(wanted map[string]family) []uint64 {
	heads := make([]uint64, 0, headsMax)
	for name := range wanted {
		if len(name) < headBytes {
			return nil
		}
		head := binary.LittleEndian.Uint64([]byte(name[:headBytes]))
		switch {
		case slices.Contains(heads, head):
		case len(heads) == headsMax:
			return nil
		default:
			heads = append(heads, head)
		}
	}
	return heads
}

// line takes one line without its end.
func (x *exposition) line(b []byte) {
	if len(b) == 0 || b[0] == '#' {
		return
	}
	if x.heads != nil && (len(b) < headBytes || !slices.Contains(x.heads, binary.LittleEndian.Uint64(b))) {
		return
	}
	nameEnd := bytes.IndexByte(b, '{')
	hasLabels := nameEnd >= 0 && bytes.IndexByte(b[:nameEnd], ' ') < 0 && bytes.IndexByte(b[:nameEnd], '\t') < 0 // else an exemplar's
	if !hasLabels {
		if nameEnd = bytes.IndexAny(b, " \t"); nameEnd < 0 {
			return
		}
	}
	f, ok := x.wanted[string(b[:nameEnd])]
	if !ok {
		return
	}
	rest := b[nameEnd:]
	var l labels
	if hasLabels {
		if rest, ok = l.parse(rest[1:]); !ok {
			return
		}
	}
	v, ok := sampleValue(rest)
	if !ok || !x.counted(&l) {
		return
	}
	if f == cacheConfig {
		x.config(&l)
		return
	}
	x.tallyOf(l.modelName).count(f, v)
}

// counted tells whether a sample is one of ours: of the rank asked for, and not one more of the ranks that share a model among them
// and each tell the same (SGLang with --enable-metrics-for-all-schedulers). What came from a lower tier of the cache is no device hit.
func (x *exposition) counted(l *labels) bool {
	for _, rank := range [...][]byte{l.engine, l.dpRank} {
		if rank != nil {
			x.ranks[min(number(rank), ranksMax-1)] = true
		}
	}
	if x.rank != "" && (l.engine != nil && string(l.engine) != x.rank || l.dpRank != nil && string(l.dpRank) != x.rank) {
		return false
	}
	if x.gpus != nil && l.gpu != nil && !slices.Contains(x.gpus, string(l.gpu)) {
		return false
	}
	if l.source != nil && string(l.source) != "device" && string(l.source) != "total" {
		return false
	}
	if l.tpRank == nil && l.ppRank == nil {
		return true
	}
	at, who := min(number(l.dpRank), ranksMax-1), 1+min(number(l.tpRank), 1<<20)<<20+min(number(l.ppRank), 1<<20)
	if x.leaders[at] == 0 {
		x.leaders[at] = who
	}
	return x.leaders[at] == who
}

func (t *tally) count(f family, v float64) {
	t.sum[f] += v
	t.n[f]++
}

// tallyOf tells whose samples those of a model name are. A sample without the label is the engine's own.
func (x *exposition) tallyOf(model []byte) *tally {
	if model == nil {
		return &x.mine
	}
	if slices.ContainsFunc(x.models, func(m string) bool { return m == string(model) }) {
		x.matched = true
		return &x.mine
	}
	if x.otherModel == "" {
		x.otherModel = string(model)
	} else if x.otherModel != string(model) {
		x.severalOther = true
	}
	return &x.others
}

// config takes vLLM's cache_config_info, whose labels are the configuration of one rank. "None" is unknown.
func (x *exposition) config(l *labels) {
	block, blocks, tokens := number(l.blockSize), number(l.gpuBlocks), number(l.kvTokens)
	if tokens == 0 {
		tokens = block * blocks
	}
	if block > tokensMax || blocks > tokensMax || tokens < 0 || tokens > tokensMax {
		return
	}
	x.configBlock = block
	x.configTokens += tokens
}

func number(b []byte) int {
	v, err := strconv.ParseUint(asString(b), 10, 40)
	if err != nil {
		return 0
	}
	return int(v)
}

// sampleValue reads the number after a name; a timestamp or an exemplar may follow it. Negative, infinite and missing are no values.
func sampleValue(b []byte) (float64, bool) {
	b = bytes.Trim(b, " \t\r")
	if i := bytes.IndexAny(b, " \t"); i >= 0 {
		b = b[:i]
	}
	v, err := strconv.ParseFloat(asString(b), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, false
	}
	return v, true
}

// asString views bytes as a string for the length of one call, to spare a copy for each number.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// countMax bounds a number of requests; beyond it an engine's claim is absurd and counts as absent.
const countMax = 1e7

// own are the samples of the engine's own models.
func (x *exposition) own() tally {
	t := x.mine
	if !x.matched && !x.severalOther {
		t.add(&x.others) // the only name on the page, though the model list calls it otherwise
	}
	return t
}

// sizes are the block and the whole cache, in tokens; 0 unknown. Ranks have blocks of one size, and each its own cache.
func (x *exposition) sizes() (block, cache int) {
	t := x.own()
	mean, _ := t.mean(blockTokens, blockTokens)
	block, cache = x.configBlock, x.configTokens
	if block == 0 {
		block = bounded(mean)
	}
	if cache == 0 {
		cache = bounded(t.sum[kvTokens])
	}
	if cache == 0 {
		cache = bounded(float64(block) * t.sum[blockCount])
	}
	return block, cache
}

// bounded is v as a number of tokens; what no engine can have is unknown.
func bounded(v float64) int {
	if v > 1<<40 {
		return 0
	}
	return int(v)
}

// counts is what a page said.
func (x *exposition) counts() fleet.Counts {
	t := x.own()
	var c fleet.Counts
	if t.n[running] > 0 && t.sum[running] <= countMax {
		c.Running, c.Has = int(t.sum[running]), c.Has|fleet.HasRunning
	}
	if t.n[waiting] > 0 && t.sum[waiting] <= countMax {
		c.Waiting, c.Has = int(t.sum[waiting]), c.Has|fleet.HasWaiting
	}
	if mean, ok := t.mean(kvUsage, kvUsageOld); ok {
		c.KVUsage, c.Has = min(mean, 1), c.Has|fleet.HasKVUsage
	}
	queries, okQueries := t.total(prefixQueries, prefixQueriesOld)
	if !okQueries {
		queries, okQueries = t.total(promptTokens, promptTokens) // engines that look up every prompt token count only those
	}
	hits, okHits := t.total(prefixHits, prefixHitsOld)
	if okQueries && okHits {
		c.PrefixQueries, c.PrefixHits, c.Has = queries, hits, c.Has|fleet.HasPrefixCache
	}
	if t.n[promptTokens] > 0 {
		c.PromptTokens, c.Has = t.sum[promptTokens], c.Has|fleet.HasPromptTokens
	}
	return c
}

// mean is over ranks, which have caches of one size: the share of them all that is in use.
func (t *tally) mean(now, old family) (float64, bool) {
	if t.n[now] == 0 {
		now = old
	}
	return t.sum[now] / float64(max(t.n[now], 1)), t.n[now] > 0
}

func (t *tally) total(now, old family) (float64, bool) {
	if t.n[now] == 0 {
		now = old
	}
	return t.sum[now], t.n[now] > 0
}

// started is when the engine's process started, in its own words; 0 unknown.
func (x *exposition) started() float64 {
	if x.mine.n[processStart] == 0 {
		return 0
	}
	return x.mine.sum[processStart] / float64(x.mine.n[processStart])
}

// scrapeMetrics reads a page of metrics for the families of one engine.
func scrapeMetrics(ctx context.Context, c *client, path string, wanted map[string]family, models []string, bytesMax int64) (page, http.Header, error) {
	x := exposition{wanted: wanted, models: models, rank: c.rank}
	var header http.Header
	err := c.get(ctx, path, func(resp *http.Response) error {
		header = resp.Header
		return x.read(resp, bytesMax)
	})
	if err != nil {
		return page{}, nil, err
	}
	p := page{counts: x.counts(), started: x.started()}
	p.blockTokens, p.kvTokens = x.sizes()
	for _, named := range x.ranks {
		if named {
			p.ranks++
		}
	}
	return p, header, nil
}
