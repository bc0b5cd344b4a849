// Line charts, the player with its slider, keys to colours.
import { inkOf, make, tint } from "./make.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 14, 26, 42]; // margins of a chart, in pixels

export function ticks(low, high, wanted, whole) {
  const rough = (high - low || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const fine = [1, 2, 5, 10].map((k) => k * power).find((step) => step >= rough * 0.999);
  const step = whole ? Math.max(1, fine) : fine;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found.map((value) => ({ value, text: String(Number(value.toPrecision(6))) }));
}

// The ends of both axes: [left, right, low, high].
export function extent({ series, levels = [], verticals = [], low, high, roomy }) {
  const xs = [...series.flatMap((one) => one.x), ...verticals.map((one) => one.x)];
  const ys = [...series.flatMap((one) => one.y), ...levels.map((one) => one.y)].filter((y) => y !== null);
  let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  let [y0, y1] = [low ?? Math.min(...ys), high ?? Math.max(...ys)];
  const widen = (room) => {
    x0 -= room;
    x1 += room;
  };
  if (!(x1 > x0)) widen(Math.abs(x0) * 0.2 || 0.5);
  if (low === undefined) {
    const room = (y1 - y0) * 0.08 || Math.abs(y0) * 0.1 || 0.05;
    y0 -= room;
    y1 += room;
  }
  if (roomy) widen(Math.max((x1 - x0) * 0.05, (0.2 * Math.max(Math.abs(x0), Math.abs(x1)) - (x1 - x0)) / 2));
  return [x0, x1, y0, y1];
}

// A chart of lines and marks. Options: `series`, each with x, y, colour, name, and marks, line, wide, dash, step, note;
// `levels` with y, text, colour, from; `verticals` with x, text, colour; `x` and `y`, the labels; `low`, `high`,
// `height`; `roomy`; `whole` if x has whole numbers only. A level holds from x = `from` on, everywhere without it. With
// `step` each value holds up to the next point, and null interrupts the line.
export function lineChart(parent, label, options) {
  const width = Math.max(300, Math.min(620, parent.clientWidth || 480));
  const height = options.height || 230;
  const [x0, x1, y0, y1] = extent(options);
  const X = (x) => LEFT + ((x - x0) / (x1 - x0)) * (width - LEFT - RIGHT);
  const Y = (y) => height - BOTTOM - ((y - y0) / (y1 - y0)) * (height - TOP - BOTTOM);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, parent);
  svg.style.maxWidth = `${width}px`;
  const area = { svg, X, Y, width, height, ends: [x0, x1, y0, y1] };
  drawAxes(area, options);
  for (const one of options.verticals || []) drawVertical(area, one);
  for (const one of options.levels || []) drawLevel(area, one);
  for (const one of options.series) drawSeries(area, one);
  const cursor = make("path", { d: "", stroke: "var(--ink)", "stroke-width": 1.2, fill: "none", class: "cursor" }, svg);
  return { svg, cursor: (x) => cursor.setAttribute("d", `M${X(x).toFixed(1)} ${TOP - 6}V${height - BOTTOM}`) };
}

function drawAxes({ svg, X, Y, width, height, ends }, options) {
  const [x0, x1, y0, y1] = ends;
  const number = { "font-size": 12, fill: "var(--muted)" };
  for (const { value, text } of ticks(y0, y1, 4)) {
    make("path", { d: `M${LEFT} ${Y(value).toFixed(1)}H${width - RIGHT}`, class: "guide" }, svg);
    make("text", { ...number, x: LEFT - 7, y: Y(value) + 4, "text-anchor": "end" }, svg, text);
  }
  for (const { value, text } of ticks(x0, x1, Math.max(3, Math.floor(width / 90)), options.whole))
    make("text", { ...number, x: X(value), y: height - BOTTOM + 18, "text-anchor": "middle" }, svg, text);
  make("path", { d: `M${LEFT} ${height - BOTTOM}H${width - RIGHT}`, class: "axis" }, svg);
  make("text", { x: LEFT - 44, y: 13, "font-size": 12.5 }, svg, options.y);
  make("text", { x: width - RIGHT, y: height - 6, "text-anchor": "end", "font-size": 12.5 }, svg, options.x);
}

function drawVertical({ svg, X, width, height }, { x, text, colour }) {
  const line = { stroke: tint(colour), "stroke-dasharray": "2 4", fill: "none", "stroke-width": 1.4 };
  make("path", { ...line, d: `M${X(x).toFixed(1)} ${TOP}V${height - BOTTOM}` }, svg);
  const beyond = X(x) > width / 2;
  const side = { x: X(x) + (beyond ? -5 : 5), "text-anchor": beyond ? "end" : "start" };
  make("text", { ...side, y: height - BOTTOM - 7, "font-size": 11.5, fill: "var(--muted)" }, svg, text);
}

function drawLevel({ svg, X, Y, width }, { y, text, colour, from }) {
  const begin = from == null ? LEFT : Math.max(LEFT, X(from));
  const line = { stroke: tint(colour), "stroke-dasharray": "6 4", fill: "none", "stroke-width": 1.4 };
  make("path", { ...line, d: `M${begin.toFixed(1)} ${Y(y).toFixed(1)}H${width - RIGHT}`, class: "level" }, svg);
  const corner = { x: width - RIGHT, y: 13, "text-anchor": "end", "font-size": 12, fill: "var(--ink)" };
  const words = make("text", corner, svg);
  make("tspan", { fill: tint(colour) }, words, "╌ ");
  make("tspan", {}, words, text);
}

