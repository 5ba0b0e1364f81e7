// Package declog writes and reads the decision log: one JSON line a request that says what was asked, who could have served it
// at what price, who did, and what came of it. docs/DECISION-LOG.md is the schema.
//
// Writing never delays a request: records go through a bounded queue to one goroutine, and are dropped, counted, when it is full.
//
//	w, err := declog.Create(declog.Options{Path: "decisions.jsonl"})
//	r := w.Record()                    // recycled: every field zero
//	r.Model, r.Outcome = "m", "succeeded"
//	declog.SetKeys(r, chain.Keys)      // copied; coded as runs on the way out
//	w.Log(r)                           // r belongs to the writer from here on
//	w.Close()                          // writes what is queued
//
// Blocks are numbers and the session is a hash. The text of a prompt is in it only where Record.Text is filled in; that of a reply never is.
package declog

import (
	"strings"
	"time"
)

// Version of the schema; a reader refuses lines of a later one.
const Version = 1

// Record is one request. Durations are seconds, lengths are what their names say. A field that is not known is left out of the line.
type Record struct {
	V    int       `json:"v"`
	Boot string    `json:"boot"` // names the writer's life: block numbers are comparable within one
	Time time.Time `json:"time"` // arrival

	ID       string `json:"id,omitempty"`
	API      string `json:"api,omitempty"`
	Model    string `json:"model,omitempty"`
	Adapter  string `json:"adapter,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Class    string `json:"class,omitempty"`     // of the queue
	ClassWhy string `json:"class_why,omitempty"` // why not the one that was asked for
	Session  string `json:"session,omitempty"`   // hash of the session hint, hex
	Stream   bool   `json:"stream,omitempty"`

	PromptBytes        int `json:"prompt_bytes,omitempty"`
	PromptTokensEst    int `json:"prompt_tokens_est,omitempty"`
	MaxTokens          int `json:"max_tokens,omitempty"`
	PromptTokens       int `json:"prompt_tokens,omitempty"`     // usage, as the engine reported it
	CompletionTokens   int `json:"completion_tokens,omitempty"` // usage
	CachedTokens       int `json:"cached_tokens,omitempty"`     // usage
	CachedTokensEst    int `json:"cached_tokens_est,omitempty"` // expected on the chosen worker
	BestMatchedTokens  int `json:"best_matched_tokens,omitempty"`
	StreamedTokenCount int `json:"streamed_tokens,omitempty"` // content events seen, when there is no usage

	Metered        bool `json:"metered,omitempty"`         // the reply told its usage; else those are unknown, not zero
	CachedReported bool `json:"cached_reported,omitempty"` // it told cached tokens, even if none
	TokensKnown    bool `json:"tokens_known,omitempty"`    // prompt_tokens_est counts the model's own tokens, and is no estimate
	ByEvents       bool `json:"by_events,omitempty"`       // cached_tokens_est is what the worker's cache events say, and no assumption

	Text    string `json:"text,omitempty"`     // the prompt's beginning, where it was asked for that it is kept
	TextCut bool   `json:"text_cut,omitempty"` // it went on

	Blocks    []Run `json:"blocks,omitempty"` // made from the keys given to SetKeys
	BlocksCut bool  `json:"blocks_cut,omitempty"`

	Asked       string   `json:"asked,omitempty"` // the model that was named, where it stands for others; Model is the one that was chosen
	ModelReason string   `json:"model_reason,omitempty"`
	ModelRows   []string `json:"model_rows,omitempty"` // a candidate each, in words

	Pool    string `json:"pool,omitempty"` // of workers that it was placed in; any: in none
	PoolWhy string `json:"pool_why,omitempty"`

	Policy  string `json:"policy,omitempty"`
	Rows    []Row  `json:"rows,omitempty"` // the best 8, the chosen one first
	Worker  string `json:"worker,omitempty"`
	Hit     string `json:"hit,omitempty"` // hit, partial, miss or declined
	Relaxed string `json:"relaxed,omitempty"`
	Reason  string `json:"reason,omitempty"`

	// How one of the candidates with the least score was taken.
	TieSeconds float64 `json:"tie_seconds,omitempty"` // scores within so much of the least tie,
	TieShare   float64 `json:"tie_share,omitempty"`   // or within this share of it
	TieWarm    bool    `json:"tie_warm,omitempty"`    // caches go before the fewest in flight
	TieEquals  int     `json:"tie_equals,omitempty"`  // candidates that were left for chance; -1: it was chosen by another rule
	TieDraw    int     `json:"tie_draw,omitempty"`    // the chosen one's place among these, by id

	Tries []Try `json:"tries,omitempty"` // attempts before the last one: failed, or taken back

	// What it was expected to take on the chosen worker, see docs/COST.md.
	PrefillSecondsEst  float64 `json:"prefill_seconds_est,omitempty"`
	DecodeSecondsEst   float64 `json:"decode_seconds_est,omitempty"`
	EngineSecondsEst   float64 `json:"engine_seconds_est,omitempty"`
	OutputTokensEst    float64 `json:"output_tokens_est,omitempty"`
	OutputTokensP50Est float64 `json:"output_tokens_p50_est,omitempty"`
	OutputTokensP90Est float64 `json:"output_tokens_p90_est,omitempty"`
	KVTokensPeakEst    int     `json:"kv_tokens_peak_est,omitempty"`
	MoneyEst           float64 `json:"money_est,omitempty"`
	Money              float64 `json:"money,omitempty"` // that it cost

	Outcome  string `json:"outcome,omitempty"`
	Refused  string `json:"refused,omitempty"` // why it might not wait, or which limit kept it out
	Status   int    `json:"status,omitempty"`  // HTTP status the client saw
	Error    string `json:"error,omitempty"`
	Operator string `json:"operator,omitempty"` // who cancelled it at the admin port

	DecisionSeconds float64 `json:"decision_seconds,omitempty"`
	QueueSeconds    float64 `json:"queue_seconds,omitempty"`  // arrival to dispatch
	WaitedSeconds   float64 `json:"waited_seconds,omitempty"` // of these, for room on a worker
	Preempted       int     `json:"preempted,omitempty"`      // times that its work gave way to a more urgent request
	WastedSeconds   float64 `json:"wasted_seconds,omitempty"` // engine time that was spent on it until then
	TTFTSeconds     float64 `json:"ttft_seconds,omitempty"`
	E2ESeconds      float64 `json:"e2e_seconds,omitempty"`
	ITLP50Seconds   float64 `json:"itl_p50_seconds,omitempty"`
	ITLMaxSeconds   float64 `json:"itl_max_seconds,omitempty"`

	keys []uint64
}

// Row is one candidate as it was scored. Seconds are engine time.
type Row struct {
	Worker           string  `json:"worker"`
	MatchedTokens    int     `json:"matched_tokens,omitempty"`
	QueuedSeconds    float64 `json:"queued_seconds,omitempty"`
	WaitPriceSeconds float64 `json:"wait_price_seconds,omitempty"` // what a wait costs besides
	TollSeconds      float64 `json:"toll_seconds,omitempty"`       // of a fast worker where requests wait for room
	PrefillSeconds   float64 `json:"prefill_seconds,omitempty"`
	DelaySeconds     float64 `json:"delay_seconds,omitempty"` // by which the prefill makes steps longer
	Price            float64 `json:"price,omitempty"`         // phi, requests that wait for them
	DecodeSeconds    float64 `json:"decode_seconds,omitempty"`
	BatchSeconds     float64 `json:"batch_seconds,omitempty"`
	DisplacedSeconds float64 `json:"displaced_seconds,omitempty"`
	TotalSeconds     float64 `json:"total_seconds,omitempty"`
	Score            float64 `json:"score,omitempty"` // by the policy in force; the least wins
	Load             float64 `json:"load,omitempty"`  // requests there, foreign ones included
	LoadedTokens     int     `json:"loaded_tokens,omitempty"`
	Pressure         float64 `json:"pressure,omitempty"`
	BurdenSeconds    float64 `json:"burden_seconds,omitempty"`
	InFlight         int     `json:"in_flight,omitempty"`
	ByEvents         bool    `json:"by_events,omitempty"`
	Why              string  `json:"why,omitempty"` // the filter that put it out
}

// Try is an attempt that failed.
type Try struct {
	Worker string `json:"worker"`
	Class  string `json:"class"`
	Status int    `json:"status,omitempty"`
}

// Classes of tries that the router itself took back. No worker failed.
const (
	TryMoved     = "moved"     // its worker was leaving the fleet, and had not begun to answer
	TryPreempted = "preempted" // its work gave way to a more urgent request
)

// TakenBack says why the router took the attempt back, TryMoved or TryPreempted; "": a worker failed it. Records without a class are of logs
// in which those that were moved had none.
func (t *Try) TakenBack() string {
	switch {
	case t.Class == "" && t.Status == 0:
		return TryMoved
	case t.Class == TryMoved, t.Class == TryPreempted:
		return t.Class
	}
	return ""
}

// Bounds on what one record may carry. Longer strings are cut, further rows and tries left out.
const (
	stringBytesMax = 256
	reasonBytesMax = 1024
	TextBytesMax   = 16 << 10 // of Record.Text
	rowsMax        = 8
	triesMax       = 16
)

// bound cuts a record to its bounds: models, tenants and errors are other people's words.
func (r *Record) bound() {
	for _, s := range []*string{&r.ID, &r.API, &r.Model, &r.Adapter, &r.Tenant, &r.Class, &r.ClassWhy, &r.Refused, &r.Session, &r.Policy, &r.Pool, &r.Asked, &r.ModelReason, &r.Worker, &r.Hit, &r.Relaxed, &r.Outcome, &r.Operator} {
		cut(s, stringBytesMax)
	}
	for _, s := range []*string{&r.Reason, &r.Error, &r.PoolWhy} {
		cut(s, reasonBytesMax)
	}
	if len(r.Text) > TextBytesMax {
		r.Text, r.TextCut = r.Text[:TextBytesMax], true
	}
	r.ModelRows = r.ModelRows[:min(len(r.ModelRows), rowsMax)]
	for i := range r.ModelRows {
		cut(&r.ModelRows[i], reasonBytesMax)
	}
	r.Rows = r.Rows[:min(len(r.Rows), rowsMax)]
	r.Tries = r.Tries[:min(len(r.Tries), triesMax)]
}

// cut leaves so many bytes of a text at most, in memory of their own: the rest of it may be megabytes.
func cut(s *string, bytesMax int) {
	if len(*s) > bytesMax {
		*s = strings.Clone((*s)[:bytesMax])
	}
}

// bytes estimates what a record holds in memory while it waits.
func (r *Record) bytes() int64 { return int64(1024 + 8*cap(r.keys) + 160*cap(r.Rows) + len(r.Text)) }

// keysKept bounds the room for keys that a recycled record keeps.
const keysKept = 1 << 14

// Copy makes into the same record, in memory of its own. The blocks' keys, which only a writer can number, stay behind, and so does the text,
// which is for the log alone.
func (r *Record) Copy(into *Record) {
	rows, tries := append(into.Rows[:0], r.Rows...), append(into.Tries[:0], r.Tries...)
	*into = *r
	into.V, into.keys, into.Blocks, into.Text, into.TextCut = Version, nil, nil, "", false
	into.Rows, into.Tries = rows, tries
	into.ModelRows = append([]string(nil), r.ModelRows...) // bound cuts them in place
	into.bound()
}

// Bytes estimates what a record that was copied holds in memory.
func (r *Record) Bytes() int64 {
	n := r.bytes() + 64*int64(cap(r.Tries))
	for _, s := range []string{r.ID, r.Model, r.Tenant, r.Session, r.Asked, r.ModelReason, r.PoolWhy, r.Reason, r.Error, r.Relaxed} {
		n += int64(len(s))
	}
	for _, row := range r.ModelRows {
		n += int64(16 + len(row))
	}
	return n
}

// Reset empties a record but keeps its room.
func (r *Record) Reset() {
	keys := r.keys[:0]
	if cap(keys) > keysKept {
		keys = nil
	}
	*r = Record{Blocks: r.Blocks[:0], Rows: r.Rows[:0], Tries: r.Tries[:0], keys: keys}
}
