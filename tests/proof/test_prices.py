"""What the prices of constraints pay in the backward induction, for two quantities whose numbers are exact."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from veil.proof.arithmetic import FLOOR, TINY
from veil.proof.checked_problem import Paid
from veil.proof.prices import Lagrangian

HORIZON, TAIL = 3, 0.125
EARNED, LAST = np.array([[1.0, 2.0], [3.0, -4.0]]), np.array([10.0, -20.0])
SPENT, END = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0.0, -8.0])


def paying(discount: float = 0.25) -> Lagrangian:
    """A return that must be reached, at 2 bits a unit, and an expense that must not be passed, at 3."""
    given = np.zeros(0), np.zeros(0)
    earned = Paid(EARNED, 0 * LAST, 0.5, 1, 4.0, Fraction(3, 2), given)
    spent = Paid(SPENT, END, discount, -1, 8.0, Fraction(0), given)
    problem: Any = SimpleNamespace(paid=(earned, spent), horizon=HORIZON)
    witness: Any = SimpleNamespace(multiplier=2.0, prices=(3.0,))
    return Lagrangian(problem, witness, (LAST, TAIL))


def test_a_decision_pays_the_discounted_price_of_each_quantity():
    for time in range(HORIZON):
        total, size = paying().at(time)
        np.testing.assert_array_equal(total, 2 * 0.5**time * EARNED - 3 * 0.25**time * SPENT)
        assert size == 2 * 0.5**time * 4 + 3 * 0.25**time * 2


def test_the_end_pays_what_is_earned_later_and_the_error_of_that():
    costs, x = np.array([1.0, 2.0, 4.0]), np.array([0, 1, 1])
    found = paying().at_the_end(costs, x)
    np.testing.assert_array_equal(found, costs + 2 * 0.5**3 * (LAST[x] + TAIL) - 3 * 0.25**3 * END[x])
    assert paying().last_size == 2 * (20 + TAIL) + 3 * 8


def test_the_bounds_are_subtracted_at_their_prices():
    """Less what the centred rewards leave out; a return without a threshold has none."""
    assert paying().slacks((7.0, 2.0)) == [2 * (7 - 1.5), -3 * 2.0]
    assert paying().slacks((None, 2.0)) == [-3 * 2.0]


def test_what_a_power_of_a_discount_leaves_out_is_counted_for_its_own_quantity():
    found = paying(2.0**-400)
    sizes = [4 + 20 + TAIL, 8 + 8]
    assert found.earned == sizes
    assert found.left_out == (HORIZON + 1) * TINY * sum(sizes)
    found.at(2)
    before = found.left_out
    assert before == (HORIZON + 1) * TINY * sum(sizes)
    found.at(3)
    assert found.left_out == before + 1.01 * FLOOR * 3 * sizes[1]
