// The scene: cells or nodes, sensor ranges, marks, heat.
import { key } from "./charts.js";
import { bytes, make, percent, short, tint } from "./make.js";

const LARGE = 2500; // cells beyond which heat is a picture and not a shape for each
const MOST_BORDERED = 900; // cells of a grid whose sensors are shown by borders
export const NODE = 0.2; // radius

// What all drawings of one document share: the scene, the places of its spots, how many there are, and its marks.
export function worldOf(data) {
  const { scene } = data;
  const places = new Float32Array(bytes(scene.places).buffer);
  const starts = { sign: "S", colour: "blue", at: scene.starts.length > 32 ? [] : scene.starts };
  const marks = [starts, ...scene.areas.filter((area) => area.sign)];
  const count = places.length / 2;
  return { scene, places, count, marks, isPicture: scene.grid && count > LARGE };
}

// Frames as they are packed: the positions and square roots of what is not zero.
export function unpack(packed, count) {
  const place = new (packed.wide ? Uint32Array : Uint16Array)(bytes(packed.place).buffer);
  const root = new Uint16Array(bytes(packed.root).buffer);
  return (frame) => {
    const values = new Float32Array(count);
    for (let i = packed.begin[frame]; i < packed.begin[frame + 1]; i++) values[place[i]] = (root[i] / 65535) ** 2;
    return values;
  };
}

function canvas(world, parent, label) {
  const { scene } = world;
  const pad = scene.grid ? 0.03 : 0.7;
  const width = scene.width + (scene.grid ? 0.06 : 0.4),
    height = scene.height + (scene.grid ? 0.06 : 0.35);
  const svg = make(
    "svg",
    { viewBox: `${-pad} ${-(scene.grid ? 0.03 : 0.55)} ${width} ${height}`, role: "img", "aria-label": label },
    parent,
  );
  const most = (scene.grid ? 5.2 : 6) * width; // rem: small scenes are not blown up
  svg.style.maxWidth = `min(100%, ${most}rem, ${(34 * width) / height}rem)`;
  return svg;
}

// The scene without the policy; options: heat (name of a colour), plain (no ranges, no marks, for thumbnails).
export function drawScene(world, parent, label, options) {
  const { scene, places, count } = world;
  const svg = canvas(world, parent, label),
    shapes = [];
  const heat = options.heat;
  const base = make("g", {}, svg);
  if (scene.grid) drawCells(world, base, shapes, heat);
  else drawGraph(world, base, shapes, heat);
  const picture = world.isPicture && heat ? pixels(world, svg) : null;
  if (!options.plain) drawRanges(world, svg, heat);
  const layer = make("g", { class: "policy" }, svg);
  if (!options.plain || scene.grid) drawMarks(world, svg, heat, options.plain);
  if (!scene.grid && !options.plain) drawNames(world, svg);
  const agent = make(
    "circle",
    {
      r: scene.grid ? Math.max(0.3, 0.012 * scene.width) : NODE + 0.08,
      class: "agent",
      "stroke-width": scene.grid ? 0.05 * Math.max(1, scene.width / 20) : 0.035,
      fill: "none",
      stroke: "var(--ink)",
      visibility: "hidden",
    },
    svg,
  );
  return {
    svg,
    layer,
    shapes,
    heat(values, top, words) {
      if (picture) picture(values, top, heat);
      else
        shapes.forEach((shape, i) => {
          shape.hot.style.fillOpacity = Math.min(1, Math.sqrt(values[i] / top)).toFixed(4);
          if (shape.title)
            shape.title.textContent = `${scene.names[i]}: ${words ? words + " " : ""}${percent(values[i])}`;
        });
    },
    agent(position) {
      agent.setAttribute("visibility", position < 0 ? "hidden" : "visible");
      if (position >= 0) {
        agent.setAttribute("cx", places[2 * position]);
        agent.setAttribute("cy", places[2 * position + 1]);
      }
    },
  };
}

