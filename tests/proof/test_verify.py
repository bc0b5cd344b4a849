"""The verifier's numbers: inside their own error bounds by exact arithmetic, and no rule that proves too much."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veil
from tests.game.test_records import random_pairs
from tests.marks import chequered
from tests.problem.test_constraints import make_problem
from tests.proof.cases import KINDS, random_policy, random_problem, tiny_problem
from tests.proof.exact import ExactProblem, best_response, chooser, play
from tests.proof.lies import dressed
from tests.proof.reading import CheckedProblem, Witness, policy_values, replace, rule_bound
from tests.seeds import blocks, seeds
from veil.common.clock import Clock
from veil.common.errors import CertificateError
from veil.game.bounds import Bounds
from veil.game.enclose import enclose
from veil.game.solve import solve_game
from veil.proof.arithmetic import FLOOR
from veil.proof.certify import certify
from veil.proof.checking import Draws
from veil.proof.verify import draws_of, verify


def whole(problem: veil.Problem) -> tuple[int, int]:
    return (-1, problem.horizon + 1)


@pytest.mark.parametrize("block", blocks(60, 60, 10))
def test_the_errors_are_below_their_bounds(block: range):
    for seed in block:
        problem = tiny_problem(seed)
        policy = random_policy(problem, ("markov", "timed", "history")[seed % 3], seed)
        found = policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None)
        bits, gained = play(ExactProblem(problem), chooser(problem, policy))
        assert Decimal(found.lower) <= bits <= Decimal(found.upper) or (
            found.lower == 0 and abs(bits) < Decimal("1e-40")
        )
        assert found.upper - found.lower < 1e-12
        assert abs(Fraction(found.expected_return) - gained) <= Fraction(found.return_error)
        assert found.return_error < 1e-12


@pytest.mark.parametrize("block", blocks(60, 60, 10))
def test_the_bound_of_a_rule_is_at_least_the_exact_one(block: range):
    for seed in block:
        problem = tiny_problem(seed)
        game = solve_game(problem, iterations=3, gap=0)
        rng = np.random.default_rng(seed)
        costs = -np.log2(rng.dirichlet(np.ones(len(problem.secret_values)), size=game.graph.sizes[-1]) * 0.999 + 1e-9)
        threshold = float(rng.normal()) if seed % 3 else None
        price = float(rng.gamma(1.0)) if threshold is not None else 0.0
        witness = Witness(game.graph.first, game.graph.following, costs, price, "all")
        found = rule_bound(CheckedProblem(problem), witness, (threshold,), None)
        exact = best_response(ExactProblem(problem), game.graph.first, game.graph.following, costs, price, threshold)
        assert exact <= Fraction(found) <= exact + Fraction(1, 10**11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2, 12))
def test_every_kind_of_policy_is_played_as_the_engine_plays_it(kind, seed):
    problem = random_problem(100 + seed)
    policy = random_policy(problem, kind, seed)
    found = policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None)
    exact = veil.opacity(problem, policy, method="exact").bits
    assert found.lower - 1e-13 <= exact <= found.upper + 1e-13
    assert found.expected_return == pytest.approx(veil.expected_return(problem, policy), abs=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2, 10))
def test_windows_bound_from_below_and_forgetting_ones_from_above(kind, seed):
    problem = random_problem(200 + seed)
    policy = random_policy(problem, kind, seed)
    checked, time = CheckedProblem(problem), problem.secret_table.time
    exact = policy_values(checked, policy, whole(problem), FLOOR, None)
    for radius in range(problem.horizon + 2):
        window = (max(time - radius, -1), min(time + radius, problem.horizon + 1))
        for prune in (FLOOR, 1e-4):
            below = policy_values(checked, policy, window, prune, None)
            above = policy_values(checked, policy, window, prune, None, goal="transparent")
            assert below.lower <= exact.upper
            assert above.upper >= exact.lower
            assert below.expected_return == pytest.approx(exact.expected_return, abs=1e-12)
    for most in (1, 2, 5):
        below = policy_values(checked, policy, whole(problem), FLOOR, None, merge=most)
        above = policy_values(checked, policy, whole(problem), FLOOR, None, goal="transparent", merge=most)
        assert below.lower <= exact.upper
        assert above.upper >= exact.lower
    if problem.horizon:
        with pytest.raises(CertificateError, match="not around"):
            policy_values(checked, policy, (time + 1, problem.horizon + 1), FLOOR, None)


@pytest.mark.parametrize("block", blocks(20, 40, 10))
def test_a_rule_that_excludes_something_reachable_proves_nothing(block: range):
    for seed in block:
        problem = random_problem(seed)
        policy = random_policy(problem, "markov", seed)
        game = solve_game(problem, iterations=5, gap=0)
        certificate = certify(problem, policy, game=Bounds.of(game))
        costs = game.rules[0].costs() + 2.0**-39
        reachable = np.argwhere(np.isfinite(costs))
        node, z = reachable[seed % len(reachable)]
        costs[node, z] = np.inf
        witness = Witness(game.graph.first, game.graph.following, costs, game.multiplier, "all")
        assert rule_bound(CheckedProblem(problem), witness, (problem.min_return,), None) == np.inf  # type: ignore[arg-type]
        for wrong in (0.0, 0.5, certificate.upper, 100.0):
            with pytest.raises(CertificateError):
                verify(
                    dressed(replace(certificate, bounds=(replace(witness, upper=wrong),), best_known=None)),
                    problem,
                    policy,
                )


@pytest.mark.parametrize("block", blocks(40, 40, 10))
def test_a_missing_edge_proves_nothing(block: range):
    for seed in block:
        problem = random_problem(seed)
        game = solve_game(problem, iterations=2, gap=0)
        costs = game.rules[0].costs() + 2.0**-39
        first, following = game.graph.first.copy(), [table.copy() for table in game.graph.following]
        tables = [first[None], *following]
        table = tables[seed % len(tables)]
        edges = np.argwhere(table >= 0)
        table[tuple(edges[seed % len(edges)])] = -1
        witness = Witness(tables[0][0], tuple(following), costs, 0.0, "all")
        assert rule_bound(CheckedProblem(problem), witness, (None,), None) == np.inf


def test_a_probability_too_small_for_floats_is_refused():
    model = veil.Model([[[1.0, 1e-280]], [[0.0, 1.0]]], [[0.0], [0.0]], 0)
    observer = veil.Observer([[1.0, 0.0], [0.5, 0.5]])
    problem = veil.Problem(model, observer, veil.LastState({1}), horizon=2)
    with pytest.raises(CertificateError, match=r"expected 2\^-900"):
        certify(problem, veil.MarkovPolicy.uniform(problem))


def test_paths_too_rare_for_floats_are_left_out():
    model = veil.Model(
        [[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]], [[1.0, 0.0], [0.0, 0.0]], 0, terminal_rewards=[0.0, 1.0]
    )
    observer = veil.Observer([[0.5, 0.5], [0.5, 0.5]])
    problem = veil.Problem(model, observer, veil.LastState({1}), horizon=4)
    rare = 5e-324
    policy = veil.MarkovPolicy([[1.0, rare], [1.0, rare]])
    certificate = certify(problem, policy)
    verify(certificate, problem, policy)
    assert certificate.lower == 0.0
    assert certificate.upper >= 0.99


@pytest.mark.parametrize(
    ("discount", "kind"), chequered([0.0, 0.5, 0.9, 0.98], ["markov", "timed", "states", "controller", "history"])
)
def test_returns_over_an_infinite_horizon(discount, kind):
    rng = np.random.default_rng(5)
    model = veil.Model(rng.dirichlet(np.ones(4), size=(4, 2)), rng.normal(size=(4, 2)), [0.5, 0.5, 0, 0], discount)
    observer = veil.Observer(rng.dirichlet(np.ones(3), size=4))
    problem = veil.Problem(model, observer, veil.LastState({1}), 4, "50%", "infinite")
    policy = random_policy(problem, kind, 1)
    assert policy is not None
    certificate = certify(problem, policy)
    verify(certificate, problem, policy)
    assert certificate.return_error < 1e-9
    if kind != "history":
        assert certificate.expected_return == pytest.approx(veil.expected_return(problem, policy), abs=1e-10)
    assert certificate.values is not None
    checked, values = CheckedProblem(problem), certificate.values
    bound = rule_bound(checked, certificate.bounds[0], (certificate.threshold,), values)
    for shift in (-1.0, -1e-3, 1e-3, 1.0):
        for state in range(4):
            wrong = values.copy()
            wrong[0, state] += shift
            assert rule_bound(checked, certificate.bounds[0], (certificate.threshold,), wrong) >= bound - 1e-12
    with pytest.raises(CertificateError, match="values"):
        verify(replace(certificate, values=None), problem, policy)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper-last-state", "later-last-state"])
def test_a_long_horizon_by_windows(name):
    problem = veil.gallery.load(name, horizon=60).replace(min_return="90%")
    game = enclose(problem, gap=0.3, clock=Clock(30.0))
    policy = game.policy(problem)
    certificate = certify(problem, policy, game=game, time_limit=20)
    verify(certificate, problem, policy)
    assert certificate.feasible
    assert certificate.lower >= game.lower - 1e-6
    assert certificate.upper <= game.upper + 1e-6


# Shares of the range of a quantity.


@pytest.mark.parametrize(
    "weights", [(0.5, math.nextafter(0.5, 0)), (0.1, 0.9 - 1e-15), (math.nextafter(2 / 3, 0), 1 / 3)]
)
def test_weights_of_a_game_that_fall_short_of_one_are_raised(weights: tuple[float, float]):
    """Those of several hidden pairs sum to one up to rounding; the certificate's sum to one or more, in fractions."""
    problem, policy = random_pairs(5), veil.MarkovPolicy.uniform(random_pairs(5))
    game = solve_game(problem, hide=("own", "p0"))
    assert sum(map(Fraction, weights)) < 1
    short = tuple(replace(one, weight=weight) for one, weight in zip(game.rules, weights, strict=True))
    proof = certify(problem, policy, hide="own, p0", game=Bounds.of(replace(game, rules=short)), progress=False)
    assert proof.bounds[0] is not None
    raised = [one.weight for one in proof.bounds[0].rules]
    assert raised == pytest.approx(weights, abs=1e-14)
    assert 1 <= sum(map(Fraction, raised)) < 1 + Fraction(1, 2**52)
    verify(proof, problem, policy)


