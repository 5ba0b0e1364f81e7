// Curves over time, drawn by uPlot in the page's own colours. A legend below says the values under the pointer, or the newest ones, so that
// no value is in the picture alone.
import {el, set, clock, none} from "./dom.js";

const charts = new Set();
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// chart makes a figure of some curves: {caption, note, say, curves: [{name, colour: "--c1", dash}], stacked, top}.
// give(times, columns) has new values; times are Unix seconds, a value that is not known is null.
export function chart(o) {
  const legend = o.curves.map((c) => {
    const value = el("b", {}, none);
    return {value, node: el("li", {}, el("i", {"--of": `var(${c.colour})`, class: c.dash ? "dashed" : null}), c.name + " ", value)};
  });
  const note = el("small", {}, o.note || ""), plot = el("div", {class: "plot", role: "img", "aria-label": o.caption});
  const node = el("figure", {}, el("figcaption", {}, o.caption, note), plot, el("ul", {class: "legend"}, legend.map((l) => l.node)));
  let u, data = [[], ...o.curves.map(() => [])];

  const tell = (at) => {
    const i = at ?? data[0].length - 1;
    o.curves.forEach((c, j) => set(legend[j].value, i < 0 || data[j + 1][i] === null || data[j + 1][i] === undefined ? none : o.say(data[j + 1][i])));
    set(note, at === undefined || at === null ? o.note || "" : clock(data[0][at] * 1000));
  };
  const build = () => {
    u?.destroy();
    const axis = {stroke: colour("--soft"), grid: {stroke: colour("--line"), width: 1}, ticks: {stroke: colour("--line"), size: 4}, font: "12px system-ui, sans-serif"};
    u = new uPlot({
      width: Math.max(plot.clientWidth, 120), height: Math.max(plot.clientHeight, 120), padding: [10, 30, 0, 0], legend: {show: false}, cursor: {sync: {key: "warmpath"}, y: false, points: {size: 7}},
      scales: {x: {time: true}, y: {range: (_, low, high) => [0, o.top ?? (high > 0 ? high * 1.08 : 1)]}},
      axes: [{...axis, size: 28, values: [[3600, "{HH}:{mm}"], [60, "{HH}:{mm}"], [1, "{HH}:{mm}:{ss}"]]}, {...axis, size: 62, values: (_, marks) => marks.map((v) => o.say(v))}],
      series: [{}, ...o.curves.map((c) => ({label: c.name, stroke: colour(c.colour), width: 1.75, dash: c.dash, spanGaps: false, points: {show: false}, fill: o.filled ? colour(c.colour) + "22" : undefined}))],
      hooks: {setCursor: [(self) => tell(self.cursor.idx)]},
    }, data, plot);
  };
  const resize = new ResizeObserver(() => u && plot.clientWidth && u.setSize({width: plot.clientWidth, height: plot.clientHeight}));
  resize.observe(plot);
  const own = {node, give(times, columns) {
    data = [times, ...columns];
    if (u) u.setData(data);
    else if (plot.clientWidth) build();
    if (!u || u.cursor.idx === null || u.cursor.idx === undefined) tell();
    plot.setAttribute("aria-label", o.caption + ", newest: " + o.curves.map((c, j) => c.name + " " + legend[j].value.textContent).join(", "));
  }, rebuild() { if (u) build(); }};
  charts.add(own);
  return own;
}

addEventListener("warmpath-theme", () => { for (const c of charts) c.rebuild(); });

// stack draws parts of a whole as lengths beside each other: parts are [{name, value, colour}], whole is what fills the line.
export function stack(parts, whole, say) {
  const text = parts.filter((p) => p.value > 0).map((p) => p.name + " " + say(p.value)).join(", ");
  return el("div", {class: "stack", role: "img", "aria-label": text || "nothing", title: text},
    parts.map((p) => { const i = el("i", {"--of": `var(${p.colour})`}); i.style.width = Math.max(0, p.value) / Math.max(whole, 1e-12) * 100 + "%"; return i; }));
}

// key is the legend of stacks.
export const key = (parts) => el("ul", {class: "legend"}, parts.map((p) => el("li", {title: p.about}, el("i", {"--of": `var(${p.colour})`}), p.name)));

