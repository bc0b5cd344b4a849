// Helpers to draw with, which need no data: elements, colours, numbers in words, packed bytes.
const NS = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "rect", "path", "circle", "line", "text", "tspan", "title", "image", "polyline"]);

export function make(name, attributes, parent, text) {
  const element = DRAWN.has(name) ? document.createElementNS(NS, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "fill" || key === "stroke" || key === "background") element.style[key] = value;
    else element.setAttribute(key, value);
  }
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}
export const tint = (name) => `var(--${name})`;
// The same, dark or light enough to be read as text.
export const inkOf = (name) => `color-mix(in srgb, var(--${name}) 65%, var(--ink))`;
// Two digits of what is small, and of what is missing to all.
export function percent(p) {
  const isNearlyAll = p > 0.9995 && 1 - p > 1e-9;
  const text = p < 0.0995 ? (100 * p).toPrecision(2) : (100 * p).toFixed(isNearlyAll ? 3 : 1);
  return `${Math.min(Number(text), isNearlyAll ? 99.999 : 100)}%`;
}
export const largest = (values) => values.reduce((a, b) => Math.max(a, b), 1e-9);
export const short = (text, most) =>
  text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}`;

export function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
