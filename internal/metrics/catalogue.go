package metrics

import (
	"fmt"
	"strings"
)

// Kind of a family, in the exposition format's words.
const (
	kindCounter   = "counter"
	kindGauge     = "gauge"
	kindHistogram = "histogram"
)

// family describes one metric. Help is a sentence for the page and for the exposition alike.
type family struct {
	name, kind, unit, help string
	labels                 []string
	buckets                []float64 // upper bounds in seconds, histograms only
	native                 bool      // a native histogram beside them, where the scraper asks for protobuf
}

// Bucket bounds in seconds. First tokens span a warm idle worker (tens of ms) to a long prompt behind a queue (minutes); gaps
// between tokens span 3 ms on a fast GPU to seconds behind a long prefill; decisions are microseconds.
var (
	ttftBuckets     = []float64{.01, .025, .05, .1, .2, .35, .5, .75, 1, 1.5, 2.5, 5, 10, 20, 40, 80, 160}
	itlBuckets      = []float64{.002, .005, .0075, .01, .015, .02, .03, .04, .06, .08, .12, .2, .35, .5, 1, 2.5, 10}
	e2eBuckets      = []float64{.05, .1, .25, .5, 1, 2, 3.5, 5, 7.5, 10, 15, 25, 40, 60, 120, 300, 900}
	waitBuckets     = []float64{.001, .005, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640}
	decisionBuckets = []float64{2e-6, 5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 1.5e-4, 3e-4, 6e-4, 1.2e-3, 2.5e-3, 5e-3, .02, .1}
)

// Label values that are closed lists. A value outside its list counts under "other", so that no caller can open a series by accident.
var (
	outcomes = []string{"succeeded", "failed", "incomplete", "cancelled", "client_error", "busy", "no_worker"}
	hits     = []string{"hit", "partial", "miss", "declined"}
	apis     = []string{"chat", "completions", "embeddings", "responses", "messages", "count_tokens"}
	classes  = []string{"refused", "reset", "timeout", "bad_shape", "server_error", "busy", "exhausted", "invalid", "source"}
	kinds    = []string{"prompt", "cached", "completion"}
	states   = []string{"ready", "ejected", "probing", "draining", "down", "loading", "unknown"}
	causes   = []string{"failing", "outlier", "silent", "unwell"}
	canaries = []string{"good", "failed", "late", "refused"}

	tokenModes    = []string{"exact", "engine-side", "approximate"}
	eventStates   = []string{"complete", "catching", "partial", "waiting", "silent", "none"}
	eventKinds    = []string{"applied", "replayed", "repeated", "undecodable"}
	eventTroubles = []string{"gap", "restart", "forgotten", "silence", "malformed"}
	blockKinds    = []string{"stored", "removed"}
	tokenSources  = []string{"exact", "told", "unknown"}
	questionKinds = []string{"asked", "cached", "late", "failed", "full"}
	lossCauses    = []string{"not_there", "untold", "mis_keyed", "mis_routed"}

	queueEnds    = []string{"passed", "placed", "left", "timed_out"}
	waitEnds     = []string{"placed", "left", "timed_out"}
	refusals     = []string{"queue_full", "tenant_share", "shed", "deadline"}
	tenantLimits = []string{"in_flight", "requests_per_minute", "tokens_per_minute", "spend_per_day"}
)

