"""Prices that games find: of any size, in any unit of the return and of other quantities."""

import numpy as np
import pytest

import veil
from veil.game.enclose import enclose


def dear(unit: float, *, is_return: bool) -> veil.Problem:
    """One decision with odds q: it hides `h(0.05 + q/2)` bits, and q is at most 0.1, by a bound on a quantity.

    The quantity pays `unit` for the decision and a million units or more for an action that is never worth it.
    """
    moves, paid = np.zeros((4, 3, 4)), np.zeros((4, 3))
    moves[0] = [0, 0.55, 0.45, 0], [0, 0.05, 0.95, 0], [0, 0, 0, 1]
    moves[range(1, 4), :, range(1, 4)] = 1.0
    paid[0] = (0.0, unit, -1.0) if is_return else (unit, 0.0, 1.0)
    rewards = paid if is_return else {"paid": np.zeros((4, 3)), "energy": paid}
    limits = [] if is_return else [veil.Return(max=0.1 * unit, reward="energy")]
    model, observer = veil.Model(moves, rewards, 0), veil.Observer(np.ones((4, 1)))
    least = 0.9 * unit if is_return else None
    return veil.Problem(model, observer, veil.LastState([1]), 1, min_return=least, constraints=limits)


@pytest.mark.parametrize("unit", [1.0, 2e-3, 1e-6])
@pytest.mark.parametrize("is_return", [True, False])
def test_a_true_price_may_have_any_size(unit: float, is_return: bool):
    """Prices of 1.6, 790 and 1.6 million bits for a unit of the return, and of another quantity."""
    found, odds = enclose(dear(unit, is_return=is_return)), 0.1
    optimum = -odds * np.log2(odds) - (1 - odds) * np.log2(1 - odds)
    assert found.lower - 1e-9 <= optimum <= found.upper + 1e-9
    assert found.gap <= 1e-3
    game = found.games[0]
    price = game.multiplier if is_return else game.prices[0]
    assert price * unit == pytest.approx(np.log2((1 - odds) / odds) / 2, rel=0.1)


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-6])
def test_the_largest_return_has_a_bound_in_any_unit(unit: float):
    """Only the second action attains it, though the first gives up little more than nothing beside the largest reward."""
    found = enclose(dear(unit, is_return=True).replace(min_return="100%"))
    assert found.lower == pytest.approx(-0.05 * np.log2(0.05) - 0.95 * np.log2(0.95), abs=1e-9)
    assert found.gap <= 1e-3
