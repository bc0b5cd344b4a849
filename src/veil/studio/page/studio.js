// The shell of the page: tabs, requests, the shared state, and the events that the server sends.
import { authorization, enter, onSession } from "./session.js";
import { follow } from "./events.js";
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
    this.answer = answer;
    this.defects = answer.defects || [];
  }
}

async function api(method, path, body) {
  const options = { method, headers: authorization() };
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

let text = "", name = "", timer = null, saving = Promise.resolve();
let unsaved = false, edition = 0; // the newest text of the server that the page knows; what is older comes late, and is left out
let sending = null; // the text that the server has been sent and has not answered
let theirs = null; // what another tab wrote while this one was typing, until the user has decided
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
  adopt,
  notice,
  show,
  look(run) { emit("look", run); },
  refresh,
};

// Keep the text now; resolves once the server has it. One request follows the other, since each names the edition it changes.
function save() {
  clearTimeout(timer);
  timer = null;
  return (saving = saving.then(put));
}

async function put() {
  if (!unsaved || theirs) return;
  const sent = (sending = text);
  try {
    const answer = await api("PUT", "/api/scenario", { text, edition });
    edition = Math.max(edition, answer.edition);
    if (sent === text) unsaved = false;
  } catch (error) {
    if (error.status !== 409) return notice(error.message);
    if (error.answer.scenario === text) return adopt({ ...error.answer, text });
    showConflict(error.answer);
  } finally { sending = null; }
}

// Another tab has changed the scenario that was edited here: neither text is lost before the user has chosen.
const conflict = document.getElementById("conflict");
function showConflict(answer) {
  theirs = answer;
  conflict.hidden = false;
}
function decide(mine) {
  const found = theirs;
  theirs = null;
  conflict.hidden = true;
  if (mine) {
    edition = Math.max(edition, found.edition);
    unsaved = true;
    save();
  } else {
    adopt({ ...found, text: found.scenario });
    refresh().catch((error) => notice(error.message));
  }
}
document.getElementById("keep-mine").addEventListener("click", () => decide(true));
document.getElementById("take-theirs").addEventListener("click", () => decide(false));

// Take a text that the server has: nothing is left to save.
function adopt(answer) {
  clearTimeout(timer);
  timer = null;
  unsaved = false;
  edition = answer.edition;
  named(answer.name);
  if (answer.text === text) return;
  text = answer.text;
  emit("scenario", text);
}

function notice(words) { document.getElementById("notice").textContent = words; }

function named(given) {
  name = given;
  document.getElementById("name").textContent = name;
  document.title = `${name} – veil studio`;
}

// `begins`: the page has just connected; what it did not save while the server was away goes first.
function receive(state, begins) {
  if (theirs) {
    if (state.edition >= theirs.edition) theirs = state;
    return;
  }
  if (unsaved) { if (begins) save(); return; }
  named(state.name);
  if (!begins && state.edition <= edition) return;
  adopt({ ...state, text: state.scenario });
}

async function refresh() {
  const before = edition, state = await api("GET", "/api/state");
  if (edition === before) receive(state, true); // else it comes late: a newer one was opened or saved meanwhile
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

const told = {
  scenario: (state) => receive(state),
  run: (run) => { runs.set(run.id, run); emit("run", run); },
  gone: ({ id }) => { runs.delete(id); emit("gone", id); },
};
function listen() {
  follow({
    opened: () => connected(true),
    closed: (status) => (status === 403 ? notice(CLOSED) : connected(false)),
    event: (kind, data) => told[kind]?.(data),
  });
}
const CLOSED = "This page has not been let in, or the studio was started again. Open the newest link that veil studio printed in the terminal; what is not saved here stays.";

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
  if (unsaved && !theirs) fetch("/api/scenario", { method: "PUT", keepalive: true, headers: { ...authorization(), "Content-Type": "application/json" }, body: JSON.stringify({ text, edition, over: sending }) });
});

begin();
async function begin() {
  try {
    await enter();
    show(location.hash.slice(1) || "draw");
    for (const [pane, module] of Object.entries(PANES)) module.start(document.getElementById(`pane-${pane}`), studio);
    emit("pane", studio.pane);
    listen();
    await refresh();
    document.body.dataset.ready = "yes";
  } catch (error) {
    notice(error.status === 403 ? CLOSED : error.message);
    onSession(() => location.reload());
  }
}
