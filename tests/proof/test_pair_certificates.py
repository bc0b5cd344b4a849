"""Certificates of several pairs: read back as they were, and lies about weights, rules, bounds, names and policies refused."""

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.game.all_paths import hidden_bits
from tests.game.test_records import random_pairs, random_secrets
from tests.planning.test_pairs import two_sensors
from tests.problem.test_constraints import make_problem
from tests.proof.attacks import dressed
from tests.proof.test_second_verifier import code, saved
from veil.common.errors import CertificateError
from veil.game.records import solve_records_game
from veil.proof.certificate import Certificate, ProvenPair
from veil.proof.witness import Witness

_CERTAIN = 1e-9  # bits: floats of the truth are closer than this


class Target:
    """A problem with pairs, an honest certificate, and the truth: bits of the policy, and bits that some policy hides."""

    def __init__(self, problem: veil.Problem, hide: tuple[str, ...], *, plays_game: bool = False):
        self.problem, self.hide = problem, hide
        self.game = solve_records_game(problem, hide)
        self.policy = self.game.policy() if plays_game else veil.MarkovPolicy.uniform(problem)
        self.honest = veil.certify(problem, self.policy, hide=", ".join(hide), game=self.game, progress=False)
        values = veil.pair_values(problem, self.policy, "exact")
        self.bits = {"own": veil.opacity(problem, self.policy, "exact").bits} | {one.name: one.bits for one in values}
        free = problem.replace(pairs=[replace(one, min=None) for one in problem.pairs])
        sets: list[tuple[str, ...]] = [("own",), ("p0",), ("own", "p0")]
        self.free = {names: solve_records_game(free, names).lower for names in sets}

    def is_true(self, claim: Certificate) -> bool:
        """Whether all numbers of a claim are right; a claim without pairs is also about policies that keep no bounds."""
        free = self.free[("own", "p0") if len(claim.hide) > 1 else claim.hide]
        most = self.game.lower if claim.hide == self.hide and claim.pairs else free if not claim.kept else 0.0
        right = claim.lower <= min(self.bits[name] for name in claim.hide) + _CERTAIN and claim.upper >= most - _CERTAIN
        given = {one.name: (one.min, one.max) for one in self.problem.pairs}
        return right and all(
            one.lower <= self.bits[one.name] + _CERTAIN
            and one.upper >= self.bits[one.name] - _CERTAIN
            and (one.min, one.max) == given[one.name]
            for one in claim.pairs
        )


@pytest.fixture(scope="module")
def targets() -> list[Target]:
    found = [Target(random_pairs(seed), ("own", "p0")) for seed in (2, 5)]
    last = found[-1]
    kept = replace(last.problem.pairs[0], min=0.5 * (last.free["own", "p0"] + last.free["p0",]))
    bounded = last.problem.replace(pairs=[kept])
    easier = last.problem.replace(pairs=[replace(kept, min=0.98 * last.free["own", "p0"])])
    games = [Target(easier, ("own",), plays_game=True), Target(last.problem, ("own", "p0"), plays_game=True)]
    asking = [Target(random_secrets(seed), ("own", "p0"), plays_game=True) for seed in (29, 25)]
    asking.append(Target(random_secrets(25), ("own", "p0")))
    return [*found, Target(bounded, ("own",)), *games, *asking]


def playing(targets: list[Target]) -> list[Target]:
    """Those whose policy is that of a game."""
    return [one for one in targets if isinstance(one.policy, veil.HistoryPolicy)]


@pytest.mark.slow
def test_the_certificates_need_several_observers(targets: list[Target]):
    """Otherwise the lies below would be about one observer."""
    for one in (*targets[:3], *targets[4:]):
        assert one.honest.witness is not None
        assert len(one.honest.witness.others) == 1
    assert targets[2].honest.witness is not None
    assert targets[2].honest.witness.others[0].weight > 0.01


