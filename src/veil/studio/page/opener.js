// Opening another scenario: a new grid, the gallery, a file of this computer, or a path.
import { make } from "../report/make.js";

const KINDS = ".toml,.pomdp,.prism,.nm,.pm,.drn";

// then.opened(answer) after a scenario is on the page; then.fresh(rows, columns) after an empty one is.
export function makeOpener(bar, root, studio, then) {
  const button = make("button", { type: "button", "aria-expanded": "false", "aria-controls": "opener" }, bar, "Open…");
  const panel = make("div", { id: "opener", hidden: "" }, root);
  const told = make("p", { class: "note", role: "status" }, panel);
  let gallery = null;
  button.addEventListener("click", () => toggle(panel.hidden));
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      toggle(false);
      button.focus();
    }
  });

  function toggle(open) {
    panel.hidden = !open;
    button.setAttribute("aria-expanded", open);
    told.textContent = "";
    if (open)
      fill().catch((error) => {
        told.textContent = error.message;
      });
    if (open) panel.querySelector("select, input")?.focus();
  }
  async function send(request) {
    told.textContent = "";
    try {
      const answer = await studio.api("POST", "/api/open", { options: reading.value, ...request });
      if (answer.needs) return askSecret(request, answer);
      toggle(false);
      then.opened(answer);
      studio.notice(answer.notes.join(" "));
    } catch (error) {
      told.textContent = error.message;
    }
  }

  const choose = row("Gallery"),
    select = make("select", { "aria-label": "Gallery problem" }, choose);
  make("button", { type: "button" }, choose, "Open").addEventListener("click", () => send({ gallery: select.value }));
  const about = make("span", { class: "note" }, choose);
  select.addEventListener("change", () => {
    about.textContent = gallery?.find((one) => one.name === select.value)?.description || "";
  });
  async function fill() {
    if (gallery) return;
    gallery = (await studio.api("GET", "/api/gallery")).problems;
    for (const one of gallery) make("option", { value: one.name }, select, one.name);
    select.dispatchEvent(new Event("change"));
  }

  const size = row("New grid");
  const rows = make("input", { type: "number", min: 1, max: 1000, value: 8, "aria-label": "Rows" }, size);
  make("span", {}, size, "×");
  const columns = make("input", { type: "number", min: 1, max: 1000, value: 8, "aria-label": "Columns" }, size);
  make("button", { type: "button" }, size, "Make").addEventListener("click", async () => {
    const [high, wide] = [Number(rows.value), Number(columns.value)];
    if (!(high >= 1 && wide >= 1 && high * wide <= 50000)) {
      told.textContent = "A grid has from 1 to 50,000 cells.";
      return;
    }
    await send({ gallery: "" });
    if (panel.hidden) then.fresh(high, wide);
  });

  const file = row("File"),
    input = make("input", { type: "file", accept: KINDS, "aria-label": "Scenario, PRISM or POMDP file" }, file);
  input.addEventListener("change", async () => {
    const chosen = input.files[0];
    if (!chosen) return;
    if (chosen.size > 6e6) {
      told.textContent = "The file is larger than 6 MB: put it beside a scenario with a [file] table.";
      return;
    }
    send({ name: chosen.name, text: await chosen.text() });
  });
  const path = row("Path"),
    typed = make(
      "input",
      { type: "text", "aria-label": "Path of a file", placeholder: "scenario.toml, model.prism, model.pomdp" },
      path,
    );
  make("button", { type: "button" }, path, "Open").addEventListener("click", () => send({ path: typed.value }));
  typed.addEventListener("keydown", (event) => {
    if (event.key === "Enter") send({ path: typed.value });
  });

  const more = row("Options"),
    reading = make(
      "input",
      {
        type: "text",
        "aria-label": "Options of a model file",
        placeholder: "of a model file, such as reward_model=gold constants=N=4",
      },
      more,
    );

  // A model file has no secret: an expression for its secret states, and the number of decisions.
  const asking = make("div", { class: "asking" }, panel);
  function askSecret(request, answer) {
    asking.replaceChildren();
    make("pre", {}, asking, answer.summary);
    make("p", { class: "note" }, asking, `A model file has no secret. Variables: ${answer.variables.join("; ")}`);
    const line = make("div", { class: "row" }, asking);
    make("span", {}, line, "Last states that are secret");
    const secret = make(
      "input",
      { type: "text", "aria-label": "Last states that are secret", placeholder: "state=vault" },
      line,
    );
    const decisions = make("input", { type: "number", min: 1, max: 1000, value: 10, "aria-label": "Decisions" }, line);
    make("span", {}, line, "decisions");
    make("button", { type: "button" }, line, "Open").addEventListener("click", () =>
      send({ ...request, secret: secret.value, horizon: Number(decisions.value) }),
    );
    secret.focus();
  }
  function row(words) {
    const line = make("div", { class: "row" }, panel);
    make("span", {}, line, words);
    return line;
  }
  panel.append(told, asking);
  return { toggle };
}
