"""The walker's problem against known queries: every kind of query policy, against all runs and all answers."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import veil
from tests.querying.test_best import random_asked
from tests.seeds import in_blocks

Ask = Callable[[int, tuple[tuple[int, int], ...]], np.ndarray]
_SENSORS = ("left", "right", "none")


def by_all_runs(asked: tuple, walker: np.ndarray, ask: Ask) -> float:
    """What a walker `(T, S, A)` hides if `ask` gives the probabilities of the queries, from the answers so far."""
    problem, _, tables, value, ahead = asked
    horizon, joint = problem.horizon, {}
    moves = np.stack([one.toarray() for one in problem.model.matrices])

    def follow(run: tuple[int, ...], heard: tuple[tuple[int, int], ...], chance: float) -> None:
        time = len(heard) - 1
        if heard and (ahead is not None or time == horizon):
            row = joint.setdefault((time, heard), {})
            row[value(run, time)] = row.get(value(run, time), 0.0) + chance
        if time == horizon:
            return
        for query, asks in enumerate(ask(time + 1, heard)):
            for answer in range(2 if query < 2 else 1):
                shown = tables[query][run[time + 1], answer] if query < 2 else 1.0
                if asks * shown:
                    follow(run, (*heard, (query, answer)), chance * asks * shown)

    for run in itertools.product(range(problem.num_states), repeat=horizon + 1):
        steps = [float(walker[t, s] @ moves[:, s, r]) for t, (s, r) in enumerate(itertools.pairwise(run))]
        follow(run, (), float(problem.model.initial[run[0]] * np.prod(steps)))
    weight = 1.0 if ahead is None else 1 / (horizon + 1)
    total = sum(-p * np.log2(p / sum(row.values())) for row in joint.values() for p in row.values() if p)
    return weight * float(total)


def reading(heard: tuple[tuple[int, int], ...], back: int = 1) -> str:
    """The name of a reading, the newest or an earlier one."""
    if len(heard) < back:
        return "nothing yet"
    query, answer = heard[-back]
    return f"({_SENSORS[query]}, {'nothing' if query == 2 else f'o{answer}'})"


@in_blocks(12, 1000, size=12)
def test_equals_all_runs(seed: int):
    asked = random_asked(seed)
    problem, walker, tables, _, _ = asked
    rng, seen = np.random.default_rng(seed), {"left": veil.Observer(tables[0]), "right": veil.Observer(tables[1])}
    querying = veil.Querying(seen, walker=walker)
    guard = querying.apply(problem)
    timed = seed % 2 == 0
    table = rng.dirichlet(np.ones(3), size=(problem.horizon + 1 if timed else 1, guard.num_cells))
    queries = veil.TimedPolicy(table) if timed else veil.MarkovPolicy(table[0])
    faced, names = querying.against(problem, queries), guard.cell_names
    chosen = rng.dirichlet(np.ones(2), size=(problem.horizon, 3))

    def ask(time: int, heard: tuple[tuple[int, int], ...]) -> np.ndarray:
        return table[time if timed else 0, names.index(reading(heard))]

    assert faced.cell_names == problem.cell_names
    found = veil.opacity(faced, veil.TimedPolicy(chosen), "exact").bits
    assert found == pytest.approx(by_all_runs(asked, chosen, ask), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_both_problems_say_the_same_of_a_walker_and_queries(seed: int):
    """Of every kind of query policy; the plan of `best_queries` leaves what it says."""
    problem, walker, tables, _, _ = random_asked(seed)
    querying = veil.Querying({"left": veil.Observer(tables[0]), "right": veil.Observer(tables[1])}, walker=walker)
    guard, rng = querying.apply(problem), np.random.default_rng(seed)
    policies: list[veil.Policy] = [veil.best_queries(guard, gap=1e-9).policy]
    for memory in (veil.ObservationMemory(2, clock=False), veil.Controller(2), veil.Controller(2, clock=True)):
        size = veil.MemoryPolicy.uniform(guard, memory).probabilities.shape
        policies.append(veil.MemoryPolicy.softmax(rng.normal(size=size), guard, memory))
    for policy in policies:
        one = veil.opacity(guard, policy, "exact").bits
        two = veil.opacity(querying.against(problem, policy), walker, "exact").bits
        assert one == pytest.approx(two, abs=1e-12)


def test_secrets_constraints_and_readings_of_the_walker_are_kept():
    problem, _, tables, _, _ = random_asked(3)
    eyes = veil.Observer([[1, 0], [0, 1], [0, 1]], ["here", "there"])
    paid = veil.Model(problem.model.matrices, np.arange(6.0).reshape(3, 2), problem.model.initial)
    blind = problem.replace(agent_sees=eyes, model=paid, min_return=1.0)
    walker = veil.MarkovPolicy([[0.3, 0.7], [0.6, 0.4]])
    querying = veil.Querying({"left": veil.Observer(tables[0])}, walker=walker)
    faced = querying.against(blind, veil.MarkovPolicy.uniform(querying.apply(blind)))
    assert faced.cell_names == ("here", "there")
    assert faced.min_return == 1.0
    assert veil.expected_return(faced, walker) == pytest.approx(veil.expected_return(blind, walker), abs=1e-12)


def test_what_is_wrong_is_said():
    problem, walker, tables, _, _ = random_asked(0)
    querying = veil.Querying({"left": veil.Observer(tables[0])}, walker=walker)
    with pytest.raises(veil.InputError, match="shape"):
        querying.against(problem, veil.MarkovPolicy(np.full((2, 2), 0.5)))
    hearing, uniform = problem.replace(agent_sees="observations"), veil.MarkovPolicy.uniform
    asked = veil.Querying({"left": veil.Observer(tables[0])}, walker=uniform(hearing))
    with pytest.raises(veil.InputError, match="does not receive the answers"):
        asked.against(hearing, uniform(asked.apply(hearing)))
