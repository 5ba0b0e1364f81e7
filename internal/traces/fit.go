package traces

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/cost"
	"github.com/warmpath/warmpath/internal/declog"
	"github.com/warmpath/warmpath/internal/fleet"
)

// Fitted is a profile fitted to decision logs, and what it was fitted from.
type Fitted struct {
	Profile        cost.Profile
	Kinds          []Kind // of workers, as far as they are told apart; of one kind it is Profile
	Prefills       int    // whose worker prefilled nothing else meanwhile, and decoded little
	Steps          int    // answers whose gaps were known
	Records, Bad   int
	BatchSeen      int // the most requests that were on one worker at once
	ContextSeenMax int // the most tokens of prompts and answers on one worker at once
}

// stay is one request's time on its worker.
type stay struct {
	worker                 string
	dispatched, first, end time.Time
	prompt, cached, output int
	gap                    float64
}

// fitRecordsMax bounds the records that are learned from: the latest ones.
const fitRecordsMax = 200_000

// Fit learns a profile from decision logs, as a router would have learned its workers' constants: prefills that had their worker to
// themselves, and median token gaps beside the requests that were there. Workers are alike until they show that they are not. A log tells nothing of the
// engine's limits, so those are a published profile's.
func Fit(names []string, skipBad bool) (*Fitted, error) {
	f := &Fitted{}
	var stays []stay
	for _, name := range names {
		var err error
		if stays, err = f.read(name, skipBad, stays); err != nil {
			return nil, err
		}
	}
	byWorker := map[string][]stay{}
	for _, s := range latest(stays) {
		byWorker[s.worker] = append(byWorker[s.worker], s)
	}
	f.learn(byWorker)
	if f.Prefills == 0 || f.Steps == 0 {
		return nil, fmt.Errorf("%s: of %d records %d show a prefill on its own and %d token gaps; both are needed, of streamed and metered requests",
			names[len(names)-1], f.Records, f.Prefills, f.Steps)
	}
	return f, nil
}

// read adds the stays of a file.
func (f *Fitted) read(name string, skipBad bool, stays []stay) ([]stay, error) {
	in, closeFile, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer closeFile()
	reader := declog.NewReader(in)
	for {
		var r declog.Record
		err := reader.Next(&r)
		if err == io.EOF {
			return stays, nil
		}
		if bad := new(declog.LineError); errors.As(err, &bad) {
			if !skipBad {
				return nil, &LineError{name, bad.Line, bad.Err}
			}
			f.Bad++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f.Records++
		if s, ok := stayOf(&r); ok {
			stays = append(stays, s)
		}
		if len(stays) >= 2*fitRecordsMax {
			stays = latest(stays)
		}
	}
}

// latest keeps the latest fitRecordsMax, in the order of their dispatch.
func latest(stays []stay) []stay {
	slices.SortStableFunc(stays, func(a, b stay) int { return a.dispatched.Compare(b.dispatched) })
	return slices.Delete(stays, 0, max(0, len(stays)-fitRecordsMax))
}

func stayOf(r *declog.Record) (s stay, ok bool) {
	if r.Worker == "" || r.Outcome != "succeeded" || r.TTFTSeconds <= 0 || !r.Stream || len(r.Tries) > 0 {
		return s, false
	}
	second := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
	s = stay{
		worker: r.Worker, dispatched: r.Time.Add(second(r.QueueSeconds)), first: r.Time.Add(second(r.TTFTSeconds)), end: r.Time.Add(second(r.E2ESeconds)),
		prompt: promptTokens(r), cached: r.CachedTokensEst, output: r.StreamedTokenCount, gap: r.ITLP50Seconds,
	}
	if r.CachedReported {
		s.cached = r.CachedTokens
	}
	if r.Metered {
		s.output = r.CompletionTokens
	}
	return s, s.prompt > 0 && s.first.After(s.dispatched)
}

func (f *Fitted) learn(byWorker map[string][]stay) {
	flt := fleet.New(fleet.DefaultOptions())
	book := cost.NewBook(cost.DefaultOptions())
	var all []shown
	names := make([]string, 0, len(byWorker))
	for name := range byWorker {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		w, err := flt.Add(name, name, time.Time{})
		if err != nil {
			continue // names are unique
		}
		w.SetInfo(fleet.Info{Engine: "fitted", Models: []fleet.Model{{ID: "m"}}})
		one, prefills, steps := shown{name: name, model: book.Of(w)}, f.Prefills, f.Steps
		f.learnWorker(one.model, byWorker[name])
		one.prefills, one.steps = f.Prefills-prefills, f.Steps-steps
		all = append(all, one)
	}
	f.kinds(all)
}

// moment is one request with what was on its worker when it came.
type moment struct {
	*stay
	batch, context float64 // itself included
	alone          bool    // nobody else prefilled between its dispatch and its first token
}

// learnWorker takes one worker's requests in the order of their dispatch: first all token gaps, then the prefills, from which what decoding
// others took is taken off.
func (f *Fitted) learnWorker(m *cost.Model, all []stay) {
	moments := f.moments(all)
	for _, s := range moments {
		if s.gap > 0 && s.output > gapsLeast {
			m.LearnStep(s.batch, s.context, s.gap)
			f.Steps++
		}
	}
	for _, s := range moments {
		if !s.alone {
			continue
		}
		k, uncached := m.Constants(), s.prompt-s.cached
		others := 0.0
		if decoding := s.batch - 1; decoding > 0 {
			beside := k.D1*decoding + k.D2*(s.context-float64(s.prompt))
			others = (k.D0+beside)/2 + math.Ceil(float64(uncached)/cost.ChunkTokens)*beside
		}
		took := s.first.Sub(s.dispatched).Seconds()
		if 2*others > k.Prefill(uncached, s.cached) || others > took/2 {
			continue
		}
		m.LearnPrefill(uncached, s.cached, took-others)
		f.Prefills++
	}
}

// moments tells, of one worker's requests in the order of their dispatch, what else was there.
func (f *Fitted) moments(all []stay) (list []moment) {
	var there []*stay
	for i := range all {
		s := moment{stay: &all[i], batch: 1, context: float64(all[i].prompt) + float64(all[i].output)/2}
		there = slices.DeleteFunc(there, func(o *stay) bool { return !o.end.After(s.dispatched) })
		s.alone = i+1 == len(all) || !all[i+1].dispatched.Before(s.first)
		for _, o := range there {
			s.alone = s.alone && !o.first.After(s.dispatched)
			s.batch++
			s.context += float64(o.prompt) + float64(o.output)/2
		}
		f.BatchSeen, f.ContextSeenMax = max(f.BatchSeen, int(s.batch)), max(f.ContextSeenMax, int(s.context))
		list = append(list, s)
		there = append(there, s.stay)
	}
	return list
}

// gapsLeast is how many tokens a median gap is of at least.
const gapsLeast = 4
