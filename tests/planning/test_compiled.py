"""Compiled loops beside the plain path: the same draws to the last bit, the same values and gradients up to rounding."""

import pickle
import subprocess
import sys
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.engine.passes import compiled_pass
from tests.seeds import looped
from veil.common.clock import UNLIMITED
from veil.common.processes import Processes, Subject
from veil.common.workers import Team
from veil.engine.backends import compiled
from veil.engine.columns import ColumnPass
from veil.engine.sampling import draw_events
from veil.planning.backend import Draw
from veil.planning.bits import EachTimeMeasure, EntropyMeasure
from veil.planning.layers import Layers
from veil.planning.options import SolveOptions
from veil.planning.plan import planned
from veil.planning.policy_class import make_space

ENOUGH = 10 * compiled.WORTH_SECONDS
SECRETS = {
    "last": lambda states: veil.LastState(states),
    "initial": lambda states: veil.StateAt(0, states),
    "between": lambda states: veil.StateAt(5, states),
    "each time": lambda states: veil.StateNow(states),
}


@pytest.fixture(autouse=True)
def numba() -> Any:
    return pytest.importorskip("numba")


def sparse_problem(seed: int, secret: str = "last", horizon: int = 12, *, sees_actions: bool = False) -> veil.Problem:
    """150 states with one to eight successors each, so that rows differ in length, and few starts."""
    rng, size = np.random.default_rng(seed), 150
    moves = []
    for _ in range(3):
        degree = rng.integers(1, 9, size=size)
        rows = np.repeat(np.arange(size), degree)
        columns = (rows + rng.integers(-4, 5, size=len(rows))) % size
        weights = sp.csr_array((rng.random(len(rows)) + 0.1, (rows, columns)), shape=(size, size))
        moves.append(sp.csr_array(weights / weights.sum(axis=1)[:, None]))
    start = np.zeros(size)
    start[[3, 70]] = 0.25, 0.75
    emissions = rng.dirichlet(np.ones(4), size=size)
    emissions[::3] = np.eye(4)[rng.integers(4, size=len(emissions[::3]))]
    states = set(np.flatnonzero(rng.random(size) < 0.4).tolist()) | {3}
    observer = veil.Observer(emissions, sees_actions=sees_actions)
    return veil.Problem(veil.Model(moves, np.zeros((size, 3)), start), observer, SECRETS[secret](states), horizon)


def layers_of(problem: veil.Problem, memory: Any) -> tuple[Layers, Layers, np.ndarray]:
    """Passes with and without compiled loops, and a table."""
    space = make_space(problem, memory).on_reachable_rows()
    assert space.hidden.kernel.is_sparse
    plain, fast = Layers(space.hidden), Layers(space.hidden)
    fast.expected_seconds = ENOUGH
    assert fast.is_compiled
    assert not plain.is_compiled
    return plain, fast, space.softmax(np.random.default_rng(0).normal(size=space.shape))


@looped("sees_actions", [False, True])
@looped("memory", ["markov", "timed", veil.StateMemory(1)])
@pytest.mark.parametrize("secret", SECRETS)
def test_draws_values_and_gradients_are_those_of_the_plain_path(secret: str, memory: Any, sees_actions: bool):
    problem = sparse_problem(1, secret, sees_actions=sees_actions)
    plain, fast, table = layers_of(problem, memory)
    events, drawn = (one.draw(table, 300, np.random.default_rng(1)) for one in (plain, fast))
    np.testing.assert_array_equal(drawn, events)
    measure: Any = EntropyMeasure()
    if secret == "each time":
        measure = EachTimeMeasure(np.linspace(0, 1, problem.horizon + 1))
    given: Any = table, Draw(200, 3), measure, UNLIMITED
    (*values, expected), (*again, found) = (one.estimate(*given, gradient=True) for one in (plain, fast))
    assert expected is not None
    assert found is not None
    np.testing.assert_allclose(again, values, rtol=1e-12)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())
    np.testing.assert_array_equal(found == 0, expected == 0)
    plain_rows, rows = (one.posteriors(table, events) for one in (plain, fast))
    np.testing.assert_allclose(rows, plain_rows, rtol=1e-12)
    np.testing.assert_array_equal(rows == 0, plain_rows == 0)


