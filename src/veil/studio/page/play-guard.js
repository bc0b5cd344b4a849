// Play as the guard: choose which sensor to ask at each step, and see what the answer tells.
import { figures } from "../report/figures.js";
import { make, percent } from "../report/make.js";
import { showHeat } from "./play-agent.js";
import { showSeen } from "./play-observer.js";
import { guardScore, makeBars } from "./scores.js";

// Builds the view of a game; returns the function that shows how it stands. act(what, more) plays.
export function guardView(stage, first, act) {
  let game = first;
  const left = make("div", { class: "scene" }, stage);
  const right = make("div", { class: "asking" }, stage);
  const drawn = figures(first.data, left);
  const scene = drawn.drawScene(left, "What you believe about the position", { heat: "belief" });
  const entries = [
    { ramp: "belief", text: "your probability" },
    { sign: "○", colour: "ink", text: "true position, at the end" },
  ];
  drawn.sceneKey(left, entries, true);
  const now = make("p", { class: "now", "aria-live": "polite" }, right);
  const acts = make("div", { class: "acts", role: "group", "aria-label": "What to ask" }, right);
  first.queries.forEach(({ name, cost }, action) => {
    const words = name === "none" ? "nothing" : name;
    const button = make("button", { type: "button" }, acts, cost ? `${words} (costs ${cost})` : words);
    if (action === 0) button.dataset.first = "";
    button.addEventListener("click", () => act("ask", { action }));
  });
  const advise = make("button", { type: "button" }, make("div", { class: "acts" }, right), "What would the rules ask?");
  advise.addEventListener("click", () => act("advise"));
  const advice = make("p", { class: "note", role: "status" }, right);
  make("p", { class: "note" }, right, "1, 2, … ask the sensors in the order shown.");
  const seen = make("div", { class: "seen", role: "group", "aria-label": "Answers so far" }, right);
  make("h2", {}, right, "What you believe of the secret");
  const showPosterior = makeBars(right, first.values, first.data.scene);
  const outcome = make("div", { "aria-live": "polite" }, right);
  const again = make("button", { type: "button", class: "primary", hidden: "" }, right, "Watch another run");
  again.addEventListener("click", async () => {
    await act("again");
    acts.firstChild.focus();
  });
  const score = make("div", {}, right);
  right.addEventListener("keydown", (event) => {
    const action = Number(event.key) - 1;
    if (game.over || !game.queries[action] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act("ask", { action });
  });
  return (current) => {
    game = current;
    showHeat(scene, game);
    scene.agent(game.at ?? -1);
    now.textContent = inWords(game);
    showSeen(seen, game);
    showPosterior(game.posterior);
    acts.hidden = advise.parentNode.hidden = game.over;
    advice.textContent = game.advice ? adviceInWords(game) : "";
    again.hidden = !game.over;
    outcome.replaceChildren();
    outcome.className = game.over ? "outcome" : "";
    if (game.over) showOutcome(outcome, game);
    score.replaceChildren();
    guardScore(score, game.score);
  };
}

function inWords({ time, horizon, unknown, paid, over }) {
  const step = over ? `All ${horizon} questions are asked` : `Question ${time + 1} of ${horizon}`;
  const cost = paid ? `, ${Number(paid.toPrecision(4))} paid` : "";
  return `${step}. You lack ${unknown.toFixed(3)} bits${cost}.`;
}

function adviceInWords({ advice, queries }) {
  const name = (action) => (queries[action].name === "none" ? "nothing" : queries[action].name);
  return `The greedy rule asks ${name(advice.greedy)}. ${advice.how} asks ${name(advice.best)}.`;
}

function showOutcome(outcome, game) {
  const { truth, left, probability } = game.result;
  const line = make("p", {}, outcome);
  if (truth !== null) {
    make("span", {}, line, "The secret was ");
    make("bdi", {}, make("b", {}, line), game.values[truth]);
    make("span", {}, line, `; you gave it ${percent(probability)}. `);
  }
  make("span", {}, line, `You are left with ${left.toFixed(3)} bits.`);
}