def lies(rng: random.Random, claim: Certificate) -> Certificate:
    """The claim with one thing changed."""
    witness = claim.witness
    assert witness is not None
    other, by = witness.others[0] if witness.others else replace(witness, pair="p0"), 10.0 ** rng.uniform(-12, 0)
    strange: Any = rng.choice(
        (0.0, -0.0, -1.0, -by, math.nan, math.inf, 1e7, 10**400, True, "1", None, np.float32(0.5))
    )
    swapped = replace(
        other, multiplier=witness.multiplier, prices=witness.prices,
        others=(replace(witness, multiplier=0.0, prices=(), others=()),),
    )  # fmt: skip
    rules: list[Witness] = [
        replace(witness, weight=strange), replace(witness, others=(replace(other, weight=strange),)),
        replace(witness, weight=witness.weight - by), replace(witness, others=(replace(other, weight=other.weight - by),)),
        replace(witness, weight=witness.weight * (1 - by), others=(replace(other, weight=other.weight * (1 - by)),)),
        replace(witness, weight=0.5, others=(replace(other, weight=0.5),)), replace(witness, weight=2.0),
        replace(witness, weight=-1.0, others=(replace(other, weight=2.0),)), replace(witness, others=()),
        swapped, replace(witness, pair=other.pair, others=(replace(other, pair=witness.pair),)),
        replace(witness, others=(other, other)), replace(witness, others=(replace(other, pair="own"),)),
        replace(witness, others=(replace(other, pair="nobody"),)), replace(witness, pair=other.pair),
        replace(witness, others=(replace(other, others=(other,)),)), replace(witness, others=(replace(other, prices=(1.0,)),)),
        replace(witness, others=(replace(other, multiplier=1.0),)), replace(witness, multiplier=witness.multiplier + by),
        replace(witness, costs=witness.costs * (1 - by)), replace(witness, others=(replace(other, costs=other.costs * 0.9),)),
        replace(witness, others=(replace(other, costs=other.costs[:-1]),)), replace(witness, following=other.following),
        replace(witness, others=(replace(other, first=other.first[::-1].copy()),)),
        replace(witness, others=(replace(other, following=other.following[::-1]),)), replace(witness, others=(witness,)),
    ]  # fmt: skip
    pairs: list[tuple[ProvenPair, ...]] = [(), claim.pairs * 2] + [
        (replace(one, **change),)
        for one in claim.pairs
        for change in (
            {"lower": one.lower + by}, {"upper": one.upper - by}, {"min": by}, {"min": None}, {"max": one.upper},
            {"lower": -1.0}, {"name": "own"}, {"name": "nobody"}, {"merge": -1}, {"window": (0, 0)}, {"prune": 0.5},
            {"lower": strange},
        )
    ]  # fmt: skip
    hidden: list[Any] = [(), ("own",), ("p0",), ("own", "own"), ("p0", "own"), ("own", "nobody"), ["own"], "own", (1,)]
    changed = rng.choice(
        ({"witness": rng.choice(rules)}, {"pairs": rng.choice(pairs)}, {"hide": rng.choice(hidden)},
         {"upper": claim.upper - by}, {"lower": claim.lower + by}, {"upper": max(0.0, claim.upper - 0.3), "lower": 0.0})
    )  # fmt: skip
    return replace(claim, **changed)


def check_lies(target: Target, count: int, seed: int, folder: Path) -> int:
    """Both verifiers on lies, some with a smaller upper bound: what one accepts is true. Returns how many were refused."""
    rng, refused = random.Random(seed), 0
    for _ in range(count):
        claim = lies(rng, target.honest)
        if rng.random() < 0.5 and isinstance(claim.upper, float):
            claim = replace(claim, upper=claim.upper * rng.random(), lower=0.0, best_known=None)
        claim = dressed(target.problem, claim, target.policy)
        try:
            veil.verify(claim, target.problem, target.policy)
            assert target.is_true(claim)
        except CertificateError:
            refused += 1
        try:
            place = saved(folder, target.problem, target.policy, claim)
        except (CertificateError, TypeError, ValueError, AttributeError, OverflowError):
            continue  # cannot be written
        if code(place) == 0:
            assert target.is_true(replace(claim, hide=tuple(claim.hide)))
    return refused


def other_policy(rng: random.Random, policy: veil.HistoryPolicy) -> veil.HistoryPolicy:
    """The policy with other choices, edges or views."""
    parts: dict[str, Any] = policy._arguments()
    own, other = policy.views
    time = rng.randrange(policy.horizon)
    rows = policy.decisions[time]
    probabilities = rows.probabilities.copy()
    row = rng.randrange(len(rows))
    probabilities[row] = np.eye(probabilities.shape[1])[rng.randrange(probabilities.shape[1])]
    changed = [*policy.decisions]
    changed[time] = replace(rows, probabilities=probabilities)
    table = policy.following[time].copy()
    table[:, rng.randrange(table.shape[1])] = table[:, rng.randrange(table.shape[1])]
    graph = [*policy.following[:time], table, *policy.following[time + 1 :]]
    mixed = {name: tuple(np.roll(one, rng.randrange(3)) for one in view) for name, view in policy.views.items()}
    lie: dict[str, Any] = rng.choice(
        ({"decisions": changed}, {"following": graph}, {"views": {own: policy.views[other], other: policy.views[own]}},
         {"views": {other: policy.views[own], own: policy.views[other]}}, {"views": mixed}, {"views": {}},
         {"views": {own: policy.views[own], "nobody": policy.views[other]}}, {"first": policy.first[::-1].copy()})
    )  # fmt: skip
    return veil.HistoryPolicy(**parts | lie)


