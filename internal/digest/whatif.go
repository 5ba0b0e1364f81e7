package digest

// WhatIf is what replays of the log say: what other policies would have made of it, and how much more load there is room for.
type WhatIf struct {
	Fleet    string   `json:"fleet"` // that it was replayed on
	Requests int      `json:"requests"`
	Cut      bool     `json:"cut,omitempty"` // the log has more
	Policies []Policy `json:"policies"`      // what was measured first, then by mean TTFT
	Own      string   `json:"own"`           // the policy that was in force

	Good     string  `json:"good"`      // what a request must meet to be good
	Share    float64 `json:"share"`     // of requests that must be
	Loads    []Load  `json:"loads"`     // by rate, until fewer are good
	RateMost float64 `json:"rate_most"` // the highest rate at which enough were good; 0: not even at 1
	More     bool    `json:"more"`      // and higher ones were not tried
}

// Policy is what one made of the requests; as measured, where Measured.
type Policy struct {
	Name     string  `json:"policy"`
	Measured bool    `json:"measured,omitempty"`
	HitRate  float64 `json:"hit_rate"`
	TTFT     Times   `json:"ttft_seconds"`
	E2E      Times   `json:"e2e_seconds"`
	Computed int64   `json:"computed_tokens"` // of prompts
}

// Load is the same requests coming so many times as fast.
type Load struct {
	Rate      float64 `json:"rate"`
	GoodShare float64 `json:"good_share"`
	Goodput   float64 `json:"good_per_second"`
	TTFT      Times   `json:"ttft_seconds"`
}
