// What the panes Look and Play have in common: the policies to choose from, and the numbers of one.
import { make } from "../report/make.js";
import { below, boundTiles, isNumber, short, shown } from "./numbers.js";

// The options of a select: the uniform policy and every run with a result; nth: which of them is chosen first.
export function fillRuns(select, runs, nth) {
  const done = runs.filter((run) => run.has_result && run.state !== "running");
  const bits = (run) => (isNumber(run.bits) ? `, ${shown(run.bits)} bits` : "");
  const options = [
    ["uniform", "Uniform policy of the scenario"],
    ...done.map((run) => [run.id, `Run ${run.id}: ${run.name}${bits(run)}`]),
  ];
  const now = options.map(String).join("\n");
  if (select.dataset.options === now) return;
  const before = select.value;
  select.dataset.options = now;
  select.replaceChildren();
  for (const [value, words] of options) make("option", { value }, select, words);
  const [first] = options[Math.max(0, options.length - 1 - nth)];
  select.value = select.dataset.chosen && options.some(([value]) => value === before) ? before : first;
  select.onchange ||= () => (select.dataset.chosen = "yes");
}

// Tiles with what a policy hides, leaks and earns, and the verdict on it; hidden, bound and gap subtract as they are
// shown.
export function numbers(parent, facts) {
  const { opacity, lower, upper, threshold } = facts;
  const list = make("dl", { class: "tiles" }, parent);
  const tile = (name, value, small) => {
    const box = make("div", {}, list);
    make("dt", {}, box, name);
    make("small", {}, make("dd", {}, box, value), small);
  };
  tile("Hidden", `${shown(opacity.bits)} bits`, `of ${shown(opacity.prior_bits)}, ${opacity.method}`);
  tile("Leaked", `${shown(opacity.leakage_bits)} bits`, "learned by the observer");
  if (lower !== null) {
    const { bound, gap } = boundTiles(opacity.bits, upper, false);
    tile("Proven at most", `${bound} bits`, `by any policy; by this one at least ${below(lower)}`);
    tile("Gap", `${shown(gap)} bits`, "proven at most − hidden");
  }
  tile(
    "Return",
    short(facts.expected_return, 4),
    threshold === null ? "no requirement" : `required: ${short(threshold, 4)}`,
  );
  make("p", { class: "verdict" }, parent, facts.verdict);
}
