package socket

import "sync/atomic"

// Connections are counted for the whole process, because descriptors are the process's.
var (
	open atomic.Int64
	most atomic.Int64 // 0: no bound
)

func (c *Conn) count() {
	c.counted.Store(true)
	open.Add(1)
}

// Open is how many Conns of this process are not closed.
func Open() int { return int(open.Load()) }

// SetMost says how many there may be before one that is not needed now had better be closed; 0 is no bound.
func SetMost(n int) { most.Store(int64(n)) }

// Crowded says that there are so many.
func (c *Conn) Crowded() bool {
	n := most.Load()
	return n > 0 && open.Load() >= n
}
