"""Tables of action probabilities: checks that name the place, softmax and its adjoint, masks."""

import numpy as np
import pytest

import veil
from tests.engine.chains import central_differences
from tests.policy.masked import AVAILABLE, knowing_problem, masked_problem
from tests.seeds import in_blocks, looped
from veil.policy.tables import (
    MARKOV,
    TIMED,
    check_table,
    deterministic_table,
    softmax_pull_back,
    softmax_table,
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


# softmax


def test_softmax_is_the_exponential_over_its_sum():
    theta = np.array([[0.0, np.log(3)], [1000.0, 1000.0], [-1e6, 0.0]])
    np.testing.assert_allclose(softmax_table(theta, None, MARKOV), [[0.25, 0.75], [0.5, 0.5], [0, 1]], rtol=1e-15)


def test_softmax_respects_the_mask():
    problem = masked_problem()
    theta = np.array([[0.0, 0, 0], [0, 50, 0], [-3, 50, 50]])
    table = softmax_table(theta, problem, MARKOV)
    np.testing.assert_allclose(table, [[1 / 3, 1 / 3, 1 / 3], [0.5, 0, 0.5], [1, 0, 0]], rtol=1e-15)
    np.testing.assert_array_equal(table[~AVAILABLE], 0)
    timed = softmax_table(np.stack([theta, theta]), problem, TIMED)
    np.testing.assert_array_equal(timed, [table, table])


@in_blocks(5, 5, 5)
def test_the_pull_back_is_the_adjoint_of_the_softmax(seed: int):
    rng = np.random.default_rng(seed)
    theta, cost = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 4, 3))

    def value(parameters: np.ndarray) -> float:
        return float(np.sum(cost * np.sin(softmax_table(parameters, None, TIMED))))

    table = softmax_table(theta, None, TIMED)
    found = softmax_pull_back(table, cost * np.cos(table))
    np.testing.assert_allclose(found, central_differences(value, theta), atol=1e-8)
    np.testing.assert_allclose(found.sum(axis=-1), 0, atol=1e-15)  # adding a constant to a row changes nothing


def test_an_action_never_taken_has_no_slope():
    table = softmax_table([[-np.inf, 0.0, 1.0]], None, MARKOV)
    found = softmax_pull_back(table, np.array([[1e6, 2.0, 3.0]]))
    assert found[0, 0] == 0
    assert found[0, 1] == pytest.approx(-found[0, 2])


# uniform and deterministic


def test_deterministic_takes_names_and_indices():
    table = deterministic_table(["up", 2, "stay"], masked_problem(), MARKOV)
    np.testing.assert_array_equal(table, [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    timed = deterministic_table([["up", "stay", "stay"], [0, 2, 0]], masked_problem(), TIMED)
    np.testing.assert_array_equal(timed[0], [[0, 1, 0], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(timed[1], [[1, 0, 0], [0, 0, 1], [1, 0, 0]])
