"""Rules for secrets that are whole paths: when a path tells the state, which rules are refused, what a rule pays."""

import numpy as np
import pytest

import veil
from tests.proof.reading import CheckedProblem, Setting, Witness
from veil.common.errors import CertificateError
from veil.proof.claims import ObserverRule
from veil.proof.rules import checked_path

EVEN = [[0.5, 0.5], [0.5, 0.5]]
STAY = [[1.0, 0.0], [0.0, 1.0]]


def walk(moves: list[list[float]], start: list[float], secret: veil.Trajectory | veil.LastState) -> Setting:
    """One decision between two states, before an observer who sees nothing."""
    model = veil.Model(np.array(moves)[:, None], np.zeros((2, 1)), start)
    return CheckedProblem(veil.Problem(model, veil.Observer(np.ones((2, 1))), secret, 1))


ALL = veil.Trajectory({"all": [0, 1]})


@pytest.mark.parametrize(
    ("moves", "start", "secret", "expected"),
    [
        (STAY, [1, 0], veil.LastState({1}), False),  # no path is secret
        ([[0, 1], [0, 1]], [1, 0], ALL, True),
        (STAY, [0.5, 0.5], ALL, False),  # the start is not told, though each move is
        (STAY, [0.5, 0.5], veil.Trajectory(), True),
        (EVEN, [1, 0], ALL, False),  # the move is not told
        (EVEN, [1, 0], veil.Trajectory(), True),
    ],
)
def test_whether_a_path_tells_the_state(moves, start, secret, expected):
    assert walk(moves, start, secret).tells_state == expected


def rule(*parts: tuple[object, object]) -> ObserverRule:
    keys, costs = zip(*((np.array(keys), np.array(costs)) for keys, costs in parts), strict=True) if parts else ((), ())
    nothing = np.zeros(1, dtype=int), (np.zeros((1, 1), dtype=int),), np.full((1, 1), 0.25)
    return Witness(*nothing, 0.0, "", path_keys=keys, path_costs=costs).rules[0]


@pytest.fixture(scope="module")
def problem() -> Setting:
    return walk(EVEN, [0.5, 0.5], veil.Trajectory())


HONEST = [[0, 0, 0], [0, 0, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("keys", "costs", "words"),
    [
        (HONEST, [1.1, 1.1, 0.1], ""),
        (HONEST, [np.inf, 0.1, 2.0**900], ""),
        ([[0, 0, 0], [0, 0, 0], [1, 1, 1]], [1.1, 1.1, 0.1], "out of order"),
        ([[0, 0, 1], [0, 0, 0], [1, 1, 1]], [1.1, 1.1, 0.1], "out of order"),
        (HONEST, [1.1, 1.1], "expected floats of shape"),
        ([[0, 0, 0], [0, 0, 1], [1, 2, 1]], [1.1, 1.1, 0.1], "not triples of numbers"),
        ([[0, 0], [0, 1], [1, 1]], [1.1, 1.1, 0.1], "expected integers of shape"),
        ([[-1, 0, 0], [0, 0, 1], [1, 1, 1]], [1.1, 1.1, 0.1], "a number is outside"),
        (HONEST, [1.1, 1.1, -0.1], "a cost is negative"),
        (HONEST, [1.1, 1.1, 2.0**901], "above 2"),
        (HONEST, [1.0, 0.9, 0.1], "sum to more than one"),
        (HONEST, [1.1, 1.1, 0.0], "sum to more than one"),  # the margin for rounding is missing
    ],
)
def test_which_rules_are_refused(problem: Setting, keys, costs, words):
    if words:
        with pytest.raises(CertificateError, match=f"^rule: its part for the state at time 0.*{words}"):
            checked_path(problem, rule((keys, costs)), [3])
    else:
        read, kept = checked_path(problem, rule((keys, costs)), [3])
        assert read[0].tolist() == [0, 1, 7]
        assert kept[0].tolist() == costs
