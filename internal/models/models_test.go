package models

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/llmapi"
)

func chooser(t testing.TB, o Options) *Chooser {
	t.Helper()
	c, problems := New(o)
	if problems != nil {
		t.Fatalf("%v", problems)
	}
	return c
}

// fleet is the outlook of each model; one that is not in it is down.
type fleet map[string]Outlook

func (f fleet) look(model string) Outlook { return f[model] }

// up is a model on an engine of that profile, with answers of 200 tokens.
func up(profile string) Outlook {
	return Outlook{Up: true, There: cost.Conditions{Constants: cost.Profiles[profile].Constants}, Output: cost.Lengths{Mean: 200, P50: 180, P90: 400, Longest: 200}}
}

func (o Outlook) with(change func(*Outlook)) Outlook { change(&o); return o }

func seeded(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// example is a small, a large and a seeing model behind one name.
func example() Options {
	return Options{SecondValue: 0.0005, Models: []Virtual{{Name: "chat", Candidates: []Candidate{
		{Model: "small", ContextMax: 32_768, Can: []string{"tools", "json"}, Tier: 1, Price: cost.Price{WorkerHour: 2}},
		{Model: "large", ContextMax: 131_072, Can: []string{"tools", "json", "reasoning"}, Tier: 2, Price: cost.Price{WorkerHour: 10}},
		{Model: "eyes", ContextMax: 65_536, Can: []string{"vision"}, Tier: 1, Price: cost.Price{Input: 3, Output: 15}, Tenants: []string{"photos"}},
	}}}}
}

func usual() fleet {
	return fleet{"small": up("h100-8b"), "large": up("h100-70b-tp4"), "eyes": up("h100-32b-tp2")}
}

func chat(tokens int) Ask { return Ask{Name: "chat", Work: cost.Work{PromptTokens: tokens}} }

func TestTheCheapestModelThatMeetsAllConstraintsIsChosen(t *testing.T) {
	c := chooser(t, example())
	for _, x := range []struct {
		name   string
		now    fleet
		change func(*Ask)
		want   string // model and reason, or part of the error
	}{
		{"the cheapest", usual(), func(*Ask) {}, "small cheapest"},
		{"context", usual(), func(a *Ask) { a.Work.PromptTokens = 40_000 }, "large only"},
		{"context with the answer that is asked for", usual(), func(a *Ask) { a.Work.PromptTokens, a.MaxTokens = 32_000, 1000 }, "large only"},
		{"the engine's own context is shorter", fleet{"small": up("h100-8b").with(func(o *Outlook) { o.ContextMax = 4096 }), "large": up("h100-70b-tp4")},
			func(a *Ask) { a.Work.PromptTokens = 5000 }, "large only"},
		{"capability", usual(), func(a *Ask) { a.Needs = llmapi.NeedTools | llmapi.NeedReasoning }, "large only"},
		{"tenant", usual(), func(a *Ask) { a.Needs, a.Tenant = llmapi.NeedVision, "photos" }, "eyes only"},
		{"another tenant", usual(), func(a *Ask) { a.Needs = llmapi.NeedVision }, "it cannot do vision (2 times); the tenant may not use it"},
		{"what the tenant may use", usual(), func(a *Ask) { a.Allows = func(m string) bool { return m == "large" } }, "large only"},
		{"tier", usual(), func(a *Ask) { a.Tier = 2 }, "large only"},
		{"tier beyond all", usual(), func(a *Ask) { a.Tier = 3 }, "tier 1 is below 3"},
		{"budget", usual(), func(a *Ask) { a.HasBudget, a.Budget = true, 1e-9 }, "the budget has 1e-09 left"},
		{"down", fleet{"large": up("h100-70b-tp4")}, func(*Ask) {}, "large only"},
		{"all down", fleet{}, func(*Ask) {}, "no worker can take requests now (2 times)"},
		{"waiting has its price", fleet{"small": up("h100-8b").with(func(o *Outlook) { o.WaitSeconds = 60 }), "large": up("h100-70b-tp4")}, func(*Ask) {}, "large cheapest"},
		{"overloaded gives way", fleet{"small": up("h100-8b").with(func(o *Outlook) { o.Overloaded = true }), "large": up("h100-70b-tp4")}, func(*Ask) {}, "large only"},
		{"unless all are", fleet{"small": up("h100-8b").with(func(o *Outlook) { o.Overloaded = true }), "large": up("h100-70b-tp4").with(func(o *Outlook) { o.Overloaded = true })},
			func(*Ask) {}, "small cheapest"},
		{"a name that is not virtual", usual(), func(a *Ask) { a.Name = "large" }, "large named"},
	} {
		a := chat(1000)
		x.change(&a)
		choice, err := c.Choose(a, x.now.look, nil)
		got := fmt.Sprint(choice.Model, " ", choice.Reason)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, x.want) {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
		for i := range choice.Rows {
			if choice.Rows[i].Explain() == "" || strings.Contains(choice.Rows[i].Explain(), "%!") {
				t.Errorf("%s: %s", x.name, choice.Rows[i].Explain())
			}
		}
	}
}

func TestARefusalTellsClientsWhyAndNotWhatIsBehindTheName(t *testing.T) {
	o := example()
	o.Models = append(o.Models, Virtual{Name: "theirs", Tenants: []string{"x"}, Candidates: []Candidate{{Model: "small"}}})
	c := chooser(t, o)
	f := func(change func(*Ask), now fleet, kind string) {
		t.Helper()
		a := chat(1000)
		change(&a)
		_, err := c.Choose(a, now.look, nil)
		var none *ErrNone
		if !errors.As(err, &none) || none.Kind() != kind {
			t.Errorf("%v, want kind %s", err, kind)
			return
		}
		for _, secret := range []string{"small", "large", "eyes"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%v names %s", err, secret)
			}
		}
	}
	f(func(a *Ask) { a.Work.PromptTokens = 1 << 20 }, usual(), llmapi.KindContext)
	f(func(a *Ask) { a.Needs = llmapi.NeedAudio }, usual(), llmapi.KindInvalid)
	f(func(a *Ask) { a.HasBudget = true }, usual(), llmapi.KindRateLimit)
	f(func(a *Ask) {}, fleet{}, llmapi.KindOverloaded)
	f(func(a *Ask) { a.Failed = []Failure{{"small", Overloaded}, {"large", Down}} }, usual(), llmapi.KindOverloaded)
	for budget, failed := range map[string][]Failure{"nothing failed": nil, "one failed": {{"small", Context}}} {
		a := chat(1000)
		a.HasBudget, a.Failed = true, failed
		_, err := c.Choose(a, usual().look, nil)
		var none *ErrNone
		if !errors.As(err, &none) {
			t.Fatal(err)
		}
		least := math.Inf(1)
		for _, r := range none.Rows {
			if r.Out == OverBudget {
				least = min(least, r.Money)
			}
		}
		if money, is := none.Unpaid(); is != (failed == nil) || is && (money != least || money <= 0) {
			t.Errorf("%s: %v, %v, want %v: %v", budget, money, is, least, err)
		}
	}
	var forbidden *ErrForbidden
	if _, err := c.Choose(Ask{Name: "theirs", Tenant: "y"}, usual().look, nil); !errors.As(err, &forbidden) {
		t.Errorf("a tenant that may not ask: %v", err)
	}
	if got := fmt.Sprint(c.Names("x"), c.Names("y")); got != "[chat theirs] [chat]" {
		t.Errorf("names %s", got)
	}
}

