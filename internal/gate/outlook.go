package gate

import (
	"github.com/warmpath/warmpath/internal/line"
	"github.com/warmpath/warmpath/internal/sched"
)

// Outlook is what Enter would do with a request that came now. Nothing is reserved, pushed or learned, and w is left as it is; policy is the one to go by, "" that in force. Without a queue nothing waits. Errors are those of Enter, or of SetPolicy.
func (g *Gate) Outlook(req sched.Request, w *Wait, policy string) (o line.Outlook, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if policy != "" {
		inForce := g.sched.Policy()
		if err := g.sched.SetPolicy(policy); err != nil {
			return o, err
		}
		defer g.sched.SetPolicy(inForce)
	}
	if g.queue == nil {
		o.Outlook, err = g.sched.Outlook(g.now(), req)
		return o, err
	}
	return g.queue.Outlook(g.now(), line.Entry{Item: w.Item, Request: &req})
}
