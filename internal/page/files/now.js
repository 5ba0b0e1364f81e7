// Now: times, work and queue over the last minutes or the last day, from the router's own series.
import {el, set, put, count, exactly, time, percent} from "./dom.js";
import {chart} from "./charts.js";
import {ask, every} from "./ask.js";

const windows = [["15m", "15 minutes", 5], ["1h", "an hour", 15], ["2h", "2 hours", 30], ["6h", "6 hours", 60], ["24h", "a day", 60]];
const hits = [["all", "--c8"], ["hit", "--c2"], ["partial", "--c1"], ["miss", "--c4"], ["declined", "--c5"]];
const over = (t, column, f = (v) => v) => (t.columns[column] || []).map((v) => v === null ? null : f(v));
const perSecond = (t, column) => over(t, column, (v) => v / t.step_seconds);

// plots: what each chart shows, and how it is made of the table.
const times = (name, group, about) => ({caption: name, say: time, note: about, curves: hits.map(([hit, colour]) => ({name: hit, colour, dash: hit === "all" ? [5, 4] : undefined})),
  of: (t, q) => hits.map(([hit]) => over(t, `${group}.${hit}.${q}`))});
const plots = [
  times("Time to first token", "ttft_seconds"), times("Between tokens", "itl_seconds"),
  {caption: "Until the last token", say: time, curves: [{name: "half", colour: "--c2"}, {name: "90 %", colour: "--c4"}, {name: "99 %", colour: "--c5"}], of: (t) => ["p50", "p90", "p99"].map((q) => over(t, "e2e_seconds." + q))},
  {caption: "Requests a second", say: count, curves: [{name: "ended well", colour: "--c2"}, {name: "client left", colour: "--c4"}, {name: "refused or busy", colour: "--c3"}, {name: "failed", colour: "--c7"}],
    of: (t) => [sum(t, "outcome.succeeded", "outcome.incomplete"), sum(t, "outcome.cancelled"), sum(t, "outcome.client_error", "outcome.busy", "outcome.no_worker"), sum(t, "outcome.failed")]},
  {caption: "Hit rate against what was reachable", say: (v) => percent(v), top: 1, note: "share of prompt tokens", curves: [{name: "reachable", colour: "--c8", dash: [5, 4]}, {name: "foretold", colour: "--c1"}, {name: "reported", colour: "--c2"}],
    of: (t) => ["hit_rate.reachable", "hit_rate.predicted", "hit_rate.reported"].map((c) => over(t, c))},
  {caption: "Where requests found their prefix", say: count, note: "requests a second", curves: hits.slice(1).map(([name, colour]) => ({name, colour})), of: (t) => hits.slice(1).map(([hit]) => perSecond(t, "hit." + hit))},
  {caption: "Prefill", say: count, note: "seconds of engine time, a second", curves: [{name: "done", colour: "--c4"}, {name: "avoided", colour: "--c2"}], of: (t) => [perSecond(t, "prefill_seconds.done"), perSecond(t, "prefill_seconds.avoided")]},
  {caption: "Tokens a second", say: count, curves: [{name: "prompt", colour: "--c1"}, {name: "of these cached", colour: "--c2"}, {name: "generated", colour: "--c5"}], of: (t) => ["tokens.prompt", "tokens.cached_reported", "tokens.completion"].map((c) => perSecond(t, c))},
  {caption: "Inside", say: count, note: "requests, those that wait too", curves: [{name: "mean", colour: "--c1"}, {name: "most", colour: "--c8", dash: [5, 4]}], of: (t) => [over(t, "in_flight.mean"), over(t, "in_flight.max")]},
  {caption: "What choices lost and gained", say: time, note: "a second, against the best other candidate", curves: [{name: "ahead", colour: "--c2"}, {name: "lost", colour: "--c4"}], of: (t) => [perSecond(t, "regret_seconds.ahead"), perSecond(t, "regret_seconds.lost")]},
  {caption: "Trouble", say: count, note: "in each step", curves: [{name: "retries", colour: "--c4"}, {name: "workers put out", colour: "--c7"}], of: (t) => [over(t, "retries"), over(t, "ejections")]},
];

