// Numbers as the page shows them: proven ones are rounded outward, and tiles subtract.

export const isNumber = (value) => typeof value === "number";
export const shown = (value, digits = 4) => (isNumber(value) ? value.toFixed(digits) : "–");
export const short = (value, digits = 5) => String(Number(value.toPrecision(digits)));

// A proven bound, rounded up or down; what differs from four digits by rounding errors alone stays.
export const above = (value) => (isNumber(value) ? (Math.ceil(value * 1e4 - 1e-9) / 1e4).toFixed(4) : "–");
export const below = (value) => (isNumber(value) ? (Math.floor(value * 1e4 + 1e-9) / 1e4).toFixed(4) : "–");

// The tiles of hidden bits and their bound: as they are shown, the bound less the bits is the gap. What reveals has a
// bound from below.
export function boundTiles(bits, bound, reveals) {
  const text = reveals ? below(bound) : above(bound);
  if (!isNumber(bound) || !isNumber(bits)) return { bound: text, gap: null };
  const difference = Number(text) - Number(shown(bits));
  return { bound: text, gap: Math.max(0, reveals ? -difference : difference) };
}

// The points (x, y) that no other one exceeds in both, by x.
export function front(points) {
  const exceeds = ([a, b], [x, y]) => (a > x && b >= y) || (a >= x && b > y);
  const same = ([a, b], [x, y]) => a === x && b === y;
  const kept = points.filter((p, i) => !points.some((q, j) => exceeds(q, p) || (same(q, p) && j < i)));
  return kept.sort((p, q) => p[0] - q[0]);
}
