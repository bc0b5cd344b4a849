"""The bound that beliefs prove: its allowance for rounding in full, where all other numbers are exact, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.proof.reading import CheckedProblem, checked_pairs
from veil.common.errors import CertificateError
from veil.proof.arithmetic import FLOOR, UNIT, gamma
from veil.proof.belief_bound import belief_bound
from veil.proof.claims import BeliefBound, Beliefs


def unseen(horizon: int = 1, discount: float = 1.0, moves: Any = ((1, 0), (0, 1)), **changes: Any) -> veil.Problem:
    """Two states that stay, of which nobody sees anything; actions cost 1/2 on average, the end 2; 3 may be spent."""
    model = veil.Model(
        np.array(moves, dtype=float)[:, None], {"gain": [[0.0], [0.0]], "energy": [[0.0], [1.0]]}, [0.5, 0.5], discount,
        terminal_rewards={"gain": [0.0, 0.0], "energy": [0.0, 4.0]},
    )  # fmt: skip
    observer = veil.Observer(np.ones((2, 1)), sees_actions=True)
    limits = [veil.Return(max=3.0, reward="energy")] * (discount == 1)
    given = {"agent_sees": "observations", "constraints": limits} | changes
    return veil.Problem(model, observer, given.pop("secret", veil.LastState({1})), horizon, **given)


def even(horizon: int, price: float = 0.0, **changes: Any) -> BeliefBound:
    """That both states are equally likely, at every time."""
    none, lines = np.zeros(1, dtype=np.int64), (np.array([0, 2]), np.array([0, 1]), np.array([0.5, 0.5]))
    points = [Beliefs(*lines, none[None] - (time == horizon - 1)) for time in range(horizon)]
    return BeliefBound(**{"lower": 0.0, "prices": (0.0, price), "first": none, "points": tuple(points), **changes})


def documented(
    checked: Any, horizon: int, *, value: float, label: int, weights: float, sizes: float, slack: float
) -> float:
    """The bound where `value` is counted, each belief loses 4 u, and nothing else is rounded."""
    most = checked.size * checked.values + 1 + 1 + label
    relative = (horizon + 2) * (gamma(2 * most + 64) + 8.08 * checked.defect)
    absolute = (
        4 * (horizon + 2) * (label + 4) * UNIT * (weights + 1) + FLOOR + 16 * UNIT * (slack + (horizon + 2) * sizes)
    )
    return value * (1 - relative) - slack - 1.01 * absolute


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("defect", [0.0, 2.0**-20])
@pytest.mark.parametrize("price", [0.0, 2.0])
def test_the_allowance_for_a_secret_that_is_settled_last(horizon: int, defect: float, price: float):
    """One bit at the end, and for each action and the end what it costs."""
    checked = CheckedProblem(unseen(horizon))
    checked.defect += defect
    paid, slack = price * (2 + horizon / 2), 3 * price
    expected = documented(checked, horizon, value=1 + paid, label=2, weights=1.0, sizes=2 * paid, slack=slack)
    lost = (expected - belief_bound(checked, even(horizon, price), (None, 3.0))) / UNIT / (1 + paid)
    assert 3 * horizon - 1 <= lost <= 4 * horizon + 1


@pytest.mark.parametrize(("secret", "value", "weights"), [
    (veil.StateNow({1}), 1.0, 1.0), (veil.StateNow({1}, weights=[0.5, 0.0, 2.0]), 2.5, 2.5),
    (veil.StateNow({1}, weights=[0.0, 3.0, 0.0]), 3.0, 3.0),
])  # fmt: skip
def test_the_allowance_for_values_at_every_time(secret: Any, value: float, weights: float):
    checked = CheckedProblem(unseen(2, secret=secret))
    expected = documented(checked, 2, value=value, label=2, weights=weights, sizes=0.0, slack=0.0)
    lost = expected - belief_bound(checked, even(2), (None, 3.0))
    assert value <= lost / UNIT <= 8 * value


def test_a_secret_that_is_settled_first():
    """Who is told the state is told the first one, and who sees nothing forgets nothing."""
    checked, points = CheckedProblem(unseen(1, secret=veil.InitialState())), even(1).points
    known = BeliefBound(0.0, (0.0, 0.0), even(1).first, (replace(points[0], place=np.array([0, 3])),))
    assert belief_bound(checked, known, (None, 3.0)) == pytest.approx(1.0, abs=1e-12)
    other = BeliefBound(0.0, (0.0, 0.0), even(1).first, (replace(points[0], place=np.array([0, 2])),))
    assert belief_bound(checked, other, (None, 3.0)) == pytest.approx(0.0, abs=1e-12)


def test_a_value_that_lies_ahead_is_that_of_the_moves():
    """Half of the time the state comes at once, else with even odds in the next step; the last time has no next one."""
    checked = CheckedProblem(unseen(2, moves=np.full((2, 2), 0.5), secret=veil.StateNow({1}, ahead=1)))
    soon = -0.75 * np.log2(0.75) - 0.25 * np.log2(0.25)
    assert belief_bound(checked, even(2), (None, 3.0)) == pytest.approx((2 * soon + 1) / 3, abs=1e-12)


@pytest.mark.parametrize(
    "changes",
    [
        {"agent_sees": "state+observations"},
        {"agent_sees": "state"},
        {"agent_sees": veil.Observer(np.eye(2))},
        {"observer": veil.Observer(np.ones((2, 1)))},
        {"observer": veil.Observer(np.ones((2, 1)), times="end", untimed=True)},
        {"secret": veil.Trajectory()},
        {"discount": 0.5, "return_over": "infinite"},
    ],
    ids=lambda changes: " ".join(map(str, changes)),
)
def test_who_sees_more_or_less_than_the_observer_has_no_such_bound(changes: dict[str, Any]):
    problem = unseen(**{name: value for name, value in changes.items() if name != "observer"})
    problem = problem.replace(observer=changes["observer"]) if "observer" in changes else problem
    with pytest.raises(CertificateError, match=r"^beliefs: the agent does not see just what its observer sees"):
        belief_bound(CheckedProblem(problem), even(1), (None, 3.0))


def test_there_is_one_observer():
    problem = unseen(pairs=[veil.Pair("two", veil.Observer(np.eye(2)))])
    for names in (("two",), ("own", "two")):
        with pytest.raises(CertificateError, match=r"^beliefs: several observers"):
            belief_bound(checked_pairs(problem, names), even(1), (None, 3.0))


def wrong(**changes: Any) -> BeliefBound:
    """Beliefs of two times, of which those of the first have something else."""
    given = even(2)
    first = Beliefs(**{name: changes.get(name, getattr(given.points[0], name)) for name in Beliefs.__annotations__})
    return BeliefBound(
        0.0, changes.get("prices", given.prices), changes.get("start", given.first), (first, given.points[1])
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"child": np.array([[1]])}, "those of time 0: a number is outside -1 … 0"),
        ({"child": np.array([[-2]])}, "those of time 0: a number is outside"),
        ({"child": np.array([[0, 0]])}, "those of time 0: it is int64 of shape"),
        ({"place": np.array([0, 2])}, "those of time 0: a number is outside 0 … 1"),
        ({"place": np.array([1, 1])}, "those of time 0 have an entry twice"),
        ({"weight": np.array([0.5, 1.0 + 2.0**-52])}, "those of time 0 have numbers that are no probabilities"),
        ({"weight": np.array([0.5, FLOOR])}, "those of time 0 have numbers that are no probabilities"),
        ({"ends": np.array([0, 1])}, "those of time 0 are no distributions"),
        ({"start": np.array([1])}, "the first: a number is outside -1 … 0"),
        ({"start": np.array([-2])}, "the first: a number is outside"),
        ({"start": np.array([0, 0])}, "the first: it is int64 of shape"),
        ({"prices": (0.0, -1.0)}, "its price is -1.0"),
        ({"prices": (0.0, 2.0**99)}, "its price is"),
        ({"prices": (0.0,)}, "its prices are not one for each quantity"),
    ],
)
def test_witnesses_that_are_none_are_refused(changes: dict[str, Any], words: str):
    checked = CheckedProblem(unseen(2))
    assert belief_bound(checked, wrong(weight=np.array([0.5, 1.0])), (None, 3.0)) == pytest.approx(
        0.5, abs=1e-9
    )  # which fits
    assert belief_bound(checked, wrong(child=np.array([[-1]])), (None, 3.0)) == pytest.approx(0.0, abs=1e-9)
    assert belief_bound(checked, wrong(start=np.array([-1])), (None, 3.0)) == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(CertificateError, match=f"^beliefs: {words}"):
        belief_bound(checked, wrong(**changes), (None, 3.0))
