// The form of the pane Plan: what to find, how, and for how long. A field that is left empty is as in the scenario.
import { make } from "../report/make.js";

const KEPT = "veil-plan"; // under which the form is kept while the tab is open
const MEMORIES = [
  ["markov", "stationary: the state"],
  ["timed", "time-dependent: state and time"],
  ["history", "the whole history (method game)"],
];
const LABELS = {
  time_limit: "Time limit, seconds",
  iterations: "Iterations",
  starts: "Starts",
  seed: "Seed",
  goal: "Goal",
  objective: "Objective",
  evaluation: "Evaluation",
  certificate_time_limit: "Time limit of the proof, seconds",
};
const NOT_FOR_FRONTIERS = ["method", "min_return", "certificate", "goal", "certificate_time_limit"];

export function makeForm(parent, studio) {
  const form = make("form", { "aria-label": "Settings of a run" }, parent);
  make("h2", {}, form, "New run");
  const fields = {}; // by name
  addOwnFields(form, fields);
  const { kind, method, memory, number, points } = fields;
  const summary = make("p", { class: "note" }, method.parentNode);
  const more = make("details", {}, form);
  make("summary", {}, more, "More settings");
  const wrong = make("div", { role: "alert", class: "wrong" }, form);
  const button = make("button", { type: "submit", class: "primary" }, form, "Start");

  async function fill() {
    const found = await studio.api("GET", "/api/choices");
    for (const one of found.methods)
      make("option", { value: one.name }, method, one.name).dataset.summary = one.summary;
    for (const [name, help] of Object.entries(found.memories))
      make("option", { value: name }, memory, help).dataset.number = "";
    for (const one of found.settings) addSetting(one.name === "time_limit" ? form : more, fields, one);
    form.append(fields.certificate.parentNode, more, wrong, button);
    recall(form);
    adapt();
    showScenario();
  }
  function adapt() {
    const frontier = kind.value === "frontier";
    for (const name of NOT_FOR_FRONTIERS) if (fields[name]) fields[name].parentNode.hidden = frontier;
    points.parentNode.hidden = !frontier;
    if (!frontier && memory.value === "history") method.value = "game";
    number.parentNode.hidden = memory.selectedOptions[0]?.dataset.number === undefined;
    summary.textContent = method.selectedOptions[0]?.dataset.summary || "";
  }
  // What holds for a field that is left empty: the scenario's value, or the default.
  function showScenario() {
    for (const [name, input] of Object.entries(fields)) {
      const found = studio.fields?.[name] ?? studio.fields?.[`solve.${name}`] ?? input.dataset.default ?? "";
      const known = [...(input.options || [])].find((one) => one.value === found)?.textContent;
      if (input.options?.[0]?.value === "") input.options[0].textContent = known ?? (asText(found) || "automatic");
      else if (input.placeholder) input.placeholder = found === "" ? "none" : asText(found);
    }
  }
  function tell(error) {
    wrong.replaceChildren();
    const lines = error?.defects?.length ? error.defects : [error?.message];
    for (const line of lines.filter(Boolean)) make("p", {}, wrong, line);
  }
  form.addEventListener("input", () => {
    adapt();
    keep(form);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    tell(null);
    try {
      await studio.save();
      await studio.api("POST", "/api/runs", { settings: settings(fields) });
    } catch (error) {
      tell(error);
    }
    button.disabled = false;
    button.focus();
  });
  studio.on("fields", showScenario);
  adapt();
  fill().catch((error) => studio.notice(error.message));
  return { tell };
}

const asText = (value) => (typeof value === "object" ? Object.entries(value).flat().join(" ") : String(value));

function addOwnFields(form, fields) {
  const add = (name, label, control, attributes, help) => {
    fields[name] = field(form, name, label, control, attributes, help);
    return fields[name];
  };
  const kinds = [
    ["solve", "the best policy"],
    ["frontier", "the frontier: most bits for each return"],
  ];
  options(add("kind", "Find", "select", {}), kinds);
  options(add("method", "Method", "select", {}), [["", "auto"]]).dataset.default = "auto";
  const memory = add("memory", "Policy class", "select", {});
  options(memory, [["", "stationary"], ...MEMORIES]).dataset.default = "markov";
  add("number", "How many", "input", { type: "number", min: 1, value: 1 });
  const text = { type: "text", inputmode: "decimal", placeholder: "none", autocomplete: "off" };
  add("min_return", "Return at least", "input", text, "A number, or a share such as 70%.");
  add("horizon", "Horizon", "input", { type: "number", min: 0, placeholder: "none" });
  add("points", "Points", "input", { type: "number", min: 2, max: 200, value: 10 });
  const line = make("div", { class: "check" }, form);
  const check = { type: "checkbox", id: "plan-certificate", name: "certificate", checked: "" };
  fields.certificate = make("input", check, line);
  make("label", { for: "plan-certificate" }, line, "Prove an upper bound over all policies");
}

function addSetting(parent, fields, { name, help, kind, choices, least, default: value }) {
  const isWhole = kind === "whole number";
  const number = { type: "number", step: isWhole ? 1 : "any", min: least ?? "", placeholder: "none" };
  const made = choices.length
    ? options(field(parent, name, LABELS[name], "select", {}, help), [["", ""], ...choices.map((one) => [one, one])])
    : field(parent, name, LABELS[name], "input", number, help);
  made.dataset.default = value;
  fields[name] = made;
}

function field(parent, name, label, control, attributes, help) {
  const line = make("div", { class: "field" }, parent);
  make("label", { for: `plan-${name}` }, line, label);
  return make(control, { id: `plan-${name}`, name, ...attributes, ...(help ? { title: help } : {}) }, line);
}

function options(select, entries) {
  for (const [value, words] of entries) make("option", { value }, select, words);
  return select;
}

// What the form asks for: only what is filled in and shown.
function settings(fields) {
  const { kind, memory, number, certificate, ...others } = fields;
  const found = { kind: kind.value };
  if (memory.value) found.memory = number.parentNode.hidden ? memory.value : `${memory.value}:${number.value}`;
  if (kind.value !== "frontier" && !certificate.checked) found.certificate = false;
  for (const [name, input] of Object.entries(others)) {
    const given = input.value.trim();
    if (given === "" || input.parentNode.hidden) continue;
    const isNumber = input.tagName === "INPUT" && Number.isFinite(Number(given));
    found[name] = isNumber ? Number(given) : given;
  }
  return found;
}

const named = (form) => [...form.elements].filter((one) => one.name);
function keep(form) {
  const values = named(form).map((one) => [one.name, one.type === "checkbox" ? one.checked : one.value]);
  sessionStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(values)));
}
function recall(form) {
  const kept = JSON.parse(sessionStorage.getItem(KEPT) || "{}");
  for (const one of named(form)) {
    if (!(one.name in kept)) continue;
    if (one.type === "checkbox") one.checked = kept[one.name];
    else one.value = kept[one.name];
  }
}
