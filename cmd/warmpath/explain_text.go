package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/outcome"
)

// printExplanation writes an explanation for people: sentences, then a table with at most so many workers; 0 is all.
func printExplanation(w io.Writer, e *explanation, rowsMax int) error {
	p := explainPrinter{colour: wantsColour(w)}
	p.request(e)
	p.verdict(e)
	p.cost(e)
	p.pools(e)
	p.came(e)
	p.table(e, rowsMax)
	p.filtered(e)
	_, err := io.WriteString(w, p.String())
	return err
}

type explainPrinter struct {
	strings.Builder
	colour bool
}

// say writes. Texts among args are clients', engines' and operators', and are shown as such.
func (p *explainPrinter) say(format string, args ...any) {
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = plain(text)
		}
	}
	fmt.Fprintf(p, format, args...)
}

// painted is text that is ready for the terminal.
type painted string

// strong is text in bold, on terminals that want it.
func (p *explainPrinter) strong(text string) painted {
	if text = plain(text); p.colour {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	return painted(text)
}

// request says what was asked, by whom.
func (p *explainPrinter) request(e *explanation) {
	if e.ID != "" {
		p.say("request %s of %s\n", e.ID, e.Time.Format(time.RFC3339))
	}
	what, model := e.API, e.Model
	if e.Path != "" {
		what = e.Path
	}
	if model == "" {
		model = "none named"
	}
	p.say("%s, model %s", what, model)
	for _, of := range []struct{ name, value string }{{"tenant", e.Tenant}, {"class", e.Class}} {
		if of.value != "" {
			p.say(", %s %s", of.name, of.value)
		}
	}
	if e.Stream {
		p.say(", streamed")
	}
	if e.ClassWhy != "" {
		p.say("\n%s", e.ClassWhy)
	}
	if e.Asked != "" {
		p.say("\n%s stands for other models; of them it is this one: %s", e.Asked, e.Choice)
		for _, line := range e.Others {
			p.say("\n  %s", line)
		}
	}
	p.say("\nprompt: %s, %s\n", counted(e.Prompt.Tokens, "token"), howInWords(e))
	if e.Answer.ExpectedTokens > 0 {
		p.say("answer: about %s expected", counted(int(math.Round(e.Answer.ExpectedTokens)), "token"))
		if e.Answer.P90Tokens > 0 {
			p.say(", at most %s in half of such cases and %s in nine of ten", thousands(int(math.Round(e.Answer.P50Tokens))), thousands(int(math.Round(e.Answer.P90Tokens))))
		}
		if e.Answer.MaxTokens > 0 {
			p.say("; the request allows %s", thousands(e.Answer.MaxTokens))
		}
		if e.Answer.Answers > 1 {
			p.say("; %d answers are asked for", e.Answer.Answers)
		}
		p.say("\n")
	}
}

func howInWords(e *explanation) string {
	how := map[string]string{
		tokensGiven: "which the request gives itself",
		tokensExact: "exactly: they are the model's own", tokensTold: "as an engine tells them",
		tokensEstimated: fmt.Sprintf("estimated from %s of text", counted(e.Prompt.TextBytes, "byte")),
	}[e.Prompt.How]
	if e.Prompt.Why != "" {
		how += " (" + e.Prompt.Why + ")"
	}
	return how
}

// verdict says what becomes of it.
func (p *explainPrinter) verdict(e *explanation) {
	past := e.Came != nil
	switch {
	case e.Verdict == verdictRefused:
		p.say("\n%s: %s\n", p.strong(fmt.Sprintf("refused with %d", e.Status)), e.Error)
		return
	case e.Verdict == verdictWaits:
		q := e.Queue
		p.say("\n%s: no worker has room for it now, or others wait before it. ", p.strong("it waits"))
		p.say("Ahead of it: %s; ", counted(q.Before, "request"))
		if q.WaitSeconds != nil {
			p.say("about %s s are expected", decimals(*q.WaitSeconds))
		} else {
			p.say("how long is not known yet")
		}
		p.say(", and it may wait %s s.", decimals(q.MostSeconds))
		if q.ShedShare > 0 {
			p.say(" With %.0f %% it is refused by chance, because the queue fills up.", 100*q.ShedShare)
		}
		p.say("\n")
		if e.Worker != "" {
			p.say("If it had to go at once: %s, %s (policy %s)\n", e.Worker, e.Reason, e.Policy)
		}
	default:
		where := "to "
		if past {
			where = "went to "
		}
		p.say("\n%s: %s (policy %s)\n", p.strong(where+e.Worker), e.Reason, e.Policy)
	}
	if e.Pool != "" && e.Pool != "any" {
		p.say("pool %s\n", cmp.Or(e.PoolWhy, e.Pool)) // why begins with the name
	}
	if e.Only != "" {
		p.say("only %s can serve it: it holds what the request refers to\n", e.Only)
	}
	if e.Relaxed != "" {
		p.say("filters that would have left nobody, and were passed over: %s\n", e.Relaxed)
	}
	p.held(e)
}

// held says what the caches are taken to hold.
func (p *explainPrinter) held(e *explanation) {
	if e.Worker == "" {
		return
	}
	share := 0.0
	if e.Prompt.Tokens > 0 {
		share = 100 * float64(e.MatchedTokens) / float64(e.Prompt.Tokens)
	}
	p.say("cached there: %s, %.0f %% of the prompt", counted(e.MatchedTokens, "token"), share)
	if e.Hit == "declined" {
		p.say("; %s", e.declined())
	}
	p.say("\n")
}

func (p *explainPrinter) cost(e *explanation) {
	if e.Cost == nil {
		return
	}
	p.say("cost there: %s", e.Cost)
	if e.Cost.Heavy {
		p.say("; it is heavy: few such prefills run at one time")
	}
	p.say("\n")
}

// came says what came of a request that was.
func (p *explainPrinter) came(e *explanation) {
	c := e.Came
	if c == nil {
		return
	}
	p.say("\n%s", p.strong(c.Outcome))
	if c.Status > 0 {
		p.say(", status %d", c.Status)
	}
	done := "done after"
	if !e.Stream && c.Outcome == string(outcome.Succeeded) {
		done = "answered in one piece after"
	}
	for _, t := range []struct {
		what    string
		seconds float64
	}{{"waited", c.WaitedSeconds}, {"first token after", c.TTFTSeconds}, {done, c.E2ESeconds}} {
		if t.seconds > 0 {
			p.say(", %s %s s", t.what, decimals(t.seconds))
		}
	}
	if c.Preempted > 0 {
		p.say(", gave way %s to more urgent requests (%s s of engine time spent in vain)", counted(c.Preempted, "time"), decimals(c.WastedSeconds))
	}
	p.say("\n")
	if c.PromptTokens > 0 {
		p.say("the engine counted %s, %s of them cached, and %s of the answer\n", counted(c.PromptTokens, "prompt token"), cachedWords(c.CachedTokens), thousands(c.CompletionTokens))
	}
	for _, t := range c.Tries {
		p.say("tried before: %s\n", t)
	}
	if c.Error != "" && e.Verdict != verdictRefused {
		p.say("error: %s\n", c.Error)
	}
}

func cachedWords(tokens *int) string {
	if tokens == nil {
		return "an unknown number"
	}
	return thousands(*tokens)
}

// barWidth is how many characters the longest bar has.
const barWidth = 20

// table lists those that could have been chosen, the chosen one first.
func (p *explainPrinter) table(e *explanation, rowsMax int) {
	var rows []*explainedRow
	width, most, events, scored := len("worker"), 0.0, false, false
	for i := range e.Rows {
		r := &e.Rows[i]
		if r.Why != "" {
			continue
		}
		if rows = append(rows, r); rowsMax == 0 || len(rows) <= rowsMax {
			width, most, events = max(width, utf8.RuneCountInString(r.Worker)), max(most, r.TotalSeconds), events || r.ByEvents
			scored = scored || r.Score != nil && *r.Score != r.TotalSeconds
		}
	}
	if len(rows) == 0 {
		return
	}
	p.say("\n  %-*s %9s %9s  %9s %9s %9s %9s %9s %9s %9s", width, "", "in", "cached", "wait", "prefill", "delays", "decode", "batch", "displ.", "total")
	p.say("\n  %-*s %9s %9s  %9s %9s %9s %9s %9s %9s %9s", width, "worker", "flight", "tokens", "s", "s", "s", "s", "s", "s", "s")
	if scored {
		p.say(" %9s", "score")
	}
	p.say("\n")
	for i, r := range rows {
		if rowsMax > 0 && i == rowsMax {
			p.say("  and %s (--rows 0 shows all)\n", counted(len(rows)-i, "more worker"))
			break
		}
		mark := " "
		if r.Chosen {
			mark = ">"
		}
		told := " "
		if r.ByEvents {
			told = "*"
		}
		line := fmt.Sprintf("%s %-*s %9d %9s%s", mark, width, r.Worker, r.InFlight, thousands(r.MatchedTokens), told)
		for _, s := range []float64{r.WaitSeconds, r.PrefillSeconds, r.DelaySeconds, r.DecodeSeconds, r.BatchSeconds, r.DisplacedSeconds, r.TotalSeconds} {
			line += fmt.Sprintf(" %9s", decimals(s))
		}
		if scored && r.Score != nil {
			line += fmt.Sprintf(" %9.4g", *r.Score)
		}
		if most > 0 && most < math.MaxFloat64 {
			line += "  " + strings.Repeat("=", max(1, int(math.Round(barWidth*r.TotalSeconds/most))))
		}
		if r.Chosen {
			p.say("%s\n", p.strong(line))
		} else {
			p.say("%s\n", line)
		}
	}
	p.notes(e, events, scored)
}

// outNamesMax is how many workers of one filter are named.
const outNamesMax = 8

// filtered says who could not be chosen, and why.
func (p *explainPrinter) filtered(e *explanation) {
	var whys []string
	out := map[string][]string{}
	for _, r := range e.Rows {
		if r.Why == "" {
			continue
		}
		if out[r.Why] == nil {
			whys = append(whys, r.Why)
		}
		out[r.Why] = append(out[r.Why], r.Worker)
	}
	if len(whys) == 0 {
		return
	}
	p.say("\nnot chosen from:\n")
	for _, why := range whys {
		names := out[why]
		text := strings.Join(names[:min(len(names), outNamesMax)], ", ")
		if more := len(names) - outNamesMax; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		if why == whyWithout {
			why = "left out by --without"
		}
		p.say("  %s: %s\n", why, text)
	}
}

// decimals is a number of seconds with as many digits as it is worth.
func decimals(s float64) string {
	switch {
	case s >= 1e6:
		return fmt.Sprintf("%.1e", s)
	case s >= 100:
		return fmt.Sprintf("%.0f", s)
	case s >= 10:
		return fmt.Sprintf("%.1f", s)
	case s >= 1:
		return fmt.Sprintf("%.2f", s)
	}
	return fmt.Sprintf("%.4f", s)
}
