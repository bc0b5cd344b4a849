// What to paint with: the signs of a drawing, its discs and cones, and the settings of the one that is chosen.
import { inkOf, make, tint } from "../report/make.js";
import { without } from "./cells.js";
import { field, refill } from "./inputs.js";

const WORDS = { floor: "Floor", wall: "Wall", start: "Start", goal: "Goal", secret: "Secret", absorbing: "Absorbing" };
const TINTS = { start: "blue", goal: "green", secret: "vermilion", absorbing: "muted" };
const MARKS = { disc: "◯", cone: "◔" };
const LETTERS = "abcdefghijklmnopqrstuvwxyz";
const OTHERS = "123456789ABCDEFHIJKLMNOPQRTUVWYZ";
const RATES = [
  ["name", "Name"],
  ["detection", "Reports in range"],
  ["false_alarm", "False alarms"],
];
const DISC = [
  ["radius", "Radius"],
  ["edge", "Reports at its edge"],
];
const CONE = [...DISC, ["direction", "Direction, degrees"], ["angle", "Opening, degrees"]];
const NEW_RATES = { detection: 0.9, false_alarm: 0.0 };

// change(changes, cells) changes the text; chosen() is called after another tool was chosen.
export class Palette {
  constructor(parent, settings, { change, chosen, notice, cells }) {
    Object.assign(this, { parent, settings, change, chosen, notice, cells });
    this.tool = { sign: "#" };
    this.drawing = null;
    this.shown = "";
  }

  show(drawing) {
    this.drawing = drawing;
    const now = JSON.stringify([drawing.signs, drawing.shapes.map(({ cells, ...about }) => about)]);
    if (now === this.shown) return;
    this.shown = now;
    if (!this.find()) this.tool = { sign: "#" };
    refill(this.parent, () => this.fill());
    this.showSettings();
  }
  // The sign or shape that is chosen.
  find() {
    const { sign, shape } = this.tool;
    const { signs, shapes } = this.drawing;
    return sign === undefined ? shapes.find((one) => one.key === shape) : signs.find((one) => one.sign === sign);
  }
  fill() {
    for (const one of this.drawing.signs) {
      const button = this.button({ sign: one.sign }, one.sign, one.name ?? this.label(one), one.colour);
      if (!one.colour) button.firstChild.style.color = inkOf(TINTS[one.roles.find((role) => TINTS[role])] || "ink");
    }
    for (const one of this.drawing.shapes) this.button({ shape: one.key }, MARKS[one.kind], one.name, one.colour);
    const more = { "+ Sensor": "addSensor", "+ Disc": "addDisc", "+ Cone": "addCone", "+ Goal": "addGoal" };
    for (const [words, name] of Object.entries(more))
      make("button", { type: "button", class: "more" }, this.parent, words).addEventListener("click", () =>
        this[name](),
      );
  }
  button(tool, mark, words, colour) {
    const [[kind, value]] = Object.entries(tool);
    const named = { type: "button", [`data-${kind}`]: value, "aria-pressed": this.tool[kind] === value };
    const button = make("button", named, this.parent);
    const sign = make("b", {}, button, mark);
    if (colour) {
      sign.className = "swatch";
      sign.style.borderColor = tint(colour);
    }
    make("bdi", {}, button, words);
    button.addEventListener("click", () => this.choose(tool));
    return button;
  }
  label({ sign, roles, reward, weight, zone }) {
    const named = (role) => WORDS[role] || this.drawing.signs.find((one) => one.sign === role)?.name || role;
    const kinds = zone ? [...roles.filter((role) => role !== "floor").map(named), zone] : roles.map(named);
    const words = kinds.join(" + ");
    if (reward !== undefined && sign !== "G") return `${words} ${reward}`;
    return weight === undefined ? words : `${words} ×${weight}`;
  }
  choose(tool) {
    this.tool = tool;
    for (const button of this.parent.querySelectorAll("[aria-pressed]")) {
      const { sign, shape } = button.dataset;
      button.setAttribute("aria-pressed", sign === tool.sign && shape === tool.shape);
    }
    this.showSettings();
    this.chosen();
  }

  free(letters) {
    const taken = new Set([...this.drawing.signs.map((one) => one.sign), ...this.drawing.shapes.map((one) => one.key)]);
    const found = [...letters].find((one) => !taken.has(one));
    if (!found) this.notice("All signs are taken: add others in the text.");
    return found;
  }
  async addSensor() {
    const sign = this.free(LETTERS);
    if (!sign) return;
    await this.change([{ at: ["grid", "sensors", sign], value: NEW_RATES }]);
    this.choose({ sign });
  }
  addDisc() {
    return this.addShape("disc", {});
  }
  addCone() {
    return this.addShape("cone", { direction: 270, angle: 90 });
  }
  // A disc or a cone in the middle, to be moved.
  async addShape(kind, more) {
    const { rows, columns, shapes } = this.drawing;
    const numbers = shapes.map((one) => Number(/^camera-(\d+)$/.exec(one.key)?.[1] ?? 0));
    const key = `camera-${Math.max(0, ...numbers) + 1}`;
    const centre = [Math.floor(rows / 2) + 0.5, Math.floor(columns / 2) + 0.5];
    const shape = { key, kind, centre, radius: Math.max(2, Math.floor(Math.min(rows, columns) / 2)), ...more };
    await this.change([{ at: ["grid", "sensors", key], value: NEW_RATES }], undefined, shape);
    this.choose({ shape: key });
  }
  async addGoal() {
    const sign = this.free(OTHERS);
    if (!sign) return;
    await this.change([{ at: ["grid", "legend", sign], value: { is: "goal", reward: 0.5 } }]);
    this.choose({ sign });
  }

  // The settings of the sensor or the goal that is painted with.
  showSettings() {
    const one = this.find();
    refill(this.settings, () => {
      if (this.tool.shape !== undefined) this.shapeSettings(one);
      else if (one.name !== undefined) this.signSettings(one, "sensor", ["grid", "sensors", one.sign], RATES);
      else if (one.reward !== undefined && one.sign !== "G")
        this.signSettings(one, "goal", ["grid", "legend", one.sign], [["reward", "Reward"]]);
    });
  }
  signSettings(one, kind, table, keys) {
    for (const [key, words] of keys) this.setting(key, words, one[key], [...table, key]);
    this.remove(kind, () => this.change([{ at: table, value: null }], without(this.cells(), one.sign)));
  }
  shapeSettings(one) {
    const table = ["grid", "sensors", one.key];
    for (const [key, words] of RATES) this.setting(key, words, one[key], [...table, key]);
    for (const [key, words] of one.kind === "cone" ? CONE : DISC)
      this.setting(key, words, one.given[key], [...table, one.kind, key]);
    const through = make("label", { class: "check" }, this.settings, "Through walls");
    const box = make("input", { type: "checkbox", "data-key": "through_walls" }, through);
    box.checked = one.given.through_walls;
    const at = [...table, one.kind, "through_walls"];
    box.addEventListener("change", () => this.change([{ at, value: box.checked || null }]));
    this.remove(one.kind, () => this.change([{ at: table, value: null }]));
  }
  setting(key, words, value, at) {
    const set = (given) => this.change([{ at, value: given }]);
    field(this.settings, { key, words, value, isText: key === "name" }, set);
  }
  remove(kind, act) {
    make("button", { type: "button" }, this.settings, `Remove this ${kind}`).addEventListener("click", act);
  }
}
