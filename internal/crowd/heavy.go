package crowd

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/flow"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/traces"
)

// What heavy jobs may do to chats, and what chats may do to them.
const (
	chatsSlower = 1.3
	jobsSlower  = 1.5
)

// heavy sends ten prompts of about 100,000 tokens a minute among chats that alone make 55 % load, on eight workers.
func (s *show) heavy() error {
	jobs := asks("heavy", "bursts:requests=100000,burst=1,prompt=100000,output=200,rate=0.16667")
	if err := s.among("one-shot chats", oneShots("chat", 0.55*carries), jobs, false); err != nil {
		return err
	}
	// h100-8b:8 carries about 33 such conversations a second. The jobs take two workers' time whatever becomes of the chats, and on the six
	// that remain conversations find less of theirs in the caches: computing it anew triples the p99 gap without any job, so that gaps are held
	// against that.
	return s.among("conversations", asks("chat", "chats:chats=200000,turns=5,system=1000,question=300,output=250,think=15,rate=18"), jobs, true)
}

// variants are the queue's mechanisms, each alone and at last all together.
func (s *show) variants() (names []string, queues []*sim.Queue) {
	shortest, fair, lanes, all := s.plain(), s.plain(), s.plain(), s.usual
	for i := range shortest.Classes {
		shortest.Classes[i].Order = flow.Shortest
	}
	fair.Alike = false
	lanes.Heavy = s.usual.Heavy
	return []string{"no queue here", "first come, first served", "shortest first alone", "fair shares alone", "heavy lanes alone", "all of it"},
		[]*sim.Queue{nil, s.plain(), shortest, fair, lanes, &all}
}

func (s *show) among(name string, chats, jobs traces.Part, cached bool) error {
	one := func(fleet string, q *sim.Queue, parts ...traces.Part) (*sim.Result, error) {
		return s.play(scene{fleet: fleet, parts: parts, queue: q, spans: 5 * time.Minute})
	}
	var base, fewer, own *sim.Result
	for _, x := range []struct {
		to    **sim.Result
		fleet string
		part  traces.Part
	}{{&base, "h100-8b:8", chats}, {&fewer, "h100-8b:6", chats}, {&own, "h100-8b:2", jobs}} {
		r, err := one(x.fleet, &s.usual, x.part)
		if err != nil {
			return err
		}
		*x.to = r
	}
	alone, job := base.Tenant("chat"), own.Tenant("heavy").E2E.Mean()
	detail := []string{
		fmt.Sprintf("%-26s %s", "without them", figures(alone)),
		fmt.Sprintf("%-26s %s", "without them, on 6 workers", figures(fewer.Tenant("chat"))), // what giving two workers away would cost
		fmt.Sprintf("%-26s jobs in %.1f s on the mean", "jobs alone on h100-8b:2", job),
	}
	names, queues := s.variants()
	var chat, heavy *sim.Tenant
	for i, q := range queues {
		r, err := one("h100-8b:8", q, chats, jobs)
		if err != nil {
			return err
		}
		chat, heavy = r.Tenant("chat"), r.Tenant("heavy")
		detail = append(detail, fmt.Sprintf("%-26s %s; jobs in %.1f s", names[i], figures(chat), heavy.E2E.Mean()))
	}
	gap, beside := chat.ITL.Quantile(0.99)/alone.ITL.Quantile(0.99), "without them"
	held := gap
	if cached {
		held = chat.ITL.Quantile(0.99) / fewer.Tenant("chat").ITL.Quantile(0.99)
		beside = fmt.Sprintf("those on 6 workers without them (%.2f on 8)", gap)
	}
	first := chat.TTFT.Quantile(0.99) / alone.TTFT.Quantile(0.99)
	s.that(Verdict{Case: "heavy jobs among " + name, Pass: max(first, held) <= chatsSlower && heavy.E2E.Mean() <= jobsSlower*job && lossless(chat, heavy),
		Figures: fmt.Sprintf("chat p99 TTFT %.2f times without them, and p99 gap %.2f times %s (at most %.1f), jobs %.2f times on two workers of their own (at most %.1f)",
			first, held, beside, chatsSlower, heavy.E2E.Mean()/job, jobsSlower), Detail: detail})
	return nil
}
