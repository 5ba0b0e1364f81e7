// Fleet: a row for each worker, changed in place. 500 of them stay smooth because a cell is only touched when its text changes, and because
// rows are changed a hundred at a time, between frames.
import {el, set, put, tile, count, exactly, time, percent, facts, dialog, confirm, toast, bytes, clock, ago, none} from "./dom.js";
import {live} from "./live.js";
import {ask, every} from "./ask.js";

// latelySeconds are those of the snapshot's lately.
const latelySeconds = 30;
const kinds = {ready: "good", unknown: "", draining: "warn", probing: "warn", loading: "warn", ejected: "bad", down: "bad"};

// Columns: what a cell says, by which value it sorts, and what its head means.
const columns = [
  {id: "id", name: "Worker", text: true, by: (w) => w.id},
  {id: "state", name: "State", text: true, by: (w) => w.state, about: "With the reason, where it gets no requests"},
  {id: "engine", name: "Engine", text: true, by: (w) => w.engine, say: (w) => w.engine || none},
  {id: "mode", name: "Caches", text: true, by: (w) => w.mode, say: (w) => w.mode || "load only", about: "How what it has cached is known: exact, engine-side or assumed; why no better stands in the worker's own window"},
  {id: "inflight", name: "In flight", by: (w) => w.inflight_requests, say: (w) => count(w.inflight_requests), about: "Requests of this router there now"},
  {id: "tokens", name: "Tokens", by: (w) => w.inflight_tokens, say: (w) => count(w.inflight_tokens), about: "Tokens of their contexts"},
  {id: "owed", name: "Owed", by: (w) => w.queued_seconds, say: (w) => time(w.queued_seconds), about: "How long a new request waits there before its own prefill", share: (w) => w.queued_seconds / 2, colour: "var(--c4)"},
  {id: "kv", name: "KV memory", by: (w) => w.kv_usage, say: (w) => percent(w.kv_usage), about: "Share of its KV cache in use, as the engine says", share: (w) => w.kv_usage, colour: "var(--c3)"},
  {id: "waiting", name: "Queue there", by: (w) => w.engine_waiting, say: (w) => w.engine_waiting === undefined ? none : count(w.engine_waiting), about: "Requests that wait inside the engine"},
  {id: "hits", name: "Hit rate", by: (w) => w.hit_rate, say: (w) => percent(w.hit_rate), about: "Prompt tokens of the last half minute that it reports as cached", share: (w) => w.hit_rate, colour: "var(--c2)"},
  {id: "trust", name: "Trust", by: (w) => w.trust, say: (w) => percent(w.trust), about: "Share of what its cache events foretold that came true"},
  {id: "rate", name: "Tokens/s", by: (w) => w.completion_tokens_per_second, say: (w) => count(w.completion_tokens_per_second), about: "Generated, over the last half minute"},
  {id: "errors", name: "Fails/s", by: (w) => w.failed_per_second, say: (w) => count(w.failed_per_second), about: "Requests that failed there, over the last half minute"},
];

// cellClass has the column, so that narrow windows leave the least important ones out.
const cellClass = (c) => "col-" + c.id + (c.text ? " text" : "");

let section, table, body, rows = new Map(), sort = {by: columns[0], up: true}, filter = "", queue = new Set(), scheduled = false;
const tiles = {
  ready: tile("Workers ready"), inside: tile("Inside", "Requests inside this router, those that wait too"), waiting: tile("Waiting here", "In this router's queue, for room on a worker"),
  rate: tile("Requests/s"), hits: tile("Hit rate", "Prompt tokens that were cached where they went, of all"), reach: tile("Of reachable", "Of the cached tokens that any worker had"),
  ttft: tile("First token, p99"), tokens: tile("Tokens/s"),
};
const verdict = el("p", {class: "verdict", "aria-live": "off"});

