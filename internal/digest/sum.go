package digest

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// hitOrder is that of the rows.
var hitOrder = []string{"all", "hit", "partial", "miss", "declined"}

// Digest is what the records came to. More may be added afterwards.
func (b *Builder) Digest() Digest {
	d := b.d
	d.Seconds = d.To.Sub(d.From).Seconds()
	d.Routers = len(b.boots)
	for _, o := range byCount(b.policies) {
		d.Policy = o.Name
		break
	}
	d.Outcomes = byCount(b.outcomes)
	d.HitRate, d.ReachableRate = share(float64(b.cached), float64(b.reported)), share(float64(b.reachable), float64(b.reported))
	d.WaitedSeconds = TimesOf(&b.waited)
	for _, name := range hitOrder {
		if h := b.hits[name]; h != nil {
			h.TTFT, h.ITL, h.E2E = TimesOf(&h.ttft), TimesOf(&h.itl), TimesOf(&h.e2e)
			d.Hits = append(d.Hits, h.Hit)
		}
	}
	d.Step, d.Steps = stepSizes[b.stepSize].Seconds(), b.course()
	d.Tenants, d.Models, d.Prompts = b.tenants.heaviest(), b.models.heaviest(), b.prompts.heaviest()
	d.Prompts = slices.DeleteFunc(d.Prompts, func(u User) bool { return u.Requests < 2 })
	b.fleet(&d)
	d.Errors, d.Tries = listed(b.errors), listed(b.classes)
	for _, g := range b.forecasts {
		if n := float64(g.Requests); n > 0 {
			f := g.Forecast
			f.Predicted, f.Actual, f.OffShare, f.Within = g.Predicted/n, g.Actual/n, share(g.off, g.Actual), float64(g.within)/n
			d.Forecast = append(d.Forecast, f)
		}
	}
	return d
}

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

func byCount(of map[string]int) (all []Outcome) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, Outcome{name, of[name]})
	}
	slices.SortStableFunc(all, func(a, b Outcome) int { return b.Requests - a.Requests })
	return all
}

func listed(of map[string]*Fault) (all []Fault) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, *of[name])
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return b.Requests - a.Requests })
	return all[:min(len(all), listedMax)]
}

// course is the time step by step, those in which nothing came too.
func (b *Builder) course() (all []Step) {
	if len(b.steps) == 0 {
		return nil
	}
	size := stepSizes[b.stepSize]
	ats := slices.SortedFunc(maps.Keys(b.steps), time.Time.Compare)
	first, last := ats[0], ats[len(ats)-1]
	if int(last.Sub(first)/size) > 2*stepsMax { // a clock that was wrong by years: no row for each step of these
		for _, at := range ats {
			b.steps[at].TTFT = TimesOf(&b.steps[at].ttft)
			all = append(all, b.steps[at].Step)
		}
		return all
	}
	for at := first; !at.After(last); at = at.Add(size) {
		s := b.steps[at]
		if s == nil {
			all = append(all, Step{Start: at})
			continue
		}
		s.TTFT = TimesOf(&s.ttft)
		all = append(all, s.Step)
	}
	return all
}

// heaviest are those with the most tokens that had to be computed, and one row for all others.
func (u users) heaviest() (all []User) {
	rest := User{Name: others}
	for _, key := range slices.Sorted(maps.Keys(u)) {
		one := u[key]
		one.TTFTP90 = one.ttft.Quantile(0.9)
		all = append(all, one.User)
	}
	computed := func(x User) int64 { return x.PromptTokens - x.CachedTokens + x.AnswerTokens }
	slices.SortStableFunc(all, func(a, b User) int { return cmp.Compare(computed(b), computed(a)) })
	if len(all) <= listedMax {
		return all
	}
	for _, x := range all[listedMax:] {
		rest.Requests, rest.Failed, rest.EngineSeconds = rest.Requests+x.Requests, rest.Failed+x.Failed, rest.EngineSeconds+x.EngineSeconds
		rest.Tokens.add(x.Tokens)
	}
	return append(all[:listedMax:listedMax], rest)
}

// fleet are the workers by name, and how much of their time was taken.
func (b *Builder) fleet(d *Digest) {
	for _, name := range slices.Sorted(maps.Keys(b.workers)) {
		w := Worker{User: b.workers[name].User, FailedTries: b.tries[name]}
		w.TTFTP90, w.BusyShare = b.workers[name].ttft.Quantile(0.9), share(w.EngineSeconds, d.Seconds)
		d.BusyShare += w.BusyShare
		d.Workers = append(d.Workers, w)
	}
	n := float64(len(d.Workers))
	d.BusyShare = share(d.BusyShare, n)
	for _, s := range d.Steps {
		d.BusiestShare = max(d.BusiestShare, share(s.EngineSeconds, n*min(d.Step, d.Seconds)))
	}
}
