// Package roster decides who should be in the fleet, from what sources say, and what is to be done about it. It is pure: sets come in,
// steps come out, and whoever takes the steps tells what is in flight.
//
//	r := roster.New(roster.Options[config.Worker]{Linger: 10 * time.Second, Compare: compare}, "config", "file", "admin")
//	r.Tell("file", []roster.Entry[config.Worker]{{ID: "gpu-1:8000", URL: "http://gpu-1:8000"}})
//	for _, step := range r.Steps(now, inFlight) {
//		... // Add
//	}
//
// A source tells its whole set each time. A worker that no source names any more drains: its requests without a byte of an answer are
// placed elsewhere, its streams end in peace, and it stays a while longer, so that one that flaps is still warm when it is back. One that
// comes back as another instance is another worker: it starts with nothing.
package roster

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Entry is one worker as a source names it. S is what else there is to know of it.
type Entry[S any] struct {
	ID       string
	URL      string
	Instance string // another one at the same address is another engine with nothing cached; "" not told
	Leaving  bool   // it answers what it has, and is to get nothing new; one that is not in the fleet does not come
	Settings S
}

// Difference is how two Settings of a worker differ.
type Difference uint8

// The differences.
const (
	Same       Difference = iota
	Relabelled            // the worker goes on as it is, with the new settings
	Other                 // it has to be taken out and put in again
)

// Options are what a roster goes by.
type Options[S any] struct {
	Linger     time.Duration              // how long one that left is kept, where nothing of it is under way
	WorkersMax int                        // entries beyond it are refused; 0: no bound
	Setting    string                     // name of WorkersMax for people
	Compare    func(was, is S) Difference // how settings changed
}

// Action is what a step does.
type Action uint8

// The actions, in words: Drain leaves requests where they are; Move has those placed elsewhere that have no byte of an answer yet.
const (
	Add Action = iota
	Remove
	Drain
	Move
	Undrain
	Relabel
)

// Step is one thing to do, of one worker.
type Step[S any] struct {
	Do     Action
	Entry  Entry[S]
	Source string // who names it, or named it last
	Why    string // in words, for the log
}

// Refusal is an entry that is not taken.
type Refusal struct{ Source, ID, URL, Why string }

// Roster is the sets of all sources, and the workers that come of them. It is not synchronised.
type Roster[S any] struct {
	o         Options[S]
	sources   []source[S]
	members   []*member[S] // in order of addition
	byID      map[string]*member[S]
	dismissed map[string]bool
	failed    map[string]Refusal // entries that could not be added when they were tried last, by id
	refused   []Refusal
}

type source[S any] struct {
	name string
	set  []Entry[S]
}

// member is a worker that was added.
type member[S any] struct {
	Entry[S]
	source string
	left   time.Time // when no source named it any more; zero: one does
}

// New makes an empty roster. Of two sources that name the same worker the one that is named here first counts.
func New[S any](o Options[S], sources ...string) *Roster[S] {
	r := &Roster[S]{o: o, byID: map[string]*member[S]{}, dismissed: map[string]bool{}, failed: map[string]Refusal{}}
	for _, name := range sources {
		r.sources = append(r.sources, source[S]{name: name})
	}
	return r
}

// Tell gives a source's whole set. The roster keeps the slice.
func (r *Roster[S]) Tell(name string, set []Entry[S]) {
	i := slices.IndexFunc(r.sources, func(s source[S]) bool { return s.name == name })
	if i < 0 {
		i = len(r.sources)
		r.sources = append(r.sources, source[S]{name: name})
	}
	r.sources[i].set = set
	for id := range r.dismissed {
		if !r.named(id) {
			delete(r.dismissed, id)
		}
	}
	clear(r.failed)
}

// Follow has other sources count, in this order; what those have told that stay is kept. What a source has told that is not among them counts as well,
// behind them, until Tell says that it names nobody.
func (r *Roster[S]) Follow(sources ...string) {
	was := r.sources
	r.sources = nil
	for _, name := range sources {
		s := source[S]{name: name}
		if i := slices.IndexFunc(was, func(s source[S]) bool { return s.name == name }); i >= 0 {
			s = was[i]
		}
		r.sources = append(r.sources, s)
	}
	for _, s := range was {
		if len(s.set) > 0 && !slices.Contains(sources, s.name) {
			r.sources = append(r.sources, s)
		}
	}
}

