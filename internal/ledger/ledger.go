// Package ledger is the table of everything that grows in the router: what each bound is called, what it counts, which setting moves it, and
// what happens there. docs/BOUNDS.md, /state and the metrics are made of it.
//
//	l := ledger.New()
//	l.Set(ledger.Connections, 9868, 120, 3)
//	for _, line := range l.Lines() { ... }         // every entry of Book, in its order
package ledger

// Entry is one bound.
type Entry struct {
	Name    string
	Unit    string
	What    string // is counted
	Default string
	Setting string
	Then    string // what happens at the bound
	// Each says that it bounds every single thing: there is no use to tell of all together.
	Each bool
	// Rolls says that it keeps the last of something, or what counts most: to be full is as it should be.
	Rolls bool
}

// Names of the bounds.
const (
	Connections     = "connections"
	ClientConns     = "connections_per_client"
	AdminConns      = "admin_connections"
	WorkerConns     = "worker_connections"
	Descriptors     = "descriptors"
	Goroutines      = "goroutines"
	Memory          = "memory_bytes"
	HeadBytes       = "head_bytes"
	BodyBytes       = "body_bytes"
	BodiesBytes     = "bodies_bytes"
	SpoolBytes      = "spool_bytes"
	IdleConns       = "idle_connections_per_worker"
	Retries         = "retries_per_request"
	ClientPace      = "client_pace"
	QueueRequests   = "queue_requests"
	QueueBytes      = "queue_bytes"
	QueueWork       = "queue_work_seconds"
	IndexBytes      = "index_bytes"
	EventIndexBytes = "event_index_bytes"
	TokenBytes      = "token_cache_bytes"
	TokenQuestions  = "token_questions"
	Conversations   = "conversations"
	Responses       = "responses"
	Lengths         = "answer_lengths"
	Tenants         = "tenants"
	Workers         = "workers"
	ModelLabels     = "model_labels"
	WorkerLabels    = "worker_labels"
	LogLines        = "log_lines"
	DecisionRecords = "decision_records"
	DecisionFiles   = "decision_log_bytes"
	GhostBytes      = "ghost_bytes"
	GhostRequests   = "ghost_requests"
	Inside          = "requests_inside"
	RecentDecisions = "recent_decisions"
	RecentBytes     = "recent_decision_bytes"
	Series          = "series_steps"
	Prefixes        = "prefixes_tracked"
	Listeners       = "event_listeners"
	TraceQueue      = "trace_requests"
)

