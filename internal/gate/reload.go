package gate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/pools"
	"github.com/warmpath/warmpath/internal/room"
	"github.com/warmpath/warmpath/internal/upstream"
)

// Settings are all that a gate goes by and that may change while it runs.
type Settings struct {
	Policy string // "" stays as it is
	Fleet  fleet.Options
	Room   room.Limits
	Queue  *QueueOptions       // nil where there is no queue; that there is one, and its classes' names, cannot change
	Pools  *pools.Set          // nil: every worker may take every request
	Labels map[string][]string // of workers that have others from now on, by id
	Prices func(model string) cost.Price
	Dial   *upstream.Options // nil stays as it is; else every worker is reached anew for the requests that come
}

// Use goes by other settings from the next decision on, all of them at once; on an error the old ones stay. What is known of workers, what is
// under way and what waits stays as it is.
func (g *Gate) Use(s Settings) error {
	unused, err := g.use(s)
	for _, c := range unused {
		c.Close()
	}
	return err
}

// use returns the clients that are out of use.
func (g *Gate) use(s Settings) (unused []upstream.Client, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next, err := g.redialled(s.Dial)
	if err == nil && (s.Queue != nil) != (g.queue != nil) {
		err = errors.New("whether requests wait here changes with a restart only (setting queue.enabled)")
	}
	before := g.sched.Policy()
	if err == nil && s.Policy != "" {
		err = g.sched.SetPolicy(s.Policy)
	}
	if err == nil && s.Queue != nil {
		if err = g.queue.Reload(*s.Queue); err != nil {
			_ = g.sched.SetPolicy(before) // it was in force
		}
	}
	if err != nil {
		return slices.Collect(maps.Values(next)), err
	}
	g.fleet.Use(s.Fleet)
	g.sched.SetRoom(s.Room)
	g.casts.UsePrices(s.Prices)
	for id, labels := range s.Labels {
		if w := g.fleet.Lookup(id); w != nil {
			g.usher.Admit(w, labels)
		}
	}
	g.usePools(s.Pools)
	if s.Dial != nil {
		g.dial = *s.Dial
	}
	for w, c := range next {
		to := *g.ends[w]
		unused, to.Client = append(unused, to.Client), c
		g.ends[w] = &to
	}
	g.pump()
	return unused, nil
}

// redialled are clients for all workers by other options, which have no connection yet; nil: none. It is called with mu held.
func (g *Gate) redialled(o *upstream.Options) (map[*fleet.Worker]upstream.Client, error) {
	if o == nil {
		return nil, nil
	}
	next := map[*fleet.Worker]upstream.Client{}
	for w := range g.ends {
		address, _, _ := strings.Cut(w.URL, rankMark)
		c, err := upstream.New(address, *o)
		if err != nil {
			return next, err
		}
		next[w] = c
	}
	return next, nil
}

// Adjust changes what a worker may have in flight (0: what is usual) while it goes on as it is.
func (g *Gate) Adjust(id string, inFlightMax int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.fleet.Lookup(id)
	if w == nil {
		return fmt.Errorf("no worker %q in the fleet", id)
	}
	w.SetInFlightMax(inFlightMax)
	g.pump()
	return nil
}
