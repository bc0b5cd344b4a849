// What the panes Look and Play have in common: the policies to choose from, and the numbers of one.

const bits = (value) => value.toFixed(4);

// The options of a select: the uniform policy and every run with a result; nth: which of them is chosen first.
export function fillRuns(select, runs, nth) {
  const done = runs.filter((run) => run.has_result && run.state !== "running"), before = select.value;
  const options = [["uniform", "Uniform policy of the scenario"], ...done.map((run) => [run.id, `Run ${run.id}: ${run.name}, ${run.bits === undefined ? "" : `${bits(run.bits)} bits`}`])];
  const now = options.map(String).join("\n");
  if (select.dataset.options === now) return;
  select.dataset.options = now;
  select.replaceChildren();
  for (const [value, words] of options) make("option", { value }, select, words);
  const first = options[Math.max(0, options.length - 1 - nth)][0];
  select.value = select.dataset.chosen && options.some(([value]) => value === before) ? before : first;
  if (!select.onchange) select.onchange = () => { select.dataset.chosen = "yes"; };
}

// Tiles with what a policy hides, leaks and earns, and the verdict on it.
export function numbers(parent, facts) {
  const list = make("dl", { class: "tiles" }, parent), { opacity } = facts;
  const tile = (name, value, small) => {
    const box = make("div", {}, list);
    make("dt", {}, box, name);
    make("small", {}, make("dd", {}, box, value), small);
  };
  tile("Hidden", `${bits(opacity.bits)} bits`, `of ${bits(opacity.prior_bits)}, ${opacity.method}`);
  tile("Leaked", `${bits(opacity.leakage_bits)} bits`, "learned by the observer");
  tile("Return", String(Number(facts.expected_return.toPrecision(4))), facts.threshold === null ? "no requirement" : `required: ${Number(facts.threshold.toPrecision(4))}`);
  if (facts.lower !== null) tile("Proven", `${outward(facts.lower, Math.floor)} – ${outward(facts.upper, Math.ceil)}`, "bits: this policy hides at least, any policy at most");
  make("p", { class: "verdict" }, parent, facts.verdict);
  return list;
}

// A proven number is never rounded inward.
export const outward = (value, round) => (round(value * 1e4) / 1e4).toFixed(4);
