"""The verifier's numbers: inside their own error bounds by exact arithmetic, and no rule that proves too much."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import veil
from tests.marks import chequered
from tests.proof.cases import KINDS, random_policy, random_problem, tiny_problem
from tests.proof.exact import ExactProblem, best_response, chooser, play
from veil.common.clock import Clock
from veil.common.errors import CertificateError
from veil.engine.return_range import threshold
from veil.game.solve import solve_game
from veil.game.windows import solve_window_game
from veil.proof.arithmetic import FLOOR
from veil.proof.backward import rule_bound
from veil.proof.certificate import Witness
from veil.proof.certify import certify
from veil.proof.checked_problem import CheckedProblem
from veil.proof.policy_values import policy_values
from veil.proof.verify import verify


def whole(problem: veil.Problem) -> tuple[int, int]:
    return (-1, problem.horizon + 1)


@pytest.mark.parametrize("seed", range(60))
def test_the_errors_are_below_their_bounds(seed):
    problem = tiny_problem(seed)
    policy = random_policy(problem, ("markov", "timed", "history")[seed % 3], seed)
    found = policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None)
    bits, gained = play(ExactProblem(problem), chooser(problem, policy))
    assert Decimal(found.lower) <= bits <= Decimal(found.upper) or (found.lower == 0 and abs(bits) < Decimal("1e-40"))
    assert found.upper - found.lower < 1e-12
    assert abs(Fraction(found.expected_return) - gained) <= Fraction(found.return_error)
    assert found.return_error < 1e-12


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_of_a_rule_is_at_least_the_exact_one(seed):
    problem = tiny_problem(seed)
    game = solve_game(problem, iterations=3, gap=0)
    rng = np.random.default_rng(seed)
    costs = -np.log2(rng.dirichlet(np.ones(len(problem.secret_values)), size=len(game.costs)) * 0.999 + 1e-9)
    threshold = float(rng.normal()) if seed % 3 else None
    price = float(rng.gamma(1.0)) if threshold is not None else 0.0
    witness = Witness(game.graph.first, game.graph.following, costs, price, "all")
    found = rule_bound(CheckedProblem(problem), witness, (threshold,), None)
    exact = best_response(ExactProblem(problem), game.graph.first, game.graph.following, costs, price, threshold)
    assert exact <= Fraction(found) <= exact + Fraction(1, 10**11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_every_kind_of_policy_is_played_as_the_engine_plays_it(kind, seed):
    problem = random_problem(100 + seed)
    policy = random_policy(problem, kind, seed)
    found = policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None)
    exact = veil.opacity(problem, policy, method="exact").bits
    assert found.lower - 1e-13 <= exact <= found.upper + 1e-13
    assert found.expected_return == pytest.approx(veil.expected_return(problem, policy), abs=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10))
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


@pytest.mark.parametrize("seed", range(40))
def test_a_rule_that_excludes_something_reachable_proves_nothing(seed):
    problem = random_problem(seed)
    policy = random_policy(problem, "markov", seed)
    certificate = certify(problem, policy, game=solve_game(problem, iterations=5, gap=0))
    assert certificate.witness is not None
    game = solve_game(problem, iterations=5, gap=0)
    reachable = np.argwhere(game.pairs.reachable)
    node, z = reachable[seed % len(reachable)]
    costs = np.where(game.pairs.reachable, game.costs + 2.0**-39, np.inf)
    costs[node, z] = np.inf
    witness = Witness(game.graph.first, game.graph.following, costs, game.multiplier, "all")
    assert rule_bound(CheckedProblem(problem), witness, (problem.min_return,), None) == np.inf  # type: ignore[arg-type]
    for wrong in (0.0, 0.5, certificate.upper, 100.0):
        with pytest.raises(CertificateError):
            verify(replace(certificate, witness=witness, upper=wrong), problem, policy)


@pytest.mark.parametrize("seed", range(40))
def test_a_missing_edge_proves_nothing(seed):
    problem = random_problem(seed)
    game = solve_game(problem, iterations=2, gap=0)
    costs = np.where(game.pairs.reachable, game.costs + 2.0**-39, np.inf)
    first, following = game.graph.first.copy(), [table.copy() for table in game.graph.following]
    tables = [first[None], *following]
    table = tables[seed % len(tables)]
    edges = np.argwhere(table >= 0)
    table[tuple(edges[seed % len(edges)])] = -1
    witness = Witness(tables[0][0], tuple(following), costs, 0.0, "all")
    assert rule_bound(CheckedProblem(problem), witness, (None,), None) == np.inf


def test_a_rule_must_be_one():
    problem = veil.gallery.load("paper-last-state", horizon=4, min_return=None)
    game = solve_game(problem, iterations=2, gap=0)
    graph, costs = game.graph, np.where(game.pairs.reachable, game.costs + 2.0**-39, np.inf)
    good = Witness(graph.first, graph.following, costs, 0.0, "all")
    checked = CheckedProblem(problem)
    assert np.isfinite(rule_bound(checked, good, (None,), None))
    for wrong, message in (
        (replace(good, costs=costs - 0.01), "sum to more than one"),
        (replace(good, costs=np.where(np.isinf(costs), np.nan, np.nan)), "not NaN"),
        (replace(good, costs=costs[:, :1]), "shape"),
        (replace(good, costs=costs[:1]), "outside"),
        (replace(good, costs=costs[:-1]), "outside"),  # one past the end
        (replace(good, first=np.where(graph.first >= 0, graph.sizes[0], -1)), "outside"),
        (replace(good, following=graph.following[:-1]), "one table for each step"),
        (replace(good, multiplier=-1.0), "multiplier"),
        (replace(good, multiplier=float("nan")), "multiplier"),
    ):
        with pytest.raises(CertificateError, match=message):
            rule_bound(checked, wrong, (None,), None)


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
    assert certificate.witness is not None
    checked, values = CheckedProblem(problem), certificate.values
    bound = rule_bound(checked, certificate.witness, certificate.bounds, values)
    for shift in (-1.0, -1e-3, 1e-3, 1.0):
        for state in range(4):
            wrong = values.copy()
            wrong[0, state] += shift
            assert rule_bound(checked, certificate.witness, certificate.bounds, wrong) >= bound - 1e-12
    with pytest.raises(CertificateError, match="values"):
        verify(replace(certificate, values=None), problem, policy)


@pytest.mark.parametrize("name", ["paper-last-state", pytest.param("later-last-state", marks=pytest.mark.slow)])
def test_a_long_horizon_by_windows(name):
    problem = veil.gallery.load(name, horizon=60).replace(min_return="90%")
    game = solve_window_game(problem, threshold=threshold(problem), gap=0.3, clock=Clock(30.0))
    policy = game.revealing.policy(problem)
    certificate = certify(problem, policy, game=game, time_limit=20)
    verify(certificate, problem, policy)
    assert certificate.feasible
    assert certificate.lower >= game.lower - 1e-6
    assert certificate.upper <= game.upper + 1e-6
