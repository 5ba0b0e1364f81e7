package config

// Ghosts are the virtual placements by which the router says what it saved.
type Ghosts struct {
	Enabled  bool    `yaml:"enabled" doc:"Place what was served a second time, virtually, by round-robin, at random and by session, to tell what was saved. Beside requests, and at most some hundredths of the router's own work."`
	BytesMax Bytes   `yaml:"bytes_max" min:"1MiB" doc:"Memory for their assumed caches; a smaller sample of blocks is kept where it does not suffice for all."`
	Sample   float64 `yaml:"sample" doc:"Share of blocks that is looked at to begin with, from 0.001 to 1. It is lowered by itself where memory or time is short."`
}

func defaultGhosts() Ghosts { return Ghosts{Enabled: true, BytesMax: 32 << 20, Sample: 1} }

func (v *verdict) ghosts(g Ghosts) {
	if !(g.Sample >= 0.001) || g.Sample > 1 {
		v.wrong("ghosts.sample", "%v is not from 0.001 to 1, the share of blocks that is looked at", g.Sample)
	}
}
