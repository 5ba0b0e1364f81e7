package metrics

// What a scrape shows of pools and of virtual models.

// PoolState is one pool. Counts are totals since the start.
type PoolState struct {
	Pool              string
	Workers           int
	Requests, Spilled uint64
}

// ChoiceState is how often a virtual model came to stand for another, for one reason.
type ChoiceState struct {
	Virtual, Model, Reason string
	Requests               uint64
}

func emitChoices(emit emitter, pools []PoolState, choices []ChoiceState) {
	for i := range pools {
		p := &pools[i]
		emit("warmpath_pool_workers", float64(p.Workers), p.Pool)
		emit("warmpath_pool_requests_total", float64(p.Requests-p.Spilled), p.Pool, "sent")
		emit("warmpath_pool_requests_total", float64(p.Spilled), p.Pool, "spilled")
	}
	for i := range choices {
		c := &choices[i]
		emit("warmpath_model_choices_total", float64(c.Requests), c.Virtual, c.Model, c.Reason)
	}
}
