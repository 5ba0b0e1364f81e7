package sweep

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/sim"
)

// RegretHorizon is how long after a choice its consequences are followed, in virtual time.
const RegretHorizon = 2 * time.Minute

// Regret is one choice held against all others from the same state: request-seconds of everybody over RegretHorizon.
type Regret struct {
	Request int // counted from 0 as placed
	Chosen  int // worker
	Best    int
	// Lost is what the choice cost beyond the best one's, in request-seconds; 0 where it was the best.
	Lost time.Duration
	// Ahead is what the choice saved against the mean of the others.
	Ahead time.Duration
}

// Regrets samples choices of a run that is done and replays each with every worker instead. Whatever follows is decided by the policy
// again, so a difference is the choice's own and its consequences'.
func Regrets(ctx context.Context, r *Run, samples int) ([]Regret, error) {
	chance := rand.New(rand.NewPCG(r.Config.Seed, 0x726567726574))
	chosen := chance.Perm(r.Result.Placed)
	chosen = chosen[:min(samples, len(chosen))]
	slices.Sort(chosen)
	workers := len(r.Config.Fleet)
	results := make([][]*sim.Result, len(chosen))
	var runs []*Run
	for i, request := range chosen {
		results[i] = make([]*sim.Result, workers+1)
		for w := range workers + 1 {
			c := r.Config
			c.Progress = nil
			c.Force = &sim.Force{Request: request, Worker: w - 1, Horizon: RegretHorizon}
			runs = append(runs, &Run{Config: c, Point: i, bounds: new(shared), free: true})
		}
	}
	err := Do(ctx, runs, 0, func(x *Run) {
		results[x.Point][x.Config.Force.Worker+1] = x.Result
	})
	if err != nil {
		return nil, err
	}
	var all []Regret
	for i, request := range chosen {
		own := results[i][0]
		one := Regret{Request: request, Chosen: own.Chosen, Best: own.Chosen}
		best, sum, others := own.Waited, time.Duration(0), 0
		for w, x := range results[i][1:] {
			if w == own.Chosen || x.Refused > own.Refused {
				continue
			}
			sum += x.Waited
			others++
			if x.Waited < best {
				best, one.Best = x.Waited, w
			}
		}
		one.Lost = own.Waited - best
		if others > 0 {
			one.Ahead = sum/time.Duration(others) - own.Waited
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b Regret) int { return cmp.Compare(b.Lost, a.Lost) })
	return all, nil
}
