// The text of the scenario, with a margin of line numbers in which defects are marked, and the list of them.
import { make } from "../report/make.js";

export function makeEditor(parent, { typed, jump }) {
  const box = make("div", { class: "editor" }, parent);
  const margin = make("div", { class: "margin", "aria-hidden": "true" }, box);
  const area = make(
    "textarea",
    {
      wrap: "off",
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      "aria-label": "The scenario as TOML",
      "aria-describedby": "draw-defects",
    },
    box,
  );
  const list = make("ol", { id: "draw-defects", class: "defects", "aria-live": "polite" }, parent);
  let lines = 0,
    wrong = new Map();

  function number() {
    const count = area.value.split("\n").length;
    if (count !== lines || margin.dataset.wrong !== String([...wrong.keys()])) {
      lines = count;
      margin.dataset.wrong = [...wrong.keys()];
      margin.replaceChildren();
      for (let line = 1; line <= count; line++) {
        const mark = make(
          "span",
          wrong.has(line) ? { class: "wrong", title: wrong.get(line) } : {},
          null,
          String(line),
        );
        margin.appendChild(mark);
      }
    }
    margin.scrollTop = area.scrollTop;
  }
  function show(line) {
    const begin =
      area.value
        .split("\n")
        .slice(0, line - 1)
        .join("\n").length + (line > 1 ? 1 : 0);
    const end = area.value.indexOf("\n", begin);
    area.focus();
    area.setSelectionRange(begin, end < 0 ? area.value.length : end);
    area.scrollTop = Math.max(0, (line - 4) * (area.scrollHeight / Math.max(1, lines)));
  }
  area.addEventListener("input", () => {
    number();
    typed(area.value);
  });
  area.addEventListener("scroll", () => {
    margin.scrollTop = area.scrollTop;
  });

  return {
    set(text) {
      if (area.value === text) return;
      const { scrollTop, selectionStart } = area;
      area.value = text;
      area.setSelectionRange(selectionStart, selectionStart);
      area.scrollTop = scrollTop;
      number();
    },
    mark(defects) {
      wrong = new Map();
      for (const one of defects)
        if (one.line) wrong.set(one.line, [wrong.get(one.line), one.message].filter(Boolean).join("\n"));
      number();
      list.replaceChildren();
      for (const one of defects) {
        const item = make("li", {}, list);
        const where = make("button", { type: "button" }, item, one.place || "scenario");
        where.disabled = !one.line && !one.cell;
        where.addEventListener("click", () => (one.cell && !one.line ? jump(one.cell) : show(one.line)));
        if (one.cell)
          make("button", { type: "button" }, item, `row ${one.cell[0]}, column ${one.cell[1]}`).addEventListener(
            "click",
            () => jump(one.cell),
          );
        make("span", {}, item, one.message);
      }
    },
  };
}
