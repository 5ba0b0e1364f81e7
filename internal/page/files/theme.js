// The theme is set before anything is drawn, so that a dark page does not begin with a white flash.
(() => {
  const kept = (() => { try { return localStorage.getItem("warmpath.theme"); } catch { return null; } })();
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = (name) => { document.documentElement.dataset.theme = name; };
  apply(kept || (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => { if (!kept) apply(system.matches ? "dark" : "light"); });
})();
