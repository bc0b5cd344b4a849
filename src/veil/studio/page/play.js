// The pane Play: guess the secret of hidden runs, walk while the observer watches, or be the guard who chooses what to
// ask.
import { make } from "../report/make.js";
import { agentView } from "./play-agent.js";
import { guardView } from "./play-guard.js";
import { observerView } from "./play-observer.js";
import { fillRuns } from "./subjects.js";

const KEPT = "veil-play"; // the game that goes on after the page is loaded again
const VIEWS = { observer: observerView, agent: agentView, guard: guardView };
const INTRO =
  "As the observer you see the observations of a hidden run and guess the secret. As the agent you walk, and the " +
  "observer guesses. As the guard you choose which sensor to ask at each step (scenarios with a [querying] table).";

export function start(root, studio) {
  const bar = make("div", { class: "toolbar" }, root);
  const select = make("select", { "aria-label": "Whose policy" }, bar);
  for (const role of Object.keys(VIEWS)) {
    const button = make(
      "button",
      { type: "button", "data-role": role, "aria-pressed": "false" },
      bar,
      `Be the ${role}`,
    );
    button.addEventListener("click", () => begin(role));
  }
  const told = make("p", { class: "note", role: "status" }, root, INTRO);
  const stage = make("div", { class: "playing" }, root);
  let game = null;
  let show = null;
  let isBusy = false;

  async function begin(role) {
    told.textContent = role === "guard" ? "Looking for a plan to compare with …" : "";
    try {
      if (select.value === "uniform" || role === "guard") await studio.save();
      take(await studio.api("POST", "/api/play", { role, run: select.value }));
      stage.querySelector("[data-first]")?.focus();
    } catch (error) {
      told.textContent = error.message;
    }
  }
  async function act(what, more) {
    if (isBusy) return;
    isBusy = true;
    try {
      update(await studio.api("POST", `/api/play/${game.play}`, { act: what, ...more }));
    } catch (error) {
      told.textContent = error.message;
    } finally {
      isBusy = false;
    }
  }
  async function resume() {
    const kept = localStorage.getItem(KEPT);
    if (!kept || game) return;
    try {
      take(await studio.api("GET", `/api/play/${kept}`));
    } catch {
      localStorage.removeItem(KEPT);
    }
  }
  function take(started) {
    game = started;
    localStorage.setItem(KEPT, game.play);
    for (const button of bar.querySelectorAll("[data-role]"))
      button.setAttribute("aria-pressed", button.dataset.role === game.role);
    stage.replaceChildren();
    const about = make("div", { class: "whole" }, stage);
    make("p", { class: "question" }, about, `The secret: ${game.facts.question}`);
    make("p", { class: "note" }, about, game.facts.verdict);
    show = VIEWS[game.role](stage, game, act);
    update(game);
  }
  function update(answer) {
    const { result, revealed, advice, at, ...kept } = game;
    game = { ...kept, ...answer };
    told.textContent = "";
    show(game);
  }
  const refresh = () => fillRuns(select, studio.runs, 0);
  for (const event of ["runs", "run", "gone"]) studio.on(event, refresh);
  studio.on("pane", (name) => {
    if (name !== "play") return;
    refresh();
    resume();
  });
}
