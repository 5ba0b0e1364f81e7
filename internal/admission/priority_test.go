package admission

import (
	"errors"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/header"
)

// asks is the class that a body's priority comes to; "403" when it is refused.
func asks(t *testing.T, d *Desk, h header.Fields, p Priority) string {
	t.Helper()
	var g Guest
	if err := d.Enter(now, h, &g); err != nil {
		t.Fatal(err)
	}
	err := d.Ask(&g, p)
	var refused *PriorityError
	if errors.As(err, &refused) {
		if !strings.Contains(err.Error(), "queue.body_priority") || !strings.Contains(err.Error(), "standard") {
			t.Errorf("the error does not help: %v", err)
		}
		return "403"
	}
	if err != nil || g.ClassName != d.o.Classes[g.Class] {
		t.Fatalf("%v, %+v", err, g)
	}
	if p.Class != "" && p.Class != g.ClassName && d.rules.Load().bodyPriority != PriorityOff && !strings.HasPrefix(g.ClassWhy, `priority "`+p.Class+`" is `) {
		t.Errorf("%s instead of %s, and why is told as %q", g.ClassName, p.Class, g.ClassWhy)
	}
	return g.ClassName
}

func TestABodysPriorityHoldsAsFarAsItsSenderMayHaveTheClass(t *testing.T) {
	level := func(n int) Priority { return Priority{Said: true, Level: n} }
	class := func(name string) Priority { return Priority{Said: true, Class: name} }
	key := in("X-Api-Key", secret)
	for _, c := range []struct {
		with         string
		h            header.Fields
		p            Priority
		ignore, name string // what comes of it where the rest is passed over, and where it is refused
	}{
		{"no key", nil, Priority{}, "standard", "standard"},
		{"no key", nil, level(0), "standard", "standard"},
		{"no key", nil, level(1), "batch", "batch"},
		{"no key", nil, level(1 << 30), "batch", "batch"},
		{"no key", nil, level(-1), "standard", "403"},
		{"no key", nil, class("batch"), "batch", "batch"},
		{"no key", nil, class("interactive"), "standard", "403"},
		{"no key", nil, class("made up"), "standard", "403"},
		{"no key", in(HeaderClass, "standard"), level(5), "standard", "standard"}, // the header goes before
		{"a key", key, level(-1), "interactive", "interactive"},
		{"a key", key, level(-1 << 30), "interactive", "interactive"},
		{"a key", key, level(1), "standard", "403"},
		{"a key", key, class("interactive"), "interactive", "interactive"},
		{"a key", key, class("batch"), "standard", "403"},
	} {
		for rule, want := range map[string]string{PriorityIgnore: c.ignore, PriorityRefuse: c.name, PriorityOff: "standard", "": c.ignore} {
			d := desk(t, "")
			if c.with == "a key" {
				d = keyed(t)
			}
			d.rules.Store(&rules{d.rules.Load().class, rule})
			if got := asks(t, d, c.h, c.p); got != want && (rule != PriorityOff || got != "standard") {
				t.Errorf("%s, %v, %+v, rule %q: %s, want %s", c.with, c.h, c.p, rule, got, want)
			}
		}
	}
}

func TestAPriorityThatGoesTooFarComesAsNearAsItMay(t *testing.T) {
	d := desk(t, "")
	d.o.Classes = []string{"a", "b", "c", "d"}
	d.rules.Store(&rules{class: 2})
	if got := asks(t, d, nil, Priority{Said: true, Level: -5}); got != "c" {
		t.Errorf("without a key: %s", got)
	}
	for class, level := range map[int]int{0: -2, 2: 0, 3: 1} {
		if got := d.Level(&Guest{Class: class}); got != level {
			t.Errorf("class %d is level %d to engines, want %d", class, got, level)
		}
	}
}
