// The figures of the page, each in its place.
const place = (name) => document.querySelector(`[data-figure="${name}"]`);
const done = (name) => place(name).setAttribute("data-drawn", "yes");

function policyFigure() {
  const host = place("policy"), policy = data.policy;
  const world = drawWorld(host, "The world with the policy drawn on it", {});
  const laws = policy.laws.map(bytes), visited = policy.visited.map(bytes);
  const show = (step) => {
    if (scene.grid) drawArrows(world.layer, laws[step], visited[step], policy.actions, policy.directions);
    else drawMoves(world.layer, policy.moves[step]);
    world.shapes.forEach((shape, i) => {
      const row = Array.from(laws[step].subarray(i * policy.actions.length, (i + 1) * policy.actions.length), (b, a) => [b / 255, policy.actions[a]]);
      const said = row.filter(([p]) => p > 0.01).sort((a, b) => b[0] - a[0]).slice(0, 6).map(([p, name]) => `${name} ${percent(p)}`);
      shape.title.textContent = [scene.names[i], ...said].join("\n");
    });
  };
  if (policy.timed && laws.length > 1) player(host, laws.length, show, (t) => `decision ${t} of ${laws.length}`, "Time of the decision").go(0);
  else show(0);
  const signs = [{ sign: "→", colour: "arrow", text: scene.grid ? "longer is likelier" : "wider is likelier" }];
  if (scene.grid && policy.directions.some((way) => way && !way[0] && !way[1])) signs.push({ sign: "●", colour: "arrow", text: "stays" });
  if (scene.grid && visited[0].includes(0)) signs.push({ sign: "→", colour: "faint", text: "never gets there" });
  sceneKey(host, signs, true);
  done("policy");
}

function occupancyFigure() {
  const host = place("occupancy"), { times, frames } = data.occupancy, frame = unpack(frames);
  const world = drawWorld(host, "Where the agent is, by time", { heat: "blue" });
  let ramp = null;
  const show = (step) => {
    const values = frame(step), most = largest(values);
    world.heat(values, most);
    if (ramp) ramp.textContent = `0 to ${percent(most)} now`;
  };
  const control = player(host, times.length, show, (step) => `time ${times[step]} of ${data.horizon}`, "Time");
  ramp = sceneKey(host, [{ ramp: "blue", text: "" }], false).lastChild.lastChild;
  if (times.length > 2) {
    const row = make("div", { class: "thumbs" }, host);
    const some = [...new Set([0, 1, 2, 3, 4, 5].map((i) => Math.round((i * (times.length - 1)) / 5)))];
    for (const step of some) {
      const button = make("button", { type: "button", "aria-label": `show time ${times[step]}` }, row);
      drawWorld(button, `time ${times[step]}`, { heat: "blue", plain: true }).heat(frame(step), largest(frame(step)));
      make("span", {}, button, `t = ${times[step]}`);
      button.addEventListener("click", () => { control.stop(); control.go(step); });
    }
  }
  control.go(0);
  done("occupancy");
}

