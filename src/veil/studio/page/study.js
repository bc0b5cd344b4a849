// The pane Study: the progress and the table of a study that runs elsewhere, read again every two seconds.
const READ_MS = 2000;
const KEPT = "veil-study";

export function start(root, studio) {
  const form = make("form", { class: "toolbar", "aria-label": "Study" }, root);
  const line = make("div", { class: "field grow" }, form);
  make("label", { for: "study-folder" }, line, "Folder of a study");
  const folder = make("input", { id: "study-folder", type: "text", autocomplete: "off", spellcheck: "false", placeholder: "layouts-study" }, line);
  make("button", { type: "submit", class: "primary" }, form, "Show");
  const wrong = make("div", { role: "alert", class: "wrong" }, root);
  const intro = make("p", { class: "note" }, root, "Start a study in a terminal with veil study FILE; its runs appear here as they end.");
  const body = make("div", { hidden: "" }, root);
  const title = make("h2", {}, body), told = make("p", { role: "status" }, body), bar = make("progress", { "aria-label": "Runs that have ended" }, body);
  const scroll = make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table of runs" }, body), table = make("table", { class: "listing" }, scroll);
  const note = make("p", { class: "note" }, body), failed = make("ul", { class: "wrong" }, body);
  let shown = "", timer = null, drawn = "";
  folder.value = sessionStorage.getItem(KEPT) || "";

  async function read() {
    clearTimeout(timer);
    if (!shown || studio.pane !== "study") return;
    const asked = shown;
    try {
      const found = await studio.api("GET", `/api/study?folder=${encodeURIComponent(asked)}`);
      if (asked !== shown) return;
      draw(found);
      if (found.counts.to_do) timer = setTimeout(read, READ_MS);
    } catch (error) {
      shown = "";
      body.hidden = true;
      wrong.textContent = error.message;
    }
  }
  function draw(found) {
    const text = JSON.stringify(found), { done, failed: lost, to_do: left } = found.counts;
    body.hidden = false;
    intro.hidden = true;
    if (text === drawn) return;
    drawn = text;
    title.textContent = found.name;
    told.textContent = `${done} ${done === 1 ? "run" : "runs"} done${lost ? `, ${lost} failed` : ""}${left ? `, ${left} to do` : ""}.${found.limited ? ` ${found.limited[0].toUpperCase()}${found.limited.slice(1)}.` : ""}`;
    bar.max = Math.max(1, done + lost + left);
    bar.value = done + lost;
    table.replaceChildren();
    const head = make("tr", {}, make("thead", {}, table)), rows = make("tbody", {}, table);
    const names = found.columns.map((name) => name.replaceAll("_", " "));
    const numeric = names.map((_, i) => found.rows.some((row) => typeof row[i] === "number"));
    for (const [i, name] of names.entries()) make("th", { scope: "col", ...(numeric[i] ? { class: "number" } : {}) }, head, name);
    for (const row of found.rows) {
      const at = make("tr", {}, rows);
      for (const [i, value] of row.entries())
        make("td", { "data-label": names[i], ...(numeric[i] ? { class: "number", "data-value": value ?? "" } : {}) }, at, names[i] === "status" ? String(value).toLowerCase().replaceAll("_", " ") : cell(value));
    }
    note.textContent = found.left_out ? `${found.left_out} earlier rows are in table.csv of ${found.folder}.` : found.folder;
    failed.replaceChildren();
    for (const [label, reason] of found.failed) make("li", {}, failed, `${label}: ${reason}`);
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    wrong.textContent = drawn = "";
    shown = folder.value.trim();
    sessionStorage.setItem(KEPT, shown);
    read();
  });
  studio.on("pane", () => {
    if (studio.pane === "study" && !shown && folder.value) form.requestSubmit();
    else read();
  });
}

function cell(value) {
  if (value === null) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? String(Number(value.toPrecision(5))) : String(value);
}
