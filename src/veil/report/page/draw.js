// The scene: cells or nodes, sensor ranges, marks, heat, arrows. `data` is that of the function around it, `figures`.
const scene = data.scene;
const LARGE = 2500; // cells beyond which heat is a picture and not a shape for each
const MARKS = [{ sign: "S", colour: "blue", at: scene.starts.length > 32 ? [] : scene.starts }, ...scene.areas.filter((area) => area.sign)];
const NODE = 0.2;

const places = new Float32Array(bytes(scene.places).buffer);
const count = places.length / 2;

// Frames as they are packed: the positions and square roots of what is not zero.
function unpack(packed) {
  const place = new (packed.wide ? Uint32Array : Uint16Array)(bytes(packed.place).buffer);
  const root = new Uint16Array(bytes(packed.root).buffer);
  return (frame) => {
    const values = new Float32Array(count);
    for (let i = packed.begin[frame]; i < packed.begin[frame + 1]; i++) values[place[i]] = (root[i] / 65535) ** 2;
    return values;
  };
}

function canvas(parent, label) {
  const pad = scene.grid ? 0.03 : 0.7;
  const width = scene.width + (scene.grid ? 0.06 : 0.4), height = scene.height + (scene.grid ? 0.06 : 0.35);
  const svg = make("svg", { viewBox: `${-pad} ${-(scene.grid ? 0.03 : 0.55)} ${width} ${height}`, role: "img", "aria-label": label }, parent);
  const most = (scene.grid ? 5.2 : 6) * width; // rem: small scenes are not blown up
  svg.style.maxWidth = `min(100%, ${most}rem, ${(34 * width) / height}rem)`;
  return svg;
}

// The scene without the policy; options: heat (name of a colour), plain (no ranges, no marks, for thumbnails).
function drawScene(parent, label, options) {
  const svg = canvas(parent, label), shapes = [];
  const heat = options.heat;
  const base = make("g", {}, svg);
  if (scene.grid) drawCells(base, shapes, heat);
  else drawGraph(base, shapes, heat);
  const picture = scene.grid && count > LARGE && heat ? pixels(svg) : null;
  if (!options.plain) drawRanges(svg, heat);
  const layer = make("g", { class: "policy" }, svg);
  if (!options.plain || scene.grid) drawMarks(svg, heat, options.plain);
  if (!scene.grid && !options.plain) drawNames(svg);
  const agent = make("circle", { r: scene.grid ? Math.max(0.3, 0.012 * scene.width) : NODE + 0.08, class: "agent", "stroke-width": scene.grid ? 0.05 * Math.max(1, scene.width / 20) : 0.035, fill: "none", stroke: "var(--ink)", visibility: "hidden" }, svg);
  return {
    svg, layer, shapes,
    heat(values, top, words) {
      if (picture) picture(values, top, heat);
      else shapes.forEach((shape, i) => {
        shape.hot.style.fillOpacity = Math.min(1, Math.sqrt(values[i] / top)).toFixed(4);
        if (shape.title) shape.title.textContent = `${scene.names[i]}: ${words ? words + " " : ""}${percent(values[i])}`;
      });
    },
    agent(position) {
      agent.setAttribute("visibility", position < 0 ? "hidden" : "visible");
      if (position >= 0) { agent.setAttribute("cx", places[2 * position]); agent.setAttribute("cy", places[2 * position + 1]); }
    },
  };
}

function drawCells(base, shapes, heat) {
  if (count <= LARGE) for (let i = 0; i < count; i++) {
    const box = { x: (places[2 * i] - 0.5).toFixed(2), y: (places[2 * i + 1] - 0.5).toFixed(2), width: 1, height: 1 };
    const cell = make("rect", { ...box, class: "cell" }, base);
    if (heat) shapes.push({ hot: make("rect", { ...box, fill: tint(heat), class: "hot" }, base) });
    else shapes.push({ hot: cell });
    shapes[i].title = make("title", {}, shapes[i].hot, scene.names[i]);
  } else make("rect", { x: 0, y: 0, width: scene.width, height: scene.height, fill: "var(--card)" }, base);
  let walls = "";
  for (let i = 0; i < scene.walls.length; i += 2) walls += `M${scene.walls[i + 1]} ${scene.walls[i]}h1v1h-1z`;
  make("path", { d: walls, class: "wall" }, base);
  make("path", { d: scene.closed.map((i) => `M${places[2 * i] - 0.5} ${places[2 * i + 1] - 0.5}h1v1h-1z`).join(""), class: "closed" }, base);
  make("rect", { x: 0, y: 0, width: scene.width, height: scene.height, class: "frame" }, base);
}