export const fleet = {
  draw(into) {
    section = into;
    body = el("tbody");
    const head = el("tr", {}, columns.map((c) => {
      c.head = el("th", {scope: "col", class: cellClass(c), title: c.about}, el("button", {type: "button", onclick: () => sortBy(c)}, c.name));
      return c.head;
    }), el("th", {scope: "col"}, el("span", {class: "away"}, "Actions")));
    const search = el("input", {type: "search", "aria-label": "Filter workers", placeholder: "Filter by name, state, engine, pool, model  ( / )", oninput: () => { filter = search.value.toLowerCase(); arrange(); }});
    put(section, verdict, el("dl", {class: "tiles"}, Object.values(tiles).map((t) => t.node)), el("div", {class: "bar"}, el("label", {class: "grow"}, search)),
      el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "Workers"}, table = el("table", {class: "fleet"}, el("caption", {class: "away"}, "Workers, one a row"),
        el("colgroup", {}, columns.map((c) => el("col", {class: "col-" + c.id})), el("col", {class: "col-act"})), el("thead", {}, head), body)));
    mark();
    live.on(update);
  },
};

function sortBy(c) {
  sort = {by: c, up: sort.by === c ? !sort.up : c.text};
  mark();
  arrange();
}

function mark() {
  for (const c of columns) {
    if (c === sort.by) c.head.setAttribute("aria-sort", sort.up ? "ascending" : "descending");
    else c.head.removeAttribute("aria-sort");
  }
}

function update(s) {
  headline(s);
  document.body.classList.toggle("many", s.workers.size > 64);
  let came = false;
  for (const [id, row] of rows) {
    if (!s.workers.has(id)) {
      row.node.remove();
      rows.delete(id);
      came = true;
    }
  }
  table.classList.toggle("reasons", [...s.workers.values()].some((w) => w.why));
  for (const [id, w] of s.workers) {
    let row = rows.get(id);
    if (!row) {
      rows.set(id, row = make(id));
      came = true;
    }
    if (row.of !== w) {
      row.of = w;
      queue.add(row);
    }
  }
  if (came) arrange();
  if (!scheduled && queue.size) {
    scheduled = true;
    requestAnimationFrame(work);
  }
}

// work changes a hundred rows, and leaves the rest to the next frames.
function work() {
  let left = 100;
  for (const row of queue) {
    queue.delete(row);
    fill(row);
    if (--left === 0) break;
  }
  scheduled = queue.size > 0;
  if (scheduled) requestAnimationFrame(work);
}

function make(id) {
  const row = {cells: {}};
  row.node = el("tr", {"data-id": id}, columns.map((c) => {
    let cell;
    if (c.id === "id") {
      row.name = el("button", {type: "button", class: "plain", onclick: () => show(id)}, id);
      return el("th", {scope: "row"}, row.name);
    }
    if (c.id === "state") cell = el("span", {class: "chip"});
    else if (c.share) cell = el("b");
    else cell = el("span");
    row.cells[c.id] = cell;
    const holder = c.share ? el("span", {class: "meter", "--meter": c.colour}, row[c.id + "Bar"] = el("i"), cell) : cell;
    return el("td", {class: cellClass(c)}, holder, c.id === "state" && (row.why = el("small", {class: "reason"})));
  }), el("td", {}, row.act = el("button", {type: "button", class: "small", onclick: () => act(row.of)}, "Drain")));
  return row;
}

function fill(row) {
  const w = row.of;
  for (const c of columns) {
    if (c.id === "id") continue;
    const cell = row.cells[c.id];
    if (c.id === "state") {
      set(cell, w.state);
      const kind = "chip " + (kinds[w.state] || "");
      if (cell.className !== kind) cell.className = kind;
      const reason = w.why || "";
      set(row.why, reason);
      if (row.why.title !== reason) row.why.title = reason;
      continue;
    }
    set(cell, c.say(w));
    if (c.share) {
      const share = Math.min(Math.max(c.share(w) || 0, 0), 1).toFixed(2);
      if (row[c.id + "Share"] !== share) row[c.id + "Bar"].style.setProperty("--share", row[c.id + "Share"] = share);
    }
  }
  set(row.act, w.state === "draining" ? "Undrain" : "Drain");
}

