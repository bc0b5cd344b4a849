// The pane Look: the report's figures of any two policies side by side, at the same time.
import { fillRuns, numbers } from "./subjects.js";

const FIGURES = [["policy", "Policy", "scene"], ["occupancy", "State over time", "scene"], ["belief", "What the observer believes in sampled runs", "observing"]];

export function start(root, studio) {
  const bar = make("div", { class: "toolbar" }, root);
  const linked = make("input", { type: "checkbox", checked: "" }, make("label", {}, bar));
  linked.after(" Same time in all figures");
  const pair = make("div", { class: "sides" }, root);
  const sides = ["Left", "Right"].map((name) => makeSide(pair, name));
  let moving = false;

  function makeSide(parent, name) {
    const box = make("div", { class: "side" }, parent);
    const select = make("select", { "aria-label": `${name} policy` }, box), body = make("div", {}, box);
    const side = { select, body, shown: "" };
    select.addEventListener("change", () => load(side));
    box.addEventListener("step", (event) => follow(event));
    return side;
  }
  // Every other slider goes to the time of the one that moved.
  function follow(event) {
    if (moving || !linked.checked) return;
    moving = true;
    for (const player of pair.querySelectorAll(".player")) if (player !== event.target) player.toTime(event.detail);
    moving = false;
  }
  async function load(side) {
    const id = side.select.value, key = id === "uniform" ? studio.scenario : id;
    if (side.shown === key) return;
    side.shown = key;
    side.body.replaceChildren();
    make("p", { class: "note", role: "status" }, side.body, "Measuring …");
    try {
      if (id === "uniform") await studio.save();
      const found = await studio.api("GET", `/api/runs/${encodeURIComponent(id)}/look`);
      if (side.shown === key) draw(side, found);
    } catch (error) {
      side.body.replaceChildren();
      make("p", { class: "note", role: "alert" }, side.body, error.message);
      side.shown = "";
    }
  }
  function draw(side, found) {
    side.body.replaceChildren();
    const policy = side.select.selectedOptions[0].textContent;
    numbers(make("div", { class: "part" }, side.body), found.facts);
    for (const [number, [name, words, kind]] of FIGURES.entries()) {
      const part = make("div", { class: "part" }, side.body);
      part.style.order = number + 1; // on a narrow page the two sides of a figure stand one above the other
      make("bdi", { class: "whose" }, make("h3", {}, part, words), policy);
      make("div", { class: kind, "data-figure": name }, make("figure", {}, part));
    }
    moving = true; // what is drawn first does not move the other side
    figures(found.data, side.body).drawAll();
    const other = sides.find((one) => one !== side).body.querySelector("[data-figure=occupancy] .player");
    if (other && linked.checked) for (const player of side.body.querySelectorAll(".player")) player.toTime(other.time());
    moving = false;
  }
  function refresh() {
    for (const [number, side] of sides.entries()) fillRuns(side.select, studio.runs, number);
    if (studio.pane === "look") sides.forEach(load);
  }
  studio.on("look", (run) => {
    const [left, right] = sides;
    // The run on the left, beside what was there.
    if (left.select.value !== run) { right.select.value = left.select.value; left.select.value = run; }
    for (const side of sides) side.select.dispatchEvent(new Event("change"));
  });
  for (const event of ["pane", "runs", "run", "gone"]) studio.on(event, refresh);
}
