package models

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/llmapi"
)

func TestAFailedRequestGoesOnByTheClassOfItsError(t *testing.T) {
	c := chooser(t, Options{Models: []Virtual{
		{Name: "chat", Choose: "order", Candidates: []Candidate{{Model: "a", ContextMax: 8000}, {Model: "b", ContextMax: 8000}, {Model: "c"}},
			Fallback: []Fallback{{Model: "long", On: []string{"context"}}, {Model: "c", On: []string{"overloaded"}}, {Model: "spare", On: []string{"down"}}}},
		{Name: "spare", Candidates: []Candidate{{Model: "s1"}, {Model: "s2"}}, Fallback: []Fallback{{Model: "s3"}}},
		{Name: "plain", Choose: "order", Candidates: []Candidate{{Model: "a"}, {Model: "b"}}},
	}})
	all := fleet{}
	for _, m := range []string{"a", "b", "c", "long", "s1", "s2", "s3"} {
		all[m] = up("h100-8b").with(func(o *Outlook) { o.ContextMax = map[string]int{"a": 8000, "b": 8000, "long": 100_000}[m] })
	}
	without := func(gone ...string) fleet {
		f := fleet{}
		for m, o := range all {
			o.Up = !slices.Contains(gone, m)
			f[m] = o
		}
		return f
	}
	for _, x := range []struct {
		name, ask string
		now       fleet
		failed    []Failure
		want      string
	}{
		{"nothing failed", "chat", all, nil, "a first"},
		{"too long", "chat", all, []Failure{{"a", Context}}, "long fallback"},
		{"too long there as well", "chat", all, []Failure{{"a", Context}, {"long", Context}}, "c only"},
		{"overloaded", "chat", all, []Failure{{"a", Overloaded}}, "c fallback"},
		{"overloaded and its fallback as well", "chat", all, []Failure{{"a", Overloaded}, {"c", Overloaded}}, "b only"},
		{"down: a virtual fallback", "chat", all, []Failure{{"a", Down}}, "s1 fallback"},
		{"whose own fallback", "chat", without("s1", "s2"), []Failure{{"a", Down}}, "s3 fallback"},
		{"and none of it is up: another candidate", "chat", without("s1", "s2", "s3"), []Failure{{"a", Down}}, "b first"},
		{"all candidates are down before any try", "chat", without("a", "b", "c"), nil, "s1 fallback"},
		{"without fallbacks the other candidates", "plain", all, []Failure{{"a", Overloaded}}, "b only"},
		{"not to one that is as short", "plain", all, []Failure{{"a", Context}}, "nothing behind the model"},
		{"all failed", "plain", all, []Failure{{"a", Down}, {"b", Down}}, "nothing behind the model"},
	} {
		choice, err := c.Choose(Ask{Name: x.ask, Work: cost.Work{PromptTokens: 4000}, Failed: x.failed}, x.now.look, nil)
		got := fmt.Sprint(choice.Model, " ", choice.Reason)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, x.want) {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
	}
	if class, ok := ClassOf(llmapi.KindContext); class != Context || !ok {
		t.Error("a context error has no class")
	}
	if _, ok := ClassOf(llmapi.KindInvalid); ok {
		t.Error("an invalid request is tried elsewhere")
	}
}

