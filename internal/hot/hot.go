// Package hot knows the beginnings that most prompts share: prefixes, not prompts.
//
//	h := hot.New(hot.Options{})
//	h.Note(&hot.Request{At: now, Model: "m", Chain: chain, PromptTokens: 900, Known: 31, CachedTokens: 480}) // as each request ends
//	for _, p := range h.Top(now, 20, hot.ByRequests) { fmt.Println(p.Key, p.Tokens, p.PerMinute) }
//
// Where a request leaves what was known before it came is where a shared prefix ends: that block is counted, in a table of so many that holds
// the most frequent ones (space-saving: Metwally, Agrawal, El Abbadi 2005), and so is every block in the table that a request's chain runs through.
// Counts decay, so that what was hot yesterday gives way: each request weighs the more the later it comes, which is the same and costs nothing
// (forward decay: Cormode et al. 2009). A prefix is named by its last block's key, which hashes all of it under the installation's secret.
//
// The room is pure; its owner serialises.
package hot

import (
	"math"

	"github.com/warmpath/warmpath/internal/prefix"
)

// Options of New; 0 is the default.
type Options struct {
	Max       int     // prefixes in the table; default 1024
	HalfLife  float64 // seconds after which a request counts half; default 600
	KeysMax   int     // blocks that are looked at in a second, about; beyond it a share of the requests stands for all. Default 1,000,000
	TextBytes int     // of a prefix that are kept; default none
}

// Request is one that is over. It is read during Note only.
type Request struct {
	At           int64 // nanoseconds
	Model        string
	Chain        prefix.Chain
	PromptTokens int
	TextBytes    int         // of the whole prompt, in the unit of Chain.Ends
	Known        int         // leading blocks that some worker held before
	CachedTokens int         // of the prompt, where it went
	Tokens       []TokenKeys // of the prompt by its own tokens; empty: not known
	Text         []byte      // of the prompt; kept where TextBytes of Options says so, and never otherwise
}

// Prefix is one of the table.
type Prefix struct {
	Key    prefix.Key
	Model  string
	Blocks int
	Tokens int // when it was seen last
	Bytes  int // of text
	// PerMinute is the requests that begin so, a minute: a mean over about Options.HalfLife, or since First where that is shorter. Requests are those
	// since First, and Error is how many the former may be too many, because others had the place before.
	PerMinute, Error float64
	Requests         float64
	CachedTokens     float64 // of the prefix, where these requests went: what they did not compute
	First, Last      int64   // nanoseconds
	Text             string
	Leads            []Lead // its end by the tokens of requests that begin so; none: these were not known
}

type entry struct {
	Prefix
	weight, error float64
	parent        prefix.Key // the next shorter one in the table, when it was seen last; 0 none
	trails        []trail
}

// Table is the hottest prefixes.
type Table struct {
	o       Options
	all     []entry
	at      map[prefix.Key]int32
	filter  [filterPlaces]uint8 // how many in the table have that place: most blocks of a chain are found out by it
	epoch   int64               // when a request weighs 1
	began   int64               // when the first one came
	now     int64               // the latest time that was told
	on      []int32             // scratch: entries that a chain runs through
	second  int64               // since the epoch
	keys    int                 // of the requests in it
	every   int                 // one in so many requests is looked at
	out     uint64              // prefixes that gave way to others
	counter int
}

// filterPlaces is the size of the filter: with 1,024 prefixes one in 32 blocks is looked up in vain.
const filterPlaces = 1 << 15

// rebaseAfter is how many half-lives may pass until weights are made small again.
const rebaseAfter = 256

// New makes an empty table.
func New(o Options) *Table {
	if o.Max <= 0 {
		o.Max = 1024
	}
	if !(o.HalfLife > 0) {
		o.HalfLife = 600
	}
	if o.KeysMax <= 0 {
		o.KeysMax = 1_000_000
	}
	return &Table{o: o, at: make(map[prefix.Key]int32, o.Max), every: 1}
}

