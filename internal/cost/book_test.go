package cost

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

func add(t *testing.T, f *fleet.Fleet, id, engine string) *fleet.Worker {
	t.Helper()
	w, err := f.Add(id, "http://"+id, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if engine != "" {
		w.SetInfo(fleet.Info{Engine: engine, Models: []fleet.Model{{ID: "m"}}})
	}
	return w
}

func TestAWorkerKeepsItsModelAndItsClassIsItsEngines(t *testing.T) {
	f, b := fleet.New(fleet.DefaultOptions()), NewBook(DefaultOptions())
	gpu, cpu := add(t, f, "gpu", "vllm"), add(t, f, "cpu", "llama.cpp")
	if m := b.Of(gpu); b.Of(gpu) != m || b.Of(cpu) == m {
		t.Error("a model is not one worker's")
	}
	if got := b.Of(gpu).Constants(); got != Profiles["h100-8b"].Constants {
		t.Errorf("an unknown engine starts from %+v", got)
	}
	if got := b.Of(cpu).Constants(); got != DefaultOptions().Engines["llama.cpp"] {
		t.Errorf("llama.cpp starts from %+v", got)
	}
}

func TestAWorkerIsClassedOnceItsEngineIsKnown(t *testing.T) {
	f, b := fleet.New(fleet.DefaultOptions()), NewBook(DefaultOptions())
	w := add(t, f, "a", "")
	before := b.Of(w)
	before.LearnPrefill(1000, 0, 1)
	if b.Of(w) != before {
		t.Error("the model changed for no reason")
	}
	w.SetInfo(fleet.Info{Engine: "llama.cpp"})
	after := b.Of(w)
	if after == before || after.prior != DefaultOptions().Engines["llama.cpp"] {
		t.Error("the worker is still of no class")
	}
	w.SetInfo(fleet.Info{Engine: "vllm"})
	if b.Of(w) != after {
		t.Error("a model once classed was lost")
	}
}

func TestAWorkerOfUnknownEngineIsTakenForOneOfThoseThatRunItsModel(t *testing.T) {
	f, b := fleet.New(fleet.DefaultOptions()), NewBook(DefaultOptions())
	old := add(t, f, "a", "vllm")
	for range 20 {
		b.Of(old).LearnPrefill(2000, 0, 3)
	}
	fresh := add(t, f, "b", "")
	fresh.SetInfo(fleet.Info{Models: []fleet.Model{{ID: "m"}}}) // configured; the engine has not been asked yet
	if got, want := b.Of(fresh).Constants(), b.Of(old).Constants(); got != want {
		t.Errorf("it starts from %+v, its siblings are at %+v", got, want)
	}
}

func TestASuccessorInASlotStartsCleanButFromItsClass(t *testing.T) {
	f, b := fleet.New(fleet.DefaultOptions()), NewBook(DefaultOptions())
	old := add(t, f, "a", "vllm")
	slow := Profiles["h100-8b"].Scaled(6)
	for range 20 {
		b.Of(old).LearnPrefill(2000, 0, slow.Prefill(2000, 0))
	}
	if _, err := f.Remove("a"); err != nil {
		t.Fatal(err)
	}
	b.Forget(old)
	f.SlotFree(old.Slot)
	next := add(t, f, "b", "vllm")
	if next.Slot != old.Slot {
		t.Fatalf("slot %d after %d", next.Slot, old.Slot)
	}
	m := b.Of(next)
	if p, _ := m.Samples(); p != 0 {
		t.Errorf("the successor has %d samples", p)
	}
	if got, want := m.Constants().Prefill(2000, 0), slow.Prefill(2000, 0); off(got, want) > 0.1 {
		t.Errorf("the successor starts at %v s, its class takes %v s", got, want)
	}
	b.Forget(old)
	if b.Of(next) != m {
		t.Error("forgetting the old worker twice took the successor's model")
	}
}

func TestTheClassesToldApartAreBounded(t *testing.T) {
	f, b := fleet.New(fleet.DefaultOptions()), NewBook(DefaultOptions())
	for i := range classesMax + 50 {
		w := add(t, f, fmt.Sprint("w", i), "")
		w.SetInfo(fleet.Info{Engine: "vllm", Models: []fleet.Model{{ID: fmt.Sprint("m", i)}}})
		b.Of(w)
		b.Forget(w)
	}
	if len(b.classes) > classesMax+1 {
		t.Errorf("%d classes held", len(b.classes))
	}
}
