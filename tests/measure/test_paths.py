"""The paths that small problems do not take by themselves: sparse products, small chunks, counted trees, merged histories.

Each is forced here on the random problems of the oracle, so that what holds for a path of a few states is known to hold
for the one that a large problem takes.
"""

import random

import numpy as np
import pytest

import veil
from tests.oracle import evaluate
from tests.random_problems import random_case, random_spec, to_problem
from veil.engine import joint, kernel
from veil.engine.chain import make_chain
from veil.engine.size import tree_size
from veil.measure import exact

SEEDS = range(500_000, 500_100)


@pytest.fixture(params=["sparse", "small chunks", "suffixes walked", "prefixes walked", "sparse in small chunks"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Forces one way of evaluating on every problem."""
    if "sparse" in request.param:
        monkeypatch.setattr(kernel, "ALWAYS_DENSE_STATES", 0)
        monkeypatch.setattr(kernel, "_DENSE_FILL", 2.0)
    if "chunks" in request.param:
        monkeypatch.setattr(joint.JointWalk, "_rows_at_once", lambda walk, levels: 3)
    if "walked" in request.param:
        side = request.param.split()[0]
        plain = joint.JointWalk.__init__

        def forced(walk: joint.JointWalk, *args, **kwargs) -> None:
            plain(walk, *args, **kwargs)
            walk.outer = side

        monkeypatch.setattr(joint.JointWalk, "__init__", forced)
    return request.param


def test_values_do_not_depend_on_the_path(path: str):
    for seed in SEEDS:
        case = random_case(seed)
        answer = evaluate(case.spec)
        found = veil.opacity(case.problem, case.policy, method="exact")
        assert abs(found.bits - answer.bits) <= 1e-12, seed
        assert abs(found.prior_bits - answer.prior_bits) <= 1e-12, seed
        assert found.num_sequences == answer.num_sequences, seed
        assert abs(veil.expected_return(case.problem, case.policy) - float(answer.expected_return)) <= 1e-12, seed


def gradients(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    found = []
    for seed in range(count):
        rng = random.Random(f"path {seed}")
        spec = random_spec(rng, work=5_000)
        problem = to_problem(spec, rng)
        shape = (problem.num_cells, problem.num_actions)
        theta = np.random.default_rng(seed).normal(size=(spec.horizon, *shape) if spec.timed else shape)
        found.append((veil.opacity_gradient(problem, theta)[1], veil.measures.return_gradient(problem, theta)[1]))
    return found


@pytest.fixture(scope="module")
def plain_gradients() -> list[tuple[np.ndarray, np.ndarray]]:
    return gradients(100)


# `plain_gradients` comes first: it must be made before the path is forced.
def test_gradients_do_not_depend_on_the_path(plain_gradients, path: str):
    assert sum(np.abs(slope).max(initial=0) > 1e-3 for slope, _ in plain_gradients) > 30
    for (slope, total), (forced_slope, forced_total) in zip(plain_gradients, gradients(100), strict=True):
        np.testing.assert_allclose(forced_slope, slope, rtol=0, atol=1e-13)
        np.testing.assert_allclose(forced_total, total, rtol=0, atol=1e-13)


def test_the_number_of_sequences_is_known_before_the_walk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exact, "_SMALL", -1)  # count even the smallest tree
    for seed in SEEDS:
        case = random_case(seed)
        answer = evaluate(case.spec)
        size = tree_size(make_chain(case.problem, case.policy))
        assert size.exact
        assert size.num_sequences == answer.num_sequences, seed
        found = veil.opacity(case.problem, case.policy, method="exact")
        assert abs(found.bits - answer.bits) <= 1e-12, seed
        assert found.num_sequences == answer.num_sequences, seed


@pytest.mark.parametrize("tolerance", [1e-9, 1e-3, 0.05, 0.5])
def test_merging_keeps_the_value_in_its_bracket(tolerance: float):
    """Merged histories hide more, never less, and the bracket says how much at most."""
    wide = 0
    for seed in SEEDS:
        case = random_case(seed)
        answer = evaluate(case.spec)
        found = veil.opacity(case.problem, case.policy, method="exact", merge_tolerance=tolerance)
        assert found.lower - 1e-12 <= answer.bits <= found.upper + 1e-12, seed
        assert found.lower == found.bits
        # Histories of a different future may be merged: what one of them can go on with is then counted for both.
        assert found.num_sequences >= answer.num_sequences, seed
        wide += found.upper - found.lower > 1e-6
        if tolerance <= 1e-9:
            assert found.upper - found.lower <= 1e-9, seed
    assert wide > 20 or tolerance < 0.05  # coarse merging does merge


def test_merging_makes_the_tree_smaller():
    """A chain that forgets everything at each step: one belief a time, whatever was seen."""
    model = veil.Model(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), 0)
    problem = veil.Problem(model, veil.Observer(np.eye(3)), veil.LastState({0}), horizon=200)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact", merge_tolerance=1e-9)
    assert found.bits == pytest.approx(0, abs=1e-9)
    assert found.prior_bits == pytest.approx(0.9182958340544896, abs=1e-12)
