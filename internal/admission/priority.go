package admission

import (
	"fmt"
	"slices"
	"strings"
)

// What becomes of the priority in a body.
const (
	PriorityIgnore = "ignore" // it holds as far as its sender may, and is passed over otherwise
	PriorityRefuse = "refuse" // what its sender may not have is an error
	PriorityOff    = "off"    // it is the engine's alone
)

// Priority is what a body says of its urgency: the name of a class, else a number in vLLM's sense, lower is earlier: 0 is the sender's usual class,
// each less the next above it, each more the next below.
type Priority struct {
	Said  bool
	Class string
	Level int
}

// PriorityError says that a request asked for a class that it may not have.
type PriorityError struct {
	asked string // by which word, and what
	may   []string
	known bool   // that is a class
	by    string // the settings that change it
}

func (e *PriorityError) Error() string {
	may := "; it may ask for: " + strings.Join(e.may, ", ") + " (settings " + e.by + ")"
	switch {
	case e.known:
		return e.asked + " is more than this request may ask for" + may
	case strings.HasPrefix(e.asked, "class"):
		return e.asked + " is not known" + may
	}
	return e.asked + " is no class, nor a whole number" + may
}

// denied says why a guest has not the class that it asked for.
func (d *Desk) denied(g *Guest, asked string, known bool) *PriorityError {
	e := &PriorityError{asked: asked, may: d.classesOf(g), known: known, by: "queue.class, classes of its tenant"}
	if strings.HasPrefix(asked, "priority") {
		e.by = "queue.body_priority, classes of its tenant"
	}
	return e
}

// Ask gives a guest the class that its body asks for, if it may have it. What its header asked for goes before. The error is a *PriorityError.
func (d *Desk) Ask(g *Guest, p Priority) error {
	if !p.Said || d.rules.Load().bodyPriority == PriorityOff || g.asked {
		return nil
	}
	usual := g.Class
	class, text := slices.Index(d.o.Classes, p.Class), fmt.Sprintf("priority %.64q", p.Class)
	if p.Class == "" {
		last := len(d.o.Classes) - 1
		class, text = min(max(0, usual+min(max(-last, p.Level), last)), last), fmt.Sprint("priority ", p.Level)
	}
	if class < 0 || !d.may(g, class) {
		why := d.denied(g, text, class >= 0)
		if d.rules.Load().bodyPriority == PriorityRefuse {
			return why
		}
		g.ClassWhy = why.Error()
		if class < 0 || p.Class != "" {
			return nil
		}
		for class != usual && !d.may(g, class) { // as near to it as it may come
			class += sign(usual - class)
		}
	}
	g.Class, g.ClassName = class, d.o.Classes[class]
	return nil
}

// may says whether a request may have a class beside its usual one: with a key, what the tenant's classes name; without, less urgent ones.
func (d *Desk) may(g *Guest, class int) bool {
	if g.who == nil {
		return class >= g.Class
	}
	return class == g.Class || slices.Contains(g.who.Classes, d.o.Classes[class])
}

func (d *Desk) classesOf(g *Guest) (names []string) {
	for i, name := range d.o.Classes {
		if d.may(g, i) {
			names = append(names, name)
		}
	}
	return names
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

// Level is how a guest's class stands to the router's usual one, in vLLM's sense: 0 the same, below 0 more urgent.
func (d *Desk) Level(g *Guest) int { return g.Class - d.rules.Load().class }
