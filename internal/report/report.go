// Package report writes what came of a replay as one HTML page that needs nothing else: no script, no network, light and dark.
//
//	err := report.Write(w, report.Input{Command: "warmpath replay ...", Title: "mooncake.jsonl", Rows: rows, SLO: slo})
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
)

//go:embed page.html
var page string

// parts are those that pages share: head, style, chart, legend, table.
//
//go:embed parts.html
var parts string

// execute writes a page.
func execute(w io.Writer, page string, view any) error {
	tree, err := template.New("page").Parse(page + parts)
	if err != nil {
		return err
	}
	return tree.Execute(w, view)
}

// Input is what a report is made of.
type Input struct {
	Title   string
	Command string // that makes it again
	Ours    string // the policy that is set off from the others
	Rows    []*sweep.Row
	SLO     sim.SLO
	SLOText string
	Knees   []Knee   // where an SLO is set
	Savings []string // in words
}

// Knee is the highest rate at which a policy meets the SLO on so many workers, in words.
type Knee struct {
	Policy  string
	Workers int
	Rate    string
}

// line is a table's row.
type line struct {
	Name  string
	Cells []string
	Ours  bool
}

type chart struct {
	Caption string
	Drawing template.HTML
	Note    string
}

type key struct {
	Name   string
	Colour template.CSS
}

// point is the part of the page about one point.
type point struct {
	ID, Name, Verdict, Possible string
	Summary                     []string // its row in the table of all points
	Legend                      []key
	Columns                     []string
	Rows                        []line
	Charts, Times, Loads        []chart
	Most                        int // requests on one worker at once, of Loads
}

type view struct {
	Title, Headline, Command, SLO, Ours string
	Measures                            []string
	Standings                           []line
	Legend                              []key
	Goodput                             []chart
	KneeColumns                         []string
	Knees                               []line
	Savings                             []string
	Points                              []point
}

// coloured is how many policies have a colour of their own, beside ours: the best.
const coloured = 6

// rest is the colour of those that have none.
const rest = "var(--rest)"

// palette gives each policy its colour.
type palette map[string]string

func colours(in *Input, standings []sweep.Standing) (p palette, legend []key) {
	p = palette{}
	n, others := 0, false
	for _, s := range standings {
		name := s.Policy
		switch {
		case s.Policy == in.Ours:
			p[s.Policy] = "var(--ours)"
		case n < coloured:
			n++
			p[s.Policy] = fmt.Sprintf("var(--c%d)", n)
		default:
			p[s.Policy], name = rest, "the others"
			if others {
				continue
			}
			others = true
		}
		legend = append(legend, key{name, template.CSS(p[s.Policy])})
	}
	return p, legend
}

// Write writes the page. Rows are in the order of their points.
func Write(w io.Writer, in Input) error {
	standings := sweep.Standings(in.Rows)
	p, legend := colours(&in, standings)
	v := view{Title: in.Title, Command: in.Command, SLO: in.SLOText, Ours: in.Ours, Savings: in.Savings, Legend: legend}
	for _, m := range sweep.Measures {
		v.Measures = append(v.Measures, m.Name)
	}
	for _, s := range standings {
		l := line{Name: s.Policy, Ours: s.Policy == in.Ours}
		for i := range sweep.Measures {
			l.Cells = append(l.Cells, fmt.Sprintf("%.3f / %.2f", s.Geometric[i], s.Worst[i]))
		}
		v.Standings = append(v.Standings, l)
	}
	if len(v.Standings) < 2 {
		v.Standings = nil
	}
	if in.SLO.Set() {
		v.Goodput = goodput(&in, p)
		v.KneeColumns, v.Knees = knees(&in)
	}
	for i, rows := range byPoint(in.Rows) {
		x := describe(&in, rows, p)
		x.ID, x.Legend = fmt.Sprintf("point%d", i+1), legend
		v.Points = append(v.Points, x)
	}
	v.Headline = v.Points[0].Verdict
	if n := len(v.Points); n > 1 {
		v.Headline = overall(&in, standings, n)
	}
	return execute(w, page, v)
}

// overall says what ours made of all points.
func overall(in *Input, standings []sweep.Standing, points int) string {
	i := slices.IndexFunc(standings, func(s sweep.Standing) bool { return s.Policy == in.Ours })
	if s := standings[max(i, 0)]; len(standings) > 1 {
		return fmt.Sprintf("%s over %d points and %d policies: the mean TTFT is %.2f times that of the best policy of each point, at worst %.2f; the mean E2E %.2f, at worst %.2f.",
			s.Policy, points, len(standings), s.Geometric[0], s.Worst[0], s.Geometric[2], s.Worst[2])
	}
	return fmt.Sprintf("%s at %d points.", in.Ours, points)
}

// knees is the table of the highest rates: a row a policy, a column a size of the fleet.
func knees(in *Input) (columns []string, rows []line) {
	var sizes []int
	for _, k := range in.Knees {
		if !slices.Contains(sizes, k.Workers) {
			sizes = append(sizes, k.Workers)
			columns = append(columns, fmt.Sprintf("%d workers", k.Workers))
		}
		i := slices.IndexFunc(rows, func(l line) bool { return l.Name == k.Policy })
		if i < 0 {
			rows = append(rows, line{Name: k.Policy, Ours: k.Policy == in.Ours})
			i = len(rows) - 1
		}
		rows[i].Cells = append(rows[i].Cells, k.Rate)
	}
	return columns, rows
}

func byPoint(rows []*sweep.Row) (points [][]*sweep.Row) {
	for i, r := range rows {
		if i == 0 || rows[i-1].Point != r.Point {
			points = append(points, nil)
		}
		points[len(points)-1] = append(points[len(points)-1], r)
	}
	return points
}

func mean(r *sweep.Row, f func(*sim.Result) float64) float64 { return r.Of(f).Mean }
