package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/workload"
)

// demoRow is one policy's outcome.
type demoRow struct {
	policy          string
	result          workload.Result
	prefilled       int     // prompt tokens the workers computed
	hitRate         float64 // prompt tokens found cached / prompt tokens, the workers' count
	declined        int
	busiestOverMean float64
	slip            time.Duration // by which the workers ran late because this machine was too slow
}

// demoUnansweredMax is the share of unanswered requests beyond which a policy's means say nothing.
const demoUnansweredMax = 0.1

func printDemoTable(w io.Writer, rows []demoRow) {
	fmt.Fprintf(w, "\n%-13s %27s %9s %10s %6s %9s %9s\n", "", "TTFT  mean      p50      p99", "ITL p99", "prefilled", "hit", "hits", "busiest/")
	fmt.Fprintf(w, "%-13s %9s %8s %8s %9s %10s %6s %9s %9s\n", "policy", "ms", "ms", "ms", "ms", "tokens", "rate", "declined", "mean")
	for _, r := range rows {
		t := r.result.TTFT
		fmt.Fprintf(w, "%-13s %9.1f %8.1f %8.1f %9.1f %10s %5.1f%% %9d %9.2f\n", r.policy, ms(t.Mean), ms(t.P50), ms(t.P99),
			ms(r.result.ITL.P99), thousands(r.prefilled), 100*r.hitRate, r.declined, r.busiestOverMean)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		if n := r.result.Errors + r.result.Unfinished; n > 0 {
			fmt.Fprintf(w, "%s: %d of %d requests were not answered when its time was up", r.policy, n, n+r.result.Requests)
			if r.result.Errors > 0 {
				fmt.Fprintf(w, ", %d of them errors (%s)", r.result.Errors, r.result.FirstError)
			}
			fmt.Fprintln(w)
		}
		if r.slip > time.Second {
			fmt.Fprintf(w, "%s: this machine was too busy, its workers ran %.1f s late in all\n", r.policy, r.slip.Seconds())
		}
	}
	for _, r := range rows {
		if n := r.result.Errors + r.result.Unfinished; float64(n) > demoUnansweredMax*float64(n+r.result.Requests) {
			fmt.Fprintf(w, "No policies are compared: more than %.0f %% of the requests went unanswered under %s, and means of the others would flatter it.\n", 100*demoUnansweredMax, r.policy)
			return
		}
	}
	first, last := rows[0], rows[len(rows)-1]
	fmt.Fprintf(w, "%s against %s: %.2fx the mean TTFT, %.2fx the prompt tokens prefilled.\n", last.policy, first.policy,
		float64(last.result.TTFT.Mean)/float64(first.result.TTFT.Mean), float64(last.prefilled)/float64(max(first.prefilled, 1)))
}

func printDemoAdvice(w io.Writer) {
	fmt.Fprint(w, `
With engines of your own:

  warmpath serve --worker http://gpu-1:8000 --worker http://gpu-2:8000

then point the clients at http://127.0.0.1:8800/v1; http://127.0.0.1:8801/metrics and /state show what it does.
`)
}

func printDemoKept(w io.Writer, f *embeddedFleet) {
	data, admin := f.router.DataURL(), f.router.AdminURL()
	fmt.Fprintf(w, `
Still serving under %s until Ctrl-C:

  curl %s/v1/chat/completions -d '{"model":"%s","max_tokens":20,"messages":[{"role":"user","content":"hello"}]}'
  curl %s/metrics
  the page: %s/
`, f.policy, data, demoModel, admin, admin)
}

// demoReport is a row as --json prints it.
type demoReport struct {
	TTFTMean        float64 `json:"ttft_mean_ms"`
	TTFTP50         float64 `json:"ttft_p50_ms"`
	TTFTP90         float64 `json:"ttft_p90_ms"`
	TTFTP99         float64 `json:"ttft_p99_ms"`
	ITLMean         float64 `json:"itl_mean_ms"`
	ITLP99          float64 `json:"itl_p99_ms"`
	E2EMean         float64 `json:"e2e_mean_ms"`
	E2EP99          float64 `json:"e2e_p99_ms"`
	PromptTokens    int     `json:"prompt_tokens"`
	OutputTokens    int     `json:"output_tokens"`
	Prefilled       int     `json:"prefilled_tokens"`
	HitRate         float64 `json:"hit_rate"`
	Declined        int     `json:"hits_declined"`
	BusiestOverMean float64 `json:"busiest_over_mean"`
	Requests        int     `json:"requests"`
	Errors          int     `json:"errors"`
	Unfinished      int     `json:"unfinished"`
	ElapsedSeconds  float64 `json:"elapsed_seconds"`
	SlipSeconds     float64 `json:"slip_seconds"`
}

func printDemoJSON(w io.Writer, rows []demoRow) error {
	reports := make(map[string]demoReport, len(rows))
	for _, r := range rows {
		m := r.result
		reports[r.policy] = demoReport{
			TTFTMean: ms(m.TTFT.Mean), TTFTP50: ms(m.TTFT.P50), TTFTP90: ms(m.TTFT.P90), TTFTP99: ms(m.TTFT.P99),
			ITLMean: ms(m.ITL.Mean), ITLP99: ms(m.ITL.P99), E2EMean: ms(m.E2E.Mean), E2EP99: ms(m.E2E.P99),
			PromptTokens: m.PromptTokens, OutputTokens: m.OutputTokens, Prefilled: r.prefilled,
			HitRate: r.hitRate, Declined: r.declined, BusiestOverMean: r.busiestOverMean,
			Requests: m.Requests, Errors: m.Errors, Unfinished: m.Unfinished,
			ElapsedSeconds: m.Elapsed.Seconds(), SlipSeconds: r.slip.Seconds(),
		}
	}
	return json.NewEncoder(w).Encode(reports)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// thousands writes 1234567 as 1,234,567.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// demoProgress shows how far a policy is: one line rewritten on a terminal, else a line now and then.
type demoProgress struct {
	out    io.Writer
	policy string
	redraw bool // out is a terminal
	begin  time.Time
	shown  time.Time
}

const (
	demoRedrawEvery = 100 * time.Millisecond
	demoLineEvery   = 5 * time.Second
	demoBarCells    = 24
)

func newDemoProgress(out io.Writer, policy string) *demoProgress {
	now := time.Now()
	return &demoProgress{out: out, policy: policy, redraw: wantsColour(out), begin: now, shown: now}
}

func (p *demoProgress) show(s workload.Progress) {
	every := demoLineEvery
	if p.redraw {
		every = demoRedrawEvery
	}
	now := time.Now()
	if s.Done >= s.Total || now.Sub(p.shown) < every { // the last line is end's
		return
	}
	p.shown = now
	p.line(s.Done, s.Total, s.TTFTMean, now.Sub(p.begin))
}

func (p *demoProgress) line(done, total int, ttft, elapsed time.Duration) {
	full := demoBarCells * done / max(total, 1)
	start, end := "", "\n"
	if p.redraw {
		start, end = "\r\x1b[K", ""
	}
	fmt.Fprintf(p.out, "%s%-13s %s%s %4d/%d requests  %5.1f s  mean TTFT %.0f ms%s", start, p.policy,
		strings.Repeat("#", full), strings.Repeat(".", demoBarCells-full), done, total, elapsed.Seconds(), ms(ttft), end)
}

// end writes the last state and leaves the line.
func (p *demoProgress) end(r workload.Result) {
	p.line(r.Requests+r.Errors, r.Requests+r.Errors+r.Unfinished, r.TTFT.Mean, r.Elapsed)
	if p.redraw {
		fmt.Fprintln(p.out)
	}
}
