package report

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
	"github.com/warmpath/warmpath/internal/traces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rows(t *testing.T, trace string, s sweep.Sweep) []*sweep.Row {
	t.Helper()
	x, err := traces.Open(trace, traces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := lineup.Parse("h100-8b:2", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Base.Trace, s.Base.Fleet, s.Base.Jitter, s.Base.SampleEvery = x, fleet, -1, time.Second
	runs := s.Runs()
	if err := sweep.Do(context.Background(), runs, 0, func(*sweep.Run) {}); err != nil {
		t.Fatal(err)
	}
	return sweep.Compare(runs)
}

func write(t *testing.T, in Input) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var drawings = regexp.MustCompile(`(?s)<svg.*?</svg>`)

func TestAPageNeedsNothingElseAndItsDrawingsAreWhole(t *testing.T) {
	slo := sim.SLO{TTFT: 200 * time.Millisecond, Share: 0.9}
	for _, in := range []Input{
		{Rows: rows(t, "groups:groups=10", sweep.Sweep{Base: sim.Config{SLO: slo}, Policies: []string{"random", "warm-cost", "least-tokens"}, Rates: []float64{1, 4}, Workers: []int{1, 2}, Seeds: 2}), SLO: slo},
		{Rows: rows(t, "bursts:requests=1,output=1", sweep.Sweep{Policies: []string{"warm-cost"}, Rates: []float64{1}})},
		{Rows: rows(t, "uniform:requests=30,output=1", sweep.Sweep{Base: sim.Config{AtOnce: 3}, Policies: []string{"warm-cost"}, Rates: []float64{1}})},
	} {
		in.Title, in.Command, in.Ours, in.SLOText = "Replay of <trace> & more", `warmpath replay 'a b' --rate "1"`, "warm-cost", "ttft=200ms"
		in.Knees = []Knee{{"warm-cost", 2, "4 or more"}}
		page := write(t, in)
		wholePage(t, page, 5)
		if again := write(t, in); again != page {
			t.Error("the same input gives another page")
		}
	}
}

// wholePage fails the test where a page asks for something else, or has fewer drawings than least, or one that is not whole.
func wholePage(t *testing.T, page string, least int) {
	t.Helper()
	for _, bad := range []string{"<script", "http://", "https://", "@import", "url(", "NaN", "Inf", "<trace>", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q in it", bad)
		}
	}
	all := drawings.FindAllString(page, -1)
	if len(all) < least {
		t.Errorf("%d drawings", len(all))
	}
	for _, svg := range all {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
	}
}

func TestTicksAreRoundAndWithinTheAxis(t *testing.T) {
	for _, a := range []axis{{0, 1, false}, {0, 7.3, false}, {0, 0.0004, false}, {1, 1.75, false}, {0.01, 300, true}, {0.2, 0.5, true}, {0, 123456, false}} {
		list := a.ticks()
		if len(list) < 2 || len(list) > 9 {
			t.Errorf("%+v: %v", a, list)
		}
		for _, v := range list {
			if at := a.at(v); at < -0.001 || at > 1.001 {
				t.Errorf("%+v: %v is at %v", a, v, at)
			}
		}
	}
}
