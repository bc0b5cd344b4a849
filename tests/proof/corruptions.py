"""Single-field corruptions of a certificate or of the policy that it is about."""

import random
from dataclasses import fields, replace
from typing import Any

import numpy as np

import veil
from veil.policy.history import HistoryPolicy
from veil.proof.certificate import Certificate, DelayedBound, ProvenConstraint, Witness
from veil.proof.claim import claim_words

NUMBERS = ("lower", "upper", "expected_return", "return_error", "threshold", "best_known", "prune")
WORDS = ("policy_class", "bound_class", "problem_hash", "policy_hash", "claim", "goal", "seal")
PATH = ("path costs", "path keys", "path part")
WITNESS = ("memory", "multiplier", "costs", "edge", "first", "cost to infinity", "drop a step", "swap rows")


def nudge(rng: random.Random, value: float) -> float:
    """A number that is a little or very different."""
    change = rng.choice((1e-10, 1e-6, 1e-3, 0.1, 1.0, 1e3)) * rng.choice((-1, 1))
    found = rng.choice((value + change, value * (1 + change), -value - change, np.nan, np.inf))
    return value + 1e-3 if found == value else found  # as 0 times anything


def corrupt(rng: random.Random, claim: Certificate, policy: Any) -> tuple[str, Certificate, Any]:
    """One field changed; the words of the claim are made anew where numbers changed, so that they do not give it away."""
    several = ("constraints",) * 4 + ("prices",) * 4 if claim.constraints else ()
    several += PATH * 4 if claim.witness is not None and claim.witness.path_keys else ()
    several += ("delayed",) * 4 if claim.delayed is not None else ()
    kind = rng.choice(
        (*NUMBERS, *WORDS, *WITNESS, *WITNESS, *several, "window", "merge", "feasible", "policy", "policy", "missing")
    )
    if kind in NUMBERS:
        value = getattr(claim, kind)
        changed = rng.random() if value is None else nudge(rng, value)
        return kind, _reworded(claim, **{kind: changed}), policy
    if kind in WORDS:
        value = getattr(claim, kind)
        place = rng.randrange(len(value))
        letter = rng.choice("0123456789abcdef".replace(value[place], ""))
        return kind, replace(claim, **{kind: value[:place] + letter + value[place + 1 :]}), policy
    if kind == "window":
        left, right = claim.window
        return kind, replace(claim, window=(left + rng.choice((0, 1, 2)), right - rng.choice((1, 2)))), policy
    if kind == "merge":
        return kind, replace(claim, merge=rng.choice((-1, 1, 2, 10**6))), policy
    if kind == "feasible":
        return kind, _reworded(claim, feasible=not claim.feasible), policy
    if kind == "constraints":
        return kind, _reworded(claim, constraints=corrupt_constraints(rng, claim.constraints)), policy
    if kind == "delayed":
        return kind, _reworded(claim, delayed=corrupt_delayed(rng, claim.delayed)), policy
    if kind == "missing":
        field = rng.choice([one.name for one in fields(claim) if getattr(claim, one.name) is not None])
        return f"missing {field}", replace(claim, **{field: None}), policy
    if kind == "policy":
        changed = corrupt_policy(rng, policy)
        # Half of them with a hash to match: then only the numbers can tell.
        return kind, replace(claim, policy_hash=changed.digest()) if rng.random() < 0.5 else claim, changed
    assert claim.witness is not None
    return kind, replace(claim, witness=corrupt_witness(rng, claim.witness, kind)), policy


def _reworded(claim: Certificate, **changes: Any) -> Certificate:
    changed = replace(claim, **changes)
    try:
        return replace(changed, claim=claim_words(changed))
    except (TypeError, ValueError, OverflowError):
        return changed


def corrupt_delayed(rng: random.Random, late: Any) -> DelayedBound:
    """Another delay, another bound, or a rule with one entry changed."""
    if rng.random() < 0.3:
        return replace(late, delay=rng.choice((0, 2, True, 1.0, -1)))
    if rng.random() < 0.4:
        return replace(late, upper=nudge(rng, late.upper))
    kind = rng.choice([one for one in WITNESS if one != "memory"])
    return replace(late, witness=corrupt_witness(rng, late.witness, kind))


