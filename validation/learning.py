"""How often the intervals of `veil.audit` and `veil.fit` hold: `python -m validation.learning audit|fit COUNT [--json FILE]`.

The figures of `docs/audit.md` and `docs/fit.md` are from 500 data sets and 200 repetitions; an hour or two on one core.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import veil
from veil.engine.chain import make_chain
from veil.engine.sampling import draw_runs

from .channels import Source, hidden_chains, readings, table

Row = dict[str, float | str]
RUNS = (200, 500, 1000, 2000, 20_000)
SIZES = {20: 300, 100: 1500, 500: 6000}
"""Of the models to fit: states, and runs to fit them from."""
KINDS = ("weak", "mixed", "rich")


def pairs(seed: int) -> tuple[str, int, Source]:
    """A data set of known leakage: what kind it is, the number of runs, and the runs."""
    rng, kind, runs = np.random.default_rng(seed), seed % 10, RUNS[seed // 10 % len(RUNS)]
    if kind < 2:
        return "6 symbols, 2 values", runs, table(rng, runs, 2, 6, 0.7)
    if kind < 4:
        return "20 symbols, 5 values", runs, table(rng, runs, 5, 20, 2.0)
    if kind == 4:
        return "almost nothing leaks", runs, table(rng, runs, 3, 10, 200.0)
    if kind < 7:
        return "hidden chains, 8 symbols", runs, hidden_chains(rng, runs)
    if kind == 7:
        return "hidden chains, 10 symbols", runs, hidden_chains(rng, runs, 3, 3, 2, 10, 0.2)
    if kind == 8:
        return "continuous readings", runs, readings(rng, runs, float(rng.uniform(0.2, 3)))
    return "almost all leaks", runs, table(rng, runs, 3, 5, 0.05)


def audits(count: int) -> Iterator[Row]:
    """An audit of each data set beside its true leakage."""
    for seed in range(count):
        kind, runs, source = pairs(seed)
        begin = time.perf_counter()
        found = veil.audit(source.secrets, source.sequences, seed=seed, curve=False)
        table = {} if found.plug_in is None else {f"table_{name}": end for name, end in vars(found.plug_in).items()}
        seconds = time.perf_counter() - begin
        yield {"kind": kind, "runs": runs, "truth": source.leakage, **vars(found.leakage), **table, "seconds": seconds}


def model(num_states: int, seed: int, kind: str) -> tuple[veil.Problem, veil.MarkovPolicy]:
    """A random model with three successors of each state and action, and sensors of one of three kinds.

    `weak`: they tell almost nothing; `mixed`: half of what they report is common to the group of the state, which is the
    secret; `rich`: every state has its own reports, so that there is much to estimate.
    """
    rng = np.random.default_rng(seed)
    moves = np.zeros((num_states, 2, num_states))
    for row in moves.reshape(-1, num_states):
        row[rng.choice(num_states, 3, replace=False)] = rng.dirichlet(np.ones(3))
    start = np.full(num_states, 1 / num_states)
    group = np.arange(num_states) % 3
    groups = {f"group {k}": np.flatnonzero(group == k).tolist() for k in range(3)}
    secret: veil.InitialState | veil.LastState = veil.InitialState(groups)
    horizon = 3
    if kind == "weak":
        reports = 0.1 * rng.dirichlet(np.ones(3), size=num_states) + 0.3
    elif kind == "mixed":
        base = rng.dirichlet(np.ones(4), size=3)
        reports = 0.5 * base[group] + 0.5 * rng.dirichlet(np.ones(4), size=num_states)
        secret, horizon = veil.LastState(groups=groups), 4
    else:
        reports = 0.98 * rng.dirichlet(0.5 * np.ones(5), size=num_states) + 0.004
    problem = veil.Problem(
        veil.Model(moves, np.zeros((num_states, 2)), start), veil.Observer(reports), secret, horizon=horizon
    )
    return problem, veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=num_states))


def recorded(problem: veil.Problem, policy: veil.Policy, runs: int, seed: int) -> list[dict[str, list[int]]]:
    """Simulated runs in the form of a log."""
    chain = make_chain(problem, policy)
    found = draw_runs(chain, runs, np.random.default_rng(seed))
    columns = chain.hidden.state[found.states], found.actions, found.events
    return [
        {"states": states.tolist(), "actions": actions.tolist(), "observations": events.tolist()}
        for states, actions, events in zip(*columns, strict=True)
    ]


def fits(count: int) -> Iterator[Row]:
    """Fits of random models of each size beside the true opacity."""
    for repetition, (num_states, runs) in itertools.product(range(count), SIZES.items()):
        kind = KINDS[repetition % len(KINDS)]
        problem, policy = model(num_states, 10_000 + repetition, kind)
        logs, begin = recorded(problem, policy, runs, 20_000 + repetition), time.perf_counter()
        fitted = veil.fit(logs, problem, time_limit=None, seed=repetition)
        assert fitted.opacity_interval is not None
        assert fitted.corrected_bits is not None
        low, high = fitted.opacity_interval
        truth = veil.opacity(problem, policy).bits
        found = {"value": fitted.corrected_bits, "low": low, "high": high, "plain": fitted.opacity.bits}
        seconds = time.perf_counter() - begin
        yield {"kind": f"{num_states} states, {kind}", "runs": runs, "truth": truth, **found, "seconds": seconds}


def main() -> None:
    """Run a study, printing each row and then the shares of intervals and lower ends that hold."""
    parser = argparse.ArgumentParser(prog="python -m validation.learning", description=main.__doc__)
    parser.add_argument("study", choices=("audit", "fit"))
    parser.add_argument("count", type=int)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = []
    for row in (audits if asked.study == "audit" else fits)(asked.count):
        rows.append(row)
        print(json.dumps(row), flush=True)
    for kind in [None, *sorted({row["kind"] for row in rows})]:
        some = [row for row in rows if kind in (None, row["kind"])]
        below = np.mean([row["low"] <= row["truth"] for row in some])
        inside = np.mean([row["low"] <= row["truth"] <= row["high"] for row in some])
        print(f"{kind or 'all'}: {len(some)}, lower end holds {below:.3f}, interval holds {inside:.3f}")
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
