package contest

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/lineup"
	"github.com/warmpath/warmpath/internal/sched"
	"github.com/warmpath/warmpath/internal/sim"
	"github.com/warmpath/warmpath/internal/sweep"
	"github.com/warmpath/warmpath/internal/traces"
)

func TestEveryPointCanBeReplayedAndHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	families := map[string]int{}
	quick := map[string]int{}
	all := scenarios()
	for _, p := range all {
		if seen[p.Name] || !strings.HasPrefix(p.Name, p.Family+"/") {
			t.Errorf("the name %q is another's, or not of family %s", p.Name, p.Family)
		}
		seen[p.Name] = true
		families[p.Family]++
		if p.quick {
			quick[p.Family]++
		}
		if _, err := lineup.Parse(p.Fleet, nil); err != nil || !(p.Rate > 0) {
			t.Errorf("%s: rate %v, %v", p.Name, p.Rate, err)
		}
		if strings.Contains(p.Trace, ":") {
			if _, err := traces.Open(p.Trace, traces.Options{}); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
		if late := p.Delay > 0 || p.Replicas > 1; late != (p.Fresh >= 0) || late && (p.Judged || all[p.Fresh].Trace != p.Trace || all[p.Fresh].Fleet != p.Fleet) {
			t.Errorf("%s: %v late, %d routers, the same at once is point %d", p.Name, p.Delay, p.Replicas, p.Fresh)
		}
	}
	want := map[string]int{"mooncake": 36, "agentic": 12, "ladder": 7, "azure-code": 6, "azure-conv": 6, "mixed": 9, "hot": 36, "uniform": 3, "late": 4, "routers": 4}
	for family, n := range want {
		if families[family] != n || quick[family] == 0 {
			t.Errorf("%s: %d points, %d of them quick; want %d", family, families[family], quick[family], n)
		}
	}
	if len(families) != len(want) {
		t.Errorf("families are %v", families)
	}
}

func TestWithoutItsFilesThereIsNoVerdict(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, azureCode), []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Traces: folder, Half: "odd"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Missing) != 3 || len(c.Missing[mooncake]) == 0 || len(c.Missing[azureCode]) > 0 {
		t.Errorf("missing are %v", c.Missing)
	}
	if against := c.replayed(nil); len(against) != 4 || !strings.Contains(against[0], azureConv) || !strings.Contains(against[0], folder) {
		t.Errorf("%q", against)
	}
}

