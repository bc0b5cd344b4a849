"""Lies about certificates: structural and numerical changes of every item, with words and seal made anew; and what is true."""

import random
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import veil
from tests.game.test_records import random_pairs
from tests.proof.cases import KINDS, constrained, noisy_problem, random_policy, random_problem, with_path
from veil.common.errors import CertificateError, TooLargeError
from veil.engine.return_range import threshold
from veil.game.solve import solve_game
from veil.measure.constrained import quantity_values
from veil.policy.history import HistoryPolicy
from veil.proof.certificate import Certificate
from veil.proof.claims import Sampled
from veil.proof.compiled import free_quantities
from veil.proof.words import claim_words, seal_of

STRANGE = (
    None, True, "1", b"1", [1.0], (), {}, 1j, 10**400, -(10**400), 2**53 + 1, -1, 0, 1, -0.0, 5e-324, 1e308, np.nan, np.inf,
    -np.inf, np.float16(0.3), np.float32(0.5), np.float64(0.5), np.int8(-128), np.uint64(2**64 - 1), np.array(0.5),
    Fraction(1, 3), Decimal("0.1"),
)  # fmt: skip
TYPES = (np.int8, np.int16, np.uint8, np.int64, np.uint64, np.float16, np.float32, np.longdouble, complex, bool, object)
PLACE = re.compile(r"(?!None)\w[\w ()]*: (?!None$)")  # how the words of a refusal begin
OFF = 1e-9  # what two ways to compute a number may differ by


class Truth:
    """What a policy hides and earns, and the most that some policy within the constraints is known to hide."""

    def __init__(self, problem: veil.Problem, policy: veil.Policy, hidden: tuple[int, ...]):
        names = [one.name for one in problem.channels]
        self.bits = {n: veil.opacity(problem, policy, pair=name, method="exact").bits for n, name in enumerate(names)}
        self.values, self.problem = [0.0], problem
        if problem.return_over == "horizon":
            values = {one.name: one.value for one in veil.constraint_values(problem, policy)}
            self.values = [veil.expected_return(problem, policy), *(values[one.name] for one in problem.others)]
            every = quantity_values(problem, policy)
            self.values += [every[number] for number in free_quantities(problem)]
        self.best = _best(problem, tuple(names[one] for one in hidden))

    def allows(self, claim: Certificate) -> bool:
        """Whether everything that is claimed is so, up to the rounding of this computation."""
        for one in claim.channels:
            bits = self.bits[one.number]
            if not one.lower - OFF <= bits <= one.upper + OFF:
                return False
            if one.sampled is not None and not one.sampled.lower - OFF <= bits <= one.sampled.upper + OFF:
                return False
        if claim.goal == "opaque" and claim.lower > self._objective(claim) + OFF * (1 + abs(claim.lower)):
            return False
        for one, value in zip(claim.quantities, self.values, strict=False):
            if self.problem.return_over != "horizon":
                break
            far = abs(one.value - value) > one.error + OFF * (1 + abs(value))
            missed = one.bound is not None and one.sign * (value - one.bound)
            if far or (one.met and missed is not False and missed < -OFF):  # not met: nothing is claimed of the bound
                return False
        best = self.best
        if any(one.factor for one in claim.quantities):
            best = self._objective(claim) if self.problem.return_over == "horizon" and self.meets(claim) else -np.inf
        return all(one.upper >= best - OFF * (1 + abs(best)) for one in claim.bounds if not one.delay)

    def meets(self, claim: Certificate) -> bool:
        """Whether the policy is one of those that an upper bound is about."""
        kept = all(self.bits[one.number] >= (one.min or 0.0) for one in claim.channels)
        return kept and all(one.met for one in claim.quantities)

    def _objective(self, claim: Certificate) -> float:
        """What the policy hides in the least of the channels, and what it has of the task."""
        if claim.quantities[0].factor and self.problem.return_over != "horizon":
            return np.inf
        pairs = zip(claim.quantities, self.values, strict=False)
        return min(self.bits[one] for one in claim.hidden) + sum(
            one.factor * value for one, value in pairs if one.factor
        )


def _best(problem: veil.Problem, names: tuple[str, ...]) -> float:
    """What some policy hides that meets the constraints; minus infinity where none is looked for."""
    problem = problem.informed
    if problem.secret_table.each is not None:
        return -np.inf
    if problem.return_over != "horizon" or problem.others or any(one.min for one in problem.channels):
        return -np.inf
    if names != ("own",):
        return solve_game(problem, hide=names, gap=1e-3).lower
    return solve_game(problem, threshold=threshold(problem), iterations=60).lower


