// Tables of scores, and the bars of a belief.
import { make, percent, tint } from "../report/make.js";
import { above, below, isNumber, short, shown } from "./numbers.js";

const COLOURS = ["blue", "vermilion", "green", "orange", "purple", "sky", "yellow"];
const MOST_BARS = 40;

const share = (p) => (isNumber(p) ? percent(p) : "–");
const bits = (value) => (isNumber(value) ? value.toFixed(3) : "–");
const earned = (value) => (isNumber(value) ? short(value, 4) : "–");
const counted = (number, word) => `After ${number} ${number === 1 ? word : `${word}s`}.`;

// Rows are [words, key, …numbers].
function table(parent, caption, heads, rows) {
  const made = make("table", { class: "compact" }, parent);
  make("caption", {}, made, caption);
  const head = make("tr", {}, make("thead", {}, made));
  make("td", {}, head);
  for (const word of heads) make("th", { scope: "col", class: "number" }, head, word);
  const body = make("tbody", {}, made);
  for (const [words, key, ...values] of rows) {
    const row = make("tr", { "data-row": key }, body);
    make("th", { scope: "row" }, row, words);
    for (const value of values) make("td", { class: "number" }, row, value);
  }
}

export function observerScore(parent, s) {
  const rows = [
    ["You", "you", share(s.right), bits(s.bits)],
    ["Bayesian observer, same runs", "bayes", share(s.bayes_right), bits(s.bayes_bits)],
    [`Bayesian observer, on average (${s.method})`, "best", share(s.best_right), bits(s.best_bits)],
  ];
  if (s.proven_bits !== null) {
    const right = isNumber(s.proven_right) ? `${(Math.ceil(s.proven_right * 1e3) / 10).toFixed(1)}%` : "–";
    rows.push(["Proven: no observer does better than", "proven", right, below(s.proven_bits)]);
  }
  const caption = `${counted(s.rounds, "run")} Bits: the surprise at the truth, on average; fewer is better.`;
  table(parent, caption, ["right guesses", "bits"], rows);
}

export function agentScore(parent, s) {
  const rows = [
    ["You", "you", bits(s.bayes_bits), earned(s.earned)],
    [`The policy, on average (${s.method})`, "policy", bits(s.best_bits), earned(s.expected_return)],
  ];
  if (s.threshold !== null) rows.push(["Required", "required", "–", earned(s.threshold)]);
  const caption = `${counted(s.rounds, "walk")} Bits: the observer's surprise at the truth; more is better for you.`;
  table(parent, caption, ["bits", "return"], rows);
}

export function guardScore(parent, s) {
  const rows = [["You", "you", shown(s.left), earned(s.paid)]];
  if (isNumber(s.greedy)) rows.push(["Greedy rule, on average", "greedy", shown(s.greedy), "–"]);
  if (isNumber(s.plan)) rows.push(["Best plan found, on average at most", "plan", above(s.plan), "–"]);
  if (isNumber(s.floor)) rows.push(["No guard is left with less than", "floor", below(s.floor), "–"]);
  const caption = `${counted(s.rounds, "run")} Bits: what you do not know of the secret; fewer is better.`;
  table(parent, caption, ["bits left", "cost"], rows);
}

// Bars for the probabilities of values, in the colours of their areas in a scene; returns the function that shows them.
export function makeBars(parent, values, { areas }) {
  const bars = make("div", { class: "bars" }, parent);
  const own = (name) => areas.find((one) => [`secret: ${name}`, "secret"].includes(one.name) && name !== "elsewhere");
  const rest = COLOURS.filter((colour) => !areas.some((one) => one.colour === colour)).concat("blue");
  const others = values.filter((name) => !own(name));
  const colourOf = (name) => own(name)?.colour ?? rest[others.indexOf(name) % rest.length];
  const rows = values.slice(0, MOST_BARS).map((name) => {
    make("bdi", {}, make("span", {}, bars), name);
    const fill = make("div", {}, make("div", { class: "bar" }, bars));
    fill.style.background = tint(colourOf(name));
    return { fill, number: make("span", { class: "number" }, bars) };
  });
  return (posterior) =>
    rows.forEach(({ fill, number }, k) => {
      fill.style.width = `${100 * posterior[k]}%`;
      fill.dataset.p = posterior[k];
      number.textContent = percent(posterior[k]);
    });
}
