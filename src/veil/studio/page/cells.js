// What is in the cells of a drawing: each is a text of the signs in it, "." for none.

// A token after a sign was put into it or taken away. `alone`: the sign stands for itself, as a wall does; `isWall`:
// the token is one.
export function painted(token, sign, add, { alone = false, isWall = false } = {}) {
  if (!add) return [...token].filter((one) => one !== sign).join("") || ".";
  if (alone || token === "." || token === "" || isWall) return sign;
  return token.includes(sign) ? token : token.replace(".", "") + sign;
}

// Every cell from one to another, the first left out: a fast pointer skips some.
export function cellsBetween([row, column], [toRow, toColumn]) {
  const steps = Math.max(Math.abs(toRow - row), Math.abs(toColumn - column));
  const part = (from, to, k) => Math.round(from + (k * (to - from)) / steps);
  return Array.from({ length: steps }, (_, k) => [part(row, toRow, k + 1), part(column, toColumn, k + 1)]);
}

export const isWall = (token, signs) => [...token].some((sign) => signs.get(sign)?.roles.includes("wall"));

// Without a sign, in every cell.
export const without = (cells, sign) => cells.map((row) => row.map((token) => painted(token, sign, false)));

// Another size: what is beyond it is cut off, what is new is free.
export const resized = (cells, rows, columns) =>
  Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_, c) => cells[r]?.[c] || "."));

const FAR = 15; // cells between start, goal and secret of a new grid, at most

// A new grid with start, goal and secret, and the decisions that it takes to reach goal and secret one after the other.
export function freshGrid(rows, columns) {
  const cells = resized([], rows, columns);
  const [down, right] = [Math.min(rows - 1, FAR), Math.min(columns - 1, FAR)];
  for (const [row, column, sign] of [
    [0, 0, "S"],
    [down, 0, "G"],
    [down, right, "?"],
  ])
    cells[row][column] = painted(cells[row][column], sign, true);
  return { cells, horizon: Math.max(6, down + right + 2) };
}

// The cell in words; shapes: discs and cones, of which those that cover the cell are named.
export function describe(cells, signs, shapes, row, column) {
  const words = [...cells[row][column]].flatMap((sign) => {
    const known = signs.get(sign);
    if (!known) return [`“${sign}”, which has no meaning`];
    if (known.name !== undefined) return [`in range of sensor ${known.name}`];
    return known.roles.map((role) => roleInWords(role, known, signs));
  });
  for (const shape of shapes) {
    const found = shape.cells.find(([r, c]) => r === row && c === column);
    if (found) words.push(`in range of sensor ${shape.name} (reports ${found[2]}%)`);
  }
  return `row ${row}, column ${column}: ${words.join(", ") || "missing"}`;
}

function roleInWords(role, known, signs) {
  const sensor = signs.get(role)?.name;
  if (sensor !== undefined) return `in range of sensor ${sensor}`;
  if (role === "goal" && known.reward !== undefined) return `goal (reward ${known.reward})`;
  if (role === "start" && known.weight !== undefined) return `start (weight ${known.weight})`;
  return role;
}