def check_policies(target: Target, count: int, seed: int, folder: Path) -> int:
    """The certificate with other policies, some bounds lowered: what a verifier accepts is so by all paths."""
    rng, refused = random.Random(seed), 0
    assert isinstance(target.policy, veil.HistoryPolicy)
    for _ in range(count):
        try:
            policy = other_policy(rng, target.policy)
        except veil.InputError:
            refused += 1
            continue
        scale = rng.choice((1.0, 0.999, 0.9, 0.5))
        pairs = tuple(
            replace(one, lower=scale * one.lower, upper=one.upper + rng.random()) for one in target.honest.pairs
        )
        honest = replace(target.honest, pairs=pairs, lower=scale * target.honest.lower)
        claim = dressed(target.problem, replace(honest, return_error=honest.return_error + 10, feasible=False), policy)
        claim = claim if rng.random() < 0.5 else dressed(target.problem, honest, policy)

        def is_true(policy: veil.HistoryPolicy = policy, claim: Certificate = claim) -> bool:
            bits = hidden_bits(target.problem, policy)
            least = min(bits[name] for name in claim.hide)
            within = all(one.lower - _CERTAIN <= bits[one.name] <= one.upper + _CERTAIN for one in claim.pairs)
            return claim.lower <= least + _CERTAIN and within

        try:
            veil.verify(claim, target.problem, policy)
            assert is_true()
        except CertificateError:
            refused += 1
        if code(saved(folder, target.problem, policy, claim)) == 0:
            assert is_true()
    return refused


@pytest.mark.slow
def test_a_lower_bound_is_that_of_the_policy(targets: list[Target], tmp_path: Path):
    """With other choices, another graph or other observers nothing is accepted that all paths do not confirm."""
    assert sum(check_policies(one, 12, seed, tmp_path / "result") for seed, one in enumerate(playing(targets))) > 12


@pytest.mark.slow
def test_many_lower_bounds_are_those_of_the_policy(targets: list[Target], tmp_path: Path):
    """The same, 600 times."""
    for seed, one in enumerate(playing(targets)):
        check_policies(one, 300, 10 + seed, tmp_path / "result")


def test_the_policies_of_games_are_proven_on_both_sides(targets: list[Target]):
    """Their lower bounds are those of all paths, and 0.002 bits below the upper bounds or nearer."""
    for one in playing(targets):
        assert isinstance(one.policy, veil.HistoryPolicy)
        bits = hidden_bits(one.problem, one.policy)
        assert one.honest.lower == pytest.approx(min(bits[name] for name in one.hide), abs=1e-9)
        assert one.honest.upper - one.honest.lower <= 2e-3


def test_lies_about_pairs_are_refused(targets: list[Target], tmp_path: Path):
    """Of any change nothing is accepted that is not true."""
    refused = sum(check_lies(one, 8, seed, tmp_path / "result") for seed, one in enumerate(targets))
    assert refused > 26


@pytest.mark.slow
def test_many_lies_about_pairs_are_refused(targets: list[Target], tmp_path: Path):
    """The same, 1,500 times."""
    for seed, one in enumerate(targets):
        check_lies(one, 300, 10 + seed, tmp_path / "result")


def test_a_certificate_is_read_back_as_it_was(targets: list[Target], tmp_path: Path):
    """All rules, weights and pairs; the words name the pairs and what each keeps."""
    for one in targets:
        one.honest.save(tmp_path / "certificate.json")
        read = Certificate.load(tmp_path / "certificate.json")
        assert read == one.honest
        veil.verify(read, one.problem, one.policy)
    assert "in each of own and p0" in targets[0].honest.claim
    assert "H(p0) ≥" in targets[2].honest.claim


def test_constraints_are_part_of_the_bound(tmp_path: Path):
    """With a limit on energy the bound is smaller, at a price, and both verifiers accept it."""
    bits = []
    for share in ("100%", "25%"):
        base = make_problem([veil.Return(max=share, reward="energy")], 3, 2)
        second = veil.Observer(0.6 * np.eye(base.num_states)[::-1] + 0.4 / base.num_states)
        problem = base.replace(pairs=[veil.Pair("two", second)])
        policy = veil.MarkovPolicy.uniform(problem)
        proof = veil.certify(problem, policy, 5, hide="own, two", progress=False)
        veil.verify(proof, problem, policy)
        assert code(saved(tmp_path / "result", problem, policy, proof)) == 0
        bits.append(proof.upper)
    assert proof.prices[0] > 0
    assert bits[1] < bits[0] - 1e-3


@pytest.mark.parametrize(
    ("hide", "named", "words"),
    [
        ("naive", {}, "the loss of an observer with a belief"),
        ("own, other", {"goal": "transparent"}, "the problem's own pair"),
        ("own, foe", {}, "there is no pair 'foe'"),
    ],
)
def test_what_has_no_certificate(hide: str, named: dict[str, Any], words: str):
    """It is refused with the reason."""
    problem = two_sensors(1)
    problem = problem.replace(pairs=[*problem.pairs, veil.Pair("naive", belief=veil.Belief(doubt=0.1))])
    with pytest.raises(veil.InputError, match=words):
        veil.certify(problem, veil.MarkovPolicy.uniform(problem), hide=hide, progress=False, **named)


def test_without_time_there_is_a_bound(targets: list[Target]):
    """One pair alone has one."""
    problem, policy = targets[0].problem, targets[0].policy
    proof = veil.certify(problem, policy, 0.0, hide="own, p0", progress=False)
    assert proof.upper >= targets[0].game.lower
    veil.verify(proof, problem, policy)