@looped("memory_bytes", [2**30, 1])
@looped("timed", [False, True])
@looped("count", [1, 33])
@pytest.mark.parametrize("horizon", [0, 1, 9])
def test_passes_along_few_possible_and_impossible_sequences(horizon: int, count: int, timed: bool, memory_bytes: int):
    problem = sparse_problem(2, "initial", horizon)
    chain = make_space(problem, "timed" if timed else "markov").chain(uniform(problem, timed))
    rng = np.random.default_rng(0)
    events = rng.integers(problem.observer.num_observations, size=(count, horizon + 1))
    events[: count // 2] = draw_events(chain, count // 2, rng)
    slope = rng.normal(size=(count, 2))
    given: dict[str, Any] = {"gradient": True, "memory_bytes": memory_bytes}
    plain, fast = ColumnPass(chain, events, **given), compiled_pass(chain, events, memory_bytes)
    np.testing.assert_allclose(fast.result.log_likelihood, plain.result.log_likelihood, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast.result.posterior, plain.result.posterior, rtol=1e-12)
    expected = plain.pull_back(slope)
    np.testing.assert_allclose(fast.pull_back(slope), expected, rtol=1e-11, atol=1e-12)


def uniform(problem: veil.Problem, timed: bool) -> np.ndarray:
    return (veil.TimedPolicy if timed else veil.MarkovPolicy).uniform(problem).table


def test_neither_threads_nor_processes_change_a_bit(monkeypatch: pytest.MonkeyPatch):
    problem = sparse_problem(3, horizon=30)
    _, fast, table = layers_of(problem, "markov")
    found = list[Any]()
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(fast.estimate(table, Draw(1024, 1), EntropyMeasure(), UNLIMITED, gradient=True))
    copy = pickle.loads(pickle.dumps(fast))  # what a worker works with
    assert copy.is_compiled
    found.append(copy.estimate(table, Draw(1024, 1), EntropyMeasure(), UNLIMITED, gradient=True))
    with Team(2) as team:
        for _ in range(3):  # workers have shares once they have started
            found.append(fast.estimate(table, Draw(1024, 1), EntropyMeasure(), UNLIMITED, team, gradient=True))
    for one in found[1:]:
        assert one[:2] == found[0][:2]
        np.testing.assert_array_equal(one[2], found[0][2])


def estimated(layers: Layers, table: np.ndarray) -> tuple[bool, Any]:
    return layers.is_compiled, layers.estimate(table, Draw(150, 1), EntropyMeasure(), UNLIMITED, gradient=True)


@pytest.mark.parametrize("secret", ["last", "initial"])
def test_a_worker_uses_the_loops(secret: str):
    _, fast, table = layers_of(sparse_problem(3, secret), "timed")
    with closing(Processes(1)) as workers:
        is_compiled, found = workers.submit(estimated, table, subject=Subject(fast)).result()
    assert is_compiled
    expected = estimated(fast, table)[1]
    assert found[:2] == expected[:2]
    np.testing.assert_array_equal(found[2], expected[2])


def test_only_searches_with_enough_work_use_the_loops(monkeypatch: pytest.MonkeyPatch):
    problem = sparse_problem(4, horizon=30)
    asked: dict[str, Any] = {"evaluation": "sampled", "memory": "timed"}
    wanted: list[dict[str, Any]] = [{"iterations": 3}, {"time_limit": 1.0}, {"time_limit": 100.0}]
    found: list[Any] = [planned(problem, SolveOptions(**(asked | one)))[1][-1].sampled[0].layers for one in wanted]
    assert [one.is_compiled for one in found] == [False, False, True]
    assert found[1].expected_seconds == 1.0
    monkeypatch.setattr(compiled, "loops", lambda: None)
    assert not found[2].is_compiled


def test_a_search_finds_the_same(monkeypatch: pytest.MonkeyPatch):
    problem = sparse_problem(5, horizon=8)
    asked: dict[str, Any] = {"evaluation": "sampled", "iterations": 4, "starts": 1, "certificate": False}
    plain = veil.solve(problem, **asked)
    monkeypatch.setattr(compiled, "WORTH_SECONDS", 0.0)
    found = veil.solve(problem, **asked)
    np.testing.assert_allclose(found.history.opacity_bits, plain.history.opacity_bits, rtol=1e-9)


def test_what_needs_no_loops_does_not_import_numba():
    code = "import sys, veil.planning.layers, veil.engine.columns; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["IndexDataCacheFile.save", "IndexDataCacheFile.load", "CacheImpl.__init__"])
def test_loops_are_compiled_without_a_cache_where_it_does_not_work(broken: str):
    code = f"""
import numba.core.caching as caching
def fail(*_):
    raise OSError("no such folder")
caching.{broken} = fail
from veil.engine.backends.compiled import loops
assert loops().mix is not None
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
