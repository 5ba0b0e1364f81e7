package roster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// settings of a worker, for these tests: "label/other".
func compare(was, is string) Difference {
	wl, wo, _ := strings.Cut(was, "/")
	il, io, _ := strings.Cut(is, "/")
	switch {
	case wo != io:
		return Other
	case wl != il:
		return Relabelled
	}
	return Same
}

const linger = 10 * time.Second

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func fresh() *Roster[string] {
	return New(Options[string]{Linger: linger, WorkersMax: 3, Setting: "discovery.workers_max", Compare: compare}, "first", "second")
}

// set is written as "id@url", then in any order "#instance", "!" for leaving and "=settings".
func set(texts ...string) (all []Entry[string]) {
	for _, text := range texts {
		var e Entry[string]
		text, e.Settings, _ = strings.Cut(text, "=")
		e.Leaving = strings.HasSuffix(text, "!")
		text = strings.TrimSuffix(text, "!")
		text, e.Instance, _ = strings.Cut(text, "#")
		e.ID, e.URL, _ = strings.Cut(text, "@")
		all = append(all, e)
	}
	return all
}

var words = map[Action]string{Add: "add", Remove: "remove", Drain: "drain", Move: "move", Undrain: "undrain", Relabel: "relabel"}

func said(steps []Step[string]) string {
	texts := make([]string, len(steps))
	for i, s := range steps {
		texts[i] = words[s.Do] + " " + s.Entry.ID
	}
	return strings.Join(texts, ", ")
}

// walk is what happens to a roster: sets told, time passing, requests under way, and the steps that are to come of it.
type walk struct {
	t    *testing.T
	r    *Roster[string]
	now  time.Time
	busy map[string]int
}

func begin(t *testing.T) *walk {
	return &walk{t: t, r: fresh(), now: start, busy: map[string]int{}}
}

func (w *walk) steps(want string) {
	w.t.Helper()
	if got := said(w.r.Steps(w.now, func(id string) int { return w.busy[id] })); got != want {
		w.t.Errorf("steps %q, want %q", got, want)
	}
}

func TestAWorkerComesLeavesAndIsForgottenWhenNothingOfItIsUnderWay(t *testing.T) {
	w := begin(t)
	w.r.Tell("first", set("a@1", "b@2"))
	w.steps("add a, add b")
	w.steps("")
	w.busy["a"] = 2
	w.r.Tell("first", set("b@2"))
	w.steps("move a")
	if !w.r.Restless() {
		t.Error("nobody is waited for")
	}
	w.now = w.now.Add(time.Hour)
	w.steps("")
	w.busy["a"] = 0
	w.steps("remove a")
	if w.r.Restless() {
		t.Error("somebody is waited for")
	}
	w.r.Tell("first", set("a@1", "b@2"))
	w.steps("add a")
}

func TestThoseWhoComeAreThereBeforeThoseWhoLeaveGiveUpTheirRequests(t *testing.T) {
	w := begin(t)
	w.r.Tell("first", set("a@1", "b@2"))
	w.steps("add a, add b")
	w.r.Tell("first", set("b@2!", "c@3"))
	w.steps("add c, move a, drain b")
}

func TestAWorkerThatFlapsGoesOnAsItWas(t *testing.T) {
	w := begin(t)
	w.r.Tell("first", set("a@1#i"))
	w.steps("add a")
	for range 5 {
		w.r.Tell("first", nil)
		w.steps("move a")
		w.now = w.now.Add(linger - 1)
		w.steps("")
		w.r.Tell("first", set("a@1#i"))
		w.steps("undrain a")
	}
	w.r.Tell("first", nil)
	w.steps("move a")
	w.now = w.now.Add(linger)
	w.steps("remove a")
}

