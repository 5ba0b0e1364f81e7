package digest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/declog"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// decided are the records of a log.
func decided(t *testing.T, file string) (all []declog.Record) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := declog.NewReader(f); ; {
		var r declog.Record
		switch err := in.Next(&r); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, r)
	}
}

func of(records []declog.Record) Digest {
	b := New()
	for i := range records {
		b.Add(&records[i])
	}
	return b.Digest()
}

func TestTheOrderOfRecordsSaysNothing(t *testing.T) {
	t.Parallel()
	records := decided(t, "testdata/day.jsonl")
	told := func() string {
		d := of(records)
		for i := range d.Tenants {
			d.Tenants[i].EngineSeconds = 0 // sums of fractions
		}
		return fmt.Sprint(d.Requests, d.From, d.To, d.Tokens, d.HitRate, d.ReachableRate, d.Declined, d.Outcomes, len(d.Steps), d.Step, d.Tenants)
	}
	want, seed := told(), uint64(time.Now().UnixNano())
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	if got := told(); got != want {
		t.Errorf("seed %d:\n%s\nwant\n%s", seed, got, want)
	}
}

func TestADayIsCutInStepsThatFitOnAPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		apart time.Duration
		n     int
		step  time.Duration
		steps int
	}{{time.Second, 40, time.Second, 40}, {time.Minute, 40, time.Minute, 40}, {time.Minute, 24 * 60, time.Hour, 24}, {time.Hour, 24 * 14, 24 * time.Hour, 15}, {20 * 365 * 24 * time.Hour, 3, 7 * 24 * time.Hour, 3}, {0, 1, time.Second, 1}} {
		var records []declog.Record
		for i := range c.n {
			records = append(records, declog.Record{Time: noon.Add(time.Duration(i) * c.apart), Outcome: "succeeded"})
		}
		d := of(records)
		sum := 0
		for _, s := range d.Steps {
			sum += s.Requests
		}
		if d.Step != c.step.Seconds() || len(d.Steps) != c.steps || sum != c.n {
			t.Errorf("%d requests, %v apart: %d steps of %g s with %d requests, want %d of %v", c.n, c.apart, len(d.Steps), d.Step, sum, c.steps, c.step)
		}
	}
}

func TestNamesBeyondTheBoundAreCountedTogether(t *testing.T) {
	t.Parallel()
	b := New()
	const n = namesMax + 100
	for i := range n {
		b.Add(&declog.Record{Time: noon, Boot: fmt.Sprint("b", i), Tenant: fmt.Sprint("t", i), Worker: "w", Outcome: "failed", Error: fmt.Sprint("e", i), Metered: true, PromptTokens: 1})
	}
	d := b.Digest()
	if len(d.Tenants) != listedMax+1 || len(d.Errors) != listedMax || d.Errors[0].Name != others || d.Errors[0].Requests != 100 {
		t.Errorf("%d tenants, %d errors, the first %+v", len(d.Tenants), len(d.Errors), d.Errors[0])
	}
	sum := 0
	for _, u := range d.Tenants {
		sum += u.Requests
	}
	if sum != n || len(b.tenants) != namesMax+1 || d.Routers != namesMax+1 {
		t.Errorf("%d requests of %d, %d tenants kept, %d routers", sum, n, len(b.tenants), d.Routers)
	}
}

func TestPromptsThatBeginAlikeAreOneUser(t *testing.T) {
	t.Parallel()
	alike := func(id string, runs ...declog.Run) declog.Record {
		return declog.Record{Time: noon, Boot: "b", ID: id, Blocks: runs, Outcome: "succeeded", Metered: true, PromptTokens: 100}
	}
	d := of([]declog.Record{
		alike("one", declog.Run{First: 1, Count: 20}), alike("two", declog.Run{First: 1, Count: 16}, declog.Run{First: 40, Count: 9}), alike("other", declog.Run{First: 1, Count: 15}, declog.Run{First: 50, Count: 9}),
		alike("short", declog.Run{First: 1, Count: 15}), alike("short too", declog.Run{First: 1, Count: 15}),
	})
	if len(d.Prompts) != 1 || d.Prompts[0].Name != "one" || d.Prompts[0].Requests != 2 || d.Prompts[0].PromptTokens != 200 {
		t.Errorf("%+v", d.Prompts)
	}
}

func TestWhatAnEngineDoesNotTellIsAsItWasPredicted(t *testing.T) {
	t.Parallel()
	d := of([]declog.Record{
		{Time: noon, Outcome: "succeeded", Metered: true, PromptTokens: 100, CachedTokensEst: 120, CompletionTokens: 7},
		{Time: noon, Outcome: "succeeded", PromptTokensEst: 50, CachedTokensEst: 20, StreamedTokenCount: 3},
	})
	if d.Tokens != (Tokens{150, 120, 10}) || d.HitRate != 0 || d.ReachableRate != 0 {
		t.Errorf("%+v", d.Tokens)
	}
}

func TestWhatTheRouterTookBackIsNoFailureOfAWorker(t *testing.T) {
	t.Parallel()
	d := of([]declog.Record{
		{Time: noon, Outcome: "succeeded", Worker: "w", Tries: []declog.Try{{Worker: "v", Class: "moved"}, {Worker: "u", Class: "moved"}}},
		{Time: noon, Outcome: "succeeded", Worker: "w", Tries: []declog.Try{{Worker: "v"}}}, // as it was written once
		{Time: noon, Outcome: "succeeded", Worker: "w", Tries: []declog.Try{{Worker: "w", Class: "preempted"}, {Worker: "v", Class: "busy", Status: 503}}},
	})
	if d.Moved != 2 || d.Preempted != 1 || d.Retried != 1 || d.RetriedSucceeded != 1 || len(d.Tries) != 1 || d.Tries[0].Name != "busy 503" {
		t.Errorf("%d moved, %d preempted, %d retried, tries that failed %+v", d.Moved, d.Preempted, d.Retried, d.Tries)
	}
}

func TestWhatWasNeverComputedCountsNoTokens(t *testing.T) {
	t.Parallel()
	d := of([]declog.Record{
		{Time: noon, Outcome: "no_worker", Status: 503, Refused: "queue_full", PromptTokensEst: 1000},
		{Time: noon, Outcome: "cancelled", PromptTokensEst: 1000, CachedTokensEst: 300, StreamedTokenCount: 5, Worker: "w", Tries: []declog.Try{{Worker: "v", Class: "server_error", Status: 500}}},
	})
	if d.Tokens != (Tokens{1000, 300, 5}) || d.Retried != 1 || d.RetriedSucceeded != 0 || len(d.Errors) != 1 || d.Errors[0].Name != "no_worker 503: queue_full" || len(d.Tries) != 1 || d.Tries[0].Name != "server_error 500" {
		t.Errorf("%+v", d)
	}
}
