"""Problems, policies and rules as the verifier reads them, from what tests have at hand."""

from dataclasses import replace as replace_plain
from typing import Any, NamedTuple

import veil
from veil.proof import backward, checked_policy
from veil.proof import policy_values as values_module
from veil.proof.certify import certify as certify
from veil.proof.checked_policy import channels_heard
from veil.proof.checked_problem import CheckedProblem as Setting
from veil.proof.claims import ObserverRule, ProvenBound
from veil.proof.compiled import record_of
from veil.proof.described import described


def CheckedProblem(problem: veil.Problem, delay: int = 0) -> Any:
    """The problem of its own channel."""
    return _with(Setting(record_of(problem), (0,), (), delay), problem)


def checked_pairs(problem: veil.Problem, names: tuple[str, ...]) -> Any:
    """The problem of some channels."""
    return _with(Setting(record_of(problem), tuple(number_of(problem, name) for name in names)), problem)


def checked_for(problem: veil.Problem, policy: veil.Policy, name: str = "own") -> Any:
    """The problem in which a policy acts and one channel counts."""
    record = record_of(problem)
    heard = channels_heard(record, *described(problem, policy))
    return _with(Setting(record, (number_of(problem, name),), heard), problem)


def number_of(problem: veil.Problem, name: str) -> int:
    return [one.name for one in problem.channels].index(name)


def _with(setting: Any, problem: veil.Problem) -> Any:
    setting.given = problem
    return setting


def read_policy(checked: Any, policy: Any, **named: Any) -> Any:
    return checked_policy.read_policy(checked, *described(checked.given, policy), **named)


class Values(NamedTuple):
    """What is proven of a policy, the return apart."""

    lower: float
    upper: float
    expected_return: float
    return_error: float
    reaches: bool
    others: tuple[Any, ...]


def policy_values(checked: Any, policy: Any, window: Any, prune: float, values: Any, **named: Any) -> Values:
    content = described(checked.given, policy)
    found = values_module.policy_values(checked, content, window, prune, values, **named)
    own, *others = found.quantities
    return Values(found.lower, found.upper, own.value, own.error, own.met, tuple(others))


def policy_return(checked: Any, policy: Any, values: Any, bounds: Any) -> Values:
    return policy_values(checked, policy, (-1, checked.horizon + 1), 0.0, values, bounds=bounds, bits=False)


def Witness(
    first: Any, following: Any, costs: Any, price: float, memory: str = "", prices: tuple[float, ...] = (),
    path_keys: Any = (), path_costs: Any = (), pair: int = 0, weight: float = 1.0,
) -> ProvenBound:  # fmt: skip
    """A bound with one rule."""
    rule = ObserverRule(first, following, costs, memory, pair, weight, path_keys, path_costs)
    return ProvenBound(0, 0.0, (price, *prices), (rule,))


def replace(given: Any, **changes: Any) -> Any:
    """`dataclasses.replace`; of a bound also what its first rule has, and further rules as `others`."""
    if not isinstance(given, ProvenBound):
        return replace_plain(given, **changes)
    rule, *others = given.rules
    price, *prices = given.prices
    own = {("channel" if name == "pair" else name): changes.pop(name) for name in list(changes)
           if name in ("first", "following", "costs", "path_keys", "path_costs", "weight", "memory", "pair")}  # fmt: skip
    others = [one.rules[0] for one in changes.pop("others")] if "others" in changes else others
    price, prices = changes.pop("multiplier", price), changes.pop("prices", prices)
    return replace_plain(given, prices=(price, *prices), rules=(replace_plain(rule, **own), *others), **changes)


def rule_bound(checked: Any, bound: ProvenBound, bounds: Any, values: Any, kept: Any = None, **named: Any) -> float:
    return backward.rule_bound(checked, bound, bounds, values, kept, **named)
