package gate

import "github.com/warmpath/warmpath/internal/sched"

// Lesson is what a finished request teaches.
type Lesson = sched.Lesson

// Learn takes what a finished request teaches. It is called after Release.
func (g *Gate) Learn(a *Attempt, l Lesson) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sched.Learn(&a.course, l)
}
