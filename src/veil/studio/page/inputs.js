// Labelled inputs whose values are numbers, texts or nothing.
import { make } from "../report/make.js";

// What was typed: a number, a text, or null for nothing.
export function valueOf(text) {
  const given = text.trim();
  if (given === "") return null;
  return Number.isFinite(Number(given)) ? Number(given) : given;
}

// One input under a key; set(value) is called when it has changed.
export function field(parent, { key, words, value, isText = false, placeholder = "" }, set) {
  const holder = make("label", {}, parent);
  make("span", {}, holder, words);
  const look = isText ? { inputmode: "text", size: 12 } : { inputmode: "decimal", size: 6 };
  const input = make("input", { type: "text", ...look, placeholder, value: value ?? "", "data-key": key }, holder);
  input.addEventListener("change", () => set(valueOf(input.value)));
  return input;
}

// Make the content of an element anew, with the focus where it was.
export function refill(parent, fill) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset : {};
  const name = ["key", "sign", "shape"].find((one) => focused[one] !== undefined);
  parent.replaceChildren();
  fill();
  if (name) parent.querySelector(`[data-${name}="${CSS.escape(focused[name])}"]`)?.focus();
}
