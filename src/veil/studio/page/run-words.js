// What the page says of a run in words.
import { above, below, isNumber, short } from "./numbers.js";

const ENDLESS = 1e8; // iterations beyond which there is no end to speak of
const COLOURS = ["blue", "vermilion", "green", "orange", "purple", "sky", "yellow"];

export const colourOf = (run) => COLOURS[(Number(run.id) - 1) % COLOURS.length];
export const isBusy = (run) => run.state === "running" || run.state === "stopping";
export const hasEnd = (run) => run.of > 0 && run.of < ENDLESS;
export const reveals = (run) => (run.goal ?? run.settings.goal) === "transparent";

// The problem, the method and the policy class.
export function about(run) {
  const count = isBusy(run) ? "" : `${run.points.length} of `;
  const method = run.kind === "frontier" ? `frontier, ${count}${run.wanted} points` : run.method || run.settings.method;
  return [run.name, method, policyClass(run)].filter(Boolean).join(" · ");
}

function policyClass(run) {
  const { memory } = run.settings;
  return run.policy_class || memory?.replace(":", " ") || "";
}

// How a run stands, or how it ended.
export function message(run) {
  if (run.state === "failed") return run.error;
  return isBusy(run) ? progress(run) : outcome(run);
}

function progress(run) {
  if (!run.phase) return "starting";
  const of = run.of < ENDLESS ? ` of ${run.of.toLocaleString("en")}` : "";
  const parts = [`${run.phase} ${run.iteration.toLocaleString("en")}${of}`];
  if (run.kind === "frontier" && run.points.length) parts.push(`${run.points.length} searches done`);
  if (isNumber(run.seconds)) parts.push(`${run.seconds.toFixed(1)} s`);
  return parts.join(", ");
}

function outcome(run) {
  const sentences = [ending(run), missing(run), run.doubts];
  if (isNumber(run.threshold)) {
    const met = run.feasible === false ? ", not met" : "";
    sentences.push(`Threshold on the return: ${short(run.threshold)}${met}.`);
  }
  const trivial = run.proven?.match(/trivial: [^);]*/);
  if (trivial) sentences.push(`The proven bound says nothing (${trivial[0]}).`);
  if (!reveals(run) && isNumber(run.proven_lower) && isNumber(run.proven_upper))
    sentences.push(`Proven of this policy: at least ${below(run.proven_lower)} bits.`);
  if (isNumber(run.delayed_upper))
    sentences.push(`Proven without seeing the current observation: at most ${above(run.delayed_upper)}.`);
  if (isNumber(run.seconds)) sentences.push(`Search: ${run.seconds.toFixed(1)} s.`);
  if (run.note) sentences.push(`${isNumber(run.proven_upper) ? "Note" : "No proof"}: ${run.note}.`);
  return sentences.filter(Boolean).join(" ");
}

function ending(run) {
  if (run.message) return `${run.message[0].toUpperCase()}${run.message.slice(1)}.`;
  return run.status === "TIME_LIMIT" ? "Time limit reached." : "";
}

function missing(run) {
  if (run.kind !== "frontier" || run.points.length >= run.wanted) return "";
  const remedy = run.status === "TIME_LIMIT" ? ": give it more time" : "";
  return `${run.wanted - run.points.length} of ${run.wanted} points missing${remedy}.`;
}
