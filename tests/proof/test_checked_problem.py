"""A problem as the verifier reads it: its starts and moves against fractions, its sizes, offsets and limits."""

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veil
from tests.proof.cases import noisy_problem, random_policy, tiny_problem
from tests.proof.exact import ExactProblem
from tests.proof.reading import CheckedProblem, checked_pairs, read_policy
from tests.proof.test_checked import example
from tests.seeds import blocks
from veil.common.clock import UNLIMITED
from veil.common.errors import CertificateError
from veil.policy.history import HistoryPolicy
from veil.proof.checked_problem import can_delay
from veil.proof.compiled import record_of
from veil.proof.forward import MOST_MOVES, ForwardPass

BLIND = veil.Observer(np.ones((2, 1)))


def summed(*columns: list[float]) -> dict[tuple[float, ...], float]:
    """The last column, added up for equal rows of the others."""
    found = defaultdict[tuple[float, ...], float](float)
    for *key, mass in zip(*columns, strict=True):
        found[tuple(key)] += mass
    return found


@pytest.mark.parametrize("block", blocks(40, 40, 10))
def test_starts_and_moves_against_fractions(block: range):
    """Of every x and action; each of them once."""
    for seed in block:
        problem = tiny_problem(seed)
        checked, exact = CheckedProblem(problem), ExactProblem(problem)
        expected = summed(*(map(list, zip(*exact.starts(), strict=True))))  # type: ignore[arg-type]
        x, (event,), mass = checked.start
        step = checked.at(1)
        assert summed(*(column.tolist() for column in (x, event, mass))) == pytest.approx(expected)
        assert checked.size == len(problem.models) * exact.memories * exact.states
        rows = step.row, step.target, step.events[0], step.chance
        found, moves = summed(*(column.tolist() for column in rows)), dict[tuple[float, ...], float]()
        for x in range(checked.size):
            model, _, state = exact.parts(x)
            assert checked.available[x].tolist() == problem.models[model].available[state].tolist()
            for action in np.flatnonzero(checked.available[x]).tolist():
                row = x * exact.actions + action
                moves |= {(row, y, event): float(chance) for y, event, chance in exact.moves(x, action)}
                reward, paid = exact.reward(x, action), checked.paid[0]
                assert Fraction(float(paid.given[0][x, action])) == reward
            assert Fraction(float(checked.paid[0].given[1][x])) == exact.last(x)
            assert exact.value(checked.secret_time, x, -5) == checked.labels[0].of[x]
        assert found == pytest.approx(moves)
        assert len(step.row) == len(moves)
        assert step.degree.tolist() == [np.count_nonzero(step.row // exact.actions == x) for x in range(checked.size)]
        assert checked.terms == max(np.bincount(step.row))


@pytest.mark.parametrize("seed", range(4))
def test_with_a_delay_a_move_shows_the_state_that_it_leaves(seed: int):
    """The start shows nothing, and the last state is shown after all moves."""
    problem = noisy_problem(seed)
    late, exact = CheckedProblem(problem, delay=1), ExactProblem(problem)
    step = late.at(1)
    assert late.start[1][0].tolist() == [0] * len(late.start[0])
    assert late.start[2].tolist() == problem.model.initial[problem.model.initial > 0].tolist()
    found = summed(*(column.tolist() for column in (step.row, step.target, step.events[0], step.chance)))
    expected = {
        (x * 2 + action, y, event): float(chance * shown)
        for x in range(3)
        for action in range(2)
        for y, chance in enumerate(exact.transitions[0][x][action])
        for event, shown in enumerate(exact.emissions[0][x])
    }
    assert found == pytest.approx(expected)
    last = late.at(problem.horizon + 1)
    assert late.steps == problem.horizon + 1
    assert (last.row.tolist(), last.target.tolist()) == ([0, 0, 2, 2, 4, 4], [0, 0, 1, 1, 2, 2])
    assert last.events[0].tolist() == [0, 1] * 3
    assert last.chance.tolist() == [float(number) for x in range(3) for number in problem.observer.emissions[x]]
    assert late.terms == max(int(np.bincount(step.row).max()), 2)


def test_which_problems_have_a_delay():
    """Those whose observations depend on the state alone, and whose secret is no path."""
    plain = example()
    assert can_delay(record_of(plain))
    two = veil.Model(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), 0)
    seen = plain.replace(model=two, observer=veil.Observer(np.eye(2), sees_actions=True))
    acting = plain.replace(model=two, observer=veil.Observer(np.stack([np.eye(2), np.ones((2, 2)) / 2])))
    path = plain.replace(secret=veil.Trajectory())
    for problem in (seen, acting, path):
        assert not can_delay(record_of(problem))
        CheckedProblem(problem)
        with pytest.raises(CertificateError, match="and a delay"):
            CheckedProblem(problem, delay=1)


def test_probabilities_of_zero_are_no_starts():
    """Neither of a model that cannot run, nor of a state."""
    still = veil.Model(np.repeat(np.eye(2)[:, None], 1, axis=1), np.zeros((2, 1)), [0.0, 1.0])
    problem = veil.Problem([still, still], BLIND, veil.WhichModel([0.0, 1.0]), 1)
    x, (event,), mass = CheckedProblem(problem).start
    assert (x.tolist(), event.tolist(), mass.tolist()) == ([3], [0], [1.0])


def test_offsets_are_exact_with_a_discount():
    """`c Σ_t γ^t + c_T γ^T` of rewards and ends that are centred; the rest is what is left of them."""
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[100.0], [102.0]], 0, discount=0.5, terminal_rewards=[64.0, 65.0])
    [paid] = CheckedProblem(example().replace(model=model, horizon=3)).paid
    assert paid.offset == 101 * Fraction(7, 4) + Fraction(129, 2) / 8
    assert (paid.reward.tolist(), paid.terminal.tolist()) == ([[-1.0], [1.0]], [-0.5, 0.5])
    assert (paid.largest, paid.sign, paid.discount) == (102.0, 1, 0.5)
    forever = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[100.0], [102.0]], 0, discount=0.5)
    [endless] = CheckedProblem(example().replace(model=forever, return_over="infinite")).paid
    assert (endless.offset, endless.reward.tolist()) == (0, [[100.0], [102.0]])


