package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// action is what a fault does.
type action string

const (
	kills    action = "kill"    // a worker process, by SIGKILL; it begins anew after a while, its cache empty
	freezes  action = "freeze"  // by SIGSTOP, then SIGCONT
	turns    action = "turn"    // a worker answers in another mode
	drains   action = "drain"   // a worker by the admin port, which then takes it back
	removes  action = "remove"  // likewise, and adds it again
	switches action = "policy"  // another policy for a while
	restarts action = "restart" // the router, by SIGTERM
	crashes  action = "crash"   // the router, by SIGKILL
	reloads  action = "reload"  // the router's configuration
	flaps    action = "flap"    // the router's file of workers, one of them missing for a while
)

// fault is one entry of the schedule.
type fault struct {
	at     time.Duration // since the start
	action action
	worker int // from 0; -1 is the router
	mode   mode
	policy string
	lasts  time.Duration
}

func (f fault) String() string {
	s := fmt.Sprintf("%8.3fs %s", f.at.Seconds(), f.action)
	if f.worker >= 0 {
		s += " " + workerName(f.worker)
	}
	return s + fmt.Sprintf(" %s%s %v", f.mode, f.policy, f.lasts)
}

// targets are how many of the workers get faults. The first ones are named in the router's settings, those from filed on in a file that it watches.
const (
	targets = 6
	filed   = 3
)

// phases are when what may go wrong, as shares of the run's time.
type phases struct {
	storm, restart, late time.Duration // faults begin; the router restarts from here, to here
	rests                []time.Duration
	total                time.Duration
}

// phasesOf gives the run's time to its parts: first no faults, so that there is something to compare with, then faults, then faults and
// restarts of the router, then faults of workers alone, over which what grows is looked for.
func phasesOf(total time.Duration) phases {
	at := func(share float64) time.Duration {
		return time.Duration(share * float64(total)).Round(time.Millisecond)
	}
	p := phases{storm: at(0.15), restart: at(0.30), late: at(0.42), total: total}
	p.rests = []time.Duration{at(0.15), at(0.45), at(0.72)}
	switch {
	case total < 30*time.Second:
		p.rests = p.rests[:2]
	case total > 2*time.Minute:
		p.rests = []time.Duration{at(0.15), at(0.30), at(0.45), at(0.55), at(0.65), at(0.75), at(0.85)}
	}
	return p
}

// schedule makes the faults of a run from its seed. rate is faults a second; can says what the router in hand knows.
func schedule(seed uint64, p phases, rate float64, can map[action]bool) []fault {
	rng := rand.New(rand.NewPCG(seed, 0xfa17))
	var all []fault
	for at := p.storm; ; {
		at += time.Duration(rng.ExpFloat64() / rate * float64(time.Second))
		if at >= p.total-time.Second {
			break
		}
		f := draw(rng, at)
		if f.action == reloads || f.action == flaps {
			if !can[f.action] {
				f.action, f.mode, f.worker = turns, blind, len(all)%targets
			}
		}
		all = append(all, f)
	}
	gap := max((p.late-p.restart)/5, 3*time.Second)
	for i, at := 0, p.restart+500*time.Millisecond; at < p.late; i, at = i+1, at+gap {
		f := fault{at: at, action: restarts, worker: -1}
		if i%3 == 1 {
			f.action = crashes
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b fault) int { return int(a.at - b.at) })
	return all
}

// draw is one fault of a worker, or of what the router knows of workers.
func draw(rng *rand.Rand, at time.Duration) fault {
	f := fault{at: at, worker: rng.IntN(targets), lasts: time.Duration(100+rng.IntN(1500)) * time.Millisecond}
	policies := []string{"round-robin", "least-tokens", "session-hash", "power-of-two", "least-prefill"}
	policy := policies[rng.IntN(len(policies))]
	good, bad := goodModes[rng.IntN(len(goodModes))], brokenModes[rng.IntN(len(brokenModes))]
	switch n := rng.IntN(100); {
	case n < 12:
		f.action = kills
	case n < 24:
		f.action = freezes
	case n < 30:
		f.action, f.mode, f.worker = turns, eventModes[f.worker%len(eventModes)], targets-1-n%2
	case n < 52:
		f.action, f.mode = turns, bad
	case n < 80:
		f.action, f.mode = turns, good
	case n < 84:
		f.action, f.worker = drains, f.worker%filed
	case n < 88:
		f.action, f.worker = removes, f.worker%filed
	case n < 91:
		f.action, f.policy, f.worker = switches, policy, -1
	case n < 95:
		f.action, f.worker = reloads, -1
	default:
		f.action, f.worker = flaps, filed+f.worker%(targets-filed)
		f.lasts += time.Second // the file is looked at a few times a second
	}
	return f
}

// slack is how long after a fault its traces may still be seen: requests that began in it, a worker that is put out for a while.
const slack = 6 * time.Second
