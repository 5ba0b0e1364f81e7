// The line to the router: one stream of snapshots, taken up again when it breaks, also over a restart of the router.

const listeners = new Set(), linkListeners = new Set();
let source, state = {workers: new Map()}, last = 0, retry = 0, timer;

const tellLink = (kind, text) => { for (const f of linkListeners) f(kind, text); };

// apply takes a snapshot in: the first one has all workers, those after it what changed.
function apply(s) {
  const workers = s.whole ? new Map() : new Map(state.workers);
  for (const w of s.rows || []) workers.set(w.id, w);
  for (const id of s.gone || []) workers.delete(id);
  state = {...s.head, workers, states: s.head.states || {}, counts: s.head.workers || {}};
  last = Date.now();
  retry = 0;
  tellLink("live", "live");
  for (const f of listeners) f(state);
}

function connect() {
  clearTimeout(timer);
  source?.close();
  source = new EventSource("events");
  source.addEventListener("snapshot", (e) => apply(JSON.parse(e.data)));
  source.onerror = () => {
    source?.close();
    tellLink(last && Date.now() - last > 5000 ? "lost" : "waiting", last ? "the router does not answer; trying again" : "connecting");
    timer = setTimeout(connect, Math.min(500 * 2 ** retry++, 5000));
  };
}

// rest gives the connection up. Browsers have six to one address: pages in the background, and those that were left and may be come back
// to, must not hold them.
function rest() {
  clearTimeout(timer);
  source?.close();
  source = undefined;
}

export const live = {
  start() {
    connect();
    addEventListener("pagehide", rest);
    addEventListener("pageshow", (e) => { if (e.persisted) connect(); });
    document.addEventListener("visibilitychange", () => document.hidden ? rest() : connect());
    // A connection that is there and says nothing (a router that hangs, a laptop that slept) is told of, and made anew.
    setInterval(() => {
      if (!source || !last || Date.now() - last < 5000) return;
      tellLink("lost", "no word for " + Math.round((Date.now() - last) / 1000) + " s");
      if (source?.readyState === EventSource.OPEN && Date.now() - last > 10000) connect();
    }, 1000);
  },
  on(f) {
    listeners.add(f);
    if (last) f(state);
  },
  onLink(f) { linkListeners.add(f); },
  get state() { return state; },
};
