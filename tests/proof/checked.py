"""Problems, policies and rules as the verifier reads them, for tests."""

from dataclasses import replace
from typing import Any

import numpy as np

import veil
from veil.proof.backward import rule_bound
from veil.proof.checked_policy import CheckedPolicy, channels_heard
from veil.proof.checked_policy import read_policy as read
from veil.proof.checked_problem import CheckedProblem
from veil.proof.claims import ObserverRule, ProvenBound
from veil.proof.described import described, record_of
from veil.proof.exact_return import exact_return
from veil.proof.policy_values import PolicyValues, policy_values


def checked(problem: veil.Problem, *names: str, delay: int = 0) -> CheckedProblem:
    """The problem of some channels, its own by default."""
    known = [one.name for one in problem.channels]
    return CheckedProblem(record_of(problem), tuple(known.index(name) for name in names or ("own",)), (), delay)


def acting(problem: veil.Problem, policy: veil.Policy, name: str = "own") -> CheckedProblem:
    """The problem in which a policy acts and one channel counts."""
    record, number = record_of(problem), [one.name for one in problem.channels].index(name)
    return CheckedProblem(record, (number,), channels_heard(record, *described(problem, policy)))


def read_policy(problem: veil.Problem, policy: veil.Policy, **named: Any) -> CheckedPolicy:
    return read(acting(problem, policy), *described(problem, policy), **named)


def values_of(
    problem: veil.Problem, policy: veil.Policy, window: Any = None, prune: float = 0.0, values: Any = None,
    *, name: str = "own", **named: Any,
) -> PolicyValues:  # fmt: skip
    window = (-1, problem.horizon + 1) if window is None else window
    return policy_values(acting(problem, policy, name), described(problem, policy), window, prune, values, **named)


def returns_exactly(problem: veil.Problem, policy: veil.Policy, number: int = 0) -> Any:
    setting = acting(problem, policy)
    return exact_return(setting, read(setting, *described(problem, policy)), setting.paid[number])


def bound_by(
    first: np.ndarray, following: Any, costs: np.ndarray, *prices: float, delay: int = 0, **named: Any
) -> ProvenBound:
    """A bound with one rule; the first price is that of return."""
    rule = ObserverRule(first, tuple(following), costs, "in a test", **named)
    return ProvenBound(delay, 0.0, prices or (0.0,), (rule,))


def changed(bound: ProvenBound, **changes: Any) -> ProvenBound:
    """A bound whose first rule is another."""
    return replace(bound, rules=(replace(bound.rules[0], **changes), *bound.rules[1:]))


def bits_of(problem: veil.Problem, bound: ProvenBound, bounds: Any = (None,), values: Any = None, kept: Any = None) -> float:
    """What a bound proves."""
    channels = tuple(one.channel for one in bound.rules)
    return rule_bound(CheckedProblem(record_of(problem), channels, (), bound.delay), bound, bounds, values, kept)
