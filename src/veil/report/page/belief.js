// The figure of what the observer believes: a sampled run, step by step.
import { lineChart, player, secretTime } from "./charts.js";
import { largest, make, percent, tint } from "./make.js";
import { drawScene, sceneKey, unpack } from "./scene.js";

export function beliefFigure({ data, world, host }) {
  const choices = make("div", { class: "choices", role: "group", "aria-label": "Which run" }, host);
  const columns = make("div", { class: "columns" }, host);
  const left = make("div", { class: "scene" }, columns);
  const right = make("div", {}, columns);
  const view = drawScene(world, left, "The observer's belief about the state", { heat: "belief" });
  const now = make("p", { class: "now", "aria-live": "polite" }, right);
  const chartHost = make("div", { class: "charts" }, right);
  const bars = make("div", { class: "bars" }, right);
  const { times } = data.runs[0];
  const words = (step) => `time ${times[step]} of ${data.horizon}`;
  let run = null;
  let frame = null;
  let chart = null;
  let rows = [];
  const control = player(right, times.length, show, words, "Time of the run", times);
  function show(step) {
    const values = frame(step);
    view.heat(values, largest(values));
    view.agent(run.at[step]);
    tellStep(now, data, run, step);
    chart.cursor(run.times[step]);
    rows.forEach((row, i) => {
      const p = run.lines[i].y[step];
      row.bar.style.width = `${100 * p}%`;
      row.bar.setAttribute("data-p", p);
      row.number.textContent = percent(p);
    });
  }
  function choose(number) {
    run = data.runs[number];
    frame = unpack(run.belief, world.count);
    [...choices.children].forEach((button, i) => button.setAttribute("aria-pressed", i === number));
    chartHost.replaceChildren();
    bars.replaceChildren();
    chart = posteriorChart(chartHost, data, run);
    rows = run.lines.map((line) => posteriorBar(bars, line));
    control.stop();
    control.go(0);
  }
  data.runs.forEach((one, number) => {
    make("button", { type: "button" }, choices, one.title).addEventListener("click", () => choose(number));
  });
  const ramp = { ramp: "belief", text: "observer's probability" };
  sceneKey(world, left, [ramp, { sign: "○", colour: "ink", text: "true state" }], false);
  choose(0);
}

function tellStep(now, data, run, step) {
  const seen = run.seen[step];
  now.replaceChildren();
  make("span", {}, now, seen === "" ? "no observation" : "observation ");
  make("bdi", {}, make("b", {}, now), seen);
  make("span", {}, now, `${seen === data.silent ? " (nothing reported)" : ""}; true state `);
  make("bdi", {}, make("b", {}, now), run.states[step]);
}

function posteriorChart(parent, data, run) {
  const label = data.path
    ? "Probability of the true state at each time, given all observations"
    : "Posterior probability of each value of the secret over time";
  const marks = run.times.length <= 40;
  return lineChart(parent, label, {
    series: run.lines.map(({ y, colour, name, true: wide }) => ({ x: run.times, y, colour, name, wide, marks })),
    x: "time",
    y: "posterior probability",
    low: 0,
    high: 1,
    verticals: secretTime(data),
    height: 210,
    whole: true,
  });
}

function posteriorBar(parent, line) {
  const label = make("span", {}, parent);
  make("i", {}, label).style.background = tint(line.colour);
  make("bdi", {}, label, line.name + (line.true ? " (true)" : ""));
  const bar = make("div", {}, make("div", { class: "bar" }, parent));
  bar.style.background = tint(line.colour);
  return { bar, number: make("span", { class: "number" }, parent) };
}
