// The pane Draw: the grid and the text of the scenario side by side, each following the other, with defects beside
// their places.
import { figures } from "../report/figures.js";
import { make } from "../report/make.js";
import { Board } from "./board.js";
import { freshGrid } from "./cells.js";
import { Draft } from "./draft.js";
import { makeEditor } from "./editor.js";
import { makeFields } from "./fields.js";
import { makeOpener } from "./opener.js";
import { Palette } from "./palette.js";

const HELP =
  "Arrow keys move, Space paints, Shift with an arrow paints on the way; a sign's own key chooses it; Ctrl+Z undoes. " +
  "Click to move a disc or a cone; drag from its centre to size and turn it.";

export function start(root, studio) {
  const bar = make("div", { class: "toolbar" }, root);
  makeOpener(bar, root, studio, { opened, fresh });
  const tools = makeTools(bar, {
    save,
    undo: () => draft.undo(),
    redo: () => draft.redo(),
    zoom: (n) => board.zoom(n),
    pan,
  });
  const columns = make("div", { class: "drawing" }, root);
  const left = make("div", { class: "world" }, columns);
  const right = make("div", { class: "source" }, columns);
  const signs = make("div", { class: "palette", role: "group", "aria-label": "What to paint" }, left);
  const board = new Board(left, {
    tool: () => palette.tool,
    changed: () => draft.painted(),
    shaped: (shape) => change([], undefined, shape),
    moved,
  });
  const picture = make("div", { class: "scene", hidden: "" }, left);
  const place = make("p", { id: "draw-cell", class: "note", "aria-live": "polite" }, left);
  const settings = make("div", { class: "settings" }, left);
  const keys = make("p", { id: "draw-keys", class: "note" }, left, HELP);
  const fields = make("div", { class: "fields" }, left);
  const jump = (cell) => {
    board.go(...cell);
    board.focus();
  };
  const editor = makeEditor(right, { typed: (text) => draft.type(text), jump });
  const facts = make("p", { class: "note facts", "aria-live": "polite" }, right);
  const draft = new Draft(studio.api, {
    changed: (text) => {
      editor.set(text);
      typed(text);
    },
    typed,
    checked: show,
    failed: studio.notice,
    cells: () => board.cells,
  });
  const change = (...given) => draft.change(...given);
  const cells = () => board.cells;
  const chosen = () => board.redraw();
  const palette = new Palette(signs, settings, { change, chosen, notice: studio.notice, cells });
  const showFields = makeFields(fields, { change, cells, reshape: (made) => board.replace(made) });
  const ofGrid = [signs, settings, board.box, place, fields, keys];
  for (const part of ofGrid) part.hidden = true; // until there is a drawing
  let drawing = null;
  let defects = [];

  function typed(text) {
    studio.scenario = text;
    tools(draft);
  }
  function show(answer) {
    defects = answer.defects;
    editor.mark(defects);
    facts.textContent = answer.facts ? inWords(answer.facts) : "";
    studio.fields = answer.fields;
    if (!answer.drawing) return board.outdate();
    drawing = answer.drawing;
    const isGrid = drawing.kind === "grid";
    for (const part of ofGrid) part.hidden = !isGrid;
    picture.hidden = isGrid;
    if (!isGrid) return showScene(picture, drawing);
    draft.missed = draft.dirty || board.isPainting;
    if (!draft.missed) board.show(drawing, defects);
    palette.show(drawing);
    showFields(drawing, answer.fields);
    board.tell();
  }
  function moved(row, column) {
    const at = [Math.min(row, board.rows - 1), Math.min(column, board.columns - 1)];
    const wrong = defects.filter((one) => one.cell?.[0] === at[0] && one.cell?.[1] === at[1]);
    place.textContent = [board.describe(...at), ...wrong.map((one) => one.message)].join(". ");
    if (draft.missed && !draft.dirty && !board.isPainting) draft.check(); // a stroke that changed nothing has ended
  }
  function pan(on) {
    board.isPanning = on;
    board.scroller.classList.toggle("panning", on);
  }
  function save() {
    const address = URL.createObjectURL(new Blob([draft.text], { type: "application/toml" }));
    make("a", { href: address, download: `${studio.name || "scenario"}.toml` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
  left.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT" || event.altKey) return;
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand && ["z", "Z", "y"].includes(event.key)) {
      event.preventDefault();
      if (event.key === "z" && !event.shiftKey) draft.undo();
      else draft.redo();
    } else if (!isCommand && drawing?.signs?.some((one) => one.sign === event.key)) {
      event.preventDefault();
      palette.choose({ sign: event.key });
    }
  });

  function opened(answer) {
    studio.adopt(answer);
    show(answer);
    if (answer.drawing?.kind === "grid") board.fit();
  }
  async function fresh(rows, wide) {
    const made = freshGrid(rows, wide);
    await change([{ at: ["horizon"], value: made.horizon }], made.cells);
    board.fit();
  }
  studio.on("scenario", (text) => {
    if (text === draft.text) return;
    draft.set(text, { remember: draft.text !== "" });
    draft.check();
  });
  studio.on("resize", () => board.resize());
  studio.on("pane", (name) => name === "draw" && board.fit());
  tools(draft);
}

function inWords({ states, actions, observations, question }) {
  return `${states.toLocaleString("en")} states, ${actions} actions, ${observations} observations. ${question}`;
}

// Returns the function that shows whether there is something to undo and to redo.
function makeTools(bar, act) {
  const button = (words, about, pressed) => {
    const made = make("button", { type: "button", ...about }, bar, words);
    made.addEventListener("click", () => pressed(made));
    return made;
  };
  button("Save as TOML", {}, act.save);
  const undo = button("Undo", { title: "Ctrl+Z" }, act.undo);
  const redo = button("Redo", { title: "Ctrl+Shift+Z" }, act.redo);
  button("−", { "aria-label": "smaller cells" }, () => act.zoom(-1));
  button("+", { "aria-label": "larger cells" }, () => act.zoom(1));
  // With a finger one either paints or moves the view.
  button("Move the view", { class: "touch", "aria-pressed": "false" }, (made) => {
    const on = made.getAttribute("aria-pressed") !== "true";
    made.setAttribute("aria-pressed", on);
    act.pan(on);
  });
  return ({ past, future }) => {
    undo.disabled = !past.length;
    redo.disabled = !future.length;
  };
}

function showScene(picture, data) {
  picture.replaceChildren();
  const drawn = figures(data, picture);
  drawn.drawScene(picture, "The model", {});
  drawn.sceneKey(picture, [], true);
  make("p", { class: "note" }, picture, "This model is not a grid: change it in the text.");
}
