"""False witnesses made by hand, over all kinds of items: each claims something that is false, and would prove it to a verifier
that leaves out one check. Both verifiers refuse every one, and neither fails in any other way."""

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.game.test_each_time import random_problem as each_problem
from tests.proof.cases import noisy_problem, random_history, seeing
from tests.proof.lies import dressed, is_refused
from tests.proof.plain import code, saved, with_claim
from tests.proof.test_beliefs import asked
from tests.seeds import noted
from veil.common.errors import CertificateError
from veil.game.enclose import enclose
from veil.policy.recall import recall
from veil.proof.certificate import Certificate
from veil.proof.checked_problem import CheckedProblem
from veil.proof.checking import Draws, check
from veil.proof.claims import ProvenBound, Sampled
from veil.proof.compiled import record_of
from veil.proof.described import described
from veil.proof.sampling import DOUBT, Interval, Sampler
from veil.proof.verify_files import verify_files

OFF = 0.02  # by how much what is claimed is false
Case = tuple[veil.Problem, veil.Policy, Certificate]


def model(**named: Any) -> veil.Model:
    moves = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.2, 0.8], [0.6, 0.4]]])
    return veil.Model(moves, [[0.0, 1.0], [0.5, -1.0]], [0.5, 0.5], **named)


NOISY = [[0.7, 0.3], [0.4, 0.6]]


def plain() -> Case:
    """A threshold, a reward at the end, and a constraint from above: all met with room."""
    limits = [veil.Return(max=2.5), veil.Probability("F s1", min=0.1)]
    problem = veil.Problem(
        model(terminal_rewards=[0.0, 0.75]), veil.Observer(NOISY), veil.LastState({1}), 3, 0.1, constraints=limits
    )
    return proven(problem, veil.MarkovPolicy.uniform(problem))


def share() -> Case:
    problem = veil.Problem(model(), veil.Observer(NOISY), veil.LastState({1}), 3, "30%",
                           constraints=[veil.Probability("F s1", "20%")])  # fmt: skip
    return proven(problem, veil.MarkovPolicy.uniform(problem))


def pairs() -> Case:
    first = veil.Pair("p", veil.Observer([[0.6, 0.4], [0.1, 0.9]]), veil.InitialState())
    second = veil.Pair("q", veil.Observer(NOISY), veil.LastState({0}), min=0.01)
    problem = veil.Problem(model(), veil.Observer(NOISY), veil.LastState({1}), 2, pairs=[first, second])
    return proven(problem, veil.MarkovPolicy.uniform(problem), hide="own, p")


def path() -> Case:
    problem = veil.Problem(model(), veil.Observer(NOISY), veil.Trajectory(), 2)
    return proven(problem, veil.MarkovPolicy.uniform(problem))


def each() -> Case:
    problem = each_problem(1).replace(min_return=None)
    found = enclose(problem, gap=1e-3)
    policy = found.policy(problem)
    return problem, policy, veil.certify(problem, policy, game=found, progress=False)


def ahead() -> Case:
    """A value that lies ahead, for which there is no rule; and a policy that earns nothing, while others do."""
    problem = veil.Problem(
        veil.Model(np.full((2, 2, 2), 0.5), [[0.0, 1.0]] * 2, [0.5, 0.5]),
        veil.Observer(NOISY),
        veil.StateNow({1}, ahead=1),
        2,
    )
    return proven(problem, veil.MarkovPolicy([[1.0, 0.0]] * 2))


def delayed() -> Case:
    """A bound over agents that see observations late, which is smaller."""
    for seed in range(60):
        problem = noisy_problem(seed)
        case = proven(problem, veil.MarkovPolicy.uniform(problem))
        if case[2].delayed is not None and case[2].upper - case[2].delayed.upper > 0.002:
            return case
    raise AssertionError


def endless() -> Case:
    problem = veil.Problem(model(discount=0.9), veil.Observer(NOISY), veil.LastState({1}), 2, return_over="infinite")
    return proven(problem, veil.TimedPolicy(np.tile(veil.MarkovPolicy.uniform(problem).table, (2, 1, 1))))


def endless_share() -> Case:
    """A share of what can be reached over an infinite horizon, which the policy misses."""
    problem = veil.Problem(
        model(discount=0.9), veil.Observer(NOISY), veil.LastState({1}), 2, "70%", return_over="infinite"
    )
    return proven(problem, veil.MarkovPolicy.uniform(problem))