def honest(seed: int) -> tuple[veil.Problem, veil.Policy, Certificate]:
    """A true certificate: of one channel or several, with constraints, paths, delays, every kind of policy, drawn or proven."""
    rng, hide, goal = random.Random(seed), "own", "transparent" if seed % 11 == 7 else "opaque"
    if seed % 6 == 5:
        problem, hide = random_pairs(seed), rng.choice(("own, p0", "p0", "own"))
        kinds = ("markov", "timed", "states")
        if seed % 4 == 1:
            problem = problem.replace(pairs=[_with_min(one, rng) for one in problem.pairs])
    elif seed % 6 == 3:
        problem, kinds = noisy_problem(seed), ("markov", "timed", "states", "zones", "controller")
    else:
        problem, kinds = random_problem(seed, work=300, most_pairs=400), KINDS
    if seed % 5 == 4 and len(problem.models) == 1 and hide == "own" and not problem.pairs:
        problem = with_path(problem, seed)
    if seed % 3 == 0 and problem.return_over == "horizon" and hide == "own":
        problem = constrained(problem, seed)
    policy = random_policy(problem, kinds[seed % len(kinds)], seed)
    if goal == "transparent":
        hide = "own"
    task = None
    if (
        seed % 7 == 3
        and goal == "opaque"
        and problem.return_over == "horizon"
        and not isinstance(policy, HistoryPolicy)
    ):
        task = rng.choice(("0.7*return", "-2*return", "0.3*return - 0.5*return"))
    claim = veil.certify(problem, policy, 0.3, goal=goal, hide=hide, task=task, progress=False)  # type: ignore[arg-type]
    return (
        problem,
        policy,
        drawn(claim, problem, policy) if seed % 4 == 2 and problem.return_over != "infinite" else claim,
    )


def _with_min(pair: veil.Pair, rng: random.Random) -> veil.Pair:
    return veil.Pair(pair.name, pair.observer, pair.secret, min=round(rng.random() * 0.05, 3))


def drawn(claim: Certificate, problem: veil.Problem, policy: veil.Policy) -> Certificate:
    """The certificate with what the policy hides in its first channel claimed with confidence only."""
    one = claim.channels[0]
    bits = veil.opacity(problem, policy, method="exact").bits
    if problem.secret_table.path is not None or one.min or one.max is not None:
        return claim
    most = float(np.log2(len(problem.secret_values))) * (1 + 1e-15)
    told = Sampled(max(0.0, bits - 0.35 * most), most, 1000)
    channels = replace(one, lower=0.0, upper=max(most, one.upper), window=(0, 0), sampled=told)
    if claim.goal == "transparent":
        told = Sampled(0.0, min(most, bits + 0.35 * most), 1000)
        channels = replace(one, lower=0.0, upper=most, window=(-1, problem.horizon + 1), sampled=told)
    time = problem.secret_table.time
    channels = replace(channels, window=(time, time) if time <= problem.horizon else channels.window, upper=most)
    return dressed(replace(claim, channels=(channels, *claim.channels[1:]), best_known=None))


def is_refused(verify: Callable[[Certificate], object], claim: Certificate) -> bool:
    """Whether a verifier refuses a certificate, or says that it cannot tell; its first words are the place of the fault."""
    words = ""
    try:
        verify(claim)
    except TooLargeError:
        return True
    except CertificateError as error:
        words = str(error)
    assert not words or PLACE.match(words), words
    return bool(words)


def dressed(claim: Certificate) -> Certificate:
    """The certificate with the words and the seal that fit what it now says."""
    for make in (lambda one: {"claim": claim_words(one)}, lambda one: {"seal": seal_of(one)}):
        try:
            claim = replace(claim, **make(claim))
        except Exception:  # what is strange enough has no words: the verifier gets it with the old ones
            continue
    return claim


