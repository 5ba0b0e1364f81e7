package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// goldenTop is what testdata/top.json tells.
func goldenTop(t *testing.T) topView {
	t.Helper()
	data, err := os.ReadFile("testdata/top.json")
	if err != nil {
		t.Fatal(err)
	}
	v := topView{admin: "http://127.0.0.1:8801", connected: true}
	if err := v.take(data); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheTableOfASnapshotIsTheGoldenOne(t *testing.T) {
	v := goldenTop(t)
	want, err := os.ReadFile("testdata/top.txt")
	if got := strings.Join(v.table(0), "\n") + "\n"; err != nil || got != string(want) {
		t.Errorf("%v:\n%s", err, got)
	}
}

func TestTheScreenFitsWhateverItsSizeAndHowManyWorkersThereAre(t *testing.T) {
	v := goldenTop(t)
	for i := range 500 {
		v.rows = append(v.rows, eventRow{ID: fmt.Sprint("node-", i), State: "ready", Why: strings.Repeat("because ", 20)})
	}
	for _, size := range [][2]int{{400, 100}, {120, 40}, {80, 24}, {40, 10}, {20, 5}, {1, 1}} {
		lines := v.screen(size[0], size[1])
		if len(lines) > max(size[1], 2) {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > size[0] {
				t.Errorf("%v: a line of %d: %s", size, n, line)
			}
		}
	}
}

func TestWhatMattersMostStaysOnANarrowScreen(t *testing.T) {
	v := goldenTop(t)
	v.top = 0
	shown := strings.Join(v.screen(80, 24), "\n")
	for _, want := range []string{"workers: 1 draining, 1 ejected, 2 ready\n", "inside 47 (waiting 12, prefill 5, streaming 30)", "hits 61% of 70% reachable", "interactive 2 (310 ms)",
		"HIT", "WHY\n", "by hand\n", "it failed 3 times in…", "d drain", "4 workers"} {
		if !strings.Contains(shown, want) {
			t.Errorf("80 columns lack %q:\n%s", want, shown)
		}
	}
	if slices.ContainsFunc(v.screen(80, 24), func(line string) bool { return strings.Contains(line, "policy") || strings.Contains(line, "TRUST") }) {
		t.Errorf("what matters least takes room:\n%s", shown)
	}
	shown = strings.Join(v.screen(30, 40), "\n")
	for _, want := range []string{"warmpath 1.2.3\nworkers: 1 draining, 1\nejected, 2 ready\nrequests 41.2/s\ninside 47 (waiting 12, prefill", "WHY"} {
		if !strings.Contains(shown, want) {
			t.Errorf("30 columns lack %q:\n%s", want, shown)
		}
	}
	for i := range v.rows {
		v.rows[i].Why = ""
	}
	if shown := strings.Join(v.screen(80, 24), "\n"); strings.Contains(shown, "WHY") {
		t.Errorf("nothing is to be said:\n%s", shown)
	}
}

func TestKeysChooseSortAskAndEnd(t *testing.T) {
	v := goldenTop(t)
	type pressed struct{ what, worker string }
	press := func(keys ...string) (p pressed) {
		for _, key := range keys {
			p.what, p.worker = v.press(key)
		}
		return p
	}
	if p := press("d"); p.what != "" || v.asks != "" || v.message == "" {
		t.Errorf("nobody is chosen: %+v", p)
	}
	first := v.sorted()[0].ID
	if press("down"); v.chosen != first {
		t.Errorf("%s is chosen", v.chosen)
	}
	if p := press("d", "n"); p.what != "" || v.asks != "" {
		t.Errorf("%+v", p)
	}
	if p := press("d", "y"); p != (pressed{"drain", first}) {
		t.Errorf("%+v", p)
	}
	if p := press("u"); p != (pressed{"undrain", first}) {
		t.Errorf("%+v", p)
	}
	press("end")
	if last := v.sorted()[len(v.rows)-1].ID; v.chosen != last {
		t.Errorf("%s, not %s", v.chosen, last)
	}
	before := v.sorted()
	press("r")
	slices.Reverse(before)
	if v.sorted()[0].ID != before[0].ID || press("q").what != "quit" {
		t.Error("it is not the other way round, or does not end")
	}
	for range topSorts {
		press("s")
		v.sorted()
	}
	if got := keysIn("q\x1b[A\x1b[6~x\x03"); !slices.Equal(got, []string{"q", "up", "page down", "x", "q"}) {
		t.Errorf("%q", got)
	}
}

func TestNamesAreSortedAsPeopleCount(t *testing.T) {
	names := []string{"gpu-10", "gpu-9", "gpu-010", "b", "gpu-9a", "a"}
	slices.SortFunc(names, natural)
	if want := "a b gpu-9 gpu-9a gpu-10 gpu-010"; strings.Join(names, " ") != want {
		t.Errorf("%v", names)
	}
}

func TestNumbersAreShort(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.423: "0.42", 9.996: "10.0", 41.26: "41.3", 99.96: "100", 812.4: "812", 999.6: "1.0k", 8123: "8.1k", 41_400: "41k", 999_600: "1.0M", 1_234_000: "1.2M"} {
		if got := shortCount(n); got != want {
			t.Errorf("%g: %s, not %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{0.0042: "4.2 ms", 0.0842: "84 ms", 0.9996: "1.0 s", 12.34: "12.3 s", 123.4: "123 s"} {
		if got := shortTime(n); got != want {
			t.Errorf("%g: %s, not %s", n, got, want)
		}
	}
}

func TestTopShowsARunningRouterAndComesBackWhenItRestarts(t *testing.T) {
	rt := start(t, nil, newWorker(t, nil), newWorker(t, nil))
	rt.post("/v1/chat/completions", chat("x", false))
	var out, errs lockedBuffer
	if code := run([]string{"top", "--once", "--admin", rt.AdminURL()}, &out, &errs); code != exitOK || !strings.Contains(out.String(), "WORKER") || !strings.Contains(out.String(), "w2") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d %s%s", code, out.String(), errs.String())
	}
	var raw lockedBuffer
	if code := run([]string{"top", "--json", "--admin", rt.AdminURL()}, &raw, &errs); code != exitOK || !strings.HasPrefix(raw.String(), `{"sequence":`) || strings.Count(raw.String(), "\n") != 1 {
		t.Errorf("%d %s%s", code, raw.String(), errs.String())
	}
	shown := topView{}
	if shown.hear(news{data: []byte(raw.String())}); !strings.HasPrefix(shown.screen(100, 20)[0], "warmpath ") {
		t.Errorf("%q", shown.screen(100, 20))
	}
	f := topFlags{admin: adminFlags{url: rt.AdminURL()}}
	ctx, stop := context.WithCancel(t.Context())
	told, ended := make(chan news), make(chan struct{})
	go func() { f.listen(ctx, told); close(ended) }()
	var v topView
	for v.hear(<-told); !v.connected; v.hear(<-told) {
	}
	rt.archive.feed.Close() // as when the router stops
	for v.hear(<-told); v.connected; v.hear(<-told) {
	}
	if len(v.rows) != 2 || v.why == "" || !strings.Contains(strings.Join(v.screen(200, 20), "\n"), "not connected, trying again") {
		t.Errorf("%+v", v)
	}
	stop()
	<-ended
	if !hopeless(refusedBy("x", http.StatusUnauthorized, nil)) || hopeless(refusedBy("x", http.StatusServiceUnavailable, nil)) {
		t.Error("what is hopeless is not what cannot be mended")
	}
}
