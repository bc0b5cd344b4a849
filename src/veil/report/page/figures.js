// The figures, each in its place.
const place = (name) => root.querySelector(`[data-figure="${name}"]`);
const done = (name) => place(name).setAttribute("data-drawn", "yes");

function policyFigure() {
  const host = place("policy"), policy = data.policy;
  const view = drawScene(host, "The policy", {});
  const laws = policy.laws.map(bytes), visited = policy.visited.map(bytes);
  const show = (step) => {
    if (scene.grid) drawArrows(view.layer, laws[step], visited[step], policy.actions, policy.directions);
    else drawMoves(view.layer, policy.moves[step]);
    view.shapes.forEach((shape, i) => {
      const row = Array.from(laws[step].subarray(i * policy.actions.length, (i + 1) * policy.actions.length), (b, a) => [b / 255, policy.actions[a]]);
      const said = row.filter(([p]) => p > 0.01).sort((a, b) => b[0] - a[0]).slice(0, 6).map(([p, name]) => `${name} ${percent(p)}`);
      shape.title.textContent = [scene.names[i], ...said].join("\n");
    });
  };
  if (policy.timed && laws.length > 1) player(host, laws.length, show, (t) => `decision ${t} of ${laws.length}`, "Time of the decision").go(0);
  else show(0);
  const signs = [{ sign: "→", colour: "arrow", text: !scene.grid ? "wider: more probable" : count > 400 ? "likeliest action, darker: more probable" : "longer: more probable" }];
  if (scene.grid && policy.directions.some((way) => way && !way[0] && !way[1])) signs.push({ sign: "●", colour: "arrow", text: "stay" });
  if (scene.grid && count <= 400 && visited[0].includes(0)) signs.push({ sign: "→", colour: "faint", text: "never visited" });
  sceneKey(host, signs, true);
  done("policy");
}

function occupancyFigure() {
  const host = place("occupancy"), { times, frames, models } = data.occupancy;
  let frame = unpack(frames);
  const choices = models.length ? make("div", { class: "choices", role: "group", "aria-label": "Which model" }, host) : null;
  const view = drawScene(host, "Probability of each state over time", { heat: "blue" });
  let ramp = null;
  const thumbs = [];
  const show = (step) => {
    const values = frame(step), most = largest(values);
    view.heat(values, most);
    if (ramp) ramp.textContent = `0 to ${percent(most)} now`;
  };
  const control = player(host, times.length, show, (step) => `time ${times[step]} of ${data.horizon}`, "Time", times);
  ramp = sceneKey(host, [{ ramp: "blue", text: "" }], false).lastChild.lastChild;
  if (times.length > 2) {
    const row = make("div", { class: "thumbs" }, host);
    const some = [...new Set([0, 1, 2, 3, 4, 5].map((i) => Math.round((i * (times.length - 1)) / 5)))];
    for (const step of some) {
      const button = make("button", { type: "button", "aria-label": `show time ${times[step]}` }, row);
      const small = drawScene(button, `time ${times[step]}`, { heat: "blue", plain: true });
      small.heat(frame(step), largest(frame(step)));
      thumbs.push([small, step]);
      make("span", {}, button, `t = ${times[step]}`);
      button.addEventListener("click", () => { control.stop(); control.go(step); });
    }
  }
  const choose = (number) => {
    frame = unpack(number ? models[number - 1].frames : frames);
    [...choices.children].forEach((button, i) => button.setAttribute("aria-pressed", i === number));
    thumbs.forEach(([small, step]) => small.heat(frame(step), largest(frame(step))));
    control.stop();
    control.go(control.now());
  };
  control.go(0);
  if (choices) {
    ["all models", ...models.map((m) => m.name)].forEach((name, i) => make("bdi", {}, make("button", { type: "button" }, choices), name).parentNode.addEventListener("click", () => choose(i)));
    choose(0);
  }
  done("occupancy");
}

function beliefFigure() {
  const host = place("belief");
  const choices = make("div", { class: "choices", role: "group", "aria-label": "Which run" }, host);
  const columns = make("div", { class: "columns" }, host);
  const left = make("div", { class: "scene" }, columns), right = make("div", {}, columns);
  const view = drawScene(left, "The observer's belief about the state", { heat: "belief" });
  const now = make("p", { class: "now", "aria-live": "polite" }, right);
  const chartHost = make("div", { class: "charts" }, right), bars = make("div", { class: "bars" }, right);
  let run = null, frame = null, chart = null, rows = [];
  const control = player(right, data.runs[0].times.length, show, (step) => `time ${data.runs[0].times[step]} of ${data.horizon}`, "Time of the run", data.runs[0].times);
  function show(step) {
    const values = frame(step);
    view.heat(values, largest(values));
    view.agent(run.at[step]);
    now.replaceChildren();
    make("span", {}, now, run.seen[step] === "" ? "no observation" : "observation ");
    make("b", {}, now).appendChild(make("bdi", {}, null, run.seen[step]));
    make("span", {}, now, `${run.seen[step] === data.silent ? " (nothing reported)" : ""}; true state `);
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
    const verticals = data.split > 0 && data.split < data.horizon ? [{ x: data.split, text: "time of the secret", colour: "muted" }] : [];
    chart = lineChart(chartHost, data.path ? "Probability of the true state at each time, given all observations" : "Posterior probability of each value of the secret over time", {
      series: run.lines.map((l) => ({ x: run.times, y: l.y, colour: l.colour, name: l.name, wide: l.true, marks: run.times.length <= 40 })),
      x: "time", y: "posterior probability", low: 0, high: 1, verticals, height: 210, whole: true,
    });
    rows = run.lines.map((l) => {
      const label = make("span", {}, bars);
      make("i", {}, label).style.background = tint(l.colour);
      make("bdi", {}, label, l.name + (l.true ? " (true)" : ""));
      const bar = make("div", {}, make("div", { class: "bar" }, bars));
      bar.style.background = tint(l.colour);
      return { bar, number: make("span", { class: "number" }, bars) };
    });
    control.stop();
    control.go(0);
  }
  data.runs.forEach((one, number) => make("button", { type: "button" }, choices, one.title).addEventListener("click", () => choose(number)));
  sceneKey(left, [{ ramp: "belief", text: "observer's probability" }, { sign: "○", colour: "ink", text: "true state" }], false);
  choose(0);
  done("belief");
}

