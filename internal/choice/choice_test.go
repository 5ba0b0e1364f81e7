package choice

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/gate"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/models"
	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/upstream"
)

// desk stands before one worker for each model.
func desk(t *testing.T, o models.Options, served ...string) *Desk {
	t.Helper()
	f, x, b := fleet.New(fleet.DefaultOptions()), prefix.New(prefix.Options{}), cost.NewBook(cost.DefaultOptions())
	out, r := cost.NewOutputs(0), cost.NewRatio()
	g := gate.New(f, x, b, out, r, sched.New(f, x, b, out, r, sched.Options{Seed: 1}), upstream.DefaultOptions(), time.Now)
	t.Cleanup(g.Close)
	for _, m := range served {
		if _, err := g.Add(gate.Worker{ID: m, URL: "http://" + m, Models: []string{m}}); err != nil {
			t.Fatal(err)
		}
	}
	d, problems := New(o, g)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return d
}

// question is a chat of so many prompt tokens.
func question(model, session string, tokens int) Question {
	req := &llmapi.Request{Model: model, HasModel: model != "", N: 1, Prompts: 1, Answers: 1}
	return Question{Req: req, Want: sched.Request{PromptTokens: tokens, Generates: true, Streamed: true}, Wait: &gate.Wait{}, Session: session}
}

func cheapAndDear() models.Options {
	return models.Options{SecondValue: 1, Models: []models.Virtual{{Name: "chat", Candidates: []models.Candidate{
		{Model: "cheap", Price: cost.Price{Input: 1}}, {Model: "dear", Price: cost.Price{Input: 1.01}}}}}}
}

func TestWhyNobodyCanTakeARequestIsNotChangedByThoseAfterIt(t *testing.T) {
	o := cheapAndDear()
	for i := range o.Models[0].Candidates {
		o.Models[0].Candidates[i].ContextMax = 1000
	}
	d := desk(t, o, "cheap", "dear")
	var fits, long, other Pick
	if err := d.Choose(&fits, question("chat", "s", 100)); err != nil { // whose rows are the memory of those that come
		t.Fatal(err)
	}
	err := d.Choose(&long, question("chat", "l", 5000))
	if err == nil {
		t.Fatal("it does not fit")
	}
	before := err.Error()
	again := d.Choose(&other, question("chat", "o", 70_000))
	if err.Error() != before || again == nil || again.Error() == before || !strings.Contains(before, "5001 tokens") {
		t.Errorf("%s\nbecame %s", before, err)
	}
	d.Choose(&fits, question("chat", "s", 100))
	if _, kind := Refusal(err); kind != llmapi.KindContext || err.Error() != before {
		t.Errorf("%s\nbecame %s, %s", before, err, kind)
	}
}

func TestAConversationStaysWithTheModelThatServedItAndReasonsAreTold(t *testing.T) {
	d := desk(t, cheapAndDear(), "cheap", "dear")
	var first Pick
	if err := d.Choose(&first, question("chat", "s", 20_000)); err != nil || first.Model != "cheap" || first.Reason != "cheapest" || len(first.Rows) != 2 {
		t.Fatalf("%v, %+v", err, first)
	}
	if !first.Failed(Failure{Kind: llmapi.KindUpstream}) {
		t.Fatal("another could take it")
	}
	if err := d.Choose(&first, question("chat", "s", 20_000)); err != nil || first.Model != "dear" {
		t.Fatalf("%v, %+v", err, first)
	}
	d.Sent(&first)
	var next Pick
	if err := d.Choose(&next, question("chat", "s", 20_500)); err != nil || next.Model != "dear" || next.Reason != "stayed" {
		t.Errorf("%v, %+v", err, next)
	}
	if c := d.Counts(); len(c) != 1 || c[0].Model != "dear" || c[0].Requests != 1 {
		t.Errorf("what was not served is counted: %+v", c)
	}
}

func TestAFailureThatWouldComeAgainElsewhereIsNoReasonToTry(t *testing.T) {
	for _, c := range []struct {
		f    Failure
		want bool
	}{
		{Failure{Kind: llmapi.KindContext}, true},
		{Failure{Kind: "queue_full", Refused: true}, true},
		{Failure{Kind: llmapi.KindOverloaded, Nobody: true}, true},
		{Failure{Kind: llmapi.KindUpstream, Status: 503}, true},
		{Failure{Kind: llmapi.KindTimeout}, true},
		{Failure{Kind: llmapi.KindInvalid}, false},
		{Failure{Kind: llmapi.KindAuth}, false},
	} {
		p := Pick{Asked: "chat", Model: "cheap"}
		if got := p.Failed(c.f); got != c.want {
			t.Errorf("%+v: %v", c.f, got)
		}
		if p.Failed(c.f) {
			t.Errorf("%+v: the same model failed twice", c.f)
		}
	}
	if new(Pick).Failed(Failure{Kind: llmapi.KindContext}) {
		t.Error("a name that stands for nothing else fell back")
	}
}

