"""Lies about a certificate: wrong types and shapes, observers' rules made by hand, false numbers with words that fit them.

`attack` builds on the single-field changes of `corruptions.py`. What it makes passes every check that can be passed without
proof: words, seal and hashes are made anew. `Truth` is what is so, by exact arithmetic on all paths.
"""

import random
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import veil
from tests.proof.corruptions import corrupt, corrupt_policy
from veil.policy.history import HistoryPolicy
from veil.proof.certificate import Certificate, DelayedBound, Witness
from veil.proof.claim import claim_words, policy_words, seal_of

NUMBERS = ("lower", "upper", "expected_return", "return_error", "threshold", "best_known", "prune", "merge")
TYPES = (np.int8, np.int16, np.uint8, np.int64, np.uint64, np.float16, np.float32, np.longdouble, complex, bool, object)
STRANGE = (
    None, True, "1", b"1", [1.0], (), {}, 1j, 10**400, -(10**400), 2**53 + 1, -1, 0, 1, -0.0, 5e-324, 1e308, np.nan, np.inf,
    -np.inf, np.float16(0.3), np.float32(0.5), np.float64(0.5), np.int8(-128), np.uint64(2**64 - 1), np.array(0.5),
    Fraction(1, 3), Decimal("0.1"),
)  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """What a policy hides and earns, the most that some policy which meets the constraints is seen to hide, the quantities
    of the further constraints under the policy, and the most that one hides which does not see the current observation."""

    bits: Decimal
    earned: Fraction
    best: Decimal
    further: tuple[Fraction, ...] = ()
    late: Decimal = Decimal(0)


def attack(rng: random.Random, problem: veil.Problem, claim: Certificate, policy: Any, truth: Truth) -> tuple[Any, Any]:
    """A certificate and a policy that may lie in up to four places."""
    if rng.random() < 0.3:
        _, claim, policy = corrupt(rng, claim, policy)
    for _ in range(rng.choice((0, 1, 1, 2))):
        kind = rng.randrange(1, 7)
        if kind == 1:
            claim = replace(claim, **{rng.choice(NUMBERS): rng.choice(STRANGE)})
        elif kind == 2:
            claim = _restructured(rng, claim)
        elif kind == 3 and isinstance(claim.witness, Witness):
            claim = replace(claim, witness=_retyped_rule(rng, claim.witness))
        elif kind == 4 and isinstance(claim.witness, Witness):
            claim = replace(claim, witness=lying_rule(rng, claim.witness))
        elif kind == 5:
            policy = _forged_policy(rng, policy)
        elif kind == 6:
            claim = replace(claim, delayed=_false_delay(rng, claim, truth))
    if rng.random() < 0.6:
        claim = replace(claim, **_false_number(rng, claim, truth))
    return (claim if rng.random() < 0.05 else dressed(problem, claim, policy)), policy


def dressed(problem: veil.Problem, claim: Certificate, policy: Any) -> Certificate:
    """The certificate with the hash of the policy, the words and the seal that fit what it now says."""
    for make in (
        lambda one: {"policy_hash": policy.digest(), "policy_class": policy_words(problem, policy)},
        lambda one: {"claim": claim_words(one)},
        lambda one: {"seal": seal_of(one)},
    ):
        try:
            claim = replace(claim, **make(claim))
        except Exception:  # what is strange enough has no words: the verifier gets it with the old ones
            continue
    return claim


def _false_number(rng: random.Random, claim: Certificate, truth: Truth) -> dict[str, Any]:
    """One number that is false, by much or by as little as exact arithmetic shows."""
    by = 10.0 ** rng.uniform(-12, 0)
    return rng.choice((
        {"upper": max(0.0, float(truth.best) - by), "best_known": None},
        {"upper": rng.uniform(0.0, float(truth.best)), "lower": 0.0, "best_known": None},
        {"lower": float(truth.bits) + by},
        {"lower": float(truth.bits) + by, "upper": max(claim.upper, float(truth.bits) + by) if _real(claim.upper) else 1.0},
        {"expected_return": float(truth.earned) + by * rng.choice((-1, 1))},
        {"expected_return": float(truth.earned) + by, "return_error": by / 2},
        {"feasible": not claim.feasible},
        {"threshold": None, "feasible": True},
        {"threshold": float(truth.earned) + by, "feasible": True},
        *([{"constraints": _false_constraints(rng, claim, truth, by)}] * 4 if truth.further else ()),
    ))  # fmt: skip


