package cost

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// taught are rooms that have learned of two workers, of which b is three times as slow as its class begins.
func taught(t *testing.T) (*fleet.Fleet, *Book, *Outputs, *Ratio) {
	t.Helper()
	f, b, o, r := fleet.New(fleet.DefaultOptions()), NewBook(DefaultOptions()), NewOutputs(0), NewRatio()
	k := DefaultOptions().Prior
	for j, id := range []string{"a", "b"} {
		m, factor := b.Of(add(t, f, id, "vllm")), float64(1+2*j)
		for i := range 60 {
			m.LearnPrefill(500+100*i, 200, factor*k.Prefill(500+100*i, 200))
			m.LearnStep(float64(1+i%8), 4000, factor*k.Step(float64(1+i%8), 4000))
		}
	}
	for i := range 200 {
		o.LearnShaped(Asking{Model: "m", Tenant: "search", Shape: Shape{Streamed: true, MaxTokens: 400}}, 20+i)
		r.Learn("m", 5000, 2000)
	}
	return f, b, o, r
}

// overJSON is what a file makes of it.
func overJSON(t *testing.T, k *Kept) *Kept {
	t.Helper()
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	var back Kept
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	return &back
}

func TestWhatIsRecalledForetellsAsBefore(t *testing.T) {
	f, b, o, r := taught(t)
	kept := overJSON(t, Keep(b, o, r))
	f2, b2, o2, r2 := fleet.New(fleet.DefaultOptions()), NewBook(DefaultOptions()), NewOutputs(0), NewRatio()
	if err := kept.Recall(b2, o2, r2); err != nil {
		t.Fatal(err)
	}
	if again := Keep(b2, o2, r2); !reflect.DeepEqual(again, kept) {
		t.Errorf("kept once more before any worker said what it is, it differs:\n%+v\n%+v", again, kept)
	}
	for _, id := range []string{"a", "b"} {
		before := b.Of(f.Lookup(id)).Constants()
		unknown := add(t, f2, id, "")
		if got := b2.Of(unknown).Constants(); got != before {
			t.Errorf("%s, before its engine is known: %+v, before %+v", id, got, before)
		}
		unknown.SetInfo(fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: "m"}}})
		if got := b2.Of(unknown).Constants(); got != before {
			t.Errorf("%s: %+v, before %+v", id, got, before)
		}
	}
	ask := Asking{Model: "m", Tenant: "search", Shape: Shape{Streamed: true, MaxTokens: 400}}
	if got, want := o2.Lengths(ask), o.Lengths(ask); got != want {
		t.Errorf("lengths %+v, before %+v", got, want)
	}
	if got, want := r2.Tokens("m", 10_000), r.Tokens("m", 10_000); got != want || got < 3900 {
		t.Errorf("%d tokens, before %d", got, want)
	}
	if again := overJSON(t, Keep(b2, o2, r2)); !reflect.DeepEqual(again, kept) {
		t.Errorf("kept once more it differs")
	}
}

func TestASpeedIsRecalledOfTheSameWorkerOnly(t *testing.T) {
	_, b, o, r := taught(t)
	kept := Keep(b, o, r)
	for name, other := range map[string]struct{ id, url, engine string }{
		"another address":              {"b", "http://elsewhere", "vllm"},
		"another name":                 {"c", "http://b", "vllm"},
		"another engine, same address": {"b", "http://b", "sglang"},
	} {
		f, fresh := fleet.New(fleet.DefaultOptions()), NewBook(DefaultOptions())
		if err := kept.Recall(fresh, NewOutputs(0), NewRatio()); err != nil {
			t.Fatal(err)
		}
		w, err := f.Add(other.id, other.url, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		w.SetInfo(fleet.Info{Engine: other.engine, Models: []fleet.Model{{ID: "m"}}})
		if p, s := fresh.Of(w).Samples(); p != 0 || s != 0 {
			t.Errorf("%s: begins with %d and %d observations that are not its own", name, p, s)
		}
	}
}

func TestAWorkerThatLeftIsNotRecalledWhenItComesBack(t *testing.T) {
	_, b, o, r := taught(t)
	f, fresh := fleet.New(fleet.DefaultOptions()), NewBook(DefaultOptions())
	if err := Keep(b, o, r).Recall(fresh, NewOutputs(0), NewRatio()); err != nil {
		t.Fatal(err)
	}
	w := add(t, f, "b", "vllm")
	fresh.Of(w)
	fresh.Forget(w)
	if p, _ := fresh.Of(w).Samples(); p != 0 {
		t.Errorf("%d prefills", p)
	}
}

func TestTimesAgainstAnotherPriorAreNotRecalled(t *testing.T) {
	_, b, o, r := taught(t)
	f, fresh := fleet.New(fleet.DefaultOptions()), NewBook(Options{Prior: Profiles["a100-8b"].Constants})
	if err := Keep(b, o, r).Recall(fresh, NewOutputs(0), NewRatio()); err != nil {
		t.Fatal(err)
	}
	if got := fresh.Of(add(t, f, "b", "vllm")).Constants(); got != Profiles["a100-8b"].Constants {
		t.Errorf("%+v", got)
	}
}

func TestWhatCannotBeIsRefusedWhole(t *testing.T) {
	for name, spoil := range map[string]func(*Kept){
		"a ratio out of bounds":      func(k *Kept) { k.Classes[0].Step.Ratio[1] = 100 },
		"a speed that is no number":  func(k *Kept) { k.Classes[0].Speeds[0] = math.NaN() },
		"a mass without bound":       func(k *Kept) { k.Classes[0].Prefill.Mass = 1e300 },
		"more votes than a ring has": func(k *Kept) { k.Workers[0].Step.Votes = make([][2]float64, 99) },
		"fewer than no votes":        func(k *Kept) { k.Workers[0].Step = KeptSpeed{N: -1} },
		"a bucket that is not":       func(k *Kept) { k.Lengths[0].Is.Counts[0][0] = 1e9 },
		"answers of no length":       func(k *Kept) { k.All.Mean = 0 },
		"text of no bytes":           func(k *Kept) { k.Ratios[0].Is.Bytes = 0 },
		"all text of no tokens":      func(k *Kept) { k.AllText.Tokens = 0 },
	} {
		_, b, o, r := taught(t)
		kept := Keep(b, o, r)
		spoil(kept)
		fresh, lengths, ratio := NewBook(DefaultOptions()), NewOutputs(0), NewRatio()
		if err := kept.Recall(fresh, lengths, ratio); err == nil || len(fresh.classes) != 0 || lengths.Len() != 0 || len(ratio.models) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
