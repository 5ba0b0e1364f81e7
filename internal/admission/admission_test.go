package admission

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/header"
	"github.com/warmpath/warmpath/internal/tenant"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func desk(t *testing.T, tenants string) *Desk {
	t.Helper()
	o := Options{Classes: []string{"interactive", "standard", "batch"}, Class: "standard", TenantHeader: "X-Tenant-Id", TenantsBytesMax: 4}
	if tenants != "" {
		table, err := tenant.Parse("tenants.yaml", []byte(tenants))
		if err != nil {
			t.Fatal(err)
		}
		o.Tenants = table
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func in(fields ...string) (h header.Fields) {
	for i := 0; i < len(fields); i += 2 {
		h = append(h, header.Field{Name: fields[i], Value: fields[i+1]})
	}
	return h
}

const secret = "wp-0123456789abcdef0123456789abcdef"

func keyed(t *testing.T) *Desk {
	t.Helper()
	digest, err := tenant.Hash(secret)
	if err != nil {
		t.Fatal(err)
	}
	return desk(t, "tenants:\n  - name: search\n    keys: [\""+digest.String()+"\"]\n    class: standard\n    classes: [interactive]\n    models: [chat]\n    weight: 2\n    in_flight: 1\n")
}

func TestWithoutKeysAClientMayAskForLessButNotForMore(t *testing.T) {
	d := desk(t, "")
	for asked, want := range map[string]int{"": 1, "batch": 2, "interactive": 1, "other": 1} {
		var g Guest
		if err := d.Enter(now, in(HeaderClass, asked, "X-Tenant-Id", "longer"), &g); err != nil || g.Class != want || g.Tenant != "long" || g.Known {
			t.Errorf("%q: %+v, %v; want class %d", asked, g, err, want)
		}
		why := map[string]string{"interactive": `class "interactive" is more than this request may ask for; it may ask for: standard, batch (settings queue.class, classes of its tenant)`,
			"other": `class "other" is not known; it may ask for: standard, batch (settings queue.class, classes of its tenant)`}[asked]
		if g.ClassWhy != why {
			t.Errorf("%q: it is told %q", asked, g.ClassWhy)
		}
	}
}

func TestSEC07WithKeysNothingThatAClientWritesGivesItAnotherShare(t *testing.T) {
	d := keyed(t)
	var g Guest
	if err := d.Enter(now, in("Authorization", "Bearer "+secret, "X-Tenant-Id", "other", HeaderClass, "batch"), &g); err != nil || g.Tenant != "search" || g.Weight != 2 || g.Class != 1 || !g.Known {
		t.Errorf("%+v, %v", g, err)
	}
	if err := d.Enter(now, in("X-Api-Key", secret, HeaderClass, "interactive"), &g); err != nil || g.Class != 0 {
		t.Errorf("a class that the tenant may ask for: %+v, %v", g, err)
	}
}

func TestAUT01AKeyThatIsWrongIsToldNothingOfTheRightOnes(t *testing.T) {
	d := keyed(t)
	var g Guest
	for name, h := range map[string]header.Fields{
		"wrong": in("Authorization", "Bearer "+secret+"x"), "another scheme": in("Authorization", "Basic "+secret), "no scheme": in("Authorization", secret),
		"too long": in("X-Api-Key", strings.Repeat("a", 1<<16)), "a line break": in("X-Api-Key", secret+"\r\n"),
	} {
		if err := d.Enter(now, h, &g); !errors.Is(err, tenant.ErrKey) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.Enter(now, nil, &g); !errors.Is(err, tenant.ErrNoKey) {
		t.Errorf("none: %v", err)
	}
}

func TestLimitsAreTakenBeforeARequestRunsAndGivenBackWhenItDidNot(t *testing.T) {
	d := keyed(t)
	var one, two Guest
	for _, g := range []*Guest{&one, &two} {
		if err := d.Enter(now, in("X-Api-Key", secret), g); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Begin(now, &one, "other", tenant.Use{}); !errors.Is(err, ErrModel) {
		t.Errorf("a model that is not for it: %v", err)
	}
	if err := d.Begin(now, &one, "chat", tenant.Use{Tokens: 5}); err != nil {
		t.Fatal(err)
	}
	if err := d.Begin(now, &one, "chat-fallback", tenant.Use{Tokens: 5}); err != nil || d.Stats(now)[0].InFlight != 1 {
		t.Errorf("a request that is in and tried with another model: %v, %+v", err, d.Stats(now))
	}
	var r *tenant.Refusal
	if err := d.Begin(now, &two, "chat", tenant.Use{}); !errors.As(err, &r) || r.Limit != "in_flight" {
		t.Errorf("%v", err)
	}
	d.End(now, &two, false, tenant.Use{}) // it never began
	d.End(now, &one, false, tenant.Use{})
	if err := d.Begin(now, &two, "chat", tenant.Use{}); err != nil {
		t.Error(err)
	}
	d.End(now, &two, true, tenant.Use{Tokens: 7})
	if s := d.Stats(now); len(s) != 1 || s[0].InFlight != 0 || s[0].TokensLastMinute != 7 || s[0].RequestsLastMinute != 1 {
		t.Errorf("%+v", s)
	}
}

func TestATimeoutIsAWholeNumberOfMilliseconds(t *testing.T) {
	d := desk(t, "")
	for text, want := range map[string]time.Duration{"": 0, "250": 250 * time.Millisecond, "99999999999": 0} {
		var g Guest
		if err := d.Enter(now, in(HeaderTimeout, text), &g); err != nil || g.Timeout != want {
			t.Errorf("%q: %v, %v", text, g.Timeout, err)
		}
	}
	for _, text := range []string{"0", "-1", "1.5", "soon", "99999999999999999999"} {
		var g Guest
		if err := d.Enter(now, in(HeaderTimeout, text), &g); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}

func TestClassesThatAreNotThereAreRefused(t *testing.T) {
	if _, err := New(Options{Classes: []string{"a"}, Class: "b"}); err == nil {
		t.Error("a class that is not there is taken for the usual one")
	}
}

func TestOtherOptionsHoldFromTheNextRequestOnAndBadOnesChangeNothing(t *testing.T) {
	d := desk(t, "")
	o := d.o
	o.Class, o.BodyPriority = "batch", PriorityRefuse
	if err := d.Use(now, o); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []Options{{Class: "none"}, {Class: "standard", Tenants: keyed(t).o.Tenants}} {
		if err := d.Use(now, bad); err == nil || !strings.Contains(err.Error(), "setting") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	var g Guest
	if err := d.Enter(now, nil, &g); err != nil || g.ClassName != "batch" || d.Ask(&g, Priority{Said: true, Level: -1}) == nil {
		t.Errorf("%v, %+v", err, g)
	}
}
