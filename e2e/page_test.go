//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// parts are those of the page, by their addresses.
var parts = []string{"fleet", "now", "saved", "why", "prefixes", "try", "setup"}

// watched is a page in a browser.
type watched struct {
	*browser
	s *simulated
}

// open shows a part of the page, and waits until it is live.
func (s *simulated) open(t *testing.T, b *browser, part string) watched {
	t.Helper()
	b.home = s.admin
	b.visit(fmt.Sprintf("%s/?%d#%s", s.admin, b.serial, part)) // another address, or it would not be loaded anew
	w := watched{b, s}
	w.becomes("the page is live", 10*time.Second, `document.getElementById("link").textContent === "live"`)
	return w
}

// becomes waits until an expression is true in the page.
func (w watched) becomes(what string, within time.Duration, expression string) {
	w.t.Helper()
	eventually(w.t, what, within, func() bool {
		var is bool
		w.evaluate("Boolean("+expression+")", &is)
		return is
	})
}

// text is that of the first element that a selector finds.
func (w watched) text(selector string) (text string) {
	w.t.Helper()
	w.evaluate(fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", selector), &text)
	return text
}

// click presses the button, within what a selector finds, that says so.
func (w watched) click(within, label string) {
	w.t.Helper()
	var pressed bool
	w.evaluate(fmt.Sprintf(`(() => { const b = [...document.querySelectorAll(%q + " button," + %q + " a")].find((b) => b.textContent.trim() === %q); b?.click(); return Boolean(b); })()`, within, within, label), &pressed)
	if !pressed {
		w.t.Fatalf("there is no button %q in %s", label, within)
	}
}

// quiet says what the page complained of.
func (w watched) quiet(at string) {
	w.t.Helper()
	if len(w.said) > 0 {
		w.t.Errorf("%s: the browser said %q", at, w.said)
	}
	w.said = nil
}

// The page of a fleet under load, as operators look at it: on a telephone, on a desk and on a wall, light and dark.
func TestEveryPartOfThePageIsReadableAtEveryWidth(t *testing.T) {
	if err := os.MkdirAll(screens, 0o755); err != nil {
		t.Fatal(err)
	}
	s := startSimulated(t, 4)
	ctx, stop := context.WithCancel(t.Context())
	wait := s.crowd(ctx, 6)
	defer func() { stop(); wait() }()
	b, checker := startBrowser(t), axe(t)
	eventually(t, "some requests have been answered", 30*time.Second, func() bool { return s.metric("warmpath_requests_total") > 60 })
	for _, width := range []int{400, 1280, 2560} {
		for _, scheme := range []string{"light", "dark"} {
			b.window(width, scheme)
			w := s.open(t, b, "fleet")
			for _, part := range parts {
				at := fmt.Sprintf("%s at %d px, %s", part, width, scheme)
				w.evaluate(fmt.Sprintf("location.hash = %q", part), nil)
				w.becomes(at+" is drawn", 15*time.Second, drawn[part])
				var seen struct {
					Width  int
					Faults []string
				}
				w.evaluate(pageFaults, &seen)
				for _, fault := range seen.Faults {
					t.Errorf("%s: %s", at, fault)
				}
				if seen.Width != width {
					t.Errorf("%s: shown %d px wide", at, seen.Width)
				}
				if width != 2560 { // it has the same elements as the one before
					w.accessible(checker, at)
				}
				w.screenshot(filepath.Join(screens, fmt.Sprintf("page-%s-%d-%s.png", part, width, scheme)))
				w.quiet(at)
			}
		}
	}
}

// drawn is how each part shows that it has its figures.
var drawn = map[string]string{
	"fleet": `document.querySelectorAll("#part-fleet tbody tr").length === 4 && !document.querySelector("#part-fleet dl").textContent.startsWith("–")`,
	"now":   `document.querySelectorAll("#part-now canvas").length >= 12`, "saved": `document.querySelectorAll("#part-saved tbody tr").length === 5`,
	"why": `document.querySelectorAll("#part-why tbody:last-of-type tr").length > 20`, "prefixes": `document.querySelectorAll("#part-prefixes tbody tr").length > 0`,
	"try": `document.querySelector("#try-models option")`, "setup": `document.querySelectorAll("#part-setup .panel").length > 0 && document.querySelectorAll("#part-setup tbody tr").length > 20`,
}

// accessible runs axe-core over the page: nothing of it may be serious or critical.
func (w watched) accessible(checker, at string) {
	w.t.Helper()
	w.evaluate(checker+"; true", nil)
	var found []string
	w.evaluate(`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(" | ")))`, &found)
	for _, f := range found {
		w.t.Errorf("%s: axe: %s", at, f)
	}
}

func TestTheFiguresOfThePageAreThoseOfTheMetrics(t *testing.T) {
	s := startSimulated(t, 2)
	ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
	defer stop()
	s.crowd(ctx, 5)() // all of it lies in the last half minute
	b := startBrowser(t)
	b.window(1280, "light")
	w := s.open(t, b, "fleet")
	tile := func(name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("#part-fleet .tile")].find((n) => n.querySelector("dt").textContent === %q).querySelector("dd").textContent`, name)
	}
	var shown, counted float64
	defer func() { t.Logf("the page shows a hit rate of %.0f %%, the metrics %.2f %%", shown, counted) }()
	eventually(t, "the page's hit rate to be that of the metrics", 8*time.Second, func() bool {
		w.evaluate("parseFloat("+tile("Hit rate")+") || 0", &shown)
		counted = 100 * s.metric("warmpath_cached_tokens_reported_total") / s.metric("warmpath_prompt_tokens_total")
		return math.Abs(shown-counted) <= .51 // it is shown in whole per cent
	})
	var busy [3]*http.Response // streams that stay open
	for i := range busy {
		body := strings.NewReader(`{"model":"` + simModel + `","stream":true,"max_tokens":4000,"ignore_eos":true,"messages":[{"role":"user","content":"go on"}]}`)
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.data+"/v1/chat/completions", body)
		request.Header.Set("Content-Type", "application/json")
		var err error
		if busy[i], err = http.DefaultClient.Do(request); err != nil {
			t.Fatal(err)
		}
		defer busy[i].Body.Close()
	}
	if n := s.metric("warmpath_worker_inflight_requests"); n != 3 {
		t.Errorf("the metrics show %v requests in flight", n)
	}
	w.becomes("the page shows three requests inside", 4*time.Second, tile("Inside")+` === "3"`)
	w.becomes("its rows add up to them", 4*time.Second, `[...document.querySelectorAll("#part-fleet tbody tr")].reduce((n, r) => n + Number(r.children[4].textContent), 0) === 3`)
	w.evaluate(`location.hash = "now"`, nil)
	w.becomes("the choices that were looked at are those of the metrics", 15*time.Second,
		fmt.Sprintf(`document.querySelector("#now-regret summary").textContent.startsWith("Of %.0f choices looked at,")`, s.metric("warmpath_regret_requests_total")))
	w.quiet("fleet")
}

func TestAWorkersDeathIsOnThePageWithinThreeSeconds(t *testing.T) {
	s := startSimulated(t, 3)
	ctx, stop := context.WithCancel(t.Context())
	wait := s.crowd(ctx, 6)
	defer func() { stop(); wait() }()
	if err := os.MkdirAll(screens, 0o755); err != nil {
		t.Fatal(err)
	}
	b := startBrowser(t)
	b.window(1280, "dark")
	w := s.open(t, b, "fleet")
	w.becomes("all are ready", 10*time.Second, `document.querySelectorAll("#part-fleet tbody .chip.good").length === 3`)
	s.workers[1].kill(t)
	w.becomes("one of three is shown as out", 3*time.Second, `document.querySelectorAll("#part-fleet tbody .chip.bad, #part-fleet tbody .chip.warn").length === 1`)
	w.becomes("with the reason beside it", 4*time.Second, `[...document.querySelectorAll("#part-fleet tbody .reason")].some((n) => n.textContent && n.offsetHeight)`)
	w.screenshot(filepath.Join(screens, "page-fleet-out-1280-dark.png"))
	b.window(400, "dark")
	w.becomes("what matters fits on a telephone", 4*time.Second, `(() => { const wide = document.querySelector("#part-fleet .wide");
		return wide.scrollWidth <= wide.clientWidth && ["td.col-inflight", "td.col-hits", "td.col-state .reason:not(:empty)", "tbody button.small"].every((s) => wide.querySelector(s).offsetWidth > 0); })()`)
	w.screenshot(filepath.Join(screens, "page-fleet-out-400-dark.png"))
	b.window(1280, "dark")
	w.quiet("fleet")
	// Drained by hand, and taken back.
	var id string
	w.evaluate(`document.querySelector("#part-fleet tbody tr:has(.chip.good)").dataset.id`, &id)
	row := fmt.Sprintf(`#part-fleet tr[data-id=%q]`, id)
	w.click(row, "Drain")
	w.becomes("it asks", 2*time.Second, `document.querySelector("dialog[open]")`)
	w.click("dialog", "Drain")
	w.becomes("the worker drains", 4*time.Second, fmt.Sprintf(`document.querySelector(%q + " .chip").textContent === "draining"`, row))
	w.click(row, "Undrain")
	w.click("dialog", "Undrain")
	w.becomes("the worker is back", 4*time.Second, fmt.Sprintf(`document.querySelector(%q + " .chip").textContent === "ready"`, row))
	w.quiet("draining")
}

func TestADecisionOpensAndARequestIsCancelledOnThePage(t *testing.T) {
	s := startSimulated(t, 2)
	for i := range 3 {
		if status, _, err := s.ask(t.Context(), map[string]any{"model": simModel, "max_tokens": 5, "messages": []map[string]string{{"role": "user", "content": strings.Repeat("the same words ", 100)}}}, "X-Request-Id", fmt.Sprint("asked-", i)); status != http.StatusOK {
			t.Fatal(status, err)
		}
	}
	b := startBrowser(t)
	b.window(1280, "light")
	w := s.open(t, b, "why")
	w.becomes("the decisions are listed", 5*time.Second, `document.querySelectorAll("#part-why tbody:last-of-type tr[data-id]").length >= 3`)
	w.click("#part-why", "asked-2")
	w.becomes("it opens", 5*time.Second, `document.querySelectorAll("dialog .panel").length >= 5 && document.querySelectorAll("dialog .stack").length >= 3`)
	if said := w.text("dialog .verdict"); !strings.Contains(said, "prompt tokens warm") || !strings.Contains(said, "engine time") {
		t.Errorf("the decision reads %q", said)
	}
	w.click("dialog", "Close")
	ended := make(chan string, 1)
	go func() {
		_, answer, err := s.ask(t.Context(), map[string]any{"model": simModel, "stream": true, "max_tokens": 8000, "ignore_eos": true, "messages": []map[string]string{{"role": "user", "content": "for ever"}}}, "X-Request-Id", "endless")
		ended <- fmt.Sprint(answer, err)
	}()
	w.becomes("it is inside", 6*time.Second, `document.querySelector('#part-why tr[data-id="endless"] button.danger')`)
	of := func(worker string) { // the filter, as if it had been typed
		w.evaluate(fmt.Sprintf(`(() => { const f = [...document.querySelectorAll("#part-why label")].find((l) => l.textContent === "Worker").querySelector("input"); f.value = %q; f.dispatchEvent(new Event("change")); })()`, worker), nil)
	}
	of("nobody's")
	w.becomes("the filter holds for decisions and for what is inside", 6*time.Second, `document.querySelectorAll("#part-why tr[data-id]").length === 0`)
	of("0.0.1:")
	w.becomes("a part of a worker's name will do", 6*time.Second, `document.querySelectorAll("#part-why tr[data-id]").length >= 4`)
	of("")
	w.click(`#part-why tr[data-id="endless"]`, "Cancel")
	w.click("dialog", "Cancel the request")
	select {
	case said := <-ended:
		if !strings.Contains(said, "cancelled by an operator") {
			t.Errorf("its client read %.300q", said)
		}
	case <-time.After(5 * time.Second):
		t.Error("the request goes on")
	}
	w.evaluate(`location.hash = "why/no-such-request"`, nil)
	w.becomes("what is not kept is said", 5*time.Second, `document.querySelector("dialog")?.textContent.includes("warmpath explain --id no-such-request")`)
	w.said = nil // the browser tells of the 404
}

// Clients write ids: one for several requests, one that looks like a filter, one that is half an escape.
func TestOddIDsOfRequestsBreakNothingOnThePage(t *testing.T) {
	s := startSimulated(t, 2)
	ids := []string{"twice", "__proto__=x", "worker=w1", "50%", "$(reboot)", "a/../b", "twice"}
	for _, id := range ids {
		if status, _, err := s.ask(t.Context(), map[string]any{"model": simModel, "max_tokens": 5, "messages": []map[string]string{{"role": "user", "content": id}}}, "X-Request-Id", id); status != http.StatusOK {
			t.Fatal(status, err)
		}
	}
	b := startBrowser(t)
	b.window(1280, "light")
	w := s.open(t, b, "why/50%")
	shut := func() {
		w.click("dialog", "Close")
		w.becomes("it is closed", 5*time.Second, `!document.querySelector("dialog")`)
	}
	w.becomes("an address that is no escape is a request's id", 5*time.Second, `document.querySelector("dialog")?.textContent.includes("tokens warm") || document.querySelector("dialog .verdict")`)
	shut()
	w.becomes("each request has a line", 5*time.Second, fmt.Sprintf(`document.querySelectorAll("#part-why tbody:last-of-type tr[data-id]").length >= %d && document.querySelectorAll('#part-why tr[data-id="twice"]').length === 2`, len(ids)))
	for _, id := range ids[1:6] {
		w.click("#part-why", id)
		w.becomes(id+" opens", 5*time.Second, `document.querySelector("dialog .verdict")`)
		shut()
	}
	var polluted bool
	if w.evaluate(`({}).value !== undefined`, &polluted); polluted {
		t.Error("an id has changed what all objects have")
	}
	w.quiet("with odd ids")
	w.evaluate(`location.hash = "why/" + encodeURIComponent("$(reboot)'s")`, nil)
	w.becomes("what is copied is one word", 5*time.Second, `document.querySelector("dialog")?.textContent.includes("explain --id '$(reboot)'\\''s' --log")`)
	w.said = nil // the browser tells of the 404
}

func TestTheSecondTurnOfThePlaygroundIsWarm(t *testing.T) {
	s := startSimulated(t, 3)
	b := startBrowser(t)
	b.window(1280, "dark")
	w := s.open(t, b, "try")
	w.becomes("a model is chosen", 5*time.Second, `document.querySelector("#part-try input[list]").value !== ""`)
	for turn, text := range []string{strings.Repeat("a long first question about everything ", 30), "and the second"} {
		w.evaluate(fmt.Sprintf(`document.querySelector("#try-text").value = %q`, text), nil)
		w.click("#part-try", "Send")
		w.becomes("the answer streams", 10*time.Second, fmt.Sprintf(`document.querySelectorAll("#part-try .turn:not(.user)").length === %d && document.querySelectorAll("#part-try .turn")[%d].textContent.length > 20`, turn+1, 2*turn+1))
		w.becomes("its decision is shown", 15*time.Second, fmt.Sprintf(`document.querySelector("#part-try .panel h3 a")?.textContent.endsWith("-%d")`, turn+1))
	}
	if facts := w.text("#part-try .panel .facts"); !strings.Contains(facts, "hit") {
		t.Errorf("the second turn's decision reads %q", facts)
	}
	w.evaluate(`document.querySelector("#try-text").value = "what if"`, nil)
	w.click("#part-try", "Explain without sending")
	w.becomes("it is explained", 5*time.Second, `document.querySelector("#part-try .panel h3").textContent === "It would be placed" && document.querySelectorAll("#part-try .stack").length >= 3`)
	w.quiet("try")
}

func TestThePageOutlivesARestartOfTheRouter(t *testing.T) {
	s := startSimulated(t, 2)
	b := startBrowser(t)
	b.window(1280, "light")
	w := s.open(t, b, "fleet")
	s.router.stop(t)
	w.becomes("the page says that the router is gone", 8*time.Second, `document.getElementById("link").textContent !== "live"`)
	s.serve(t)
	w.becomes("the page is live again", 10*time.Second, `document.getElementById("link").textContent === "live" && document.querySelectorAll("#part-fleet tbody .chip.good").length === 2`)
}

// Five hundred workers, all of which change each second.
func TestFiveHundredWorkersAreDrawnWithoutStutter(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/v1/models"):
			json.NewEncoder(out).Encode(map[string]any{"object": "list", "data": []any{map[string]any{"id": "m", "object": "model", "owned_by": "vllm", "max_model_len": 8192}}})
		case strings.HasSuffix(r.URL.Path, "/metrics"):
			out.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(out, "vllm:num_requests_running{model_name=\"m\"} %d\nvllm:num_requests_waiting{model_name=\"m\"} %d\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.%02d\n", time.Now().UnixNano()%9, time.Now().UnixNano()%7, time.Now().UnixNano()%97)
		case strings.HasSuffix(r.URL.Path, "/version"):
			fmt.Fprint(out, `{"version":"0.11.0"}`)
		default:
			http.NotFound(out, r)
		}
	}))
	defer engine.Close()
	s := &simulated{}
	listen, admin := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	s.data, s.admin = "http://"+listen, "http://"+admin
	config := "workers:\n"
	for i := range 500 {
		config += fmt.Sprintf("  - {url: \"%s/%d\", id: worker-%03d}\n", engine.URL, i, i)
	}
	file := filepath.Join(t.TempDir(), "many.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.flags = []string{"serve", "--config", file, "--listen", listen, "--admin", admin, "--state-dir", t.TempDir(), "--events", "off"}
	s.serve(t)
	b := startBrowser(t)
	b.window(1280, "light")
	w := s.open(t, b, "fleet")
	w.becomes("all workers are there", 20*time.Second, `document.querySelectorAll("#part-fleet tbody tr").length === 500`)
	var frames struct{ Median, Worst, Frames float64 }
	w.evaluate(`new Promise((done) => {
		const took = [], until = performance.now() + 6000, channel = new MessageChannel();
		let began;
		channel.port1.onmessage = () => { // after style, layout and paint of the frame
			took.push(performance.now() - began);
			if (performance.now() < until) requestAnimationFrame(step);
			else { took.sort((a, b) => a - b); done({median: took[took.length >> 1], worst: took.at(-1), frames: took.length}); }
		};
		const step = () => { began = performance.now(); channel.port2.postMessage(0); };
		requestAnimationFrame(step);
	})`, &frames)
	t.Logf("%.0f frames, median %.1f ms, worst %.1f ms", frames.Frames, frames.Median, frames.Worst)
	if frames.Median >= 16 {
		t.Errorf("a frame takes %.1f ms at the median", frames.Median)
	}
	w.quiet("500 workers")
}
