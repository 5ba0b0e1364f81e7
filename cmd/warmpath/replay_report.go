package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/warmpath/warmpath/internal/report"
	"github.com/warmpath/warmpath/internal/sweep"
)

// report writes the page of --out.
func (p *replayPlan) report(rows []*sweep.Row) error {
	in := report.Input{
		Title: "Replay of " + filepath.Base(p.trace.Name), Command: p.command, Rows: rows, SLO: p.sweep.Base.SLO, SLOText: p.options.slo,
		Ours: p.own(),
	}
	if in.SLO.Set() {
		knees := p.knees(rows)
		in.Savings = p.savings(knees)
		for _, k := range knees {
			in.Knees = append(in.Knees, report.Knee{Policy: k.policy, Workers: k.workers, Rate: k.String()})
		}
	}
	return writeWhole(p.options.out, func(w io.Writer) error { return report.Write(w, in) })
}

// writeWhole writes the page of --out: whole, or not at all.
func writeWhole(out string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(out), ".report-*")
	if err != nil {
		return fmt.Errorf("--out %s: %w", out, err)
	}
	defer os.Remove(f.Name())
	err = write(f)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), out)
	}
	return err
}