function beliefFigure() {
  const host = place("belief");
  const choices = make("div", { class: "choices", role: "group", "aria-label": "Which run" }, host);
  const columns = make("div", { class: "columns" }, host);
  const left = make("div", { class: "scene" }, columns), right = make("div", {}, columns);
  const world = drawWorld(left, "Where the observer thinks the agent is", { heat: "belief" });
  const now = make("p", { class: "now", "aria-live": "polite" }, right);
  const chartHost = make("div", { class: "charts" }, right), bars = make("div", { class: "bars" }, right);
  let run = null, frame = null, chart = null, rows = [];
  const control = player(right, data.runs[0].times.length, show, (step) => `time ${data.runs[0].times[step]} of ${data.horizon}`, "Time of the run");
  function show(step) {
    const values = frame(step);
    world.heat(values, largest(values));
    world.agent(run.at[step]);
    now.replaceChildren();
    make("span", {}, now, run.seen[step] === "" ? "nothing is received" : "sees ");
    make("b", {}, now).appendChild(make("bdi", {}, null, run.seen[step]));
    make("span", {}, now, "; the agent is in ");
    make("b", {}, now).appendChild(make("bdi", {}, null, run.states[step]));
    chart.cursor(run.times[step]);
    rows.forEach((row, i) => {
      const p = run.lines[i].y[step];
      row.bar.style.width = `${100 * p}%`;
      row.bar.setAttribute("data-p", p);
      row.number.textContent = percent(p);
    });
  }
  function choose(number) {
    run = data.runs[number]; frame = unpack(run.belief);
    [...choices.children].forEach((button, i) => button.setAttribute("aria-pressed", i === number));
    chartHost.replaceChildren(); bars.replaceChildren();
    const verticals = data.split > 0 && data.split < data.horizon ? [{ x: data.split, text: "the secret's time", colour: "muted" }] : [];
    chart = lineChart(chartHost, "What the observer believes of the secret, by time", {
      series: run.lines.map((l) => ({ x: run.times, y: l.y, colour: l.colour, name: l.name, wide: l.true, marks: run.times.length <= 40 })),
      x: "time", y: "P(secret | seen so far)", low: 0, high: 1, verticals, height: 210,
    });
    rows = run.lines.map((l) => {
      make("span", {}, bars).appendChild(make("bdi", {}, null, l.name + (l.true ? " (true)" : "")));
      const bar = make("div", {}, make("div", { class: "bar" }, bars));
      bar.style.background = tint(l.colour);
      return { bar, number: make("span", { class: "number" }, bars) };
    });
    control.stop();
    control.go(0);
  }
  data.runs.forEach((one, number) => make("button", { type: "button" }, choices, one.title).addEventListener("click", () => choose(number)));
  sceneKey(left, [{ ramp: "belief", text: "likelier to the observer" }, { sign: "○", colour: "ink", text: "where the agent is" }], false);
  choose(0);
  done("belief");
}

function convergenceFigure() {
  const host = place("convergence"), c = data.convergence;
  if (c.iteration.length) {
    lineChart(host, "Bits hidden over the iterations", { series: [{ x: c.iteration, y: c.bits, colour: "blue", name: "bits hidden" }], levels: c.upper === null ? [] : [{ y: c.upper, text: `proven: none above ${c.upper_text}`, colour: "vermilion" }], x: "iteration", y: "bits hidden, H(Z|Y)", height: 190 });
    lineChart(host, "Return over the iterations", { series: [{ x: c.iteration, y: c.returns, colour: "blue", name: "expected return" }], levels: c.threshold === null ? [] : [{ y: c.threshold, text: `asked for: ${Number(c.threshold.toPrecision(5))}`, colour: "vermilion" }], x: "iteration", y: "expected return", height: 190 });
  } else make("p", { class: "note" }, host, "The search kept no history.");
  done("convergence");
}

function frontierFigure() {
  const host = place("frontier"), f = data.frontier;
  const series = [];
  if (f.points.length) series.push({ x: f.points.map((p) => p[0]), y: f.points.map((p) => p[1]), colour: "blue", name: "best found", marks: true });
  series.push({ x: [f.chosen[0]], y: [f.chosen[1]], colour: "vermilion", name: "this policy", marks: "diamond", line: false, note: "this policy" });
  const most = Math.max(...series.flatMap((s) => s.y), f.upper ?? 0);
  lineChart(host, "Bits hidden against expected return", {
    series, levels: f.upper === null ? [] : [{ y: f.upper, text: `proven here: none above ${f.upper_text}`, colour: "vermilion" }],
    verticals: f.threshold === null ? [] : [{ x: f.threshold, text: "asked for", colour: "muted" }],
    x: "expected return", y: "bits hidden, H(Z|Y)", low: 0, high: 1.12 * most || 1, roomy: true, height: 300,
  });
  done("frontier");
}

for (const draw of [policyFigure, occupancyFigure, beliefFigure, convergenceFigure, frontierFigure]) draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (scene.grid && count > LARGE) location.reload(); });
