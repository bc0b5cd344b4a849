// Play as the agent: walk, and watch where the observer believes you are.
import { figures } from "../report/figures.js";
import { make } from "../report/make.js";
import { agentScore, makeBars } from "./scores.js";

const WAYS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0], " ": [0, 0], s: [0, 0] };

// Builds the view of a game; returns the function that shows how it stands. act(what, more) plays.
export function agentView(stage, first, act) {
  let game = first;
  const named = { role: "application", "aria-label": "The world: arrow keys walk" };
  const left = make("div", { class: "scene walk", tabindex: 0, "data-first": "", ...named }, stage);
  const right = make("div", {}, stage);
  const drawn = figures(first.data, left);
  const scene = drawn.drawScene(left, "The observer's belief about your position", { heat: "belief" });
  const entries = [
    { ramp: "belief", text: "observer's probability" },
    { sign: "○", colour: "ink", text: "you" },
  ];
  drawn.sceneKey(left, entries, true);
  const now = make("p", { class: "now", "aria-live": "polite" }, right);
  const acts = make("div", { class: "acts", role: "group", "aria-label": "Actions" }, right);
  const buttons = first.actions.map(({ name }, action) => {
    const button = make("button", { type: "button" }, acts, name);
    button.addEventListener("click", () => act("move", { action }));
    return button;
  });
  const onGrid = first.actions.some((one) => one.direction);
  const walks = onGrid ? "Arrow keys walk; Space or S stays; " : "";
  make("p", { class: "note" }, right, `${walks}1, 2, … choose among the actions shown.`);
  make("h2", {}, right, "What the observer believes of the secret");
  const showPosterior = makeBars(right, first.values, first.data.scene);
  const outcome = make("div", { "aria-live": "polite" }, right);
  const again = make("button", { type: "button", class: "primary", hidden: "" }, right, "Walk again");
  again.addEventListener("click", async () => {
    await act("again");
    left.focus();
  });
  const score = make("div", {}, right);
  left.addEventListener("keydown", (event) => {
    const action = actionOf(event, game);
    if (action === undefined) return;
    event.preventDefault();
    if (game.available.includes(action)) act("move", { action });
  });
  return (current) => {
    game = current;
    showHeat(scene, game);
    scene.agent(game.at);
    showNow(now, game);
    buttons.forEach((button, action) => (button.hidden = !game.available.includes(action)));
    showPosterior(game.posterior);
    again.hidden = !game.over;
    outcome.replaceChildren();
    outcome.className = game.over ? "outcome" : "";
    if (game.over) showOutcome(outcome, game);
    score.replaceChildren();
    agentScore(score, game.score);
  };
}

// The action that a key stands for, undefined for none.
function actionOf(event, game) {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const way = WAYS[event.key];
  if (!way) return game.available[Number(event.key) - 1];
  return game.actions.findIndex(({ direction }) => direction?.[0] === way[0] && direction?.[1] === way[1]);
}

// The observer's belief as heat; a game's `belief` lists spots with their probabilities.
export function showHeat(scene, game) {
  const values = new Float32Array(game.spots);
  for (const [spot, p] of game.belief) values[spot] = p;
  scene.heat(values, Math.max(1e-9, ...game.belief.map(([, p]) => p)));
}

function showNow(now, game) {
  const event = game.seen.at(-1);
  now.replaceChildren();
  make("span", {}, now, `Time ${game.time} of ${game.horizon}. You are in `);
  make("bdi", {}, make("b", {}, now), game.state);
  make("span", {}, now, event === "" ? "; the observer receives nothing" : "; the observer receives ");
  make("bdi", {}, make("b", {}, now), event);
  make("span", {}, now, `. Return so far: ${Number(game.earned.toPrecision(5))}.`);
  if (game.surprised)
    make("b", {}, now, " The observer knows that you do not follow the policy, and uses the prior.");
}

function showOutcome(outcome, game) {
  const { truth, bayes_bits: bits } = game.result;
  const line = make("p", {}, outcome, "The secret was ");
  make("bdi", {}, make("b", {}, line), game.values[truth]);
  const lacked = `. The observer's uncertainty about it: ${bits?.toFixed(3)} bits.`;
  make("span", {}, line, bits === null ? ". The observer had ruled that out." : lacked);
}