func TestModelsThatCannotBeMeantAreRefusedWithTheirPlaceAndReason(t *testing.T) {
	one := []Candidate{{Model: "x"}}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{SecondValue: -1, ConversationsMax: -1}, `value_of_second: is -1; conversations_max: is -1`},
		{Options{Models: []Virtual{{Name: "a", Candidates: one}, {Name: "a", Candidates: one}, {Candidates: one}}}, `models[1].name: "a" is the name of models[0]; models[2].name: is empty`},
		{Options{Models: []Virtual{{Name: "a", Choose: "luck", Candidates: one}}}, `models[0].choose: unknown way "luck"; there are: cost, order, weight`},
		{Options{Models: []Virtual{{Name: "a"}}}, `models[0].candidates: has 0 candidates`},
		{Options{Models: []Virtual{{Name: "a", Candidates: make([]Candidate, CandidatesMax+1)}}}, `models[0].candidates: has 65 candidates, want 1 to 64`},
		{Options{Models: make([]Virtual, ModelsMax+1)}, `models: has 1025 models, at most 1024`},
		{Options{Models: []Virtual{{Name: "a", Candidates: []Candidate{{}}}}}, `models[0].candidates[0].model: is empty`},
		{Options{Models: []Virtual{{Name: "a", Choose: "weight", Candidates: []Candidate{{Model: "x", Weight: -1}}}}}, `models[0].candidates[0].weight: is -1, want 0 or more`},
		{Options{Models: []Virtual{{Name: "a", Candidates: []Candidate{{Model: "x", Weight: 5}}}}}, `models[0].candidates[0].weight: has no effect`},
		{Options{Models: []Virtual{{Name: "a", Candidates: []Candidate{{Model: "x", Price: cost.Price{Output: -2}, ContextMax: -1}}}}},
			`models[0].candidates[0].price.output: is -2; models[0].candidates[0].context_max: is -1`},
		{Options{Models: []Virtual{{Name: "a", Candidates: []Candidate{{Model: "x", Can: []string{"text", "sing"}}}}}},
			`models[0].candidates[0].can[1]: unknown capability "sing"; there are: text, tools, json, vision, audio, reasoning`},
		{Options{Models: []Virtual{{Name: "a", Candidates: []Candidate{{Model: "x"}, {Model: "x"}}}}}, `models[0].candidates[1].model: can never be chosen: "x" is candidates[0]`},
		{Options{Models: []Virtual{{Name: "a", TierMin: 2, Candidates: []Candidate{{Model: "x", Tier: 1}}}}}, `models[0].candidates[0].tier: can never be chosen: 1 is below the tier_min 2`},
		{Options{Models: []Virtual{{Name: "a", Tenants: []string{"s"}, Candidates: []Candidate{{Model: "x", Tenants: []string{"t"}}}}}},
			`models[0].candidates[0].tenants: can never be chosen`},
		{Options{Models: []Virtual{{Name: "a", Candidates: one, Fallback: []Fallback{{Model: "y"}, {Model: "y", On: []string{"down"}}, {Model: "z", On: []string{"tired"}}}}}},
			`models[0].fallback[1]: can never be chosen: "y" stands before it; models[0].fallback[2].on[0]: unknown error "tired"`},
		{Options{Models: []Virtual{{Name: "a", Candidates: []Candidate{{Model: "a"}}}}}, `models[0].candidates[0].model: stands for itself: a -> a`},
		{Options{Models: []Virtual{{Name: "z", Candidates: []Candidate{{Model: "a"}}}, {Name: "a", Candidates: []Candidate{{Model: "b"}}}, {Name: "b", Candidates: []Candidate{{Model: "x"}, {Model: "a"}}}}},
			`models[2].candidates[1].model: stands for itself: a -> b -> a`},
		{Options{Models: []Virtual{{Name: "a", Candidates: one, Fallback: []Fallback{{Model: "b"}}}, {Name: "b", Candidates: []Candidate{{Model: "y"}}, Fallback: []Fallback{{Model: "a"}}}}},
			`models[1].fallback[0].model: stands for itself: a -> b -> a`},
		{Options{Models: []Virtual{{Name: "a", Candidates: []Candidate{{Model: "b", Tier: 1}}}, {Name: "b", Candidates: one}}}, `models[0].candidates[0]: "b" is virtual`},
	} {
		made, problems := New(c.o)
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		text, at := strings.Join(got, "; "), 0
		for _, part := range strings.Split(c.want, "; ") {
			i := strings.Index(text[max(at, 0):], part)
			if i < 0 || at < 0 {
				at = -1
				break
			}
			at += i
		}
		if made != nil || at < 0 {
			t.Errorf("want %s\n got %s", c.want, text)
		}
	}
}

func TestModelsThatNobodyServesAreNamed(t *testing.T) {
	o := Options{Default: "w", Models: []Virtual{{Name: "a", Candidates: []Candidate{{Model: "b"}, {Model: "x"}}, Fallback: []Fallback{{Model: "y"}}}, {Name: "b", Candidates: []Candidate{{Model: "z"}}}}}
	problems := chooser(t, o).Unknown(o, func(model string) bool { return model == "x" })
	got := fmt.Sprint(problems)
	if len(problems) != 3 || !strings.Contains(got, `default_model: unknown model "w"`) || !strings.Contains(got, `models[0].fallback[0].model: unknown model "y"`) || !strings.Contains(got, `models[1].candidates[0].model: unknown model "z"`) {
		t.Error(got)
	}
}