def memory() -> Case:
    problem = veil.Problem(model(), veil.Observer(NOISY), veil.LastState({1}), 3, agent_sees="state+observations")
    held = veil.ObservationMemory(1, clock=False)
    rows = recall(problem, held)
    table = np.random.default_rng(3).dirichlet(np.ones(rows.num_actions), size=rows.num_cells)
    return proven(problem, veil.MemoryPolicy(held, table))


def history() -> Case:
    problem = seeing(veil.Problem(model(), veil.Observer(NOISY), veil.LastState({1}), 2))
    return proven(problem, random_history(problem, np.random.default_rng(5), told=False))


def drawn() -> Case:
    problem, policy, claim = plain()
    bits, channel = hidden(problem, policy), claim.channels[0]
    told = replace(channel, lower=0.0, upper=1.0, window=(3, 4), sampled=Sampled(bits - 0.25, 1.0, 2000))
    first = replace(claim.quantities[0], error=1.5, sequences=2000, met=False)
    return problem, policy, dressed(replace(claim, channels=(told,), quantities=(first, *claim.quantities[1:])))


def clockless() -> Case:
    observer = veil.Observer(NOISY, times="end", untimed=True)
    problem = veil.Problem(model(), observer, veil.LastState({1}), 2)
    return proven(problem, veil.MarkovPolicy.uniform(problem))


def beliefs() -> Case:
    problem, price, _ = asked(1)
    plan = veil.best_queries(problem, gap=1e-9, price=price)
    return problem, plan.policy, plan.certify()


def proven(problem: veil.Problem, policy: veil.Policy, **named: Any) -> Case:
    return problem, policy, veil.certify(problem, policy, 20, progress=False, **named)


def hidden(problem: veil.Problem, policy: veil.Policy, pair: str = "own") -> float:
    return veil.opacity(problem, policy, "exact", pair=pair).bits


KINDS = (
    plain,
    share,
    pairs,
    path,
    each,
    ahead,
    delayed,
    endless,
    endless_share,
    memory,
    history,
    drawn,
    clockless,
    beliefs,
)
case = cache(lambda kind: kind())


# What changes an item: each returns false claims for one, of which each differs in substance.


def below(claim: Certificate, bits: float, **changes: Any) -> Certificate:
    """An upper bound below what the policy hides, which meets every constraint, and nothing that would contradict it."""
    bound = replace(claim.bounds[0], **{"upper": bits - OFF, **changes})
    channels = tuple(replace(one, lower=0.0) for one in claim.channels)
    return replace(claim, bounds=(bound,), channels=channels, best_known=None)


def ruled(claim: Certificate, bits: float, **changes: Any) -> Certificate:
    rule, *others = claim.bounds[0].rules
    return below(claim, bits, rules=(replace(rule, **changes), *others))


