// Making and changing elements, and how figures are written. Text from the router is only ever set as text, never as markup.

// el makes an element: el("button", {class: "main", onclick: f}, "Send").
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
  return node;
}

// set changes a node's text, and touches nothing when it is the same: that is what keeps 500 workers smooth.
export function set(node, text) {
  text = String(text);
  if (node.textContent !== text) node.textContent = text;
}

export function put(node, ...children) { node.replaceChildren(...children.flat().filter((c) => c !== undefined && c !== null && c !== false)); }

const whole = new Intl.NumberFormat("en-US");
export const none = "–", minus = "−";

// count is a number as people say it: 812, 4,300, 12.4 k, 3.1 M.
export function count(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return none;
  if (n < 0) return minus + count(-n);
  const a = n;
  if (a >= 1e9) return (n / 1e9).toFixed(a >= 1e10 ? 0 : 1) + " G";
  if (a >= 1e6) return (n / 1e6).toFixed(a >= 1e7 ? 0 : 1) + " M";
  if (a >= 1e4) return (n / 1e3).toFixed(a >= 1e5 ? 0 : 1) + " k";
  if (a >= 10 || Number.isInteger(n)) return whole.format(Math.round(n));
  return a >= 1 ? n.toFixed(1) : n === 0 ? "0" : n.toFixed(2);
}

// exactly writes a whole number in full.
export const exactly = (n) => n === undefined || n === null ? none : n < 0 ? minus + whole.format(-n) : whole.format(n);

// time is a span given in seconds: 820 µs, 45 ms, 2.31 s, 4 min 12 s, 3 h 5 min, 2 d 4 h.
export function time(s) {
  if (s === undefined || s === null || Number.isNaN(s)) return none;
  if (s < 0) return minus + time(-s);
  const a = s;
  if (a === 0) return "0 s";
  if (a < 1e-3) return Math.round(s * 1e6) + " µs";
  if (a < .0995) return (s * 1e3).toFixed(a < .00995 ? 1 : 0) + " ms";
  if (a < 1) return Math.round(s * 1e3) + " ms";
  if (a < 100) return s.toFixed(a < 10 ? 2 : 1) + " s";
  if (a < 3600) return Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
  if (a < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
}

export const percent = (share, digits = 0) => share === undefined || share === null || Number.isNaN(share) ? none : (share * 100).toFixed(digits) + " %";

export function bytes(n) {
  if (n === undefined || n === null) return none;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

export const money = (n) => n === undefined || n === null ? none : n < .01 ? n.toPrecision(2) : n.toFixed(2);

export function ago(stamp) {
  const s = (Date.now() - new Date(stamp).getTime()) / 1000;
  return s < 1 ? "just now" : time(s < 100 ? Math.round(s) : s).replace(/\.\d+/, "") + " ago";
}

// clock and moment are local times, as 14:40:40 and 2026-11-30 14:40:40: Swedish is the language that writes them so.
export const clock = (stamp) => new Date(stamp).toLocaleTimeString("sv-SE");
export const moment = (stamp) => new Date(stamp).toLocaleString("sv-SE");

// facts is a list of names and values; those without a value are left out.
export function facts(...pairs) {
  const list = el("dl", {class: "facts"});
  for (const [name, value] of pairs) {
    if (value === undefined || value === null || value === "" || value === none) continue;
    list.append(el("dt", {}, name), el("dd", {}, value));
  }
  return list;
}

// tile is one headline figure; give(text, note) changes it.
export function tile(name, title) {
  const value = el("dd", {}, none), note = el("dd", {class: "note"});
  const node = el("div", {class: "tile", title}, el("dt", {}, name), value, note);
  return {node, give(text, more = "", kind = "") { set(value, text); set(note, more); value.className = kind; }};
}

// copied is a text beside a button that copies it.
export function copied(text, label = "Copy") {
  const button = el("button", {type: "button", class: "small", onclick: async () => {
    try { await navigator.clipboard.writeText(text); set(button, "Copied"); } catch { getSelection().selectAllChildren(pre); set(button, "Selected"); }
    setTimeout(() => set(button, label), 1500);
  }}, label);
  const pre = el("pre", {tabindex: 0}, text);
  return el("div", {class: "copy"}, pre, button);
}

export function toast(text) {
  const line = el("p", {}, text);
  document.getElementById("toast").append(line);
  setTimeout(() => line.remove(), 6000);
}

let dialogs = 0;

// dialog opens a window above the page. What it returns closes it.
export function dialog(title, body, options = {}) {
  const close = () => box.close(), id = "dialog-" + ++dialogs;
  const box = el("dialog", {class: options.small ? "small" : null, "aria-labelledby": id},
    el("div", {class: "head"}, el("h2", {id}, title), el("button", {type: "button", class: "small", onclick: close}, "Close")),
    el("div", {class: "body"}, body));
  box.addEventListener("close", () => { box.remove(); options.closed?.(); });
  box.addEventListener("click", (e) => { if (e.target === box) close(); });
  document.body.append(box);
  box.showModal();
  return close;
}

// confirm asks before something is changed.
export function confirm(title, text, act, danger = false) {
  return new Promise((done) => {
    let said = false;
    const button = el("button", {type: "button", class: danger ? "danger" : "main", onclick: () => { said = true; close(); }}, act);
    const close = dialog(title, [el("p", {}, text), el("div", {class: "acts"}, el("button", {type: "button", onclick: () => close()}, "Leave it"), button)],
      {small: true, closed: () => done(said)});
    button.focus();
  });
}
