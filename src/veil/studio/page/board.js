// The grid as a canvas that is painted with pointer or keys: only what is in view is drawn, so that large worlds scroll
// smoothly.
import { make } from "../report/make.js";
import { cellsBetween, describe, isWall, painted } from "./cells.js";
import { coverage, outlineCell, outlineShape, paintArea, readColours } from "./painter.js";
import { dragged } from "./shapes.js";

const SIZES = [8, 12, 16, 22, 30, 40, 52, 68]; // pixels of a cell
const HIGH = 560; // pixels of the view
const MOST_PIXELS = 4e6; // of a picture of the whole grid: 16 MB
const KEYS = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-10, 0],
  PageDown: [10, 0],
  Home: [0, -1e6],
  End: [0, 1e6],
};

// options: tool() -> { sign } or { shape: key } to paint with; changed() after each stroke; shaped(shape) after a disc
// or a cone was moved; moved(row, column) when the cursor moves.
export class Board {
  constructor(parent, options) {
    this.parent = parent;
    this.options = options;
    this.box = make("div", { class: "board" }, parent);
    this.canvas = make("canvas", { "aria-hidden": "true" }, this.box);
    this.pen = this.canvas.getContext("2d");
    const named = {
      role: "application",
      "aria-label": "Grid to paint",
      "aria-describedby": "draw-cell draw-keys",
    };
    this.scroller = make("div", { class: "scroller", tabindex: 0, ...named }, this.box);
    this.space = make("div", {}, this.scroller);
    this.cells = [[""]];
    this.signs = new Map();
    this.shapes = [];
    this.seen = new Map();
    this.wrong = [];
    this.size = 40;
    this.cursor = { row: 0, column: 0 };
    this.stroke = null; // what is being painted
    this.drag = null; // the disc or cone that is being moved
    this.layer = null; // the picture of the grid
    this.changed = null; // the cells in which it is out of date, null for all
    this.colours = readColours();
    this.isAsked = this.isStale = this.isReady = false;
    this.isPanning = false; // touches move the view
    this.listen();
  }

  get rows() {
    return this.cells.length;
  }
  get columns() {
    return this.cells[0].length;
  }
  get isPainting() {
    return this.stroke !== null || this.drag !== null;
  }
  focus() {
    this.scroller.focus();
  }

  // Show a drawing; defects: those with cells are outlined.
  show(drawing, defects) {
    const other = drawing.rows !== this.rows || drawing.columns !== this.columns;
    const now = JSON.stringify([drawing.cells, drawing.signs, drawing.shapes]);
    if (now !== JSON.stringify([this.cells, [...this.signs.values()], this.shapes])) this.changed = null;
    this.cells = drawing.cells.map((row) => [...row]);
    this.signs = new Map(drawing.signs.map((one) => [one.sign, one]));
    this.shapes = drawing.shapes;
    this.seen = coverage(drawing.shapes);
    const placed = defects.map((one) => one.cell).filter(Boolean);
    this.wrong = placed.filter(([row, column]) => row < this.rows && column < this.columns);
    this.isStale = false;
    this.isReady = true;
    if (other) {
      this.fit();
      this.go(this.cursor.row, this.cursor.column);
    } else this.redraw();
  }
  outdate() {
    this.isStale = true;
    this.redraw();
  }
  replace(cells) {
    this.cells = cells;
    this.resize();
    this.options.changed();
  }
  describe(row, column) {
    return describe(this.cells, this.signs, this.shapes, row, column);
  }