function drawGraph(base, shapes, heat) {
  for (let e = 0; e < scene.edges.length; e += 2) {
    const [i, j] = [scene.edges[e], scene.edges[e + 1]];
    if (i !== j) make("line", { x1: places[2 * i], y1: places[2 * i + 1], x2: places[2 * j], y2: places[2 * j + 1], class: "edge" }, base);
  }
  for (let i = 0; i < count; i++) {
    make("circle", { cx: places[2 * i], cy: places[2 * i + 1], r: NODE, class: "node" }, base);
    const hot = make("circle", { cx: places[2 * i], cy: places[2 * i + 1], r: NODE, class: "hot", fill: heat ? tint(heat) : "var(--card)" }, base);
    hot.style.fillOpacity = 0;
    shapes.push({ hot, title: make("title", {}, hot, scene.names[i]) });
  }
}

// A large grid's heat as one picture, a pixel a cell.
function pixels(svg) {
  const paper = document.createElement("canvas");
  paper.width = scene.width; paper.height = scene.height;
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

function drawRanges(svg, heat) {
  const covering = Array.from({ length: count }, () => []);
  scene.ranges.forEach((range, number) => range.at.forEach((i) => covering[i].push(number)));
  // Cells in four steps of depth, by how often the sensor reports there.
  const path = scene.ranges.map(() => ["", "", "", ""]);
  const share = scene.ranges.map((range) => new Map(range.at.map((i, k) => [i, range.shares[range.shares.length > 1 ? k : 0] / 100])));
  const step = (sensor, i) => Math.min(3, Math.floor(4 * share[sensor].get(i)));
  covering.forEach((sensors, i) => sensors.forEach((sensor, k) => {
    const [x, y] = [places[2 * i], places[2 * i + 1]];
    if (!scene.grid) {
      make("circle", { cx: x, cy: y, r: NODE + 0.06 + 0.06 * k, fill: "none", stroke: tint(scene.ranges[sensor].colour), "stroke-width": 0.04 }, svg);
    } else if (heat && count <= 900) {
      const inset = 0.06 + 0.07 * k, side = 1 - 2 * inset;
      path[sensor][3] += `M${(x - 0.5 + inset).toFixed(2)} ${(y - 0.5 + inset).toFixed(2)}h${side}v${side}h${-side}z`;
    } else {
      const part = 1 / sensors.length;
      path[sensor][step(sensor, i)] += `M${(x - 0.5 + k * part).toFixed(3)} ${(y - 0.5).toFixed(2)}h${part.toFixed(3)}v1h${(-part).toFixed(3)}z`;
    }
  }));
  if (!scene.grid) return;
  scene.ranges.forEach((range, number) => path[number].forEach((d, depth) => {
    if (!d) return;
    const fill = { fill: tint(range.colour), "fill-opacity": (heat ? 0.14 : 0.32) * (depth + 1) / 4 };
    const look = heat && count <= 900 ? { fill: "none", stroke: tint(range.colour), "stroke-width": 0.05, opacity: 0.75 } : fill;
    make("path", { d, class: "range", "pointer-events": "none", ...look }, svg);
  }));
}

// Areas by their borders, which leave what is inside to see, what is to be avoided hatched as well; the small ones by signs.
function drawMarks(svg, heat, plain) {
  for (const area of scene.areas) {
    if (!scene.grid) break;
    if (area.role === "avoid") {
      const hatch = area.at.map((i) => { const [x, y] = [places[2 * i] - 0.5, places[2 * i + 1] - 0.5]; return `M${x} ${y + 0.5}l0.5 -0.5M${x} ${y + 1}l1 -1M${x + 0.5} ${y + 1}l0.5 -0.5`; }).join("");
      make("path", { d: hatch, stroke: tint(area.colour), "stroke-width": 0.05, opacity: 0.55, fill: "none", "pointer-events": "none", class: "hatch" }, svg);
    }
    let border = "";
    for (let k = 0; k < area.lines.length; k += 4) border += `M${area.lines[k]} ${area.lines[k + 1]}L${area.lines[k + 2]} ${area.lines[k + 3]}`;
    if (border) make("path", { d: border, stroke: tint(area.colour), "stroke-width": Math.max(0.12, scene.width / 250), "stroke-linecap": "square", fill: "none", "pointer-events": "none", class: "area" }, svg);
  }
  const big = scene.grid ? Math.max(1, Math.max(scene.width, scene.height) / 13) : 1;
  const seen = new Map();
  for (const { sign, colour, at } of MARKS) for (const i of at) {
    const nth = seen.get(i) || 0;
    seen.set(i, nth + 1);
    const x = places[2 * i] + (scene.grid ? -0.34 + 0.24 * nth : 0.17 * (nth - (roles(i) - 1) / 2));
    const y = places[2 * i + 1] + (scene.grid ? -0.22 : 0.1);
    make("text", { x, y, "font-size": (scene.grid ? (plain ? 0.5 : 0.3) : 0.22) * big, "font-weight": 700, "text-anchor": "middle", fill: tint(colour), "pointer-events": "none", "paint-order": "stroke", stroke: "var(--paper)", "stroke-width": heat ? 0.06 * big : 0, "stroke-linejoin": "round" }, svg, sign);
  }
}
const roles = (i) => MARKS.filter((mark) => mark.at.includes(i)).length;

function drawNames(svg) {
  const small = count > 15;
  for (let i = 0; i < count; i++)
    make("text", { x: places[2 * i], y: places[2 * i + 1] + NODE + (small ? 0.17 : 0.25), "font-size": small ? 0.14 : 0.16, "text-anchor": "middle", "paint-order": "stroke", stroke: "var(--paper)", "stroke-width": 0.05 }, svg, short(scene.names[i], small ? 11 : 18));
}

// The policy: arrows whose length grows with the probability; a dot for staying. Of many cells the likeliest action alone, as an
// arrow through the cell that is the fainter the less likely.
function drawArrows(layer, law, visited, actions, directions) {
  layer.replaceChildren();
  const alone = count > 400, least = count > 150 ? 0.15 : 0.02, wide = alone ? 0.09 : 0.045;
  const paths = { "arrows": "", "arrows half": "", "arrows faint": "", unvisited: "" };
  const ended = new Set(scene.traps);
  for (let i = 0; i < count; i++) {
    if (ended.has(i) || (alone && !visited[i])) continue;
    const row = law.subarray(i * actions.length, (i + 1) * actions.length);
    const best = row.indexOf(Math.max(...row));
    for (let a = 0; a < actions.length; a++) {
      const p = row[a] / 255, way = directions[a];
      if (!way || (alone ? a !== best : p < least)) continue;
      const kind = !visited[i] ? "unvisited" : !alone || p > 0.75 ? "arrows" : p > 0.5 ? "arrows half" : "arrows faint";
      const back = alone ? 0.4 / Math.max(1, Math.hypot(way[0], way[1])) : 0;
      paths[kind] += arrow(places[2 * i] - back * way[0], places[2 * i + 1] - back * way[1], way, alone ? (way[0] || way[1] ? 3.2 : p) : p, wide);
    }
  }
  const looks = { "arrows": 1, "arrows half": 0.6, "arrows faint": 0.35, unvisited: 1 };
  for (const [kind, d] of Object.entries(paths)) {
    const fill = kind === "unvisited" ? "var(--faint)" : "var(--arrow)";
    make("path", { d, fill, opacity: looks[kind], class: kind, "pointer-events": "none" }, layer);
  }
}

function arrow(x, y, [right, down], p, wide) {
  if (!right && !down) {
    const r = 0.11 * Math.sqrt(p);
    return `M${(x - r).toFixed(3)} ${y}a${r.toFixed(3)} ${r.toFixed(3)} 0 1 0 ${(2 * r).toFixed(3)} 0a${r.toFixed(3)} ${r.toFixed(3)} 0 1 0 ${(-2 * r).toFixed(3)} 0z`;
  }
  const norm = Math.hypot(right, down), u = right / norm, v = down / norm, length = 0.44 * Math.sqrt(p);
  const head = Math.min(wide > 0.06 ? 0.3 : 0.15, 0.6 * length), half = wide / 2, neck = length - head;
  const at = (along, across) => `${(x + u * along - v * across).toFixed(3)} ${(y + v * along + u * across).toFixed(3)}`;
  return `M${at(0, half)}L${at(neck, half)}L${at(neck, 2.2 * wide)}L${at(length, 0)}L${at(neck, -2.2 * wide)}L${at(neck, -half)}L${at(0, -half)}z`;
}

// On a graph: the moves, as bent arrows whose width is their probability.
function drawMoves(layer, moves) {
  layer.replaceChildren();
  for (const [i, j, p] of moves) {
    if (p < 0.02) continue;
    const [x, y, X, Y] = [places[2 * i], places[2 * i + 1], places[2 * j], places[2 * j + 1]];
    const width = 0.012 + 0.05 * p;
    let group;
    if (i === j) {
      group = make("path", { d: `M${x - 0.09} ${y - NODE + 0.02}C${x - 0.22} ${y - NODE - 0.28} ${x + 0.22} ${y - NODE - 0.28} ${x + 0.09} ${y - NODE + 0.02}`, class: "move", "stroke-width": width, opacity: 0.7 }, layer);
    } else {
      const far = Math.hypot(X - x, Y - y), u = (X - x) / far, v = (Y - y) / far, bend = 0.16 * far;
      const head = 0.09 + 0.07 * p, start = NODE + 0.03, end = far - NODE - 0.03;
      const at = (along, across) => `${(x + u * along - v * across).toFixed(3)} ${(y + v * along + u * across).toFixed(3)}`;
      group = make("g", { opacity: 0.75 }, layer);
      make("path", { d: `M${at(start, 0.03)}Q${at(far / 2, bend)} ${at(end - 0.6 * head, 0.05)}`, class: "move", "stroke-width": width }, group);
      make("path", { d: `M${at(end, 0.02)}L${at(end - head, 0.06 + 0.45 * head)}L${at(end - head, 0.06 - 0.45 * head)}z`, fill: "var(--arrow)" }, group);
    }
    make("title", {}, group, `${scene.names[i]} → ${scene.names[j]}: ${percent(p)}`);
  }
}
