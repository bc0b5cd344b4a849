// The figures of a document, each in the place that names it.
import { drawArrows, drawMoves } from "./arrows.js";
import { beliefFigure } from "./belief.js";
import { key, lineChart, player, secretTime } from "./charts.js";
import { bytes, largest, make, percent, short, tint } from "./make.js";
import { drawScene, sceneKey, unpack, worldOf } from "./scene.js";

// The drawings of a document; drawAll() fills the places under an element.
export function figures(data, root) {
  const world = worldOf(data);
  return {
    isPicture: world.isPicture,
    drawScene: (...given) => drawScene(world, ...given),
    sceneKey: (...given) => sceneKey(world, ...given),
    drawAll() {
      for (const [name, draw] of Object.entries(FIGURES)) {
        const host = root.querySelector(`[data-figure="${name}"]`);
        if (!host) continue;
        draw({ data, world, host });
        host.setAttribute("data-drawn", "yes");
      }
    },
  };
}

const FIGURES = {
  policy: policyFigure,
  occupancy: occupancyFigure,
  belief: beliefFigure,
  "over-time": overTimeFigure,
  sources: sourcesFigure,
  convergence: convergenceFigure,
  frontier: frontierFigure,
};

function policyFigure({ data, world, host }) {
  const { scene, count } = world;
  const { policy } = data;
  const view = drawScene(world, host, "The policy", {});
  const laws = policy.laws.map(bytes);
  const visited = policy.visited.map(bytes);
  const said = (step, spot) => {
    const law = laws[step].subarray(spot * policy.actions.length, (spot + 1) * policy.actions.length);
    const row = Array.from(law, (share, action) => [share / 255, policy.actions[action]]);
    const likely = row.filter(([p]) => p > 0.01).sort((a, b) => b[0] - a[0]);
    return likely.slice(0, 6).map(([p, name]) => `${name} ${percent(p)}`);
  };
  const show = (step) => {
    if (scene.grid) drawArrows(world, view.layer, laws[step], visited[step], policy.actions, policy.directions);
    else drawMoves(world, view.layer, policy.moves[step]);
    view.shapes.forEach((shape, spot) => {
      shape.title.textContent = [scene.names[spot], ...said(step, spot)].join("\n");
    });
  };
  if (policy.timed && laws.length > 1) {
    const words = (step) => `decision ${step} of ${laws.length}`;
    player(host, laws.length, show, words, "Time of the decision").go(0);
  } else show(0);
  sceneKey(world, host, arrowKey(policy, scene, count, visited), true);
}

function arrowKey(policy, scene, count, visited) {
  const longer = count > 400 ? "likeliest action, darker: more probable" : "longer: more probable";
  const signs = [{ sign: "→", colour: "arrow", text: scene.grid ? longer : "wider: more probable" }];
  if (scene.grid && policy.directions.some((way) => way && !way[0] && !way[1]))
    signs.push({ sign: "●", colour: "arrow", text: "stay" });
  if (scene.grid && count <= 400 && visited[0].includes(0))
    signs.push({ sign: "→", colour: "faint", text: "never visited" });
  return signs;
}

function occupancyFigure({ data, world, host }) {
  const { times, frames, models } = data.occupancy;
  let frame = unpack(frames, world.count);
  const group = { class: "choices", role: "group", "aria-label": "Which model" };
  const choices = models.length ? make("div", group, host) : null;
  const view = drawScene(world, host, "Probability of each state over time", { heat: "blue" });
  let ramp = null;
  const show = (step) => {
    const values = frame(step);
    const most = largest(values);
    view.heat(values, most);
    if (ramp) ramp.textContent = `0 to ${percent(most)} now`;
  };
  const control = player(host, times.length, show, (step) => `time ${times[step]} of ${data.horizon}`, "Time", times);
  ramp = sceneKey(world, host, [{ ramp: "blue", text: "" }], false).lastChild.lastChild;
  const thumbs = times.length > 2 ? thumbnails(world, host, times, control) : [];
  const refresh = () => thumbs.forEach(([small, step]) => small.heat(frame(step), largest(frame(step))));
  refresh();
  control.go(0);
  if (!choices) return;
  const choose = (number) => {
    frame = unpack(number ? models[number - 1].frames : frames, world.count);
    [...choices.children].forEach((button, i) => button.setAttribute("aria-pressed", i === number));
    refresh();
    control.stop();
    control.go(control.now());
  };
  ["all models", ...models.map((model) => model.name)].forEach((name, number) => {
    const button = make("button", { type: "button" }, choices);
    make("bdi", {}, button, name);
    button.addEventListener("click", () => choose(number));
  });
  choose(0);
}

