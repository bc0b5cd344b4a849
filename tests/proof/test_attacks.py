"""Many lies about small certificates: what the verifier accepts is true by exact arithmetic, which shares nothing with it."""

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import veil
from tests.proof.attacks import Truth, attack
from tests.proof.cases import (
    constrained,
    delayed_policy,
    noisy_problem,
    random_policy,
    seeing,
    tiny_problem,
    with_path,
)
from tests.proof.exact import ExactProblem, chooser, play_all
from veil.engine.feasibility import other_targets
from veil.engine.return_range import threshold
from veil.formats.results.folder import read_result, write_result
from veil.formats.results.verified import verified_certificate
from veil.game.solve import GameResult, solve_game
from veil.proof import claim as claim_module
from veil.proof import verify as verify_module
from veil.proof.certificate import Certificate
from veil.proof.certify import certify
from veil.proof.checked_problem import CheckedProblem, can_delay
from veil.proof.verify import verify

KINDS = ("markov", "timed", "history", "told")
NUMBER = r"(-?[0-9.]+(?:e[-+]?[0-9]+)?)"


class Target:
    """A problem that hides something, an honest certificate for it, and the truth by exact arithmetic."""

    def __init__(self, seed: int, *, path: bool = False):
        rng = random.Random(seed)
        while True:
            number = rng.randrange(10**6)
            noisy = seed % 4 < 2 and not path
            self.problem = seeing(noisy_problem(number, (1, 2))) if noisy else tiny_problem(number)
            if not 1 <= self.problem.horizon <= 2 or (path and len(self.problem.models) > 1):
                continue
            if path:
                self.problem = with_path(self.problem, rng.randrange(10**6))
            if rng.random() < 0.7 and self.problem.min_return is None:
                asked = self.problem.replace(min_return=f"{rng.choice((30, 60, 90))}%")
                self.problem = self.problem.replace(min_return=threshold(asked))
            if seed % 3 == 0:
                self.problem = constrained(self.problem, seed)
            game = self.game(self.problem)
            if game.upper > 0.1:
                break
        self.policy: Any = random_policy(self.problem, KINDS[seed % 4], seed)
        self.certificate = certify(self.problem, self.policy, game=game)
        self.exact = ExactProblem(self.problem)
        others = [random_policy(self.problem, KINDS[one % 4], one) for one in range(6)]
        blind = [one for one in (self.policy, *others) if not one.needs_observations]
        seen = [one for one in (self.policy, *others) if one.needs_observations]
        late = self.most_of([*self.searched(delayed_policy), *blind])
        bits, (earned, *further) = self.play(self.policy)
        best = max(late, self.most_of([*self.searched(lambda one: self.game(one).policy(one)), *seen]))
        self.truth = Truth(bits, earned, best, tuple(further), late)

    def most_of(self, policies: list[Any]) -> Decimal:
        """The most that one of some policies hides which meets the constraints."""
        played = map(self.play, policies)
        return max((bits for bits, values in played if self.meets(values)), default=Decimal(0))

    @staticmethod
    def game(problem: veil.Problem) -> GameResult:
        return solve_game(problem, gap=0.02 if problem.others else 1e-4, iterations=40)

    @property
    def asked(self) -> Fraction:
        assert isinstance(self.problem.min_return, float | int)
        return Fraction(self.problem.min_return)

    def meets(self, values: list[Fraction]) -> bool:
        """Whether the return and the quantities of the further constraints are within all bounds."""
        wanted = zip(other_targets(self.problem), values[1:], strict=True)
        met = all(one.sign * value >= one.sign * Fraction(one.bound) for one, value in wanted)
        return met and (self.problem.min_return is None or values[0] >= self.asked)

    def searched(self, search: Callable[[veil.Problem], Any]) -> list[Any]:
        """The best policy that a search finds, with a little more return than is asked for: rounding is no matter."""
        least = self.problem.min_return
        more = self.problem if least is None else self.problem.replace(min_return=float(least) + 1e-7)
        if search is delayed_policy and (more.others or not can_delay(more)):
            return []
        try:
            return [search(more)]
        except veil.InfeasibleError:
            return []

    def play(self, policy: Any) -> tuple[Decimal, list[Fraction]]:
        return play_all(self.exact, chooser(self.problem, policy))

    def is_true(self, claim: Certificate, policy: Any) -> bool:
        """Whether all that a certificate claims is so: by its numbers, and by those in its words."""
        bits, values = (self.truth.bits, [self.truth.earned, *self.truth.further])
        if policy is not self.policy:
            bits, values = self.play(policy)
        earned = values[0]
        if claim.goal == "transparent":
            good = claim.lower == 0 and bits <= Decimal(claim.upper)
        else:
            told = re.match(
                rf"(?:hides at least {NUMBER}|What .* not proven).* policies.*?: {NUMBER} bits", claim.claim
            )
            assert told is not None
            lowest, highest = Decimal(told[1] or 0), Decimal(told[2])
            good = max(Decimal(claim.lower), lowest) <= bits or claim.lower == lowest == 0
            good &= min(Decimal(claim.upper), highest) >= self.truth.best
            blind = re.search(rf"current observation: {NUMBER} bits", claim.claim)
            good &= (blind is None) == (claim.delayed is None)
            if claim.delayed is not None and blind is not None:
                good &= claim.delayed.delay == 1 and not policy.needs_observations
                good &= min(Decimal(claim.delayed.upper), Decimal(blind[1])) >= self.truth.late
        good &= abs(Fraction(claim.expected_return) - earned) <= Fraction(claim.return_error)
        good &= claim.threshold == self.problem.min_return
        good &= not claim.feasible or self.meets(values)
        for one, value, target in zip(claim.constraints, values[1:], other_targets(self.problem), strict=True):
            good &= (one.name, one.relation) == (target.name, "≥" if target.sign > 0 else "≤")
            good &= abs(one.bound - target.bound) <= 1e-8 and abs(Fraction(one.value) - value) <= Fraction(one.error)
            good &= not one.met or target.sign * value >= target.sign * Fraction(one.bound)
        return bool(good) and self.says_its_return(claim, earned)

    @staticmethod
    def says_its_return(claim: Certificate, earned: Fraction) -> bool:
        """Returns are printed as floats in full: a number of the words is the float that it is read as."""
        least, most = (re.search(rf"return is at {word} {NUMBER}[.,]", claim.claim) for word in ("least", "most"))
        return (least is None or Fraction(float(least[1])) <= earned) and (
            most is None or Fraction(float(most[1])) >= earned
        )


