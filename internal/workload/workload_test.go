package workload

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// whenever is an instant for answers whose times do not matter.
var whenever = time.Now()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheSameSeedGivesTheSameChats(t *testing.T) {
	o := Default()
	o.Sessions = 20
	if !reflect.DeepEqual(Generate(o), Generate(o)) {
		t.Error("two workloads of one seed differ")
	}
	other := o
	other.Seed++
	if reflect.DeepEqual(Generate(o)[0].Turns, Generate(other)[0].Turns) {
		t.Error("two seeds give the same chat")
	}
}

func TestAFasterWorkloadHasTheSameTexts(t *testing.T) {
	o := Default()
	o.Sessions = 10
	slow, fast := Generate(o), Generate(o.Faster(4))
	for i := range slow {
		if slow[i].Turns[0] != fast[i].Turns[0] || slow[i].System != fast[i].System {
			t.Fatalf("chat %d differs", i)
		}
		if d := slow[i].Start/4 - fast[i].Start; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("chat %d starts at %v and %v", i, slow[i].Start, fast[i].Start)
		}
	}
}

func TestTheDefaultWorkloadIsAsItSays(t *testing.T) {
	o := Default()
	sessions := Generate(o)
	systems, documents := map[string]int{}, map[string]int{}
	var about int
	for _, s := range sessions {
		systems[s.System]++
		if n := len(s.Turns[0].User) / bytesPerToken; n >= o.DocumentTokens.Min*99/100 {
			about++
			documents[s.Turns[0].User[:200]]++
		} else if n > o.ContextTokens.Max {
			t.Errorf("%s brings %d tokens", s.ID, n)
		}
		if n := len(s.System) / bytesPerToken; n < o.SystemTokens.Min*99/100 || n > o.SystemTokens.Max {
			t.Errorf("%s has a system prompt of %d tokens", s.ID, n)
		}
		for i, turn := range s.Turns {
			if (i == 0) != (turn.Think == 0) || turn.Think > 4*o.Think {
				t.Errorf("%s thinks %v before turn %d", s.ID, turn.Think, i)
			}
			if turn.MaxTokens < o.OutputTokens.Min || turn.MaxTokens > o.OutputTokens.Max {
				t.Errorf("%s wants %d tokens", s.ID, turn.MaxTokens)
			}
		}
	}
	if len(sessions) != o.Sessions || len(systems) != o.Applications || about != o.DocumentSessions || len(documents) != o.Documents {
		t.Errorf("%d chats of %d applications, %d about %d documents", len(sessions), len(systems), about, len(documents))
	}
	if !slices.IsSortedFunc(sessions, func(a, b Session) int { return int(a.Start - b.Start) }) {
		t.Error("the chats are not in the order they start")
	}
	if text := sessions[0].System; !strings.Contains(text, ". ") || strings.Count(text, " ") < len(text)/12 {
		t.Errorf("no text of words: %.100q", text)
	}
}

func TestASpreadsQuantilesAreSamples(t *testing.T) {
	var samples []time.Duration
	for i := 100; i >= 1; i-- {
		samples = append(samples, time.Duration(i))
	}
	got := spread(samples)
	want := Spread{Count: 100, Mean: 50, P50: 50, P90: 90, P99: 99, Max: 100}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := spread([]time.Duration{7}); got.P50 != 7 || got.P99 != 7 {
		t.Errorf("of one sample: %+v", got)
	}
	if got := spread(nil); got != (Spread{}) {
		t.Errorf("of none: %+v", got)
	}
}
