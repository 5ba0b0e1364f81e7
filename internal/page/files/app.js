// The page: its parts, the way between them, and the line to the router. Everything comes from this port; nothing is fetched elsewhere.
import {el, set, put, time, dialog} from "./dom.js";
import {live} from "./live.js";
import {fleet} from "./fleet.js";
import {now} from "./now.js";
import {saved} from "./saved.js";
import {why} from "./why.js";
import {prefixes} from "./prefixes.js";
import {playground} from "./try.js";
import {setup} from "./setup.js";

// Each part has a name, draws itself once into its section, and is told when it is looked at and when no more.
const parts = [
  {id: "fleet", name: "Fleet", part: fleet}, {id: "now", name: "Now", part: now}, {id: "saved", name: "What it saved", part: saved},
  {id: "why", name: "Why", part: why}, {id: "prefixes", name: "Prefixes", part: prefixes}, {id: "try", name: "Try it", part: playground},
  {id: "setup", name: "Setup", part: setup},
];

const main = document.getElementById("main"), tabs = document.getElementById("tabs");
let shown;

for (const p of parts) {
  p.link = el("a", {href: "#" + p.id}, p.name);
  p.section = el("section", {id: "part-" + p.id, "aria-label": p.name, hidden: true});
  tabs.append(el("li", {}, p.link));
}
put(main, parts.map((p) => p.section));

// go shows the part that the address names: #why/REQUEST opens one request in it.
function go() {
  const [id, ...rest] = location.hash.slice(1).split("/");
  const next = parts.find((p) => p.id === id) || parts[0];
  if (next !== shown) {
    if (shown) {
      shown.section.hidden = true;
      shown.link.removeAttribute("aria-current");
      shown.part.left?.();
    }
    shown = next;
    next.section.hidden = false;
    next.link.setAttribute("aria-current", "page");
    next.link.scrollIntoView({block: "nearest", inline: "nearest"});
    if (!next.drawn) {
      next.drawn = true;
      next.part.draw(next.section);
    }
    document.title = next.name + " · warmpath";
  }
  next.part.shown?.(rest.join("/"));
}
addEventListener("hashchange", go);

const link = document.getElementById("link"), about = document.getElementById("about");
live.onLink((state, text) => {
  set(link, text);
  link.className = {live: "good", waiting: "warn", lost: "bad"}[state];
  document.body.classList.toggle("stale", state === "lost");
});
live.on((s) => set(about, [s.policy, s.version && "warmpath " + s.version, s.started && "up " + time((Date.now() - new Date(s.started)) / 1000)].filter(Boolean).join(" · ")));

function switchTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("warmpath.theme", next); } catch { /* a browser that keeps nothing goes back to the system's at the next visit */ }
  dispatchEvent(new Event("warmpath-theme"));
}
document.getElementById("theme").addEventListener("click", switchTheme);

const keys = [["1 … 7", "the parts of the page, from the left"], ["/", "to the filter"], ["t", "light or dark"], ["?", "this list"], ["Esc", "closes what is open"]];
const showKeys = () => dialog("Keys", el("dl", {class: "facts"}, keys.flatMap(([k, what]) => [el("dt", {class: "mono"}, k), el("dd", {}, what)])), {small: true});
document.getElementById("keys").addEventListener("click", showKeys);

addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog") || e.target.closest("input, textarea, select")) return;
  const n = Number(e.key);
  if (n >= 1 && n <= parts.length) location.hash = parts[n - 1].id;
  else if (e.key === "t") switchTheme();
  else if (e.key === "?") showKeys();
  else if (e.key === "/") {
    const field = shown.section.querySelector("input[type=search]");
    if (!field) return;
    e.preventDefault();
    field.focus();
  }
});

go();
live.start();