// Note counts a request.
func (t *Table) Note(q *Request) {
	n := len(q.Chain.Keys)
	if n == 0 || !t.due(q.At, n) {
		return
	}
	weight, many := t.weigh(q.At)*float64(t.every), float64(t.every)
	t.run(q)
	for i, at := range t.on {
		e := &t.all[at]
		e.weight += weight
		e.Requests += many
		e.see(q, many)
		e.parent = 0
		if i > 0 {
			e.parent = t.all[t.on[i-1]].Key
		}
	}
	if known := min(q.Known, n); known > 0 {
		if _, there := t.at[q.Chain.Keys[known-1]]; !there {
			t.enter(q, known, weight, many)
		}
	}
}

// due says whether a request is one of those that are looked at. How many that are is settled by the second before.
func (t *Table) due(now int64, keys int) bool {
	if second := now / 1e9; second != t.second {
		t.every = 1 + t.keys/t.o.KeysMax
		t.second, t.keys = second, 0
	}
	t.keys += keys
	t.counter++
	return t.counter%t.every == 0
}

// weigh is what a request counts that comes now, before those of the epoch by so many half-lives. A clock that is set back stands still: requests
// would weigh nothing beside those before, and those before would be without end.
func (t *Table) weigh(now int64) float64 {
	t.now = max(t.now, now)
	if now = t.now; t.epoch == 0 {
		t.epoch, t.began = now, now
	}
	lives := float64(now-t.epoch) / 1e9 / t.o.HalfLife
	if lives > rebaseAfter {
		shrink := math.Exp2(-lives)
		for i := range t.all {
			t.all[i].weight *= shrink
			t.all[i].error *= shrink
		}
		t.epoch, lives = now, 0
	}
	return math.Exp2(lives)
}

// run finds the entries that the chain runs through, the shortest first.
func (t *Table) run(q *Request) {
	t.on = t.on[:0]
	for _, key := range q.Chain.Keys {
		if t.filter[place(key)] > 0 {
			if at, ok := t.at[key]; ok {
				t.on = append(t.on, at)
			}
		}
	}
}

func place(key prefix.Key) int { return int(uint64(key) * 0x9e3779b97f4a7c15 >> 49) }

// enter puts the first blocks of a chain into the table, in place of the prefix that counts least.
func (t *Table) enter(q *Request, blocks int, weight, many float64) {
	key, least := q.Chain.Keys[blocks-1], 0.0
	at := int32(len(t.all))
	if len(t.all) < t.o.Max {
		t.all = append(t.all, entry{})
	} else {
		at = 0
		for i := range t.all {
			if t.all[i].weight < t.all[at].weight {
				at = int32(i)
			}
		}
		out := &t.all[at]
		least = out.weight
		t.out++
		delete(t.at, out.Key)
		if p := &t.filter[place(out.Key)]; *p < math.MaxUint8 { // one that is full stays so
			*p--
		}
	}
	t.at[key] = at
	if p := &t.filter[place(key)]; *p < math.MaxUint8 {
		*p++
	}
	e := &t.all[at]
	*e = entry{Prefix: Prefix{Key: key, Model: q.Model, Blocks: blocks, Requests: many, First: q.At}, weight: least + weight, error: least}
	if n := min(t.o.TextBytes, int(q.Chain.Ends[blocks-1]), len(q.Text)); n > 0 {
		e.Text = string(q.Text[:n])
	}
	for _, on := range t.on {
		if t.all[on].Blocks < blocks && on != at {
			e.parent = t.all[on].Key
		}
	}
	e.see(q, many)
}

// see notes how a request that begins so had it.
func (e *entry) see(q *Request, many float64) {
	end := int64(q.Chain.Ends[e.Blocks-1])
	e.Tokens = int(int64(q.PromptTokens) * end / int64(max(q.TextBytes, q.Chain.Bytes(), 1)))
	e.Bytes, e.Last = int(end), q.At
	e.CachedTokens += many * float64(min(e.Tokens, q.CachedTokens))
	e.follow(q)
}
