import assert from "node:assert/strict";
import { test } from "node:test";
import { above, below, boundTiles, front, shown } from "../studio/numbers.js";

test("proven numbers are rounded outward", () => {
  for (let k = 0; k < 2000; k++) {
    const value = Math.random() * 3;
    assert.ok(Number(above(value)) >= value - 1e-12 && Number(below(value)) <= value + 1e-12);
    assert.ok(Number(above(value)) - Number(below(value)) < 1.1e-4);
  }
  assert.equal(above(0.1 + 0.2), "0.3000"); // an error of rounding is no reason to round up
  assert.equal(above(undefined), "–");
});

test("the tiles subtract as they are shown", () => {
  for (let k = 0; k < 2000; k++) {
    const bits = Math.random();
    const upper = bits + Math.random();
    const { bound, gap } = boundTiles(bits, upper, false);
    assert.equal(shown(gap), shown(Number(bound) - Number(shown(bits))));
  }
  assert.deepEqual(boundTiles(0.7935, 1, false), { bound: "1.0000", gap: 1 - 0.7935 });
  assert.equal(boundTiles(0.5, 0.4, true).bound, "0.4000");
  assert.equal(shown(boundTiles(0.5, 0.4, true).gap), "0.1000");
  assert.equal(boundTiles(0.5, null, false).gap, null);
});

test("the front keeps what no other point exceeds, once", () => {
  const points = [[1, 5], [2, 4], [2, 4], [1.5, 3], [3, 1], [0, 5]]; // prettier-ignore
  assert.deepEqual(front(points), [[1, 5], [2, 4], [3, 1]]); // prettier-ignore
  assert.deepEqual(front([]), []);
});