// Set is what a source told last.
func (r *Roster[S]) Set(name string) []Entry[S] {
	for _, s := range r.sources {
		if s.name == name {
			return s.set
		}
	}
	return nil
}

func (r *Roster[S]) named(id string) bool {
	return slices.ContainsFunc(r.sources, func(s source[S]) bool {
		return slices.ContainsFunc(s.set, func(e Entry[S]) bool { return e.ID == id })
	})
}

// Dismiss takes a worker out by hand, at once: it stays out until its source has ceased to name it, or until it is recalled. It reports
// whether the worker was a member.
func (r *Roster[S]) Dismiss(id string) bool {
	if r.named(id) {
		r.dismissed[id] = true
	}
	m := r.byID[id]
	r.drop(m)
	return m != nil
}

// Dismissed are the ids of those that were taken out by hand and that a source still names, in order.
func (r *Roster[S]) Dismissed() []string { return slices.Sorted(maps.Keys(r.dismissed)) }

// Recall ends a dismissal.
func (r *Roster[S]) Recall(id string) { delete(r.dismissed, id) }

// Failed says that a worker could not be added. It is tried again when Steps is called next.
func (r *Roster[S]) Failed(id, why string) {
	if m := r.byID[id]; m != nil {
		r.failed[id] = Refusal{Source: m.source, ID: id, URL: m.URL, Why: why}
		r.drop(m)
	}
}

// Failure is why a worker could not be added, as of the last Steps; "" it could.
func (r *Roster[S]) Failure(id string) string { return r.failed[id].Why }

// drop takes a member out; nil is none.
func (r *Roster[S]) drop(m *member[S]) {
	if i := slices.Index(r.members, m); i >= 0 {
		r.members = slices.Delete(r.members, i, i+1)
		delete(r.byID, m.ID)
	}
}

// wanted are the entries that should be members, those of the first source first, with the names of their sources.
func (r *Roster[S]) wanted() (all []member[S], byID map[string]int) {
	byID, byURL := map[string]int{}, map[string]int{}
	r.refused = r.refused[:0]
	for _, s := range r.sources {
		for _, e := range s.set {
			at, again := byID[e.ID]
			if r.dismissed[e.ID] || again && all[at].URL == e.URL {
				continue
			}
			why := ""
			if again {
				why = fmt.Sprintf("its id is that of %s, at %s", all[at].source, all[at].URL)
			} else if other, taken := byURL[e.URL]; taken {
				why = fmt.Sprintf("its address is %q already, of %s", all[other].ID, all[other].source)
			} else if r.o.WorkersMax > 0 && len(all) >= r.o.WorkersMax {
				why = fmt.Sprintf("there are %d workers already, the most there may be (setting %s)", len(all), r.o.Setting)
			} else {
				byID[e.ID], byURL[e.URL] = len(all), len(all)
				all = append(all, member[S]{Entry: e, source: s.name})
			}
			if why != "" {
				r.refused = append(r.refused, Refusal{Source: s.name, ID: e.ID, URL: e.URL, Why: why})
			}
		}
	}
	return all, byID
}