// arrange puts rows in order, and those that the filter leaves out away.
function arrange() {
  const list = [...rows.values()].filter((r) => r.of && (!filter || [r.of.id, r.of.state, r.of.engine, r.of.mode, ...(r.of.pools || []), ...(r.of.models || [])].join(" ").toLowerCase().includes(filter)));
  const sign = sort.up ? 1 : -1, by = sort.by.by;
  list.sort((a, b) => {
    const x = by(a.of) ?? -1, y = by(b.of) ?? -1;
    return x < y ? -sign : x > y ? sign : a.of.id.localeCompare(b.of.id, undefined, {numeric: true});
  });
  const there = [...body.children];
  if (there.length !== list.length || list.some((r, i) => there[i] !== r.node)) put(body, list.map((r) => r.node));
  if (!list.length) put(body, el("tr", {}, el("td", {colspan: columns.length + 1}, rows.size ? "No worker matches the filter." : "There are no workers yet. Add one: warmpath serve --worker URL, or POST /workers.")));
}

function headline(s) {
  const n = s.lately || {}, all = s.workers.size, ready = s.counts.ready || 0, bad = (s.counts.ejected || 0) + (s.counts.down || 0);
  const rate = (name) => n[name] === undefined ? undefined : n[name] / latelySeconds, failed = n["outcome.failed"] / n.requests;
  tiles.ready.give(ready + " of " + all, bad ? bad + " out" : "", bad ? "bad" : "");
  tiles.inside.give(exactly(s.inside || 0), Object.entries(s.states).filter(([, v]) => v).map(([k, v]) => v + " " + k).join(", "));
  tiles.waiting.give(exactly(s.queue?.waiting ?? 0), s.queue?.waiting ? "oldest " + time(Math.max(...s.queue.classes.map((c) => c.oldest_seconds))) : "");
  tiles.rate.give(count(rate("requests")), failed > 0 ? percent(failed, 1) + " failed" : "", failed > .01 ? "bad" : "");
  tiles.hits.give(percent(n["hit_rate.reported"] ?? n["hit_rate.predicted"]), n["hit_rate.reported"] === undefined ? "foretold" : "as engines report");
  tiles.reach.give(percent(n["tokens.cached_reachable"] ? Math.min(n["tokens.cached_reported"] / n["tokens.cached_reachable"], 1) : undefined), "of " + count(n["tokens.cached_reachable"]) + " tokens");
  tiles.ttft.give(time(n["ttft_seconds.all.p99"]), n["ttft_seconds.all.p50"] === undefined ? "" : "half within " + time(n["ttft_seconds.all.p50"]));
  tiles.tokens.give(count(rate("tokens.completion")), "generated");
  set(verdict, sentence(n, ready, all, bad));
}

// sentence says whether the fleet does useful work, or computes again what it knew.
function sentence(n, ready, all, bad) {
  if (!all) return "There is no worker yet.";
  if (!ready) return "No worker is ready: requests wait or are refused.";
  const out = bad ? ` ${bad} of ${all} workers are out.` : "";
  if (!n["tokens.cached_known"]) return (n.requests ? "No engine has reported what it had cached in the last half minute." : "Nothing was asked in the last half minute.") + out;
  const share = percent(n["hit_rate.reported"]), reachable = n["tokens.cached_reachable"], again = 1 - n["tokens.cached_reported"] / reachable;
  if (!reachable) return "All prompts of the last half minute are new: no worker had any of them." + out;
  const first = `${share} of the prompt tokens of the last half minute were warm where they went`;
  if (!(again >= .02)) return `${first}: nearly all that any worker had.${out}`;
  return `${first}. ${percent(again)} of what some worker had was computed again` + (n["hit.declined"] ? `; ${exactly(n["hit.declined"])} hits were declined: going where they were would have cost more than it saves.` : ".") + out;
}

async function act(w) {
  const back = w.state === "draining";
  const asked = back ? "It gets requests again, and what it has cached still counts."
    : "New requests go elsewhere; those without a byte of an answer are placed again. Streams run to their end. Nothing is lost.";
  if (!await confirm((back ? "Undrain " : "Drain ") + w.id + "?", asked, back ? "Undrain" : "Drain", !back)) return;
  try {
    await ask("workers/" + encodeURIComponent(w.id) + (back ? "/undrain" : "/drain"), {method: "POST"});
    toast(w.id + (back ? " takes requests again" : " drains: its running answers go on"));
  } catch (e) { toast(e.message); }
}