func TestConversationsRememberedAreBoundedAndThoseInUseStay(t *testing.T) {
	o := example()
	o.ConversationsMax = 100
	c := chooser(t, o)
	steady := Ask{Name: "chat", Conversation: 1 << 60}
	for i := range 10_000 {
		c.Remember(Ask{Name: "chat", Conversation: uint64(i + 1)}, Choice{Model: "large"})
		if i%20 == 0 {
			c.Remember(steady, Choice{Model: "small"})
		}
		if n := c.Conversations(); n > 100 {
			t.Fatalf("%d conversations are remembered", n)
		}
	}
	if at, ok := c.seats.of(mix(steady.Conversation, hash("chat"))); !ok || at.model != "small" {
		t.Error("a conversation in use was forgotten")
	}
	c.Remember(Ask{Name: "large", Conversation: 5}, Choice{Model: "large"})
	c.Remember(Ask{Name: "chat"}, Choice{Model: "large"})
	if _, ok := c.seats.of(mix(5, hash("large"))); ok {
		t.Error("a name that is not virtual is remembered")
	}
}

// Whatever the fleet and the request: what is chosen meets its constraints, and the same question has the same answer.
func TestWhatIsChosenCanTakeTheRequest(t *testing.T) {
	r := seeded(t, 53)
	c := chooser(t, example())
	facts := example().Models[0].Candidates
	chosen := 0
	for range 5000 {
		now := fleet{}
		for _, f := range facts {
			now[f.Model] = up("h100-8b").with(func(o *Outlook) {
				o.Up, o.Overloaded, o.WaitSeconds = r.IntN(4) > 0, r.IntN(4) == 0, 10*r.Float64()
				o.CachedTokens, o.ContextMax = r.IntN(5000)-1, r.IntN(3)*20_000
			})
		}
		needs := llmapi.Needs(r.IntN(32))
		needs &= llmapi.Needs(r.IntN(32)) // few at a time
		a := Ask{Name: "chat", Tenant: []string{"", "photos"}[r.IntN(2)], Tier: r.IntN(3), Needs: needs,
			Work: cost.Work{PromptTokens: r.IntN(80_000)}, MaxTokens: r.IntN(3) * 500, Conversation: r.Uint64N(50), HasBudget: r.IntN(3) == 0, Budget: 0.01 * r.Float64()}
		if r.IntN(4) == 0 {
			a.Failed = []Failure{{facts[r.IntN(3)].Model, []Class{Context, Overloaded, Down}[r.IntN(3)]}}
		}
		choice, err := c.Choose(a, now.look, nil)
		again, errAgain := c.Choose(a, now.look, nil)
		if fmt.Sprintf("%+v %v", choice, err) != fmt.Sprintf("%+v %v", again, errAgain) {
			t.Fatalf("%+v: %+v and %+v", a, choice, again)
		}
		if err != nil {
			continue
		}
		chosen++
		f := facts[slices.IndexFunc(facts, func(f Candidate) bool { return f.Model == choice.Model })]
		o, row := now[f.Model], choice.Rows[choice.Row]
		context := f.ContextMax
		if o.ContextMax > 0 {
			context = min(context, o.ContextMax)
		}
		if !o.Up || row.Model != f.Model || row.Out != In || a.Work.PromptTokens+a.MaxTokens > context || f.Tier < a.Tier || !allowed(f.Tenants, a.Tenant) ||
			a.HasBudget && row.Money > a.Budget || len(a.Failed) > 0 && a.Failed[0].Model == f.Model {
			t.Fatalf("%+v with %+v: %+v", a, o, row)
		}
		c.Remember(a, choice)
	}
	if chosen < 500 {
		t.Errorf("only %d of 5000 were placed", chosen)
	}
}

func BenchmarkChoose(b *testing.B) {
	c := chooser(b, example())
	now := usual()
	a := chat(1000)
	rows := make([]Row, 0, 8)
	b.ReportAllocs()
	for b.Loop() {
		choice, err := c.Choose(a, now.look, rows)
		if err != nil {
			b.Fatal(err)
		}
		rows = choice.Rows
	}
}