def false_rules(problem: veil.Problem, claim: Certificate, bits: float) -> dict[str, Any]:
    rule, (price, *prices), last = (
        claim.bounds[0].rules[0],
        claim.bounds[0].prices,
        len(claim.bounds[0].rules[0].costs) - 1,
    )
    excluded, one = rule.costs.copy(), np.zeros_like(rule.costs)
    excluded[:, 0] = np.inf
    one[:, 1:] = np.inf
    found = {
        "probabilities of 2": ruled(claim, bits, costs=rule.costs - 1.0),
        "probabilities that sum to 1.1": ruled(claim, bits, costs=np.maximum(0.0, rule.costs - np.log2(1.1))),
        "no cost at all": ruled(claim, bits, costs=np.zeros_like(rule.costs)),
        "a value excluded": ruled(claim, bits, costs=excluded),
        "one value for certain": ruled(claim, bits, costs=one),
        "everything excluded": ruled(claim, bits, costs=np.full_like(rule.costs, np.inf)),
        "a cost below zero": ruled(claim, bits, costs=np.where(rule.costs == rule.costs.max(), -9.0, rule.costs)),
        "costs that are no number": ruled(claim, bits, costs=np.full_like(rule.costs, np.nan)),
        "costs in half precision": ruled(claim, bits, costs=(rule.costs - 0.001).astype(np.float16)),
        "costs of one node for all": ruled(claim, bits, costs=rule.costs[:1]),
        "no first node": ruled(claim, bits, first=np.full_like(rule.first, -1)),
        "a first node that wraps": ruled(claim, bits, first=rule.first.astype(np.uint64) + np.uint64(2**64 - 1)),
        "a first node that is none": ruled(claim, bits, first=np.full_like(rule.first, last + 2)),
        "no way on": ruled(claim, bits, following=tuple(np.full_like(one, -1) for one in rule.following)),
        "one step less": ruled(claim, bits, following=rule.following[:-1]),
        "one step more": ruled(claim, bits, following=(*rule.following, rule.following[-1])),
        "a rule for a channel that does not exist": ruled(claim, bits, channel=7),
        "a rule of no weight": ruled(claim, bits, weight=0.0),
        "a rule of half a weight": ruled(claim, bits, weight=0.5),
        "a rule of a negative weight": ruled(claim, bits, weight=-1.0),
        "a rule of an endless weight": ruled(claim, bits, weight=float("inf")),
        "one rule twice": below(claim, bits, rules=(replace(rule, weight=0.5), replace(rule, weight=0.5))),
        "no rules": below(claim, bits, rules=()),
        "no prices": below(claim, bits, prices=()),
        "a price too many": below(claim, bits, prices=(price, *prices, 1.0)),
        "a price below zero": below(claim, bits, prices=(-abs(price) - 1.0, *prices)),
        "a price that is no number": below(claim, bits, prices=(float("nan"), *prices)),
        "a price of all": below(claim, bits, prices=(10**400, *prices)),
        "a bound below zero": below(claim, bits, upper=-1.0),
        "a bound that is no number": below(claim, bits, upper=float("nan")),
        "a delay of 2": below(claim, bits, delay=2),
        "a delay that is true": below(claim, bits, delay=True),
        "two bounds over all": replace(below(claim, bits), bounds=(claim.bounds[0], below(claim, bits).bounds[0])),
        "no bounds": replace(claim, bounds=()),
        "a task that is not counted": replace(below(claim, bits), quantities=tuple(
            replace(each, factor=float(np.copysign(1e9, each.value))) for each in claim.quantities)),
        "nothing hidden": replace(below(claim, bits), hidden=()),
        "hidden twice": replace(below(claim, bits), hidden=(0, 0)),
        "another channel hidden": replace(below(claim, bits), hidden=(5,)),
    }  # fmt: skip
    if np.isfinite(price) and claim.quantities[0].bound is None:
        found["a price without a bound"] = below(claim, bits, prices=(1e-3, *prices))
    return found


def false_channels(claim: Certificate, bits: float) -> dict[str, Any]:
    one, *rest = claim.channels
    high = min(1.0, bits + 2 * OFF)
    bounds = tuple(replace(bound, upper=9.0) for bound in claim.bounds)  # which is true, and fits whatever is claimed

    def told(**changes: Any) -> Certificate:
        return replace(claim, channels=(replace(one, **changes), *rest), bounds=bounds, best_known=None)

    ends = [(-1, 99), (-7, 99), (0, 0), (2, 1), (99, 100), (-1, -1), (True, 3), (-1, 10**400), (-(10**400), 99)]
    found = {f"more, in the window {window}": told(lower=bits + OFF, upper=high, window=window) for window in ends}
    found |= {
        "more, of few histories": told(lower=bits + OFF, upper=high, merge=1),
        "more, of heavy histories": told(lower=bits + OFF, upper=high, prune=0.2),
        "more, of negative weights": told(lower=bits + OFF, upper=high, prune=-1.0),
        "less": told(lower=0.0, upper=bits - OFF),
        "less, in a window": told(lower=0.0, upper=bits - OFF, window=(0, 99)),
        "ends that are exchanged": told(lower=bits + OFF, upper=bits - OFF),
        "no number": told(lower=float("nan"), upper=float("nan")),
        "a bound of its own": told(min=0.0001),
        "another name": told(name="other"),
        "another number": told(number=3),
        "twice": replace(claim, channels=(one, one, *rest)),
        "none": replace(claim, channels=()),
        "drawn above": told(sampled=Sampled(bits + OFF, 1.0, 500)),
        "drawn below": told(sampled=Sampled(0.0, bits - OFF, 500)),
        "drawn once": told(sampled=Sampled(0.0, 9.0, 1)),
        "drawn too often": told(sampled=Sampled(0.0, 9.0, 10**9)),
        "drawn half a time": told(sampled=Sampled(0.0, 9.0, 500.5)),  # type: ignore[arg-type]
        "drawn with ends exchanged": told(sampled=Sampled(1.0, 0.0, 500)),
        "drawn, no number": told(sampled=Sampled(float("nan"), float("nan"), 500)),
        "the other goal": replace(claim, goal="transparent", bounds=(), channels=(replace(one, upper=bits - OFF, lower=0.0),)),
        "a goal that does not exist": replace(claim, goal="both"),
    }  # fmt: skip
    return found


