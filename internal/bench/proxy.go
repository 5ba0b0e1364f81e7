package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

const (
	smallBytes = 600
	largeBytes = 431_000

	saturatedConns = 32
	pacedConns     = 50
	pacedPerSecond = 1000

	shareLeast = 0.4 // of the requests, for the worker of two that got fewer

	cpuOfNginxMost  = 1.6
	cpuOfRivalMost  = 0.35
	addedPacedMost  = 250.0 // us at the median
	addedLargeMost  = 1.0   // ms at the median
	largeWindowPart = 0.75  // of a window, for bodies that are asked for one at a time
)

// measured is what one contestant showed in one section, a value a round.
type measured struct {
	name                     string
	rate, cpu, p50, p99      []float64 // 1/s, us a request, us, us
	memory                   []float64 // MB
	mallocs, bytes, leastPut []float64 // a request; the share of the worker that got fewer
}

// runs measures every contestant once a round.
func (f *field) runs(ctx context.Context, o Options, what string, run func(*contestant) (outcome, error)) (map[string]*measured, []string, error) {
	results, order := map[string]*measured{}, []string{}
	for _, c := range f.all {
		results[c.name] = &measured{name: c.name}
		order = append(order, c.name)
	}
	for round := range o.Rounds {
		for _, c := range f.turn(round) {
			fmt.Fprintf(o.Progress, "%s, round %d of %d: %s\n", what, round+1, o.Rounds, c.name)
			if err := f.measure(c, results[c.name], run); err != nil {
				return nil, nil, fmt.Errorf("%s: %s: %w", what, c.name, err)
			}
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
		}
	}
	return results, order, nil
}

func (f *field) measure(c *contestant, m *measured, run func(*contestant) (outcome, error)) error {
	before, err := f.workers.served()
	if err != nil {
		return err
	}
	var count, bytes float64
	if c.admin != "" {
		count, bytes = c.mallocs()
	}
	cpu := c.proc.CPU()
	got, err := run(c)
	if err == nil {
		err = got.err
	}
	if err != nil {
		return err
	}
	n := float64(got.requests)
	m.cpu = append(m.cpu, microseconds(c.proc.CPU()-cpu)/n)
	if c.admin != "" {
		countAfter, bytesAfter := c.mallocs()
		m.mallocs, m.bytes = append(m.mallocs, (countAfter-count)/n), append(m.bytes, (bytesAfter-bytes)/n)
	}
	m.rate = append(m.rate, n/got.elapsed.Seconds())
	m.p50 = append(m.p50, microseconds(Quantile(got.latencies, 0.5)))
	m.p99 = append(m.p99, microseconds(Quantile(got.latencies, 0.99)))
	m.memory = append(m.memory, float64(c.proc.Memory())/1e6)
	after, err := f.workers.served()
	if err != nil {
		return err
	}
	total := 0
	for i := range after {
		after[i] -= before[i]
		total += after[i]
	}
	m.leastPut = append(m.leastPut, float64(slices.Min(after))/float64(max(1, total)))
	return nil
}

// Proxy measures whole requests that are answered at once: CPU a request at saturation, latency added at a fixed rate, and with long bodies.
func Proxy(ctx context.Context, o Options) (Report, error) {
	o = o.WithDefaults()
	report := Report{Part: "proxy"}
	for _, section := range []func(context.Context, Options, *field) (Section, error){saturated, atFixedRate, longBodies} {
		f, err := startField(ctx, o, nameNginx, "HAProxy", nameOurs) // anew: what was learned of workers under one load is wrong under another
		if err != nil {
			return report, err
		}
		s, err := section(ctx, o, f)
		f.stop()
		if err != nil {
			return report, err
		}
		report.Sections = append(report.Sections, s)
	}
	return report, nil
}

// Profile saturates the router alone, as saturated does, and has its CPU profile written into o.Pprof.
func Profile(ctx context.Context, o Options) (Report, error) {
	o = o.WithDefaults()
	f, err := startField(ctx, o, nameOurs)
	if err != nil {
		return Report{}, err
	}
	defer f.stop()
	ours := f.all[len(f.all)-1]
	l := load{addr: ours.proc.Addr, conns: saturatedConns, bodies: newBodies(2, smallBytes, false), serial: new(atomic.Uint64)}
	l.closed(ctx, o.Window/4) // until it has its memory
	wait := ours.profile(o, "saturated", int(o.Window.Seconds()))
	got := l.closed(ctx, o.Window)
	s := Section{Name: "saturated", Method: fmt.Sprintf("the router alone, %d connections in a closed loop for %v", saturatedConns, o.Window),
		Columns: []string{"requests/s"}, Rows: []Row{{nameOurs, []Value{Value(float64(got.requests) / got.elapsed.Seconds())}}}}
	return Report{Part: "profile", Sections: []Section{s}}, errors.Join(wait(), got.err, ctx.Err())
}

