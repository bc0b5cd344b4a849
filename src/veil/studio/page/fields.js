// The size of a grid, and the numbers of its scenario that have a field of their own.
import { resized } from "./cells.js";
import { field, refill } from "./inputs.js";

const MOST_CELLS = 50_000;
// Each with what holds where it is left out.
const FIELDS = [
  ["horizon", "Decisions", ""],
  ["min_return", "Required return", "none"],
  ["grid.goal_reward", "Goals pay", "1"],
  ["grid.slip", "Slip", "0.1"],
];

// Returns the function that shows the fields of a drawing; change(changes) changes the text, and reshape(cells) the
// grid.
export function makeFields(parent, { change, cells, reshape }) {
  let shown = "";
  return function show({ rows, columns }, given) {
    const now = JSON.stringify([rows, columns, given]);
    if (now === shown) return;
    shown = now;
    const sizes = { rows: ["Rows", rows], columns: ["Columns", columns] };
    const resize = (size) => {
      const fits =
        Object.values(size).every((n) => Number.isInteger(n) && n >= 1) && size.rows * size.columns <= MOST_CELLS;
      if (fits) return reshape(resized(cells(), size.rows, size.columns));
      shown = "";
      return show({ rows, columns }, given);
    };
    refill(parent, () => {
      for (const [key, [words, value]] of Object.entries(sizes))
        field(parent, { key, words, value }, (n) => resize({ rows, columns, [key]: n }));
      for (const [key, words, placeholder] of FIELDS)
        field(parent, { key, words, placeholder, value: given?.[key] }, (value) =>
          change([{ at: key.split("."), value }]),
        );
    });
  };
}
