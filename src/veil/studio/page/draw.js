// The pane Draw: the grid and the text of the scenario side by side, each following the other, with defects beside their places.
import { makeBoard } from "./board.js";
import { makeOpener } from "./opener.js";
import { makeEditor } from "./editor.js";

const CHECK_MS = 250; // after the last key, the text is checked
const FAR = 15; // cells between start, goal and secret of a new grid, at most
const FLUSH_MS = 150; // after a stroke, the text follows
const WORDS = { floor: "Floor", wall: "Wall", start: "Start", goal: "Goal", secret: "Secret", absorbing: "Absorbing" };
const TINTS = { start: "blue", goal: "green", secret: "vermilion", absorbing: "muted" };
const FIELDS = [
  ["horizon", "Decisions", ""], ["min_return", "Required return", "none"], ["grid.goal_reward", "Goals pay", "1"], ["grid.slip", "Slip", "0.1"], // with what holds where it is left out
];

export function start(root, studio) {
  const top = make("div", { class: "toolbar" }, root);
  const opener = makeOpener(top, root, studio, { opened, fresh });
  const save = make("button", { type: "button" }, top, "Save as TOML");
  const undo = make("button", { type: "button", title: "Ctrl+Z" }, top, "Undo"), redo = make("button", { type: "button", title: "Ctrl+Shift+Z" }, top, "Redo");
  const zooms = make("span", { class: "group" }, top);
  const smaller = make("button", { type: "button", "aria-label": "smaller cells" }, zooms, "−"), larger = make("button", { type: "button", "aria-label": "larger cells" }, zooms, "+");

  const columns = make("div", { class: "drawing" }, root);
  const left = make("div", { class: "world" }, columns), right = make("div", { class: "source" }, columns);
  const palette = make("div", { class: "palette", role: "group", "aria-label": "What to paint" }, left);
  const settings = make("div", { class: "settings" }, left);
  const board = makeBoard(left, { tool: () => tool, changed: painted, moved });
  const picture = make("div", { class: "scene", hidden: "" }, left);
  const place = make("p", { id: "draw-cell", class: "note", "aria-live": "polite" }, left);
  make("p", { id: "draw-keys", class: "note" }, left, "Arrow keys move, Space paints, Shift with an arrow paints on the way; a sign's own key chooses it; Ctrl+Z takes back.");
  const fields = make("div", { class: "fields" }, left);
  const editor = makeEditor(right, { typed, jump: (cell) => { board.go(...cell); board.focus(); } });
  const facts = make("p", { class: "note", "aria-live": "polite" }, right);

  let tool = "#", text = "", drawing = null, found = null;
  let past = [], future = []; // texts
  let waiting = null, dirty = false, flushing = null, version = 0;
  let missed = false; // whether an answer came during a stroke, which goes first

  // Every change of the text goes through here.
  function setText(changed, { remember = true } = {}) {
    if (changed === text) return;
    if (remember && text) { past.push(text); future = []; if (past.length > 300) past.shift(); }
    text = changed;
    version++;
    editor.set(text);
    studio.scenario = text;
    buttons();
  }
  function buttons() { undo.disabled = !past.length; redo.disabled = !future.length; }

  async function check() {
    const mine = version;
    try {
      const answer = await studio.api("POST", "/api/check", { text });
      if (mine === version) show(answer);
    } catch (error) { studio.notice(error.message); }
  }
  function show(answer) {
    found = answer;
    editor.mark(answer.defects);
    facts.textContent = answer.facts ? `${answer.facts.states.toLocaleString("en")} states, ${answer.facts.actions} actions, ${answer.facts.observations} observations. ${answer.facts.question}` : "";
    const isGrid = answer.drawing?.kind === "grid";
    if (!answer.drawing) { board.outdate(); return; }
    drawing = answer.drawing;
    for (const part of [palette, settings, board.box, place, fields, zooms, document.getElementById("draw-keys")]) part.hidden = !isGrid;
    picture.hidden = isGrid;
    if (!isGrid) { showScene(answer.drawing); return; }
    missed = dirty || board.painting;
    if (!missed) board.show(drawing, answer.defects);
    showPalette();
    showFields();
    moved(...cursor);
  }
  function showScene(data) {
    picture.replaceChildren();
    const drawn = figures(data, picture);
    drawn.drawScene(picture, "The model", {});
    drawn.sceneKey(picture, [], true);
    make("p", { class: "note" }, picture, "This model is no grid: it is changed in the text.");
  }

  // Changes of the text are asked for one after another: each starts from the answer to the one before it.
  let last = Promise.resolve();
  const inTurn = (ask) => (last = last.then(ask).catch((error) => { studio.notice(error.message); check(); }));
  // Painting: the drawing in the text follows a moment later.
  function painted() {
    dirty = true;
    flushing ||= new Promise((done) => setTimeout(done, FLUSH_MS)).then(() => { flushing = null; return inTurn(flush); });
  }
  async function flush() {
    while (dirty) {
      dirty = missed = false;
      const mine = version;
      const answer = await studio.api("POST", "/api/change", { text, cells: board.cells });
      if (mine !== version) { check(); break; } // the text was changed meanwhile, and goes first
      setText(answer.text);
      show(answer);
    }
  }
  async function change(changes, cells) {
    await flushing;
    await inTurn(async () => {
      for (;;) {
        const mine = version;
        const answer = await studio.api("POST", "/api/change", { text, changes, ...(cells ? { cells } : {}) });
        if (mine !== version) continue; // the text was changed meanwhile: the same change of that
        if (cells) dirty = false; // of cells that are no more
        setText(answer.text);
        return show(answer);
      }
    });
  }
  let cursor = [0, 0];
  function moved(row, column) {
    cursor = [Math.min(row, board.cells.length - 1), Math.min(column, board.cells[0].length - 1)];
    const wrong = found?.defects.filter((one) => one.cell && one.cell[0] === cursor[0] && one.cell[1] === cursor[1]) || [];
    place.textContent = [board.describe(...cursor), ...wrong.map((one) => one.message)].join(". ");
    if (missed && !dirty && !board.painting) check(); // a stroke that changed nothing has ended
  }

  function showPalette() {
    const now = JSON.stringify(drawing.signs);
    if (now === palette.dataset.signs) return;
    palette.dataset.signs = now;
    const focused = palette.contains(document.activeElement) ? document.activeElement.dataset.sign : undefined;
    palette.replaceChildren();
    if (!drawing.signs.some((one) => one.sign === tool)) tool = "#";
    for (const one of drawing.signs) {
      const button = make("button", { type: "button", "data-sign": one.sign, "aria-pressed": one.sign === tool }, palette);
      const mark = make("b", {}, button, one.sign);
      if (one.colour) { mark.className = "swatch"; mark.style.borderColor = tint(one.colour); } else mark.style.color = tint(TINTS[one.roles.find((role) => TINTS[role])] || "ink");
      make("bdi", {}, button, one.name ?? label(one));
      button.addEventListener("click", () => choose(one.sign));
      if (one.sign === focused) button.focus();
    }
    make("button", { type: "button", class: "more" }, palette, "+ Sensor").addEventListener("click", addSensor);
    make("button", { type: "button", class: "more" }, palette, "+ Goal").addEventListener("click", addGoal);
    showSettings();
  }
  function label(one) {
    const words = one.roles.map((role) => WORDS[role] || drawing.signs.find((other) => other.sign === role)?.name || role).join(" + ");
    return one.reward !== undefined && one.sign !== "G" ? `${words} ${one.reward}` : one.weight !== undefined ? `${words} ×${one.weight}` : words;
  }
  function choose(sign) {
    tool = sign;
    for (const button of palette.children) if (button.dataset.sign) button.setAttribute("aria-pressed", button.dataset.sign === sign);
    showSettings();
  }
  const free = (among) => [...among].find((sign) => !drawing.signs.some((one) => one.sign === sign));
  async function addSensor() {
    const sign = free("abcdefghijklmnopqrstuvwxyz");
    if (!sign) return studio.notice("All letters are sensors: add others in the text.");
    await change([{ at: ["grid", "sensors", sign], value: { detection: 0.9, false_alarm: 0.0 } }]);
    choose(sign);
  }
  async function addGoal() {
    const sign = free("123456789ABCDEFHIJKLMNOPQRTUVWYZ");
    if (!sign) return studio.notice("All signs are taken: add others in the text.");
    await change([{ at: ["grid", "legend", sign], value: { is: "goal", reward: 0.5 } }]);
    choose(sign);
  }
  // The settings of the sensor or the goal that is painted with.
  function showSettings() {
    const one = drawing.signs.find((sign) => sign.sign === tool);
    const kind = one?.name !== undefined ? "sensor" : one?.reward !== undefined && tool !== "G" ? "goal" : "";
    const focused = settings.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    settings.replaceChildren();
    if (!kind) return;
    const table = kind === "sensor" ? ["grid", "sensors", tool] : ["grid", "legend", tool];
    const keys = kind === "sensor" ? [["name", "Name"], ["detection", "Reports in range"], ["false_alarm", "False alarms"]] : [["reward", "Reward"]];
    for (const [key, words] of keys) {
      const input = field(settings, words, one[key], (value) => change([{ at: [...table, key], value }]), key === "name");
      input.dataset.key = key;
      if (key === focused) input.focus();
    }
    make("button", { type: "button" }, settings, `Remove this ${kind}`).addEventListener("click", () => {
      const without = board.cells.map((row) => row.map((token) => [...token].filter((sign) => sign !== one.sign).join("") || "."));
      change([{ at: table, value: null }], without);
    });
  }
  function showFields(again) {
    const now = JSON.stringify([drawing.rows, drawing.columns, found.fields]);
    if (now === fields.dataset.shown && !again) return;
    fields.dataset.shown = now;
    const focused = fields.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    fields.replaceChildren();
    const sizes = [["rows", "Rows", drawing.rows, (n) => reshape(n, drawing.columns)], ["columns", "Columns", drawing.columns, (n) => reshape(drawing.rows, n)]];
    for (const [key, words, value, set] of sizes) field(fields, words, value, set).dataset.key = key;
    for (const [key, words, otherwise] of FIELDS) {
      const input = field(fields, words, found.fields?.[key] ?? "", (value) => change([{ at: key.split("."), value }]));
      input.dataset.key = key;
      input.placeholder = otherwise;
    }
    if (focused) fields.querySelector(`[data-key="${focused}"]`)?.focus();
  }
  // One labelled input; set(value) is called with a number, a text, or null where it is empty.
  function field(parent, words, value, set, isText) {
    const holder = make("label", {}, parent);
    make("span", {}, holder, words);
    const input = make("input", { type: "text", inputmode: isText ? "text" : "decimal", size: isText ? 12 : 6, value: value ?? "" }, holder);
    input.addEventListener("change", () => {
      const given = input.value.trim();
      set(given === "" ? null : Number.isFinite(Number(given)) ? Number(given) : given);
    });
    return input;
  }
  function reshape(rows, wide) {
    if (!Number.isInteger(rows) || !Number.isInteger(wide) || rows < 1 || wide < 1 || rows * wide > 50000) return showFields(true);
    board.replace(Array.from({ length: rows }, (_, r) => Array.from({ length: wide }, (_, c) => board.cells[r]?.[c] || ".")));
  }

  function typed(changed) {
    if (past.at(-1) !== text && (waiting === null)) { past.push(text); future = []; }
    text = changed;
    version++;
    studio.scenario = text;
    buttons();
    clearTimeout(waiting);
    waiting = setTimeout(() => { waiting = null; check(); }, CHECK_MS);
  }
  async function step(from, to) {
    await flushing;
    await last;
    if (!from.length) return;
    to.push(text);
    setText(from.pop(), { remember: false });
    buttons();
    check();
  }
  undo.addEventListener("click", () => step(past, future));
  redo.addEventListener("click", () => step(future, past));
  smaller.addEventListener("click", () => board.zoom(-1));
  larger.addEventListener("click", () => board.zoom(1));
  save.addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([text], { type: "application/toml" }));
    make("a", { href: address, download: `${studio.name || "scenario"}.toml` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
  left.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT") return;
    if ((event.ctrlKey || event.metaKey) && ["z", "Z", "y"].includes(event.key)) {
      event.preventDefault();
      if (event.key === "z" && !event.shiftKey) step(past, future); else step(future, past);
    } else if (!event.ctrlKey && !event.metaKey && !event.altKey && drawing?.signs?.some((one) => one.sign === event.key)) {
      event.preventDefault();
      choose(event.key);
    }
  });

  function opened(answer) { studio.adopt(answer); show(answer); if (answer.drawing?.kind === "grid") board.fit(); }
  // Goal and secret are near enough to be reached, and there are decisions enough to reach both.
  function fresh(rows, wide) {
    const cells = Array.from({ length: rows }, () => Array.from({ length: wide }, () => "."));
    const [down, right] = [Math.min(rows - 1, FAR), Math.min(wide - 1, FAR)];
    cells[0][0] = "S"; cells[down][0] += "G"; cells[down][right] += "?";
    const horizon = Math.max(6, down + right + 2);
    change([{ at: ["horizon"], value: horizon }], cells.map((row) => row.map((token) => token.replace(/^\.(.)/, "$1")))).then(() => board.fit());
  }
  studio.on("scenario", (changed) => { if (changed !== text) { setText(changed, { remember: text !== "" }); check(); } });
  studio.on("resize", () => board.resize());
  studio.on("pane", (name) => { if (name === "draw") board.fit(); });
  buttons();
}