def put(claim: veil.Certificate, number: int, **changes: Any) -> veil.Certificate:
    """The certificate with a channel that claims something else."""
    one = replace(claim.channels[number], **changes)
    return replace(claim, channels=(*claim.channels[:number], one, *claim.channels[number + 1 :]), best_known=None)


@pytest.mark.parametrize("way", [{}, {"merge": 1}, {"window": (1, 3)}, {"prune": 0.005}], ids=str)
@pytest.mark.parametrize("number", [0, 1])
def test_bounds_of_channels_are_what_the_claimed_way_proves_and_no_more(number: int, way: dict[str, Any]):
    problem, policy = random_pairs(5), veil.MarkovPolicy.uniform(random_pairs(5))
    proof = certify(problem, policy, 0.0, hide="own, p0", progress=False)
    weak = put(proof, number, lower=1e-12, upper=10.0, **({"window": whole(problem), "prune": 0.0, "merge": 0} | way))
    found = verify(dressed(weak), problem, policy).channels[number]
    exact = put(weak, number, lower=found.lower, upper=found.upper)
    verify(dressed(exact), problem, policy)
    for changes in ({"lower": math.nextafter(found.lower, 2)}, {"upper": math.nextafter(found.upper, 0)}):
        with pytest.raises(CertificateError, match=r"is claimed, .* is found"):
            verify(dressed(put(exact, number, **changes)), problem, policy)