function overTimeFigure() {
  const host = place("over-time"), l = data.leaking;
  const line = { x: l.times, y: l.bits, colour: "blue", name: "remaining uncertainty", marks: l.times.length <= 40 };
  const edge = (sign) => ({ x: l.times, y: l.bits.map((b, i) => Math.max(0, b + 2 * sign * l.errors[i])), colour: "sky", name: "two standard errors" });
  const verticals = data.split > 0 && data.split < data.horizon ? [{ x: data.split, text: "time of the secret", colour: "muted" }] : [];
  const series = l.errors.length ? [edge(-1), edge(1), line] : [line];
  lineChart(host, "Remaining uncertainty over time", { series, verticals, x: "time", y: data.path ? "H(state | all seen), bits" : "H(Z | seen so far), bits", low: 0, high: 1.08 * largest(series.flatMap((s) => s.y)), height: 220, whole: true });
  done("over-time");
}

function sourcesFigure() {
  const host = place("sources"), list = make("div", { class: "bars" }, host), most = largest(data.leaking.sources.map(([, bits]) => bits));
  for (const [name, bits] of data.leaking.sources) {
    make("span", {}, list).appendChild(make("bdi", {}, null, short(name, 40)));
    const bar = make("div", {}, make("div", { class: "bar" }, list));
    bar.style.background = tint("blue");
    bar.style.width = `${Math.max(0, (100 * bits) / most)}%`;
    make("span", { class: "number" }, list, (Math.round(bits * 1e4) / 1e4 + 0).toFixed(4));
  }
  done("sources");
}

function convergenceFigure() {
  const host = place("convergence"), c = data.convergence;
  lineChart(host, "Hidden bits over the iterations", { series: [{ x: c.iteration, y: c.bits, colour: "blue", name: "hidden bits" }], levels: c.upper === null ? [] : [{ y: c.upper, text: `proven upper bound ${c.upper_text}`, colour: "vermilion" }], x: "iteration", y: "hidden bits, H(Z|Y)", height: 190, whole: true });
  lineChart(host, "Return over the iterations", { series: [{ x: c.iteration, y: c.returns, colour: "blue", name: "expected return" }], levels: c.threshold === null ? [] : [{ y: c.threshold, text: `required: ${Number(c.threshold.toPrecision(5))}`, colour: "vermilion" }], x: "iteration", y: "expected return", height: 190, whole: true });
  done("convergence");
}

function frontierFigure() {
  const host = place("frontier"), f = data.frontier;
  const series = [];
  if (f.points.length) series.push({ x: f.points.map((p) => p[0]), y: f.points.map((p) => p[1]), colour: "blue", name: "best found", marks: true });
  if (f.bounds.length) series.push({ x: f.bounds.map((b) => b[0]), y: f.bounds.map((b) => b[1]), colour: "vermilion", name: "proven upper bound", marks: true, dash: "6 4", step: true });
  series.push({ x: [f.chosen[0]], y: [f.chosen[1]], colour: "vermilion", name: "this policy", marks: "diamond", line: false, note: "this policy" });
  const most = Math.max(...series.flatMap((s) => s.y), f.upper ?? 0);
  lineChart(host, "Hidden bits against expected return", {
    series, levels: f.upper === null || f.bounds.length ? [] : [{ y: f.upper, text: `proven upper bound ${f.upper_text}`, colour: "vermilion", from: f.threshold }],
    verticals: f.threshold === null ? [] : [{ x: f.threshold, text: "required", colour: "muted" }],
    x: "expected return", y: "hidden bits, H(Z|Y)", low: 0, high: 1.12 * most || 1, roomy: true, height: 300,
  });
  if (f.bounds.length) key(host, [{ sign: "●", colour: "blue", text: "best found" }, { sign: "╌", colour: "vermilion", text: "proven upper bound" }, { sign: "◆", colour: "vermilion", text: "this policy" }]);
  done("frontier");
}

const FIGURES = { policy: policyFigure, occupancy: occupancyFigure, belief: beliefFigure, "over-time": overTimeFigure, sources: sourcesFigure, convergence: convergenceFigure, frontier: frontierFigure };
function drawAll() {
  for (const [name, draw] of Object.entries(FIGURES)) if (place(name)) draw();
}
