// The pane Plan: a form of settings, runs side by side whose numbers move, and the charts that compare them.
const COLOURS = ["blue", "vermilion", "green", "orange", "purple", "sky", "yellow"];
const DRAW_MS = 120; // between two drawings of the charts
const KEPT = "veil-plan"; // under which the form is kept while the tab is open
const STATES = { running: "running", stopping: "stopping…", stopped: "stopped", done: "done", failed: "failed" };
const MEMORIES = [
  ["", "as in the scenario"], ["markov", "stationary: the state"], ["timed", "time-dependent: state and time"],
  ["history", "the whole history (method game)"],
];
const LABELS = {
  time_limit: "Time limit, seconds", iterations: "Iterations", starts: "Starts", seed: "Seed", goal: "Goal", objective: "Objective",
  evaluation: "Evaluation", certificate_time_limit: "Time limit of the proof, seconds",
};

const colourOf = (run) => COLOURS[(Number(run.id) - 1) % COLOURS.length];
const shown = (value, digits = 4) => (typeof value === "number" ? value.toFixed(digits) : "–");
// Proven numbers are rounded outward.
const above = (value) => (typeof value === "number" ? (Math.ceil(value * 1e4 - 1e-9) / 1e4).toFixed(4) : "–");
const below = (value) => (typeof value === "number" ? (Math.floor(value * 1e4 + 1e-9) / 1e4).toFixed(4) : "–");
const isNumber = (value) => typeof value === "number";
const short6 = (value) => String(Number(value.toPrecision(5)));

