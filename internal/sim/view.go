package sim

import (
	"time"

	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/prefix"
)

// blockView is an engine's cache as its events tell of it: later than it is.
type blockView struct {
	delay  time.Duration
	blocks map[prefix.Key]struct{}
	news   []news // in order of time, from next on
	next   int
}

type news struct {
	at     time.Duration
	key    prefix.Key
	stored bool
}

func newBlockView(c *engine.Core, delay time.Duration, now func() time.Duration) *blockView {
	v := &blockView{delay: delay, blocks: make(map[prefix.Key]struct{})}
	c.OnBlock(func(key prefix.Key, stored bool) {
		v.news = append(v.news, news{now() + delay, key, stored})
	})
	return v
}

// depth takes in what has arrived by now, and tells how many leading keys are there.
func (v *blockView) depth(now time.Duration, keys []prefix.Key) int {
	for ; v.next < len(v.news) && v.news[v.next].at <= now; v.next++ {
		if n := &v.news[v.next]; n.stored {
			v.blocks[n.key] = struct{}{}
		} else {
			delete(v.blocks, n.key)
		}
	}
	if v.next > len(v.news)/2 {
		v.news = append(v.news[:0], v.news[v.next:]...)
		v.next = 0
	}
	for i, k := range keys {
		if _, ok := v.blocks[k]; !ok {
			return i
		}
	}
	return len(keys)
}
