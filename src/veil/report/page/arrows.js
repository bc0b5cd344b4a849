// The policy over the scene: arrows on a grid, bent moves on a graph.
import { make, percent } from "./make.js";
import { NODE } from "./scene.js";

// Arrows whose length grows with the probability; a dot for staying. Of many cells the likeliest action alone, as an
// arrow through the cell that is the fainter the less likely; none if several are equally likely.
export function drawArrows(world, layer, law, visited, actions, directions) {
  const { scene, places, count } = world;
  layer.replaceChildren();
  const alone = count > 400,
    least = count > 150 ? 0.15 : 0.02,
    wide = alone ? 0.09 : 0.045;
  const paths = { arrows: "", "arrows half": "", "arrows faint": "", unvisited: "" };
  const ended = new Set(scene.traps);
  for (let i = 0; i < count; i++) {
    if (ended.has(i) || (alone && !visited[i])) continue;
    const row = law.subarray(i * actions.length, (i + 1) * actions.length);
    const best = row.indexOf(Math.max(...row));
    if (alone && row.filter((one) => one >= row[best] - 1).length > 1) continue;
    for (let a = 0; a < actions.length; a++) {
      const p = row[a] / 255,
        way = directions[a];
      if (!way || (alone ? a !== best : p < least)) continue;
      const kind = !visited[i] ? "unvisited" : !alone || p > 0.75 ? "arrows" : p > 0.5 ? "arrows half" : "arrows faint";
      const back = alone ? 0.4 / Math.max(1, Math.hypot(way[0], way[1])) : 0;
      paths[kind] += arrow(
        places[2 * i] - back * way[0],
        places[2 * i + 1] - back * way[1],
        way,
        alone ? (way[0] || way[1] ? 3.2 : p) : p,
        wide,
      );
    }
  }
  const looks = { arrows: 1, "arrows half": 0.6, "arrows faint": 0.35, unvisited: 1 };
  for (const [kind, d] of Object.entries(paths)) {
    const fill = kind === "unvisited" ? "var(--faint)" : "var(--arrow)";
    make("path", { d, fill, opacity: looks[kind], class: kind, "pointer-events": "none" }, layer);
  }
}

function arrow(x, y, [right, down], p, wide) {
  if (!right && !down) {
    const r = 0.11 * Math.sqrt(p);
    const half = (across) => `a${r.toFixed(3)} ${r.toFixed(3)} 0 1 0 ${across.toFixed(3)} 0`;
    return `M${(x - r).toFixed(3)} ${y}${half(2 * r)}${half(-2 * r)}z`;
  }
  const norm = Math.hypot(right, down),
    u = right / norm,
    v = down / norm,
    length = 0.44 * Math.sqrt(p);
  const head = Math.min(wide > 0.06 ? 0.3 : 0.15, 0.6 * length),
    half = wide / 2,
    neck = length - head;
  const at = (along, across) => `${(x + u * along - v * across).toFixed(3)} ${(y + v * along + u * across).toFixed(3)}`;
  const side = [at(0, half), at(neck, half), at(neck, 2.2 * wide), at(length, 0)];
  return `M${[...side, at(neck, -2.2 * wide), at(neck, -half), at(0, -half)].join("L")}z`;
}

// On a graph: the moves, as bent arrows whose width is their probability.
export function drawMoves(world, layer, moves) {
  const { scene, places } = world;
  layer.replaceChildren();
  for (const [i, j, p] of moves) {
    if (p < 0.02) continue;
    const [x, y, X, Y] = [places[2 * i], places[2 * i + 1], places[2 * j], places[2 * j + 1]];
    const width = 0.012 + 0.05 * p;
    let group;
    if (i === j) {
      const top = y - NODE - 0.28;
      group = make(
        "path",
        {
          d: `M${x - 0.09} ${top + 0.3}C${x - 0.22} ${top} ${x + 0.22} ${top} ${x + 0.09} ${top + 0.3}`,
          class: "move",
          "stroke-width": width,
          opacity: 0.7,
        },
        layer,
      );
    } else {
      const far = Math.hypot(X - x, Y - y),
        u = (X - x) / far,
        v = (Y - y) / far,
        bend = 0.16 * far;
      const head = 0.09 + 0.07 * p,
        start = NODE + 0.03,
        end = far - NODE - 0.03;
      const at = (along, across) =>
        `${(x + u * along - v * across).toFixed(3)} ${(y + v * along + u * across).toFixed(3)}`;
      group = make("g", { opacity: 0.75 }, layer);
      make(
        "path",
        {
          d: `M${at(start, 0.03)}Q${at(far / 2, bend)} ${at(end - 0.6 * head, 0.05)}`,
          class: "move",
          "stroke-width": width,
        },
        group,
      );
      make(
        "path",
        {
          d: `M${at(end, 0.02)}L${at(end - head, 0.06 + 0.45 * head)}L${at(end - head, 0.06 - 0.45 * head)}z`,
          fill: "var(--arrow)",
        },
        group,
      );
    }
    make("title", {}, group, `${scene.names[i]} → ${scene.names[j]}: ${percent(p)}`);
  }
}
