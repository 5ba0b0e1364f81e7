// Setup: what could be better and how, the settings in force, how full every bound is.
import {el, set, put, exactly, bytes, percent, time, confirm, toast, copied, facts, ago, none} from "./dom.js";
import {ask, every} from "./ask.js";

const levels = {broken: {chip: "bad", frame: "bad"}, none: {chip: "warn", frame: "warn"}, partly: {chip: "warn"}, unseen: {chip: ""}, full: {chip: "good"}};
let checks, limits, memory, config, source, policy, dry;
const poll = every(5, load);

export const setup = {
  draw(section) {
    checks = el("div", {class: "rows"}, el("p", {class: "soft"}, "Looking …"));
    limits = el("tbody");
    memory = el("div");
    config = el("pre", {class: "scroll", tabindex: 0, "aria-label": "Configuration in force"});
    source = el("div");
    policy = el("select", {"aria-label": "Policy"});
    dry = el("div", {class: "rows", role: "status"});
    put(section, el("h2", {}, "Checks"), checks,
      el("h2", {}, "Bounds, and how full they are"), memory, el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "Bounds"}, el("table", {}, el("caption", {class: "away"}, "Bounds"),
        el("thead", {}, el("tr", {}, [["Bound", "text"], ["In use", ""], ["Limit", ""], ["", ""], ["Refused", ""], ["Setting", "text"]].map(([h, c]) => el("th", {scope: "col", class: c || null}, h || el("span", {class: "away"}, "Share"))))), limits)),
      el("h2", {}, "Policy"), el("div", {class: "bar"}, el("label", {}, "In force until the router stops", policy), el("button", {type: "button", onclick: change}, "Switch")),
      el("h2", {}, "Configuration in force"), source,
      el("div", {class: "bar"}, el("button", {type: "button", onclick: () => reload(true)}, "What would a reload change?"), el("button", {type: "button", onclick: () => reload(false)}, "Reload")), dry, config);
  },
  async shown() {
    poll.start();
    try {
      const reply = await fetch("config", {cache: "no-store"});
      set(config, await reply.text());
      const p = await ask("policy");
      put(policy, p.policies.map((n) => el("option", {selected: n === p.policy}, n)));
    } catch (e) { toast(e.message); }
    look();
  },
  left() { poll.stop(); },
};

// look shows what each worker gives, worst first, the same of several workers together: what is as good as can be by its part, all else by
// what it takes to mend it, so that figures which change each time, as how fast it answered, make no findings of their own.
async function look() {
  let found;
  try { found = await ask("checks"); } catch (e) { put(checks, el("p", {class: "bad"}, e.message)); return; }
  const same = new Map();
  for (const w of found.workers || []) {
    for (const c of w.checks) {
      const key = c.level === "full" ? c.part : [c.level, c.part, c.level === "unseen" && c.found, c.without, c.gain].join("\n"), known = same.get(key) || {...c, workers: [], founds: new Map()};
      same.set(key, known);
      known.workers.push(w.id);
      known.founds.set(c.found, [...(known.founds.get(c.found) || []), w.id]);
    }
  }
  const order = Object.keys(levels), all = [...same.values()].sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  const good = all.filter((c) => c.level === "full"), asked = all.filter((c) => c.level === "unseen"), others = all.filter((c) => c.level !== "full" && c.level !== "unseen");
  const one = (c) => el("div", {class: "panel " + (levels[c.level].frame || "")}, el("div", {}, el("span", {class: "chip " + levels[c.level].chip}, c.level), " ", el("b", {}, c.part), el("span", {class: "soft"}, " · " + names(c.workers))),
    said(c.founds), c.without && el("p", {class: "soft"}, c.without), c.gain && copied(c.gain));
  put(checks, !all.length && el("p", {class: "soft"}, "There is no worker to look at."), others.map(one), [...new Set(asked.map((c) => c.found))].map((why) => unseen(why, asked.filter((c) => c.found === why), found.workers)), all.length > 0 && !others.length && el("p", {class: "good"}, "Every worker gives all that the router can use."),
    good.length > 0 && el("details", {}, el("summary", {}, exactly(good.length) + (good.length === 1 ? " part is" : " parts are") + " as good as can be"), el("div", {class: "rows"}, good.map(one))),
    found.left_out > 0 && el("p", {class: "soft"}, exactly(found.left_out) + " more workers were not looked at: GET /checks?worker=ID does."));
}