def _false_constraints(rng: random.Random, claim: Certificate, truth: Truth, by: float) -> Any:
    """The constraints with one that is false in a number, of a strange type, looser than asked for, or left out."""
    if not isinstance(claim.constraints, tuple) or len(claim.constraints) != len(truth.further):
        return ()
    place = rng.randrange(len(truth.further))
    one, value = claim.constraints[place], float(truth.further[place]) + by * rng.choice((-1, 1))
    loose = one.bound - by if one.relation == "≥" else one.bound + by
    changed = rng.choice((
        replace(one, value=value), replace(one, value=value, error=by / 2), replace(one, met=not one.met),
        replace(one, bound=loose), replace(one, bound=value, met=True), replace(one, error=by),
        replace(one, **{rng.choice(("bound", "value", "error", "met", "name", "relation")): rng.choice(STRANGE)}), None, 3,
    ))  # fmt: skip
    return rng.choice((
        (*claim.constraints[:place], changed, *claim.constraints[place + 1 :]),
        claim.constraints[:place] + claim.constraints[place + 1 :], claim.constraints[::-1], list(claim.constraints),
    ))  # fmt: skip


def _false_delay(rng: random.Random, claim: Certificate, truth: Truth) -> Any:
    """The bound over agents that learn observations late: another delay, a false number, another rule, or one from nowhere."""
    late = claim.delayed
    if not isinstance(late, DelayedBound):
        if not isinstance(claim.witness, Witness):
            return rng.choice(STRANGE)
        made = DelayedBound(1, claim.upper, claim.witness)
        return rng.choice((made, replace(made, upper=float(truth.late) * rng.random()), rng.choice(STRANGE)))
    if not isinstance(late.witness, Witness):
        return late
    by = 10.0 ** rng.uniform(-12, 0)
    return rng.choice((
        replace(late, delay=rng.choice((0, 2, True, 1.0, *STRANGE))), replace(late, upper=rng.choice(STRANGE)),
        replace(late, upper=max(0.0, float(truth.late) - by)), replace(late, upper=float(truth.late) * rng.random()),
        replace(late, witness=lying_rule(rng, late.witness)), replace(late, witness=_retyped_rule(rng, late.witness)),
        replace(late, witness=claim.witness), rng.choice(STRANGE), None,
    ))  # fmt: skip


def _real(value: object) -> bool:
    return type(value) is float


def _restructured(rng: random.Random, claim: Certificate) -> Certificate:
    """A field of another kind, or one that is for another claim."""
    window = rng.choice(((-1, 99), (0, 0), (0, 1), (1, 0), (-1, 0), (1, 1, 1), (), (-1.0, 5.0), (True, 5), None, "ab"))
    return replace(claim, **rng.choice((
        {"window": window}, {"goal": rng.choice(("transparent", "opaque ", None, 1))}, {"witness": None},
        {"goal": "transparent", "witness": None, "lower": 0.0}, {"prune": 10.0 ** rng.uniform(-12, 1)},
        {"merge": rng.choice((1, 2, 3, 2**31, -1))}, {"values": rng.choice((np.zeros((1, 1)), np.full((1, 3), np.nan), 3))},
        {"feasible": rng.choice((1, 0, None, "yes", np.True_))}, {"versions": rng.choice(({}, None, {"veil": 10**400}))},
        {"witness": rng.choice((3, "rule", ()))},
    )))  # fmt: skip


def _retyped(rng: random.Random, array: Any) -> Any:
    """An array in another type or of another shape."""
    if not isinstance(array, np.ndarray) or not array.size:
        return rng.choice((np.zeros((1, 1)), None, 3))
    kind = rng.randrange(10)
    if kind < 4:
        with np.errstate(all="ignore"):
            clean = array if array.dtype.kind not in "fc" else np.nan_to_num(array.real, posinf=100.0, neginf=-100.0)
            return np.clip(clean.astype(float), -128, 127).astype(rng.choice(TYPES))
    masked = np.ma.masked_array(
        array, mask=np.array([rng.random() < 0.5 for _ in range(array.size)]).reshape(array.shape)
    )
    return (
        array.T, array.ravel(), array[None], array[:-1], np.concatenate([array, array]), array[::-1], array.tolist(), masked
    )[rng.randrange(8)]  # fmt: skip


