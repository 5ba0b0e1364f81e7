//go:build e2evllm

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/internal/prefix"
	"github.com/warmpath/warmpath/internal/prompt"
)

// decided is what the test reads of a line of the decision log.
type decided struct {
	ID, Worker      string
	CachedTokensEst int  `json:"cached_tokens_est"`
	CachedTokens    int  `json:"cached_tokens"`
	CachedReported  bool `json:"cached_reported"`
	PromptTokensEst int  `json:"prompt_tokens_est"`
	PromptTokens    int  `json:"prompt_tokens"`
	ByEvents        bool `json:"by_events"`
	Outcome, Reason string
	Rows            []struct {
		Worker        string
		MatchedTokens int `json:"matched_tokens"`
	}
}

// decisions are all lines of all logs, by request.
func (f *front) decisions(t *testing.T) map[string]*decided {
	t.Helper()
	all := map[string]*decided{}
	for _, path := range f.logs {
		log, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(log)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			d := &decided{}
			if err := json.Unmarshal(lines.Bytes(), d); err != nil {
				t.Fatalf("%s: %v in %s", path, err, lines.Bytes())
			}
			all[d.ID] = d
		}
		log.Close()
	}
	return all
}

// judge finds for each request what was decided about it, and what a cache without a bound would have had of it.
func (c *crowd) judge(decisions map[string]*decided) {
	type happening struct {
		at int
		do func()
	}
	var all []happening
	held := map[string]map[prefix.Key]bool{}
	for _, a := range c.asked {
		d := decisions[a.id]
		if a.decided = d; d == nil || d.Worker == "" {
			continue
		}
		salt := a.salt
		all = append(all, happening{a.begun, func() {
			for i, key := range keys(a.prompt[:max(0, len(a.prompt)-1)], salt) {
				if !held[d.Worker][key] {
					break
				}
				a.unbounded = (i + 1) * block
			}
		}}, happening{a.ended, func() {
			if held[d.Worker] == nil {
				held[d.Worker] = map[prefix.Key]bool{}
			}
			for _, key := range keys(slices.Concat(a.prompt, a.said[:max(0, len(a.said)-1)]), salt) {
				held[d.Worker][key] = true
			}
		}})
	}
	for _, clear := range c.clears {
		all = append(all, happening{clear.at, func() { delete(held, clear.worker) }})
	}
	c.judgeCompany()
	slices.SortFunc(all, func(a, b happening) int { return cmp.Compare(a.at, b.at) })
	for _, h := range all {
		h.do()
	}
}

// names is any secret: what it makes of blocks is only compared.
var names = prefix.NewSeed(nil)

// judgeCompany finds who was alone, and who came first after a clearing.
func (c *crowd) judgeCompany() {
	on := map[string][]*asked{}
	for _, a := range c.asked {
		if a.decided != nil {
			on[a.decided.Worker] = append(on[a.decided.Worker], a)
		}
	}
	for worker, all := range on {
		for _, a := range all {
			a.alone = !slices.ContainsFunc(all, func(b *asked) bool { return b != a && b.begun < a.ended && a.begun < b.ended })
		}
		for _, clear := range c.clears {
			if i := slices.IndexFunc(all, func(a *asked) bool { return a.begun > clear.at }); clear.worker == worker && i >= 0 {
				all[i].first = true
			}
		}
	}
}

// keys names the whole blocks of a prompt.
func keys(ids []uint32, salt string) []prefix.Key {
	return prompt.TokenChain(names, prefix.Chain{}, ids, prompt.Blocks{Tokens: block, Model: vllmName, Salt: salt}).Keys
}

// sums are what came of some requests.
type sums struct {
	requests, failed, unreported     int
	right, some, part                int // equal to the block; reported any; reported some, but less than an unbounded cache would
	byEvents, tokensRight            int
	alone, aloneRight                int // requests that went by events and had their worker to themselves
	prompt, predicted, told, without int // tokens: of prompts; cached as predicted, as reported, and without a bound
}