// catalogue is every family, in the order of the page. docs/METRICS.md is made of it; a test holds them together.
var catalogue = []family{
	{name: "warmpath_build_info", kind: kindGauge, unit: "1", labels: []string{"version", "commit", "go"},
		help: "Always 1; its labels say what the router was built from."},
	{name: "warmpath_requests_total", kind: kindCounter, unit: "requests", labels: []string{"outcome", "api", "model"},
		help: "Requests that ended. outcome: succeeded; failed (no worker answered well, the stream broke or carried an error); incomplete (the reply says so itself); cancelled (the client left); client_error (4xx); busy (429 or 503 passed on); no_worker (nobody could serve it)."},
	{name: "warmpath_requests_without_text_total", kind: kindCounter, unit: "requests",
		help: "Requests without text to match against warm prefixes; they are placed by load alone."},
	{name: "warmpath_prompt_tokens_total", kind: kindCounter, unit: "tokens",
		help: "Prompt tokens, as the engines reported them."},
	{name: "warmpath_completion_tokens_total", kind: kindCounter, unit: "tokens",
		help: "Generated tokens, as the engines reported them."},
	{name: "warmpath_cached_tokens_predicted_total", kind: kindCounter, unit: "tokens",
		help: "Prompt tokens that were expected to be cached on the chosen worker."},
	{name: "warmpath_cached_tokens_reported_total", kind: kindCounter, unit: "tokens",
		help: "Prompt tokens that the engines reported as served from cache. Divided by warmpath_prompt_tokens_total it is the hit rate."},
	{name: "warmpath_hits_declined_total", kind: kindCounter, unit: "requests",
		help: "Placements that gave up a longer cached prefix. Under warm-cost: going there would have cost more than it saves."},
	{name: "warmpath_ttft_seconds", kind: kindHistogram, unit: "seconds", labels: []string{"model", "hit"}, buckets: ttftBuckets, native: true,
		help: "Time to first token, from the request's arrival. hit: hit (the whole known prefix), partial, miss, declined."},
	{name: "warmpath_itl_seconds", kind: kindHistogram, unit: "seconds", labels: []string{"model", "hit"}, buckets: itlBuckets,
		help: "Gaps between the tokens of streamed replies."},
	{name: "warmpath_e2e_seconds", kind: kindHistogram, unit: "seconds", labels: []string{"model", "hit"}, buckets: e2eBuckets, native: true,
		help: "Time from a request's arrival to the last byte of its reply."},
	{name: "warmpath_decision_seconds", kind: kindHistogram, unit: "seconds", buckets: decisionBuckets,
		help: "Time to score the workers, choose one and reserve on it."},
	{name: "warmpath_upstream_errors_total", kind: kindCounter, unit: "errors", labels: []string{"class", "worker"},
		help: "Attempts that a worker did not answer properly. class: refused, reset, timeout, bad_shape, server_error (5xx other than 503), busy (429 or 503), exhausted (the router itself could open no connection), invalid (the request cannot be passed on), source (its body could not be read back), other. The worker has no part in the last four."},
	{name: "warmpath_retries_total", kind: kindCounter, unit: "attempts",
		help: "Attempts on another worker after one failed."},
	{name: "warmpath_moved_total", kind: kindCounter, unit: "attempts",
		help: "Attempts on another worker because the one before was leaving the fleet: drained or removed before a byte of its answer had come. No worker failed."},
	{name: "warmpath_ejections_total", kind: kindCounter, unit: "ejections", labels: []string{"worker", "cause"},
		help: "Times a worker was put out. cause: failing (faults in a row, or a request that tried it failed), outlier (a share of faults far above its peers'), silent (its answers were long overdue, its telemetry had stopped and not a byte came from it), unwell (its engine said so at its health endpoint)."},
	{name: "warmpath_canaries_total", kind: kindCounter, unit: "requests", labels: []string{"worker", "outcome"},
		help: "Requests of one token that the router sent of its own accord (setting ejection.canary); no other metric counts them. outcome: good, failed, late (no answer in time), refused (4xx, 429 or 503)."},
	{name: "warmpath_cancellations_total", kind: kindCounter, unit: "requests", labels: []string{"by"},
		help: "Requests that were cancelled before the end, and so was their upstream request: by is client, which left, or operator, who cancelled it at the admin port."},
	{name: "warmpath_streams_without_terminator_total", kind: kindCounter, unit: "streams",
		help: "Streams that ended cleanly but without the terminator of their dialect."},
	{name: "warmpath_replies_unmetered_total", kind: kindCounter, unit: "replies",
		help: "Successful replies that told no token usage; the token counters miss them."},
	{name: "warmpath_worker_state", kind: kindGauge, unit: "0 or 1", labels: []string{"worker", "state"},
		help: "1 for the state a worker is in, 0 for the others. state: ready, ejected, probing, draining, down, loading, unknown."},
	{name: "warmpath_worker_return_timestamp_seconds", kind: kindGauge, unit: "Unix seconds", labels: []string{"worker"},
		help: "When a worker that is out is tried again. Absent for one that is not out."},
	{name: "warmpath_worker_slow_start_ratio", kind: kindGauge, unit: "0 to 1", labels: []string{"worker"},
		help: "Share of its part that a worker may have, which grows to 1 after it came, or came back (setting ejection.slow_start)."},
	{name: "warmpath_worker_requests_total", kind: kindCounter, unit: "requests", labels: []string{"worker", "outcome"},
		help: "Requests that ended, by the worker that was asked last. outcome as in warmpath_requests_total."},
	{name: "warmpath_worker_tokens_total", kind: kindCounter, unit: "tokens", labels: []string{"worker", "kind"},
		help: "Tokens of a worker's replies, as it reported them. kind: prompt, cached (those of the prompt that were served from cache), completion."},
	{name: "warmpath_worker_inflight_requests", kind: kindGauge, unit: "requests", labels: []string{"worker"},
		help: "Requests this router has in flight on a worker."},
	{name: "warmpath_worker_inflight_tokens", kind: kindGauge, unit: "tokens", labels: []string{"worker"},
		help: "Sum of the contexts of the requests this router has in flight on a worker, generated tokens included."},
	{name: "warmpath_engine_requests_running", kind: kindGauge, unit: "requests", labels: []string{"worker"},
		help: "Requests in the engine's batch, as it reported last. Absent while unknown or stale."},
	{name: "warmpath_engine_requests_waiting", kind: kindGauge, unit: "requests", labels: []string{"worker"},
		help: "Requests in the engine's own queue, as it reported last. Absent while unknown or stale."},
	{name: "warmpath_engine_kv_usage_ratio", kind: kindGauge, unit: "0 to 1", labels: []string{"worker"},
		help: "Share of the engine's KV cache in use, as it reported last. Absent while unknown or stale."},
	{name: "warmpath_engine_signals_missing", kind: kindGauge, unit: "signals", labels: []string{"worker"},
		help: "Of running, waiting and KV use, those that an engine does not tell though it is asked: they are unknown, which is not idle. Absent while its counts are stale."},
	{name: "warmpath_gpu_usage_ratio", kind: kindGauge, unit: "0 to 1", labels: []string{"worker"},
		help: "How busy the worker's GPUs are, by the exporter its gpu_metrics names. Absent while unknown or stale."},
	{name: "warmpath_gpu_memory_ratio", kind: kindGauge, unit: "0 to 1", labels: []string{"worker"},
		help: "Share of the memory of the worker's GPUs in use, by the same exporter."},
	{name: "warmpath_telemetry_age_seconds", kind: kindGauge, unit: "seconds", labels: []string{"worker"},
		help: "Age of the last counts an engine reported. Absent when it never reported any."},
	{name: "warmpath_telemetry_failures_total", kind: kindCounter, unit: "scrapes", labels: []string{"worker"},
		help: "Scrapes of an engine that failed."},
	{name: "warmpath_index_bytes", kind: kindGauge, unit: "bytes",
		help: "Memory of the prefix index."},
	{name: "warmpath_index_bytes_max", kind: kindGauge, unit: "bytes",
		help: "Bound of warmpath_index_bytes."},
	{name: "warmpath_index_blocks", kind: kindGauge, unit: "blocks",
		help: "Blocks in the prefix index."},
	{name: "warmpath_index_evictions_total", kind: kindCounter, unit: "blocks", labels: []string{"cause"},
		help: "Blocks put out of the prefix index. cause: cache_size (beyond what a worker's cache is assumed to hold, as its engine puts them out too), index_bytes_max (the index is full), memory (the process was short of it)."},
	{name: "warmpath_learned_saved_timestamp_seconds", kind: kindGauge, unit: "seconds",
		help: "When what was learned of engines was last saved for the next start. 0: not since this one."},
	{name: "warmpath_token_mode", kind: kindGauge, unit: "0 or 1", labels: []string{"model", "mode"},
		help: "1 for the way in which a model's prompts become tokens, 0 for the others. mode: exact (by its own tokenizer and template, here, shown to agree with its engines), engine-side (its engines are asked), approximate (by bytes)."},
	{name: "warmpath_token_requests_total", kind: kindCounter, unit: "requests", labels: []string{"model", "how"},
		help: "Requests of models with workers that tell what they have cached, by how their tokens were found. how: exact (worked out here); told (by an engine, now or before); unknown (neither: the prompt is matched by its bytes)."},
	{name: "warmpath_token_checks_total", kind: kindCounter, unit: "requests", labels: []string{"model"},
		help: "Real requests whose tokens were compared with those that an engine makes of them, now and then."},
	{name: "warmpath_token_mismatches_total", kind: kindCounter, unit: "requests", labels: []string{"model"},
		help: "Of warmpath_token_checks_total, those with other tokens. One is enough to leave exact mode."},
	{name: "warmpath_token_questions_total", kind: kindCounter, unit: "times", labels: []string{"model", "kind"},
		help: "What became of asking engines for tokens, in engine-side mode. kind: asked (questions sent); cached (known from before, not asked); late (a request went on without its answer); failed (questions that were not answered well); full (not asked, because exact.tokens_in_flight_max were under way)."},
	{name: "warmpath_events_state", kind: kindGauge, unit: "0 or 1", labels: []string{"worker", "state"},
		help: "1 for how completely a worker's cache is known by its events, 0 for the others. state: complete; catching (something was missed and is asked for again); partial (right, but not all there is); waiting (nothing has come); silent (events that should come do not); none (it tells nothing, or is not listened to)."},
	{name: "warmpath_events_messages_total", kind: kindCounter, unit: "messages", labels: []string{"worker", "kind"},
		help: "Messages of cache events. kind: applied; replayed (those that a replay brought, again or for the first time); repeated (those that came twice); undecodable (they cost all knowledge of the worker)."},
	{name: "warmpath_events_blocks_total", kind: kindCounter, unit: "blocks", labels: []string{"worker", "kind"},
		help: "Blocks that a worker told of. kind: stored, removed. One that is told twice counts twice."},
	{name: "warmpath_events_troubles_total", kind: kindCounter, unit: "times", labels: []string{"worker", "kind"},
		help: "What went wrong with a worker's events. kind: gap (messages were missing), restart (the engine began anew), forgotten (all that was known was given up), silence (events stopped though requests were computed), malformed (an event that contradicts itself)."},
	{name: "warmpath_events_worker_blocks", kind: kindGauge, unit: "blocks", labels: []string{"worker"},
		help: "Blocks that a worker holds by its own word. Absent for one whose events are not followed."},
	{name: "warmpath_events_lag_seconds", kind: kindGauge, unit: "seconds", labels: []string{"worker"},
		help: "By how much a worker's cache events came later than its least late ones of the last ten minutes: the most of the last minute. By the time that the engine writes into them, so that the difference of the clocks cancels. Absent where it writes none, or tells nothing."},
	{name: "warmpath_events_index_blocks", kind: kindGauge, unit: "blocks",
		help: "Different blocks that workers hold by their own word."},
	{name: "warmpath_events_index_memberships", kind: kindGauge, unit: "blocks",
		help: "The same, each block counted for every worker that holds it."},
	{name: "warmpath_events_index_bytes", kind: kindGauge, unit: "bytes",
		help: "Memory of the index of these blocks."},
	{name: "warmpath_events_index_bytes_max", kind: kindGauge, unit: "bytes",
		help: "Bound of warmpath_events_index_bytes."},
	{name: "warmpath_events_index_evictions_total", kind: kindCounter, unit: "blocks",
		help: "Memberships given up to keep that bound: the worker holds them, and it is not known any more."},
	{name: "warmpath_truth_requests_total", kind: kindCounter, unit: "requests", labels: []string{"worker"},
		help: "Requests for which a worker reported cached tokens, so that they could be compared with what was predicted."},
	{name: "warmpath_truth_right_total", kind: kindCounter, unit: "requests", labels: []string{"worker"},
		help: "Of warmpath_truth_requests_total, those predicted to the block."},
	{name: "warmpath_truth_predicted_tokens_total", kind: kindCounter, unit: "tokens", labels: []string{"worker"},
		help: "Cached tokens predicted for these requests, no more than an engine can report."},
	{name: "warmpath_truth_reported_tokens_total", kind: kindCounter, unit: "tokens", labels: []string{"worker"},
		help: "Cached tokens that the worker reported for them."},
	{name: "warmpath_truth_error_tokens_total", kind: kindCounter, unit: "tokens", labels: []string{"worker"},
		help: "Sum of the absolute differences of the two, request by request."},
	{name: "warmpath_truth_bias_tokens", kind: kindGauge, unit: "tokens", labels: []string{"worker"},
		help: "Mean of predicted less reported over the last 128 requests or so. Above 0, too much is promised."},
	{name: "warmpath_truth_trust_ratio", kind: kindGauge, unit: "0 to 1", labels: []string{"worker"},
		help: "Share of what a worker's events foretold lately that came true."},
	{name: "warmpath_truth_trusted", kind: kindGauge, unit: "0 or 1", labels: []string{"worker"},
		help: "1 while a worker's events are gone by; 0 while it is scored by what it is assumed to have cached, because they did not come true."},
	{name: "warmpath_truth_prompts_differ_total", kind: kindCounter, unit: "requests", labels: []string{"worker"},
		help: "Requests whose prompt, by its tokens, is not as long as the worker says: its tokenizer or template is another."},
	{name: "warmpath_truth_lost_tokens_total", kind: kindCounter, unit: "tokens", labels: []string{"worker", "cause"},
		help: "Tokens by why prediction and report differ, or a cache elsewhere was passed by. cause: not_there (promised and gone: evicted early, or events lost); untold (cached and not foretold); mis_keyed (our prompt is not the worker's: tokens, template, adapter or salt differ); mis_routed (another worker had more)."},
	{name: "warmpath_queue_waiting_requests", kind: kindGauge, unit: "requests", labels: []string{"class"},
		help: "Requests that wait here for room on a worker."},
	{name: "warmpath_queue_waiting_heavy_requests", kind: kindGauge, unit: "requests", labels: []string{"class"},
		help: "Of these, those whose prefill is out of all proportion: they wait for one of few lanes."},
	{name: "warmpath_queue_oldest_seconds", kind: kindGauge, unit: "seconds", labels: []string{"class"},
		help: "How long the request has waited that waits longest; 0 when none does."},
	{name: "warmpath_queue_work_seconds", kind: kindGauge, unit: "seconds", labels: []string{"class"},
		help: "Engine time that what waits is expected to take."},
	{name: "warmpath_queue_bytes", kind: kindGauge, unit: "bytes",
		help: "Bodies of requests that wait."},
	{name: "warmpath_queue_fill_ratio", kind: kindGauge, unit: "0 to 1",
		help: "Share of the queue's bounds (requests, bytes, work) that is taken, by the nearest one."},
	{name: "warmpath_queue_requests_total", kind: kindCounter, unit: "requests", labels: []string{"class", "result"},
		help: "What became of requests before a worker had them. result: passed (placed at once), placed (after waiting), left (the client did, while it waited), timed_out."},
	{name: "warmpath_queue_refused_total", kind: kindCounter, unit: "requests", labels: []string{"class", "reason"},
		help: "Requests that might not wait. reason: queue_full (a bound of the queue, or the class' ceiling), tenant_share (the tenant holds its part of the queue), shed (by chance, as the class nears its ceiling), deadline (it could not have started in time)."},
	{name: "warmpath_queue_preempted_total", kind: kindCounter, unit: "requests", labels: []string{"class"},
		help: "How often work of a preemptible class was taken back from its engine for a request of a class above, to wait again."},
	{name: "warmpath_queue_wasted_seconds_total", kind: kindCounter, unit: "seconds", labels: []string{"class"},
		help: "Engine time that was spent on work that was taken back, as far as it had come by prediction."},
	{name: "warmpath_queue_wait_seconds", kind: kindHistogram, unit: "seconds", labels: []string{"class", "result"}, buckets: waitBuckets, native: true,
		help: "How long requests waited for room, by what came of it. result: placed (0 for those placed at once), left (the client did, or an operator cancelled it), timed_out (it was not placed in time). Those refused at once are not in it."},
	{name: "warmpath_tenant_inflight_requests", kind: kindGauge, unit: "requests", labels: []string{"tenant"},
		help: "A tenant's requests inside, waiting ones too. Where no keys are asked for there are no tenants."},
	{name: "warmpath_tenant_tokens_last_minute", kind: kindGauge, unit: "tokens", labels: []string{"tenant"},
		help: "Tokens of prompts and answers that count against the tenant's limit, those reserved for requests under way included."},
	{name: "warmpath_tenant_spent_today", kind: kindGauge, unit: "money", labels: []string{"tenant"},
		help: "Money that counts against the tenant's limit since midnight UTC, at the configured prices, what is reserved for requests under way included. Models without a price cost nothing."},
	{name: "warmpath_tenant_requests_total", kind: kindCounter, unit: "requests", labels: []string{"tenant"},
		help: "Requests of a tenant that ran to their end, whatever that was. Those that never ran count for nothing."},
	{name: "warmpath_tenant_refused_total", kind: kindCounter, unit: "requests", labels: []string{"tenant", "limit"},
		help: "Requests that a limit of the tenant kept out. limit: in_flight, requests_per_minute, tokens_per_minute, spend_per_day."},
	{name: "warmpath_discovery_workers", kind: kindGauge, unit: "workers", labels: []string{"source"},
		help: "Workers of the set that a source told last."},
	{name: "warmpath_discovery_age_seconds", kind: kindGauge, unit: "seconds", labels: []string{"source"},
		help: "Time since a source told its set, or told it again. Absent until it has told one."},
	{name: "warmpath_discovery_stale", kind: kindGauge, unit: "0 or 1", labels: []string{"source"},
		help: "1 when a source fails, or told nothing for discovery.stale_after: the set that it told last is gone by, and may not be true any more."},
	{name: "warmpath_discovery_errors_total", kind: kindCounter, unit: "errors", labels: []string{"source"},
		help: "Times a source could not be asked, or what it told could not be taken."},
	{name: "warmpath_discovery_refused_workers", kind: kindGauge, unit: "workers",
		help: "Workers that sources name and that are not in the fleet: with an address that is none, or an id or address that another has, or beyond discovery.workers_max. /state says why."},
	{name: "warmpath_pool_workers", kind: kindGauge, unit: "workers", labels: []string{"pool"},
		help: "Workers of a pool that are up. pool is a configured one; any: those in none."},
	{name: "warmpath_pool_requests_total", kind: kindCounter, unit: "requests", labels: []string{"pool", "way"},
		help: "Placements on a pool's workers, retries included. way: sent (by a rule, by default_pool or by heavy_pool), spilled (from a pool where the wait was too long)."},
	{name: "warmpath_prefixes_tracked", kind: kindGauge, unit: "prefixes",
		help: "Shared beginnings of prompts that are counted, 1,024 at most; GET /prefixes tells the hottest."},
	{name: "warmpath_ghost_requests_total", kind: kindCounter, unit: "requests",
		help: "Requests that were placed a second time, virtually, by rules that need no load (docs/GHOSTS.md)."},
	{name: "warmpath_ghost_prompt_tokens_total", kind: kindCounter, unit: "tokens",
		help: "Prompt tokens of those requests."},
	{name: "warmpath_ghost_prefill_tokens_total", kind: kindCounter, unit: "tokens", labels: []string{"rule"},
		help: "Those of them that had to be computed (rule fleet), or would have had to be by another rule: round-robin, random, session-hash, or reachable, which is a bound and no rule. 1 less it over warmpath_ghost_prompt_tokens_total is the hit rate."},
	{name: "warmpath_ghost_prefill_seconds_total", kind: kindCounter, unit: "seconds", labels: []string{"rule"},
		help: "Engine time of that prefill, at the speed that was learned of each worker. A rule's less the fleet's is what was saved."},
	{name: "warmpath_ghost_dropped_total", kind: kindCounter, unit: "requests",
		help: "Requests that came faster than they could be placed again, or that no worker might take by then; they are in none of the others."},
	{name: "warmpath_ghost_sample_ratio", kind: kindGauge, unit: "ratio",
		help: "Share of blocks that is looked at; it falls where memory or time is short."},
	{name: "warmpath_ghost_bytes", kind: kindGauge, unit: "bytes",
		help: "Memory of the ghosts' caches."},
	{name: "warmpath_ghost_place_seconds_total", kind: kindCounter, unit: "seconds",
		help: "Time of processors that placing took. Over process_cpu_seconds_total it is what ghosts cost."},
	{name: "warmpath_forecast_answers_total", kind: kindCounter, unit: "requests", labels: []string{"model"},
		help: "Requests that ran to their end and whose answers' length had been foretold when they were placed."},
	{name: "warmpath_forecast_answers_within_total", kind: kindCounter, unit: "requests", labels: []string{"model", "share"},
		help: "Those of them whose answers were no longer than foretold for a half (share 0.5) or nine of ten (0.9) such answers: over warmpath_forecast_answers_total this should be the share."},
	{name: "warmpath_forecast_output_tokens_total", kind: kindCounter, unit: "tokens", labels: []string{"model", "what"},
		help: "Tokens of those answers. what: expected (the mean that was foretold), real, error (the sum of what each was off, either way)."},
	{name: "warmpath_forecast_prefills_total", kind: kindCounter, unit: "requests", labels: []string{"model"},
		help: "Prefills that were seen alone: streamed, behind no queue and joined by no other."},
	{name: "warmpath_forecast_prefill_seconds_total", kind: kindCounter, unit: "seconds", labels: []string{"model", "what"},
		help: "Seconds of those prefills. what: expected, real, error (the sum of what each was off, either way)."},
	{name: "warmpath_forecast_prefill_off_ratio", kind: kindGauge, unit: "ratio", labels: []string{"model", "share"},
		help: "The part of its real time by which a half (share 0.5) or nine of ten (0.9) of those prefills were off at most, since the start."},
	{name: "warmpath_regret_requests_total", kind: kindCounter, unit: "requests",
		help: "Requests whose choice of a worker was held against what came of it: of streams that ended well and told their usage one in four, where there was another candidate."},
	{name: "warmpath_regret_beaten_total", kind: kindCounter, unit: "requests",
		help: "Those of them for which another candidate, as it was foretold, would have been cheaper than the chosen one turned out to be."},
	{name: "warmpath_regret_seconds_total", kind: kindCounter, unit: "request-seconds", labels: []string{"what"},
		help: "By how much. what: lost (the chosen worker cost more than the cheapest other one was foretold to), ahead (it cost less). Chance is in both alike: ahead less lost is what choices gained, or rather less than that, since the least of several forecasts is too low on the mean."},
	{name: "warmpath_regret_cost_seconds_total", kind: kindCounter, unit: "request-seconds", labels: []string{"what"},
		help: "What the chosen workers came to for these requests and others there. what: real, foretold (with the real lengths of prompt and answer). Real well above foretold: forecasts are too good, and so much of what was lost is due to them."},
	{name: "warmpath_model_choices_total", kind: kindCounter, unit: "requests", labels: []string{"model", "served", "reason"},
		help: "What virtual models stood for. model: the virtual one that was asked for; served: the one chosen; reason: only, cheapest, stayed, split, first, fallback."},
	{name: "warmpath_bound_limit", kind: kindGauge, unit: "of the bound", labels: []string{"bound"},
		help: "What a bound is set to, see docs/BOUNDS.md for each. Absent where there is none."},
	{name: "warmpath_bound_used", kind: kindGauge, unit: "of the bound", labels: []string{"bound"},
		help: "How much of it is in use. Absent for those that bound each single thing."},
	{name: "warmpath_bound_refused_total", kind: kindCounter, unit: "times", labels: []string{"bound"},
		help: "What was refused, put out or left out at the bound."},
	{name: "warmpath_memory_shed_total", kind: kindCounter, unit: "times", labels: []string{"cache"},
		help: "Times a cache gave up what it held because memory was short."},
	{name: "warmpath_memory_shed_bytes_total", kind: kindCounter, unit: "bytes", labels: []string{"cache"},
		help: "Memory that came of it."},
	{name: "warmpath_certificate_expiry_timestamp_seconds", kind: kindGauge, unit: "seconds", labels: []string{"file"},
		help: "When a certificate that is shown to clients or workers ends, in seconds since 1970. file: where the settings have it."},
	{name: "warmpath_file_changes_total", kind: kindCounter, unit: "changes", labels: []string{"result"},
		help: "Changes of watched files: certificates, keys, credentials, tokens. result: used; refused (they cannot be used, and those before them stay in force)."},
	{name: "warmpath_admin_refused_total", kind: kindCounter, unit: "requests", labels: []string{"reason"},
		help: "Requests that the admin port did not let in. reason: host (asks for a name that is not this port's); origin (from another site's page); token (none, or not valid); role (the token may not do that)."},
	{name: "warmpath_config_last_reload_successful", kind: kindGauge, unit: "0 or 1",
		help: "Whether the last attempt to read the configuration again was good; 1 also before the first. 0: it was refused, and the one before it stays in force."},
	{name: "warmpath_config_loaded_timestamp_seconds", kind: kindGauge, unit: "seconds",
		help: "When the configuration in force was read, in seconds since 1970."},
	{name: "warmpath_config_generation", kind: kindGauge, unit: "1",
		help: "Which configuration is in force: 1 that of the start, one more with each that was applied."},
	{name: "warmpath_config_reloads_total", kind: kindCounter, unit: "reloads", labels: []string{"result"},
		help: "How often the configuration was read again. result: applied; unchanged (nothing in it differed); refused (it cannot be used, or needs a restart)."},
	{name: "warmpath_decision_log_records_total", kind: kindCounter, unit: "records",
		help: "Records written to the decision log."},
	{name: "warmpath_decision_log_drops_total", kind: kindCounter, unit: "records",
		help: "Records the decision log dropped because its queue was full or its disk refused them."},
	{name: "warmpath_trace_spans_total", kind: kindCounter, unit: "spans", labels: []string{"result"},
		help: "Spans of traced requests. result: sent; dropped (the queue to the collector was full); failed (the collector did not take them)."},
}