function drawSeries(area, series) {
  const { svg, X, Y } = area;
  const { x, y, colour, name, marks, wide, dash, step, note } = series;
  const known = x.map((value, i) => [value, y[i]]).filter(([, value]) => value !== null);
  const points = known.map(([a, b]) => [X(a).toFixed(1), Y(b).toFixed(1)]);
  const line = { fill: "none", stroke: tint(colour), "data-name": name, ...(dash ? { "stroke-dasharray": dash } : {}) };
  if (step) {
    const joined = (i) => (i > 0 && y[i - 1] !== null ? `H${X(x[i]).toFixed(1)}V` : `M${X(x[i]).toFixed(1)} `);
    const d = y.map((value, i) => (value === null ? "" : joined(i) + Y(value).toFixed(1))).join("");
    make("path", { ...line, d, "stroke-width": 1.6 }, svg);
  } else if (series.line !== false) {
    const thick = { "stroke-width": wide ? 3 : 1.8, "stroke-linejoin": "round" };
    make("polyline", { ...line, ...thick, points: points.map((point) => point.join(",")).join(" ") }, svg);
  }
  if (marks)
    for (const [i, [cx, cy]] of points.entries()) {
      const diamond = { d: `M${cx} ${cy}m0 -7l7 7l-7 7l-7 -7z`, fill: tint(colour), class: "chosen" };
      const isDiamond = marks === "diamond";
      const mark = make(
        isDiamond ? "path" : "circle",
        isDiamond ? diamond : { cx, cy, r: 3.2, fill: tint(colour) },
        svg,
      );
      make("title", {}, mark, `${name}: ${known[i][1]} at ${known[i][0]}`);
    }
  if (note) drawNote(area, points[0].map(Number), note);
}

function drawNote({ svg, width, height }, [x, y], text) {
  const beyond = x > width / 2;
  const side = { x: x + (beyond ? -10 : 10), "text-anchor": beyond ? "end" : "start" };
  const place = { ...side, y: y + 17 > height - BOTTOM ? y - 10 : y + 17, "font-size": 12.5 };
  make("text", { ...place, "paint-order": "stroke", stroke: "var(--paper)", "stroke-width": 3 }, svg, text);
}

// The line at the time of the secret, where it is not an end of the chart.
export function secretTime(data) {
  const inside = data.split > 0 && data.split < data.horizon;
  return inside ? [{ x: data.split, text: "time of the secret", colour: "muted" }] : [];
}

export function key(parent, entries) {
  const list = make("ul", { class: "key" }, parent);
  for (const entry of entries) {
    const item = make("li", {}, list);
    if (entry.sign) make("b", {}, item, entry.sign).style.color = inkOf(entry.colour);
    else if (entry.ramp)
      make("span", { class: "ramp" }, item).style.background =
        `linear-gradient(to right, transparent, ${tint(entry.ramp)})`;
    else if (entry.border) {
      const patch = make("i", {}, item);
      patch.style.border = `2px solid ${tint(entry.colour)}`;
      if (entry.hatch)
        patch.style.background = `repeating-linear-gradient(135deg, ${tint(entry.colour)} 0 1px, transparent 1px 4px)`;
    } else {
      const patch = make("i", {}, item);
      patch.style.background = tint(entry.colour);
      patch.style.opacity = entry.solid ? 1 : 0.55;
    }
    make("bdi", {}, item, entry.text);
  }
  return list;
}

// A slider over steps with a button that plays them; show(step) draws, words(step) names it; times: of the steps, if
// they are not 0, 1, …. Other players follow through the event "step", which tells the time, and the functions `time`
// and `toTime` of the bar.
export function player(parent, steps, show, words, name, times) {
  const bar = make("div", { class: "player" }, parent);
  const button = make("button", { type: "button" }, bar, "Animate");
  const slider = make(
    "input",
    { type: "range", min: 0, max: Math.max(0, steps - 1), step: 1, value: 0, "aria-label": name },
    bar,
  );
  const told = make("output", {}, bar);
  let timer = null,
    now = 0;
  const timeOf = (step) => (times ? times[step] : step);
  const go = (step) => {
    now = step;
    slider.value = step;
    told.textContent = words(step);
    show(step);
    bar.dispatchEvent(new CustomEvent("step", { bubbles: true, detail: timeOf(step) }));
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "Animate";
  };
  slider.addEventListener("input", () => {
    stop();
    go(Number(slider.value));
  });
  button.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (now >= steps - 1) go(0);
    button.textContent = "Pause";
    timer = setInterval(
      () => {
        if (now >= steps - 1) stop();
        else go(now + 1);
      },
      Math.max(60, Math.min(700, 9000 / steps)),
    );
  });
  bar.time = () => timeOf(now);
  bar.toTime = (time) => {
    let step = 0;
    while (step < steps - 1 && timeOf(step + 1) <= time) step++;
    if (step !== now) {
      stop();
      go(step);
    }
  };
  return { go, stop, now: () => now };
}