def _retyped_rule(rng: random.Random, rule: Witness) -> Witness:
    if rule.path_costs and rng.random() < 0.5:
        return _retyped_path(rng, rule)
    following, place = rule.following, rng.randrange(4)
    if place == 0:
        return replace(rule, first=_retyped(rng, rule.first))
    if place == 1 and rule.prices and isinstance(rule.prices, tuple) and rng.random() < 0.5:  # not changed before
        return replace(rule, prices=rng.choice((STRANGE[:1], (rng.choice(STRANGE),) * len(rule.prices), (), None, 0.5)))
    if place == 1:
        return replace(rule, multiplier=rng.choice(STRANGE))
    if place == 2 and isinstance(following, tuple) and following:
        time = rng.randrange(len(following))
        changed = (*following[:time], _retyped(rng, following[time]), *following[time + 1 :])
        return replace(rule, following=rng.choice((changed, changed[:-1], (*changed, changed[-1]), list(changed))))
    return replace(rule, costs=_retyped(rng, rule.costs))


def _retyped_path(rng: random.Random, rule: Witness) -> Witness:
    name = rng.choice(("path_keys", "path_costs"))
    parts = getattr(rule, name)
    if not isinstance(parts, tuple) or not parts:
        return rule
    time = rng.randrange(len(parts))
    changed = (*parts[:time], _retyped(rng, parts[time]), *parts[time + 1 :])
    return replace(
        rule, **{name: rng.choice((changed, changed[:-1], (*changed, changed[-1]), list(changed), (), None))}
    )


def _lying_path(rng: random.Random, rule: Witness) -> Witness:
    """A rule for paths that would prove too much: cheaper entries, rows that are split into several, entries said twice."""
    honest = all(
        isinstance(part, tuple) and all(isinstance(one, np.ndarray) and len(one) for one in part)
        for part in (rule.path_keys, rule.path_costs)
    )
    if not honest or len(rule.path_keys) != len(rule.path_costs):
        return rule
    time = rng.randrange(len(rule.path_costs))
    keys, costs = rule.path_keys[time].copy(), rule.path_costs[time].copy()
    if keys.ndim != 2 or costs.ndim != 1 or len(keys) != len(costs) or costs.dtype != np.float64:
        return rule
    row, kind = rng.randrange(len(costs)), rng.randrange(6)
    if kind == 0:
        costs[row] = max(0.0, costs[row] - 10.0 ** rng.uniform(-13, 0))
    elif kind == 1:
        costs = rng.choice((np.zeros_like(costs), costs - 2.0**-39, costs * rng.uniform(0, 1), -costs))
    elif kind == 2:
        keys, costs = np.repeat(keys, 2, axis=0), np.repeat(costs, 2)
    elif kind == 3:  # the whole row for one entry
        costs[(keys[:, :2] == keys[row, :2]).all(axis=1)] = np.inf
        costs[row] = rng.choice((0.0, 2.0**-39))
    elif kind == 4:
        order = np.random.default_rng(rng.randrange(2**32)).permutation(len(costs))
        keys, costs = keys[order], costs
    else:
        keys = keys.astype(np.int64) + rng.choice((1, -1, 2**40, -(2**63) + 1)) * (np.arange(len(keys)) == row)[:, None]
    places = (*rule.path_keys[:time], keys, *rule.path_keys[time + 1 :])
    return replace(rule, path_keys=places, path_costs=(*rule.path_costs[:time], costs, *rule.path_costs[time + 1 :]))


