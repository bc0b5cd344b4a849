import assert from "node:assert/strict";
import { test } from "node:test";
import { Draft } from "../studio/draft.js";

// A draft whose server answers when it is told to.
function begun(text) {
  const asked = [];
  const said = [];
  const api = (method, path, body) => new Promise((answer) => asked.push({ path, body, answer }));
  const draft = new Draft(api, {
    changed: () => {},
    typed: () => {},
    checked: (answer) => said.push(answer.name),
    failed: (words) => said.push(words),
    cells: () => [["#"]],
  });
  draft.set(text);
  return { draft, asked, said };
}
const settled = () => new Promise((done) => setTimeout(done, 5));

test("undo and redo go through every change", async () => {
  const { draft } = begun("a");
  draft.set("b");
  draft.set("c");
  await draft.undo();
  await draft.undo();
  assert.equal(draft.text, "a");
  await draft.redo();
  assert.equal(draft.text, "b");
  draft.set("d"); // which leaves nothing to do again
  await draft.redo();
  assert.equal(draft.text, "d");
});

test("an answer about an older text is left out", async () => {
  const { draft, asked, said } = begun("a");
  draft.check();
  draft.set("b");
  asked[0].answer({ name: "late" });
  await settled();
  assert.deepEqual(said, []);
});

test("changes start from the answer to the one before", async () => {
  const { draft, asked } = begun("a");
  draft.change([1]);
  draft.change([2]);
  await settled();
  assert.equal(asked.length, 1);
  asked[0].answer({ text: "a1" });
  await settled();
  assert.deepEqual([asked[1].body.text, asked[1].body.changes], ["a1", [2]]);
});

test("a change is made again if the text was changed meanwhile", async () => {
  const { draft, asked } = begun("a");
  draft.change([1]);
  await settled();
  draft.set("typed");
  asked[0].answer({ text: "a1" });
  await settled();
  assert.equal(draft.text, "typed");
  assert.equal(asked[1].body.text, "typed");
  asked[1].answer({ text: "typed1" });
  await settled();
  assert.equal(draft.text, "typed1");
});
