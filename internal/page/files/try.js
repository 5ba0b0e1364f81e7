// Try it: a conversation with a model through the router, with the decision of each turn beside it; or what would become of a prompt,
// without sending it. Requests go the way of every client's, under this port's name, so that no other origin has to be opened to the page.
import {el, set, put, count, time, facts, toast, none} from "./dom.js";
import {ask} from "./ask.js";
import {explained, whole} from "./why.js";

let turns = [], talk, field, model, tokens, key, send, stop, reset, beside, under, session = fresh();

function fresh() { return "try-" + Math.random().toString(36).slice(2, 10); }

export const playground = {
  draw(section) {
    field = el("textarea", {rows: 4, id: "try-text", placeholder: "Say something. Enter sends, Shift+Enter is a new line.", onkeydown: (e) => {
      if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); say(); }
    }});
    model = el("input", {list: "try-models", size: 28});
    tokens = el("input", {type: "number", min: 1, max: 32768, value: 200});
    key = el("input", {type: "text", class: "secret", autocomplete: "off", spellcheck: "false", placeholder: "where clients need one"});
    send = el("button", {type: "button", class: "main", onclick: say}, "Send");
    stop = el("button", {type: "button", disabled: true, onclick: () => under?.abort()}, "Stop");
    reset = el("button", {type: "button", onclick: begin}, "New conversation");
    talk = el("div", {class: "answer", role: "log", "aria-label": "Conversation", tabindex: 0});
    beside = el("div", {class: "panel"}, el("h3", {}, "Its decision"), el("p", {class: "soft"}, "What each turn is decided on appears here. Send a second turn and see it go where the first one is cached."));
    put(section, el("div", {class: "bar"}, el("label", {}, "Model", model, el("datalist", {id: "try-models"})), el("label", {}, "Tokens at most", tokens), el("label", {class: "grow"}, "API key", key)),
      el("div", {class: "two"}, el("div", {class: "rows"}, talk, el("label", {class: "away", for: "try-text"}, "Message"), field,
        el("div", {class: "acts"}, reset, el("button", {type: "button", onclick: explain}, "Explain without sending"), stop, send)), beside));
    begin();
  },
  async shown() {
    try {
      const known = await ask("state");
      const names = [...new Set([...(known.virtual_models || []).map((v) => v.model), ...known.workers.flatMap((w) => w.models || [])])];
      put(document.getElementById("try-models"), names.map((n) => el("option", {value: n})));
      if (!model.value && names.length) model.value = names[0];
    } catch (e) { toast(e.message); }
  },
};

function begin() {
  under?.abort();
  turns = [];
  session = fresh();
  put(talk, el("p", {class: "soft"}, "A new conversation."));
  field.focus();
}

const request = (text) => ({model: model.value, stream: true, max_tokens: Number(tokens.value) || 200, messages: [...turns, {role: "user", content: text}]});
const headers = (id) => ({"Content-Type": "application/json", "X-Session-Id": session, ...(id && {"X-Request-Id": id}), ...(key.value && {"X-Api-Key": key.value})});

async function say() {
  const text = field.value.trim();
  if (!text || under) return;
  field.value = "";
  if (!turns.length) put(talk);
  const id = session + "-" + (turns.length / 2 + 1), body = request(text);
  const answer = el("div", {class: "turn"}), began = performance.now();
  talk.append(el("div", {class: "turn user"}, text), answer);
  under = new AbortController();
  send.disabled = true; stop.disabled = false;
  let said = "", first, worker = "";
  try {
    const reply = await fetch("try/v1/chat/completions", {method: "POST", headers: headers(id), body: JSON.stringify(body), signal: under.signal});
    worker = reply.headers.get("X-Warmpath-Worker") || "";
    if (!reply.ok) throw new Error(await wrong(reply));
    for await (const event of events(reply.body)) {
      if (event.error) throw new Error(event.error.message || "The stream carried an error.");
      const delta = event.choices?.[0]?.delta, piece = (delta?.reasoning_content || "") + (delta?.content || "");
      if (!piece) continue;
      first ??= performance.now();
      said += piece;
      set(answer, said);
      talk.scrollTop = talk.scrollHeight;
    }
    turns.push({role: "user", content: text}, {role: "assistant", content: said});
  } catch (e) {
    answer.append(el("p", {class: "bad"}, e.name === "AbortError" ? "Stopped." : e.message));
    if (!turns.length) field.value ||= text;
  } finally {
    under = undefined;
    send.disabled = false; stop.disabled = true;
  }
  answer.append(el("p", {class: "soft"}, [worker, first && "first token after " + time((first - began) / 1000), "all " + time((performance.now() - began) / 1000)].filter(Boolean).join(" · ")));
  talk.scrollTop = talk.scrollHeight;
  decided(id);
}

async function wrong(reply) {
  const text = await reply.text();
  try { const v = JSON.parse(text); return `${reply.status}: ${v.error?.message || v.message || text}`; } catch { return `${reply.status}: ${text.slice(0, 500)}`; }
}

// events reads the data of server-sent events until [DONE].
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      rest += value;
      const lines = rest.split(/\r?\n/);
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        if (data) yield JSON.parse(data);
      }
    }
  } finally { reader.cancel().catch(() => {}); }
}

// decided shows what the router says of a request that was, as soon as it is settled.
async function decided(id, left = 10) {
  try {
    const d = whole(await ask("decisions/" + encodeURIComponent(id)));
    if (d.outcome) { put(beside, el("h3", {}, "Decision of ", el("a", {href: "#why/" + encodeURIComponent(id)}, id)), short(d), el("div", {class: "rows"}, explained(d))); return; }
  } catch (e) { if (e.status !== 404) { toast(e.message); return; } }
  if (left > 0) setTimeout(() => decided(id, left - 1), 200);
}

const short = (d) => facts(["Worker", d.worker || none], ["Prefix", d.hit], ["Cached there", count(d.cached_reported ? d.cached_tokens ?? 0 : d.cached_tokens_est ?? 0) + " of " + count(d.prompt_tokens ?? d.prompt_tokens_est) + " tokens"], ["First token", d.stream ? time(d.ttft_seconds) : none]);

async function explain() {
  const text = field.value.trim() || "Hello";
  try {
    const o = await ask("explain?path=/v1/chat/completions", {method: "POST", headers: headers(), body: JSON.stringify(request(text))});
    const rows = (o.rows || []).map((r) => ({...r, queued_seconds: r.wait_seconds, price: 1}));
    put(beside, el("h3", {}, "It would be " + o.verdict), explained({...o, rows, prompt_tokens_est: o.prompt?.tokens, cached_tokens_est: o.matched_tokens, best_matched_tokens: o.best_matched_tokens, model_reason: o.choice, model_rows: o.candidates,
      output_tokens_est: o.answer?.expected_tokens, output_tokens_p90_est: o.answer?.p90_tokens, prefill_seconds_est: o.cost?.prefill_seconds, money_est: o.cost?.money}));
  } catch (e) { toast(e.message); }
}
