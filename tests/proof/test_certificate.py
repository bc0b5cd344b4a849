"""Certificates of random problems: they verify, they hold, no corruption of them passes, and their files are sound."""

import hashlib
import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import veil
from tests.oracle import evaluate
from tests.proof.cases import KINDS, random_policy, random_problem, seeing
from tests.proof.corruptions import WORDS, corrupt
from tests.proof.test_checked import example
from tests.random_problems import random_case
from tests.seeds import blocks
from tests.unproven import solve
from veil.common.errors import CertificateError
from veil.common.rounding import rounded_down
from veil.game.solve import solve_game
from veil.policy.history import HistoryPolicy
from veil.proof.arithmetic import FLOOR
from veil.proof.backward import rule_bound
from veil.proof.certificate import Certificate, DelayedBound, ProvenPair
from veil.proof.certify import certify
from veil.proof.checked_problem import CheckedProblem
from veil.proof.policy_values import policy_values
from veil.proof.verify import verify


def check_that_it_holds(seed: int) -> None:
    """A certificate for a random policy at its own return: verified, and around all that is known."""
    problem = random_problem(seed, work=600, most_pairs=1500).replace(min_return=None)
    rng = random.Random(seed)
    policy = random_policy(problem, rng.choice(KINDS), seed)
    checked, whole = CheckedProblem(problem), (-1, problem.horizon + 1)
    own = policy_values(checked, policy, whole, FLOOR, None)
    share = rng.choice((0.0, 1e-3, 0.1))
    least = rounded_down(Fraction(own.expected_return) - 2 * Fraction(own.return_error))  # in floats it may round up
    problem = problem.replace(min_return=least - share * (1 + abs(least)))
    game = solve_game(problem, gap=1e-2, iterations=60)
    certificate = certify(problem, policy, game=game)
    verify(certificate, problem, policy)
    assert certificate.feasible
    assert certificate.lower <= own.upper
    assert own.lower <= certificate.upper
    assert certificate.upper <= checked.most_bits
    assert game.lower <= certificate.upper + 1e-9
    for kind in KINDS:
        other = random_policy(problem, kind, seed + 1)
        found = policy_values(CheckedProblem(problem), other, whole, FLOOR, None)
        assert certificate.threshold is not None
        missing = max(0.0, certificate.threshold - found.expected_return + found.return_error)
        # The bound at its price is one for every policy: H ≤ U + λ (δ − V).
        assert found.lower <= certificate.upper + certificate.price * missing + 1e-9
    best = game.policy(problem)
    own_best = certify(problem, best, game=game)
    verify(own_best, problem, best)
    assert own_best.lower == pytest.approx(game.lower, abs=1e-9)


