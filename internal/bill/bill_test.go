package bill

import (
	"math"
	"testing"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/tenant"
)

var (
	small  = cost.Price{Input: 1, Cached: 0.1, Output: 4}
	hourly = cost.Price{WorkerHour: 3600}
)

func TestExpectedMoneyTakesNothingForCached(t *testing.T) {
	if u := Expected(small, Ask{PromptTokens: 1000, AnswerTokens: 100, Answers: 2}); u.Tokens != 1200 || u.Money != 1800*1000 {
		t.Errorf("%+v", u)
	}
	if u := Expected(hourly, Ask{PromptTokens: 10, Seconds: 2}); u.Money != 2*tenant.Unit {
		t.Errorf("%+v", u)
	}
	if u := Expected(cost.Price{}, Ask{PromptTokens: 10, Seconds: 2}); u.Money != 0 || u.Tokens != 10 {
		t.Errorf("%+v", u)
	}
	if u := Expected(small, Ask{PromptTokens: 1, AnswerTokens: math.MaxInt, Answers: math.MaxInt}); u.Tokens <= 0 || u.Money <= 0 {
		t.Errorf("what is absurd is free: %+v", u)
	}
}

func TestWhatWasUsedIsCountedToTheTokenHoweverItEnded(t *testing.T) {
	for name, c := range map[string]struct {
		use    Use
		tokens int
		money  tenant.Money // thousandths of a millionth
	}{
		"whole":                         {Use{PromptTokens: 1000, CachedTokens: 600, CompletionTokens: 50, Reported: true, CachedReported: true, Seen: 49, Whole: true}, 1050, 400*1000 + 600*100 + 50*4000},
		"without usage":                 {Use{Estimate: 900, Seen: 10}, 910, 900*1000 + 10*4000},
		"left amid a stream that tells": {Use{PromptTokens: 1000, CompletionTokens: 1, Reported: true, Seen: 30}, 1030, 1000*1000 + 30*4000},
		"nothing came":                  {Use{Estimate: 900}, 900, 900 * 1000},
	} {
		if u := Used(small, c.use); u.Tokens != c.tokens || u.Money != c.money {
			t.Errorf("%s: %+v, want %d tokens and %d", name, u, c.tokens, c.money)
		}
	}
}

func TestHoursArePaidByTheEnginesTimeThatWasTaken(t *testing.T) {
	use := Use{PromptTokens: 1000, CachedTokens: 800, CompletionTokens: 50, Reported: true, CachedReported: true, Whole: true,
		Placed: Expectation{PrefillSeconds: 1, DecodeSeconds: 4, UncachedTokens: 1000, OutputTokens: 100}}
	if u := Used(hourly, use); u.Money != tenant.MoneyOf(0.2+2) {
		t.Errorf("%v, want a fifth of the prefill and half of the answer", u.Money.Units())
	}
	if u := Used(hourly, Use{Estimate: 1000, Placed: use.Placed}); u.Money != tenant.Unit {
		t.Errorf("%v for a prefill that its client left", u.Money.Units())
	}
}

func TestWhatNeverRanIsToldFromWhatDid(t *testing.T) {
	for _, c := range []struct {
		o     outcome.Outcome
		tries int
		seen  bool
		want  bool
	}{
		{outcome.Succeeded, 1, false, true}, {outcome.Cancelled, 1, false, true}, {outcome.Cancelled, 0, false, false}, {outcome.Failed, 1, false, false},
		{outcome.Failed, 2, true, true}, {outcome.ClientError, 1, false, false}, {outcome.Busy, 1, false, false}, {outcome.NoWorker, 0, false, false},
	} {
		if got := Ran(c.o, c.tries, c.seen); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
