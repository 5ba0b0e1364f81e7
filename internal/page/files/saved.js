// What it saved: the same traffic as simpler rules would have placed it, worked out beside the real one.
import {el, set, put, count, exactly, time, bytes, percent, none, minus, copied} from "./dom.js";
import {stack} from "./charts.js";
import {ask, every} from "./ask.js";

let sentence, bars, table, assumes, cost, span = "last_hour";
const poll = every(5, load);

export const saved = {
  draw(section) {
    sentence = el("p", {class: "verdict"});
    bars = el("div", {class: "rows"});
    table = el("tbody");
    assumes = el("ul");
    cost = el("p", {class: "soft"});
    const choice = el("select", {onchange: () => { span = choice.value; poll.soon(); }}, el("option", {value: "last_hour"}, "the last hour"), el("option", {value: "total"}, "since the start"));
    put(section, sentence, el("div", {class: "bar"}, el("label", {}, "Of", choice)), el("div", {class: "panel"}, el("h3", {}, "Prompt tokens that had to be computed"), bars),
      el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "This router and the ghosts"}, el("table", {}, el("caption", {class: "away"}, "This router and the ghosts"),
        el("thead", {}, el("tr", {}, [["Placed by", "text"], ["Hit rate", ""], ["Prefilled tokens", ""], ["Tokens more than here", ""], ["Prefill takes", ""], ["Time more than here", ""]].map(([h, c]) => el("th", {scope: "col", class: c || null}, h)))), table)),
      el("div", {class: "panel"}, el("h3", {}, "What this assumes"), assumes, cost),
      el("div", {class: "panel"}, el("h3", {}, "Rules that go by load"), el("p", {}, "What least-requests, least-tokens and the like would have done depends on how long each request takes elsewhere, so that it is not worked out beside the traffic. A replay of the decision log does it in virtual time:"),
        copied("warmpath replay --log decisions.jsonl --policies all --out replay.html")));
  },
  shown() { poll.start(); poll.soon(); },
  left() { poll.stop(); },
};

const named = (rule) => ({fleet: "this router", reachable: "reachable (bound)"}[rule] || rule);

async function load() {
  let state;
  try { state = await ask("state"); } catch (e) { set(sentence, e.message); return; }
  const all = (state.ghosts || []).map((g) => ({rule: g.rule, ...g[span]})), about = state.ghosts_about;
  if (!about) { set(sentence, "Ghosts are off (setting ghosts.enabled)."); return; }
  const own = all.find((g) => g.rule === "fleet"), others = all.filter((g) => g.rule !== "fleet" && g.rule !== "reachable");
  set(sentence, told(own, others));
  const most = Math.max(...all.map((g) => g.prefill_tokens), 1);
  put(bars, all.map((g) => el("div", {class: "row" + (g === own ? " chosen" : "")}, el("span", {}, named(g.rule)), stack([{name: "computed", value: g.prefill_tokens, colour: g === own ? "--c2" : g.rule === "reachable" ? "--c8" : "--c4"}], most, count), el("span", {class: "end"}, count(g.prefill_tokens)))));
  put(table, all.map((g) => el("tr", {}, el("th", {scope: "row"}, named(g.rule)), el("td", {}, percent(g.hit_rate, 1)), el("td", {}, count(g.prefill_tokens)), el("td", {}, g.saved_tokens === undefined ? none : count(g.saved_tokens)), el("td", {}, time(g.prefill_seconds)),
    el("td", {}, g.saved_worker_hours === undefined ? none : hours(g.saved_worker_hours)))));
  put(assumes, about.assumes.map((a) => el("li", {}, a)));
  set(cost, `${exactly(Math.round(own?.requests || 0))} requests; ${percent(about.sample_rate)} of their blocks are looked at${about.sample_rate_rising ? ", and soon " + percent(about.sample_rate_rising) + ", for which caches are being warmed" : ""}. It took ${time(about.place_seconds)} of work since the start, and ${bytes(about.bytes)} of at most ${bytes(about.bytes_max)}.` +
    (about.dropped_requests ? ` ${exactly(about.dropped_requests)} requests came too fast to be placed again.` : ""));
}

const hours = (h) => h < 0 ? minus + hours(-h) : h >= 1 ? h.toFixed(1) + " worker-hours" : time(h * 3600) + " of a worker";

// told is the saving in a sentence, against the rule that most fleets have today.
function told(own, others) {
  const round = others.find((g) => g.rule === "round-robin") || others[0];
  if (!own?.requests || !round) return "Nothing was served yet that could be placed again.";
  const best = others.reduce((a, b) => b.prefill_tokens < a.prefill_tokens ? b : a);
  const against = (g) => g.saved_tokens >= 0 ? `${count(g.saved_tokens)} prompt tokens more (${hours(g.saved_worker_hours)})` : `${count(-g.saved_tokens)} prompt tokens fewer`;
  return `For the same requests ${round.rule} would have computed ${against(round)}` + (best === round ? "." : `, and ${best.rule}, the best of the simple rules here, ${against(best)}.`);
}