// Six small pictures over time, each of which moves the player to its time.
function thumbnails(world, host, times, control) {
  const row = make("div", { class: "thumbs" }, host);
  const steps = new Set([0, 1, 2, 3, 4, 5].map((i) => Math.round((i * (times.length - 1)) / 5)));
  return [...steps].map((step) => {
    const button = make("button", { type: "button", title: "show this time" }, row);
    const small = drawScene(world, button, `time ${times[step]}`, { heat: "blue", plain: true });
    small.svg.setAttribute("aria-hidden", "true");
    make("span", {}, button, `t = ${times[step]}`);
    button.addEventListener("click", () => {
      control.stop();
      control.go(step);
    });
    return [small, step];
  });
}

function overTimeFigure({ data, host }) {
  const { times, bits, errors } = data.leaking;
  const line = { x: times, y: bits, colour: "blue", name: "remaining uncertainty", marks: times.length <= 40 };
  const edge = (sign) => {
    const y = bits.map((value, i) => Math.max(0, value + 2 * sign * errors[i]));
    return { x: times, y, colour: "sky", name: "two standard errors" };
  };
  const series = errors.length ? [edge(-1), edge(1), line] : [line];
  lineChart(host, "Remaining uncertainty over time", {
    series,
    verticals: secretTime(data),
    x: "time",
    y: data.path ? "H(state | all seen), bits" : "H(Z | seen so far), bits",
    low: 0,
    high: 1.08 * largest(series.flatMap((one) => one.y)),
    height: 220,
    whole: true,
  });
}

function sourcesFigure({ data, host }) {
  const list = make("div", { class: "bars" }, host);
  const most = largest(data.leaking.sources.map(([, bits]) => bits));
  for (const [name, bits] of data.leaking.sources) {
    make("bdi", {}, make("span", {}, list), short(name, 40));
    const bar = make("div", {}, make("div", { class: "bar" }, list));
    bar.style.background = tint("blue");
    bar.style.width = `${Math.max(0, (100 * bits) / most)}%`;
    make("span", { class: "number" }, list, (Math.round(bits * 1e4) / 1e4 + 0).toFixed(4));
  }
}

function convergenceFigure({ data, host }) {
  const { iteration, bits, returns, upper, upper_text: text, threshold } = data.convergence;
  const axes = { x: "iteration", height: 190, whole: true };
  lineChart(host, "Hidden bits over the iterations", {
    ...axes,
    series: [{ x: iteration, y: bits, colour: "blue", name: "hidden bits" }],
    levels: upper === null ? [] : [{ y: upper, text: `proven upper bound ${text}`, colour: "vermilion" }],
    y: "hidden bits, H(Z|Y)",
  });
  const required = { y: threshold, text: `required: ${Number(threshold?.toPrecision(5))}`, colour: "vermilion" };
  lineChart(host, "Return over the iterations", {
    ...axes,
    series: [{ x: iteration, y: returns, colour: "blue", name: "expected return" }],
    levels: threshold === null ? [] : [required],
    y: "expected return",
  });
}

function frontierFigure({ data, host }) {
  const { points, bounds, chosen, upper, upper_text: text, threshold } = data.frontier;
  const xs = (pairs) => pairs.map(([x]) => x);
  const ys = (pairs) => pairs.map(([, y]) => y);
  const found = { colour: "blue", name: "best found", marks: true };
  const bound = { colour: "vermilion", name: "proven upper bound", marks: true, dash: "6 4", step: true };
  const own = { colour: "vermilion", name: "this policy", marks: "diamond", line: false, note: "this policy" };
  const series = [];
  if (points.length) series.push({ x: xs(points), y: ys(points), ...found });
  if (bounds.length) series.push({ x: xs(bounds), y: ys(bounds), ...bound });
  series.push({ x: [chosen[0]], y: [chosen[1]], ...own });
  const most = Math.max(...series.flatMap((one) => one.y), upper ?? 0);
  const level = { y: upper, text: `proven upper bound ${text}`, colour: "vermilion", from: threshold };
  lineChart(host, "Hidden bits against expected return", {
    series,
    levels: upper === null || bounds.length ? [] : [level],
    verticals: threshold === null ? [] : [{ x: threshold, text: "required", colour: "muted" }],
    x: "expected return",
    y: "hidden bits, H(Z|Y)",
    low: 0,
    high: 1.12 * most || 1,
    roomy: true,
    height: 300,
  });
  if (!bounds.length) return;
  key(host, [
    { sign: "●", colour: "blue", text: "best found" },
    { sign: "╌", colour: "vermilion", text: "proven upper bound" },
    { sign: "◆", colour: "vermilion", text: "this policy" },
  ]);
}
