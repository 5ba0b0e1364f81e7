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
	tried := make([]trial, len(chosen))
	var runs []*Run
	for i, request := range chosen {
		tried[i] = trial{waited: make([]time.Duration, workers+1), refused: make([]int, workers+1)}
		for w := range workers + 1 {
			for seed := range regretSeeds {
				c := r.Config
				c.Force = &sim.Force{Request: request, Worker: w - 1, Horizon: RegretHorizon, Seed: chanceOf(request, seed)}
				runs = append(runs, NewRun(i, c))
			}
		}
	}
	err := Do(ctx, runs, 0, func(x *Run) { tried[x.Point].add(x) })
	if err != nil {
		return nil, err
	}
	all := make([]Regret, len(chosen))
	for i, request := range chosen {
		all[i] = tried[i].regret(request)
	}
	slices.SortStableFunc(all, func(a, b Regret) int { return cmp.Compare(b.Lost, a.Lost) })
	return all, nil
}

// regretSeeds is how many futures each alternative is followed into. All alternatives of a choice meet the same ones.
const regretSeeds = 3

func chanceOf(request, seed int) uint64 { return uint64(request)<<8 | uint64(seed) }

// trial is one choice and its alternatives: by worker + 1, the policy's own in front, sums over the futures.
type trial struct {
	waited  []time.Duration
	refused []int
	chosen  int
}

func (t *trial) add(x *Run) {
	i := x.Config.Force.Worker + 1
	t.waited[i] += x.Result.Waited
	t.refused[i] += x.Result.Refused
	if i == 0 {
		t.chosen = x.Result.Chosen
	}
}

func (t *trial) regret(request int) Regret {
	one := Regret{Request: request, Chosen: t.chosen, Best: t.chosen}
	own := t.waited[0]
	best, sum, others := own, time.Duration(0), 0
	for w, waited := range t.waited[1:] {
		if w == t.chosen || t.refused[w+1] > t.refused[0] {
			continue
		}
		sum += waited
		others++
		if waited < best {
			best, one.Best = waited, w
		}
	}
	one.Lost = (own - best) / regretSeeds
	if others > 0 {
		one.Ahead = (sum/time.Duration(others) - own) / regretSeeds
	}
	return one
}
