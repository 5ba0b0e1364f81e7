package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Of a soak: how long it looks for what the router can do, with how many clients at once, what share of that it then asks for, and from which
// number on its requests are, so that they are the same whatever was found.
const (
	probeTime    = 15 * time.Second
	probeClients = 256
	soakShare    = 0.6
	soakFrom     = 1_000_000
)

// soak is hours made short: a steady share of what router and workers can do, clients that leave, workers that come, go, freeze and begin anew. Nothing
// may grow, and the end may not be slower than the start.
func (s *suite) soak() error {
	most := s.saturation()
	s.o.rate = soakShare * most
	s.judge.sit(false)
	fmt.Fprintf(s.o.out, "saturated at %.0f requests/s; %v at %.0f\n", most, s.o.total, s.o.rate)
	plan := soakFaults(schedule(s.o.seed, phases{total: s.o.total}, s.o.faults/4, s.router.can))
	if err := s.keeper.schedule(plan); err != nil {
		return err
	}
	s.number = soakFrom
	began := time.Now()
	stop := s.sampling(s.o.total / samplesAll)
	s.segment(0, s.o.total, plan)
	samples := stop()
	s.rest()
	s.judge.sit(true)
	s.minutes(began, samples)
	s.flat(samples)
	fifth := s.o.total / 5
	first, nf := s.judge.calm(func(at time.Time) bool { return !at.Before(began) && at.Before(began.Add(fifth)) })
	last, nl := s.judge.calm(func(at time.Time) bool { return !at.Before(began.Add(s.o.total - fifth)) })
	fmt.Fprintf(s.o.out, "requests that no fault concerns: p99 %v in the first fifth (%d), %v in the last (%d), %.2f times as long\n", first, nf, last, nl, float64(last)/float64(max(first, 1)))
	if float64(last) > soakSlowerMax*float64(first) {
		s.keeper.anomaly(anomaly{what: fmt.Sprintf("the end is slower than the start: p99 %v, %v before", last, first)})
	}
	return nil
}

// soakSlowerMax is what the end may be of the start's p99.
const soakSlowerMax = 1.1

// saturation is how many requests a second come to their end when as many are asked for as can be: the same mixture as later, but for those whose
// clients do nothing but wait to be given up.
func (s *suite) saturation() float64 {
	var number, done atomic.Int64
	var all sync.WaitGroup
	until := time.Now().Add(probeTime)
	for range probeClients {
		all.Go(func() {
			for time.Now().Before(until) {
				n := int(number.Add(1))
				r := plan(s.o.seed, n, 1)
				if r.kind == crawls {
					continue
				}
				s.judge.issue(n)
				done.Add(1)
				s.clients.do(r, func(res *result) {
					s.requests.Add(1)
					s.judge.end(res)
				})
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / probeTime.Seconds()
}

// soakFaults leaves of a schedule what comes and goes, without answers that are broken on purpose and without restarts of the router, over which
// nothing could be compared.
func soakFaults(all []fault) (some []fault) {
	for _, f := range all {
		switch f.action {
		case kills, freezes, drains, removes, switches, reloads, flaps:
			some = append(some, f)
		}
	}
	return some
}

// sample is the router at a moment, and what else the machine did until then.
type sample struct {
	size
	own, busy float64 // seconds of processors: of the suite itself, and of all that runs here
}

// measure is a sample of now.
func (s *suite) measure() (z sample, err error) {
	if z.size, err = s.router.size(); err != nil {
		return z, err
	}
	var own syscall.Rusage
	if err = syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return z, err
	}
	z.own = time.Duration(own.Utime.Nano() + own.Stime.Nano()).Seconds()
	z.busy, err = machineBusy()
	return z, err
}

// machineBusy is the seconds that all processors of the machine worked so far, or were taken by other machines on the same hardware (proc_stat(5)).
func machineBusy() (seconds float64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(first) {
		if idle := i == 4 || i == 5; i == 0 || i > 8 || idle {
			continue
		}
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		seconds += ticks / 100 // USER_HZ
	}
	return seconds, nil
}

// minutes prints the soak minute by minute: whether something grew, and whether the machine was the router's own meanwhile.
func (s *suite) minutes(began time.Time, samples []sample) {
	fmt.Fprintf(s.o.out, "%6s %9s %9s %9s %10s %6s %8s %8s %8s\n", "minute", "requests", "p99", "resident", "goroutines", "files", "router", "suite", "machine")
	for from := began; len(samples) > 1; from = from.Add(time.Minute) {
		until := from.Add(time.Minute)
		n := slices.IndexFunc(samples, func(z sample) bool { return !z.at.Before(until) })
		if n < 0 {
			n = len(samples) - 1
		}
		a, b := samples[0], samples[max(n, 1)]
		p99, calm := s.judge.calm(func(at time.Time) bool { return !at.Before(from) && at.Before(until) })
		cores := func(of func(sample) float64) float64 { return (of(b) - of(a)) / b.at.Sub(a.at).Seconds() }
		fmt.Fprintf(s.o.out, "%6.0f %9d %9v %6.1f MB %10.0f %6.0f %8.2f %8.2f %8.2f\n", until.Sub(began).Minutes(), calm, p99, b.resident/1e6, b.goroutines, b.files,
			cores(func(z sample) float64 { return z.cpu }), cores(func(z sample) float64 { return z.own }), cores(func(z sample) float64 { return z.busy }))
		samples = samples[max(n, 1):]
	}
}

// sampling measures the router every so often, until the function that it returns is called.
func (s *suite) sampling(every time.Duration) (stop func() []sample) {
	var samples []sample
	ended := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if z, err := s.measure(); err == nil {
					samples = append(samples, z)
				}
			case <-ended:
				return
			}
		}
	})
	return func() []sample {
		close(ended)
		all.Wait()
		return samples
	}
}