func TestAConversationStaysUnlessTheGainPaysForThePrefill(t *testing.T) {
	c := chooser(t, example())
	now := usual()
	a := chat(20_000)
	a.Conversation = 77
	f := func(name, want string, reason Reason) Choice {
		t.Helper()
		choice, err := c.Choose(a, now.look, nil)
		if err != nil || choice.Model != want || choice.Reason != reason {
			t.Errorf("%s: %s %s, want %s %s (%v)", name, choice.Model, choice.Reason, want, reason, err)
		}
		return choice
	}
	now["small"] = now["small"].with(func(o *Outlook) { o.WaitSeconds, o.CachedTokens = 60, -1 })
	now["large"] = now["large"].with(func(o *Outlook) { o.CachedTokens = -1 })
	first := f("the small one is busy", "large", Cheapest)
	c.Remember(a, first)

	a.Work.PromptTokens = 20_500
	now["small"] = now["small"].with(func(o *Outlook) { o.WaitSeconds = 26 })
	stay := f("it is less busy, and the conversation is warm elsewhere", "large", Stayed)
	if row := stay.Rows[0]; row.Model != "small" || row.LeavingMoney <= 0 || stay.Rows[1].Expected.CachedTokens != 20_000 {
		t.Errorf("rows %+v", stay.Rows)
	}
	if choice, err := c.Choose(chat(20_500), now.look, nil); err != nil || choice.Model != "small" {
		t.Errorf("a new conversation goes to %s (%v)", choice.Model, err)
	}
	now["small"] = now["small"].with(func(o *Outlook) { o.WaitSeconds = 0 })
	f("the gain pays for the prefill", "small", Cheapest)

	now["large"] = now["large"].with(func(o *Outlook) { o.Up = false })
	f("its model is down", "small", Only)
}