func (s *sums) add(a *asked) {
	s.requests++
	switch {
	case a.failed != "" || a.decided == nil:
		s.failed++
		return
	case !a.decided.CachedReported:
		s.unreported++
		return
	}
	told := a.decided.CachedTokens
	count := func(n *int, when bool) {
		if when {
			*n++
		}
	}
	count(&s.right, told == a.decided.CachedTokensEst)
	count(&s.some, told > 0)
	count(&s.part, told > 0 && told < a.unbounded)
	count(&s.byEvents, a.decided.ByEvents)
	count(&s.tokensRight, a.decided.PromptTokens == a.decided.PromptTokensEst)
	alone := a.alone && !a.first && a.decided.ByEvents
	count(&s.alone, alone)
	count(&s.aloneRight, alone && told == a.decided.CachedTokensEst)
	s.prompt += a.decided.PromptTokens
	s.predicted += a.decided.CachedTokensEst
	s.told += told
	s.without += a.unbounded
}

func (s *sums) reported() int { return s.requests - s.failed - s.unreported }

func (s *sums) percent(n int) float64 { return 100 * float64(n) / float64(max(1, s.reported())) }

// table prints the sums of the phases, or of all when none is named and then of their total too, which it returns.
func (c *crowd) table(t *testing.T, phases ...string) (total sums) {
	t.Helper()
	all := len(phases) == 0
	of := map[string]*sums{}
	for _, a := range c.asked {
		if of[a.phase] == nil {
			of[a.phase] = &sums{}
			if all {
				phases = append(phases, a.phase)
			}
		}
		of[a.phase].add(a)
		total.add(a)
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "phase\trequests\tfailed\treport\tequal\t\talone equal\tby events\tprompt equal\tsome cached\tpart of unbounded\tprompt tokens\tpredicted\treported\tunbounded\t")
	line := func(name string, s *sums) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.1f %%\t%d of %d\t%d\t%d\t%.0f %%\t%.0f %%\t%d\t%d\t%d\t%d\t\n", name, s.requests, s.failed, s.reported(), s.right, s.percent(s.right), s.aloneRight, s.alone, s.byEvents,
			s.tokensRight, s.percent(s.some), s.percent(s.part), s.prompt, s.predicted, s.told, s.without)
	}
	for _, phase := range phases {
		line(phase, of[phase])
	}
	if all {
		line("all", &total)
	}
	w.Flush()
	t.Logf("seed %d\n%s", c.seed, b.String())
	return total
}

// differing names the requests whose prediction did not come true, and those that failed.
func (c *crowd) differing(t *testing.T) {
	t.Helper()
	for _, a := range c.asked {
		switch d := a.decided; {
		case a.failed != "":
			t.Logf("%s (%s) failed: %s", a.id, a.phase, a.failed)
		case d == nil || !d.CachedReported:
			t.Logf("%s (%s) has no decision or no report: %+v", a.id, a.phase, d)
		case d.CachedTokens != d.CachedTokensEst || d.PromptTokens != d.PromptTokensEst:
			t.Logf("%s (%s) on %s: predicted %d (by events: %v), reported %d, unbounded %d, of %d prompt tokens (predicted %d); alone: %v; begun %d, ended %d", a.id, a.phase, d.Worker,
				d.CachedTokensEst, d.ByEvents, d.CachedTokens, a.unbounded, d.PromptTokens, d.PromptTokensEst, a.alone, a.begun, a.ended)
		}
		// The engine's own words, where they came to the client, are what the log says.
		if d := a.decided; d != nil && a.usage.Details != nil && (a.usage.PromptTokens != d.PromptTokens || len(a.prompt) != d.PromptTokens || a.usage.Details.CachedTokens != d.CachedTokens) {
			t.Errorf("%s: the engine told %d tokens, usage %d with %d cached, the decision log says %d with %d", a.id, len(a.prompt), a.usage.PromptTokens, a.usage.Details.CachedTokens, d.PromptTokens, d.CachedTokens)
		}
	}
}

// settle waits until the decision logs have all requests, and judges.
func (c *crowd) settle(t *testing.T, f *front) {
	t.Helper()
	var made map[string]*decided
	eventually(t, "the decision logs have every request", 10*time.Second, func() bool {
		made = f.decisions(t)
		return len(made) >= len(c.asked)
	})
	c.judge(made)
}