function sum(t, ...columns) {
  return t.time.map((_, i) => columns.reduce((all, c) => all + (t.columns[c]?.[i] || 0), 0) / t.step_seconds);
}

let charts, queues, trouble, regret, queueOf = "", chosen = windows[0], quantile = "p99", tick = every(2, load);

export const now = {
  draw(section) {
    const width = el("select", {onchange: () => { chosen = windows[width.selectedIndex]; load(); }}, windows.map(([, name]) => el("option", {}, name)));
    const part = el("select", {onchange: () => { quantile = part.value; load(); }}, [["p50", "half of them"], ["p90", "nine of ten"], ["p99", "99 of 100"]].map(([v, n]) => el("option", {value: v, selected: v === quantile}, n)));
    charts = plots.map((p) => ({plot: p, chart: chart(p)}));
    queues = el("div", {class: "charts"});
    trouble = el("p", {class: "bad", role: "status"});
    regret = el("summary");
    put(section, el("div", {class: "bar"}, el("label", {}, "The last", width), el("label", {}, "First token and gaps that held for", part)), trouble,
      el("details", {id: "now-regret"}, regret, el("p", {class: "soft"}, about)),
      el("div", {class: "charts"}, charts.map((c) => c.chart.node)), el("h2", {}, "Queue, by class"), queues);
  },
  shown() { tick.start(); tick.soon(); },
  left() { tick.stop(); },
};

// about says what the line on choices is worth.
const about = "Of the streams that end well one in four is looked at again: what its worker came to, in seconds of this request and of those that it disturbs, against what the cheapest other candidate was foretold to cost. " +
  "Ahead less lost is what choosing gained against the next best. Lost alone is no measure of mistakes: by chance a good choice loses now and then, and chance is in both alike. The least of several forecasts is too low on the mean, so that rather more is gained than is told. " +
  "What is gained has two ends where forecasts are off all one way: if those of the chosen workers alone were too good, it is ahead less lost; if those of all were, as when load rises, it is more.";

// regretted says in a line what the choices of the window came to.
function regretted(t) {
  const all = (column) => over(t, column).reduce((n, v) => n + (v || 0), 0), looked = all("regret_requests.looked_at");
  if (!looked) return "No choice of this time was held against what came of it: that takes streams that tell their usage, and another candidate.";
  const beaten = all("regret_requests.beaten"), lost = all("regret_seconds.lost"), ahead = all("regret_seconds.ahead");
  const own = (ahead - lost) / looked, alike = own + (all("regret_cost_seconds.real") - all("regret_cost_seconds.foretold")) / looked, low = Math.min(own, alike), high = Math.max(own, alike);
  return `Of ${exactly(looked)} choices looked at, ${exactly(looked - beaten)} beat the next best worker by ${time(ahead)} in all, and ${exactly(beaten)} fell behind it by ${time(lost)}: ` +
    (low * high > 0 ? `a choice ${low > 0 ? "gained" : "lost"} ${time(Math.min(Math.abs(low), Math.abs(high)))} to ${time(Math.max(Math.abs(low), Math.abs(high)))}.` : "nothing that can be told from chance.");
}

async function load() {
  let t;
  try { t = await ask("series?window=" + chosen[0] + "&step=" + chosen[2] + "s"); } catch (e) { set(trouble, e.message); return; }
  set(trouble, "");
  set(regret, regretted(t));
  for (const c of charts) c.chart.give(t.time, c.plot.of(t, quantile));
  const classes = Object.keys(t.columns).filter((c) => c.startsWith("queue.")).map((c) => c.slice(6));
  if (classes.join() !== queueOf) {
    queueOf = classes.join();
    const curves = classes.map((name, i) => ({name, colour: "--c" + (i % 8 + 1)}));
    queues.charts = [chart({caption: "Waiting for room", say: count, note: "requests", curves}), chart({caption: "How long they waited", say: time, note: "99 of 100", curves})];
    put(queues, queues.charts.map((c) => c.node));
  }
  if (!classes.length) { put(queues, el("p", {class: "soft"}, "Nothing has asked yet, or there is no queue.")); return; }
  queues.charts[0].give(t.time, classes.map((c) => over(t, "queue." + c)));
  queues.charts[1].give(t.time, classes.map((c) => over(t, `queue_wait_seconds.${c}.p99`)));
}