export function start(root, studio) {
  const area = make("div", { class: "plan" }, root);
  const form = makeForm(make("div", { class: "plan-form" }, area), studio);
  const side = make("div", { class: "plan-runs" }, area);
  const empty = make("p", { class: "note" }, side, "No runs yet. Start one: its bits, return and proven bound move here while it searches, and several can run side by side.");
  const charts = makeCharts(make("div", { class: "pair charts", hidden: "" }, side));
  const list = make("div", { class: "runs", role: "list", "aria-label": "Runs" }, side);
  const cards = new Map(), moments = new Map();

  function update(run) {
    if (!cards.has(run.id)) {
      cards.set(run.id, makeCard(list, run, studio, form));
      moments.set(run.id, []);
      studio.api("GET", `/api/runs/${run.id}`).then((found) => { moments.set(run.id, found.moments); redraw(); }).catch(() => {});
    }
    const known = moments.get(run.id), last = known[known.length - 1];
    if (run.state === "running" && typeof run.seconds === "number" && typeof run.bits === "number" && !(last && last[0] === run.seconds)) {
      if (last && last[0] > run.seconds + 1) known.length = 0; // it was begun anew
      known.push([run.seconds, run.bits, run.return ?? null, run.upper ?? null]);
    }
    cards.get(run.id)(run);
    redraw();
  }
  function drop(id) {
    list.querySelector(`[data-run="${CSS.escape(id)}"]`)?.remove();
    cards.delete(id);
    moments.delete(id);
    redraw();
  }
  let waiting = null;
  function redraw() {
    if (waiting !== null) return;
    waiting = setTimeout(() => {
      waiting = null;
      const runs = studio.runs;
      empty.hidden = runs.length > 0;
      if (studio.pane === "plan") charts(runs, moments);
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
  studio.on("pane", redraw);
  studio.on("resize", redraw);
}

function field(parent, name, label, control, attributes, help) {
  const line = make("div", { class: "field" }, parent);
  make("label", { for: `plan-${name}` }, line, label);
  const input = make(control, { id: `plan-${name}`, name, ...attributes, ...(help ? { title: help } : {}) }, line);
  return input;
}

function options(select, entries) {
  for (const [value, words] of entries) make("option", { value }, select, words);
  return select;
}

function makeForm(parent, studio) {
  const form = make("form", { "aria-label": "Settings of a run" }, parent);
  make("h2", {}, form, "New run");
  const kind = options(field(form, "kind", "Find", "select", {}), [["solve", "the best policy"], ["frontier", "the frontier: most bits for each return"]]);
  const method = options(field(form, "method", "Method", "select", {}), [["", "as in the scenario"]]);
  const summary = make("p", { class: "note" }, method.parentNode);
  const memory = options(field(form, "memory", "Policy class", "select", {}), MEMORIES);
  const number = field(form, "number", "How many", "input", { type: "number", min: 1, value: 1 });
  const least = field(form, "min_return", "Return at least", "input", { type: "text", inputmode: "decimal", placeholder: "as in the scenario", autocomplete: "off" }, "A number, or a share as 70%.");
  const horizon = field(form, "horizon", "Horizon", "input", { type: "number", min: 0, placeholder: "as in the scenario" });
  const points = field(form, "points", "Points", "input", { type: "number", min: 2, max: 200, value: 10 });
  const more = make("details", {}, null);
  make("summary", {}, more, "More settings");
  const proof = make("input", { type: "checkbox", id: "plan-certificate", name: "certificate", checked: "" });
  const proofLine = make("div", { class: "check" }, form);
  proofLine.append(proof);
  make("label", { for: "plan-certificate" }, proofLine, "Prove an upper bound over all policies");
  const wrong = make("div", { role: "alert", class: "wrong" }, null);
  const button = make("button", { type: "submit", class: "primary" }, null, "Start");
  const known = {};

  studio.api("GET", "/api/choices").then((found) => {
    for (const one of found.methods) make("option", { value: one.name }, method, one.name).dataset.summary = one.summary;
    for (const [kind, help] of Object.entries(found.memories)) make("option", { value: kind }, memory, help).dataset.number = "";
    for (const one of found.settings) {
      const place = one.name === "time_limit" ? form : more;
      if (one.choices.length) known[one.name] = options(field(place, one.name, LABELS[one.name], "select", {}, one.help), [["", "as in the scenario"], ...one.choices.map((value) => [value, value])]);
      else known[one.name] = field(place, one.name, LABELS[one.name], "input", { type: "number", step: one.kind === "whole number" ? 1 : "any", min: one.least ?? "", placeholder: "as in the scenario" }, one.help);
    }
    form.append(proofLine, more, wrong, button);
    recall();
    adapt();
  }).catch((error) => studio.notice(error.message));
  form.append(proofLine, more, wrong, button);
  adapt();

  function adapt() {
    const frontier = kind.value === "frontier";
    method.parentNode.hidden = least.parentNode.hidden = proofLine.hidden = frontier;
    points.parentNode.hidden = !frontier;
    number.parentNode.hidden = memory.selectedOptions[0]?.dataset.number === undefined;
    summary.textContent = method.selectedOptions[0]?.dataset.summary || "";
    for (const name of ["goal", "certificate_time_limit"]) if (known[name]) known[name].parentNode.hidden = frontier;
    if (!frontier && memory.value === "history" && method.value !== "game") { method.value = "game"; adapt(); }
  }
  function settings() {
    const frontier = kind.value === "frontier", found = { kind: kind.value };
    if (memory.value) found.memory = number.parentNode.hidden ? memory.value : { [memory.value]: Number(number.value) };
    if (horizon.value) found.horizon = Number(horizon.value);
    if (frontier) found.points = Number(points.value);
    else {
      if (method.value) found.method = method.value;
      if (least.value.trim()) found.min_return = Number.isFinite(Number(least.value)) ? Number(least.value) : least.value.trim();
      if (!proof.checked) found.certificate = false;
    }
    for (const [name, input] of Object.entries(known))
      if (input.value && !input.parentNode.hidden) found[name] = input.type === "number" ? Number(input.value) : input.value;
    return found;
  }
  function fields() { return [...form.elements].filter((one) => one.name); }
  function keep() { sessionStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(fields().map((one) => [one.name, one.type === "checkbox" ? one.checked : one.value])))); }
  function recall() {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) || "{}");
    for (const one of fields()) if (one.name in kept) { if (one.type === "checkbox") one.checked = kept[one.name]; else one.value = kept[one.name]; }
  }
  function tell(error) {
    wrong.replaceChildren();
    if (!error) return;
    const lines = error.defects?.length ? error.defects : [error.message];
    for (const line of lines) make("p", {}, wrong, line);
  }
  form.addEventListener("input", () => { adapt(); keep(); });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    tell(null);
    try {
      await studio.save();
      await studio.api("POST", "/api/runs", { settings: settings() });
    } catch (error) {
      tell(error);
    }
    button.disabled = false;
    button.focus();
  });
  return { tell };
}

function words(run) {
  const chosen = run.settings, memory = chosen.memory;
  if (run.policy_class) return run.policy_class;
  if (!memory) return "";
  return typeof memory === "string" ? memory : Object.entries(memory).map(([kind, count]) => `${kind} ${count}`).join(" ");
}

