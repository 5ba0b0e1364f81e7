package ghost

// age has all lanes tell from now on how much of what they hold was not used since.
func (c *caches) age() {
	c.now = 1
	for n := range c.lanes {
		l := &c.lanes[n]
		l.stale = l.tokens
		for at := l.newest; at != 0; at = c.entries[at].older {
			c.entries[at].used = 0
		}
	}
}

// stale is the share of what all lanes hold that are counted that was not used since age; 0 of nothing.
func (c *caches) stale() float64 {
	var tokens, stale int64
	for n := int32(0); int(counted(n)) < len(c.lanes); n++ {
		l := &c.lanes[counted(n)]
		tokens, stale = tokens+l.tokens, stale+l.stale
	}
	return float64(stale) / float64(max(1, tokens))
}

// join moves all of a lane into another one, each piece to where it belongs by when it was used last, as if it had been there from the
// beginning. No piece may be in both.
func (c *caches) join(into, from int32) {
	l, last := &c.lanes[into], int32(0)
	for at := c.lanes[from].newest; at != 0; {
		next := c.entries[at].older
		for ahead := l.behind(c, last); ahead != 0 && c.entries[ahead].used >= c.entries[at].used; ahead = l.behind(c, last) {
			last = ahead
		}
		c.unfile(at)
		c.entries[at].lane = uint16(into)
		c.link(l, at, last)
		c.file(at)
		l.tokens += int64(c.entries[at].tokens)
		at, last = next, at
	}
	f := &c.lanes[from]
	f.newest, f.oldest, f.tokens, f.stale = 0, 0, 0, 0
}

// behind is the entry after one, the newest after 0; 0: there is none.
func (l *lane) behind(c *caches, at int32) int32 {
	if at == 0 {
		return l.newest
	}
	return c.entries[at].older
}
