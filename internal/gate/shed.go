package gate

// ShedIndex gives up the older half of what workers are assumed to hold, and returns the bytes of memory that came free. Requests wait
// for it: some tenths of a second where millions of blocks are known.
func (g *Gate) ShedIndex() (freed int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.index.Shed()
}

// RestoreIndex has the index grow to its bound again.
func (g *Gate) RestoreIndex() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.index.Restore()
}

// Lengths is how many models and tenants have lengths of answers of their own.
func (g *Gate) Lengths() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.outputs.Len()
}

// Use is how many entries there are, and how many there may be.
func (o *Owners) Use() (n, most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.young) + len(o.old), 2 * o.half
}
