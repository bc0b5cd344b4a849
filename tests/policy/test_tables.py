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


def test_a_row_that_is_no_distribution_is_named_and_not_mended():
    (defect,) = defects_of(check_table, [[1.0, 0.0], [0.5, 0.4]], MARKOV, "policy")
    assert "row (state 1)" in defect
    assert "0.9" in defect
    assert "expected 1" in defect
    timed = np.full((3, 2, 2), 0.5)
    timed[2, 1] = 0.25
    (defect,) = defects_of(check_table, timed, TIMED, "policy")
    assert "row (time 2, state 1) sums to 0.5" in defect


@looped("wrong", [-0.5, np.nan, np.inf, 1.5])
def test_an_entry_that_is_no_probability_is_named(wrong: float):
    timed = np.full((3, 2, 2), 0.5)
    timed[1, 0, 1] = wrong
    defects = defects_of(check_table, timed, TIMED, "policy")
    assert any("entry (time 1, state 0, action 1)" in defect and str(wrong) in defect for defect in defects)


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


def test_a_table_of_another_shape_is_refused():
    problem = masked_problem()
    (defect,) = defects_of(check, veil.MarkovPolicy(np.full((2, 3), 1 / 3)), problem)
    assert "(1, 2, 3), expected (T, 3, 3)" in defect
    (defect,) = defects_of(check, veil.TimedPolicy(np.tile(uniform_table(problem), (5, 1, 1))), problem)
    assert "tables for 5 steps" in defect
    assert "2 decisions" in defect
    (defect,) = defects_of(check, np.eye(3), problem)
    assert "ndarray" in defect
    assert "veil.MarkovPolicy" in defect


def test_a_timed_policy_of_one_table_does_not_pass_for_a_stationary_one():
    problem = masked_problem(horizon=2)
    (defect,) = defects_of(check, veil.TimedPolicy(uniform_table(problem)[None]), problem)
    assert "tables for 1 steps" in defect


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


@looped("wrong", [np.nan, np.inf])
def test_a_parameter_that_is_no_number_is_named(wrong: float):
    theta = np.zeros((2, 3, 3))
    theta[1, 2, 0] = wrong
    (defect,) = defects_of(softmax_table, theta, masked_problem(), TIMED)
    assert f"theta (time 1, state 2, action 0) is {wrong}" in defect


def test_a_row_without_a_finite_parameter_among_the_available_is_named():
    theta = np.zeros((3, 3))
    theta[2, 0] = -np.inf  # the only action of the pit
    (defect,) = defects_of(softmax_table, theta, masked_problem(), MARKOV)
    assert "theta row (state 2) is -inf for every available action" in defect
    assert softmax_table(theta[:, :2], None, MARKOV)[2].tolist() == [0, 1]


@looped("shape", [(3, 2), (2, 3), (3,), (3, 3, 3, 3)])
def test_parameters_of_another_shape_are_refused(shape: tuple[int, ...]):
    (defect,) = defects_of(softmax_table, np.zeros(shape), masked_problem(), MARKOV)
    assert f"theta has shape {shape}, expected (3, 3)" in defect


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


def test_a_deterministic_choice_that_is_wrong_is_named():
    defects = defects_of(deterministic_table, ["stay", "up", "fly"], masked_problem(), MARKOV)
    assert len(defects) == 2
    assert "state 'shaft': action 'up' is not available" in defects[0]
    assert "state 'pit': unknown action 'fly'" in defects[1]
    (defect,) = defects_of(deterministic_table, ["stay", "stay"], masked_problem(), MARKOV)
    assert "actions has shape (2,), expected (3,)" in defect
    (defect,) = defects_of(deterministic_table, ["stay", "stay", None], masked_problem(), MARKOV)
    assert "state 'pit'" in defect
