import assert from "node:assert/strict";
import { test } from "node:test";
import { valueOf } from "../studio/inputs.js";
import { about, colourOf, hasEnd, message, reveals } from "../studio/run-words.js";
import { cell, summary } from "../studio/study.js";

const run = { id: "1", kind: "solve", name: "floor", state: "done", settings: {}, points: [], wanted: 10 };

test("a run tells how it stands", () => {
  assert.equal(message({ ...run, state: "failed", error: "no" }), "no");
  assert.equal(message({ ...run, state: "running" }), "starting");
  const busy = { ...run, state: "running", phase: "climbing", iteration: 1200, of: 5000, seconds: 2 };
  assert.equal(message(busy), "climbing 1,200 of 5,000, 2.0 s");
  assert.equal(message({ ...busy, of: 1e9 }), "climbing 1,200, 2.0 s");
  assert.ok(hasEnd(busy) && !hasEnd({ of: 1e9 }));
  const words = "any policy at most 1 bits (trivial: log2 of 2 values)";
  const proven = { proven_lower: 0.12345, proven_upper: 1, proven: words };
  const done = { ...run, status: "TIME_LIMIT", threshold: 0.8, feasible: false, seconds: 3, ...proven };
  assert.equal(
    message(done),
    "Time limit reached. Threshold on the return: 0.8, not met. " +
      "The proven bound says nothing (trivial: log2 of 2 values). " +
      "Proven of this policy: at least 0.1234 bits. Search: 3.0 s.",
  );
  assert.equal(message({ ...run, note: "too large" }), "No proof: too large.");
  const frontier = { ...run, kind: "frontier", points: [[1, 2]], status: "TIME_LIMIT" };
  assert.equal(message(frontier), "Time limit reached. 9 of 10 points missing: give it more time.");
});

test("a run tells what it is", () => {
  assert.equal(about({ ...run, settings: { method: "game", memory: "window:2" } }), "floor · game · window 2");
  assert.equal(about({ ...run, kind: "frontier", points: [[1, 2]] }), "floor · frontier, 1 of 10 points");
  assert.ok(reveals({ settings: { goal: "transparent" } }) && !reveals({ goal: "opaque", settings: {} }));
  assert.notEqual(colourOf({ id: "1" }), colourOf({ id: "2" }));
});

test("studies are told in words", () => {
  assert.equal(summary({ counts: { done: 1, failed: 0, to_do: 2 }, limited: "" }), "1 run done, 2 to do.");
  const limited = { counts: { done: 2, failed: 1, to_do: 0 }, limited: "all hit the limit" };
  assert.equal(summary(limited), "2 runs done, 1 failed. All hit the limit.");
  assert.deepEqual([cell(null), cell(true), cell(1.23456789), cell("x")], ["", "yes", "1.2346", "x"]);
});

test("what is typed becomes a number, a text or nothing", () => {
  assert.deepEqual([valueOf(" 3 "), valueOf("70%"), valueOf("  ")], [3, "70%", null]);
});
