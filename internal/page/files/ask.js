// Questions to this port.

// ask fetches JSON. An error has the router's own words.
export async function ask(path, options = {}) {
  let reply;
  try { reply = await fetch(path, {cache: "no-store", ...options}); } catch { throw new Error("The router does not answer."); }
  const text = await reply.text();
  let value;
  try { value = text ? JSON.parse(text) : {}; } catch { value = {}; }
  if (!reply.ok) {
    const error = new Error(value.error?.message || "The router answered " + reply.status + ".");
    error.status = reply.status;
    throw error;
  }
  return value;
}

// every asks again and again while the part is looked at, and never twice at once.
export function every(seconds, work) {
  let timer, running = false, on = false;
  const step = async () => {
    if (running || document.hidden) return;
    running = true;
    try { await work(); } finally { running = false; }
  };
  return {
    start() { if (!on) { on = true; step(); timer = setInterval(step, seconds * 1000); } },
    stop() { on = false; clearInterval(timer); },
    soon: step,
  };
}