@pytest.mark.parametrize(("over", "most"), [("horizon", 2.0**898), ("infinite", 2.0**896)])
def test_sums_of_rewards_are_of_at_most_2_to_the_900(over: Any, most: float):
    """Four payments over the horizon with the one at its end; without end 1/16 of each step is lost."""
    for reward, fits in ((most, True), (math.nextafter(most, math.inf), False)):
        model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[reward], [0.0]], 0, discount=1 - 1 / 16)
        problem = example().replace(model=model, horizon=3, return_over=over)
        if fits:
            CheckedProblem(problem)
            continue
        with pytest.raises(CertificateError, match=r"^problem: its rewards sum to up to 8\.45e\+270, expected 2\^900"):
            CheckedProblem(problem)


@pytest.mark.parametrize(("reward", "last"), [(-3.0, 2.0), (2.0, -3.0), (0.0, 3.0), (-3.0, 0.0)])
def test_the_largest_number_that_is_paid(reward: float, last: float):
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[reward], [1.0]], 0, terminal_rewards=[last, 0.5])
    [paid] = CheckedProblem(example().replace(model=model)).paid
    assert paid.largest == 3


def test_the_most_bits_of_a_path_are_those_of_all_of_its_states():
    """Each of T + 1 states may show as many things as a path tells apart."""
    model = veil.Model(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), 0)
    problem = veil.Problem(model, veil.Observer(np.ones((3, 1))), veil.Trajectory(), 3)
    assert 4 * math.log2(3) <= CheckedProblem(problem).most_bits <= 4 * math.log2(3) * (1 + 1e-15)
    grouped = problem.replace(secret=veil.Trajectory({"group": [0, 1]}))
    assert CheckedProblem(grouped).most_bits == 4


def test_values_are_digits_of_the_secrets_that_are_asked_about():
    """One secret has one digit, however many observers want it; another one has its own."""
    other = veil.Pair("first", secret=veil.StateAt(0, {1}))
    problem = example().replace(pairs=[veil.Pair("two", BLIND), other])
    same, apart = checked_pairs(problem, ("own", "two")), checked_pairs(problem, ("own", "first"))
    assert (len(same.labels), same.values, same.products, len(same.observers)) == (1, 2, 1, 2)
    assert (len(apart.labels), apart.values, apart.products, len(apart.observers)) == (2, 4, 0, 1)
    start = apart.settled(0, np.array([1, 0]), np.array([0, 0]))
    end = apart.settled(1, np.array([1, 1]), start)
    assert apart.value_of(0, end).tolist() == [1, 1]
    assert apart.value_of(2, end).tolist() == [1, 0]
    played = ForwardPass(same, read_policy(same, veil.MarkovPolicy.uniform(problem)), UNLIMITED, MOST_MOVES, apart=True)
    assert (played.roundings, played.most_in_a_step) == (3, 4)
    played.step()
    assert (played.roundings, played.most_in_a_step) == (3 + 4, 4)


def test_every_distribution_is_checked():
    """Of the start, of the moves and of what is shown; constructors make no other ones."""
    good = np.array([[0.5, 0.5], [0.5, 0.5]])

    for place in range(3):
        problem = veil.Problem(
            veil.Model(good[:, None], np.zeros((2, 1)), [0.5, 0.5]), veil.Observer(good), veil.LastState({1}), 1
        )
        model, observer = problem.model, problem.observer
        if place == 0:
            initial = model.initial.copy()
            initial[0] += 1e-4
            object.__setattr__(model, "initial", initial)
        elif place == 1:
            model.matrices[0].data.flags.writeable = True
            model.matrices[0].data[0] += 1e-4
        else:
            observer.matrices[0].data.flags.writeable = True
            observer.matrices[0].data[-1] += 1e-4
        with pytest.raises(CertificateError, match=r"a distribution sums to one only within 0\.0001"):
            CheckedProblem(problem)


@pytest.mark.parametrize("seed", range(8))
def test_policies_of_histories_are_played_as_they_are(seed: int):
    """Row by row: the choices in every situation that a pass reaches are those that the policy itself finds."""
    problem = tiny_problem(seed)
    policy = random_policy(problem, "history", seed)
    assert isinstance(policy, HistoryPolicy)
    checked = CheckedProblem(problem)
    played = ForwardPass(checked, read_policy(checked, policy), UNLIMITED, MOST_MOVES, apart=True)
    for time in range(problem.horizon):
        settled = played.entries.z if time >= checked.secret_time else np.full_like(played.entries.z, -1)
        chosen = played.policy.choices(time, *played.entries)
        for place, situation in enumerate(zip(played.entries.memory, played.entries.x, settled, strict=True)):
            row = policy.decisions[time].find(*map(int, situation))
            assert row is not None
            assert chosen[place].tolist() == policy.decisions[time].probabilities[row].tolist()
        played.step()