function drawCells(world, base, shapes, heat) {
  const { scene, places, count } = world;
  if (count <= LARGE)
    for (let i = 0; i < count; i++) {
      const box = { x: (places[2 * i] - 0.5).toFixed(2), y: (places[2 * i + 1] - 0.5).toFixed(2), width: 1, height: 1 };
      const cell = make("rect", { ...box, class: "cell" }, base);
      if (heat) shapes.push({ hot: make("rect", { ...box, fill: tint(heat), class: "hot" }, base) });
      else shapes.push({ hot: cell });
      shapes[i].title = make("title", {}, shapes[i].hot, scene.names[i]);
    }
  else make("rect", { x: 0, y: 0, width: scene.width, height: scene.height, fill: "var(--card)" }, base);
  let walls = "";
  for (let i = 0; i < scene.walls.length; i += 2) walls += `M${scene.walls[i + 1]} ${scene.walls[i]}h1v1h-1z`;
  make("path", { d: walls, class: "wall" }, base);
  make(
    "path",
    {
      d: scene.closed.map((i) => `M${places[2 * i] - 0.5} ${places[2 * i + 1] - 0.5}h1v1h-1z`).join(""),
      class: "closed",
    },
    base,
  );
  make("rect", { x: 0, y: 0, width: scene.width, height: scene.height, class: "frame" }, base);
}

function drawGraph(world, base, shapes, heat) {
  const { scene, places, count } = world;
  for (let e = 0; e < scene.edges.length; e += 2) {
    const [i, j] = [scene.edges[e], scene.edges[e + 1]];
    if (i !== j)
      make(
        "line",
        { x1: places[2 * i], y1: places[2 * i + 1], x2: places[2 * j], y2: places[2 * j + 1], class: "edge" },
        base,
      );
  }
  for (let i = 0; i < count; i++) {
    make("circle", { cx: places[2 * i], cy: places[2 * i + 1], r: NODE, class: "node" }, base);
    const hot = make(
      "circle",
      { cx: places[2 * i], cy: places[2 * i + 1], r: NODE, class: "hot", fill: heat ? tint(heat) : "var(--card)" },
      base,
    );
    hot.style.fillOpacity = 0;
    shapes.push({ hot, title: make("title", {}, hot, scene.names[i]) });
  }
}

// A large grid's heat as one picture, a pixel a cell.
function pixels(world, svg) {
  const { scene, places, count } = world;
  const paper = document.createElement("canvas");
  paper.width = scene.width;
  paper.height = scene.height;
  const pen = paper.getContext("2d");
  const image = make("image", { x: 0, y: 0, width: scene.width, height: scene.height, class: "hot" }, svg);
  image.style.imageRendering = "pixelated";
  return (values, top, heat) => {
    const shade = getComputedStyle(document.documentElement).getPropertyValue(`--${heat}`).trim();
    const [r, g, b] = [1, 3, 5].map((k) => parseInt(shade.slice(k, k + 2), 16));
    const field = pen.createImageData(paper.width, paper.height);
    for (let i = 0; i < count; i++) {
      const at = 4 * (Math.floor(places[2 * i + 1]) * paper.width + Math.floor(places[2 * i]));
      field.data.set([r, g, b, 255 * Math.min(1, Math.sqrt(values[i] / top))], at);
    }
    pen.putImageData(field, 0, 0);
    image.setAttribute("href", paper.toDataURL());
  };
}

// The ranges of sensors: rings on a graph; on a grid borders over heat, which they leave to see, else shades.
function drawRanges(world, svg, heat) {
  const { scene, count } = world;
  if (!scene.grid) drawRings(world, svg);
  else if (heat && count <= MOST_BORDERED) {
    scene.ranges.forEach((range, number) => {
      const look = { stroke: tint(range.colour), "stroke-width": 0.06, fill: "none", "stroke-linecap": "square" };
      const d = borderPath(range.at, world.places, 0.05 + 0.08 * (number % 3));
      make("path", { d, class: "range", "pointer-events": "none", ...look }, svg);
    });
  } else drawShades(world, svg, heat ? 0.14 : 0.32);
}

