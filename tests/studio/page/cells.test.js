import assert from "node:assert/strict";
import { test } from "node:test";
import { cellsBetween, describe, freshGrid, isWall, painted, resized, without } from "../studio/cells.js";

test("signs are put beside others and taken away", () => {
  assert.equal(painted(".", "S", true), "S");
  assert.equal(painted("S", "c", true), "Sc");
  assert.equal(painted("Sc", "c", true), "Sc");
  assert.equal(painted("Sc", "S", false), "c");
  assert.equal(painted("c", "c", false), ".");
  assert.equal(painted("Sc", "#", true, { alone: true }), "#");
  assert.equal(painted("#", "S", true, { isWall: true }), "S");
  assert.equal(painted("", "S", true), "S");
});

test("a fast pointer misses no cell", () => {
  for (const [to, count] of [
    [[0, 5], 5],
    [[3, 1], 3],
    [[0, 0], 0],
    [[-4, 4], 4],
  ]) {
    // prettier-ignore
    const way = [[0, 0], ...cellsBetween([0, 0], to)];
    assert.equal(way.length, count + 1);
    assert.deepEqual(way.at(-1), to);
    for (const [k, [row, column]] of way.slice(1).entries())
      assert.ok(Math.max(Math.abs(row - way[k][0]), Math.abs(column - way[k][1])) === 1);
  }
});

test("a new grid can be walked in time", () => {
  for (const [rows, columns] of [
    [8, 8],
    [1, 1],
    [3, 4],
    [40, 60],
    [1, 30],
  ]) {
    // prettier-ignore
    const { cells, horizon } = freshGrid(rows, columns);
    const place = (sign) =>
      cells.flatMap((row, r) => row.map((token, c) => [token, r, c])).find(([token]) => token.includes(sign));
    const [[, r0, c0], [, r1, c1], [, r2, c2]] = ["S", "G", "?"].map(place);
    assert.ok(Math.abs(r1 - r0) + Math.abs(c1 - c0) + Math.abs(r2 - r1) + Math.abs(c2 - c1) < horizon);
    assert.deepEqual([cells.length, cells[0].length], [rows, columns]);
  }
});

test("sizes change and signs go", () => {
  assert.deepEqual(resized([["S", "a"], [".", "G"]], 1, 3), [["S", "a", "."]]); // prettier-ignore
  assert.deepEqual(without([["Sa", "a"]], "a"), [["S", "."]]);
});

test("a cell is described", () => {
  const signs = new Map([
    ["G", { roles: ["goal"], reward: 0.5 }],
    ["c", { roles: ["c"], name: "camera" }],
    ["W", { roles: ["wall"] }],
  ]);
  const shapes = [{ name: "lobby", cells: [[0, 0, 90]] }];
  assert.equal(
    describe([["Gcq", ""]], signs, shapes, 0, 0),
    "row 0, column 0: goal (reward 0.5), in range of sensor camera, “q”, which has no meaning, " +
      "in range of sensor lobby (reports 90%)",
  );
  assert.equal(describe([["Gcq", ""]], signs, shapes, 0, 1), "row 0, column 1: missing");
  assert.ok(isWall("W", signs) && !isWall("c", signs));
});