function makeCard(list, first, studio, form) {
  const card = make("article", { class: "run", role: "listitem", "data-run": first.id, "aria-label": `Run ${first.id}` }, null);
  list.prepend(card);
  const head = make("h3", {}, card);
  make("i", { "aria-hidden": "true" }, head).style.background = tint(colourOf(first));
  make("span", {}, head, `Run ${first.id}`);
  const state = make("span", { class: "state" }, head);
  const about = make("p", { class: "note" }, card);
  const tiles = make("dl", { class: "tiles" }, card), cells = {}, labels = {};
  for (const [name, label] of [["bits", "hidden"], ["return", "return"], ["upper", "proven at most"], ["gap", "gap"]]) {
    const tile = make("div", {}, tiles);
    labels[name] = make("dt", {}, tile, first.kind === "frontier" && name === "bits" ? "most hidden" : label);
    cells[name] = make("dd", { "data-number": name }, tile, "–");
  }
  const bar = make("progress", { "aria-label": `Progress of run ${first.id}` }, card);
  const told = make("p", { class: "note told" }, card);
  const buttons = make("div", { class: "choices" }, card);
  const act = (label, name, action) => {
    const button = make("button", { type: "button", "aria-label": `${label} run ${first.id}` }, buttons, label);
    button.dataset.act = name;
    button.addEventListener("click", () => action().catch((error) => form.tell(error)));
    return button;
  };
  const path = `/api/runs/${first.id}`;
  const stop = act("Stop", "stop", () => studio.api("POST", `${path}/stop`));
  const resume = act("Resume", "resume", () => studio.api("POST", `${path}/resume`));
  const look = act("Look", "look", async () => { studio.show("look", true); studio.look(first.id); });
  let sure = false;
  const remove = act("Remove", "remove", async () => { // a second press removes it
    if (sure) await studio.api("DELETE", path);
    sure = true;
    remove.textContent = "Really remove?";
  });
  remove.addEventListener("blur", () => { sure = false; remove.textContent = "Remove"; });
  const put = (name, value, text) => { cells[name].textContent = text; cells[name].dataset.value = value ?? ""; };

  return (run) => {
    const busy = run.state === "running" || run.state === "stopping", frontier = run.kind === "frontier";
    state.textContent = STATES[run.state];
    card.dataset.state = run.state;
    const parts = [run.name, frontier ? `frontier, ${busy ? "" : `${run.points.length} of `}${run.wanted} points` : run.method || run.settings.method, words(run)];
    about.textContent = parts.filter(Boolean).join(" · ");
    const best = frontier && run.points.length ? run.points.reduce((a, b) => (b[1] > a[1] ? b : a)) : null;
    const bits = best && !busy ? best[1] : run.bits, earned = best && !busy ? best[0] : run.return;
    put("bits", bits, typeof bits === "number" ? `${shown(bits)} bits` : "–");
    put("return", earned, shown(earned));
    // Hidden, bound and gap subtract as they are shown. A policy that reveals has a bound from below.
    const reveals = (run.goal ?? run.settings.goal) === "transparent", bound = reveals ? run.lower : run.upper;
    const shownBound = reveals ? below(bound) : above(bound);
    const gap = isNumber(bound) && isNumber(bits) ? Math.max(0, (reveals ? -1 : 1) * (Number(shownBound) - Number(shown(bits)))) : null;
    labels.upper.textContent = reveals ? "proven at least" : "proven at most";
    put("upper", bound, shownBound);
    put("gap", gap, shown(gap));
    tiles.hidden = run.state === "failed" && !isNumber(bits);
    cells.upper.parentNode.hidden = cells.gap.parentNode.hidden = frontier;
    bar.hidden = !(busy && run.of > 0 && run.of < 1e8); // beyond that there is no end to speak of
    if (!bar.hidden) { bar.max = run.of; bar.value = Math.min(run.iteration, run.of); }
    told.textContent = message(run, busy, frontier);
    told.classList.toggle("wrong", run.state === "failed");
    const focused = buttons.contains(document.activeElement) ? document.activeElement : null;
    stop.hidden = !busy;
    stop.disabled = run.state === "stopping";
    resume.hidden = !run.resumable;
    resume.textContent = run.continues ? "Resume" : "Start again";
    look.hidden = !run.has_result || busy;
    if (focused?.hidden || focused?.disabled) [...buttons.children].find((one) => !one.hidden && !one.disabled)?.focus();
  };
}