def false_quantities(claim: Certificate) -> dict[str, Any]:
    found = dict[str, Any]()
    for place, one in enumerate(claim.quantities):

        def told(place: int = place, one: Any = one, **changes: Any) -> Certificate:
            return replace(
                claim, quantities=(*claim.quantities[:place], replace(one, **changes), *claim.quantities[place + 1 :])
            )

        value, error = float(one.value), max(1e-9, float(one.error))
        found |= {f"{place}: {name}": made for name, made in {
            "a little more": told(value=value + 10 * error), "a little less": told(value=value - 10 * error),
            "half of it": told(value=value / 2 + 0.25), "its negative": told(value=-value - 0.25),
            "within anything": told(error=1e6), "within less than nothing": told(error=-1.0),
            "within what is no number": told(error=float("nan")), "of 401 digits": told(value=10**400),
            "text": told(value=str(value)), "another name": told(name=one.name + " "),
            "the other relation": told(relation="≤" if one.relation == "≥" else "≥"),
            "another bound": told(bound=value - 1e-3, met=True), "a bound that is met": told(bound=value + 1.0, met=True),
            "met is 1": told(met=1), "met is None": told(met=None), "drawn -1 times": told(sequences=-1),
            "drawn true times": told(sequences=True), "counted and drawn": told(sequences=500, factor=1.0, error=9.0),
            "counted by what is no number": told(factor=float("nan")),
        }.items()}  # fmt: skip
        if not place:  # draws take a while
            found["drawn twice as large"] = told(value=2 * value + 9, sequences=500)
            found["drawn within nothing"] = told(error=1e-6, sequences=500)
        if one.bound is not None:
            found[f"{place}: met or not"] = told(met=not one.met) if not one.met else told(value=value + 1.0, met=False)
            found[f"{place}: without its bound"] = told(bound=None, met=True)
    items = claim.quantities
    found |= {
        "left out": replace(claim, quantities=items[:-1]),
        "twice": replace(claim, quantities=(*items, items[-1])),
    }
    if len(items) > 1:
        found["exchanged"] = replace(claim, quantities=(items[1], items[0], *items[2:]))
        found["the value of another"] = replace(
            claim, quantities=(replace(items[0], value=items[1].value + 0.01), *items[1:])
        )
    return found


def of_shares(claim: Certificate) -> dict[str, Any]:
    """Bounds in percent: of another quantity, of the largest value alone, of a range that ends elsewhere."""
    first, second = claim.quantities
    assert first.bound is not None
    bounds = {"of another": (second.bound, first.bound), "of the largest alone": (0.3 * 1.6, second.bound),
              "nearly": (first.bound - 1e-6, second.bound), "of none": (None, second.bound),
              "as text": ("30%", second.bound), "below all": (-99.0, second.bound),
              "no number": (float("nan"), second.bound), "true": (True, second.bound)}  # fmt: skip

    def told(*bounds: Any) -> Certificate:
        pairs = zip(claim.quantities, bounds, strict=True)
        return replace(claim, quantities=tuple(replace(one, bound=bound, met=True) for one, bound in pairs))

    return {f"a percentage {name}": told(*both) for name, both in bounds.items()}


