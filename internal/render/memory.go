package render

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/prefix"
)

// memory remembers tokens within a bound of bytes, in two generations: what is not asked for while half of it fills is forgotten. Its
// owner has the lock.
type memory struct {
	max        int
	young, old map[prefix.Key][]uint32
	bytes      int // of young
	oldBytes   int // of old, those that were asked for since included
}

func newMemory(max int) memory {
	return memory{max: max, young: map[prefix.Key][]uint32{}, old: map[prefix.Key][]uint32{}}
}

// entryBytes is what an entry costs beside its tokens.
const entryBytes = 96

func (m *memory) get(key prefix.Key) []uint32 {
	if ids, ok := m.young[key]; ok {
		return ids
	}
	ids, ok := m.old[key]
	if ok {
		delete(m.old, key)
		m.put(key, ids)
	}
	return ids
}

func (m *memory) put(key prefix.Key, ids []uint32) {
	cost := entryBytes + 4*cap(ids)
	if cost > m.max/2 {
		return
	}
	if m.bytes+cost > m.max/2 {
		m.old, m.oldBytes, m.young, m.bytes = m.young, m.bytes, map[prefix.Key][]uint32{}, 0
	}
	m.young[key] = ids
	m.bytes += cost
}

// circuit keeps questions away from an engine that does not answer them in time.
type circuit struct {
	mu    sync.Mutex
	bads  int           // in a row
	until time.Time     // no question before
	wait  time.Duration // the next one
}

// A circuit opens after so many bad answers in a row, for a while that doubles from circuitFirst to circuitLongest. Then one question is
// tried.
const (
	circuitBads    = 3
	circuitFirst   = time.Second
	circuitLongest = time.Minute
)

func (c *circuit) allows(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.until) {
		return false
	}
	if c.bads >= circuitBads {
		c.until = now.Add(c.wait) // until its answer is here, or as long again
	}
	return true
}

func (c *circuit) good() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bads, c.until, c.wait = 0, time.Time{}, 0
}

func (c *circuit) bad(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bads++; c.bads >= circuitBads {
		c.wait = min(max(2*c.wait, circuitFirst), circuitLongest)
		c.until = now.Add(c.wait)
	}
}