// Steps are what there is to do now, in order; they count as done. inFlight is the number of requests on a worker. Those who come are there
// before those who leave give up their requests: where all are others now, somebody is left to take them.
func (r *Roster[S]) Steps(now time.Time, inFlight func(id string) int) (steps []Step[S]) {
	want, byID := r.wanted()
	var later []Step[S]
	do := func(a Action, m *member[S], why string) {
		s := Step[S]{Do: a, Entry: m.Entry, Source: m.source, Why: why}
		if a == Drain || a == Move {
			later = append(later, s)
			return
		}
		steps = append(steps, s)
	}
	r.members = slices.DeleteFunc(r.members, func(m *member[S]) (goes bool) {
		if at, ok := byID[m.ID]; ok {
			goes = !r.update(m, &want[at], do)
		} else if m.left.IsZero() {
			m.left, m.Leaving = now, false
			do(Move, m, "no longer named by "+m.source)
		} else if now.Sub(m.left) >= r.o.Linger && inFlight(m.ID) == 0 {
			goes = true
			do(Remove, m, "left, and nothing of it is under way")
		}
		if goes {
			delete(r.byID, m.ID)
		}
		return goes
	})
	holds := make(map[string]*member[S], len(r.members)) // by address
	for _, m := range r.members {
		holds[m.URL] = m
	}
	for i := range want {
		w := &want[i]
		if w.Leaving || r.byID[w.ID] != nil {
			continue
		}
		if m := holds[w.URL]; m != nil {
			do(Remove, m, "its address is another worker's now")
			r.drop(m)
		}
		r.members, r.byID[w.ID] = append(r.members, w), w
		delete(r.failed, w.ID)
		do(Add, w, "named by "+w.source)
	}
	for _, s := range later {
		if m := r.byID[s.Entry.ID]; m != nil && m.URL == s.Entry.URL { // else it had to make room
			steps = append(steps, s)
		}
	}
	return steps
}

// update holds a member against what is said of it now. false: it goes, and may come again as somebody else.
func (r *Roster[S]) update(m, is *member[S], do func(Action, *member[S], string)) bool {
	why := ""
	change := r.o.Compare(m.Settings, is.Settings)
	switch {
	case m.URL != is.URL:
		why = "its address changed"
	case m.Instance != "" && is.Instance != "" && m.Instance != is.Instance:
		why = "another instance is at its address"
	case change == Other:
		why = "its settings changed"
	}
	if why != "" {
		do(Remove, m, why)
		return false
	}
	was := *m
	m.Settings, m.Leaving, m.left, m.source = is.Settings, is.Leaving, time.Time{}, is.source
	if is.Instance != "" {
		m.Instance = is.Instance
	}
	if change == Relabelled {
		do(Relabel, m, "its labels changed")
	}
	drained := was.Leaving || !was.left.IsZero()
	switch {
	case is.Leaving && !was.Leaving:
		do(Drain, m, "it is leaving, says "+m.source)
	case drained && !is.Leaving:
		do(Undrain, m, "named again by "+m.source)
	}
	return true
}

// Restless says whether some worker has left and is still there: Steps is to be called again soon.
func (r *Roster[S]) Restless() bool {
	return slices.ContainsFunc(r.members, func(m *member[S]) bool { return !m.left.IsZero() })
}

// Refused are the entries that are not taken, as of the last Steps, and those that could not be added.
func (r *Roster[S]) Refused() []Refusal {
	all := slices.Clone(r.refused)
	for _, id := range slices.Sorted(maps.Keys(r.failed)) {
		all = append(all, r.failed[id])
	}
	return all
}

// Standing is how a member stands with its source.
type Standing struct {
	Source string
	Left   bool // no source names it any more
	Parts  bool // its source says that it is leaving
}

// Of tells how a member stands; false: there is none of that id.
func (r *Roster[S]) Of(id string) (Standing, bool) {
	m := r.byID[id]
	if m == nil {
		return Standing{}, false
	}
	return Standing{Source: m.source, Left: !m.left.IsZero(), Parts: m.Leaving}, true
}

// Settings are those of a member; false: there is none of that id.
func (r *Roster[S]) Settings(id string) (s S, ok bool) {
	if m := r.byID[id]; m != nil {
		return m.Settings, true
	}
	return s, false
}

// Taken says which present member has an id or an address already that a new worker would have; "" neither is.
func (r *Roster[S]) Taken(id, url string) string {
	for _, m := range r.members {
		switch {
		case !m.left.IsZero():
		case m.ID == id:
			return fmt.Sprintf("worker %q is in the fleet already, at %s, named by %s", id, m.URL, m.source)
		case m.URL == url:
			return fmt.Sprintf("worker URL %s is in the fleet already, as %q, named by %s", url, m.ID, m.source)
		}
	}
	return ""
}
