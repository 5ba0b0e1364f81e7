// What a reader would stumble over, as a list of strings: content wider than the window, small letters, letters that hardly differ from
// what is behind them, labels in one another's way. A figure, a table or a list of links that scrolls within itself may be
// wider, and what is for screen readers alone may lie outside.
(() => {
  const faults = new Set();
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    faults.add(`the page is ${root.scrollWidth} px wide in a window of ${root.clientWidth}`);
  }
  const channels = (colour) => {
    const n = colour.match(/[\d.]+/g).map(Number);
    return { rgb: n.slice(0, 3), alpha: n.length > 3 ? n[3] : 1 };
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor);
      if (c.alpha > 0.99) return c.rgb;
    }
    return [255, 255, 255];
  };
  // WCAG 2: relative luminance and contrast.
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || e.closest("title, style, script")) continue;
    texts++;
    const style = getComputedStyle(e);
    const drawing = e.closest("svg");
    const size = parseFloat(style.fontSize) * (drawing ? e.getScreenCTM().a : 1);
    if (size < 10.99) faults.add(`${size.toFixed(1)} px: ${text.slice(0, 40)}`);
    const ratio = contrast(channels(drawing ? style.fill : style.color).rgb, behind(e));
    if (ratio < 4.5) faults.add(`contrast ${ratio.toFixed(2)}: ${text.slice(0, 40)}`);
    const box = e.getBoundingClientRect();
    if (!e.closest(".wide, nav, .skip, .away") && (box.left < -0.5 || box.right > root.clientWidth + 0.5)) faults.add(`beyond the window's edge: ${text.slice(0, 40)}`);
  }
  for (const drawing of document.querySelectorAll("svg")) {
    const frame = drawing.getBoundingClientRect();
    const boxes = [...drawing.querySelectorAll("text")].map((e) => ({ text: e.textContent, box: e.getBoundingClientRect() }));
    boxes.forEach(({ text, box }, i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        faults.add(`cut off at the drawing's edge: ${text}`);
      }
      for (const o of boxes.slice(i + 1)) {
        const across = Math.min(box.right, o.box.right) - Math.max(box.left, o.box.left);
        const down = Math.min(box.bottom, o.box.bottom) - Math.max(box.top, o.box.top);
        if (across > 1 && down > 3) faults.add(`one over the other: ${text} and ${o.text}`);
      }
    });
  }
  return { width: root.clientWidth, dark: matchMedia("(prefers-color-scheme: dark)").matches, texts, drawings: document.querySelectorAll("svg").length, faults: [...faults] };
})()