// show opens a worker's own window, which is brought up to date while it is open.
function show(id) {
  const holder = el("div", {class: "rows spaced"}), look = every(1, async () => {
    try { put(holder, whole(await ask("workers/" + encodeURIComponent(id)), close)); } catch (e) { put(holder, el("p", {class: "bad"}, e.message)); }
  });
  const close = dialog(id, holder, {closed: () => look.stop()});
  look.start();
}

function whole(w, close) {
  const c = w.cache || {}, t = c.truth || {};
  return [
    facts(["State", w.state + (w.draining ? ": " + w.draining : "")], ["Out", w.out && w.out.why + "; " + (new Date(w.out.until) > new Date() ? "tried again at " + clock(w.out.until) : "it is tried now")],
      ["Coming back", w.slow_start === undefined ? "" : "it may have " + percent(w.slow_start) + " of its part as yet"], ["Last fault", w.last_fault && w.last_fault.kind + ", " + ago(w.last_fault.at)], ["Address", w.url], ["Named by", w.source],
      ["Engine", (w.engine || "unknown") + " " + (w.version || "")], ["Models", (w.models || []).join(", ")], ["Pools and labels", [...(w.pools || []), ...(w.labels || [])].join(", ")],
      ["Longest context", w.context_max ? count(w.context_max) + " tokens" : ""], ["Batch slots", w.slots_max || ""],
      ["In flight", count(w.inflight_requests) + " requests, " + count(w.inflight_tokens) + " tokens" + (w.inflight_max ? ", at most " + w.inflight_max + " requests" : "")], ["Owed", time(w.queued_seconds) + " before a new prefill"],
      ["KV cache", (w.kv_tokens_max ? count(w.kv_tokens_max) + " tokens" : "size unknown") + (w.kv_usage === undefined ? "" : ", " + percent(w.kv_usage) + " in use")],
      ["Telemetry", w.telemetry + (w.telemetry_age_seconds ? ", " + time(w.telemetry_age_seconds) + " old" : "") + (w.signals_missing ? "; not told: " + w.signals_missing.join(", ") : "")],
      ["Others' requests there", w.foreign_running + w.foreign_waiting ? w.foreign_running + " running, " + w.foreign_waiting + " waiting" : ""],
      ["GPU", w.gpu_usage === undefined ? "" : percent(w.gpu_usage) + " busy" + (w.gpu_memory === undefined ? "" : ", memory " + percent(w.gpu_memory))],
      ["Speed", w.speed ? w.speed.toFixed(2) + " times its kind's, from " + count(w.prefills_learned) + " prefills" : ""], ["Assumed to be cached", w.assumed_cache_bytes_max ? bytes(w.assumed_cache_bytes) + " of text, of " + bytes(w.assumed_cache_bytes_max) : ""]),
    el("div", {class: "panel"}, el("h3", {}, "How its cache is known: " + (c.mode || "not at all, it goes by load")), c.why && el("p", {}, c.why),
      facts(["Cache events", c.events && c.events + (c.events_lag_seconds === undefined ? "" : ", up to " + time(c.events_lag_seconds) + " late in the last minute")], ["From", c.source], ["Trouble", c.error], ["Trust", t.trust === undefined ? "" : percent(t.trust) + ", from " + count(t.compared_requests) + " answers, " + count(t.right_requests) + " right to the block"],
        ["Foretold less reported", t.bias_tokens === undefined ? "" : exactly(Math.round(t.bias_tokens)) + " tokens on the mean"])),
    el("div", {class: "acts"}, el("a", {href: "#why/worker=" + encodeURIComponent(w.id), onclick: () => close()}, "What it was sent lately"), el("button", {type: "button", onclick: () => act(w)}, w.state === "draining" ? "Undrain" : "Drain")),
  ];
}