def test_upper_bounds_are_as_proven_and_no_smaller():
    problem, policy = random_pairs(5), veil.MarkovPolicy.uniform(random_pairs(5))
    proof = dressed(replace(certify(problem, policy, 1.0, hide="own, p0", progress=False), best_known=None))
    least = verify(proof, problem, policy).upper
    exact = replace(proof, bounds=(replace(proof.bounds[0], upper=least),))
    verify(dressed(exact), problem, policy)
    less = replace(proof, bounds=(replace(proof.bounds[0], upper=math.nextafter(least, 0)),))
    with pytest.raises(CertificateError, match=r"upper bound: .* is claimed"):
        verify(dressed(less), problem, policy)


def test_a_transparent_claim_is_as_proven():
    problem = veil.gallery.load("two-rooms", horizon=2).replace(min_return=None)
    policy = veil.MarkovPolicy.uniform(problem)
    proof = certify(problem, policy, 0.0, goal="transparent")
    found = verify(proof, problem, policy)
    assert found.upper == found.policy.upper
    assert (proof.lower, proof.bounds) == (0.0, ())
    verify(dressed(put(proof, 0, upper=found.upper)), problem, policy)
    with pytest.raises(CertificateError, match=r"is claimed, .* is found"):
        verify(dressed(put(proof, 0, upper=math.nextafter(found.upper, 0))), problem, policy)