def lying_rule(rng: random.Random, rule: Witness) -> Witness:
    """A rule that would prove too much, or one that is honest and proves something else."""
    if rule.path_costs and rng.random() < 0.8:
        return _lying_path(rng, rule)
    costs = rule.costs
    if not (isinstance(costs, np.ndarray) and costs.ndim == 2 and costs.size and costs.dtype == np.float64):
        return rule
    draw, values = np.random.default_rng(rng.randrange(2**32)), costs.shape[1]
    row, column = rng.randrange(len(costs)), rng.randrange(values)
    lowered, cheap, point = costs.copy(), costs.copy(), np.full_like(costs, np.inf)
    lowered[row, column] = max(0.0, lowered[row, column] - 10.0 ** rng.uniform(-13, 0))
    cheap[row] = 0.0
    point[:, column] = rng.choice((0.0, 2.0**-39))
    fresh = -np.log2(draw.dirichlet(np.full(values, 0.5), size=len(costs)) * (1 - 2.0**-38) + 1e-300)
    made = rng.choice((
        lowered, cheap, point, fresh, costs * rng.uniform(0, 1), costs - 2.0**-39, np.zeros_like(costs),
        np.full_like(costs, np.log2(values) - 10.0 ** rng.uniform(-14, 0)), -costs,
    ))  # fmt: skip
    rule = replace(rule, costs=np.where(np.isnan(made), np.inf, made))
    if rng.random() < 0.4 and _real(rule.multiplier):
        rule = replace(rule, multiplier=rng.choice((0.0, 2.0, -1.0, 0.5, 1e6, 1e-9)) * (rule.multiplier or 1.0))
    if rng.random() < 0.4 and isinstance(rule.prices, tuple) and all(map(_real, rule.prices)):
        scale = rng.choice((0.0, 2.0, -1.0, 0.5, 1e6, 1e-9))
        rule = replace(rule, prices=tuple(scale * (price or 1.0) for price in rule.prices))
    if rng.random() < 0.4 and isinstance(rule.following, tuple) and rule.following:
        last = rule.following[-1]
        if isinstance(last, np.ndarray):
            wrong = rng.choice((row, -1, -2, len(costs), -(2**63), 2**62))
            rule = replace(rule, following=(*rule.following[:-1], np.full(last.shape, wrong)))
    return rule


def _forged_policy(rng: random.Random, policy: Any) -> Any:
    """Another policy, or one whose arrays did not pass its constructor."""
    if getattr(policy, "forged", False):
        return policy
    if rng.random() < 0.3:
        return corrupt_policy(rng, policy)
    forged = object.__new__(type(policy))
    forged.__dict__.update(policy.__dict__)
    forged.__dict__["forged"] = True
    if not isinstance(policy, HistoryPolicy):
        forged.__dict__["probabilities"] = _spoiled(rng, policy.probabilities)
        return forged
    decisions, following = list(policy.decisions), list(policy.following)
    time = rng.randrange(len(decisions))
    rows, order = decisions[time], list(range(len(decisions[time])))
    kind = rng.randrange(5)
    if kind == 0:
        decisions[time] = replace(rows, probabilities=_spoiled(rng, rows.probabilities))
    elif kind == 1:
        rng.shuffle(order)
        decisions[time] = replace(rows, **{name: getattr(rows, name)[order] for name in ("node", "situation", "value")})
    elif kind == 2:
        field = rng.choice(("node", "situation", "value"))
        changed = getattr(rows, field).astype(np.int64)
        changed[rng.randrange(len(changed))] = rng.choice((-2, -1, 0, 1, 2, 50, 2**40))
        decisions[time] = replace(rows, **{field: changed})
    elif kind == 3:
        table = following[time].copy()
        table[rng.randrange(len(table)), rng.randrange(table.shape[1])] = rng.choice((-2, -1, 0, 1, 2, 50))
        following[time] = table
    else:
        forged.__dict__["_executable"] = not policy.executable
    forged.__dict__.update(decisions=tuple(decisions), following=tuple(following))
    return forged


def _spoiled(rng: random.Random, table: np.ndarray) -> np.ndarray:
    """Rows that are no distributions, or only nearly, or of another type or shape."""
    table = table.copy()
    row = tuple(rng.randrange(size) for size in table.shape[:-1])
    place = (*row, rng.randrange(table.shape[-1]))
    kind = rng.randrange(6)
    if kind == 0:
        table[place] = rng.choice((-0.5, 1.5, np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308))
    elif kind == 1:
        table[row] *= 1 + rng.choice((-1, 1)) * 10.0 ** rng.uniform(-16, -1)
    elif kind == 2:
        table[place] += 1.5
        table[(*row, (place[-1] + 1) % table.shape[-1])] -= 1.5
    elif kind == 3:
        table = table.astype(rng.choice((np.float16, np.float32, np.int8)))
    elif kind == 4:
        table = table[..., :-1] if rng.random() < 0.5 else table[:-1]
    else:
        table[row] = 0.0
    return table