// splitOf counts where n requests in as many conversations go.
func splitOf(t *testing.T, c *Chooser, now fleet, n int, ask func(i int) Ask) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for i := range n {
		choice, err := c.Choose(ask(i), now.look, nil)
		if err != nil {
			t.Fatal(err)
		}
		counts[choice.Model]++
	}
	return counts
}

func weighted(weights ...float64) Options {
	v := Virtual{Name: "m", Choose: "weight"}
	for i, w := range weights {
		v.Candidates = append(v.Candidates, Candidate{Model: fmt.Sprint("m-v", i+1), Weight: w})
	}
	return Options{Models: []Virtual{v}}
}

func TestMUL01RequestsAreSplitByWeightAndNotByTheHealthOfAPool(t *testing.T) {
	r := seeded(t, 51)
	both := fleet{"m-v1": up("h100-8b"), "m-v2": up("h100-8b")}
	f := func(name string, now fleet, share float64, weights ...float64) {
		t.Helper()
		got := splitOf(t, chooser(t, weighted(weights...)), now, 1000, func(int) Ask { return Ask{Name: "m", Chance: r.Uint64()} })
		if off := math.Abs(float64(got["m-v1"])/1000 - share); off > 0.03 || (share == 0 || share == 1) && off > 0 {
			t.Errorf("%s: %v of 1000, want a share of %.2f", name, got, share)
		}
	}
	f("90 to 10", both, 0.9, 90, 10)
	f("0 to 100", both, 0, 0, 100)
	f("no weights are equal ones", both, 0.5, 0, 0)
	f("one pool has no worker: all go to the other", fleet{"m-v1": up("h100-8b")}, 1, 90, 10)
	busy := fleet{"m-v1": up("h100-8b"), "m-v2": up("h100-8b").with(func(o *Outlook) { o.WaitSeconds, o.Overloaded = 30, true })}
	f("one is busy: the split stays", busy, 0.9, 90, 10)
	_, err := chooser(t, weighted(0, 100)).Choose(Ask{Name: "m"}, fleet{"m-v1": up("h100-8b")}.look, nil)
	if err == nil {
		t.Error("weight 0 gets requests when the other is down")
	}
	c := chooser(t, weighted(90, 10))
	for range 100 {
		a := Ask{Name: "m", Chance: r.Uint64()}
		first, _ := c.Choose(a, both.look, nil)
		if again, _ := c.Choose(a, both.look, nil); again.Model != first.Model {
			t.Fatal("a request has another target at its second try")
		}
	}
}

