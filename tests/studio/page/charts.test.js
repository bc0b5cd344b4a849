import assert from "node:assert/strict";
import { test } from "node:test";
import { extent, secretTime, ticks } from "../report/charts.js";
import { bytes, percent, short } from "../report/make.js";
import { borderPath, unpack } from "../report/scene.js";

test("ticks are round and inside", () => {
  for (const [low, high] of [
    [0, 1],
    [0.03, 0.9],
    [-7, 1200],
    [5, 5],
    [1e-9, 3e-9],
  ]) {
    // prettier-ignore
    const found = ticks(low, high, 4, false).map((one) => one.value);
    assert.ok(found.length >= 1 && found.length <= 9, `${low} ${high}: ${found}`);
    for (const value of found)
      assert.ok(value >= low - 1e-9 * Math.abs(low) - 1e-12 && value <= high + 1e-9 * Math.abs(high) + 1e-12);
  }
  assert.ok(ticks(0, 2, 5, true).every((one) => Number.isInteger(one.value)));
});

test("the axes hold all that is drawn", () => {
  const series = [{ x: [1, 2], y: [3, null] }];
  const [x0, x1, y0, y1] = extent({ series, levels: [{ y: 9 }], verticals: [{ x: 5 }] });
  assert.ok(x0 <= 1 && x1 >= 5 && y0 <= 3 && y1 >= 9);
  const [left, right] = extent({ series: [{ x: [2], y: [1] }] });
  assert.ok(left < 2 && right > 2); // one point has room on both sides
});

test("the time of the secret is marked inside the run", () => {
  assert.deepEqual(secretTime({ split: 5, horizon: 5 }), []);
  assert.equal(secretTime({ split: 2, horizon: 5 })[0].x, 2);
});

test("frames are unpacked", () => {
  const pack = (array) => Buffer.from(array.buffer).toString("base64");
  const packed = {
    wide: false,
    begin: [0, 1, 3],
    place: pack(Uint16Array.of(2, 0, 1)),
    root: pack(Uint16Array.of(65535, 0, 65535)),
  };
  const frame = unpack(packed, 3);
  assert.deepEqual([...frame(0)], [0, 0, 1]);
  assert.deepEqual([...frame(1)], [0, 1, 0]);
  assert.deepEqual([...bytes(pack(Uint8Array.of(1, 255)))], [1, 255]);
});

test("numbers and names in words", () => {
  assert.deepEqual([percent(1), percent(0.5), percent(0.012345), percent(0)], ["100%", "50%", "1.2%", "0%"]);
  assert.deepEqual([percent(0.99972), percent(0.9999999), percent(1 - 1e-12)], ["99.972%", "99.999%", "100%"]);
  assert.equal(short("abcdefghij", 6), "ab…hij");
  assert.equal(short("abc", 6), "abc");
});

test("the border of a set of cells leaves out what is between them", () => {
  const places = [0, 0, 1, 0, 5, 5];
  assert.equal(borderPath([0], places, 0.1).match(/M/g).length, 4);
  assert.equal(borderPath([0, 1], places, 0.1).match(/M/g).length, 6);
  assert.equal(borderPath([0, 2], places, 0.1).match(/M/g).length, 8);
  assert.ok(borderPath([0], places, 0.1).startsWith("M-0.40 -0.40L0.40 -0.40"));
});

test("the border is closed: each of its ends is an end of two lines, at corners that point inwards too", () => {
  const places = [0, 0, 1, 0, 0, 1, 2, 0, 2, 1, 1, 2]; // an L, a U, and a cell of its own
  for (const spots of [[0], [0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 5]]) {
    const ends = new Map();
    for (const [, ...at] of borderPath(spots, places, 0.1).matchAll(/M(\S+ \S+)L(\S+ [^M]+)/g))
      for (const end of at) ends.set(end, (ends.get(end) || 0) + 1);
    assert.deepEqual(new Set([...ends.values()]), new Set([2]));
  }
});
