package sim

import (
	"context"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/models"
)

const twoModels = "h100-8b:2@model=small,h100-70b-tp4:2@model=big"

// either is a name for the small model, which is cheap and takes 8,192 tokens, and the big one.
func either(ask string, secondValue float64) *Models {
	return &Models{Ask: ask, Options: models.Options{SecondValue: secondValue, Models: []models.Virtual{{Name: "chat", Candidates: []models.Candidate{
		{Model: "small", ContextMax: 8192, Price: cost.Price{WorkerHour: 2}},
		{Model: "big", Price: cost.Price{WorkerHour: 9}},
	}}}}}
}

func TestTheCheapModelTakesWhatFitsAndTheBigOneTheRest(t *testing.T) {
	c := Config{Trace: tenants(t, shorts(t, 300, 8), longs(t, 10, 0.2)), Fleet: fleetOf(t, twoModels), Models: either("chat", 0), Seed: 3}
	r := run(t, c)
	held(t, "models", r)
	big, small := r.Models[0], r.Models[1]
	if big.Requests != 10 || small.Requests != 300 || big.Workers != 2 || small.Reasons["cheapest"] != 300 || big.Reasons["only"] != 10 {
		t.Errorf("%d went to the big one by %v, %d to the small one by %v", big.Requests, big.Reasons, small.Requests, small.Reasons)
	}
	want := (2*small.Seconds + 9*big.Seconds) / 3600
	if got := r.Money(); math.Abs(got-want) > 1e-9*want || want == 0 {
		t.Errorf("%v of money for %v and %v s, want %v", got, small.Seconds, big.Seconds, want)
	}
}

func TestChoosingIsCheaperThanAlwaysBigAndFasterThanAlwaysSmall(t *testing.T) {
	at := func(ask string) *Result {
		m := either(ask, 0.01)
		m.Models[0].Candidates[0].ContextMax = 0
		return run(t, Config{Trace: tenants(t, shorts(t, 1500, 24)), Fleet: fleetOf(t, "h100-8b:1@model=small,h100-70b-tp4:4@model=big"), Queue: queued(), Models: m, Known: true, Seed: 5})
	}
	chat, small, big := at("chat"), at("small"), at("big")
	for _, r := range []*Result{chat, small, big} {
		held(t, "models", r)
	}
	if !(chat.Money() < big.Money()) || !(chat.E2E.Mean() < small.E2E.Mean()) {
		t.Errorf("chosen: %v of money, %v s; small: %v, %v; big: %v, %v", chat.Money(), chat.E2E.Mean(), small.Money(), small.E2E.Mean(), big.Money(), big.E2E.Mean())
	}
	if small.Models[0].Requests != 0 || small.Models[1].Reasons["asked for"] != 1500 {
		t.Errorf("%+v", small.Models[1].Reasons)
	}
}

func TestACanaryGetsItsShareAndRunsRepeat(t *testing.T) {
	m := &Models{Ask: "chat", Options: models.Options{Models: []models.Virtual{{Name: "chat", Choose: "weight", Candidates: []models.Candidate{{Model: "small", Weight: 90}, {Model: "big", Weight: 10}}}}}}
	c := func() Config {
		return Config{Trace: open(t, "chats:chats=400,turns=2,rate=10"), Fleet: fleetOf(t, twoModels), Models: m, Seed: 7}
	}
	a, b := run(t, c()), run(t, c())
	if !reflect.DeepEqual(a, b) {
		t.Error("the same run gave something else")
	}
	if n := a.Models[0].Requests; n%2 != 0 || n < 2*22 || n > 2*58 { // three deviations of a binomial of 400; both turns of a conversation go to one model
		t.Errorf("seed 7: %d of 800 requests, in conversations of two, went to a canary of 10 %%", n)
	}
}

func TestWhatNoModelMayAnswerIsTurnedAway(t *testing.T) {
	m := either("chat", 0)
	m.Models[0].Candidates = m.Models[0].Candidates[:1]
	r := run(t, Config{Trace: tenants(t, shorts(t, 20, 8), longs(t, 3, 1)), Fleet: fleetOf(t, twoModels), Models: m, Seed: 3})
	held(t, "models", r)
	if long := r.Tenant("long"); len(long.Refused) != 3 || long.Refused[0].Reason != noModel {
		t.Errorf("%+v", long.Refused)
	}
}

func TestModelsThatTheFleetDoesNotServeAreNamed(t *testing.T) {
	for fleet, want := range map[string]string{
		"h100-8b:2":                            `models[0].candidates[0].model: unknown model "small": no worker serves it, and it is not virtual; workers of the fleet serve m,`,
		"h100-8b@model=small,h100-8b@model=bg": `models[0].candidates[1].model: unknown model "big"`,
	} {
		if _, err := Run(context.Background(), Config{Trace: open(t, "hot:requests=1"), Fleet: fleetOf(t, fleet), Models: either("chat", 0)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", fleet, err, want)
		}
	}
	if _, err := Run(context.Background(), Config{Trace: open(t, "hot:requests=1"), Fleet: fleetOf(t, twoModels), Models: either("medium", 0)}); err == nil || !strings.Contains(err.Error(), `"medium" is neither virtual nor served; there are: chat, big, small (--model)`) {
		t.Error(err)
	}
}
