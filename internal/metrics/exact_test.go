package metrics

import "testing"

func TestExactModeShowsByModelAndByWorker(t *testing.T) {
	s := New(func(s *State) {
		s.EventIndex = EventIndex{Blocks: 7, Memberships: 9, Bytes: 100, BytesMax: 200, Evictions: 3}
		s.TokenModes = []TokenMode{{Model: "m", Mode: "engine-side", Exact: 6, Told: 7, Unknown: 8, Checked: 20, Mismatches: 1, Asked: 5, Cached: 4, Late: 3, Failed: 2, Full: 1},
			{Model: "nobody's", Mode: "exact"}, {Model: "nobody's either", Mode: "exact"}}
		s.Workers = []WorkerState{
			{ID: "a", Events: &EventsState{State: "catching", Held: 12, HasLag: true, LagSeconds: 2.5, Applied: 1, Replayed: 2, Repeated: 3, Undecodable: 4, Stored: 5, Removed: 6, Gaps: 7, Restarts: 8, Forgotten: 9, Silences: 10, Contradicts: 11},
				Truth: &TruthState{Requests: 10, Right: 9, PredictedTokens: 100, ReportedTokens: 90, ErrorTokens: 10, PromptsDiffer: 2, BiasTokens: -1.5, Trust: .75, Trusted: true, NotThere: 1, Untold: 2, MisKeyed: 3, MisRouted: 4}},
			{ID: "b"}, {ID: "c", Events: &EventsState{State: "complete"}}}
	})
	s.KnowModel("m")
	text := scrape(t, s)
	has(t, text, `warmpath_events_index_blocks 7`, `warmpath_events_index_memberships 9`, `warmpath_events_index_bytes 100`,
		`warmpath_events_index_bytes_max 200`, `warmpath_events_index_evictions_total 3`,
		`warmpath_token_mode{mode="engine-side",model="m"} 1`, `warmpath_token_mode{mode="exact",model="m"} 0`, `warmpath_token_mode{mode="exact",model="other"} 1`,
		`warmpath_token_requests_total{how="exact",model="m"} 6`, `warmpath_token_requests_total{how="unknown",model="m"} 8`,
		`warmpath_token_checks_total{model="m"} 20`, `warmpath_token_mismatches_total{model="m"} 1`,
		`warmpath_token_questions_total{kind="asked",model="m"} 5`, `warmpath_token_questions_total{kind="cached",model="m"} 4`,
		`warmpath_token_questions_total{kind="late",model="m"} 3`, `warmpath_token_questions_total{kind="failed",model="m"} 2`, `warmpath_token_questions_total{kind="full",model="m"} 1`,
		`warmpath_events_state{state="catching",worker="a"} 1`, `warmpath_events_state{state="complete",worker="a"} 0`, `warmpath_events_state{state="none",worker="b"} 1`,
		`warmpath_events_messages_total{kind="applied",worker="a"} 1`, `warmpath_events_messages_total{kind="undecodable",worker="a"} 4`,
		`warmpath_events_blocks_total{kind="stored",worker="a"} 5`, `warmpath_events_blocks_total{kind="removed",worker="a"} 6`,
		`warmpath_events_troubles_total{kind="gap",worker="a"} 7`, `warmpath_events_troubles_total{kind="malformed",worker="a"} 11`,
		`warmpath_events_worker_blocks{worker="a"} 12`, `warmpath_events_lag_seconds{worker="a"} 2.5`,
		`warmpath_truth_requests_total{worker="a"} 10`, `warmpath_truth_right_total{worker="a"} 9`, `warmpath_truth_error_tokens_total{worker="a"} 10`,
		`warmpath_truth_bias_tokens{worker="a"} -1.5`, `warmpath_truth_trust_ratio{worker="a"} 0.75`, `warmpath_truth_trusted{worker="a"} 1`,
		`warmpath_truth_lost_tokens_total{cause="not_there",worker="a"} 1`, `warmpath_truth_lost_tokens_total{cause="mis_routed",worker="a"} 4`)
	hasNot(t, text, `nobody`, `warmpath_truth_trust_ratio{worker="b"}`, `warmpath_events_worker_blocks{worker="b"}`, `warmpath_events_lag_seconds{worker="c"}`)
}