func TestAHalfHasSeedsOfItsOwn(t *testing.T) {
	seen := map[uint64]string{}
	for _, half := range []string{"odd", "even"} {
		c, err := New(Options{Half: half, Only: regexp.MustCompile("^hot/8k/2/30%$")})
		if err != nil {
			t.Fatal(err)
		}
		for _, seed := range c.seeds {
			if seen[seed] != "" {
				t.Errorf("seed %d is of the %s half and of the %s one", seed, seen[seed], half)
			}
			seen[seed] = half
		}
		if runs := c.Runs(); len(runs) != seedsCount*len(sched.Policies) || c.Whole() {
			t.Errorf("%d runs, whole: %v", len(runs), c.Whole())
		}
	}
	for _, o := range []Options{{Half: "left"}, {Half: "odd", Only: regexp.MustCompile("nowhere")}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestTheSameContestPrintsTheSame(t *testing.T) {
	var printed [2]bytes.Buffer
	for i := range printed {
		c, err := New(Options{Half: "even", Only: regexp.MustCompile("^(hot/50k/2/30%|late/hot/8k.*)$"), Quick: false, Policies: []string{"least-tokens", "round-robin"}})
		if err != nil {
			t.Fatal(err)
		}
		runs := c.Runs()
		if err := sweep.Do(context.Background(), runs, i+1, func(*sweep.Run) {}); err != nil {
			t.Fatal(err)
		}
		j := c.Judge(runs)
		j.Print(&printed[i])
		if len(j.Rows) != 3 || len(j.Standings) != 3 || j.Standings[0].Points != 2 || len(j.Peers) != 2 {
			t.Fatalf("%d rows, standings %+v", len(j.Rows), j.Standings)
		}
		if x := j.Rows[0].cell(sched.DefaultPolicy).results[0]; x.Seed != 2 || spreadAtEnd(x) < 1 || x.Finished < 100 {
			t.Errorf("seed %d, %d finished, busiest/mean %.2f", x.Seed, x.Finished, spreadAtEnd(x))
		}
	}
	if a, b := printed[0].String(), printed[1].String(); a != b || !strings.Contains(a, "seen 0.5 s late: TTFT mean") {
		t.Errorf("%s\n%s", a, b)
	}
}

// result has one request of that TTFT, a second end to end.
func result(seed uint64, seconds float64) *sim.Result {
	r := &sim.Result{Seed: seed, Finished: 1, Workers: 2}
	r.TTFT.Add(seconds)
	r.E2E.Add(1)
	return r
}

// row has a cell for each policy, in seconds of TTFT by seed.
func row(p Point, policies map[string][]float64) *Row {
	r := &Row{Point: p}
	for _, name := range []string{sched.DefaultPolicy, "least-tokens", "random"} {
		if seconds, ok := policies[name]; ok {
			c := Cell{Policy: name}
			for i, s := range seconds {
				c.results = append(c.results, result(uint64(i), s))
			}
			r.Cells = append(r.Cells, c)
		}
	}
	r.compare()
	return r
}

func TestPoliciesAreHeldAgainstTheBestOfEachSeed(t *testing.T) {
	all := standings([]*Row{
		row(Point{Name: "a"}, map[string][]float64{sched.DefaultPolicy: {1, 2}, "random": {2, 1}}),
		row(Point{Name: "b"}, map[string][]float64{sched.DefaultPolicy: {1, 1}, "random": {4, 4}}),
	})
	own, geometric, worst := ours(all)
	for _, c := range []struct{ got, want float64 }{
		{own.Geometric[0], math.Sqrt(1.5)}, {own.Worst[0], 1.5}, {own.SeedWorst[0], 2}, {own.MeanWorst[0], 1}, {own.MeanGeometric[0], 1},
		{geometric[0], math.Sqrt(1.5 * 4)}, {worst[0], 4}, {own.Geometric[2], 1},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%v, want %v: %+v", c.got, c.want, all)
		}
	}
	if all[0].Policy != sched.DefaultPolicy || own.At[0] != "a" {
		t.Errorf("%+v", all)
	}
}

// verdicts judges rows, and returns what fails.
func verdicts(rows ...*Row) (failed []string) {
	j := &Judgement{Rows: rows, Families: map[string][]Standing{}, Standings: standings(rows)}
	for i, r := range rows {
		r.Index = i
		j.Families[r.Family] = standings([]*Row{r})
	}
	j.bounds()
	j.noReuse()
	j.late()
	for _, c := range j.Checks {
		if !c.Pass {
			failed = append(failed, c.Name)
		}
	}
	return failed
}

func TestWhatIsTooFarFromTheBestFails(t *testing.T) {
	at := func(p Point, own, other float64) *Row {
		return row(p, map[string][]float64{sched.DefaultPolicy: {own}, "least-tokens": {other}, "random": {50}})
	}
	here := Point{Fresh: -1}
	blind := Point{Fresh: -1, NoReuse: true}
	for _, c := range []struct {
		rows []*Row
		want string
	}{
		{[]*Row{at(here, 1, 2)}, ""},
		{[]*Row{at(here, 1.2, 1), at(here, 1, 5), at(here, 1, 5), at(here, 1, 5), at(here, 1, 5)}, ""},
		{[]*Row{at(here, 1.31, 1), at(here, 1, 9), at(here, 1, 9), at(here, 1, 9), at(here, 1, 9), at(here, 1, 9)}, "TTFT mean, worst point"},
		{[]*Row{at(here, 1.2, 1), at(here, 1.1, 1), at(here, 1, 3)}, "TTFT mean, geometric mean"},
		{[]*Row{at(here, 1.01, 1)}, "TTFT mean, geometric mean|TTFT mean, worst point|TTFT p99, geometric mean|TTFT p99, worst point"},
		{[]*Row{at(blind, 1.005, 1), at(here, 1, 9)}, ""},
		{[]*Row{at(blind, 1.02, 1), at(here, 1, 9)}, "no reuse: TTFT mean over least-tokens"},
		{[]*Row{at(here, 1, 9), at(Point{Family: "late", Fresh: 0}, 1.4, 9)}, ""},
		{[]*Row{at(here, 1, 9), at(Point{Family: "late", Fresh: 0}, 1.6, 9)}, "seen 0.5 s late: TTFT mean over that of news at once"},
		{[]*Row{at(here, 1, 9), at(Point{Family: "routers", Fresh: 0}, 1.02, 1)}, "four routers: TTFT mean to the best, geometric mean"},
	} {
		if got := strings.Join(verdicts(c.rows...), "|"); got != c.want {
			t.Errorf("%q fails, want %q", got, c.want)
		}
	}
}

// hotRun is a run whose workers had those numbers of requests, and those TTFTs, in each of its thirds.
func hotRun(loads [3][2]int, ttft [3]float64, declined int) *Row {
	x := result(1, 1)
	x.Declined, x.SampleEvery = declined, time.Second
	for third := range 3 {
		for range 10 {
			x.Samples = append(x.Samples, []int{loads[third][0], loads[third][1]})
			x.Slices = append(x.Slices, sim.Slice{Requests: 2, TTFTSeconds: 2 * ttft[third]})
		}
	}
	return &Row{Point: Point{Name: "hot", Needed: 1.5}, Cells: []Cell{{Policy: sched.DefaultPolicy, results: []*sim.Result{x}}}}
}

func TestAHotPrefixIsJudgedByTheEndOfItsRun(t *testing.T) {
	for _, c := range []struct {
		row  *Row
		want string
	}{
		{hotRun([3][2]int{{9, 0}, {4, 3}, {4, 4}}, [3]float64{3, 1, 1}, 1), ""},
		{hotRun([3][2]int{{4, 4}, {4, 4}, {8, 2}}, [3]float64{1, 1, 1}, 1), "busiest/mean at the end"},
		{hotRun([3][2]int{{4, 4}, {4, 4}, {4, 4}}, [3]float64{1, 1, 1}, 0), "hits are declined"},
		{hotRun([3][2]int{{4, 4}, {4, 4}, {4, 4}}, [3]float64{1, 2, 3}, 1), ""},
		{hotRun([3][2]int{{4, 1}, {4, 1}, {5, 0}}, [3]float64{1, 2, 3}, 1), "busiest/mean at the end|TTFT does not grow while a worker idles"},
	} {
		j := &Judgement{}
		j.hot([]*Row{c.row})
		var failed []string
		for _, x := range j.Checks {
			if !x.Pass {
				failed = append(failed, strings.TrimPrefix(x.Name, "hot prefix: "))
			}
		}
		if got := strings.Join(failed, "|"); got != c.want {
			t.Errorf("%q fails, want %q", got, c.want)
		}
	}
}

func TestPoliciesThatFinishUnlikeWorkAreNotCompared(t *testing.T) {
	r := row(Point{Name: "a"}, map[string][]float64{sched.DefaultPolicy: {1}, "random": {1}})
	if unlike := sameWork([]*Row{r}); len(unlike) > 0 {
		t.Errorf("%q", unlike)
	}
	r.Cells[1].results[0].Finished = 2
	if unlike := sameWork([]*Row{r}); len(unlike) != 1 || !strings.Contains(unlike[0], "random finished 2") {
		t.Errorf("%q", unlike)
	}
}
