package metrics

// What a scrape shows of exact mode. Counts are totals since the worker came, or since the model was first seen.

// TokenMode is how one model's prompts become tokens.
type TokenMode struct {
	Model                string
	Mode                 string // exact, engine-side or approximate; any other word is shown as approximate
	Exact, Told, Unknown uint64 // requests, by how their tokens were found
	Checked, Mismatches  uint64 // requests compared with an engine's tokens, and those that differ

	Asked, Cached, Late, Failed, Full uint64 // questions to engines, see the catalogue
}

// EventIndex is the index of what workers hold by their own word.
type EventIndex struct {
	Blocks, Memberships int64
	Bytes, BytesMax     int64
	Evictions           uint64
}

// EventsState is one worker's cache events.
type EventsState struct {
	State string // exact, catching, partial, waiting or silent; any other word is shown as none
	Held  int64  // blocks

	HasLag     bool
	LagSeconds float64

	Applied, Replayed, Repeated, Undecodable         uint64 // messages
	Stored, Removed                                  uint64 // blocks
	Gaps, Restarts, Forgotten, Silences, Contradicts uint64 // times
}

// TruthState is what became of the predictions for one worker.
type TruthState struct {
	Requests, Right                              uint64
	PredictedTokens, ReportedTokens, ErrorTokens uint64
	PromptsDiffer                                uint64
	BiasTokens, Trust                            float64
	Trusted                                      bool
	NotThere, Untold, MisKeyed, MisRouted        uint64 // tokens
}

func emitEventIndex(emit emitter, x *EventIndex) {
	emit("warmpath_events_index_blocks", float64(x.Blocks))
	emit("warmpath_events_index_memberships", float64(x.Memberships))
	emit("warmpath_events_index_bytes", float64(x.Bytes))
	emit("warmpath_events_index_bytes_max", float64(x.BytesMax))
	emit("warmpath_events_index_evictions_total", float64(x.Evictions))
}

// emitTokenModes shows each model once: those that are not known by name share a label, and the first of them stands for the others.
func emitTokenModes(emit emitter, all []TokenMode, label func(model string) string) {
	shown := map[string]bool{}
	for i := range all {
		m := &all[i]
		name := label(m.Model)
		if shown[name] {
			continue
		}
		shown[name] = true
		emitOne(emit, "warmpath_token_mode", name, tokenModes, m.Mode, "approximate")
		emitEach(emit, "warmpath_token_requests_total", name, tokenSources, m.Exact, m.Told, m.Unknown)
		emit("warmpath_token_checks_total", float64(m.Checked), name)
		emit("warmpath_token_mismatches_total", float64(m.Mismatches), name)
		emitEach(emit, "warmpath_token_questions_total", name, questionKinds, m.Asked, m.Cached, m.Late, m.Failed, m.Full)
	}
}

// emitEach shows counts in the order of a closed list.
func emitEach(emit emitter, name, of string, list []string, counts ...uint64) {
	for i, n := range counts {
		emit(name, float64(n), of, list[i])
	}
}

func emitEvents(emit emitter, worker string, e *EventsState) {
	if e == nil {
		emitOne(emit, "warmpath_events_state", worker, eventStates, "none", "none")
		return
	}
	emitOne(emit, "warmpath_events_state", worker, eventStates, e.State, "none")
	emitEach(emit, "warmpath_events_messages_total", worker, eventKinds, e.Applied, e.Replayed, e.Repeated, e.Undecodable)
	emitEach(emit, "warmpath_events_blocks_total", worker, blockKinds, e.Stored, e.Removed)
	emitEach(emit, "warmpath_events_troubles_total", worker, eventTroubles, e.Gaps, e.Restarts, e.Forgotten, e.Silences, e.Contradicts)
	emit("warmpath_events_worker_blocks", float64(e.Held), worker)
	if e.HasLag {
		emit("warmpath_events_lag_seconds", e.LagSeconds, worker)
	}
}

func emitTruth(emit emitter, worker string, t *TruthState) {
	emit("warmpath_truth_requests_total", float64(t.Requests), worker)
	emit("warmpath_truth_right_total", float64(t.Right), worker)
	emit("warmpath_truth_predicted_tokens_total", float64(t.PredictedTokens), worker)
	emit("warmpath_truth_reported_tokens_total", float64(t.ReportedTokens), worker)
	emit("warmpath_truth_error_tokens_total", float64(t.ErrorTokens), worker)
	emit("warmpath_truth_prompts_differ_total", float64(t.PromptsDiffer), worker)
	emit("warmpath_truth_bias_tokens", t.BiasTokens, worker)
	emit("warmpath_truth_trust_ratio", t.Trust, worker)
	trusted := 0.0
	if t.Trusted {
		trusted = 1
	}
	emit("warmpath_truth_trusted", trusted, worker)
	emitEach(emit, "warmpath_truth_lost_tokens_total", worker, lossCauses, t.NotThere, t.Untold, t.MisKeyed, t.MisRouted)
}