def of_pairs(problem: veil.Problem, policy: veil.Policy, claim: Certificate) -> dict[str, Any]:
    """Weights and channels of several observers; the least of the hidden ones is what the bound is about."""
    bits = min(hidden(problem, policy, name) for name in ("own", "p"))
    bound, base = claim.bounds[0], claim.bounds[0].rules[0]

    def told(weights: dict[int, Any], upper: float = bits - OFF) -> Certificate:
        """The rule for channels, each with a weight."""
        return below(
            claim, bits, rules=tuple(replace(base, channel=n, weight=w) for n, w in weights.items()), upper=upper
        )

    kept = tuple(replace(one, min=None if one.min is None else 0.5, lower=0.0) for one in claim.channels)
    more = hidden(problem, policy, "p") + OFF, 1.0
    return {
        "of the other channel": told({1 - base.channel: 1.0}), "of both alike": told({0: 0.5, 1: 0.5}),
        "weights that sum to 0.9": told({0: 0.45, 1: 0.45}), "weights of almost 1": told({0: 0.5, 1: 0.5 - 1e-9}),
        "a weight below zero": told({0: 1.5, 1: -0.5}), "weights of nothing": told({0: 0.0, 1: 0.0}),
        "a weight of text": told({0: "1", 1: 0.5}), "weights that are no number": told({0: float("nan"), 1: 0.5}),
        "all weight on what is kept": told({0: 1e-9, 2: 1.0}), "half of it, and a kept channel": told({0: 0.5, 2: 1e6}),
        "a kept channel alone": told({2: 1.0}), "a kept channel that counts much": told({0: 1.0, 2: 1e5}),
        "what is kept, raised": replace(told({0: 1.0, 2: 2.0}), channels=kept),
        "the other one is hidden": replace(told({1: 1.0}, hidden(problem, policy, "p") - OFF), hidden=(1,)),
        "without the other channels": replace(told({0: 1.0}), channels=claim.channels[:1]),
        "more of another channel": replace(claim, bounds=(replace(bound, upper=9.0),), channels=(
            claim.channels[0], replace(claim.channels[1], lower=more[0], upper=more[1]), *claim.channels[2:])),
        "the bits of another channel": replace(claim, bounds=(replace(bound, upper=9.0),), channels=(
            replace(claim.channels[1], number=0, name="own"), replace(claim.channels[0], number=1, name="p"),
            *claim.channels[2:])),
    }  # fmt: skip


def of_paths(claim: Certificate, bits: float) -> dict[str, Any]:
    rule = claim.bounds[0].rules[0]
    keys, costs = rule.path_keys, rule.path_costs
    return {
        "probabilities of 2": ruled(claim, bits, path_costs=tuple(one - 1.0 for one in costs)),
        "the first state for nothing": ruled(claim, bits, path_costs=(0 * costs[0], *costs[1:])),
        "the last state for nothing": ruled(claim, bits, path_costs=(*costs[:-1], 0 * costs[-1])),
        "a key left out": ruled(claim, bits, path_keys=(keys[0][1:], *keys[1:]), path_costs=(costs[0][1:], *costs[1:])),
        "a key twice": ruled(claim, bits, path_keys=(np.repeat(keys[0], 2, axis=0), *keys[1:]),
                             path_costs=(np.repeat(costs[0] - 0.5, 2), *costs[1:])),
        "keys out of order": ruled(claim, bits, path_keys=tuple(one[::-1].copy() for one in keys)),
        "the parts of other times": ruled(claim, bits, path_keys=keys[::-1], path_costs=costs[::-1]),
        "no parts": ruled(claim, bits, path_keys=(), path_costs=()),
        "a part too few": ruled(claim, bits, path_keys=keys[:-1], path_costs=costs[:-1]),
        "the last state in two rows": ruled(claim, bits, path_costs=(*costs[:-1], np.full_like(costs[-1], 1e-6)), path_keys=(
            *keys[:-1], np.stack([keys[-1][:, 0], np.arange(len(keys[-1])) % 2, keys[-1][:, 2]], axis=1))),
        "negative nodes": ruled(claim, bits, path_keys=tuple(one - 1 for one in keys)),
        "costs that are no number": ruled(claim, bits, path_costs=tuple(one * np.nan for one in costs)),
        "a rule of one value": ruled(claim, bits, path_keys=(), path_costs=(), costs=np.zeros((len(rule.costs), 1))),
    }  # fmt: skip


def of_times(claim: Certificate, bits: float) -> dict[str, Any]:
    tables = claim.bounds[0].rules[0].each
    return {
        "probabilities of 2": ruled(claim, bits, each=tuple(one - 1.0 for one in tables)),
        "the last time for nothing": ruled(claim, bits, each=(*tables[:-1], 0 * tables[-1])),
        "the first time for nothing": ruled(claim, bits, each=(0 * tables[0], *tables[1:])),
        "one value for certain": ruled(claim, bits, each=tuple(
            np.where(np.arange(one.shape[1]) > 0, np.inf, 0.0) + 0 * one[:, :1] for one in tables)),
        "nothing is possible": ruled(claim, bits, each=tuple(np.full_like(one, np.inf) for one in tables)),
        "times exchanged": ruled(claim, bits, each=tables[::-1]), "a time too few": ruled(claim, bits, each=tables[:-1]),
        "the costs of the end alone": ruled(claim, bits, each=()),
    }  # fmt: skip


