package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/warmpath/warmpath/internal/bench"
)

// printBench prints the tables and checks.
func printBench(w io.Writer, r bench.Report) {
	for _, s := range r.Sections {
		fmt.Fprintf(w, "\n%s: %s\n%s\n", r.Part, s.Name, s.Method)
		wide := 0
		for _, row := range s.Rows {
			wide = max(wide, len(row.Contestant))
		}
		fmt.Fprintf(w, "  %-*s", wide, "")
		for _, c := range s.Columns {
			fmt.Fprintf(w, "  %s", c)
		}
		fmt.Fprintln(w)
		for _, row := range s.Rows {
			fmt.Fprintf(w, "  %-*s", wide, row.Contestant)
			for i, v := range row.Values {
				fmt.Fprintf(w, "  %*s", len(s.Columns[i]), benchFigure(float64(v)))
			}
			fmt.Fprintln(w)
		}
		for _, c := range s.Checks {
			verdict, sign := "FAIL", "<="
			if c.Pass {
				verdict = "pass"
			}
			if c.Least {
				sign = ">="
			}
			fmt.Fprintf(w, "  %s  %s: %s %s (%s %s)\n", verdict, c.Name, benchFigure(float64(c.Value)), c.Unit, sign, benchFigure(float64(c.Limit)))
		}
	}
}

// benchFigure prints three digits of a number, and no dot where there are more before it.
func benchFigure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.3g", v), ".")
}