// Of each spot, the numbers of the sensors that cover it.
function covering({ scene, count }) {
  const found = Array.from({ length: count }, () => []);
  scene.ranges.forEach((range, number) => range.at.forEach((spot) => found[spot].push(number)));
  return found;
}

function drawRings(world, svg) {
  const { scene, places } = world;
  covering(world).forEach((sensors, spot) =>
    sensors.forEach((sensor, k) => {
      const look = { fill: "none", stroke: tint(scene.ranges[sensor].colour), "stroke-width": 0.04 };
      make("circle", { cx: places[2 * spot], cy: places[2 * spot + 1], r: NODE + 0.06 + 0.06 * k, ...look }, svg);
    }),
  );
}

// The border of a set of cells, drawn inside it.
export function borderPath(spots, places, inset) {
  const inside = new Set(spots.map((spot) => `${places[2 * spot]},${places[2 * spot + 1]}`));
  let path = "";
  for (const spot of spots) {
    const [x, y] = [places[2 * spot], places[2 * spot + 1]];
    const ends = (right, down) => (inside.has(`${x + right},${y + down}`) ? 0.5 : 0.5 - inset);
    const [left, right, up, down] = [ends(-1, 0), ends(1, 0), ends(0, -1), ends(0, 1)];
    const line = (...at) => `M${at[0].toFixed(2)} ${at[1].toFixed(2)}L${at[2].toFixed(2)} ${at[3].toFixed(2)}`;
    if (up < 0.5) path += line(x - left, y - up, x + right, y - up);
    if (down < 0.5) path += line(x - left, y + down, x + right, y + down);
    if (left < 0.5) path += line(x - left, y - up, x - left, y + down);
    if (right < 0.5) path += line(x + right, y - up, x + right, y + down);
    for (const [across, along] of [[1, 1], [1, -1], [-1, 1], [-1, -1]]) {
      // a corner that points inwards: both neighbours are inside, the cell between them is not
      if (inside.has(`${x + across},${y + along}`)) continue;
      if (!inside.has(`${x + across},${y}`) || !inside.has(`${x},${y + along}`)) continue;
      const [edge, near] = [x + 0.5 * across, x + (0.5 - inset) * across];
      const [side, close] = [y + 0.5 * along, y + (0.5 - inset) * along];
      path += line(edge, close, near, close) + line(near, close, near, side);
    }
  }
  return path;
}

// Cells in four steps of depth, by how often the sensor reports there.
function drawShades(world, svg, most) {
  const { scene, places } = world;
  const path = scene.ranges.map(() => ["", "", "", ""]);
  const share = scene.ranges.map(
    ({ at, shares }) => new Map(at.map((spot, k) => [spot, shares[shares.length > 1 ? k : 0] / 100])),
  );
  covering(world).forEach((sensors, spot) =>
    sensors.forEach((sensor, k) => {
      const part = 1 / sensors.length;
      const [x, y] = [places[2 * spot] - 0.5 + k * part, places[2 * spot + 1] - 0.5];
      const step = Math.min(3, Math.floor(4 * share[sensor].get(spot)));
      path[sensor][step] += `M${x.toFixed(3)} ${y.toFixed(2)}h${part.toFixed(3)}v1h${(-part).toFixed(3)}z`;
    }),
  );
  scene.ranges.forEach((range, number) =>
    path[number].forEach((d, depth) => {
      const look = { fill: tint(range.colour), "fill-opacity": (most * (depth + 1)) / 4 };
      if (d) make("path", { d, class: "range", "pointer-events": "none", ...look }, svg);
    }),
  );
}

