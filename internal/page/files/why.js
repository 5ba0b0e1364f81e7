// Why: what was decided lately, for which request, and what came of it; what is inside now, and can be cancelled.
import {el, set, put, count, exactly, time, money, facts, dialog, confirm, toast, clock, moment, ago, none, copied} from "./dom.js";
import {stack, key} from "./charts.js";
import {ask, every} from "./ask.js";

const ended = {succeeded: "good", incomplete: "warn", cancelled: "warn", client_error: "warn", busy: "warn", failed: "bad", no_worker: "bad"};
const hits = {hit: "good", partial: "warn", declined: "warn", miss: ""};

// Parts of a score, in the order in which they add up.
const terms = [
  {name: "wait", of: ["queued_seconds", "wait_price_seconds", "toll_seconds"], colour: "--c4", about: "prefills queued there and room, what that costs others, and the toll"},
  {name: "prefill", of: ["prefill_seconds"], colour: "--c1", about: "of this prompt, as far as it is not cached there"},
  {name: "delay of others", of: ["delay"], colour: "--c5", about: "what its prefill costs those that decode there"},
  {name: "decode", of: ["decode_seconds"], colour: "--c2", about: "generating the expected answer in that batch"},
  {name: "batch", of: ["batch_seconds"], colour: "--c6", about: "what its presence costs the others of the batch"},
  {name: "displaced", of: ["displaced_seconds"], colour: "--c3", about: "what is computed again because this takes its place in the cache"},
];
const part = (row, t) => t.of.reduce((sum, name) => sum + (name === "delay" ? (row.price || 0) * (row.delay_seconds || 0) : row[name] || 0), 0);

const shown = 100; // decisions

let list, running, filter = {}, fields = {}, empty, more;
const poll = every(2, load);

export const why = {
  draw(section) {
    const field = (name, label, node) => {
      fields[name] = node;
      node.addEventListener("change", () => choose(name, node.value));
      return el("label", {}, label, node);
    };
    const options = (names) => [el("option", {value: ""}, "any"), ...names.map((n) => el("option", {}, n))];
    list = el("tbody");
    running = el("tbody");
    empty = el("p", {class: "soft"});
    put(section,
      el("div", {class: "bar"}, el("label", {class: "grow"}, "Request id", fields.id = el("input", {type: "search", placeholder: "X-Request-Id of an answer, or its beginning  ( / )", onkeydown: (e) => { if (e.key === "Enter" && fields.id.value.trim()) location.hash = "why/" + encodeURIComponent(fields.id.value.trim()); }})),
        field("worker", "Worker", el("input", {size: 14})), field("tenant", "Tenant", el("input", {size: 12})), field("model", "Model", el("input", {size: 12})),
        field("outcome", "Outcome", el("select", {}, options(Object.keys(ended)))), field("hit", "Prefix", el("select", {}, options(Object.keys(hits))))),
      el("h2", {}, "Inside now"), el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "Requests inside now"}, el("table", {}, el("caption", {class: "away"}, "Requests inside now"),
        el("thead", {}, el("tr", {}, ["Request", "State", "Worker", "Model", "Tenant", "Age", "Tokens", ""].map((h, i) => el("th", {scope: "col", class: i > 0 && i < 5 ? "text" : null}, h || el("span", {class: "away"}, "Actions"))))), running)),
      el("h2", {}, "Decided lately"), empty, el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "Decisions"}, el("table", {}, el("caption", {class: "away"}, "Decisions, newest first"),
        el("thead", {}, el("tr", {}, ["Request", "When", "Worker", "Prefix", "Outcome", "Why there", "Prompt", "Cached", "First token", "All"].map((h, i) => el("th", {scope: "col", class: i < 6 ? "text" : null}, h)))), list)),
      more = el("p", {class: "soft"}));
  },
  // shown is told what follows the part's name in the address: a request's id, or worker=ID. Of an id no = is left as it is.
  shown(rest) {
    const [name, value] = rest.split(/=(.*)/s);
    if (value !== undefined && Object.hasOwn(fields, name)) {
      fields[name].value = readable(value);
      filter = {[name]: readable(value)};
    } else if (rest) open(readable(rest));
    poll.start();
    poll.soon();
  },
  left() { poll.stop(); },
};

