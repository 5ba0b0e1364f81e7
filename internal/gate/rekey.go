package gate

// Rekey has a worker's other credential sent to it from now on. known is false for one that is not in the fleet; else incarnation and rank
// are the worker's.
func (g *Gate) Rekey(id, key string) (incarnation uint64, rank string, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.ends[g.fleet.Lookup(id)]
	if e == nil {
		return 0, "", false
	}
	e.Key = key
	return e.Worker.Incarnation, e.Rank, true
}
