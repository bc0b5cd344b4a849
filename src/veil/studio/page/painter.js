// Draws a grid on a canvas: cells with their signs and sensors, discs and cones, and outlines.
import { arcOf } from "./shapes.js";

const MARKED = { start: "blue", goal: "green", secret: "error", absorbing: "muted" };
const NAMES = [
  ...[
    "card",
    "wall",
    "line",
    "ink",
    "muted",
    "blue",
    "vermilion",
    "orange",
    "green",
    "purple",
    "sky",
    "yellow",
    "maroon",
  ],
  ...["paper", "error"],
];
const SMALL = 12; // pixels of a cell, below which signs are no letters

// The page's colours by name, which differ in light and dark.
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// Where discs and cones report: by "row,column", a list of [colour, percent].
export function coverage(shapes) {
  const seen = new Map();
  for (const { colour, cells } of shapes)
    for (const [row, column, rate] of cells) {
      const key = `${row},${column}`;
      seen.set(key, [...(seen.get(key) || []), [colour, rate]]);
    }
  return seen;
}

// The cells from (top, left) to before (bottom, right) of a drawing { cells, signs, seen, colours, size }.
export function paintArea(brush, drawing, top, left, bottom, right) {
  const { cells, colours, size } = drawing;
  brush.fillStyle = colours.card;
  brush.fillRect(left * size, top * size, (right - left) * size, (bottom - top) * size);
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  for (let row = top; row < bottom; row++)
    for (let column = left; column < right; column++) {
      if (drawing.seen.size) paintSeen(brush, drawing, row, column);
      if (cells[row][column] !== ".") paintCell(brush, drawing, row, column);
    }
  if (size >= SMALL) paintLines(brush, drawing, top, left, bottom, right);
}

function paintLines(brush, { colours, size }, top, left, bottom, right) {
  brush.strokeStyle = colours.line;
  brush.lineWidth = 1;
  brush.beginPath();
  for (let row = top; row <= bottom; row++) {
    brush.moveTo(left * size, row * size + 0.5);
    brush.lineTo(right * size, row * size + 0.5);
  }
  for (let column = left; column <= right; column++) {
    brush.moveTo(column * size + 0.5, top * size);
    brush.lineTo(column * size + 0.5, bottom * size);
  }
  brush.stroke();
}

// What discs and cones cover, deeper where they report more often.
function paintSeen(brush, { seen, colours, size }, row, column) {
  const before = brush.globalAlpha;
  const sensors = seen.get(`${row},${column}`) || [];
  sensors.forEach(([colour, rate], k) => {
    brush.fillStyle = colours[colour] || colours.sky;
    brush.globalAlpha = before * (0.06 + 0.0026 * rate);
    brush.fillRect((column + k / sensors.length) * size, row * size, size / sensors.length, size);
  });
  brush.globalAlpha = before;
}

function paintCell(brush, drawing, row, column) {
  const { cells, colours, size } = drawing;
  const token = cells[row][column];
  const [x, y] = [column * size, row * size];
  const { marks, ranges, isWall } = contents(token, drawing.signs);
  if (isWall || token === "") {
    brush.fillStyle = token ? colours.wall : colours.vermilion;
    brush.fillRect(x, y, size, size);
  }
  paintRanges(brush, drawing, ranges, x, y);
  brush.font = `700 ${Math.round(size * 0.42)}px system-ui, sans-serif`;
  marks.forEach(([sign, colour], k) => {
    brush.fillStyle = colours[colour];
    if (size < SMALL) brush.fillRect(x + 2, y + 2, size - 4, size - 4);
    else brush.fillText(sign, x + size * (0.5 + 0.32 * (k - (marks.length - 1) / 2)), y + size * 0.46);
  });
}

// The marks of a token with their colours, the sensors in whose range it is, and whether it is a wall.
function contents(token, signs) {
  if (token === "#") return { marks: [], ranges: [], isWall: true };
  const marks = [];
  const ranges = [];
  let isWall = false;
  for (const sign of token) {
    const known = signs.get(sign);
    const roles = known?.roles || [];
    isWall ||= roles.includes("wall");
    ranges.push(...roles.map((role) => signs.get(role)).filter((one) => one?.name !== undefined));
    if (!known) marks.push([sign, "error"]);
    else if (known.name === undefined && sign !== ".")
      marks.push([sign, MARKED[roles.find((role) => MARKED[role])] || "ink"]);
  }
  return { marks, ranges, isWall };
}

function paintRanges(brush, { colours, size }, ranges, x, y) {
  const before = brush.globalAlpha;
  ranges.forEach((range, k) => {
    brush.fillStyle = colours[range.colour] || colours.sky;
    brush.globalAlpha = 0.32 * before;
    brush.fillRect(x + (k * size) / ranges.length, y, size / ranges.length, size);
  });
  brush.globalAlpha = before;
  if (size < 30) return;
  brush.fillStyle = colours.ink;
  brush.font = `500 ${Math.round(size * 0.24)}px system-ui, sans-serif`;
  ranges.forEach((range, k) => {
    brush.fillText(range.sign, x + size - 0.16 * size * (ranges.length - k), y + 0.83 * size);
  });
}

export function outlineCell(brush, size, row, column, colour, wide) {
  brush.strokeStyle = colour;
  brush.lineWidth = wide;
  brush.strokeRect(column * size + wide / 2, row * size + wide / 2, size - wide, size - wide);
}

// The edge and the centre of a disc or a cone; thick while it is the tool.
export function outlineShape(brush, { colours, size }, shape, thick) {
  const [y, x] = shape.centre.map((at) => at * size);
  const arc = arcOf(shape);
  brush.strokeStyle = brush.fillStyle = colours[shape.colour] || colours.sky;
  brush.lineWidth = thick ? 2.5 : 1.25;
  brush.setLineDash(thick ? [] : [5, 4]);
  brush.beginPath();
  if (arc) brush.moveTo(x, y);
  brush.arc(x, y, (shape.radius + 0.5) * size, ...(arc || [0, 2 * Math.PI]));
  if (arc) brush.closePath();
  brush.stroke();
  brush.setLineDash([]);
  brush.beginPath();
  brush.arc(x, y, Math.max(3, 0.12 * size), 0, 2 * Math.PI);
  brush.fill();
}
