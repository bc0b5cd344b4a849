// The shell of the page: tabs, requests, the shared state, and the events that the server sends.
import * as draw from "./draw.js";
import * as plan from "./plan.js";
import * as look from "./look.js";
import * as play from "./play.js";
import * as study from "./study.js";

const PANES = { draw, plan, look, play, study };
const SAVE_MS = 300; // after the last key, the text is kept

const listeners = {};
function emit(event, value) {
  for (const callback of listeners[event] || []) callback(value);
}

export class ApiError extends Error {
  constructor(status, answer) {
    super(answer.error || `the server answered ${status}`);
    this.status = status;
    this.defects = answer.defects || [];
  }
}

async function api(method, path, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    connected(false);
    throw new ApiError(0, { error: "the server does not answer: start veil studio again" });
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, answer);
  return answer;
}

let text = "", name = "", timer = null;
let unsaved = false, edition = 0; // the newest text of the server that the page knows; what is older comes late, and is left out
const runs = new Map();

// What a pane gets. Events: "scenario" (text), "runs" (list), "run" (one run), "gone" (id), "pane" (name), "look" (id of a run), "resize".
const studio = {
  api,
  on(event, callback) { (listeners[event] ||= []).push(callback); },
  get scenario() { return text; },
  set scenario(changed) {
    if (changed === text) return;
    text = changed;
    unsaved = true;
    emit("scenario", text);
    clearTimeout(timer);
    timer = setTimeout(save, SAVE_MS);
  },
  get name() { return name; },
  get runs() { return [...runs.values()]; },
  get pane() { return document.querySelector('[role="tab"][aria-selected="true"]')?.id.slice(4); },
  save,
  notice,
  show,
  look(run) { emit("look", run); },
  refresh,
};

// Keep the text now; resolves once the server has it.
async function save() {
  clearTimeout(timer);
  timer = null;
  const sent = text;
  try {
    const answer = await api("PUT", "/api/scenario", { text });
    edition = Math.max(edition, answer.edition);
    if (sent === text) unsaved = false;
  } catch (error) {
    notice(error.message);
  }
}

function notice(words) { document.getElementById("notice").textContent = words; }

// `begins`: the page has just connected; what it did not save while the server was away goes first.
function receive(state, begins) {
  name = state.name;
  document.getElementById("name").textContent = name;
  document.title = `${name} – veil studio`;
  if (unsaved) { if (begins) save(); return; }
  if (!begins && state.edition <= edition) return;
  edition = state.edition;
  if (state.scenario === text) return;
  text = state.scenario;
  emit("scenario", text);
}

async function refresh() {
  const state = await api("GET", "/api/state");
  receive(state, true);
  runs.clear();
  for (const run of state.runs || []) runs.set(run.id, run);
  emit("runs", studio.runs);
}

let offline = false;
function connected(is) {
  const again = offline;
  // Also the first time: what happened before the page listened was not told.
  if (is) refresh().then(() => { if (again) notice(""); }).catch((error) => notice(error.message));
  if (!is) notice("The server does not answer. Start veil studio again; nothing is lost.");
  offline = !is;
}

function listen() {
  const source = new EventSource("/api/events");
  source.addEventListener("open", () => connected(true));
  source.addEventListener("error", () => {
    connected(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000); // the browser has given up
  });
  source.addEventListener("scenario", (event) => receive(JSON.parse(event.data)));
  source.addEventListener("run", (event) => {
    const run = JSON.parse(event.data);
    runs.set(run.id, run);
    emit("run", run);
  });
  source.addEventListener("gone", (event) => {
    const { id } = JSON.parse(event.data);
    runs.delete(id);
    emit("gone", id);
  });
}

// Tabs: one is reached by Tab, the others by the arrow keys, Home and End.
const tabs = [...document.querySelectorAll('[role="tab"]')];
function show(pane, focus) {
  const chosen = tabs.find((tab) => tab.id === `tab-${pane}`) || tabs[0];
  for (const tab of tabs) {
    const own = tab === chosen;
    tab.setAttribute("aria-selected", own);
    tab.tabIndex = own ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !own;
  }
  if (focus) chosen.focus();
  history.replaceState(null, "", `#${studio.pane}`);
  emit("pane", studio.pane);
}
for (const [number, tab] of tabs.entries()) {
  tab.addEventListener("click", () => show(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: tabs.length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(tabs[(moves[event.key] + tabs.length) % tabs.length].id.slice(4), true);
  });
}

window.addEventListener("resize", () => emit("resize"));
window.addEventListener("pagehide", () => {
  if (unsaved) fetch("/api/scenario", { method: "PUT", keepalive: true, headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text }) });
});

for (const [pane, module] of Object.entries(PANES)) module.start(document.getElementById(`pane-${pane}`), studio);
show(location.hash.slice(1) || "draw");
refresh()
  .then(() => { document.body.dataset.ready = "yes"; listen(); })
  .catch((error) => notice(error.message));
