package render

import (
	"cmp"
	"slices"
	"time"
)

// State is how one model's tokens are found, for people and metrics. Counts are since the model came.
type State struct {
	Model  string `json:"model"`
	Mode   Mode   `json:"mode"`
	Why    string `json:"why"`    // one sentence, with what would make it better
	Source string `json:"source"` // the path of the model's files, or the worker that is asked first
	// Checked is when an engine was last asked about the built-in conversations; zero: never.
	Checked time.Time     `json:"checked,omitzero"`
	Workers []WorkerState `json:"workers"`

	Requests uint64 `json:"requests"` // whose tokens were looked for
	Exact    uint64 `json:"exact"`    // found in process
	Told     uint64 `json:"told"`     // told by engines or remembered of them

	Asked  uint64 `json:"asked"`  // questions to engines for requests
	Cached uint64 `json:"cached"` // answered from memory
	Late   uint64 `json:"late"`   // whose answer came after the deadline, or not at all
	Failed uint64 `json:"failed"` // refused, broken, not answered
	Full   uint64 `json:"full"`   // not asked, because so many were under way

	Checks     uint64 `json:"checks"`     // real requests whose tokens were compared with an engine's
	Mismatches uint64 `json:"mismatches"` // that differed
}

// WorkerState is what a worker contributes.
type WorkerState struct {
	ID     string `json:"worker"`
	Form   string `json:"asked_by,omitempty"` // how it is asked; "" it cannot be
	Agrees bool   `json:"agrees,omitempty"`   // it makes the same tokens as the model's files
	Why    string `json:"why,omitempty"`      // why not

	Pending bool `json:"pending,omitempty"` // it has not answered yet
}

func (v *view) state() State {
	c := v.counts
	return State{
		Model: v.name, Mode: v.mode, Why: v.why, Source: v.source, Checked: v.checked, Workers: v.workers,
		Requests: c.requests.Load(), Exact: c.exact.Load(), Told: c.told.Load(), Asked: c.asked.Load(), Cached: c.cached.Load(),
		Late: c.late.Load(), Failed: c.failed.Load(), Full: c.full.Load(), Checks: c.checks.Load(), Mismatches: c.mismatches.Load(),
	}
}

// States are those of all models, by name. Aliases and adapters are not listed: they share their model's.
func (m *Manager) States() []State {
	var all []State
	for name, v := range *m.views.Load() {
		if name == v.name {
			all = append(all, v.state())
		}
	}
	slices.SortFunc(all, func(a, b State) int { return cmp.Compare(a.Model, b.Model) })
	return all
}
