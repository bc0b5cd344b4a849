// The pane Play: guess the secret of hidden runs as the observer, or walk as the agent and watch the observer's belief.
import { fillRuns, outward } from "./subjects.js";

const KEPT = "veil-play"; // the game that goes on after the page is loaded again
const WAYS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
const COLOURS = ["blue", "vermilion", "green", "orange", "purple", "sky", "yellow"];

export function start(root, studio) {
  const bar = make("div", { class: "toolbar" }, root);
  const select = make("select", { "aria-label": "Whose policy" }, bar);
  for (const role of ["observer", "agent"]) make("button", { type: "button", "data-role": role }, bar, `Be the ${role}`).addEventListener("click", () => begin(role));
  const told = make("p", { class: "note", role: "status" }, root, "As the observer you see the observations of a hidden run and guess the secret. As the agent you walk, and the observer guesses.");
  const stage = make("div", { class: "playing" }, root);
  let game = null, view = null, busy = false;

  async function begin(role) {
    try {
      if (select.value === "uniform") await studio.save();
      take(await studio.api("POST", "/api/play", { role, run: select.value }));
      stage.querySelector("[data-first]")?.focus();
    } catch (error) { told.textContent = error.message; }
  }
  async function act(what, more) {
    if (busy) return;
    busy = true;
    try {
      update(await studio.api("POST", `/api/play/${game.play}`, { act: what, ...more }));
    } catch (error) { told.textContent = error.message; } finally { busy = false; }
  }
  async function resume() {
    const kept = localStorage.getItem(KEPT);
    if (!kept || game) return;
    try { take(await studio.api("GET", `/api/play/${kept}`)); } catch { localStorage.removeItem(KEPT); }
  }
  function take(started) {
    game = started;
    localStorage.setItem(KEPT, game.play);
    for (const button of bar.querySelectorAll("[data-role]")) button.setAttribute("aria-pressed", button.dataset.role === game.role);
    stage.replaceChildren();
    const about = make("div", { class: "whole" }, stage);
    make("p", { class: "question" }, about, `The secret: ${game.facts.question}`);
    make("p", { class: "note" }, about, game.facts.verdict);
    view = game.role === "observer" ? observerView() : agentView();
    update(game);
  }
  function update(answer) {
    if (!answer.over) { delete game.result; delete game.revealed; }
    game = { ...game, ...answer };
    told.textContent = "";
    view.show();
    view.score.replaceChildren();
    (game.role === "observer" ? observerScore : agentScore)(view.score);
  }

  function observerView() {
    const left = make("div", { class: "scene" }, stage), right = make("div", {}, stage);
    const drawn = figures(game.data, left);
    drawn.drawScene(left, "The world and the sensors", {});
    drawn.sceneKey(left, [], true);
    const time = make("p", { class: "now", "aria-live": "polite" }, right), seen = make("div", { class: "seen", "aria-label": "Observations so far" }, right);
    if (game.data.silent !== null) make("p", { class: "note" }, right, `“${game.data.silent}” means that nothing is reported.`);
    const acts = make("div", { class: "acts" }, right);
    const next = make("button", { type: "button", class: "primary", "data-first": "" }, acts, "Next observation");
    const end = make("button", { type: "button" }, acts, "To the end");
    next.addEventListener("click", () => act("next"));
    end.addEventListener("click", async () => { while (game.time < game.horizon && !game.over) { const before = game.time; await act("next"); if (game.time === before) break; } });
    const guess = make("div", { class: "acts", role: "group", "aria-label": "Your guess" }, right);
    const value = make("select", { "aria-label": "Value of the secret" }, guess);
    game.values.forEach((name, number) => make("option", { value: number }, value, name));
    const label = make("label", {}, guess, "sure to ");
    const sure = make("input", { type: "range", min: Math.max(1, Math.ceil(100 / game.values.length)), max: 99, value: 70, "aria-label": "Probability of your guess" }, label);
    const words = make("output", {}, label, "70%");
    sure.addEventListener("input", () => { words.textContent = `${sure.value}%`; });
    const say = make("button", { type: "button", class: "primary" }, guess, "Guess");
    say.addEventListener("click", async () => { await act("guess", { value: Number(value.value), probability: Number(sure.value) / 100 }); again.focus(); });
    const outcome = make("div", { "aria-live": "polite" }, right);
    const again = make("button", { type: "button", class: "primary", hidden: "" }, right, "Next run");
    again.addEventListener("click", async () => { await act("again"); next.focus(); });
    const score = make("div", {}, right), reveal = make("div", { class: "whole" }, stage);
    return {
      score,
      show() {
        time.textContent = `Time ${game.time} of ${game.horizon}`;
        seen.replaceChildren();
        game.seen.forEach((event, t) => {
          if (event === "") return;
          const chip = make("span", { class: [event === game.data.silent ? "silent" : "", t === game.seen.length - 1 ? "newest" : ""].join(" ") }, seen);
          make("bdi", {}, chip, event);
        });
        next.disabled = end.disabled = game.over || game.time >= game.horizon;
        for (const one of [value, sure, say]) one.disabled = game.over;
        acts.hidden = guess.hidden = game.over;
        again.hidden = !game.over;
        outcome.replaceChildren();
        reveal.replaceChildren();
        if (game.over) observerOutcome(outcome, reveal);
      },
    };
  }
  function observerOutcome(outcome, reveal) {
    const one = game.result, truth = game.values[one.truth];
    outcome.className = one.right ? "outcome" : "outcome missed";
    const line = make("p", {}, outcome, one.right ? "Right: it was " : "Wrong: it was ");
    make("b", {}, line).appendChild(make("bdi", {}, null, truth));
    make("span", {}, line, `. Your guess costs ${one.bits.toFixed(3)} bits. The Bayesian observer gave it ${percent(one.bayes_posterior[one.truth])}, which costs ${one.bayes_bits.toFixed(3)} bits.`);
    make("h3", {}, reveal, "The run, and what the Bayesian observer believed");
    const place = make("div", { class: "observing", "data-figure": "belief" }, make("figure", {}, reveal));
    figures({ ...game.data, runs: game.revealed }, reveal).drawAll();
    place.querySelector(".choices")?.remove(); // there is one run only
  }
  function table(parent, caption, heads, rows) {
    const made = make("table", { class: "compact" }, parent);
    make("caption", {}, made, caption);
    const head = make("tr", {}, make("thead", {}, made));
    heads.forEach((word, k) => make("th", k ? { class: "number" } : {}, head, word));
    const body = make("tbody", {}, made);
    for (const [name, key, ...values] of rows) {
      const row = make("tr", { "data-row": key }, body);
      make("th", { scope: "row" }, row, name);
      for (const value of values) make("td", { class: "number" }, row, value);
    }
  }
  const share = (p) => (p === null || p === undefined ? "–" : percent(p)), number = (x) => (x === null || x === undefined ? "–" : x.toFixed(3));
  function observerScore(parent) {
    const s = game.score;
    const rows = [["You", "you", share(s.right), number(s.bits)], ["Bayesian observer, same runs", "bayes", share(s.bayes_right), number(s.bayes_bits)], [`Bayesian observer, on average (${s.method})`, "best", share(s.best_right), number(s.best_bits)]];
    if (s.proven_bits !== null) rows.push(["Proven: no observer does better than", "proven", s.proven_right === null ? "–" : `${(Math.ceil(s.proven_right * 1e3) / 10).toFixed(1)}%`, outward(s.proven_bits, Math.floor)]);
    table(parent, `After ${s.rounds} ${s.rounds === 1 ? "run" : "runs"}. Bits: the surprise at the truth, on average; fewer is better.`, ["", "right guesses", "bits"], rows);
  }

  function agentView() {
    const left = make("div", { class: "scene walk", tabindex: 0, "data-first": "", "aria-label": "The world: arrow keys walk" }, stage), right = make("div", {}, stage);
    const drawn = figures(game.data, left), scene = drawn.drawScene(left, "The observer's belief about your position", { heat: "belief" });
    drawn.sceneKey(left, [{ ramp: "belief", text: "observer's probability" }, { sign: "○", colour: "ink", text: "you" }], true);
    const now = make("p", { class: "now", "aria-live": "polite" }, right);
    const acts = make("div", { class: "acts", role: "group", "aria-label": "Actions" }, right);
    const buttons = game.actions.map((one, action) => {
      const button = make("button", { type: "button" }, acts, one.name);
      button.addEventListener("click", () => act("move", { action }));
      return button;
    });
    const onGrid = game.actions.some((one) => one.direction);
    make("p", { class: "note" }, right, `${onGrid ? "Arrow keys walk; Space or S stays; " : ""}1, 2, … choose among the actions shown.`);
    make("h3", {}, right, "What the observer believes of the secret");
    const bars = make("div", { class: "bars" }, right);
    const rows = game.values.slice(0, 40).map((name, k) => {
      make("bdi", {}, make("span", {}, bars), name);
      const fill = make("div", {}, make("div", { class: "bar" }, bars));
      fill.style.background = tint(COLOURS[k % COLOURS.length]);
      return { fill, number: make("span", { class: "number" }, bars) };
    });
    const outcome = make("div", { "aria-live": "polite" }, right), again = make("button", { type: "button", class: "primary", hidden: "" }, right, "Walk again");
    again.addEventListener("click", async () => { await act("again"); left.focus(); });
    const score = make("div", {}, right);
    left.addEventListener("keydown", (event) => {
      const way = event.key === " " || event.key === "s" ? [0, 0] : WAYS[event.key];
      const nth = Number(event.key) - 1;
      if ((!way && !(nth in game.available)) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const action = !way ? game.available[nth] : game.actions.findIndex((one) => one.direction && one.direction[0] === way[0] && one.direction[1] === way[1]);
      if (game.available.includes(action)) act("move", { action });
    });
    const count = game.data.scene.names.length || atob(game.data.scene.places).length / 8;
    return {
      score,
      show() {
        const values = new Float32Array(count);
        for (const [spot, p] of game.belief) values[spot] = p;
        scene.heat(values, Math.max(1e-9, ...game.belief.map(([, p]) => p)));
        scene.agent(game.at);
        now.replaceChildren();
        make("span", {}, now, `Time ${game.time} of ${game.horizon}. You are in `);
        make("b", {}, now).appendChild(make("bdi", {}, null, game.state));
        const event = game.seen.at(-1);
        make("span", {}, now, event === "" ? "; the observer receives nothing" : "; the observer receives ");
        make("b", {}, now).appendChild(make("bdi", {}, null, event));
        make("span", {}, now, `. Return so far: ${Number(game.earned.toPrecision(5))}.`);
        if (game.surprised) make("b", {}, now, " The observer knows that you do not follow the policy, and goes by the prior.");
        buttons.forEach((button, action) => { button.hidden = !game.available.includes(action); });
        rows.forEach((row, k) => { row.fill.style.width = `${100 * game.posterior[k]}%`; row.fill.dataset.p = game.posterior[k]; row.number.textContent = percent(game.posterior[k]); });
        again.hidden = !game.over;
        outcome.replaceChildren();
        outcome.className = "";
        if (!game.over) return;
        const one = game.result;
        outcome.className = "outcome";
        const line = make("p", {}, outcome, "The secret was ");
        make("b", {}, line).appendChild(make("bdi", {}, null, game.values[one.truth]));
        make("span", {}, line, one.bayes_bits === null ? ". The observer had ruled that out." : `. The observer's uncertainty about it: ${one.bayes_bits.toFixed(3)} bits.`);
      },
    };
  }
  function agentScore(parent) {
    const s = game.score, earned = (x) => (x === null || x === undefined ? "–" : String(Number(x.toPrecision(4))));
    const rows = [["You", "you", number(s.bayes_bits), earned(s.earned)], [`The policy, on average (${s.method})`, "policy", number(s.best_bits), earned(s.expected_return)]];
    if (s.threshold !== null) rows.push(["Required", "required", "–", earned(s.threshold)]);
    table(parent, `After ${s.rounds} ${s.rounds === 1 ? "walk" : "walks"}. Bits: the observer's surprise at the truth; more is better for you.`, ["", "bits", "return"], rows);
  }

  const refresh = () => fillRuns(select, studio.runs, 0);
  for (const event of ["runs", "run", "gone"]) studio.on(event, refresh);
  studio.on("pane", (name) => { if (name === "play") { refresh(); resume(); } });
}
