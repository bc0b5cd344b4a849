"""Whether the observer ever becomes sure: what is refused; values are compared with all runs in `tests/combinations`."""

import pytest

import veil
from veil.measure.measures import certainty, disclosure


def test_what_is_wrong_is_said():
    problem = veil.gallery.load("two-rooms")
    policy = veil.MarkovPolicy.uniform(problem)
    with pytest.raises(veil.InputError, match=r"(?s)level is 0, expected .*of is .none."):
        disclosure(problem, policy, 0, of="none")  # type: ignore[arg-type]
    with pytest.raises(veil.InputError, match="has a value at every time"):
        disclosure(problem.replace(secret=veil.StateNow([0])), policy)
    blind = problem.observer.replace(silent=0, untimed=True, sees_actions=False)
    with pytest.raises(veil.InputError, match="no clock"):
        certainty(problem.replace(observer=blind), policy)
