// The shell of the page: its panes, the state that they share, and the events that the server sends.
import { api, NOT_LET_IN } from "./api.js";
import * as draw from "./draw.js";
import { follow } from "./events.js";
import * as look from "./look.js";
import * as plan from "./plan.js";
import * as play from "./play.js";
import { Scenario } from "./scenario.js";
import { enter, onSession } from "./session.js";
import * as study from "./study.js";
import { makeTabs } from "./tabs.js";

const PANES = { draw, plan, look, play, study };
const SILENT = "The server does not answer. Start veil studio again; nothing is lost.";

const runs = new Map();
const listeners = {};
const conflict = document.getElementById("conflict");
let fields = null; // settings that the scenario's text gives
let offline = false;

const emit = (event, value) => (listeners[event] || []).forEach((callback) => callback(value));
const notice = (words) => (document.getElementById("notice").textContent = words);
const tabs = makeTabs((pane) => emit("pane", pane));
const scenario = new Scenario({
  changed: (text) => emit("scenario", text),
  renamed,
  notice,
  conflict: (isOpen) => (conflict.hidden = !isOpen),
  refresh: () => refresh().catch((error) => notice(error.message)),
});

// What a pane gets. Events: "scenario" (text), "fields" (settings of the text), "runs" (list), "run" (one run), "gone"
// (id), "pane" (name), "look" (id of a run), "resize".
const studio = {
  api,
  notice,
  on: (event, callback) => (listeners[event] ||= []).push(callback),
  get scenario() {
    return scenario.text;
  },
  set scenario(text) {
    scenario.edit(text);
  },
  get fields() {
    return fields;
  },
  set fields(found) {
    fields = found;
    emit("fields", found);
  },
  get name() {
    return scenario.name;
  },
  get runs() {
    return [...runs.values()];
  },
  get pane() {
    return tabs.pane();
  },
  save: () => scenario.save(),
  adopt: (answer) => scenario.adopt(answer),
  show: tabs.show,
  look: (run) => emit("look", run),
};

function renamed(name) {
  document.getElementById("name").textContent = name;
  document.title = `${name} – veil studio`;
}

async function refresh() {
  const before = scenario.edition;
  const state = await api("GET", "/api/state");
  // Else it comes late: a newer one was opened or saved meanwhile.
  if (scenario.edition === before) scenario.receive(state, true);
  runs.clear();
  for (const run of state.runs || []) runs.set(run.id, run);
  emit("runs", studio.runs);
}

// Also when the page connects first: what happened before it listened was not told.
async function connect() {
  const again = offline;
  offline = false;
  try {
    await refresh();
    if (again) notice("");
  } catch (error) {
    notice(error.message);
  }
}

function disconnect(status) {
  offline = true;
  notice(status === 403 ? NOT_LET_IN : SILENT);
}

const receivers = {
  scenario: (state) => scenario.receive(state),
  run: (run) => {
    runs.set(run.id, run);
    emit("run", run);
  },
  gone: ({ id }) => {
    runs.delete(id);
    emit("gone", id);
  },
};

async function begin() {
  document.getElementById("keep-mine").addEventListener("click", () => scenario.decide(true));
  document.getElementById("take-theirs").addEventListener("click", () => scenario.decide(false));
  window.addEventListener("resize", () => emit("resize"));
  window.addEventListener("pagehide", () => scenario.leave());
  try {
    await enter();
    tabs.show(location.hash.slice(1) || "draw");
    for (const [pane, module] of Object.entries(PANES)) module.start(document.getElementById(`pane-${pane}`), studio);
    emit("pane", studio.pane);
    follow({ opened: connect, closed: disconnect, event: (kind, data) => receivers[kind]?.(data) });
    await refresh();
    document.body.dataset.ready = "yes";
  } catch (error) {
    notice(error.status === 403 ? NOT_LET_IN : error.message);
    onSession(() => location.reload());
  }
}

begin();