def lie(rng: random.Random, claim: Certificate, truth: Truth) -> Certificate:
    """The certificate with one to three changes, and mostly with words that fit."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        claim = false_number(rng, claim, truth) if rng.random() < 0.5 else mutated(rng, claim)
        if type(claim) is not Certificate:
            return claim
    return claim if rng.random() < 0.05 else dressed(claim)


def false_number(rng: random.Random, claim: Certificate, truth: Truth) -> Certificate:
    """One number that is false by much or by little, in a channel, a quantity or a bound."""
    by = 10.0 ** rng.uniform(-7.5, 0)
    try:
        kind = rng.randrange(4)
        if kind == 0 and claim.bounds:
            place = rng.randrange(len(claim.bounds))
            upper = max(0.0, truth.best - by) if np.isfinite(truth.best) else claim.bounds[place].upper * rng.random()
            bounds = (*claim.bounds[:place], replace(claim.bounds[place], upper=upper), *claim.bounds[place + 1 :])
            return replace(claim, bounds=bounds, best_known=None)
        if kind == 1 and claim.quantities:
            place = rng.randrange(len(claim.quantities))
            one, value = claim.quantities[place], truth.values[min(place, len(truth.values) - 1)]
            made = rng.choice((
                {"value": value + by * rng.choice((-1, 1))}, {"value": value + by, "error": by / 2}, {"met": not one.met},
                {"error": by}, {"bound": value, "met": True}, {"bound": None, "met": True},
                {"sequences": 1000}, {"sequences": 1000, "error": one.error + by, "met": True},
            ))  # fmt: skip
            return replace(claim, quantities=_put(claim.quantities, place, replace(one, **made)))
        place = rng.randrange(len(claim.channels))
        one = claim.channels[place]
        bits = truth.bits[one.number]
        made = rng.choice((
            {"lower": bits + by, "upper": max(one.upper, bits + by)}, {"upper": bits - by, "lower": 0.0},
            {"sampled": Sampled(bits + by, max(one.upper, bits + by), rng.choice((2, 100, 2000)))},
            {"sampled": Sampled(0.0, max(0.0, bits - by), rng.choice((2, 100, 2000)))},
        ))  # fmt: skip
        return replace(claim, channels=_put(claim.channels, place, replace(one, **made)))
    except (TypeError, AttributeError, IndexError, ValueError, KeyError):  # an earlier change left nothing to lie about
        return claim


def _put(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


def mutated(rng: random.Random, value: Any) -> Any:
    """A value with one change somewhere inside of it."""
    if rng.random() < 0.04:
        return rng.choice(STRANGE)
    if is_dataclass(value) and not isinstance(value, type):
        name = rng.choice([one.name for one in fields(value)])
        return replace(value, **{name: mutated(rng, getattr(value, name))})
    if isinstance(value, tuple) and value:
        place = rng.randrange(len(value))
        if rng.random() < 0.7:
            return _put(value, place, mutated(rng, value[place]))
        return rng.choice((value[:place] + value[place + 1 :], (*value, value[place]), value[::-1], list(value)))
    if isinstance(value, np.ndarray):
        return _array(rng, value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1, 2, 7))
    if isinstance(value, float):
        return rng.choice(
            (value + rng.choice((-1, 1)) * 10.0 ** rng.uniform(-12, 1), 0.0, -value, value / 2, value * 2)
        )
    if isinstance(value, str):
        return rng.choice((value + "x", value[1:], "", value.upper()))
    return rng.choice(STRANGE)


def _array(rng: random.Random, array: np.ndarray) -> Any:
    """An array with another entry, type or shape."""
    if not array.size or not array.ndim or rng.random() < 0.15:
        return rng.choice((np.zeros((1, 1)), np.zeros(0), array[None], array.ravel()[:0]))
    kind = rng.randrange(8)
    if kind == 0:
        with np.errstate(all="ignore"):
            clean = np.nan_to_num(array, posinf=100.0, neginf=-100.0) if array.dtype.kind == "f" else array
            clean = np.real(clean) if clean.dtype.kind == "c" else clean  # an array may be changed more than once
            return clean.astype(rng.choice(TYPES))
    if kind == 1:
        return array[:-1] if rng.random() < 0.5 else np.concatenate([array, array[:1]])
    changed, place = array.copy(), tuple(rng.randrange(size) for size in array.shape)
    if array.dtype.kind == "f":
        by = rng.choice((-1, 1)) * 10.0 ** rng.uniform(-6, 1)
        changed[place] = rng.choice((np.inf, np.nan, 0.0, changed[place] + by, -changed[place]))
        if rng.random() < 0.2:
            changed = changed - abs(by)
    elif array.dtype.kind in "iu":
        other = rng.choice((-1, 0, 1, 2, 10**6, int(changed[place]) + 1))
        changed[place] = np.array(other).astype(array.dtype)  # which wraps what the type cannot hold
    return changed