def corrupt_constraints(rng: random.Random, constraints: tuple[ProvenConstraint, ...]) -> tuple[ProvenConstraint, ...]:
    """One constraint left out, said twice, or with one entry changed."""
    place = rng.randrange(len(constraints))
    one = constraints[place]
    number = rng.choice(("bound", "value", "error"))
    changed = rng.choice((
        (), (one, one), (replace(one, met=not one.met),), (replace(one, name=f"{one.name}'"),),
        (replace(one, relation="≥" if one.relation == "≤" else "≤"),),
        *[(replace(one, **{number: nudge(rng, getattr(one, number))}),)] * 5,
    ))  # fmt: skip
    return (*constraints[:place], *changed, *constraints[place + 1 :])


def corrupt_witness(rng: random.Random, witness: Witness, kind: str) -> Witness:
    if kind in PATH:
        return corrupt_path(rng, witness, kind)
    costs, following = witness.costs.copy(), list(witness.following)
    place = rng.randrange(len(costs)), rng.randrange(costs.shape[1])
    if kind == "memory":
        return replace(witness, memory=f"all of {witness.memory}")
    if kind == "multiplier":
        return replace(witness, multiplier=nudge(rng, witness.multiplier))
    if kind == "prices":
        number = rng.randrange(max(1, len(witness.prices)))
        prices = [nudge(rng, price) if place == number else price for place, price in enumerate(witness.prices)]
        return replace(witness, prices=tuple(rng.choice((prices, prices, prices, prices[:-1], [*prices, 0.0]))))
    if kind == "costs":
        costs[place] = nudge(rng, costs[place] if np.isfinite(costs[place]) else 1.0)
    elif kind == "cost to infinity":
        costs[place] = np.inf
    elif kind == "swap rows":
        costs[[place[0], 0]] = costs[[0, place[0]]]
    elif kind == "first" or not following:
        first = witness.first.copy()
        first[rng.randrange(len(first))] = rng.choice((-1, 0, 1, 7, 10**6))
        return replace(witness, first=first)
    elif kind == "drop a step":
        del following[rng.randrange(len(following))]
    else:
        time = rng.randrange(len(following))
        table = following[time].copy()
        table[rng.randrange(len(table)), rng.randrange(table.shape[1])] = rng.choice((-1, 0, 1, 2, 10**6))
        following[time] = table
    return replace(witness, costs=costs, following=tuple(following))


def corrupt_path(rng: random.Random, witness: Witness, kind: str) -> Witness:
    """A rule for paths with one entry or one part changed."""
    keys, costs = list(witness.path_keys), list(witness.path_costs)
    time = rng.randrange(len(keys))
    if kind == "path part":
        other = rng.randrange(len(keys))
        keys[time], costs[time] = rng.choice(((keys[other], costs[other]), (keys[time][:-1], costs[time][:-1])))
    elif len(keys[time]):
        row = rng.randrange(len(keys[time]))
        keys[time], costs[time] = keys[time].copy(), costs[time].copy()
        if kind == "path costs":
            costs[time][row] = nudge(rng, costs[time][row] if np.isfinite(costs[time][row]) else 1.0)
        else:
            keys[time][row, rng.randrange(3)] = rng.choice((-1, 0, 1, 2, 10**6))
    return replace(witness, path_keys=tuple(keys), path_costs=tuple(costs))


def corrupt_policy(rng: random.Random, policy: Any) -> Any:
    """The policy with one row changed."""
    if isinstance(policy, HistoryPolicy):
        decisions = list(policy.decisions)
        time = rng.randrange(len(decisions))
        rows = _moved(rng, decisions[time].probabilities)
        decisions[time] = replace(decisions[time], probabilities=rows)
        told = {"told_at": policy.told_at, "told": policy.told}
        return HistoryPolicy(policy.first, policy.following, decisions, executable=policy.executable, **told)
    rows = _moved(rng, policy.probabilities.reshape(-1, policy.probabilities.shape[-1])).reshape(
        policy.probabilities.shape
    )
    if isinstance(policy, veil.MemoryPolicy):
        return veil.MemoryPolicy(policy.memory, rows)
    return type(policy)(rows)


def _moved(rng: random.Random, rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    row = rng.randrange(len(rows))
    weights = rows[row] * np.array([rng.random() for _ in rows[row]])
    other = weights if weights.sum() else rows[row]
    rows[row] = np.roll(rows[row], 1) if rng.random() < 0.5 else other / other.sum()
    return rows