@pytest.mark.parametrize("block", blocks(30, 150, 10))
def test_certificates_of_random_problems(block: range):
    for seed in block:
        check_that_it_holds(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
def test_certificates_of_many_random_problems(block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check_that_it_holds(seed)


@pytest.mark.parametrize("block", blocks(100, 200, 20))
def test_the_lower_bound_is_below_exact_integers(block: range):
    for seed in block:
        case = random_case(3000 + seed)
        answer = evaluate(case.spec)
        found = policy_values(CheckedProblem(case.problem), case.policy, (-1, case.problem.horizon + 1), FLOOR, None)
        assert found.lower <= answer.bits + 1e-15
        assert answer.bits <= found.upper + 1e-15
        assert abs(found.expected_return - float(answer.expected_return)) <= found.return_error + 1e-15


def still_proven(claim: Certificate, problem: veil.Problem, policy) -> bool:
    """Whether what a corrupted certificate claims is true by everything that can be computed about it."""
    assert claim.witness is not None
    checked = CheckedProblem(problem)
    found = policy_values(checked, policy, (-1, problem.horizon + 1), FLOOR, None)
    bound = rule_bound(checked, claim.witness, claim.bounds, None)
    near = abs(claim.expected_return - found.expected_return) <= claim.return_error + found.return_error
    if claim.delayed is not None:
        late = rule_bound(CheckedProblem(problem, 1), claim.delayed.witness, claim.bounds, None)
        near &= claim.delayed.upper >= late - 1e-12
    return claim.lower <= found.upper and claim.upper >= min(bound, checked.most_bits) - 1e-12 and near


ALWAYS_REJECTED = (*WORDS, "best_known", "memory", "feasible", "drop a step")


def check_corruptions(seed: int, number: int) -> tuple[int, int]:
    """Corruptions of one certificate; returns how many were rejected and how many were still proven."""
    rng = random.Random(seed)
    while True:
        problem = random_problem(rng.randrange(10**6), work=300, most_pairs=800)
        if problem.horizon:
            break
    policy = random_policy(problem, rng.choice(KINDS), seed)
    certificate = certify(problem, policy, game=solve_game(problem, gap=1e-3, iterations=40))
    verify(certificate, problem, policy)
    rejected = kept = 0
    for _ in range(number):
        kind, wrong, other = corrupt(rng, certificate, policy)
        try:
            verify(wrong, problem, other)
        except CertificateError:
            rejected += 1
        else:
            assert kind not in ALWAYS_REJECTED, kind
            assert kind in ("missing best_known", "missing values") or not kind.startswith("missing"), kind
            assert still_proven(wrong, problem, other), kind
            kept += 1
    return rejected, kept


@pytest.mark.parametrize("block", blocks(20, 20, 10))
def test_corruptions_are_rejected_or_still_proven(block: range):
    for seed in block:
        rejected, _ = check_corruptions(seed, 15)
        assert rejected


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_corruptions(block):
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        check_corruptions(seed, 10)


@pytest.fixture(scope="module")
def paper() -> tuple[veil.Problem, HistoryPolicy, Certificate]:
    problem = seeing(veil.gallery.load("paper-last-state"))
    game = solve_game(problem, gap=2e-3)
    policy = game.policy(problem)
    return problem, policy, certify(problem, policy, game=game)


def test_the_papers_certificate(paper):
    problem, policy, certificate = paper
    found = verify(certificate, problem, policy)
    assert found.policy.lower >= certificate.lower > 0.996
    assert certificate.gap <= 0.0021
    assert certificate.summary().startswith("hides at least 0.998")
    assert (
        "bits (proven); proven upper bound over all policies with return ≥ 0.3: 1.0000 bits (witness attached"
        in certificate.summary()
    )
    with pytest.raises(CertificateError, match="problem_hash"):
        verify(certificate, problem.replace(horizon=9), policy)
    with pytest.raises(CertificateError, match="policy_hash"):
        verify(certificate, problem, veil.MarkovPolicy.uniform(problem))
    with pytest.raises(CertificateError, match="lower bound"):
        verify(replace(certificate, lower=certificate.lower + 1e-9), problem, policy)


def test_both_parts_of_the_gap_are_told_apart():
    problem = veil.gallery.load("later-last-state", horizon=6).replace(min_return="50%")
    policy = solve(problem, starts=2, iterations=50).policy
    certificate = certify(problem, policy, gap=5e-3)
    verify(certificate, problem, policy)
    assert certificate.class_gap is not None
    assert certificate.solver_gap is not None
    assert certificate.solver_gap <= 5.1e-3
    assert certificate.class_gap + certificate.solver_gap == pytest.approx(certificate.gap)
    assert "due to the policy class" in certificate.summary()


def test_an_infeasible_policy_is_said_to_be_one():
    problem = veil.gallery.load("paper-last-state")
    policy = veil.MarkovPolicy.uniform(problem)
    certificate = certify(problem, policy, gap=0.1)
    verify(certificate, problem, policy)
    assert not certificate.feasible
    assert "misses the threshold" in certificate.claim
    with pytest.raises(CertificateError, match="feasible"):
        verify(_claiming(certificate, feasible=True), problem, policy)


@pytest.mark.parametrize("block", blocks(20, 20, 10))
def test_transparency_has_no_certificate_but_bounds_that_hold(block: range):
    for seed in block:
        problem = random_problem(seed)
        policy = random_policy(problem, KINDS[seed % len(KINDS)], seed)
        certificate = certify(problem, policy, goal="transparent")
        verify(certificate, problem, policy)
        assert certificate.lower == 0.0
        assert certificate.witness is None
        assert "only the lower bound 0 is proven" in certificate.claim
        if certificate.upper > 1e-6:
            with pytest.raises(CertificateError, match="upper bound"):
                verify(_claiming(certificate, upper=certificate.upper - 1e-7), problem, policy)
            with pytest.raises(CertificateError, match="only 0 is proven"):
                verify(_claiming(certificate, lower=1e-7), problem, policy)


def _claiming(certificate: Certificate, **changes) -> Certificate:
    from veil.proof.claim import claim_words

    changed = replace(certificate, **changes)
    return replace(changed, claim=claim_words(changed))


def test_files(paper, tmp_path):
    problem, policy, certificate = paper
    certificate.save(tmp_path / "one.json")
    loaded = Certificate.load(tmp_path / "one.json")
    verify(loaded, problem, policy)
    loaded.save(tmp_path / "two.json")
    one, two = ((tmp_path / name).read_text() for name in ("one.json", "two.json"))
    assert one == two.replace("two.", "one.")
    arrays = sorted(tmp_path.glob("*.safetensors"))
    assert len(arrays) == 2
    assert arrays[0].read_bytes() == arrays[1].read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".json") == ["one.json", "two.json"]
    replace(certificate, witness=None).save(tmp_path / "one.json")
    assert len(list(tmp_path.glob("one.*.safetensors"))) == 1  # that of the certificate before is gone


def test_damaged_files_say_so(paper, tmp_path):
    _, _, certificate = paper
    path = tmp_path / "one.json"
    certificate.save(path)
    (arrays,) = tmp_path.glob("*.safetensors")
    text, content = path.read_text(), arrays.read_bytes()
    rng = random.Random(0)
    for _ in range(40):
        place = rng.randrange(len(content))
        arrays.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(CertificateError, match="damaged or belongs to another"):
            Certificate.load(path)
    arrays.write_bytes(content[:100])
    with pytest.raises(CertificateError, match="damaged"):
        Certificate.load(path)
    arrays.unlink()
    with pytest.raises(CertificateError, match="cannot be read"):
        Certificate.load(path)
    arrays.write_bytes(content)
    for wrong in ("", "{", "[]", "{}", '{"form": "other"}', text[: len(text) // 2], text.replace('"lower"', '"Lower"')):
        path.write_text(wrong)
        with pytest.raises(CertificateError):
            Certificate.load(path)
    path.unlink()
    with pytest.raises(CertificateError, match="there is no certificate"):
        Certificate.load(path)
    with pytest.raises(CertificateError, match="cannot write"):
        certificate.save(tmp_path / "nowhere" / "one.json")


def test_a_file_with_one_letter_changed_is_never_taken_for_the_same(paper, tmp_path):
    problem, policy, certificate = paper
    path = tmp_path / "one.json"
    certificate.save(path)
    text = path.read_text("utf-8")
    for place in range(60):
        rng = random.Random(place)
        spot = rng.randrange(len(text))
        path.write_text(text[:spot] + rng.choice("0123456789x") + text[spot + 1 :], "utf-8")
        try:
            loaded = Certificate.load(path)
            verify(loaded, problem, policy)
        except CertificateError:
            continue
        assert loaded.lower <= certificate.lower + 1e-12, place
        assert loaded.upper >= certificate.upper - 1e-12, place


def test_what_does_not_fit_is_refused():
    problem = veil.gallery.load("paper-last-state")
    with pytest.raises(veil.InputError, match="goal"):
        certify(problem, veil.MarkovPolicy.uniform(problem), goal="secret")  # type: ignore[arg-type]
    with pytest.raises(veil.InputError, match="shape"):
        certify(problem, veil.MarkovPolicy(np.full((3, 2), 0.5)))
    shorter = problem.replace(horizon=3, min_return=None)
    policy = solve_game(shorter, iterations=1).policy(shorter)
    with pytest.raises(veil.InputError, match="decisions"):
        certify(problem, policy)


def test_which_certificates_are_exact():
    """Those from all histories over the whole horizon."""
    problem = example()
    proof = certify(problem, veil.MarkovPolicy.uniform(problem), 5.0)
    assert proof.window == (-1, 2)
    assert proof.is_exact
    for change in ({"window": (0, 2)}, {"window": (-1, 1)}, {"prune": 1e-9}, {"merge": 4}):
        assert not replace(proof, **cast(Any, change)).is_exact


def test_bounds_of_pairs_that_are_just_met():
    pair = ProvenPair("two", 0.25, 0.75, 0.25, 0.75, (-1, 2), FLOOR, 0)
    assert pair.met
    assert not replace(pair, lower=math.nextafter(0.25, 0)).met
    assert not replace(pair, upper=math.nextafter(0.75, 1)).met


def test_which_pairs_must_keep_bits():
    """Those with a lower bound that are not hidden themselves."""
    proof = certify(example(), veil.MarkovPolicy.uniform(example()), 0.0)
    pair = ProvenPair("two", 0.25, None, 0.25, 0.75, (-1, 2), FLOOR, 0)
    pairs = (
        pair,
        replace(pair, name="three"),
        replace(pair, name="four", min=None),
        replace(pair, name="five", min=0.0),
    )
    assert replace(proof, pairs=pairs, hide=("own", "two")).kept == {"three": 0.25}


def test_only_arrays_that_a_certificate_wrote_are_deleted_with_it(tmp_path: Path):
    """A file of its name without its mark, or with its mark and another name, is somebody's."""
    problem = example()
    proof = certify(problem, veil.MarkovPolicy.uniform(problem), 0.0)
    place = tmp_path / "certificate.json"
    proof.save(place)
    [arrays] = tmp_path.glob("*.safetensors")
    content, head = arrays.read_bytes(), json.loads(place.read_text("utf-8"))
    plain = b"precious"
    kept = {"precious.txt": content, f"certificate.{hashlib.sha256(plain).hexdigest()[:12]}.safetensors": plain}
    for name, text in kept.items():
        (tmp_path / name).write_bytes(text)
        place.write_text(json.dumps(head | {"arrays": name}), "utf-8")
        replace(proof, lower=0.0).save(place)
        assert (tmp_path / name).read_bytes() == text
    other = replace(proof, witness=None)
    other.save(place)
    assert arrays.name not in {one.name for one in tmp_path.iterdir()}


def test_a_rule_for_a_path_is_read_back_whole(tmp_path: Path):
    problem = example().replace(secret=veil.Trajectory())
    proof = certify(problem, veil.MarkovPolicy.uniform(problem), 0.0)
    assert proof.witness is not None
    assert len(proof.witness.path_keys) == len(proof.witness.path_costs) == problem.horizon + 1
    proof.save(tmp_path / "certificate.json")
    assert Certificate.load(tmp_path / "certificate.json") == proof


@pytest.fixture(scope="module")
def plain() -> Certificate:
    """The certificate of an example, with numbers that are easily read."""
    proof = certify(example(), veil.MarkovPolicy.uniform(example()), 0.0)
    return replace(proof, lower=0.25, upper=1.0, best_known=0.5)


def test_the_parts_of_a_gap(plain: Certificate):
    """What policies of a larger class are known to gain, and the rest; nothing where nothing is proven or known."""
    told = replace(plain, window=(1, 1))
    history = replace(plain, policy_class="a history policy; its agent sees all")
    for one, class_gap, solver_gap in (
        (plain, 0.25, 0.5),
        (replace(plain, best_known=0.125), 0.0, 0.75),
        (replace(plain, best_known=1.5), 1.25, 0.0),
        (history, 0.0, 0.75),
        (told, 0.25, 0.5),
        (replace(told, lower=0.0), None, None),
        (replace(told, lower=1e-5), None, None),
        (replace(told, lower=1e-4), 0.5 - 1e-4, 0.5),
        (replace(plain, lower=0.0), 0.5, 0.5),
        (replace(plain, best_known=None), None, None),
    ):
        assert (one.class_gap, one.solver_gap) == (class_gap, solver_gap)
        assert one.gap == one.upper - one.lower
    assert replace(told, lower=0.0, goal="transparent").proves_policy
    assert not replace(told, lower=0.0).proves_policy


def test_prices_of_a_certificate(plain: Certificate):
    """Those of its rule, and none of one without."""
    assert plain.witness is not None
    priced = replace(plain, witness=replace(plain.witness, multiplier=2.0, prices=(3.0,)))
    assert (priced.price, priced.prices) == (2.0, (3.0,))
    constraint: Any = object()
    clear = replace(plain, witness=None, constraints=(constraint, constraint))
    assert (clear.price, clear.prices) == (0.0, (0.0, 0.0))
    assert not clear.is_exact


def test_a_certificate_of_pairs_is_exact_where_those_that_are_hidden_are(plain: Certificate):
    exact = ProvenPair("two", None, None, 0.25, 0.75, (-1, 2), FLOOR, 0)
    for hide, pair, expected in (
        (("own",), replace(exact, merge=3), True),
        (("two",), replace(exact, merge=3), False),
        (("two",), exact, True),
        (("own", "two"), exact, True),
        (("own", "two"), replace(exact, window=(0, 2)), False),
        (("own", "two"), replace(exact, prune=1e-9), False),
    ):
        assert replace(plain, hide=hide, pairs=(pair,)).is_exact == expected
    assert not replace(plain, hide=("own", "two"), pairs=(exact,), merge=3).is_exact


def test_pairs_without_a_bound_are_met_whatever_they_hide():
    pair = ProvenPair("two", None, None, 0.25, 0.75, (-1, 2), FLOOR, 0)
    assert pair.met
    assert pair.text == ""
    for low, high, met, text in (
        (0.25, None, True, "H(two) ≥ 0.25"),
        (0.5, None, False, "H(two) ≥ 0.5"),
        (None, 0.75, True, "H(two) ≤ 0.75"),
        (None, 0.5, False, "H(two) ≤ 0.5"),
        (0.25, 0.5, False, "H(two) ≥ 0.25 and H(two) ≤ 0.5"),
        (0.5, 0.75, False, "H(two) ≥ 0.5 and H(two) ≤ 0.75"),
    ):
        one = replace(pair, min=low, max=high)
        assert (one.met, one.text) == (met, text)


def test_a_file_of_other_fields_is_not_read(plain: Certificate, tmp_path: Path):
    place = tmp_path / "certificate.json"
    plain.save(place)
    text = place.read_text("utf-8")
    assert text.endswith("}\n")
    assert text.startswith('{\n "arrays": "certificate.')
    head = json.loads(text)
    [arrays] = tmp_path.glob("*.safetensors")
    assert arrays.name == f"certificate.{head['arrays_sha256'][:12]}.safetensors"
    missing = {name: value for name, value in head.items() if name != "lower"}
    for changed, words in (
        (missing, "missing \\['lower'\\], unknown \\[\\]"),
        (head | {"more": 1}, "missing \\[\\], unknown \\['more'\\]"),
        (head | {"form": "veil-certificate-6"}, "is not a certificate of the form"),
        ([head], "is not a certificate of the form"),
        (head | {"arrays_sha256": "0"}, "is damaged or belongs to another certificate"),
        (head | {"arrays": "none.safetensors"}, "the arrays of .* cannot be read"),
        (head | {"window": [1]}, "is not a whole certificate: ValueError"),
        (head | {"witness": {}}, "is not a whole certificate: ValueError"),
    ):
        place.write_text(json.dumps(changed), "utf-8")
        with pytest.raises(CertificateError, match=words):
            Certificate.load(place)
    place.write_text("{", "utf-8")
    with pytest.raises(CertificateError, match="cannot be read as a certificate"):
        Certificate.load(place)
    with pytest.raises(CertificateError, match="there is no certificate"):
        Certificate.load(tmp_path / "none.json")


def test_every_part_is_read_back(plain: Certificate, tmp_path: Path):
    """Observers for late agents and of pairs, values after the horizon, pairs and what is hidden."""
    assert plain.witness is not None
    pair = ProvenPair("two", 0.25, None, 0.25, 0.75, (0, 2), 1e-9, 7)
    rule = replace(plain.witness, others=(replace(plain.witness, pair="two", weight=0.5),))
    late = DelayedBound(1, 0.5, replace(plain.witness, multiplier=2.0))
    full = replace(
        plain, witness=rule, delayed=late, values=np.array([[1.0, 2.0]]), pairs=(pair,), hide=("own", "two"),
        window=(0, 1), merge=3,
    )  # fmt: skip
    for one in (plain, full, replace(full, witness=None), replace(full, delayed=None), replace(full, values=None)):
        one.save(tmp_path / "certificate.json")
        assert Certificate.load(tmp_path / "certificate.json") == one
        assert len(list(tmp_path.iterdir())) == 2  # the arrays of the one before are gone