// How often the router is measured in all, and of how many measurements in a row the least counts: load comes in waves, what leaks raises their floor.
const (
	samplesAll  = 120
	samplesEach = 6
)

// What slopes may come to over a whole soak: noise, as a share of the mean, and a little besides.
const (
	flatShare     = 0.1
	flatBytes     = 8e6
	flatRoutines  = 20
	soakWarmShare = 6 // of the samples, one in so many at the start is not looked at: caches fill up
)

// flat prints how the router grew, and looks for what did not stay as it was.
func (s *suite) flat(all []sample) {
	var samples []size
	for _, z := range all {
		samples = append(samples, z.size)
	}
	samples = samples[len(samples)/soakWarmShare:]
	if len(samples) < 3*samplesEach {
		return
	}
	minutes := samples[len(samples)-1].at.Sub(samples[0].at).Minutes()
	for _, g := range []struct {
		what, unit string
		of         func(size) float64
		noise      float64
	}{
		{"resident memory", "MB", func(z size) float64 { return z.resident / 1e6 }, flatBytes / 1e6},
		{"heap", "MB", func(z size) float64 { return z.heap / 1e6 }, flatBytes / 1e6},
		{"goroutines", "", func(z size) float64 { return z.goroutines }, flatRoutines},
		{"open files", "", func(z size) float64 { return z.files }, flatRoutines},
	} {
		floor := lowest(samples, g.of)
		mean := 0.0
		for _, z := range floor {
			mean += g.of(z) / float64(len(floor))
		}
		grows := slope(floor, g.of)
		fmt.Fprintf(s.o.out, "slope of %s: %+.3f %s a minute, mean %.1f, over %.1f minutes, the least of each %d of %d samples\n", g.what, grows, g.unit, mean, minutes, samplesEach, len(samples))
		if grows*minutes > flatShare*mean+g.noise {
			s.keeper.anomaly(anomaly{what: fmt.Sprintf("%s grow by %.3f %s a minute", g.what, grows, g.unit)})
		}
	}
}

// lowest is of each few samples in a row the one with the least value.
func lowest(samples []size, of func(size) float64) (out []size) {
	for few := range slices.Chunk(samples, samplesEach) {
		out = append(out, slices.MinFunc(few, func(a, b size) int { return cmp.Compare(of(a), of(b)) }))
	}
	return out
}
