"""Tables of action probabilities: checks that name the place, masks, and deterministic actions by name."""

import numpy as np
import pytest

import veil
from tests.policy.masked import knowing_problem, masked_problem
from tests.seeds import looped
from veil.policy.tables import (
    MARKOV,
    TIMED,
    check_table,
    deterministic_table,
    uniform_table,
)
from veil.policy.tabular import table_policy


def defects_of(call, *args) -> tuple[str, ...]:
    with pytest.raises(veil.InputError) as caught:
        call(*args)
    return caught.value.defects


# check_table


def test_a_good_table_is_kept_to_the_bit_and_cannot_be_written_to():
    given = np.array([[0.1, 0.9], [1 / 3, 2 / 3]])
    table = check_table(given, MARKOV, "policy")
    np.testing.assert_array_equal(table, given)
    assert table.dtype == np.float64
    given[0, 0] = 7
    assert table[0, 0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 1


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_rows_of_few_bits_are_divided_by_their_sums_and_it_is_said(kind: type):
    """What rounding leaves is mended with a warning that says how large it was; more, and rows of 64 bits, never."""
    theta = np.random.default_rng(0).normal(size=(50, 7))
    exact = np.exp(theta) / np.exp(theta).sum(axis=1, keepdims=True)
    rounded = exact.astype(kind)
    worst = np.abs(rounded.astype(float).sum(axis=1) - 1).max()
    with pytest.warns(UserWarning, match=rf"probabilities of \d\d bits, whose rows miss 1 by up to {worst:.2g}"):
        policy = veil.MarkovPolicy(rounded)
    assert policy.probabilities.dtype == np.float64
    assert policy.probabilities.sum(axis=1) == pytest.approx(np.ones(50), abs=1e-15)
    assert policy.probabilities == pytest.approx(exact, abs=float(np.finfo(kind).eps))
    for wrong in (rounded * kind(1.1), rounded.astype(float)):
        with pytest.raises(veil.InputError, match="sums to"):
            veil.MarkovPolicy(wrong)
    veil.MarkovPolicy(np.array([[0.5, 0.5], [0.25, 0.75]], dtype=kind))  # nothing to mend, nothing to say


@looped(
    ("given", "axes", "expected"),
    [
        (np.full((2, 2, 2), 0.5), MARKOV, "shape (2, 2, 2), expected (state, action)"),
        (np.full((2, 2), 0.5), TIMED, "shape (2, 2), expected (time, state, action)"),
        (np.zeros((0, 2)), MARKOV, "at least one state and one action"),
        (np.zeros((2, 0)), MARKOV, "at least one state and one action"),
        ([["x", "y"]], MARKOV, "not an array of real numbers"),
        ([[0.5, 0.5], [1.0]], MARKOV, "not an array of real numbers"),
        ([[0.5 + 1j, 0.5]], MARKOV, "not an array of real numbers"),
    ],
)
def test_a_table_of_the_wrong_form_is_refused(given, axes, expected: str):
    assert expected in defects_of(check_table, given, axes, "policy")[0]


# a policy against a problem


def check(policy: veil.Policy, problem: veil.Problem) -> None:
    table_policy(policy).check(problem)


def test_an_action_that_is_not_available_is_named_with_state_and_time():
    problem = masked_problem()
    (markov,) = defects_of(check, veil.MarkovPolicy([[1, 0, 0], [0.5, 0.5, 0], [1, 0, 0]]), problem)
    assert "state 'shaft' takes action 'up' with probability 0.5" in markov
    assert "time" not in markov
    table = np.tile(uniform_table(problem), (2, 1, 1))
    table[1, 2] = [0, 0, 1]
    (timed,) = defects_of(check, veil.TimedPolicy(table), problem)
    assert "state 'pit' at time 1 takes action 'down' with probability 1" in timed


def test_an_agent_who_knows_more_has_more_rows():
    problem = knowing_problem()
    assert uniform_table(problem).shape == (6, 3)
    table = np.tile(uniform_table(masked_problem()), (2, 1))
    table[5] = [0, 1, 0]
    (defect,) = defects_of(check, veil.MarkovPolicy(table), problem)
    assert "state 'yes/pit' takes action 'up'" in defect


# uniform and deterministic


def test_deterministic_takes_names_and_indices():
    table = deterministic_table(["up", 2, "stay"], masked_problem(), MARKOV)
    np.testing.assert_array_equal(table, [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    timed = deterministic_table([["up", "stay", "stay"], [0, 2, 0]], masked_problem(), TIMED)
    np.testing.assert_array_equal(timed[0], [[0, 1, 0], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(timed[1], [[1, 0, 0], [0, 0, 1], [1, 0, 0]])