function message(run, busy, frontier) {
  if (run.state === "failed") return run.error;
  if (busy) {
    const seconds = typeof run.seconds === "number" ? `, ${run.seconds.toFixed(1)} s` : "";
    const found = frontier && run.points.length ? `, ${run.points.length} searches done` : "";
    return run.phase ? `${run.phase} ${run.iteration.toLocaleString("en")}${run.of < 1e8 ? ` of ${run.of.toLocaleString("en")}` : ""}${found}${seconds}` : "starting";
  }
  const seconds = typeof run.seconds === "number" ? `Search: ${run.seconds.toFixed(1)} s. ` : "";
  const threshold = typeof run.threshold === "number" ? `Threshold on the return: ${short6(run.threshold)}${run.feasible === false ? ", not met" : ""}. ` : "";
  const ended = run.message ? `${run.message[0].toUpperCase()}${run.message.slice(1)}. ` : run.status === "TIME_LIMIT" ? "Time limit reached. " : "";
  const late = typeof run.delayed_upper === "number" ? `Proven without seeing the current observation: at most ${above(run.delayed_upper)}. ` : "";
  const proven = isNumber(run.lower) && isNumber(run.upper) ? `Proven of this policy: at least ${below(run.lower)} bits. ` : "";
  const own = (run.goal ?? run.settings.goal) === "transparent" ? "" : proven;
  const missing = frontier && run.points.length < run.wanted ? `${run.wanted - run.points.length} of ${run.wanted} points are missing${run.status === "TIME_LIMIT" ? ": give it more time" : ""}. ` : "";
  const doubts = run.doubts ? `${run.doubts} ` : "";
  return `${ended}${missing}${doubts}${threshold}${own}${late}${seconds}${run.note ? `${isNumber(run.upper) ? "Note" : "No proof"}: ${run.note}.` : ""}`;
}

function makeCharts(parent) {
  const [time, trade] = ["Bits over time", "Bits for return"].map((title) => {
    const figure = make("figure", {}, parent);
    make("h2", {}, figure, title);
    return make("div", { class: "chart" }, figure);
  });
  const named = (run) => `Run ${run.id}`;
  return (runs, moments) => {
    parent.hidden = runs.length === 0;
    time.replaceChildren();
    trade.replaceChildren();
    const lines = runs.filter((run) => run.kind === "solve").map((run) => [run, moments.get(run.id) || []]).filter(([, rows]) => rows.length);
    const over = lines.flatMap(([run, rows]) => {
      const ended = run.state !== "running" && run.state !== "stopping", last = rows[rows.length - 1];
      const all = ended && typeof run.bits === "number" ? [...rows, [last[0], run.bits, null, run.upper ?? null]] : rows;
      const line = { x: all.map((row) => row[0]), y: all.map((row) => row[1]), colour: colourOf(run), name: named(run) };
      const bounded = all.filter((row) => typeof row[3] === "number");
      const bound = { x: bounded.map((row) => row[0]), y: bounded.map((row) => row[3]), colour: colourOf(run), name: `${named(run)}, proven at most`, dash: "5 4" };
      return bounded.length > 1 ? [line, bound] : [line];
    });
    const highest = Math.max(0.05, ...over.flatMap((one) => one.y));
    if (over.length) lineChart(time, "Bits over time", { series: over, x: "seconds", y: "bits", height: 220, low: 0, high: 1.06 * highest });
    else make("p", { class: "note" }, time, "A line for each run, once it searches.");
    const series = runs.flatMap((run) => {
      if (run.kind === "frontier") {
        const points = front(run.points);
        return points.length ? [{ x: points.map((p) => p[0]), y: points.map((p) => p[1]), colour: colourOf(run), name: named(run), marks: "circle" }] : [];
      }
      return typeof run.bits === "number" && typeof run.return === "number" ? [{ x: [run.return], y: [run.bits], colour: colourOf(run), name: named(run), marks: "diamond", line: false }] : [];
    });
    if (series.length) lineChart(trade, "Bits for return", { series, x: "return", y: "bits", height: 220, roomy: true, low: 0, high: 1.06 * Math.max(0.05, ...series.flatMap((one) => one.y)) });
    else make("p", { class: "note" }, trade, "A point for each run, a curve for each frontier.");
    const known = lines.map(([run]) => ({ colour: colourOf(run), solid: true, text: named(run) }));
    key(time, over.some((one) => one.dash) ? [...known, { sign: "╌", colour: "muted", text: "proven upper bound" }] : known);
    key(trade, runs.map((run) => ({ colour: colourOf(run), solid: true, text: named(run) })));
  };
}

// The points that no other one exceeds in both, by return.
function front(points) {
  return points.filter(([x, y], i) => !points.some(([a, b], j) => (a > x && b >= y) || (a >= x && b > y) || (a === x && b === y && j < i))).sort((p, q) => p[0] - q[0]);
}