def of_delays(problem: veil.Problem, policy: veil.Policy, claim: Certificate) -> dict[str, Any]:
    """What holds for agents that see observations late is claimed of all; what holds of all with less."""
    first, late = claim.bounds
    assert isinstance(late, ProvenBound)
    bits = hidden(problem, policy)
    channels = tuple(replace(one, lower=0.0) for one in claim.channels)
    told = replace(claim, channels=channels, best_known=None)
    seeing_rules = tuple(replace(one, costs=np.maximum(one.costs - 0.1, 0)) for one in late.rules)
    return {
        "late for all": replace(told, bounds=(replace(late, delay=0),)),
        "late for all, and late": replace(told, bounds=(replace(late, delay=0), late)),
        "late alone": replace(told, bounds=(late,)), "late twice": replace(told, bounds=(first, late, late)),
        "late first": replace(told, bounds=(late, first)),
        "too low": replace(told, bounds=(first, replace(late, upper=bits - OFF))),
        "too low by a rule": replace(told, bounds=(first, replace(late, upper=late.upper - 0.05, rules=seeing_rules))),
        "a step less": replace(told, bounds=(first, replace(late, upper=bits - OFF, rules=tuple(
            replace(one, following=one.following[:-1]) for one in late.rules)))),
    }  # fmt: skip


def of_continuations(claim: Certificate) -> dict[str, Any]:
    """What is earned after the horizon, and a task that takes it away: the worst continuation counts, not the best."""
    values, first = claim.values, claim.quantities[0]
    assert values is not None
    counted = replace(first, factor=-2.0)
    bound = replace(claim.bounds[0], upper=claim.lower - 2 * float(first.value) + 0.2)
    least = np.stack([values[0], -values[0]])
    return {
        "less": replace(claim, values=values - 1.0, quantities=(replace(first, value=float(first.value) - 0.9**2),)),
        "more": replace(claim, values=values + 1.0, quantities=(replace(first, value=float(first.value) + 0.9**2),)),
        "no values": replace(claim, values=None), "one row": replace(claim, values=values[:1]),
        "of one state less": replace(claim, values=values[:, :-1]), "no numbers": replace(claim, values=values * np.nan),
        "endless": replace(claim, values=values + np.inf), "too large": replace(claim, values=values * 1e300),
        "exchanged": replace(claim, values=values[::-1].copy()),
        "the return counts against it": replace(claim, quantities=(counted,), bounds=(bound,), best_known=None),
        "and so do its values": replace(claim, quantities=(counted,), bounds=(bound,), best_known=None, values=least),
    }  # fmt: skip


def of_endless_shares(claim: Certificate) -> dict[str, Any]:
    """Wrong values after the horizon are an error of the range, within which any share must not be accepted."""
    first, bound, values = claim.quantities[0], replace(claim.bounds[0], upper=1.1, prices=(0.0,)), claim.values
    assert values is not None
    easy = replace(
        claim, quantities=(replace(first, bound=first.value - 0.1, met=True),), bounds=(bound,), best_known=None
    )
    rows = {"as they are": 0 * values, "all more": 0 * values + 50.0, "all less": 0 * values - 1e6,
            "one more": np.outer([1.0, 0.0], np.eye(values.shape[1])[0]) * 80,
            "against each other": values[::-1] * 40}  # fmt: skip
    return {f"an easy bound, and values {name}": replace(easy, values=values + by) for name, by in rows.items()}


def of_registers(claim: Certificate) -> dict[str, Any]:
    held = claim.register
    assert held is not None

    def told(**changes: Any) -> Certificate:
        return replace(claim, register=replace(held, **changes))

    return {
        "nothing": replace(claim, register=None), "always the same": told(step=0 * held.step),
        "exchanged": told(step=held.step[..., ::-1].copy()), "no start": told(start=np.full_like(held.start, -1)),
        "rows exchanged": told(codes=held.codes[::-1].copy()), "one row for all": told(codes=held.codes[:1]),
        "no nodes": told(nodes=0), "many nodes": told(nodes=2**40), "nodes below zero": told(nodes=-1),
        "memories that do not exist": told(step=held.step + 1000), "of another shape": told(step=held.step[0]),
        "memories that wrap": told(step=held.step.astype(np.int8) - np.int8(100)),
        "a later start": told(start=held.start[:, 1:]),
    }  # fmt: skip


