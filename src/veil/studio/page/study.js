// The pane Study: the progress and the table of a study that runs elsewhere, read again every two seconds.
import { make } from "../report/make.js";

const READ_MS = 2000;
const KEPT = "veil-study";
const INTRO = "Start a study in a terminal with veil study FILE; its runs appear here as they end.";

export function start(root, studio) {
  const form = make("form", { class: "toolbar", "aria-label": "Study" }, root);
  const line = make("div", { class: "field grow" }, form);
  make("label", { for: "study-folder" }, line, "Folder of a study");
  const text = { id: "study-folder", type: "text", autocomplete: "off", spellcheck: "false" };
  const folder = make("input", { ...text, placeholder: "layouts-study" }, line);
  make("button", { type: "submit", class: "primary" }, form, "Show");
  const wrong = make("div", { role: "alert", class: "wrong" }, root);
  const intro = make("p", { class: "note" }, root, INTRO);
  const body = make("div", { hidden: "" }, root);
  const draw = makeBody(body);
  let shown = "";
  let timer = null;
  folder.value = sessionStorage.getItem(KEPT) || "";

  async function read() {
    clearTimeout(timer);
    if (!shown || studio.pane !== "study") return;
    const asked = shown;
    try {
      const found = await studio.api("GET", `/api/study?folder=${encodeURIComponent(asked)}`);
      if (asked !== shown) return;
      body.hidden = false;
      intro.hidden = true;
      draw(found);
      if (found.counts.to_do) timer = setTimeout(read, READ_MS);
    } catch (error) {
      shown = "";
      body.hidden = true;
      wrong.textContent = error.message;
    }
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    wrong.textContent = "";
    shown = folder.value.trim();
    sessionStorage.setItem(KEPT, shown);
    read();
  });
  studio.on("pane", () => {
    if (studio.pane === "study" && !shown && folder.value) form.requestSubmit();
    else read();
  });
}

// Returns the function that draws a study, and draws nothing that is there already.
function makeBody(body) {
  const title = make("h2", {}, body);
  const told = make("p", { role: "status" }, body);
  const bar = make("progress", { "aria-label": "Runs that have ended" }, body);
  const region = { class: "wide", tabindex: "0", role: "region", "aria-label": "Table of runs" };
  const table = make("table", { class: "listing" }, make("div", region, body));
  const note = make("p", { class: "note" }, body);
  const failed = make("ul", { class: "wrong" }, body);
  let drawn = "";
  return (found) => {
    const now = JSON.stringify(found);
    if (now === drawn) return;
    drawn = now;
    const { done, failed: lost, to_do: left } = found.counts;
    title.textContent = found.name;
    told.textContent = summary(found);
    bar.max = Math.max(1, done + lost + left);
    bar.value = done + lost;
    fillTable(table, found);
    const more = `${found.left_out} earlier rows are in table.csv of ${found.folder}.`;
    note.textContent = found.left_out ? more : found.folder;
    failed.replaceChildren();
    for (const [label, reason] of found.failed) make("li", {}, failed, `${label}: ${reason}`);
  };
}

export function summary({ counts, limited }) {
  const parts = [`${counts.done} ${counts.done === 1 ? "run" : "runs"} done`];
  if (counts.failed) parts.push(`${counts.failed} failed`);
  if (counts.to_do) parts.push(`${counts.to_do} to do`);
  const note = limited ? ` ${limited[0].toUpperCase()}${limited.slice(1)}.` : "";
  return `${parts.join(", ")}.${note}`;
}

function fillTable(table, { columns, rows }) {
  const names = columns.map((name) => name.replaceAll("_", " "));
  const numeric = names.map((_, i) => rows.some((row) => typeof row[i] === "number"));
  table.replaceChildren();
  const head = make("tr", {}, make("thead", {}, table));
  const body = make("tbody", {}, table);
  for (const [i, name] of names.entries())
    make("th", { scope: "col", ...(numeric[i] ? { class: "number" } : {}) }, head, name);
  for (const row of rows) {
    const line = make("tr", {}, body);
    for (const [i, value] of row.entries()) {
      const text = names[i] === "status" ? String(value).toLowerCase().replaceAll("_", " ") : cell(value);
      const number = numeric[i] ? { class: "number", "data-value": value ?? "" } : {};
      make("td", { "data-label": names[i], ...number }, line, text);
    }
  }
}

export function cell(value) {
  if (value === null) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? String(Number(value.toPrecision(5))) : String(value);
}