// Areas by their borders, which leave what is inside to see; what is to be avoided is hatched as well, small areas have
// signs.
function drawMarks(world, svg, heat, plain) {
  const { scene, places, marks } = world;
  const roles = (i) => marks.filter((mark) => mark.at.includes(i)).length;
  for (const area of scene.areas) {
    if (!scene.grid) break;
    if (area.role === "avoid") {
      const hatch = area.at
        .map((i) => {
          const [x, y] = [places[2 * i] - 0.5, places[2 * i + 1] - 0.5];
          return `M${x} ${y + 0.5}l0.5 -0.5M${x} ${y + 1}l1 -1M${x + 0.5} ${y + 1}l0.5 -0.5`;
        })
        .join("");
      make(
        "path",
        {
          d: hatch,
          stroke: tint(area.colour),
          "stroke-width": 0.05,
          opacity: 0.55,
          fill: "none",
          "pointer-events": "none",
          class: "hatch",
        },
        svg,
      );
    }
    let border = "";
    for (let k = 0; k < area.lines.length; k += 4)
      border += `M${area.lines[k]} ${area.lines[k + 1]}L${area.lines[k + 2]} ${area.lines[k + 3]}`;
    if (border)
      make(
        "path",
        {
          d: border,
          stroke: tint(area.colour),
          "stroke-width": Math.max(0.12, scene.width / 250),
          "stroke-linecap": "square",
          fill: "none",
          "pointer-events": "none",
          class: "area",
        },
        svg,
      );
  }
  const big = scene.grid ? Math.max(1, Math.max(scene.width, scene.height) / 13) : 1;
  const seen = new Map();
  for (const { sign, colour, at } of marks)
    for (const i of at) {
      const nth = seen.get(i) || 0;
      seen.set(i, nth + 1);
      // in a cell from its upper left corner, regardless of the size of the sign
      const x = places[2 * i] + (scene.grid ? -0.45 + big * (0.11 + 0.24 * nth) : 0.17 * (nth - (roles(i) - 1) / 2));
      const y = places[2 * i + 1] + (scene.grid ? -0.45 + 0.23 * big : 0.1);
      make(
        "text",
        {
          x,
          y,
          "font-size": (scene.grid ? (plain ? 0.5 : 0.3) : 0.22) * big,
          "font-weight": 700,
          "text-anchor": "middle",
          fill: tint(colour),
          "pointer-events": "none",
          "paint-order": "stroke",
          stroke: "var(--paper)",
          "stroke-width": heat ? 0.06 * big : 0,
          "stroke-linejoin": "round",
        },
        svg,
        sign,
      );
    }
}

function drawNames(world, svg) {
  const { scene, places, count } = world;
  const small = count > 15;
  for (let i = 0; i < count; i++)
    make(
      "text",
      {
        x: places[2 * i],
        y: places[2 * i + 1] + NODE + (small ? 0.17 : 0.25),
        "font-size": small ? 0.14 : 0.16,
        "text-anchor": "middle",
        "paint-order": "stroke",
        stroke: "var(--paper)",
        "stroke-width": 0.05,
      },
      svg,
      short(scene.names[i], small ? 11 : 18),
    );
}

// The key to a scene; more: further entries; withRanges: the rates of the sensors too.
export function sceneKey(world, parent, more, withRanges) {
  const { scene } = world;
  const entries = scene.ranges.map((r) => ({
    text: `sensor ${r.name}${withRanges ? ` (reports ${percent(r.rate)})` : ""}`,
    colour: r.colour,
    border: !scene.grid || (!withRanges && world.count <= MOST_BORDERED),
  }));
  if (scene.starts.length) entries.push({ sign: "S", colour: "blue", text: "start" });
  for (const { sign, colour, name, role } of scene.areas)
    entries.push({
      sign,
      colour,
      border: !sign,
      hatch: role === "avoid",
      text: role === "absorbing" ? "absorbing, no reward" : name,
    });
  if (scene.closed.length) entries.push({ colour: "faint", solid: true, text: "never entered" });
  return key(parent, entries.concat(more));
}