// readable is a part of an address, which anybody may have written.
function readable(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function choose(name, value) {
  if (value) filter[name] = value;
  else delete filter[name];
  poll.soon();
}

// look asks for what the filter leaves; one that is under way has no outcome and no hit. A part of a worker's name stands for all that have it,
// unless a worker is called just so, whose requests alone are asked for.
async function look() {
  const {worker, ...others} = filter, {outcome, hit, ...alike} = others;
  const both = (limits, more) => Promise.all([ask("decisions?" + new URLSearchParams({...others, ...more, limit: limits[0]})), ask("requests?" + new URLSearchParams({...alike, ...more, limit: limits[1]}))]);
  const found = await both([shown, 50], worker ? {worker} : {});
  if (!worker || found[0].decisions?.length || found[1].requests?.length) return found;
  const [decided, inside] = await both([1000, 1000], {}), named = (r) => (r.worker || "").includes(worker), all = (decided.decisions || []).filter(named);
  return [{...decided, decisions: all.slice(0, shown), more: all.length > shown}, {requests: (inside.requests || []).filter(named).slice(0, 50)}];
}

async function load() {
  let decided, inside;
  try { [decided, inside] = await look(); } catch (e) { set(empty, e.message); return; }
  const decisions = decided.decisions || [];
  set(empty, decisions.length ? "" : Object.keys(filter).length ? "None of the last " + exactly(decided.kept) + " decisions is like that." : "Nothing was decided yet. Send something: the part Try it does.");
  set(more, decided.more ? "The newest " + shown + " of " + exactly(decided.kept) + " that are kept." : "");
  rows(list, decisions, line);
  rows(running, inside.requests || [], busy);
  if (!(inside.requests || []).length) put(running, el("tr", {}, el("td", {colspan: 8, class: "soft"}, Object.keys(filter).length ? "Nothing like that is under way." : "Nothing is under way.")));
}

// rows keeps lines of requests that were there before, so that what is focused or selected stays. Several requests may have one id.
function rows(body, all, make) {
  const had = new Map([...body.children].filter((n) => n.of).map((n) => [n.of, n]));
  put(body, all.map((r) => {
    const of = String(r.number ?? r.id + " " + r.started), known = had.get(of), node = make(r, known);
    had.delete(of);
    node.of = of;
    return node;
  }));
}

const name = (id) => el("button", {type: "button", class: "plain mono short", title: id, onclick: () => { location.hash = "why/" + encodeURIComponent(id); }}, id);
const chip = (text, kind) => el("span", {class: "chip " + (kind || "")}, text);

function line(d, had) {
  if (had) return had;
  return el("tr", {"data-id": d.id}, el("th", {scope: "row"}, name(d.id)), el("td", {class: "text", title: d.time}, clock(d.time)), el("td", {class: "text"}, d.worker || none), el("td", {class: "text"}, d.hit ? chip(d.hit, hits[d.hit]) : none),
    el("td", {class: "text"}, chip(d.outcome, ended[d.outcome])), el("td", {class: "text", title: d.reason}, shorten(d.reason || d.refused || d.error || "", 60)), el("td", {}, count(d.prompt_tokens)), el("td", {title: d.cached_tokens === undefined ? "foretold; the engine does not tell" : "as the engine reports"}, count(d.cached_tokens ?? d.cached_tokens_est)),
    el("td", {}, time(d.ttft_seconds)), el("td", {}, time(d.e2e_seconds)));
}

function busy(r, had) {
  const node = had || el("tr", {"data-id": r.id}, el("th", {scope: "row"}, name(r.id)), ...Array.from({length: 4}, () => el("td", {class: "text"})), el("td"), el("td"),
    el("td", {}, el("button", {type: "button", class: "small danger", onclick: () => cancel(r.id)}, "Cancel")));
  const state = r.state + (r.state === "waiting" && r.position ? ", place " + r.position + (r.wait_seconds_expected !== undefined ? ", " + time(r.wait_seconds_expected) + " to go" : "") : "");
  [state, r.worker || none, r.model || none, r.tenant || none, time(r.age_seconds), r.tokens ? count(r.tokens) : none].forEach((text, i) => set(node.children[i + 1], text));
  return node;
}

const shorten = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

async function cancel(id) {
  if (!await confirm("Cancel " + id + "?", "Its client gets an error in its dialect, or, where part of the answer went out, an error event and the end of the stream. The engine stops working on it.", "Cancel the request", true)) return;
  try {
    await ask("requests/" + encodeURIComponent(id), {method: "DELETE"});
    toast(id + " is cancelled");
    poll.soon();
  } catch (e) { toast(e.message); }
}

// open shows one request whole.
async function open(id) {
  const body = el("div", {class: "rows spaced"}, el("p", {class: "soft"}, "Looking for it …"));
  dialog(id, body, {closed: () => { if (location.hash.startsWith("#why/")) history.replaceState(null, "", "#why"); }});
  let d;
  try { d = whole(await ask("decisions/" + encodeURIComponent(id))); } catch (e) {
    put(body, el("p", {}, e.message), el("p", {class: "soft"}, "The page remembers the last requests only. With --decision-log FILE all are kept, and the command finds them:"), copied("warmpath explain --id " + word(id) + " --log FILE"));
    return;
  }
  const title = body.closest("dialog")?.querySelector("h2");
  if (title && d.id) set(title, d.id); // it may have been sought by its beginning
  put(body, explained(d));
}

// word is a text as one word of a shell: an id is whatever a client wrote.
const word = (text) => /^[\w.:@%+,-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";

// whole is a decision as it is shown: its record, and what was foretold against what came.
export const whole = (found) => found.record ? {...found.record, timeline: found.timeline, compared: found.compared} : {...found.in_flight?.[0]};

// explained is the whole of one decision, of a request that was or would be.
export function explained(d) {
  return [
    el("p", {class: "verdict"}, sentence(d)),
    el("div", {class: "two"}, panel("1. Model", facts(["Asked for", d.asked || d.model], ["Chosen", d.model], ["Why", d.model_reason], ["Candidates", (d.model_rows || []).join("\n")])),
      panel("2. Pool", facts(["Pool", d.pool || "any worker"], ["Why", d.pool_why || "there are no pools"], ["Class", d.class_why ? `${d.class}: ${d.class_why}` : d.class], ["Tenant", d.tenant])),
      panel("3. Worker", facts(["Worker", d.worker], ["Policy", d.policy], ["Prefix", d.hit], ["Filter lifted", d.relaxed], ["Tried before", (d.tries || []).map((t) => `${t.worker}: ${t.class}${t.status ? " " + t.status : ""}`).join(", ")])),
      panel("Foretold and what came", compared(d))),
    scores(d.rows || []), timeline(d), d.error && panel("What went wrong", el("p", {}, d.error)),
    el("details", {}, el("summary", {}, "The whole record"), el("pre", {class: "scroll", tabindex: 0}, JSON.stringify(d, null, 2))),
  ].filter(Boolean);
}

// sentence says why it went where it did.
function sentence(d) {
  const [first, ...others] = d.rows || [], next = others.find((r) => !r.why), prompt = d.metered ? d.prompt_tokens : d.prompt_tokens_est;
  if (!d.worker || !first || first.why) return d.error || d.refused || d.reason || "It is under way.";
  const warm = first.matched_tokens ? `had ${count(first.matched_tokens)}${prompt ? " of " + count(prompt) : ""} prompt tokens warm` : "had none of the prompt warm";
  let text = `${first.worker} ${warm} and would cost ${time(first.total_seconds)} of engine time, its own and others'`;
  if (next && d.reason?.startsWith(asGood + "by chance")) text += `, as good as the ${time(next.total_seconds)} of ${next.worker}: chance decided`;
  else if (next) text += next.total_seconds >= first.total_seconds ? `, ${time(next.total_seconds - first.total_seconds)} less than the next, ${next.worker}` : than(d, first, next);
  if (d.hit === "declined") text += ". " + declined(d, first, others);
  return text + (d.reason && !d.reason.startsWith("least cost") && !d.reason.startsWith(asGood) ? ". " + d.reason[0].toUpperCase() + d.reason.slice(1) : "") + ".";
}

const asGood = "as good as the least, ";

// than says why a worker was chosen beside one that would have cost less.
function than(d, first, next) {
  if (d.reason?.startsWith(asGood)) return `. That is as good as the ${time(next.total_seconds)} of ${next.worker}, ${d.reason.slice(asGood.length).replace(/, with a longer match declined$/, "")}`;
  return `; ${next.worker} would have cost ${time(first.total_seconds - next.total_seconds)} less, but the policy goes by another rule`;
}

// declined names what spoke most against the worker that had more of the prompt.
function declined(d, first, others) {
  const text = count(d.best_matched_tokens) + " tokens were warm ", warm = others.find((r) => r.matched_tokens === d.best_matched_tokens);
  if (!warm) return text + "elsewhere, on none of the workers that came close";
  if (warm.why) return text + `on ${warm.worker}, which a filter put out: ${warm.why}`;
  const more = warm.total_seconds - first.total_seconds;
  if (!(more > 0)) return text + `on ${warm.worker}, which would have cost no more: the policy goes by another rule`;
  const most = terms.map((t) => ({name: t.name, by: part(warm, t) - part(first, t)})).reduce((a, b) => b.by > a.by ? b : a);
  return text + `on ${warm.worker}, which would have cost ${time(more)} more, most of all by ${most.name} (${time(most.by)} more)`;
}

const panel = (title, ...body) => el("div", {class: "panel"}, el("h3", {}, title), ...body);

function compared(d) {
  const c = d.compared || {}, prompt = d.prompt_tokens_est ?? d.prompt_tokens, expected = d.output_tokens_est;
  const both = (p, foretold, say, unit = "") => p ? say(p.predicted) + unit + " foretold, " + say(p.actual) + unit + " came" : foretold === undefined ? "" : say(foretold) + unit + " foretold";
  return facts(["Prompt", both(c.prompt_tokens, prompt, count, " tokens")],
    ["Cached there", both(c.cached_tokens, d.cached_tokens_est ?? 0, count, " tokens") + (c.cached_tokens || !d.outcome ? "" : "; the engine does not tell")],
    ["Best anywhere", d.best_matched_tokens ? count(d.best_matched_tokens) + " tokens" : ""], ["Prefill", both(c.prefill_seconds, d.prefill_seconds_est, time)],
    ["Decode", both(c.decode_seconds, d.decode_seconds_est, time)], ["Answer", both(c.completion_tokens, expected, count, " tokens") + (d.output_tokens_p90_est ? `, nine of ten within ${count(d.output_tokens_p90_est)}` : "")],
    ["Cost", both(c.money, d.money_est, money)]);
}

function scores(rows) {
  if (!rows.length) return null;
  const totals = rows.map((r) => terms.reduce((sum, t) => sum + part(r, t), 0)), whole = Math.max(...totals, 1e-9);
  return panel("What each worker would have cost, in seconds of engine time: this request's and those of the ones it disturbs", key(terms), el("div", {class: "rows"}, rows.map((r, i) => el("div", {class: "row" + (i === 0 ? " chosen" : "")}, el("span", {title: r.worker}, r.worker + (i === 0 ? " ✓" : "")),
    r.why ? el("span", {class: "soft"}, "left out: " + r.why) : stack(terms.map((t) => ({name: t.name, value: part(r, t), colour: t.colour})), whole, time),
    el("span", {class: "end", title: count(r.matched_tokens || 0) + " tokens cached there"}, r.why ? none : time(r.total_seconds))))),
  el("p", {class: "soft"}, "Chosen first. Cached there: " + rows.filter((r) => !r.why).map((r) => `${r.worker} ${count(r.matched_tokens || 0)}`).join(", ") + " tokens."));
}

function timeline(d) {
  const t = d.timeline;
  if (!t) return null;
  const whole = t.decode_seconds === undefined; // it came in one piece, or not at all
  const spans = [{name: "queue", value: t.queue_seconds, colour: "--c4"}, ...whole ? [] : [{name: "prefill", value: t.prefill_seconds || 0, colour: "--c1"}],
    {name: whole ? "answer" : "decode", value: t.decode_seconds ?? Math.max(t.total_seconds - t.queue_seconds, 0), colour: "--c2"}];
  return panel("How it went, " + time(t.total_seconds) + " in all", key(spans), el("div", {class: "rows"}, el("div", {class: "row"}, el("span", {}, "this request"), stack(spans, t.total_seconds, time), el("span", {class: "end"}, time(t.total_seconds)))),
    facts(["Arrived", d.time && moment(d.time) + ", " + ago(d.time)], ["Decided in", time(d.decision_seconds)], ["Waited for room", d.waited_seconds ? time(d.waited_seconds) : ""], ["First token", !d.ttft_seconds ? "" : d.stream ? "after " + time(d.ttft_seconds) : "the answer came in one piece"],
      ["Between tokens", d.itl_p50_seconds ? time(d.itl_p50_seconds) + ", longest " + time(d.itl_max_seconds) : ""], ["Gave way", d.preempted ? d.preempted + " times, " + time(d.wasted_seconds) + " of engine time in vain" : ""], ["Answered", d.status ? d.status + ", " + d.outcome : d.outcome]));
}
