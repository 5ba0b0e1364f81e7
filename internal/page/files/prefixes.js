// Prefixes: what many requests begin with, where it is cached, and what it is worth.
import {el, set, put, tile, count, exactly, time, bytes, percent, ago, dialog, facts} from "./dom.js";
import {ask, every} from "./ask.js";

let list, empty, order = "cached";
const poll = every(5, load);
const tiles = {shared: tile("Prefixes kept"), index: tile("Assumed caches"), blocks: tile("Blocks"), events: tile("Told by engines"), evictions: tile("Put out")};

export const prefixes = {
  draw(section) {
    list = el("tbody");
    empty = el("p", {class: "soft"});
    const by = el("select", {onchange: () => { order = by.value; poll.soon(); }}, [["cached", "tokens that did not have to be computed"], ["requests", "requests"], ["tokens", "length"], ["last", "seen last"]].map(([v, n]) => el("option", {value: v}, n)));
    put(section, el("dl", {class: "tiles"}, Object.values(tiles).map((t) => t.node)), el("div", {class: "bar"}, el("label", {}, "Most first by", by)), empty, el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "Hottest prefixes"}, el("table", {}, el("caption", {class: "away"}, "Hottest prefixes, the most saved first"),
      el("thead", {}, el("tr", {}, [["Prefix", "text"], ["Tokens", ""], ["Requests", ""], ["A minute", ""], ["Saved", "", "Prefill that its being cached saved"], ["Copies", "", "Workers that have it now"], ["They take", "", "Tokens of KV cache"], ["Evicted, a minute", "", "Prefill that would be needed more each minute if no worker had it"], ["Seen last", ""]].map(([h, c, about]) => el("th", {scope: "col", class: c || null, title: about}, h)))), list)));
  },
  shown() { poll.start(); },
  left() { poll.stop(); },
};

async function load() {
  let found, state;
  try { [found, state] = await Promise.all([ask("prefixes?limit=100&sort=" + order), ask("state")]); } catch (e) { set(empty, e.message); return; }
  const all = found.prefixes || [];
  tiles.shared.give(exactly(found.tracked), "of at most " + exactly(found.tracked_max));
  tiles.index.give(percent(state.index.bytes / state.index.bytes_max), bytes(state.index.bytes) + " of " + bytes(state.index.bytes_max));
  tiles.blocks.give(count(state.index.blocks), "in the prefix index");
  tiles.events.give(count(state.event_index.blocks), bytes(state.event_index.bytes) + " of " + bytes(state.event_index.bytes_max));
  tiles.evictions.give(count(state.index.evictions + state.event_index.evicted), count(state.index.evictions_for_bound + state.event_index.evicted) + " of them to keep the bounds");
  set(empty, all.length ? "" : "No beginning is shared by three requests yet; by two: " + exactly(found.tracked) + ".");
  put(list, all.map((p) => el("tr", {}, el("th", {scope: "row"}, el("button", {type: "button", class: "plain mono", title: p.key, onclick: () => show(p, found.show_text)}, p.text ? p.text.slice(0, 48) : p.key)), el("td", {}, count(p.tokens)), el("td", {}, count(p.requests)),
    el("td", {}, count(p.requests_per_minute)), el("td", {}, time(p.seconds_saved)), el("td", {title: p.holders.join(", ")}, exactly(p.copies)), el("td", {}, count(p.copy_tokens)), el("td", {}, time(p.eviction_seconds_per_minute)), el("td", {}, ago(p.last)))));
}

function show(p, textKept) {
  dialog("Prefix " + p.key, [facts(["Length", `${exactly(p.tokens)} tokens in ${exactly(p.blocks)} blocks, ${bytes(p.bytes)} of text`], ["Model", p.model], ["Requests", count(p.requests) + ", " + count(p.requests_per_minute) + " a minute" + (p.requests_per_minute_error > .05 ? ", perhaps " + count(p.requests_per_minute_error) + " fewer" : "")],
    ["Saved", time(p.seconds_saved) + " of prefill, " + count(p.cached_tokens) + " tokens"], ["Computing it anew takes", time(p.prefill_seconds)], ["Copies", p.copies ? exactly(p.copies) + ", together " + count(p.copy_tokens) + " tokens of KV cache" : "none any more"],
    ["On workers", p.holders.join(", ") + (p.holders_told ? `, ${exactly(p.holders_told)} of them by their own word` : "")], ["If it were evicted everywhere", time(p.eviction_seconds_per_minute) + " of prefill more a minute"], ["First seen", ago(p.first)], ["Last seen", ago(p.last)]),
  p.text ? el("pre", {tabindex: 0}, p.text) : el("p", {class: "soft"}, textKept ? "Its text was not seen since it is kept." : "Its text is not kept: the name is a hash of the content under this installation's secret. The setting dash.show_text keeps the beginnings of texts.")]);
}