// unseen is what could not be seen for one reason. The page sends no requests of its own accord; the doctor does.
function unseen(why, parts, workers) {
  const of = new Set(parts.flatMap((c) => c.workers)), urls = workers.filter((w) => of.has(w.id)).map((w) => w.url);
  return el("div", {class: "panel"}, el("div", {}, el("span", {class: "chip"}, "unseen"), " ", el("b", {}, [...new Set(parts.map((c) => c.part))].join(", ")), el("span", {class: "soft"}, " · " + names([...of]))),
    el("p", {}, why + ". The doctor looks again, and sends each worker a short request:"), copied("warmpath doctor" + urls.slice(0, 8).map((u) => " --worker " + u).join("")));
}

// said is what was found, by worker where it differs.
function said(founds) {
  if (founds.size === 1) return el("p", {}, [...founds.keys()][0]);
  const lines = [...founds].slice(0, 6).map(([found, ids]) => el("li", {}, el("span", {class: "soft"}, names(ids) + ": "), found));
  return el("ul", {}, lines, founds.size > 6 && el("li", {class: "soft"}, "and " + (founds.size - 6) + " more of the kind"));
}

const names = (ids) => ids.length > 6 ? ids.slice(0, 5).join(", ") + " and " + (ids.length - 5) + " more" : ids.join(", ");

async function load() {
  let s;
  try { s = await ask("state"); } catch (e) { return; }
  put(limits, (s.bounds || []).map((b) => {
    const say = b.unit === "bytes" ? bytes : b.unit === "seconds" ? time : exactly, share = b.limit && !b.each ? b.used / b.limit : undefined;
    const meter = el("i");
    if (share !== undefined) meter.style.setProperty("--share", Math.min(share, 1).toFixed(3));
    return el("tr", {}, el("th", {scope: "row"}, b.name.replaceAll("_", " ")), el("td", {}, b.each ? "each" : say(b.used)), el("td", {}, b.limit ? say(b.limit) : "none"),
      el("td", {}, share === undefined ? none : el("span", {class: "meter", "--meter": b.rolls ? "var(--c2)" : share > .9 ? "var(--bad)" : share > .7 ? "var(--warn)" : "var(--c2)"}, meter, el("b", {}, percent(share)))),
      el("td", {class: b.refused && !b.rolls ? "warn" : null}, exactly(b.refused)), el("td", {class: "text mono"}, b.setting || "fixed"));
  }));
  const m = s.memory || {};
  put(memory, facts(["Memory", m.limit ? bytes(m.used) + " of " + bytes(m.limit) + ", by " + m.source : bytes(m.used) + ", no limit"], ["Given back", (m.shed || []).filter((g) => g.times).map((g) => `${g.name} ${g.times} times, ${bytes(g.bytes)}`).join("; ")]),
    m.tight ? el("div", {class: "panel bad"}, "Memory is short: large bodies are refused.") : null);
  const c = s.config || {};
  put(source, facts(["File", c.file || "none: flags and defaults"], ["Loaded", c.loaded && ago(c.loaded) + ", generation " + c.generation], ["Hash", c.hash]),
    c.last_error && el("div", {class: "panel bad"}, el("b", {}, "The last attempt to read it again was refused" + (c.last_error_at ? ", " + ago(c.last_error_at) : "")), el("pre", {}, c.last_error)));
}

async function change() {
  const name = policy.value;
  if (!await confirm("Switch to " + name + "?", "Requests that come from now on are placed by it. Caches, counts and what was learned stay. The setting policy makes it last.", "Switch")) return;
  try { await ask("policy", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({policy: name})}); toast("The policy is " + name); } catch (e) { toast(e.message); }
}

async function reload(only) {
  if (!only && !await confirm("Reload the configuration?", "It is read again and in force whole or not at all. Answers under way go on.", "Reload")) return;
  try {
    const r = await ask("reload" + (only ? "?dry_run=true" : ""), {method: "POST"});
    const changes = r.changes || [];
    put(dry, el("p", {}, changes.length ? (only ? "It would change:" : "Changed:") : only ? "Nothing would change." : "Nothing has changed."), changes.length ? el("pre", {tabindex: 0}, changes.map((c) => `${c.key}: ${c.was} -> ${c.is}${c.needs_restart ? "  (takes a restart)" : ""}`).join("\n")) : null);
    if (!only) setup.shown();
  } catch (e) { put(dry, el("div", {class: "panel bad"}, el("pre", {}, e.message))); }
}