func saturated(ctx context.Context, o Options, f *field) (Section, error) {
	small, serial := newBodies(2, smallBytes, false), new(atomic.Uint64)
	results, order, err := f.runs(ctx, o, "saturated", func(c *contestant) (outcome, error) {
		wait := c.profile(o, "saturated", int(o.Window.Seconds()))
		got := load{addr: c.proc.Addr, conns: saturatedConns, bodies: small, serial: serial}.closed(ctx, o.Window)
		return got, wait()
	})
	if err != nil {
		return Section{}, err
	}
	s := Section{Name: "saturated",
		Method: fmt.Sprintf("%d connections ask in a closed loop, %d-byte chats, all distinct, one third share one of %d prefixes; two workers answer at once; median of %d rounds of %v, contestants in turn",
			saturatedConns, smallBytes, prefixesShared, o.Rounds, o.Window),
		Columns: []string{"requests/s", "CPU us a request", "p50 us", "p99 us", "allocations", "bytes allocated", "RSS MB", "least share"}}
	for _, name := range order {
		m := results[name]
		row := Row{Contestant: name}
		for _, v := range [][]float64{m.rate, m.cpu, m.p50, m.p99, m.mallocs, m.bytes, m.memory, m.leastPut} {
			row.Values = append(row.Values, Value(Median(v)))
		}
		s.Rows = append(s.Rows, row)
	}
	ours := results[nameOurs]
	s.Checks = append(s.Checks, Most("CPU a request, of nginx's", Median(rounds(ours.cpu, results[nameNginx].cpu, ratio)), cpuOfNginxMost, "x"))
	if best := bestRival(results); best != nil {
		s.Checks = append(s.Checks, Most("CPU a request, of that of "+best.name, Median(rounds(ours.cpu, best.cpu, ratio)), cpuOfRivalMost, "x"))
	}
	s.Checks = append(s.Checks, least("share of the worker that got fewer", Median(ours.leastPut), shareLeast, ""))
	return s, nil
}

// bestRival is the rival that uses the least CPU a request where it routes by prefix as we do; nil without rivals.
func bestRival(results map[string]*measured) (best *measured) {
	for _, r := range rivals {
		if m := results[r.name+" "+cacheAware]; m != nil && (best == nil || Median(m.cpu) < Median(best.cpu)) {
			best = m
		}
	}
	return best
}

// added is the section of latencies beyond those without a proxy.
func added(results map[string]*measured, order []string, unit string, scale float64) (s Section) {
	s.Columns = []string{"p50 " + unit, "p99 " + unit, "added p50 " + unit, "CPU us a request", "allocations", "least share"}
	direct := results[nameDirect]
	for _, name := range order {
		m := results[name]
		s.Rows = append(s.Rows, Row{name, []Value{Value(Median(m.p50) / scale), Value(Median(m.p99) / scale),
			Value(Median(rounds(m.p50, direct.p50, less)) / scale), Value(Median(m.cpu)), Value(Median(m.mallocs)), Value(Median(m.leastPut))}})
	}
	return s
}

func atFixedRate(ctx context.Context, o Options, f *field) (Section, error) {
	small, serial := newBodies(3, smallBytes, false), new(atomic.Uint64)
	results, order, err := f.runs(ctx, o, "fixed rate", func(c *contestant) (outcome, error) {
		return load{addr: c.proc.Addr, conns: pacedConns, bodies: small, serial: serial}.paced(ctx, o.Window, pacedPerSecond), nil
	})
	if err != nil {
		return Section{}, err
	}
	s := added(results, order, "us", 1)
	s.Name = "fixed rate"
	s.Method = fmt.Sprintf("%d requests/s over %d connections, each at its own times, %d-byte chats as before; latency to the last byte, added is beyond no proxy in the same round; median of %d rounds of %v",
		pacedPerSecond, pacedConns, smallBytes, o.Rounds, o.Window)
	ours := results[nameOurs]
	s.Checks = append(s.Checks, Most("latency added at the median", Median(rounds(ours.p50, results[nameDirect].p50, less)), addedPacedMost, "us"),
		least("share of the worker that got fewer", Median(ours.leastPut), shareLeast, ""))
	return s, nil
}

func longBodies(ctx context.Context, o Options, f *field) (Section, error) {
	large, serial := newBodies(4, largeBytes, false), new(atomic.Uint64)
	window := time.Duration(largeWindowPart * float64(o.Window))
	results, order, err := f.runs(ctx, o, "long bodies", func(c *contestant) (outcome, error) {
		return load{addr: c.proc.Addr, conns: 1, bodies: large, serial: serial}.closed(ctx, window), nil
	})
	if err != nil {
		return Section{}, err
	}
	s := added(results, order, "ms", 1000)
	s.Name = "long bodies"
	s.Method = fmt.Sprintf("one connection asks in a closed loop, chats of %d KB in messages of %d KB, all distinct, one third share a prefix of half their length; median of %d rounds of %v",
		largeBytes/1000, messageBytes>>10, o.Rounds, window)
	ours := results[nameOurs]
	s.Checks = append(s.Checks, Most("latency added at the median", Median(rounds(ours.p50, results[nameDirect].p50, less))/1000, addedLargeMost, "ms"),
		least("share of the worker that got fewer", Median(ours.leastPut), shareLeast, ""))
	return s, nil
}
