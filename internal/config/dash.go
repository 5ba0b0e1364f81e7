package config

// Dash is what is kept in memory for those who look at the router.
type Dash struct {
	DecisionsMax      int   `yaml:"decisions_max" doc:"Decisions that GET /decisions tells of, the last ones. 0: none are kept."`
	DecisionsBytesMax Bytes `yaml:"decisions_bytes_max" min:"1MiB" doc:"Memory for them; beyond it fewer are kept."`
	ShowText          bool  `yaml:"show_text" doc:"Keep the first 200 characters of the prefixes that GET /prefixes shows (flag --show-text). Whoever may read the admin port can then read what users wrote."`
	ListenersMax      int   `yaml:"listeners_max" doc:"Who may follow GET /events at one time; beyond it the answer is 503. 0: nobody."`
}

func defaultDash() Dash {
	return Dash{DecisionsMax: 2000, DecisionsBytesMax: 16 << 20, ListenersMax: 16}
}

// Bounds of what is kept and of who may follow: what lies beyond them was meant otherwise.
const (
	decisionsMax = 100_000
	listenersMax = 1024
)

// ShownTextBytes is how much of a prefix is kept with Dash.ShowText.
const ShownTextBytes = 200

func (v *verdict) dash(d Dash) {
	if d.DecisionsMax > decisionsMax {
		v.wrong("dash.decisions_max", "%d is above the most, %d; a decision log keeps all (decision_log.file)", d.DecisionsMax, decisionsMax)
	}
	if d.ListenersMax > listenersMax {
		v.wrong("dash.listeners_max", "%d is above the most, %d", d.ListenersMax, listenersMax)
	}
}