func TestAnotherInstanceAtAnAddressIsAnotherWorker(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{"a@1#i", "a@1#j", "remove a, add a"},
		{"a@1#i", "a@1", ""}, // it is not told any more: nothing says that it changed
		{"a@1", "a@1#i", ""}, // it is told for the first time
		{"a@1#i", "a@2#i", "remove a, add a"},
		{"a@1#i", "b@1#j", "remove a, add b"},
		{"a@1=x/1", "a@1=x/2", "remove a, add a"},
		{"a@1=x/1", "a@1=y/1", "relabel a"},
		{"a@1#i", "a@1#i!", "drain a"},
		{"a@1#i", "a@1#j!", "remove a"},
		{"a@1!", "a@1", "add a"},
	} {
		w := begin(t)
		w.r.Tell("first", set(c.was))
		w.r.Steps(w.now, func(string) int { return 1 })
		w.busy["a"] = 1
		w.r.Tell("first", set(c.is))
		w.steps(c.want)
		w.steps("")
	}
	w := begin(t)
	w.r.Tell("first", set("a@1#i", "b@2#j"))
	w.steps("add a, add b")
	w.r.Tell("first", set("a@2#j", "b@1#i"))
	w.steps("remove a, remove b, add a, add b")
	w.r.Tell("first", set("a@2", "b@1#k"))
	w.steps("remove b, add b")
	w.r.Tell("first", set("a@2#j"))
	w.steps("move b")
	w.r.Tell("first", set("a@2#j", "b@1#k"))
	w.steps("undrain b")
}

func TestOneThatIsLeavingGetsNothingNewAndMayThinkBetterOfIt(t *testing.T) {
	w := begin(t)
	w.r.Tell("first", set("a@1"))
	w.steps("add a")
	w.r.Tell("first", set("a@1!"))
	w.steps("drain a")
	if s, ok := w.r.Of("a"); !ok || !s.Parts || s.Left || w.r.Restless() {
		t.Errorf("%+v %v", s, ok)
	}
	w.r.Tell("first", set("a@1"))
	w.steps("undrain a")
	w.r.Tell("first", set("a@1!"))
	w.steps("drain a")
	w.r.Tell("first", nil)
	w.steps("move a")
	w.r.Tell("first", set("a@1!"))
	w.steps("drain a")
	if s, _ := w.r.Of("a"); s.Left || !s.Parts {
		t.Errorf("%+v", s)
	}
}

func TestOfTwoSourcesTheFirstCountsAndAWorkerStaysWhileOneNamesIt(t *testing.T) {
	w := begin(t)
	w.r.Tell("second", set("a@1=s/", "b@2"))
	w.steps("add a, add b")
	w.r.Tell("first", set("a@1=f/"))
	w.steps("relabel a")
	w.r.Tell("first", nil)
	w.steps("relabel a")
	w.r.Tell("first", set("c@2", "b@9"))
	w.steps("remove b, add c, add b")
	refused := w.r.Refused()
	if len(refused) != 1 || refused[0].Source != "second" || refused[0].ID != "b" || !strings.Contains(refused[0].Why, "at 9") {
		t.Errorf("%+v", refused)
	}
	w.r.Tell("first", set("c@2"))
	w.steps("move b")
	if refused := w.r.Refused(); len(refused) != 1 || !strings.Contains(refused[0].Why, `its address is "c"`) {
		t.Errorf("%+v", refused)
	}
	w.r.Tell("third", set("d@4", "e@5"))
	w.steps("add d")
	if refused := w.r.Refused(); len(refused) != 2 || refused[1].ID != "e" || !strings.Contains(refused[1].Why, "discovery.workers_max") {
		t.Errorf("%+v", refused)
	}
}

func TestWhatIsTakenOutByHandStaysOutUntilItsSourceCeasesToNameIt(t *testing.T) {
	w := begin(t)
	w.r.Tell("first", set("a@1"))
	w.steps("add a")
	if !w.r.Dismiss("a") || w.r.Dismiss("b") {
		t.Error("who was a member?")
	}
	w.r.Tell("first", set("a@1"))
	w.steps("")
	w.r.Tell("first", nil)
	w.r.Tell("first", set("a@1"))
	w.steps("add a")
	w.r.Dismiss("a")
	w.steps("")
	w.r.Recall("a")
	w.steps("add a")
}

func TestWhatCannotBeAddedIsTriedAgainAndSaysWhy(t *testing.T) {
	w := begin(t)
	w.r.Tell("first", set("a@1"))
	for range 3 {
		w.steps("add a")
		w.r.Failed("a", "no room")
		if refused := w.r.Refused(); len(refused) != 1 || refused[0] != (Refusal{"first", "a", "1", "no room"}) || w.r.Failure("a") != "no room" {
			t.Errorf("%+v", refused)
		}
	}
	if why := w.r.Taken("a", "1"); why != "" {
		t.Error(why)
	}
	w.steps("add a")
	if refused := w.r.Refused(); len(refused) != 0 || w.r.Failure("a") != "" {
		t.Errorf("it could be added: %+v", refused)
	}
	w.r.Failed("a", "no room")
	w.r.Tell("first", nil)
	w.steps("")
	if refused := w.r.Refused(); len(refused) != 0 {
		t.Errorf("nobody names it: %+v", refused)
	}
}

