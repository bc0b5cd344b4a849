"""Many policies on one tree: each exactly as it is alone."""

import numpy as np
import pytest

import veil
from tests.engine.chains import small_case
from tests.engine.passes import joint_of
from tests.policy.masked import knowing_problem, masked_problem
from tests.random_problems import KINDS
from tests.seeds import looped
from veil.engine.batch import BatchTree
from veil.engine.size import tree_size
from veil.measure.exact import Budget
from veil.measure.question import SecretValue
from veil.planning.exact_bits import entropy_of_rows
from veil.planning.policy_class import Space, make_space
from veil.policy.memories import Controller, Memory, ObservationMemory, StateMemory

MEASURE = entropy_of_rows


def tree_of(space: Space) -> BatchTree:
    return BatchTree(space.hidden, space.available, stationary=space.stationary)


def drawn(space: Space, count: int, seed: int = 0, zeros: float = 0.0) -> np.ndarray:
    """Random tables; with `zeros`, each entry is an exact zero with about that chance."""
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=(count, *space.shape)) * space.available
    kept = weights * (rng.random(weights.shape) >= zeros)
    weights = np.where(kept.sum(axis=-1, keepdims=True) > 0, kept, weights)
    return weights / weights.sum(axis=-1, keepdims=True)


def hold_alone(space: Space, tables: np.ndarray) -> None:
    """Values everywhere, and slopes where an action is taken: beside an exact zero the trees differ."""
    values, slopes = tree_of(space).evaluate(tables, MEASURE)
    assert values.shape == tables.shape[:1]
    assert slopes.shape == tables.shape
    for table, value, slope in zip(tables, values, slopes, strict=True):
        alone, expected = SecretValue(space.chain(table)).exact(Budget(), gradient=True)
        assert expected is not None
        assert value == pytest.approx(alone.bits, abs=1e-12)
        np.testing.assert_allclose(slope[table > 0], expected[table > 0], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("memory", ["markov", "timed"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_policy_is_what_it_is_alone(kind: str, memory: str):
    horizons, emitters, unseen = set(), set(), 0
    for seed in range(14):
        problem = small_case(seed, kind).problem
        if memory == "timed" and problem.horizon == 0:
            continue  # tables of no entries, below
        space = make_space(problem, memory)
        hold_alone(space, drawn(space, 1 + seed % 7, seed))
        horizons.add(problem.horizon)
        emitters.add(len(space.hidden.emitters))
        unseen += not problem.observer.sees_initial
    assert len(horizons) > 2
    assert len(emitters) > 1
    assert unseen > 0


@looped("kind", KINDS)
def test_a_clock_without_decisions(kind: str):
    problem = small_case(f"none {kind}", kind, work=500).problem
    secret = veil.StateAt(0, {0}) if kind == "at" else problem.secret
    space = make_space(problem.replace(horizon=0, secret=secret), "timed")
    assert space.shape[0] == 0
    hold_alone(space, np.zeros((3, *space.shape)))


@looped(
    "memory",
    [StateMemory(1), StateMemory(2, clock=False), ObservationMemory(1), ObservationMemory(2, clock=False),
     Controller(2), Controller(2, clock=True)],
)  # fmt: skip
def test_policies_with_memory(memory: Memory):
    for problem in (masked_problem(3), knowing_problem(3), small_case(2, "automaton").problem, small_case(4).problem):
        space = make_space(problem.replace(agent_sees="state+observations"), memory)
        hold_alone(space, drawn(space, 3, 1))


def stay_or_leave(horizon: int) -> veil.Problem:
    """Four ways out of a room and one way to stay; the observer hears the door. Uniform play stays for T steps with 0.2^T."""
    transitions = np.zeros((3, 5, 3))
    transitions[0, 0, 0] = transitions[1:, :, 2] = 1
    transitions[0, 1:, 1] = 1
    model = veil.Model(transitions, np.zeros((3, 5)), 0)
    return veil.Problem(model, veil.Observer([[1, 0], [0.5, 0.5], [0, 1]]), veil.LastState({0}), horizon)


def test_what_uniform_play_hardly_ever_does_is_not_lost():
    """Staying for 600 steps has probability 0.2^600 under the uniform policy, below the least double."""
    space = make_space(stay_or_leave(600))
    table = np.array([[[0.9999, 0.0001, 0, 0, 0], [0.2] * 5, [0.2] * 5]])
    tree = tree_of(space)
    value, _ = tree.evaluate(table[None], lambda joint: (joint.sum(axis=(1, 2)), np.ones(joint.shape)))
    assert value[0] == pytest.approx(1, abs=1e-9)  # the probabilities of all sequences
    assert tree.num_rows == tree.num_sequences
    assert tree.num_sequences == tree_size(space.chain(table)).num_sequences


def test_the_sequences_are_those_of_the_joint_table():
    """In the order of its rows, wherever histories and continuations meet, also where one side is empty."""
    horizons = set()
    for seed in range(20):
        problem = small_case(seed, work=1_000).problem
        space = make_space(problem, "markov")
        tree = tree_of(space)
        table = drawn(space, 1, seed)
        sequences, joint = joint_of(space.chain(table[0]))
        expected = {tuple(events): row for events, row in zip(sequences.tolist(), joint, strict=True)}
        listed = tree.events()
        assert listed.shape == (len(expected), problem.horizon + 1)
        rows: list[np.ndarray] = []

        def kept(joints: np.ndarray, rows: list[np.ndarray] = rows) -> tuple[np.ndarray, np.ndarray]:
            rows.append(joints[0].copy())
            return np.zeros(1), np.zeros_like(joints)

        tree.evaluate(table, kept)
        for events, row in zip(listed.tolist(), rows[0], strict=True):
            np.testing.assert_allclose(row, expected[tuple(events)], atol=1e-14)
        horizons.add(problem.horizon)
    assert {0, 1, 2, 3} <= horizons
