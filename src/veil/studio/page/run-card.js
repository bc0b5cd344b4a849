// The card of a run: its numbers, how it stands, and what can be done with it.
import { make, tint } from "../report/make.js";
import { boundTiles, isNumber, shown } from "./numbers.js";
import { about, colourOf, hasEnd, isBusy, message, reveals } from "./run-words.js";

const STATES = { running: "running", stopping: "stopping…", stopped: "stopped", done: "done", failed: "failed" };
const TILES = { bits: "hidden", return: "return", upper: "proven at most", gap: "gap" };

// A card in a list; returns the function that shows a run on it. tell(error) is called when a request is refused.
export function makeCard(list, first, studio, tell) {
  const named = { class: "run", role: "listitem", "data-run": first.id, "aria-label": `Run ${first.id}` };
  const card = make("div", named, null);
  list.prepend(card);
  const head = make("h3", {}, card);
  make("i", { "aria-hidden": "true" }, head).style.background = tint(colourOf(first));
  make("span", {}, head, `Run ${first.id}`);
  const state = make("span", { class: "state" }, head);
  const note = make("p", { class: "note" }, card);
  const showTiles = makeTiles(card, first);
  const bar = make("progress", { "aria-label": `Progress of run ${first.id}` }, card);
  const told = make("p", { class: "note told" }, card);
  const showButtons = makeButtons(card, first, studio, tell);
  return (run) => {
    state.textContent = STATES[run.state];
    card.dataset.state = run.state;
    note.textContent = about(run);
    showTiles(run);
    bar.hidden = !(isBusy(run) && hasEnd(run));
    if (!bar.hidden) {
      bar.max = run.of;
      bar.value = Math.min(run.iteration, run.of);
    }
    told.textContent = message(run);
    told.classList.toggle("wrong", run.state === "failed");
    showButtons(run);
  };
}

function makeTiles(card, first) {
  const tiles = make("dl", { class: "tiles" }, card);
  const cells = {};
  const labels = {};
  for (const [name, label] of Object.entries(TILES)) {
    const tile = make("div", {}, tiles);
    labels[name] = make("dt", {}, tile, first.kind === "frontier" && name === "bits" ? "most hidden" : label);
    cells[name] = make("dd", { "data-number": name }, tile, "–");
  }
  const put = (name, value, text) => {
    cells[name].textContent = text;
    cells[name].dataset.value = value ?? "";
  };
  return (run) => {
    const frontier = run.kind === "frontier";
    const points = frontier && !isBusy(run) ? run.points : [];
    const best = points.length ? points.reduce((a, b) => (b[1] > a[1] ? b : a)) : [run.expected_return, run.bits];
    const [earned, bits] = best;
    const bound = reveals(run) ? run.proven_lower : run.proven_upper;
    const texts = boundTiles(bits, bound, reveals(run));
    put("bits", bits, isNumber(bits) ? `${shown(bits)} bits` : "–");
    put("return", earned, shown(earned));
    put("upper", bound, texts.bound);
    put("gap", texts.gap, shown(texts.gap));
    labels.upper.textContent = reveals(run) ? "proven at least" : TILES.upper;
    tiles.hidden = run.state === "failed" && !isNumber(bits);
    cells.upper.parentNode.hidden = cells.gap.parentNode.hidden = frontier;
  };
}

function makeButtons(card, first, studio, tell) {
  const buttons = make("div", { class: "choices" }, card);
  const path = `/api/runs/${first.id}`;
  const act = (label, name, action) => {
    const button = make("button", { type: "button", "aria-label": `${label} run ${first.id}` }, buttons, label);
    button.dataset.act = name;
    button.addEventListener("click", () => action().catch(tell));
    return button;
  };
  const stop = act("Stop", "stop", () => studio.api("POST", `${path}/stop`));
  const resume = act("Resume", "resume", () => studio.api("POST", `${path}/resume`));
  const look = act("Look", "look", async () => {
    studio.show("look", true);
    studio.look(first.id);
  });
  let sure = false; // a second press removes it
  const remove = act("Remove", "remove", async () => {
    if (sure) await studio.api("DELETE", path);
    sure = true;
    remove.textContent = "Really remove?";
  });
  remove.addEventListener("blur", () => {
    sure = false;
    remove.textContent = "Remove";
  });
  return (run) => {
    const focused = buttons.contains(document.activeElement) ? document.activeElement : null;
    stop.hidden = !isBusy(run);
    stop.disabled = run.state === "stopping";
    resume.hidden = !run.resumable;
    resume.textContent = run.continues ? "Resume" : "Start again";
    resume.setAttribute("aria-label", `${resume.textContent} run ${first.id}`);
    look.hidden = !run.has_result || isBusy(run);
    if (focused?.hidden || focused?.disabled)
      [...buttons.children].find((one) => !one.hidden && !one.disabled)?.focus();
  };
}
