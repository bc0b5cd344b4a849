// Play as the observer: the observations of a hidden run, one after another, and a guess of the secret.
import { figures } from "../report/figures.js";
import { make, percent } from "../report/make.js";
import { observerScore } from "./scores.js";

// Builds the view of a game; returns the function that shows how it stands. act(what, more) plays.
export function observerView(stage, first, act) {
  let game = first;
  const left = make("div", { class: "scene" }, stage);
  const right = make("div", {}, stage);
  const drawn = figures(first.data, left);
  drawn.drawScene(left, "The world and the sensors", {});
  drawn.sceneKey(left, [], true);
  const time = make("p", { class: "now", "aria-live": "polite" }, right);
  const seen = make("div", { class: "seen", role: "group", "aria-label": "Observations so far" }, right);
  if (first.data.silent !== null)
    make("p", { class: "note" }, right, `“${first.data.silent}” means that nothing is reported.`);
  const acts = make("div", { class: "acts" }, right);
  const next = make("button", { type: "button", class: "primary", "data-first": "" }, acts, "Next observation");
  const end = make("button", { type: "button" }, acts, "To the end");
  next.addEventListener("click", () => act("next"));
  end.addEventListener("click", async () => {
    for (let before = -1; game.time < game.horizon && game.time > before && !game.over;) {
      before = game.time;
      await act("next");
    }
  });
  const guess = makeGuess(right, first.values, async (value, probability) => {
    await act("guess", { value, probability });
    again.focus();
  });
  const outcome = make("div", { "aria-live": "polite" }, right);
  const again = make("button", { type: "button", class: "primary", hidden: "" }, right, "Next run");
  again.addEventListener("click", async () => {
    await act("again");
    next.focus();
  });
  const score = make("div", {}, right);
  const reveal = make("div", { class: "whole" }, stage);
  return (now) => {
    game = now;
    time.textContent = `Time ${game.time} of ${game.horizon}`;
    showSeen(seen, game);
    next.disabled = end.disabled = game.over || game.time >= game.horizon;
    acts.hidden = guess.hidden = game.over;
    again.hidden = !game.over;
    for (const part of [outcome, reveal, score]) part.replaceChildren();
    if (game.over) showOutcome(outcome, reveal, game);
    observerScore(score, game.score);
  };
}

function makeGuess(parent, values, guessed) {
  const guess = make("div", { class: "acts", role: "group", "aria-label": "Your guess" }, parent);
  const value = make("select", { "aria-label": "Value of the secret" }, guess);
  values.forEach((name, number) => make("option", { value: number }, value, name));
  const label = make("label", {}, guess, "sure to ");
  const least = Math.max(1, Math.ceil(100 / values.length));
  const range = { type: "range", min: least, max: 99, value: 70, "aria-label": "Probability of your guess" };
  const sure = make("input", range, label);
  const words = make("output", {}, label, "70%");
  sure.addEventListener("input", () => (words.textContent = `${sure.value}%`));
  const say = make("button", { type: "button", class: "primary" }, guess, "Guess");
  say.addEventListener("click", () => guessed(Number(value.value), Number(sure.value) / 100));
  return guess;
}

// The observations so far, the newest marked.
export function showSeen(parent, game) {
  parent.replaceChildren();
  game.seen.forEach((event, t) => {
    if (event === "") return;
    const classes = [event === game.data.silent ? "silent" : "", t === game.seen.length - 1 ? "newest" : ""];
    make("bdi", {}, make("span", { class: classes.join(" ") }, parent), event);
  });
}

function showOutcome(outcome, reveal, game) {
  const { right, truth, bits, bayes_posterior: posterior, bayes_bits: bayes } = game.result;
  outcome.className = right ? "outcome" : "outcome missed";
  const line = make("p", {}, outcome, right ? "Right: it was " : "Wrong: it was ");
  make("bdi", {}, make("b", {}, line), game.values[truth]);
  make("span", {}, line, `. Your guess costs ${bits.toFixed(3)} bits. `);
  const given = `The Bayesian observer gave it ${percent(posterior[truth])}`;
  make("span", {}, line, `${given}, which costs ${bayes.toFixed(3)} bits.`);
  make("h2", {}, reveal, "The run, and what the Bayesian observer believed");
  const place = make("div", { class: "observing", "data-figure": "belief" }, make("figure", {}, reveal));
  figures({ ...game.data, runs: game.revealed }, reveal).drawAll();
  place.querySelector(".choices")?.remove(); // there is one run only
}