  fit() {
    const wide = this.parent.clientWidth - 2 || 600;
    const fits = (size) => size * this.columns <= wide && size * this.rows <= HIGH;
    this.size = [...SIZES].reverse().find(fits) || 12;
    this.resize();
  }
  zoom(step) {
    const { scroller, size } = this;
    const across = (scroller.scrollLeft + scroller.clientWidth / 2) / size;
    const down = (scroller.scrollTop + scroller.clientHeight / 2) / size;
    this.size = SIZES[Math.max(0, Math.min(SIZES.length - 1, SIZES.indexOf(size) + step))];
    this.resize();
    const [left, top] = [across * this.size, down * this.size];
    scroller.scrollTo(left - scroller.clientWidth / 2, top - scroller.clientHeight / 2);
  }
  resize() {
    const { size, rows, columns, canvas, scroller } = this;
    const [wide, high] = [size * columns, size * rows];
    const bar = high > HIGH ? 16 : 0;
    Object.assign(this.space.style, { width: `${wide}px`, height: `${high}px` });
    Object.assign(this.box.style, { width: `${wide + 3 + bar}px`, height: `${Math.min(HIGH, high) + 3}px` });
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(scroller.clientWidth * scale);
    canvas.height = Math.round(scroller.clientHeight * scale);
    Object.assign(canvas.style, { width: `${scroller.clientWidth}px`, height: `${scroller.clientHeight}px` });
    this.layer = null;
    this.redraw();
  }

