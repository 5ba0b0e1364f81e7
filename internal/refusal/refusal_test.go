package refusal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/admission"
	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/outcome"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/tenant"
)

func TestEachRefusalHasItsStatusAndItsTimeToComeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		kind   string
		after  time.Duration
	}{
		"no worker":            {&sched.ErrNoWorker{Model: "m"}, 503, llmapi.KindOverloaded, time.Second},
		"all are out":          {&sched.ErrNoWorker{Model: "m", After: 7 * time.Second}, 503, llmapi.KindOverloaded, 7 * time.Second},
		"another error":        {errors.New("odd"), 503, llmapi.KindOverloaded, time.Second},
		"a model not there":    {&sched.ErrNoModel{Model: "m"}, 404, llmapi.KindModel, 0},
		"not for the key":      {admission.ErrModel, 404, llmapi.KindModel, 0},
		"too long":             {&sched.ErrContext{}, 400, llmapi.KindContext, 0},
		"the queue":            {&flow.Refusal{Reason: flow.Full, After: 7 * time.Second}, 503, "queue_full", 7 * time.Second},
		"the queue, at once":   {&flow.Refusal{Reason: flow.TimedOut}, 503, "queue_timeout", time.Second},
		"a rate":               {&tenant.Refusal{Limit: "tokens_per_minute", After: time.Minute}, 429, llmapi.KindRateLimit, time.Minute},
		"more than the rate":   {&tenant.Refusal{Limit: "tokens_per_minute", Never: true}, 429, llmapi.KindRateLimit, 0},
		"a day's money":        {&tenant.Refusal{Limit: tenant.LimitSpend, After: 3 * time.Hour}, 429, llmapi.KindQuota, 3 * time.Hour},
		"a priority":           {&admission.PriorityError{}, 403, llmapi.KindPermission, 0},
		"a forbidden stand-in": {&models.ErrForbidden{Name: "v"}, 404, llmapi.KindModel, 0},
	} {
		a := Of(c.err, false, llmapi.OpenAI)
		if a.Status != c.status || a.Kind != c.kind || a.After != c.after || a.Message != c.err.Error() && a.Status != 404 {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if a := Of(&flow.Refusal{Reason: flow.Full}, false, llmapi.Anthropic); a.Status != StatusOverloaded || a.Reason != "queue_full" || a.Limit {
		t.Errorf("%+v", a)
	}
}

func TestWithAKeyAModelThatIsNotThereReadsAsOneThatIsNotForIt(t *testing.T) {
	there, own := Of(&sched.ErrNoModel{Model: "made-up"}, true, llmapi.OpenAI), Of(admission.ErrModel, true, llmapi.OpenAI)
	if standIn := Of(&models.ErrForbidden{Name: "made-up"}, true, llmapi.OpenAI); there != own || standIn != own {
		t.Errorf("%+v, %+v, %+v", there, own, standIn)
	}
}

func TestAnAnswerThatCameTooLateForAStatusKeepsItsWords(t *testing.T) {
	body := []byte(`{"error":{"message":"its own words"}}`)
	for status, kind := range map[int]string{400: llmapi.KindInvalid, 404: llmapi.KindModel, 429: llmapi.KindOverloaded, 503: llmapi.KindOverloaded, 500: llmapi.KindUpstream} {
		if a := Late(status, "w1", body); a.Kind != kind || !strings.Contains(a.Message, "its own words") || !strings.Contains(a.Message, fmt.Sprint(status)) || a.Outcome != outcome.Of(status) {
			t.Errorf("%d: %+v", status, a)
		}
	}
	if a := Late(200, "w1", body); a.Outcome != outcome.Failed || strings.Contains(a.Message, "own words") {
		t.Errorf("%+v", a)
	}
}