func TestACanaryGetsFivePercentOfConversationsAndKeepsThem(t *testing.T) {
	r := seeded(t, 52)
	now := fleet{"m-v1": up("h100-8b"), "m-v2": up("h100-8b")}
	conversations := make([]uint64, 10_000)
	for i := range conversations {
		conversations[i] = r.Uint64()
	}
	where := func(c *Chooser, turn int) []string {
		models := make([]string, len(conversations))
		for i, id := range conversations {
			choice, err := c.Choose(Ask{Name: "m", Conversation: id, Chance: r.Uint64(), Work: cost.Work{PromptTokens: 100 * turn}}, now.look, nil)
			if err != nil {
				t.Fatal(err)
			}
			models[i] = choice.Model
		}
		return models
	}
	differ := func(a, b []string) (n int) {
		for i := range a {
			if a[i] != b[i] {
				n++
			}
		}
		return n
	}
	five := where(chooser(t, weighted(95, 5)), 1)
	all := make([]string, len(five))
	for i := range all {
		all[i] = "m-v1"
	}
	if n := differ(five, all); n < 400 || n > 600 {
		t.Errorf("%d of 10,000 conversations are on the canary", n)
	}
	if n := differ(five, where(chooser(t, weighted(95, 5)), 2)); n != 0 {
		t.Errorf("%d conversations moved without a reason", n)
	}
	six := where(chooser(t, weighted(94, 6)), 3)
	if n := differ(five, six); n < 40 || n > 170 {
		t.Errorf("%d conversations moved for one point more", n)
	}
	for i := range five {
		if five[i] == "m-v2" && six[i] == "m-v1" {
			t.Fatal("a conversation left the canary when its share grew")
		}
	}
	three := where(chooser(t, weighted(95, 5, 5)), 4)
	for i := range five {
		if three[i] != five[i] && three[i] != "m-v3" {
			t.Fatal("a new candidate moved conversations among the others")
		}
	}
}

func TestACanaryStandsBehindACandidateThatIsChosenByCost(t *testing.T) {
	o := example()
	o.Models[0].Candidates[0] = Candidate{Model: "small"}
	facts := Candidate{ContextMax: 32_768, Tier: 1, Price: cost.Price{WorkerHour: 2}}
	one, two := facts, facts
	one.Model, one.Weight, two.Model, two.Weight = "small-v1", 3, "small-v2", 1
	o.Models = append(o.Models, Virtual{Name: "small", Choose: "weight", Candidates: []Candidate{one, two}}, Virtual{Name: "gpt", Candidates: []Candidate{{Model: "chat"}}})
	c := chooser(t, o)
	now := fleet{"small-v1": up("h100-8b"), "small-v2": up("h100-8b"), "large": up("h100-70b-tp4")}
	for _, name := range []string{"chat", "gpt"} {
		got := splitOf(t, c, now, 1000, func(i int) Ask {
			return Ask{Name: name, Conversation: mix(9, uint64(i)), Work: cost.Work{PromptTokens: 500}}
		})
		if got["large"] != 0 || got["small-v2"] < 200 || got["small-v2"] > 300 {
			t.Errorf("%s: %v", name, got)
		}
		if got := splitOf(t, c, now, 10, func(int) Ask { return Ask{Name: name, Work: cost.Work{PromptTokens: 90_000}} }); got["large"] != 10 {
			t.Errorf("%s: long prompts: %v", name, got)
		}
	}
}

func TestAPI03ARequestWithoutAModelMeansTheDefaultOrNothing(t *testing.T) {
	f := func(name, standard, want string) {
		t.Helper()
		o := example()
		o.Default = standard
		a := chat(1000)
		a.Name = name
		if choice, err := chooser(t, o).Choose(a, usual().look, nil); err != nil || choice.Model != want {
			t.Errorf("%q with default %q: %q (%v), want %q", name, standard, choice.Model, err, want)
		}
	}
	f("", "", "")
	f("", "chat", "small")
	f("", "large", "large")
	f("Chat", "chat", "Chat") // names are case-exact, and unknown ones are no case for the default
}