def of_beliefs(claim: Certificate) -> dict[str, Any]:
    witness, true = claim.beliefs, claim.channels[0]
    assert witness is not None
    up = replace(claim, channels=(replace(true, upper=1.0),))

    def told(**changes: Any) -> Certificate:
        return replace(up, beliefs=replace(witness, **{"lower": witness.lower + OFF, **changes}))

    def points(change: Callable[[Any], Any]) -> tuple[Any, ...]:
        return tuple(change(one) for one in witness.points)

    prices = witness.prices
    return {
        "more": told(), "more than all": told(lower=2.0), "no number": told(lower=float("nan")),
        "of 401 digits": told(lower=10**400), "a price below zero": told(prices=tuple(-1.0 - one for one in prices)),
        "a price for nothing": told(prices=(5.0, *prices[1:])), "no prices": told(prices=()),
        "heavier beliefs": told(points=points(lambda one: replace(one, weight=one.weight * 1.5))),
        "lighter beliefs": told(points=points(lambda one: replace(one, weight=one.weight * 1e-280))),
        "negative beliefs": told(points=points(lambda one: replace(one, weight=-one.weight))),
        "beliefs in one state": told(points=points(lambda one: replace(one, place=0 * one.place))),
        "beliefs nowhere": told(points=points(lambda one: replace(one, place=one.place + 10**6))),
        "empty beliefs": told(points=points(lambda one: replace(one, ends=0 * one.ends))),
        "children of others": told(points=points(lambda one: replace(one, child=one.child[::-1].copy()))),
        "children that are none": told(points=points(lambda one: replace(one, child=one.child + 10**6))),
        "children below": told(points=points(lambda one: replace(one, child=0 * one.child - 2))),
        "times exchanged": told(points=witness.points[::-1]), "too many times": told(points=witness.points * 3),
        "no first": told(first=witness.first[:0]), "another first": told(first=witness.first + 10**6),
        "for the other goal": replace(claim, goal="opaque"),
    }  # fmt: skip