  redraw() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.paint();
    });
  }
  // The whole grid is kept as a picture as long as that is small; of larger cells only some are in view.
  paint() {
    const { pen, scroller, size, rows, columns, colours, cursor } = this;
    const scale = window.devicePixelRatio || 1;
    const { scrollLeft: left, scrollTop: top, clientWidth: wide, clientHeight: high } = scroller;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.globalAlpha = this.isStale ? 0.5 : 1;
    if (size * size * rows * columns * scale * scale <= MOST_PIXELS) {
      this.updateLayer(scale);
      const [w, h] = [Math.min(wide, size * columns + 1), Math.min(high, size * rows + 1)];
      pen.drawImage(this.layer, left * scale, top * scale, w * scale, h * scale, 0, 0, w, h);
      pen.translate(-left, -top);
    } else {
      pen.translate(-left, -top);
      const end = [Math.min(rows, Math.ceil((top + high) / size)), Math.min(columns, Math.ceil((left + wide) / size))];
      paintArea(pen, this, Math.floor(top / size), Math.floor(left / size), ...end);
    }
    this.changed = [];
    const tool = this.options.tool();
    for (const shape of this.shapes)
      if (shape.key !== this.drag?.shape.key) outlineShape(pen, this, shape, shape.key === tool.shape);
    if (this.drag) outlineShape(pen, this, this.drag.shape, true);
    for (const [row, column] of this.wrong) outlineCell(pen, size, row, column, colours.vermilion, 3);
    const own = document.activeElement === scroller ? colours.blue : colours.muted;
    outlineCell(pen, size, cursor.row, cursor.column, own, 2.5);
  }
  updateLayer(scale) {
    const { size, rows, columns } = this;
    if (!this.layer) {
      this.layer = document.createElement("canvas");
      this.layer.width = Math.ceil(size * columns * scale) + 1;
      this.layer.height = Math.ceil(size * rows * scale) + 1;
      this.changed = null;
    }
    const brush = this.layer.getContext("2d", { alpha: false });
    brush.setTransform(scale, 0, 0, scale, 0, 0);
    if (this.changed === null) paintArea(brush, this, 0, 0, rows, columns);
    else for (const [row, column] of this.changed) paintArea(brush, this, row, column, row + 1, column + 1);
  }

  // Painting: the first cell of a stroke decides whether the sign is put or taken away.
  begin(row, column) {
    if (!this.isReady) return; // there is nothing yet that could be painted over
    const { sign } = this.options.tool();
    this.stroke = { sign, add: !this.cells[row][column].includes(sign) || sign === ".", changed: false };
    this.extend(row, column);
  }
  extend(row, column) {
    const { stroke, cells, signs } = this;
    if (!stroke) return;
    const token = cells[row][column];
    const alone = stroke.sign === "#" || stroke.sign === "." || this.columns === 1;
    const made = painted(token, stroke.sign, stroke.add, { alone, isWall: isWall(token, signs) });
    if (made !== token) {
      cells[row][column] = made;
      this.changed?.push([row, column]);
      stroke.changed = true;
    }
    this.redraw();
  }
  end() {
    const { stroke, drag } = this;
    this.stroke = this.drag = null;
    if (stroke?.changed) this.options.changed();
    if (drag) this.options.shaped(drag.shape);
    this.tell();
  }
  // Put a sign, or the centre of a disc or a cone, into the cell of the cursor.
  stamp() {
    const { row, column } = this.cursor;
    if (this.grab([row + 0.5, column + 0.5])) this.end();
    else if (this.options.tool().sign) {
      this.begin(row, column);
      this.end();
    }
  }
  // Begin to move the disc or cone that is the tool; whether there is one.
  grab(place) {
    const shape = this.shapes.find((one) => one.key === this.options.tool().shape);
    if (!shape || !this.isReady) return false;
    this.drag = { from: place, original: shape, shape: dragged(shape, place, place) };
    this.redraw();
    return true;
  }

  placeAt(event) {
    const { scroller, size } = this;
    const area = scroller.getBoundingClientRect();
    const down = (event.clientY - area.top + scroller.scrollTop) / size;
    return [down, (event.clientX - area.left + scroller.scrollLeft) / size];
  }
  cellAt(event) {
    const [row, column] = this.placeAt(event).map(Math.floor);
    return row >= 0 && row < this.rows && column >= 0 && column < this.columns ? [row, column] : null;
  }
  listen() {
    const { scroller } = this;
    scroller.addEventListener("pointerdown", (event) => this.press(event));
    scroller.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"])
      scroller.addEventListener(name, () => this.isPainting && this.end());
    scroller.addEventListener("keydown", (event) => this.type(event));
    for (const name of ["focus", "blur"]) scroller.addEventListener(name, () => this.redraw());
    scroller.addEventListener("scroll", () => this.redraw(), { passive: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colours = readColours();
      this.changed = null;
      this.redraw();
    });
  }
  press(event) {
    const { scroller } = this;
    const at = this.cellAt(event);
    const onBar = event.offsetX > scroller.clientWidth || event.offsetY > scroller.clientHeight;
    const pans = this.isPanning && event.pointerType === "touch";
    if (!at || pans || event.button !== 0 || (event.target === scroller && onBar)) return;
    scroller.setPointerCapture(event.pointerId);
    [this.cursor.row, this.cursor.column] = at;
    if (!this.grab(this.placeAt(event)) && this.options.tool().sign) this.begin(...at);
  }
  move(event) {
    if (this.drag) {
      this.drag.shape = dragged(this.drag.original, this.drag.from, this.placeAt(event));
      this.redraw();
    }
    const at = this.stroke && this.cellAt(event);
    if (!at) return;
    for (const [row, column] of cellsBetween([this.cursor.row, this.cursor.column], at)) this.extend(row, column);
    [this.cursor.row, this.cursor.column] = at;
  }
  type(event) {
    const way = KEYS[event.key];
    if (way && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      const paints = event.shiftKey && this.options.tool().sign;
      if (paints && !this.stroke) this.begin(this.cursor.row, this.cursor.column);
      this.go(this.cursor.row + way[0], this.cursor.column + way[1]);
      if (!paints) return;
      this.extend(this.cursor.row, this.cursor.column);
      this.end();
    } else if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      this.stamp();
    }
  }
  go(row, column) {
    const { scroller, size, cursor } = this;
    cursor.row = Math.max(0, Math.min(this.rows - 1, row));
    cursor.column = Math.max(0, Math.min(this.columns - 1, column));
    const [x, y] = [cursor.column * size, cursor.row * size];
    scroller.scrollLeft = Math.min(x, Math.max(scroller.scrollLeft, x + size - scroller.clientWidth));
    scroller.scrollTop = Math.min(y, Math.max(scroller.scrollTop, y + size - scroller.clientHeight));
    this.redraw();
    this.tell();
  }
  tell() {
    this.options.moved(this.cursor.row, this.cursor.column);
  }
}
