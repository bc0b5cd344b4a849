import assert from "node:assert/strict";
import { test } from "node:test";
import { arcOf, dragged } from "../studio/shapes.js";

const cone = { key: "c", kind: "cone", centre: [0.5, 0.5], radius: 2, direction: 10, angle: 90 };

test("a click moves the centre alone", () => {
  const moved = dragged(cone, [3.2, 4.9], [3.2, 4.9]);
  assert.deepEqual(moved, { ...cone, centre: [3.5, 4.5] });
});

test("a drag sets reach and direction, counterclockwise from right", () => {
  for (const [to, direction] of [
    [[3.5, 8.5], 0],
    [[-0.5, 4.5], 90],
    [[3.5, 0.5], 180],
    [[7.5, 4.5], 270],
  ]) {
    // prettier-ignore
    const moved = dragged(cone, [3.5, 4.5], to);
    assert.deepEqual([moved.centre, moved.radius, moved.direction], [[3.5, 4.5], 4, direction]);
  }
  const disc = dragged({ key: "d", kind: "disc", centre: [0, 0], radius: 1 }, [0.1, 0.1], [3.5, 4.5]);
  assert.deepEqual(disc, { key: "d", kind: "disc", centre: [0.5, 0.5], radius: 5 });
});

test("the outline of a cone turns with it", () => {
  assert.equal(arcOf({ kind: "disc" }), null);
  assert.equal(arcOf({ ...cone, angle: 360 }), null);
  const [from, to] = arcOf({ ...cone, direction: 90 }); // up: a quarter around −90° on the screen
  assert.ok(Math.abs(from + (3 * Math.PI) / 4) < 1e-12 && Math.abs(to + Math.PI / 4) < 1e-12);
});