def all_false(kind: Callable[[], Case]) -> dict[str, Any]:
    """Every false claim about a case."""
    problem, policy, claim = case(kind)
    if kind is beliefs:
        return of_beliefs(claim)
    bits = hidden(problem, policy)
    if kind is drawn:
        one, first = claim.channels[0], claim.quantities[0]
        assert one.sampled is not None
        return {
            "above": replace(claim, channels=(replace(one, sampled=replace(one.sampled, lower=bits + OFF)),)),
            "below": replace(claim, channels=(replace(one, sampled=Sampled(0.0, bits - OFF, 2000)),)),
            "both proven": replace(claim, channels=(replace(one, lower=bits + OFF, sampled=None),)),
            "nothing left": replace(claim, channels=(replace(one, sampled=Sampled(0.0, 0.0, 2)),)),
            "a return of one more": replace(claim, quantities=(replace(first, value=first.value + 3.0), *claim.quantities[1:])),
            "met within its error": replace(claim, quantities=(replace(first, met=True), *claim.quantities[1:])),
            "a return that counts": replace(claim, quantities=(replace(first, factor=1.0), *claim.quantities[1:])),
        }  # fmt: skip
    found = false_channels(claim, bits) | false_quantities(claim)
    if kind is ahead:
        counted = tuple(replace(one, factor=5.0) for one in claim.quantities)
        found |= {"counted, and no rule": replace(claim, quantities=counted, best_known=None),
                  "less than all": below(claim, bits), "a price": below(claim, 9.0, prices=(1.0,))}  # fmt: skip
    if kind not in (pairs, path, each, ahead):
        found |= {f"rule: {name}": made for name, made in false_rules(problem, claim, bits).items()}
    special: dict[Any, Callable[[], dict[str, Any]]] = {
        share: lambda: of_shares(claim), pairs: lambda: of_pairs(problem, policy, claim), path: lambda: of_paths(claim, bits),
        each: lambda: of_times(claim, bits), delayed: lambda: of_delays(problem, policy, claim),
        endless: lambda: of_continuations(claim),
        endless_share: lambda: of_endless_shares(claim), memory: lambda: of_registers(claim),
    }  # fmt: skip
    return found | {f"{kind.__name__}: {name}": made for name, made in special.get(kind, dict)().items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_honest_claim_holds(kind: Callable[[], Case], tmp_path: Path):
    """Also read from its files, with the scenario or without it; what is found is what is claimed, but for 2^-40 bits."""
    problem, policy, claim = case(kind)
    found, folder = veil.verify(claim, problem, policy, seed=1), saved(tmp_path / "result", problem, policy, claim)
    assert code(folder) == 0
    assert Certificate.load(folder / "certificate.json") == claim
    alone = verify_files(
        claim, folder / "problem.bin", folder / "policy.safetensors", draws=Draws(1 - (1 - DOUBT), seed=1)
    )
    assert asdict(found) | {"record": None} == asdict(alone) | {"record": None}
    if kind is not drawn:
        for one in claim.channels:
            assert 0 <= found.channels[one.number].lower - one.lower <= 1e-11
            assert 0 <= one.upper - found.channels[one.number].upper <= 1e-11
        assert found.policy.feasible == claim.feasible
        assert 0 <= found.least(claim.hidden) - claim.hidden_bits[0] <= 1e-11 or claim.goal == "transparent"
        assert [one.value for one in found.policy.quantities] == [one.value for one in claim.quantities]
    if kind not in (ahead, beliefs):
        assert claim.best_known is not None
        assert claim.best_known <= claim.upper <= claim.best_known + 1e-3
    assert [one.upper for one in claim.bounds] == pytest.approx(found.uppers, abs=1e-11)
    assert 0 <= claim.upper - found.upper <= 1e-11
    assert (found.delayed is None) == (claim.delayed is None)
    assert found.beliefs is None or 0 <= found.beliefs - claim.lower <= 1e-11
    assert repr(claim).endswith(f" bits{'' if claim.feasible else ', not feasible'})")


def test_claims_with_confidence_are_borne_out_by_three_rounds_of_draws():
    """Each has four times the sequences and half of the doubt of the one before; all claims share the doubt."""
    problem, policy, claim = case(drawn)
    one, sampler = claim.channels[0], Sampler(CheckedProblem(record_of(problem)), described(problem, policy))

    def found(lower: float, sequences: int | None = None, confidence: float = 0.75) -> Interval:
        told = dressed(replace(claim, channels=(replace(one, sampled=Sampled(lower, 1.0, 2000)),)))
        return veil.verify(told, problem, policy, sequences=sequences, confidence=confidence, seed=1).sampled[0]

    random = np.random.default_rng(1)
    rounds = [sampler.interval(2000 * 4**number, 0.25 / 2 / 2 ** (number + 1), random, None) for number in range(3)]
    for before, proven in zip((0.0, *(math.nextafter(one.lower, 1) for one in rounds)), rounds, strict=False):
        assert found(before) == proven
    assert found(0.0, 500) == sampler.interval(500, 0.0625, np.random.default_rng(1), None)
    assert found(0.0, 500, 0.5) == sampler.interval(500, 0.125, np.random.default_rng(1), None)
    with pytest.raises(CertificateError, match=r"^channel own: .* is found in 32,000 sequences"):
        found(max(one.lower for one in rounds) + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_false_witnesses_are_refused(kind: Callable[[], Case]):
    """Without the scenario: the certificate alone says what the policy remembers."""
    problem, policy, _ = case(kind)
    agent, record, told = described(problem, policy)[0], record_of(problem), all_false(kind)
    for name, made in told.items():
        with noted(name):
            assert is_refused(lambda one: check(one, record, agent, one.register), dressed(made))
    assert len(told) >= 7


@pytest.mark.parametrize("kind", KINDS)
def test_false_witnesses_are_refused_by_the_second_verifier(kind: Callable[[], Case], tmp_path: Path):
    problem, policy, honest = case(kind)
    accepted, folder = [], saved(tmp_path / "result", problem, policy, honest)
    for name, made in all_false(kind).items():
        try:
            with_claim(folder, dressed(made))
        except Exception:  # what no file can hold
            continue
        if code(folder) not in (2, 5):
            accepted.append(name)
    assert not accepted
