package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain is a worker when the suite starts this binary as one.
func TestMain(m *testing.M) {
	if os.Getenv(workerMark) != "" {
		if err := runWorker(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "chaos worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestAShortRunFindsNothing(t *testing.T) {
	var out, errs bytes.Buffer
	folder := filepath.Join(t.TempDir(), "evidence")
	code := start([]string{"--seed", "11", "--minutes", "0.25", "--rate", "80", "--folder", folder}, &out, &errs)
	if last := lastLine(out.String()); code != 0 || !strings.HasPrefix(last, "chaos: requests ") || !strings.HasSuffix(last, "anomalies 0, seed 11") {
		log, _ := os.ReadFile(filepath.Join(folder, "router.log"))
		t.Errorf("exit %d, %s%s\nrouter log:\n%s", code, out.String(), errs.String(), log)
	}
	if _, err := os.Stat(folder); code == 0 && err == nil {
		t.Error("a run without anomalies leaves its folder")
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func TestRequestsAndFaultsFollowFromTheSeedAlone(t *testing.T) {
	p := phasesOf(time.Minute)
	can := map[action]bool{reloads: true, flaps: true}
	if a, b := fmt.Sprint(schedule(7, p, 2, can)), fmt.Sprint(schedule(7, p, 2, can)); a != b || a == fmt.Sprint(schedule(8, p, 2, can)) {
		t.Error("the schedule of faults does not follow from the seed")
	}
	for n := range 300 {
		a, b := plan(7, n, 100), plan(7, n, 999)
		if string(a.wire()) != string(b.wire()) || a.kind != b.kind || a.patient != b.patient {
			t.Errorf("request %d does not follow from seed and number", n)
		}
	}
}

func TestEverySabotageStillFitsTheSource(t *testing.T) {
	for _, s := range sabotages {
		if _, err := s.in(".."); err != nil {
			t.Error(err)
		}
	}
}

// judged is what the judge finds of one answer to a request that one worker answered in a mode.
func judged(r *request, m mode, change func(*result, string)) string {
	var found []string
	j := newJudge(1, 1, func(a anomaly) { found = append(found, a.what) })
	tag := "w1.1.1"
	a := &attempt{note: note{Tag: tag, ID: r.id, Mode: m, API: r.want.api, Stream: r.want.stream, Usage: true, Model: r.want.model, Sent: true}, over: true}
	seen := a.wanted()
	view := m.says(r.ask, seen, tag).view(r.want.usage)
	res := &result{r: r, status: 200, body: []byte(view), clean: true, connected: true, header: map[string][]string{}}
	j.attempts[r.id] = []*attempt{a}
	if change != nil {
		change(res, view)
	}
	j.end(res)
	j.sit(true)
	return strings.Join(found, "; ")
}

func TestTheJudgeFindsEachWayInWhichAnAnswerCanBeWrong(t *testing.T) {
	stream := &request{id: 80, kind: asks, want: want{api: chat, stream: true, model: alpha}, ask: ask{id: 80, words: 5}}
	plain := &request{id: 80, kind: asks, want: want{api: messages, model: alpha}, ask: ask{id: 80, words: 5}}
	const event = "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\"}}\n\n"
	for _, c := range []struct {
		name   string
		r      *request
		m      mode
		change func(*result, string)
		want   string // "" is right
	}{
		{"as sent", stream, well, nil, ""},
		{"as sent, wrong as it is", stream, wrong, nil, ""},
		{"as sent, whole", plain, well, nil, ""},
		{"an event twice", stream, well, func(r *result, v string) { at := strings.Index(v, "\n\n") + 2; r.body = []byte(v[:at] + v) }, "not what any worker sent"},
		{"a byte less", stream, well, func(r *result, v string) { r.body = []byte(v[:100] + v[101:]) }, "not what any worker sent"},
		{"the end missing", plain, well, func(r *result, v string) { r.body = []byte(v[:len(v)-1]) }, "not what any worker sent"},
		{"the usage that was not asked for", stream, well, func(r *result, v string) {
			r.body = []byte(well.says(r.r.ask, want{api: chat, stream: true, usage: true, model: alpha}, "w1.1.1").view(true))
		}, "not what any worker sent"},
		{"broken off and not said", stream, half, func(r *result, _ string) {}, "looks whole"},
		{"broken off and said", stream, cut, func(r *result, v string) { r.clean, r.body = false, []byte(v+event) }, ""},
		{"broken off within an event and said", stream, half, func(r *result, v string) { r.clean, r.body = false, []byte(v+"\n\n"+event) }, ""},
		{"joined to half an event", stream, half, func(r *result, v string) { r.clean, r.body = false, []byte(v+event) }, "joined to half an event"},
		{"broken off without an error", stream, cut, func(r *result, _ string) { r.clean = false }, "without an error in its dialect"},
		{"broken off by nobody", stream, well, func(r *result, v string) { r.clean, r.body = false, []byte(v[:200]) }, "nothing was wrong with its worker"},
		{"an error of another dialect", plain, well, func(r *result, _ string) {
			r.status, r.body = 502, []byte(event[6:])
		}, "though nothing was wrong"},
		{"no answer", plain, well, func(r *result, _ string) { r.status = 0 }, "no answer"},
		{"bytes behind it", plain, well, func(r *result, _ string) { r.surplus = 3 }, "bytes came behind"},
		{"another worker's name", plain, well, func(r *result, _ string) { r.header.Set("X-Warmpath-Worker", "w2") }, "names worker w2"},
	} {
		got := judged(c.r, c.m, c.change)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTheJudgeFindsRequestsWhereTheyMayNotBe(t *testing.T) {
	var found string
	j := newJudge(1, 1, func(a anomaly) { found = a.what })
	j.issue(1000)
	var long, beta0, bad *request
	for n := range 1000 {
		switch r := plan(1, n, 1); {
		case r.long:
			long = r
		case r.kind == asks && r.want.model == beta:
			beta0 = r
		case r.kind == noModel:
			bad = r
		}
	}
	for _, c := range []struct {
		worker, want string
		id           int
	}{
		{"w3", "", long.id}, {"w1", "pool long", long.id}, {"w5", "", beta0.id}, {"w7", "may not serve", beta0.id}, {"w1", "must be refused", bad.id},
		{"w1", "smuggled", idsEach - 1}, {"w1", "nobody sent", 1001 * idsEach},
	} {
		found = ""
		j.hear(note{Tag: c.worker + ".1.1", ID: c.id})
		if (c.want == "") != (found == "") || !strings.Contains(found, c.want) {
			t.Errorf("request %d at %s: %q, want %q", c.id, c.worker, found, c.want)
		}
	}
}
