// The pane Plan: a form of settings, runs side by side whose numbers move, and the charts that compare them.
import { make } from "../report/make.js";
import { isNumber } from "./numbers.js";
import { makeForm } from "./plan-form.js";
import { makeCard } from "./run-card.js";
import { makeCharts } from "./run-charts.js";

const DRAW_MS = 120; // between two drawings of the charts
const EMPTY =
  "No runs yet. Start one: its bits, return and proven bound appear here while it searches. Several can run at once.";

export function start(root, studio) {
  const area = make("div", { class: "plan" }, root);
  const form = makeForm(make("div", { class: "plan-form" }, area), studio);
  const side = make("div", { class: "plan-runs" }, area);
  const empty = make("p", { class: "note" }, side, EMPTY);
  const charts = makeCharts(make("div", { class: "pair charts", hidden: "" }, side));
  const list = make("div", { class: "runs", role: "list", "aria-label": "Runs" }, side);
  const cards = new Map();
  const moments = new Map(); // of each run, [seconds, bits, return, upper bound]
  let waiting = null;

  async function add(run) {
    cards.set(run.id, makeCard(list, run, studio, form.tell));
    moments.set(run.id, []);
    try {
      const found = await studio.api("GET", `/api/runs/${run.id}`);
      moments.set(run.id, found.moments);
      redraw();
    } catch {
      // it was removed meanwhile
    }
  }
  function update(run) {
    if (!cards.has(run.id)) add(run);
    note(moments.get(run.id), run);
    cards.get(run.id)(run);
    redraw();
  }
  function drop(id) {
    list.querySelector(`[data-run="${CSS.escape(id)}"]`)?.remove();
    cards.delete(id);
    moments.delete(id);
    redraw();
  }
  function redraw() {
    waiting ??= setTimeout(() => {
      waiting = null;
      empty.hidden = studio.runs.length > 0;
      if (studio.pane === "plan") charts(studio.runs, moments);
    }, DRAW_MS);
  }
  studio.on("runs", (runs) => {
    const known = new Set(runs.map((run) => run.id));
    for (const id of [...cards.keys()]) if (!known.has(id)) drop(id);
    runs.forEach(update);
    redraw();
  });
  studio.on("run", update);
  studio.on("gone", drop);
  for (const event of ["pane", "resize"]) studio.on(event, redraw);
}

// Add what a run reports to its moments, once.
function note(rows, run) {
  const last = rows.at(-1);
  if (run.state !== "running" || !isNumber(run.seconds) || !isNumber(run.bits) || last?.[0] === run.seconds) return;
  if (last && last[0] > run.seconds + 1) rows.length = 0; // it was begun anew
  rows.push([run.seconds, run.bits, run.expected_return ?? null, run.proven_upper ?? null]);
}