@pytest.mark.parametrize("number", [0, 1])
def test_values_and_errors_are_right_to_the_last_bit(number: int):
    """An error is what is proven or a little more; a value lies so near that its error covers both."""
    problem = make_problem([veil.Return(max="100%", reward="energy")], 3, 2)
    policy = veil.MarkovPolicy.uniform(problem)
    proof = certify(problem, policy, 0.0)
    found = verify(proof, problem, policy).policy.quantities[number]
    most = 4 * found.error + 32 * 2.0**-53 * abs(found.value)
    assert found.error > 0

    def claimed(**changes: Any) -> veil.Certificate:
        one = replace(proof.quantities[number], **changes)
        return dressed(replace(proof, quantities=(*proof.quantities[:number], one, *proof.quantities[number + 1 :])))

    verify(claimed(value=found.value, error=found.error), problem, policy)
    verify(claimed(value=found.value, error=most), problem, policy)
    for changes, words in (
        ({"value": found.value, "error": math.nextafter(found.error, 0)}, "is claimed, and"),
        ({"value": found.value, "error": math.nextafter(most, 1)}, "is the most"),
        ({"value": found.value + 3 * found.error, "error": 3 * found.error}, "is claimed, and"),
        ({"met": not found.met}, "met is"),
        ({"bound": None, "met": True}, "is None"),
        ({"bound": (proof.quantities[number].bound or 0.0) + 1e-3}, "threshold: .* is claimed for|the bound of"),
    ):
        with pytest.raises(CertificateError, match=words):
            verify(claimed(**changes), problem, policy)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("confidence", (0.5, 5e-324, 1 - 2.0**-53), (0.0, 1.0, -0.5, 1, True, "0.5", math.nan, None)),
     ("sequences", (None, 2, 10**7), (1, 10**7 + 1, 2.0, True, "2")),
     ("seed", (None, 0, 10**30), (-1, 0.0, True, "1"))],
)  # fmt: skip
def test_how_the_verifier_may_be_told_to_draw(name: str, good: tuple[Any, ...], bad: tuple[Any, ...]):
    given: dict[str, Any] = {"confidence": 0.5, "sequences": 7, "seed": 3}
    for value in good:
        wanted, found = given | {name: value}, draws_of(**given | {name: value})
        assert found == Draws(1 - wanted["confidence"], wanted["sequences"], wanted["seed"])
    for value in bad:
        with pytest.raises(veil.InputError, match=rf"^verify: {name} is {value!r}, expected"):
            draws_of(**given | {name: value})
    with pytest.raises(veil.InputError, match=r"(?s)3 defects.*confidence.*sequences.*seed"):
        draws_of(2.0, 1, -1)


@pytest.mark.parametrize(
    "changes",
    [{"channels": ()}, {"versions": {"veil": object()}}, {"quantities": (None,)}, {"bounds": (None,)}, {"hidden": (7,)},
     {"policy_hash": "0" * 64}, {"problem_hash": "0" * 64}, {"policy_class": "another"}, {"seal": ""}, {"claim": ""}],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_what_is_no_certificate_of_these_is_refused(changes: dict[str, Any]):
    problem = make_problem([veil.Return(max="100%", reward="energy")], 3, 2)
    policy = veil.MarkovPolicy.uniform(problem)
    with pytest.raises(CertificateError):
        verify(replace(certify(problem, policy, 0.0), **changes), problem, policy)
