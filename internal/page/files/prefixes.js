// Prefixes: what many requests begin with, where it is cached, and what it is worth.
import {el, set, put, tile, count, exactly, time, bytes, percent, ago, none, dialog, facts} from "./dom.js";
import {ask, every} from "./ask.js";

let list, empty;
const poll = every(5, load);
const tiles = {shared: tile("Prefixes kept"), index: tile("Assumed caches"), blocks: tile("Blocks"), events: tile("Told by engines"), evictions: tile("Put out")};

export const prefixes = {
  draw(section) {
    list = el("tbody");
    empty = el("p", {class: "soft"});
    put(section, el("dl", {class: "tiles"}, Object.values(tiles).map((t) => t.node)), empty, el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "Hottest prefixes"}, el("table", {}, el("caption", {class: "away"}, "Hottest prefixes, the most saved first"),
      el("thead", {}, el("tr", {}, [["Prefix", "text"], ["Tokens", ""], ["Requests", ""], ["A minute", ""], ["Saved", "", "Seconds of prefill that its being cached saved"], ["Copies", ""], ["If it were evicted", "", "Seconds of prefill a minute"], ["Seen last", ""]].map(([h, c, about]) => el("th", {scope: "col", class: c || null, title: about}, h)))), list)));
  },
  shown() { poll.start(); },
  left() { poll.stop(); },
};

async function load() {
  let found, state;
  try { [found, state] = await Promise.all([ask("prefixes?limit=100"), ask("state")]); } catch (e) { set(empty, e.message); return; }
  const all = found.prefixes || [];
  tiles.shared.give(exactly(found.tracked), "shared by requests");
  tiles.index.give(percent(state.index.bytes / state.index.bytes_max), bytes(state.index.bytes) + " of " + bytes(state.index.bytes_max));
  tiles.blocks.give(count(state.index.blocks), "in the prefix index");
  tiles.events.give(count(state.event_index.blocks), bytes(state.event_index.bytes) + " of " + bytes(state.event_index.bytes_max));
  tiles.evictions.give(count(state.index.evictions + state.event_index.evicted), "to keep the bounds");
  set(empty, all.length ? "" : "No two requests have begun alike yet.");
  put(list, all.map((p) => el("tr", {}, el("th", {scope: "row"}, el("button", {type: "button", class: "plain mono", onclick: () => show(p)}, p.text ? p.text.slice(0, 48) : p.key)), el("td", {}, count(p.tokens)), el("td", {}, count(p.requests)), el("td", {}, count(p.requests_per_minute)),
    el("td", {}, time(p.seconds_saved)), el("td", {title: (p.holders || []).join(", ")}, exactly((p.holders || []).length)), el("td", {}, p.eviction_seconds_per_minute === undefined ? none : time(p.eviction_seconds_per_minute)), el("td", {}, ago(p.last_seen)))));
}

function show(p) {
  dialog("Prefix " + p.key, [facts(["Tokens", exactly(p.tokens)], ["Blocks", exactly(p.blocks)], ["Model", p.model], ["Requests", count(p.requests) + ", " + count(p.requests_per_minute) + " a minute"], ["Saved", time(p.seconds_saved) + " of prefill"],
    ["On workers", (p.holders || []).join(", ") || "none any more"], ["First seen", ago(p.first_seen)], ["Last seen", ago(p.last_seen)]),
  p.text ? el("pre", {tabindex: 0}, p.text) : el("p", {class: "soft"}, "Its text is not kept: the name is a hash of the content under this installation's secret. The setting dash.show_text keeps the beginnings of texts.")]);
}