func TestWhatIsTakenIsSaid(t *testing.T) {
	w := begin(t)
	w.r.Tell("first", set("a@1"))
	w.steps("add a")
	for _, c := range []struct{ id, url, want string }{{"a", "9", "at 1"}, {"b", "1", `as "a"`}, {"b", "2", ""}} {
		if why := w.r.Taken(c.id, c.url); c.want == "" && why != "" || !strings.Contains(why, c.want) {
			t.Errorf("%v: %q", c, why)
		}
	}
	w.r.Tell("first", nil)
	w.steps("move a")
	if why := w.r.Taken("a", "1"); why != "" {
		t.Errorf("one that left: %q", why)
	}
}

// Whatever sources say in whatever order: the steps lead from fleet to fleet, and the fleet is what is named.
func TestStepsLeadToTheFleetThatIsNamed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	r := New(Options[string]{Linger: linger, Compare: compare}, "first", "second")
	fleet, now := map[string]string{}, start // url by id
	draining := map[string]bool{}
	for range 3000 {
		var told []Entry[string]
		for _, id := range []string{"a", "b", "c", "d"} {
			if rng.IntN(3) > 0 {
				told = append(told, set(fmt.Sprintf("%s@%d#%d", id, rng.IntN(4), rng.IntN(2)))[0])
				told[len(told)-1].Leaving = rng.IntN(4) == 0
			}
		}
		r.Tell([]string{"first", "second"}[rng.IntN(2)], told)
		now = now.Add(time.Duration(rng.IntN(int(linger))))
		for _, s := range r.Steps(now, func(string) int { return rng.IntN(2) }) {
			id := s.Entry.ID
			_, there := fleet[id]
			if there == (s.Do == Add) {
				t.Fatalf("%s %s, and it is there: %v", words[s.Do], id, there)
			}
			switch s.Do {
			case Add:
				for other, url := range fleet {
					if url == s.Entry.URL {
						t.Fatalf("%s and %s are both at %s", id, other, url)
					}
				}
				fleet[id] = s.Entry.URL
			case Remove:
				delete(fleet, id)
				delete(draining, id)
			case Drain, Move:
				draining[id] = true
			case Undrain:
				draining[id] = false
			}
		}
		want, _ := r.wanted()
		for _, e := range want {
			i := slices.IndexFunc(r.members, func(m *member[string]) bool { return m.ID == e.ID })
			if i < 0 && !e.Leaving || i >= 0 && (fleet[e.ID] != e.URL || draining[e.ID] != e.Leaving) {
				t.Fatalf("%+v is wanted; there %v, fleet %v, draining %v", e, i >= 0, fleet, draining)
			}
		}
		if len(fleet) != len(r.members) {
			t.Fatalf("%d in the fleet, %d on the roster", len(fleet), len(r.members))
		}
	}
}

func TestOtherSourcesCountInTheirOrderAndOneThatIsNamedNoMoreUntilItNamesNobody(t *testing.T) {
	r := fresh()
	none := func(string) int { return 0 }
	r.Tell("first", set("a@1=x"))
	r.Tell("second", set("b@2"))
	r.Steps(start, none)
	r.Follow("third", "second")
	if got := said(r.Steps(start, none)); got != "" {
		t.Errorf("whoever a former source named leaves before it is said: %s", got)
	}
	r.Tell("third", set("a@1=y"))
	if got := said(r.Steps(start, none)); got != "relabel a" {
		t.Errorf("the source that comes first now does not count: %s", got)
	}
	r.Tell("first", nil)
	r.Tell("second", nil)
	if got := said(r.Steps(start, none)); got != "move b" {
		t.Errorf("who is named by nobody any more: %s", got)
	}
	r.Follow("third")
	if len(r.sources) != 1 {
		t.Errorf("sources that name nobody are kept: %v", r.sources)
	}
}