// familyNamed finds one family; a name that is not in the catalogue is a mistake in this package.
func familyNamed(name string) family {
	for _, f := range catalogue {
		if f.name == name {
			return f
		}
	}
	panic("metrics: " + name + " is not in the catalogue")
}

// Markdown is the page docs/METRICS.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nServed on the admin port at `/metrics`, in the Prometheus text format. Made from the catalogue in `internal/metrics/catalogue.go` by `go generate ./internal/metrics`.\n\n")
	b.WriteString("Labels are bounded: `model` takes the names that engines announce or the configuration gives, everything else counts as `other`;\n`worker` is a worker's id, and its series go when the worker goes. Counters of a removed worker are not kept.\n`class` is one of the queue's classes; `tenant` a name in the file of tenants, never one that a client writes: past 1,024 they count as `other`.\n\n")
	b.WriteString("| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n")
	for _, f := range catalogue {
		labels := "-"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.kind, f.unit, labels, f.help)
	}
	b.WriteString("\nBucket bounds of the histograms, in seconds:\n\n")
	for _, f := range catalogue {
		if f.kind != kindHistogram {
			continue
		}
		bounds := make([]string, len(f.buckets))
		for i, v := range f.buckets {
			bounds[i] = fmt.Sprint(v)
		}
		native := ""
		if f.native {
			native = "; native, too"
		}
		fmt.Fprintf(&b, "- `%s`: %s%s\n", f.name, strings.Join(bounds, ", "), native)
	}
	b.WriteString(strings.ReplaceAll(nativeAndExemplars+conventions, "~", "`"))
	b.WriteString("\nThe Go runtime's and the process's own metrics (`go_goroutines`, `go_memstats_*`, `process_open_fds`, `process_resident_memory_bytes`, ...) are on the same page.\n")
	return b.String()
}
