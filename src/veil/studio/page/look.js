// The pane Look: the report's figures of any two policies side by side, at the same time.
import { figures } from "../report/figures.js";
import { make } from "../report/make.js";
import { fillRuns, numbers } from "./subjects.js";

const FIGURES = [
  ["policy", "Policy", "scene"],
  ["occupancy", "State over time", "scene"],
  ["belief", "What the observer believes in sampled runs", "observing"],
];

export function start(root, studio) {
  const clock = makeClock(root, (time) => setTime(time, null));
  const pair = make("div", { class: "sides" }, root);
  const sides = ["Left", "Right"].map((name) => makeSide(pair, name));
  let moving = false; // what is moved by a slider moves no other

  function makeSide(parent, name) {
    const box = make("div", { class: "side" }, parent);
    const select = make("select", { "aria-label": `${name} policy` }, box);
    const side = { select, body: make("div", {}, box), shown: "", horizon: 0 };
    select.addEventListener("change", () => load(side));
    box.addEventListener("step", (event) => clock.linked && setTime(event.detail, event.target));
    return side;
  }
  function setTime(time, mover) {
    if (moving) return;
    moving = true;
    clock.show(time);
    for (const player of pair.querySelectorAll(".player")) if (player !== mover) player.toTime(time);
    moving = false;
  }
  async function load(side) {
    const id = side.select.value;
    const key = id === "uniform" ? studio.scenario : id;
    if (side.shown === key) return;
    side.shown = key;
    tell(side, { role: "status" }, "Measuring …");
    try {
      if (id === "uniform") await studio.save();
      const found = await studio.api("GET", `/api/runs/${encodeURIComponent(id)}/look`);
      if (side.shown === key) draw(side, found);
    } catch (error) {
      tell(side, { role: "alert" }, error.message);
      side.shown = "";
    }
  }
  function tell(side, role, words) {
    side.body.replaceChildren();
    make("p", { class: "note", ...role }, side.body, words);
  }
  function draw(side, { facts, data }) {
    side.body.replaceChildren();
    numbers(make("div", { class: "part" }, side.body), facts);
    const policy = side.select.selectedOptions[0].textContent;
    for (const [number, [name, words, kind]] of FIGURES.entries()) {
      const part = make("div", { class: "part" }, side.body);
      part.style.order = number + 1; // on a narrow page the two sides of a figure stand one above the other
      make("bdi", { class: "whose" }, make("h2", {}, part, words), policy);
      make("div", { class: kind, "data-figure": name }, make("figure", {}, part));
    }
    side.horizon = data.horizon;
    clock.reach(Math.max(...sides.map((one) => one.horizon)));
    moving = true; // what is drawn first does not move the other side
    figures(data, side.body).drawAll();
    if (clock.linked) for (const player of side.body.querySelectorAll(".player")) player.toTime(clock.time);
    moving = false;
  }
  function refresh() {
    for (const [number, side] of sides.entries()) fillRuns(side.select, studio.runs, number);
    if (studio.pane === "look") sides.forEach(load);
  }
  studio.on("look", (run) => {
    const [left, right] = sides; // the run on the left, beside what was there
    if (left.select.value !== run) {
      right.select.value = left.select.value;
      left.select.value = run;
    }
    for (const side of sides) side.select.dispatchEvent(new Event("change"));
  });
  for (const event of ["pane", "runs", "run", "gone"]) studio.on(event, refresh);
}

// One slider for all figures, which stays in view; moved(time) is called when it moves.
function makeClock(root, moved) {
  const bar = make("div", { class: "toolbar clock" }, root);
  const label = make("label", { class: "grow" }, bar, "Time");
  const slider = make("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Time of all figures" }, label);
  const told = make("output", {}, label);
  const linked = make("input", { type: "checkbox", checked: "" }, make("label", {}, bar));
  linked.after(" Same time in all figures");
  slider.addEventListener("input", () => moved(Number(slider.value)));
  const clock = {
    time: 0,
    get linked() {
      return linked.checked;
    },
    show(time) {
      clock.time = time;
      slider.value = time;
      told.textContent = `${time} of ${slider.max}`;
    },
    reach(horizon) {
      slider.max = horizon;
      clock.show(Math.min(clock.time, horizon));
    },
  };
  return clock;
}
