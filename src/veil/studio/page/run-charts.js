// The charts that compare runs: bits over time, and bits for return.
import { key, lineChart } from "../report/charts.js";
import { make } from "../report/make.js";
import { front, isNumber } from "./numbers.js";
import { colourOf, isBusy } from "./run-words.js";

const HEIGHT = 220;
const named = (run) => `Run ${run.id}`;
const room = (series) => 1.06 * Math.max(0.05, ...series.flatMap((one) => one.y));

// Returns the function that draws the charts of runs, whose moments are [seconds, bits, return, upper bound].
export function makeCharts(parent) {
  const [time, trade] = ["Bits over time", "Bits for return"].map((title) => {
    const figure = make("figure", {}, parent);
    make("h2", {}, figure, title);
    return make("div", { class: "chart" }, figure);
  });
  return (runs, moments) => {
    parent.hidden = runs.length === 0;
    drawTime(time, runs, moments);
    drawTrade(trade, runs);
  };
}

function drawTime(host, runs, moments) {
  const known = runs.filter((run) => run.kind === "solve" && moments.get(run.id)?.length);
  const series = known.flatMap((run) => overTime(run, moments.get(run.id)));
  host.replaceChildren();
  if (!series.length) {
    make("p", { class: "note" }, host, "A line for each run, once it searches.");
    return;
  }
  const axes = { x: "seconds", y: "bits", height: HEIGHT, low: 0, high: room(series) };
  lineChart(host, "Bits over time", { series, ...axes });
  const entries = known.map((run) => ({ colour: colourOf(run), solid: true, text: named(run) }));
  if (series.some((one) => one.dash)) entries.push({ sign: "╌", colour: "muted", text: "proven upper bound" });
  key(host, entries);
}

function overTime(run, rows) {
  const ended = !isBusy(run) && isNumber(run.bits);
  const all = ended ? [...rows, [rows.at(-1)[0], run.bits, null, run.proven_upper ?? null]] : rows;
  const line = (part, column) => ({
    x: part.map((row) => row[0]),
    y: part.map((row) => row[column]),
    colour: colourOf(run),
  });
  const bounded = all.filter((row) => isNumber(row[3]));
  const bits = { ...line(all, 1), name: named(run) };
  if (bounded.length < 2) return [bits];
  return [bits, { ...line(bounded, 3), name: `${named(run)}, proven at most`, dash: "5 4" }];
}

function drawTrade(host, runs) {
  const series = runs.flatMap(forReturn);
  host.replaceChildren();
  if (!series.length) {
    make("p", { class: "note" }, host, "A point for each run, a curve for each frontier.");
    return;
  }
  const axes = { x: "return", y: "bits", height: HEIGHT, roomy: true, low: 0, high: room(series) };
  lineChart(host, "Bits for return", { series, ...axes });
  const known = runs.filter((run) => forReturn(run).length);
  key(
    host,
    known.map((run) => ({ colour: colourOf(run), solid: true, text: named(run) })),
  );
}

function forReturn(run) {
  const look = { colour: colourOf(run), name: named(run) };
  if (run.kind === "frontier") {
    const points = front(run.points);
    const line = { x: points.map((p) => p[0]), y: points.map((p) => p[1]), marks: "circle", ...look };
    return points.length ? [line] : [];
  }
  if (!isNumber(run.bits) || !isNumber(run.expected_return)) return [];
  return [{ x: [run.expected_return], y: [run.bits], marks: "diamond", line: false, ...look }];
}
