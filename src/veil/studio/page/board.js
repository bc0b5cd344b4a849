// The grid as a canvas that is painted with pointer or keys: only what is in view is drawn, so that large worlds scroll smoothly.
const SIZES = [8, 12, 16, 22, 30, 40, 52, 68];
const HIGH = 560; // pixels of the view
const MOST_PIXELS = 4e6; // of a picture of the whole grid: 16 MB // pixels of a cell
const MARKED = { start: "blue", goal: "green", secret: "vermilion", absorbing: "muted" };

// options: tool() -> the sign to paint with; changed(cells) after each stroke; moved(row, column) when the cursor moves.
export function makeBoard(parent, options) {
  const box = make("div", { class: "board" }, parent);
  const canvas = make("canvas", { "aria-hidden": "true" }, box), pen = canvas.getContext("2d");
  const scroller = make("div", {
    class: "scroller", tabindex: 0, role: "application", "aria-label": "Grid, to be painted", "aria-describedby": "draw-cell draw-keys",
  }, box);
  const space = make("div", {}, scroller);
  let cells = [[""]], signs = new Map(), seen = new Map(), shapes = [], wrong = new Set(), size = 40, colours = {}, asked = false, stale = false, ready = false;
  const cursor = { row: 0, column: 0 };
  let stroke = null, layer = null, changed = null; // the picture of the grid, and the cells in which it is out of date, null for all

  const rows = () => cells.length, columns = () => cells[0].length;
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["card", "wall", "line", "ink", "muted", "blue", "vermilion", "orange", "green", "purple", "sky", "yellow", "paper"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
  }

  function fit() {
    const wide = parent.clientWidth - 2 || 600;
    size = [...SIZES].reverse().find((one) => one * columns() <= wide && one * rows() <= HIGH) || 12;
    resize();
  }
  function resize() {
    space.style.width = `${size * columns()}px`;
    space.style.height = `${size * rows()}px`;
    box.style.height = `${Math.min(HIGH, size * rows()) + 3}px`;
    box.style.width = `${size * columns() + 3 + (size * rows() > HIGH ? 16 : 0)}px`;
    const scale = window.devicePixelRatio || 1, [wide, high] = [scroller.clientWidth, scroller.clientHeight];
    canvas.width = Math.round(wide * scale); canvas.height = Math.round(high * scale);
    canvas.style.width = `${wide}px`; canvas.style.height = `${high}px`;
    layer = null;
    redraw();
  }
  function redraw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; paint(); });
  }

  // The whole grid is kept as a picture as long as that is small; of larger cells only some are in view.
  function paint() {
    const scale = window.devicePixelRatio || 1, [left, top] = [scroller.scrollLeft, scroller.scrollTop];
    const [wide, high] = [scroller.clientWidth, scroller.clientHeight];
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.globalAlpha = stale ? 0.5 : 1;
    if (size * size * rows() * columns() * scale * scale <= MOST_PIXELS) {
      if (!layer) { layer = document.createElement("canvas"); layer.width = Math.ceil(size * columns() * scale) + 1; layer.height = Math.ceil(size * rows() * scale) + 1; changed = null; }
      const brush = layer.getContext("2d", { alpha: false });
      brush.setTransform(scale, 0, 0, scale, 0, 0);
      if (changed === null) paintArea(brush, 0, 0, rows(), columns());
      else for (const [row, column] of changed) paintArea(brush, row, column, row + 1, column + 1);
      const [w, h] = [Math.min(wide, size * columns() + 1), Math.min(high, size * rows() + 1)];
      pen.drawImage(layer, left * scale, top * scale, w * scale, h * scale, 0, 0, w, h);
      pen.translate(-left, -top);
    } else {
      pen.translate(-left, -top);
      paintArea(pen, Math.floor(top / size), Math.floor(left / size), Math.min(rows(), Math.ceil((top + high) / size)), Math.min(columns(), Math.ceil((left + wide) / size)));
    }
    changed = [];
    for (const key of wrong) outline(...key.split(",").map(Number), colours.vermilion, 3);
    outline(cursor.row, cursor.column, document.activeElement === scroller ? colours.blue : colours.muted, 2.5);
  }
  function paintArea(brush, top, left, bottom, right) {
    brush.fillStyle = colours.card;
    brush.fillRect(left * size, top * size, (right - left) * size, (bottom - top) * size);
    brush.textAlign = "center"; brush.textBaseline = "middle";
    for (let row = top; row < bottom; row++) for (let column = left; column < right; column++) {
      if (seen.size) paintSeen(brush, row, column);
      if (cells[row][column] !== ".") paintCell(brush, row, column);
    }
    if (size < 12) return;
    brush.strokeStyle = colours.line; brush.lineWidth = 1;
    brush.beginPath();
    for (let row = top; row <= bottom; row++) { brush.moveTo(left * size, row * size + 0.5); brush.lineTo(right * size, row * size + 0.5); }
    for (let column = left; column <= right; column++) { brush.moveTo(column * size + 0.5, top * size); brush.lineTo(column * size + 0.5, bottom * size); }
    brush.stroke();
  }
  function outline(row, column, colour, wide) {
    pen.strokeStyle = colour; pen.lineWidth = wide;
    pen.strokeRect(column * size + wide / 2, row * size + wide / 2, size - wide, size - wide);
  }
  // What discs and cones cover, deeper where they report more often.
  function paintSeen(brush, row, column) {
    const before = brush.globalAlpha, sensors = seen.get(`${row},${column}`) || [];
    sensors.forEach(([colour, rate], k) => {
      brush.fillStyle = colours[colour] || colours.sky;
      brush.globalAlpha = before * (0.06 + 0.0026 * rate);
      brush.fillRect((column + k / sensors.length) * size, row * size, size / sensors.length, size);
    });
    brush.globalAlpha = before;
  }
  function paintCell(brush, row, column) {
    const token = cells[row][column], [x, y] = [column * size, row * size];
    if (token === "#" || token === "") {
      brush.fillStyle = token ? colours.wall : colours.vermilion;
      brush.fillRect(x, y, size, size);
      return;
    }
    const marks = [], ranges = [];
    for (const sign of token) {
      const known = signs.get(sign);
      if (!known) marks.push([sign, "vermilion"]);
      else for (const role of known.roles) {
        if (role === "wall") { brush.fillStyle = colours.wall; brush.fillRect(x, y, size, size); }
        else if (signs.get(role)?.name !== undefined) ranges.push(signs.get(role));
      }
      if (known && known.name === undefined && sign !== ".") marks.push([sign, MARKED[known.roles.find((role) => MARKED[role])] || "ink"]);
    }
    const before = brush.globalAlpha;
    ranges.forEach((range, k) => {
      brush.fillStyle = colours[range.colour] || colours.sky;
      brush.globalAlpha = 0.32 * before;
      brush.fillRect(x + (k * size) / ranges.length, y, size / ranges.length, size);
    });
    brush.globalAlpha = before;
    if (size >= 30) {
      brush.fillStyle = colours.ink;
      brush.font = `500 ${Math.round(size * 0.24)}px system-ui, sans-serif`;
      ranges.forEach((range, k) => brush.fillText(range.sign, x + size - 0.16 * size * (ranges.length - k), y + 0.83 * size));
    }
    brush.font = `700 ${Math.round(size * 0.42)}px system-ui, sans-serif`;
    marks.forEach(([sign, colour], k) => {
      brush.fillStyle = colours[colour];
      if (size < 12) brush.fillRect(x + 2, y + 2, size - 4, size - 4);
      else brush.fillText(sign, x + size * (0.5 + 0.32 * (k - (marks.length - 1) / 2)), y + size * 0.46);
    });
  }

  // Painting: the first cell of a stroke decides whether the sign is put or taken away.
  const has = (row, column, sign) => cells[row][column].includes(sign);
  function put(row, column, sign, add) {
    const token = cells[row][column], alone = sign === "#" || sign === "." || columns() === 1;
    let made;
    if (!add) made = [...token].filter((one) => one !== sign).join("") || ".";
    else if (alone || token === "." || token === "" || isWall(token)) made = sign;
    else made = token.includes(sign) ? token : token.replace(".", "") + sign;
    if (made === token) return false;
    cells[row][column] = made;
    changed?.push([row, column]);
    return true;
  }
  const isWall = (token) => [...token].some((sign) => signs.get(sign)?.roles.includes("wall"));
  function begin(row, column) {
    if (!ready) return; // there is nothing yet that could be painted over
    const sign = options.tool();
    stroke = { sign, add: !has(row, column, sign) || sign === ".", changed: false };
    extend(row, column);
  }
  function extend(row, column) {
    if (stroke && put(row, column, stroke.sign, stroke.add)) stroke.changed = true;
    redraw();
  }
  function end() {
    const done = stroke;
    stroke = null;
    if (done?.changed) options.changed(cells);
    tell();
  }

  function cellAt(event) {
    const area = scroller.getBoundingClientRect();
    const row = Math.floor((event.clientY - area.top + scroller.scrollTop) / size), column = Math.floor((event.clientX - area.left + scroller.scrollLeft) / size);
    return row >= 0 && row < rows() && column >= 0 && column < columns() ? [row, column] : null;
  }
  scroller.addEventListener("pointerdown", (event) => {
    const at = cellAt(event);
    const onBar = event.offsetX > scroller.clientWidth || event.offsetY > scroller.clientHeight;
    if (!at || event.button !== 0 || event.pointerType === "touch" || (event.target === scroller && onBar)) return;
    scroller.setPointerCapture(event.pointerId);
    [cursor.row, cursor.column] = at;
    begin(...at);
  });
  scroller.addEventListener("pointermove", (event) => {
    const at = stroke && cellAt(event);
    if (!at) return;
    // Every cell on the way: a fast pointer skips some.
    const [row, column] = [cursor.row, cursor.column], steps = Math.max(Math.abs(at[0] - row), Math.abs(at[1] - column));
    for (let k = 1; k <= steps; k++) extend(Math.round(row + (k * (at[0] - row)) / steps), Math.round(column + (k * (at[1] - column)) / steps));
    [cursor.row, cursor.column] = at;
  });
  scroller.addEventListener("pointerup", end);
  scroller.addEventListener("pointercancel", end);
  scroller.addEventListener("click", (event) => { // a touch that did not scroll
    const at = event.pointerType === "touch" && cellAt(event);
    if (!at) return;
    [cursor.row, cursor.column] = at;
    begin(...at);
    end();
  });
  scroller.addEventListener("keydown", (event) => {
    const way = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -1e6], End: [0, 1e6] }[event.key];
    if (way && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      if (event.shiftKey && !stroke) begin(cursor.row, cursor.column);
      go(cursor.row + way[0], cursor.column + way[1]);
      if (event.shiftKey) { extend(cursor.row, cursor.column); end(); }
    } else if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      begin(cursor.row, cursor.column);
      end();
    }
  });
  for (const name of ["focus", "blur"]) scroller.addEventListener(name, redraw);
  scroller.addEventListener("scroll", redraw, { passive: true });

  function go(row, column) {
    cursor.row = Math.max(0, Math.min(rows() - 1, row));
    cursor.column = Math.max(0, Math.min(columns() - 1, column));
    const [x, y] = [cursor.column * size, cursor.row * size];
    if (x < scroller.scrollLeft) scroller.scrollLeft = x;
    if (y < scroller.scrollTop) scroller.scrollTop = y;
    if (x + size > scroller.scrollLeft + scroller.clientWidth) scroller.scrollLeft = x + size - scroller.clientWidth;
    if (y + size > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + size - scroller.clientHeight;
    redraw();
    tell();
  }
  const tell = () => options.moved(cursor.row, cursor.column);

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); changed = null; redraw(); });
  readColours();
  return {
    box, focus: () => scroller.focus(), go, redraw, resize, fit,
    get cells() { return cells; },
    get size() { return size; },
    get painting() { return stroke !== null; },
    zoom(step) {
      const middle = [(scroller.scrollLeft + scroller.clientWidth / 2) / size, (scroller.scrollTop + scroller.clientHeight / 2) / size];
      size = SIZES[Math.max(0, Math.min(SIZES.length - 1, SIZES.indexOf(size) + step))];
      resize();
      scroller.scrollTo(middle[0] * size - scroller.clientWidth / 2, middle[1] * size - scroller.clientHeight / 2);
    },
    // Show a drawing; defects: those with cells are outlined.
    show(drawing, defects) {
      const other = drawing.rows !== rows() || drawing.columns !== columns();
      const same = !other && JSON.stringify([drawing.cells, drawing.signs, drawing.shapes]) === JSON.stringify([cells, [...signs.values()], shapes]);
      if (!same) changed = null;
      cells = drawing.cells.map((row) => [...row]);
      signs = new Map(drawing.signs.map((one) => [one.sign, one]));
      shapes = drawing.shapes;
      seen = new Map();
      for (const shape of drawing.shapes) for (const [row, column, rate] of shape.cells) {
        const key = `${row},${column}`;
        seen.set(key, [...(seen.get(key) || []), [shape.colour, rate]]);
      }
      wrong = new Set(defects.filter((one) => one.cell && one.cell[0] < rows() && one.cell[1] < columns()).map((one) => one.cell.join(",")));
      stale = false;
      ready = true;
      if (other) { fit(); go(cursor.row, cursor.column); } else redraw();
    },
    outdate() { stale = true; redraw(); },
    // The cell under the cursor in words.
    describe(row, column) {
      const words = [];
      for (const sign of cells[row][column]) {
        const known = signs.get(sign);
        if (!known) words.push(`“${sign}”, which has no meaning`);
        else if (known.name !== undefined) words.push(`in range of sensor ${known.name}`);
        else words.push(...known.roles.map((role) => (signs.get(role)?.name === undefined ? role : `in range of sensor ${signs.get(role).name}`) + (role === "goal" && known.reward !== undefined ? ` (reward ${known.reward})` : "") + (role === "start" && known.weight !== undefined ? ` (weight ${known.weight})` : "")));
      }
      return `row ${row}, column ${column}: ${words.join(", ") || "missing"}`;
    },
    replace(made) { cells = made; resize(); options.changed(cells); },
  };
}