# What tells of the search and is not proven, or is an estimate; and a result may say that less was reached.
NOT_PROVEN = re.compile(
    r"veil|certificate_note|problem\.scenario|answer\.(status|message|feasible|policy_class|method|objective|detail|price_bits"
    r"|doubts.*|stationarity_bits|iterations|seconds|seed|settings\..*|opacity\.(method|num_sequences|std_error|reason)"
    r"|constraints\.\d\.price_bits)"
)


def places(document: Any, under: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document."""
    if not isinstance(document, dict | list):
        return [under]
    inside = document.items() if isinstance(document, dict) else enumerate(document)
    return [path for key, value in inside for path in places(value, (*under, key))]


def edited(rng: random.Random, document: Any, place: tuple[Any, ...]) -> Any:
    """The document with another value at a place: of another type, far away or near."""
    if place:
        changed = copy.copy(document)
        changed[place[0]] = edited(rng, document[place[0]], place[1:])
        return changed
    near = [] if isinstance(document, str | bool | None) else [document + 1e-3, -document - 1, 2 * document + 1]
    others = (*near, *near, "", "x", None, True, False, -1, 0, 0.5, 1e308, [], {}, [1.0], f"{document} or more")
    return rng.choice([one for one in others if one != document])


def check_folder(folder: Path, number: int) -> Counter[str]:
    """Edits of the document of a result: only what tells of the search may be changed without being noticed."""
    problem = veil.gallery.load("two-rooms").replace(horizon=3)
    found = veil.solve(problem, starts=1, iterations=5, certificate=False)
    proof = certify(problem, found.policy, gap=0.05)
    write_result(folder, problem, replace(found, certificate=proof), scenario="gallery:two-rooms")
    path, rng, counted = folder / "result.json", random.Random(0), Counter[str]()
    document = json.loads(path.read_text("utf-8"))
    assert verified_certificate(read_result(folder), problem) is not None
    every = [place for place in places(document) if place[0] != "files"]
    for turn in range(number):
        place = every[turn % len(every)]
        path.write_text(json.dumps(edited(rng, document, place)), encoding="utf-8")
        try:
            verified_certificate(read_result(folder), problem)
        except veil.VeilError:
            counted["refused"] += 1
        else:
            assert NOT_PROVEN.fullmatch(".".join(map(str, place))), place
            counted["accepted"] += 1
    return counted


def besiege(seed: int, number: int, monkeypatch: pytest.MonkeyPatch, *, path: bool = False) -> Counter[str]:
    """Attacks on one certificate; what only depends on the problem, which is not attacked, is computed once."""
    target, rng, counted = Target(seed, path=path), random.Random(seed), Counter[str]()
    checked, mark = {0: CheckedProblem(target.problem)}, claim_module.fingerprint(target.problem)
    if can_delay(target.problem):
        checked[1] = CheckedProblem(target.problem, 1)
    with monkeypatch.context() as patched:
        read = lambda problem, delay=0: checked.get(delay) or CheckedProblem(problem, delay)  # noqa: E731
        patched.setattr(verify_module, "CheckedProblem", read)
        patched.setattr(claim_module, "fingerprint", lambda _: mark)
        verify(target.certificate, target.problem, target.policy)
        assert target.is_true(target.certificate, target.policy)
        for turn in range(number):
            lie, policy = attack(rng, target.problem, target.certificate, target.policy, target.truth)
            try:
                verify(lie, target.problem, policy)
            except veil.VeilError:
                counted["refused"] += 1
            else:
                assert target.is_true(lie, policy), f"seed {seed}, attack {turn}: {lie.claim}"
                counted["accepted"] += 1
    return counted


def test_a_thousand_lies(monkeypatch: pytest.MonkeyPatch):
    counted = sum((besiege(seed, 125, monkeypatch) for seed in range(8)), Counter[str]())
    assert counted.total() == 1000
    assert counted["accepted"] > 20  # changes that leave a claim true: the oracle has something to judge
    assert counted["refused"] > 500


def test_lies_about_paths(monkeypatch: pytest.MonkeyPatch):
    counted = sum((besiege(seed, 60, monkeypatch, path=True) for seed in range(6)), Counter[str]())
    assert counted["accepted"] > 5
    assert counted["refused"] > 180


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_lies_about_paths(block: int, monkeypatch: pytest.MonkeyPatch):
    for seed in range(2000 + 10 * block, 2010 + 10 * block):
        assert besiege(seed, 250, monkeypatch, path=True).total() == 250


def test_edited_results(tmp_path: Path):
    assert check_folder(tmp_path / "result", 120)["refused"] > 40


@pytest.mark.parametrize("key", ["value", "bound", "met"])
def test_a_constraint_without_a_number_is_refused(tmp_path: Path, key: str):
    """As where a number is not known, which for a certificate it must be."""
    check_folder(tmp_path / "result", 0)
    path = tmp_path / "result" / "result.json"
    document = json.loads(path.read_text("utf-8"))
    document["answer"]["constraints"][0][key] = None
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(veil.VeilError, match=f"constraints.0.{key}"):
        verified_certificate(read_result(tmp_path / "result"), veil.gallery.load("two-rooms").replace(horizon=3))


@pytest.mark.slow
def test_many_edited_results(tmp_path: Path):
    assert check_folder(tmp_path / "result", 2000)["refused"] > 700


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_a_hundred_thousand_lies(block: int, monkeypatch: pytest.MonkeyPatch):
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        assert besiege(seed, 250, monkeypatch).total() == 250
