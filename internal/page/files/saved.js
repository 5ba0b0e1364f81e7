// What it saved: the same traffic as simpler rules would have placed it, worked out beside the real one.
import {el, set, put, count, percent, none, copied} from "./dom.js";
import {stack} from "./charts.js";
import {ask, every} from "./ask.js";

let sentence, bars, table, assumes, cost;
const poll = every(5, load);

export const saved = {
  draw(section) {
    sentence = el("p", {class: "verdict"});
    bars = el("div", {class: "rows"});
    table = el("tbody");
    assumes = el("ul");
    cost = el("p", {class: "soft"});
    put(section, sentence, el("div", {class: "panel"}, el("h3", {}, "Prompt tokens that had to be computed"), bars),
      el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "Ghost fleets"}, el("table", {}, el("caption", {class: "away"}, "This router and the ghosts"),
        el("thead", {}, el("tr", {}, [["Placed by", "text"], ["Prompt tokens", ""], ["Hit rate", ""], ["Prefilled tokens", ""], ["More than here", ""], ["Worker-hours more", ""]].map(([h, c]) => el("th", {scope: "col", class: c || null}, h)))), table)),
      el("div", {class: "panel"}, el("h3", {}, "What this assumes"), assumes, cost),
      el("div", {class: "panel"}, el("h3", {}, "Rules that need service times"), el("p", {}, "What least-requests, least-tokens and the like would have done depends on how long each request takes elsewhere, so that it is not worked out beside the real traffic. A replay of the decision log does it in virtual time:"),
        copied("warmpath replay --log decisions.jsonl --policies all --out replay.html")));
  },
  shown() { poll.start(); },
  left() { poll.stop(); },
};

async function load() {
  let g;
  try { g = (await ask("state")).ghosts; } catch (e) { set(sentence, e.message); return; }
  if (!g) { set(sentence, "Ghost fleets are off (setting ghosts.enabled)."); return; }
  const rows = g.fleets || [];
  set(sentence, rows.length ? "" : "Nothing was placed yet.");
  const most = Math.max(...rows.map((r) => r.prefilled_tokens), 1);
  put(bars, rows.map((r) => el("div", {class: "row"}, el("span", {}, r.policy), stack([{name: "computed", value: r.prefilled_tokens, colour: "--c4"}], most, count), el("span", {class: "end"}, count(r.prefilled_tokens)))));
  put(table, rows.map((r) => el("tr", {}, el("th", {scope: "row"}, r.policy), el("td", {}, count(r.prompt_tokens)), el("td", {}, percent(r.hit_rate, 1)), el("td", {}, count(r.prefilled_tokens)), el("td", {}, none), el("td", {}, none))));
  put(assumes, (g.assumes || []).map((a) => el("li", {}, a)));
  set(cost, "");
}
