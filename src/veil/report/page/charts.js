// Line charts, the player with its slider, keys to colours.
function ticks(low, high, wanted, whole) {
  const rough = (high - low || 1) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const fine = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough * 0.999), step = whole ? Math.max(1, fine) : fine;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found.map((value) => ({ value, text: String(Number(value.toPrecision(6))) }));
}

// options: series [{x, y, colour, name, marks, line, wide, dash, step}], levels [{y, text, colour, from}], verticals, x, y (labels), low, high,
// height, whole (x has whole numbers only). A level holds from x = `from` on, everywhere without it. With `step` each value holds up to
// the next point, and null interrupts the line.
function lineChart(parent, label, options) {
  const width = Math.max(300, Math.min(620, parent.clientWidth || 480)), height = options.height || 230;
  const left = 52, right = 14, top = 26, bottom = 42;
  const xs = options.series.flatMap((s) => s.x), ys = options.series.flatMap((s) => s.y).concat((options.levels || []).map((l) => l.y)).filter((y) => y !== null);
  const across = xs.concat((options.verticals || []).map((v) => v.x));
  let [x0, x1] = [Math.min(...across), Math.max(...across)];
  let [y0, y1] = [options.low ?? Math.min(...ys), options.high ?? Math.max(...ys)];
  if (!(x1 > x0)) { const room = Math.abs(x0) * 0.2 || 0.5; x0 -= room; x1 += room; }
  if (options.low === undefined) { const room = (y1 - y0) * 0.08 || Math.abs(y0) * 0.1 || 0.05; y0 -= room; y1 += room; }
  if (options.roomy) { const room = Math.max((x1 - x0) * 0.05, (0.2 * Math.max(Math.abs(x0), Math.abs(x1)) - (x1 - x0)) / 2); x0 -= room; x1 += room; }
  const X = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - right), Y = (y) => height - bottom - ((y - y0) / (y1 - y0)) * (height - top - bottom);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, parent);
  svg.style.maxWidth = `${width}px`;
  for (const t of ticks(y0, y1, 4)) {
    make("path", { d: `M${left} ${Y(t.value).toFixed(1)}H${width - right}`, class: "guide" }, svg);
    make("text", { x: left - 7, y: Y(t.value) + 4, "text-anchor": "end", "font-size": 12, fill: "var(--muted)" }, svg, t.text);
  }
  for (const t of ticks(x0, x1, Math.max(3, Math.floor(width / 90)), options.whole))
    make("text", { x: X(t.value), y: height - bottom + 18, "text-anchor": "middle", "font-size": 12, fill: "var(--muted)" }, svg, t.text);
  make("path", { d: `M${left} ${height - bottom}H${width - right}`, class: "axis" }, svg);
  make("text", { x: left - 44, y: 13, "font-size": 12.5 }, svg, options.y);
  make("text", { x: width - right, y: height - 6, "text-anchor": "end", "font-size": 12.5 }, svg, options.x);
  for (const v of options.verticals || []) {
    make("path", { d: `M${X(v.x).toFixed(1)} ${top}V${height - bottom}`, stroke: tint(v.colour), "stroke-dasharray": "2 4", fill: "none", "stroke-width": 1.4 }, svg);
    const beyond = X(v.x) > width / 2;
    make("text", { x: X(v.x) + (beyond ? -5 : 5), y: height - bottom - 7, "text-anchor": beyond ? "end" : "start", "font-size": 11.5, fill: "var(--muted)" }, svg, v.text);
  }
  for (const l of options.levels || []) {
    const begin = l.from == null ? left : Math.max(left, X(l.from));
    make("path", { d: `M${begin.toFixed(1)} ${Y(l.y).toFixed(1)}H${width - right}`, stroke: tint(l.colour), "stroke-dasharray": "6 4", fill: "none", "stroke-width": 1.4, class: "level" }, svg);
    make("text", { x: width - right, y: 13, "text-anchor": "end", "font-size": 12, fill: tint(l.colour) }, svg, `╌ ${l.text}`);
  }
  for (const s of options.series) {
    const known = s.x.map((x, i) => [x, s.y[i]]).filter(([, y]) => y !== null), points = known.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`);
    if (s.step) {
      const joined = (i) => i > 0 && s.y[i - 1] !== null ? `H${X(s.x[i]).toFixed(1)}V` : `M${X(s.x[i]).toFixed(1)} `;
      const d = s.y.map((y, i) => (y === null ? "" : joined(i) + Y(y).toFixed(1))).join("");
      make("path", { d, fill: "none", stroke: tint(s.colour), "stroke-width": 1.6, "stroke-dasharray": s.dash, "data-name": s.name }, svg);
    } else if (s.line !== false) make("polyline", { points: points.join(" "), fill: "none", stroke: tint(s.colour), "stroke-width": s.wide ? 3 : 1.8, "stroke-linejoin": "round", "data-name": s.name, ...(s.dash ? { "stroke-dasharray": s.dash } : {}) }, svg);
    if (s.marks) for (const [i, point] of points.entries()) {
      const [cx, cy] = point.split(",");
      const mark = s.marks === "diamond" ? make("path", { d: `M${cx} ${cy}m0 -7l7 7l-7 7l-7 -7z`, fill: tint(s.colour), class: "chosen" }, svg) : make("circle", { cx, cy, r: 3.2, fill: tint(s.colour) }, svg);
      make("title", {}, mark, `${s.name}: ${known[i][1]} at ${known[i][0]}`);
    }
    if (s.note) { const [cx, cy] = points[0].split(",").map(Number); const beyond = cx > width / 2; make("text", { x: cx + (beyond ? -10 : 10), y: cy + 17 > height - bottom ? cy - 10 : cy + 17, "text-anchor": beyond ? "end" : "start", "font-size": 12.5, "paint-order": "stroke", stroke: "var(--paper)", "stroke-width": 3 }, svg, s.note); }
  }
  const cursor = make("path", { d: "", stroke: "var(--ink)", "stroke-width": 1.2, fill: "none", class: "cursor" }, svg);
  return { svg, cursor: (x) => cursor.setAttribute("d", `M${X(x).toFixed(1)} ${top - 6}V${height - bottom}`) };
}

function key(parent, entries) {
  const list = make("ul", { class: "key" }, parent);
  for (const entry of entries) {
    const item = make("li", {}, list);
    if (entry.sign) make("b", {}, item, entry.sign).style.color = tint(entry.colour);
    else if (entry.ramp) make("span", { class: "ramp" }, item).style.background = `linear-gradient(to right, transparent, ${tint(entry.ramp)})`;
    else if (entry.border) { const patch = make("i", {}, item); patch.style.border = `2px solid ${tint(entry.colour)}`; if (entry.hatch) patch.style.background = `repeating-linear-gradient(135deg, ${tint(entry.colour)} 0 1px, transparent 1px 4px)`; }
    else { const patch = make("i", {}, item); patch.style.background = tint(entry.colour); patch.style.opacity = entry.solid ? 1 : 0.55; }
    make("bdi", {}, item, entry.text);
  }
  return list;
}

function sceneKey(parent, more, withRanges) {
  const entries = withRanges ? scene.ranges.map((r) => ({ text: `sensor ${r.name} (reports ${percent(r.rate)})`, colour: r.colour })) : [];
  if (scene.starts.length) entries.push({ sign: "S", colour: "blue", text: "start" });
  for (const { sign, colour, name, role } of scene.areas) entries.push({ sign, colour, border: !sign, hatch: role === "avoid", text: role === "absorbing" ? "absorbing, no reward" : name });
  if (scene.closed.length) entries.push({ colour: "faint", solid: true, text: "never entered" });
  return key(parent, entries.concat(more));
}

// A slider over steps with a button that plays them; show(step) draws, words(step) names it, times: of the steps, if not 0, 1, ….
// Other players follow through the event "step", which tells the time, and the functions `time` and `toTime` of the bar.
function player(parent, steps, show, words, name, times) {
  const bar = make("div", { class: "player" }, parent);
  const button = make("button", { type: "button" }, bar, "Play");
  const slider = make("input", { type: "range", min: 0, max: Math.max(0, steps - 1), step: 1, value: 0, "aria-label": name }, bar);
  const told = make("output", {}, bar);
  let timer = null, now = 0;
  const timeOf = (step) => (times ? times[step] : step);
  const go = (step) => {
    now = step; slider.value = step; told.textContent = words(step); show(step);
    bar.dispatchEvent(new CustomEvent("step", { bubbles: true, detail: timeOf(step) }));
  };
  const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });
  button.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (now >= steps - 1) go(0);
    button.textContent = "Pause";
    timer = setInterval(() => { if (now >= steps - 1) stop(); else go(now + 1); }, Math.max(60, Math.min(700, 9000 / steps)));
  });
  bar.time = () => timeOf(now);
  bar.toTime = (time) => {
    let step = 0;
    while (step < steps - 1 && timeOf(step + 1) <= time) step++;
    if (step !== now) { stop(); go(step); }
  };
  return { go, stop, now: () => now };
}