// Book is every bound, in the order of the page.
var Book = []Entry{
	{Connections, "connections", "clients connected to the data port", "half of the limit of open files that is left", "connections_max, ulimit -n",
		"one that waits for its next request is closed for the new one; without such a one 503 with `Retry-After` and an end of the connection, and beyond a few of these none is accepted until one ends", false, false},
	{ClientConns, "connections", "those of one client address, or network of 64 bits in IPv6; used is the client with most", "none", "connections_per_client_max",
		"429 with `Retry-After`, and the connection ends; eight are told at one time, those beyond are closed unheard", false, false},
	{AdminConns, "connections", "connections to the admin port", "256", "", "the one that has waited longest for a request is closed for the new one; without such a one 503, and the connection ends", false, false},
	{WorkerConns, "connections", "connections to http workers, idle ones included", "the other half", "ulimit -n",
		"none is kept for a next request; where none can be opened any more, 503 with `Retry-After`", false, false},
	{IdleConns, "connections", "idle connections to one http worker, for 4 s at most", "256", "", "closed", true, false},
	{Descriptors, "descriptors", "open files of the process", "what the system allows", "ulimit -n, LimitNOFILE", "see the three above: they are cut so that it is not reached", false, false},
	{Goroutines, "goroutines", "what runs in the process", "made of the bounds of connections and workers", "", "nothing: it shows that nothing is left behind", false, false},
	{Memory, "bytes", "what cannot be collected", "nine tenths of what the control groups allow", "memory_max, GOMEMLIMIT",
		"from 90 % caches give up what they hold; from 95 %, once they hold nothing, bodies beyond 256 KiB are answered 503 with `Retry-After`", false, false},
	{HeadBytes, "bytes", "a request's head", "64 KiB", "", "431", true, false},
	{BodyBytes, "bytes", "a request's body", "64MiB", "body_bytes_max", "413", true, false},
	{BodiesBytes, "bytes", "all bodies inside", "2GiB, no more than half of the memory", "bodies_bytes_max", "503 with `Retry-After`", false, false},
	{SpoolBytes, "bytes", "large bodies that wait in files", "16GiB", "body_spool_max", "503 with `Retry-After`", false, false},
	{ClientPace, "seconds", "a client's head (30 s), 16 KiB more of its body, and a piece of its answer that it does not take", "1m0s", "timeouts.client",
		"the connection ends; 408 for a body. A client that takes its answer slowly, but takes it, is left alone", true, false},
	{QueueRequests, "requests", "requests that wait for room on a worker", "10000", "queue.requests_max", "503 (529 to Anthropic clients) with a reason and `Retry-After`", false, false},
	{QueueBytes, "bytes", "their bodies", "512MiB", "queue.bytes_max", "the same", false, false},
	{QueueWork, "seconds", "engine time that they are expected to take", "10m0s", "queue.work_max", "the same", false, false},
	{Retries, "workers", "further workers that are tried for one request", "2", "retries_max", "the last one's answer or error is passed on", true, false},
	{IndexBytes, "bytes", "the index of assumed caches", "256MiB", "index_bytes_max", "the blocks used longest ago are forgotten", false, false},
	{EventIndexBytes, "bytes", "the index of what engines say they hold", "512MiB", "exact.index_bytes_max", "the subtrees used longest ago are forgotten", false, false},
	{TokenBytes, "bytes", "tokens that were worked out or told, for each model and all that is told", "64MiB each", "exact.cache_bytes_max", "those used longest ago are forgotten", false, false},
	{TokenQuestions, "questions", "questions for tokens under way at engines", "32", "exact.tokens_in_flight_max", "the request is matched by its bytes", false, false},
	{Conversations, "conversations", "conversations whose model is remembered", "100000", "conversations_max", "those used longest ago are forgotten", false, false},
	{Responses, "responses", "responses and conversations whose worker is remembered", "1000000", "", "those used longest ago are forgotten", false, false},
	{Lengths, "pairs", "models and tenants whose lengths of answers are told apart", "4096", "", "the ones used longest ago are forgotten", false, false},
	{Tenants, "tenants", "tenants with a key", "100000", "tenants.file", "the file is refused, and the one before stays", false, false},
	{Workers, "workers", "workers in the fleet", "1024", "discovery.workers_max", "the worker is refused, and `/state` says why", false, false},
	{ModelLabels, "values", "models with series of their own", "256", "", "counted under `other`", false, false},
	{WorkerLabels, "values", "workers with series of their own", "1024", "", "counted under `other`", false, false},
	{LogLines, "lines", "lines a minute of one message in the log", "60", "log_lines_max", "left out; one line tells how many", true, false},
	{DecisionRecords, "records", "records that wait to be written to the decision log", "4096", "", "dropped", false, false},
	{DecisionFiles, "bytes", "a file of the decision log, beside which four full ones are kept", "256MiB", "decision_log.bytes_max, decision_log.files_max", "the file is put aside, and the oldest removed", true, false},
	{TraceQueue, "requests", "traced requests whose spans wait to be sent to the collector", "1024", "", "their spans are dropped, and counted in `warmpath_trace_spans_total`", false, false},
	{GhostBytes, "bytes", "assumed caches of the rules that the fleet is compared with", "32MiB", "ghosts.bytes_max", "a smaller sample of blocks is looked at", false, false},
	{GhostRequests, "requests", "requests that wait to be placed by these rules", "8192", "", "they are left out of all figures of ghosts, the fleet's included", false, false},
	{Inside, "requests", "requests that are inside, as `/requests` lists them; a connection has one at a time", "as many as connections", "connections_max, ulimit -n", "see `connections`", false, false},
	{RecentDecisions, "decisions", "decisions that `/decisions` tells of", "2000", "dash.decisions_max", "the oldest is forgotten", false, true},
	{RecentBytes, "bytes", "their memory", "16MiB", "dash.decisions_bytes_max", "the oldest are forgotten, and fewer are kept", false, true},
	{Series, "steps", "steps of `/series`: of a second for 15 minutes, of 10 seconds for 2 hours, of a minute for a day", "3063", "", "the oldest gives its place to the newest", false, true},
	{Prefixes, "prefixes", "prefixes that many requests share", "1024", "", "the one that counts least gives its place to the new one", false, true},
	{Listeners, "listeners", "who follows `/events`", "16", "dash.listeners_max", "503 with `Retry-After`; who reads too slowly loses snapshots", false, false},
}

// Line is one bound as it stands.
type Line struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Limit   float64 `json:"limit"` // 0: none
	Used    float64 `json:"used"`  // 0 for what bounds each thing by itself
	Refused uint64  `json:"refused"`
	Setting string  `json:"setting,omitempty"`
	Each    bool    `json:"each,omitempty"`  // it bounds every single thing
	Rolls   bool    `json:"rolls,omitempty"` // to be full is as it should be
}

// Ledger is the bounds as they stand at one moment.
type Ledger struct{ lines map[string]*Line }

// New makes a ledger in which every bound of Book stands, as yet without figures.
func New() *Ledger {
	l := &Ledger{lines: map[string]*Line{}}
	for _, e := range Book {
		l.lines[e.Name] = &Line{Name: e.Name, Unit: e.Unit, Setting: e.Setting, Each: e.Each, Rolls: e.Rolls}
	}
	return l
}

// Set enters how a bound stands; a name that is not in Book panics. refused counts, since the start, what was turned away, put out or left
// out at the bound.
func (l *Ledger) Set(name string, limit, used float64, refused uint64) {
	e := l.lines[name]
	e.Limit, e.Used, e.Refused = limit, used, refused
}

// Lines are all of them, in the order of Book.
func (l *Ledger) Lines() []Line {
	all := make([]Line, 0, len(Book))
	for _, e := range Book {
		all = append(all, *l.lines[e.Name])
	}
	return all
}