func TestWhatCannotBeChosenIsToldInWordsForClients(t *testing.T) {
	d := desk(t, cheapAndDear(), "cheap")
	var p Pick
	q := question("chat", "", 100)
	q.Tier = "3"
	err := d.Choose(&p, q)
	if status, kind := Refusal(err); status != http.StatusBadRequest || kind != llmapi.KindInvalid || strings.Contains(err.Error(), "cheap") {
		t.Errorf("%d %s: %v", status, kind, err)
	}
	p, q.Tier = Pick{}, "best"
	if status, _ := Refusal(d.Choose(&p, q)); status != http.StatusBadRequest {
		t.Errorf("%d for a tier that is no number", status)
	}
	none := desk(t, cheapAndDear())
	p = Pick{}
	if status, _ := Refusal(none.Choose(&p, question("chat", "", 100))); status != http.StatusServiceUnavailable {
		t.Errorf("%d without workers", status)
	}
	if status, _ := Refusal(errors.New("another")); status != 0 {
		t.Errorf("%d for any other error", status)
	}
	if u := none.Unknown(cheapAndDear()); len(u) != 2 || u[0].Key != "models[0].candidates[0].model" {
		t.Errorf("%v", u)
	}
}

func TestADeskOfNothingChangesNothing(t *testing.T) {
	empty, problems := New(models.Options{}, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, d := range map[string]*Desk{"empty": empty, "nil": nil} {
		if d.Stands("m") || d.Stands("") || d.Means("m") != "m" || d.Served("m") != "m" || len(d.Names("", nil)) > 0 || len(d.Counts()) > 0 {
			t.Errorf("a desk that is %s does something", name)
		}
		d.Sent(&Pick{})
	}
}

func TestConversationsAndCountsSurviveOtherOptionsAndBadOnesChangeNothing(t *testing.T) {
	d := desk(t, cheapAndDear(), "cheap", "dear")
	pick := func(session string) *Pick {
		p := &Pick{}
		if err := d.Choose(p, question("chat", session, 20_000)); err != nil {
			t.Fatal(err)
		}
		d.Sent(p)
		return p
	}
	if first := pick("s"); first.Model != "cheap" {
		t.Fatalf("%+v", first)
	}
	o := cheapAndDear()
	o.Models[0].Candidates[0].Weight = -1
	if problems := d.Use(o); len(problems) == 0 {
		t.Fatal("a negative weight is taken")
	}
	o = cheapAndDear()
	o.Models[0].Candidates[0].Price.Input, o.Models[0].Candidates[1].Price.Input = o.Models[0].Candidates[1].Price.Input, o.Models[0].Candidates[0].Price.Input
	if problems := d.Use(o); len(problems) > 0 {
		t.Fatal(problems)
	}
	if counts := d.Counts(); len(counts) != 1 || counts[0].Requests != 1 {
		t.Errorf("counts after it: %+v", counts)
	}
	if next := pick("s"); next.Model != "cheap" || next.Reason != "stayed" {
		t.Errorf("the conversation went on with %s: %s", next.Model, next.Reason)
	}
}

func TestTheChosenNameIsWrittenIntoABodyAndNothingElse(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"model":"chat","n":1.0}`, `{"model":"small","n":1.0}`},
		{` { "messages":[] , "model" : "ch\u0061t" } `, ` { "messages":[] , "model" : "small" } `},
		{`{"model":"x","model":"chat"}`, `{"model":"x","model":"small"}`},
		{`{}`, `{"model":"small"}`},
		{"{\n}\n", "{\n\"model\":\"small\"}\n"},
		{`{"model":null}`, `{"model":null,"model":"small"}`},
		{`{"user":"}"}`, `{"user":"}","model":"small"}`},
	} {
		var req llmapi.Request
		if err := req.Scan(llmapi.Chat, []byte(c.body)); err != nil {
			t.Fatal(c.body, err)
		}
		got, err := Rewrite(&req, []byte(c.body), "small")
		if err != nil || string(got) != c.want || req.Model != "small" {
			t.Errorf("%s: %s, %q, %v", c.body, got, req.Model, err)
		}
	}
}

func TestSessionsByNameAndByTheirBeginning(t *testing.T) {
	c := prefix.Chain{Keys: []prefix.Key{1, 2, 3}}
	longer := prefix.Chain{Keys: []prefix.Key{1, 2, 3, 4, 5}, Replies: []prefix.Range{{First: 3}}}
	if Session("", c) != 3 || Session("", longer) != 3 || conversation("", longer) != 3 || Session("", prefix.Chain{}) != 0 {
		t.Error("a conversation is not known by its beginning")
	}
	if conversation("a", c) != conversation("a", longer) || conversation("a", c) == conversation("b", c) || Session("a", c) == Session("b", c) {
		t.Error("a conversation is not known by its name")
	}
	if got := conversation("a", c); got != 0xaf63dc4c8601ec8c {
		t.Errorf("%x: replicas would draw otherwise", got)
	}
}
