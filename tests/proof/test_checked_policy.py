"""Policies as the verifier reads them: forged rows, tables and graphs are refused, and returns are exact for every kind."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veil
from tests.proof.cases import KINDS, random_policy, tiny_problem
from tests.proof.reading import CheckedProblem, policy_return, read_policy
from tests.proof.test_checked import example
from veil.common.errors import CertificateError
from veil.policy.history import Decisions, HistoryPolicy
from veil.proof.exact_return import exact_return


def forged(policy: Any, **changes: Any) -> Any:
    """A policy that did not pass its constructor."""
    made = object.__new__(type(policy))
    made.__dict__.update(policy.__dict__)
    made.__dict__.update(changes)
    return made


def remembering() -> tuple[veil.Problem, HistoryPolicy]:
    """The example over two steps, its secret settled at time 1, and a policy of what was seen first."""
    problem = example().replace(secret=veil.StateAt(1, {1}), horizon=2, agent_sees="state+observations")
    following = (np.array([[0, 1], [-1, -1]]), np.array([[0, 1], [0, 1]]))
    rows = [
        Decisions(np.array([0]), np.array([0]), np.array([-1]), np.ones((1, 1))),
        Decisions(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0, 1, 1]), np.ones((3, 1))),
    ]
    return problem, HistoryPolicy(np.array([0, -1]), following, rows)


@pytest.mark.parametrize(
    ("time", "field", "number", "accepted"),
    [
        (0, "value", -1, True),
        (0, "value", -2, False),
        (0, "value", 0, False),
        (1, "value", 0, True),
        (1, "value", 1, True),
        (1, "value", -1, False),
        (1, "value", 2, False),
        (0, "situation", 1, True),
        (0, "situation", -1, False),
        (0, "situation", 2, False),
        (1, "situation", 0, True),
        (1, "situation", 2, False),
    ],
)
def test_rows_are_for_situations_and_values_that_exist(time: int, field: str, number: int, accepted: bool):
    """Before the secret is settled there is no value, -1; then there are those of the secret. Others would alias."""
    problem, policy = remembering()
    checked, rows = CheckedProblem(problem), list(policy.decisions)
    policy_return(checked, policy, None, (None,))
    numbers = getattr(rows[time], field).copy()
    numbers[0] = number
    rows[time] = replace(rows[time], **{field: numbers})
    changed = forged(policy, decisions=tuple(rows))
    if accepted:
        read_policy(checked, changed)
    else:
        with pytest.raises(
            CertificateError, match=f"a row at time {time} is for a situation or value that does not exist"
        ):
            read_policy(checked, changed)


def test_a_policy_has_a_node_for_all_that_it_reaches():
    """At first, later, and where it does not know an event of several observers."""
    problem, policy = remembering()
    checked = CheckedProblem(problem)
    for changes, words in (
        ({"first": np.array([-1, -1])}, "no node for something that it reaches at time 0"),
        ({"following": (np.array([[0, -1], [-1, -1]]), policy.following[1])}, "no node for .* at time 1"),
        ({"following": (policy.following[0], np.array([[0, 1], [0, -1]]))}, "no node for .* at time 2"),
        ({"decisions": policy.decisions[:1]}, "its decisions are not one for each step"),
        ({"decisions": policy.decisions[:1], "following": policy.following[:1]}, "not one for each step"),
    ):
        with pytest.raises(CertificateError, match=words):
            policy_return(checked, forged(policy, **changes), None, (None,))
    told = {"told_at": 1, "told": np.zeros((2, 2), dtype=int)}
    missing = (np.array([[0, -1], [-1, -1]]), policy.following[1])
    with pytest.raises(CertificateError, match="no node for something that it reaches at time 1"):
        policy_return(checked, forged(policy, following=missing, **told), None, (None,))


@pytest.mark.parametrize("kind", ["markov", "states", "controller"])
def test_tables_of_another_shape_are_refused(kind: str):
    """Fewer rows, more actions, or another number of times."""
    problem = tiny_problem(3)
    policy: Any = random_policy(problem, kind, 3)
    checked, table = CheckedProblem(problem), policy.table
    assert read_policy(checked, policy).stationary == (not policy.timed)
    for wrong in (table[:, :-1], np.concatenate([table, table], axis=2), np.concatenate([table, table])):

        class Other(type(policy)):  # type: ignore[misc]
            """The policy with another table."""

            table = wrong

        with pytest.raises(CertificateError, match="policy: its table has shape"):
            read_policy(checked, forged_as(Other, policy))


def forged_as(kind: type, policy: Any) -> Any:
    made = object.__new__(kind)
    made.__dict__.update(policy.__dict__)
    return made


def test_a_policy_of_no_known_kind_is_refused():
    class Other:
        """A policy that is none."""

        def on(self, problem: veil.Problem) -> "Other":
            return self

    other: Any = Other()
    with pytest.raises(CertificateError, match="policy: it is a Other, which the verifier cannot read"):
        read_policy(CheckedProblem(example()), other)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_returns_of_every_kind_of_policy(kind: str):
    """Also where the agent's memory is drawn: within the errors of floats of what a forward pass finds."""
    for seed in range(8):
        problem = tiny_problem(seed)
        policy, checked = random_policy(problem, kind, seed), CheckedProblem(problem)
        found = policy_return(checked, policy, None, (None,))
        exact = exact_return(checked, read_policy(checked, policy), checked.paid[0])
        assert exact is not None
        low, high = exact
        assert low <= high <= low + Fraction(1, 2**200)
        assert float(abs(low - found.expected_return)) <= found.return_error
