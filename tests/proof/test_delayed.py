"""The upper bound over agents that do not see the current observation: its induction, its certificates, lies about it."""

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.proof.cases import delayed_policy, noisy_problem, random_policy, seeing
from tests.proof.exact import ExactProblem
from tests.proof.lies import dressed
from tests.proof.plain import code, saved
from tests.proof.reading import CheckedProblem, Witness, replace, rule_bound
from veil.common.errors import CertificateError
from veil.engine.compile import build
from veil.game.pairs import FullHistory, make_pairs
from veil.proof.certificate import Certificate
from veil.proof.certify import certify
from veil.proof.claims import ProvenBound
from veil.proof.verify import verify

OWN_KINDS = ("markov", "timed", "states", "zones", "controller")


def random_rule(problem: veil.Problem, rng: np.random.Generator, multiplier: float) -> ProvenBound:
    """An observer who remembers everything, with a rule drawn at random."""
    graph, values = make_pairs(build(problem), FullHistory()).graph, len(problem.secret_values)
    rule = rng.dirichlet(np.full(values, 0.5), size=graph.sizes[-1]) * (1 - 1e-9) + 1e-12
    return Witness(graph.first, graph.following, -np.log2(rule), multiplier, "the whole history")


def expected_pay(exact: ExactProblem, bound: ProvenBound, choose: dict[tuple[Any, ...], int]) -> Fraction:
    """`E[w + λ G]` of a deterministic policy on (time, x, z, events before the current one), over all paths."""
    here = {((event,), x, exact.value(0, x, 0)): mass for x, event, mass in exact.starts()}
    total, price, rule = Fraction(0), Fraction(bound.prices[0]), bound.rules[0]
    for time in range(exact.horizon):
        after: dict[tuple[Any, ...], Fraction] = {}
        for (seen, x, z), mass in here.items():
            action = choose[time, x, z, seen[:-1]]
            total += price * mass * exact.reward(x, action)
            for y, event, chance in exact.moves(x, action):
                key = ((*seen, event), y, exact.value(time + 1, y, z))
                after[key] = after.get(key, Fraction(0)) + mass * chance
        here = after
    for (seen, _, z), mass in here.items():
        node = int(rule.first[seen[0]])
        for table, event in zip(rule.following, seen[1:], strict=True):
            node = int(table[node, event])
        total += mass * Fraction(float(rule.costs[node, z]))
    return total


@pytest.mark.parametrize("seed", range(6))
def test_the_induction_is_the_maximum_over_every_deterministic_policy_of_the_class(seed: int):
    """Two states that are seen through noise, two actions, two steps: 64 policies on x_0 and (x_1, z, o_0)."""
    rng = np.random.default_rng(seed)
    model = veil.Model(rng.dirichlet(np.ones(2), size=(2, 2)), rng.random((2, 2)), [0.4, 0.6])
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=2), sees_initial=bool(seed % 2))
    problem = veil.Problem(
        model, observer, veil.InitialState() if seed in (2, 4) else veil.LastState({0}), 2, min_return=0.1
    )
    rule, exact = random_rule(problem, rng, 0.7), ExactProblem(problem)
    first = range(2) if seed % 2 else range(1)
    starts = [(x, x if seed in (2, 4) else 0) for x in range(2)]
    known = range(2) if seed in (2, 4) else range(1)
    situations = [(0, x, z, ()) for x, z in starts]
    situations += [(1, x, z, (event,)) for x in range(2) for z in known for event in first]
    pays = [
        expected_pay(exact, rule, dict(zip(situations, actions, strict=True)))
        for actions in itertools.product(range(2), repeat=len(situations))
    ]
    best = float(max(pays) - Fraction(0.7) * Fraction(0.1))
    bound = rule_bound(CheckedProblem(problem, delay=1), rule, (0.1,), None)
    assert best <= bound <= best + 1e-9
    assert bound <= rule_bound(CheckedProblem(problem), rule, (0.1,), None) + 1e-12


def excess(problem: veil.Problem, policy: veil.Policy, late: ProvenBound) -> float:
    """By how much a policy hides more than the bound says, whether or not it has the return asked for."""
    threshold = 0.0 if problem.min_return is None else float(problem.min_return)
    missing = late.prices[0] * (threshold - veil.expected_return(problem, policy))
    return veil.opacity(problem, policy).bits - late.upper - missing


def check_class(seed: int, most: int, folder: Path) -> bool:
    """A certificate against policies of the class: random ones, all deterministic ones up to `most`, the best that is known.

    Says whether there was a bound to check.
    """
    problem = noisy_problem(seed)
    policy = random_policy(problem, OWN_KINDS[seed % 2], seed)
    certificate = certify(problem, policy, gap=1e-3, time_limit=20, progress=False)
    found = verify(certificate, problem, policy)
    if certificate.delayed is None:
        return False
    late = certificate.delayed
    assert found.delayed is not None
    assert found.delayed <= late.upper < certificate.upper
    assert certificate.lower <= late.upper or not certificate.feasible
    assert code(saved(folder, problem, policy, certificate)) == 0
    best = seeing(problem)
    others = [delayed_policy(best), *(random_policy(best, kind, seed) for kind in OWN_KINDS)]
    size = problem.num_states * problem.horizon
    for actions in itertools.islice(itertools.product(range(2), repeat=size), most):
        others.append(veil.TimedPolicy(np.eye(2)[np.array(actions).reshape(problem.horizon, -1)]))
    worst = max(excess(best, one, late) for one in others)
    assert worst <= 1e-9, seed
    assert worst >= -5e-3, seed  # the bound is that of the class, not of a smaller one
    return True


def test_no_policy_of_the_class_passes_the_bound(tmp_path: Path):
    assert sum(check_class(seed, 16, tmp_path / "result") for seed in range(12)) >= 3


@pytest.mark.slow
def test_no_policy_of_the_class_passes_the_bound_in_a_thousand_problems(tmp_path: Path):
    assert sum(check_class(seed, 512, tmp_path / "result") for seed in range(1000, 2000)) >= 250


@pytest.fixture(scope="module")
def problem() -> veil.Problem:
    return veil.gallery.load("language-graph")


@pytest.fixture(scope="module")
def honest(problem: veil.Problem) -> Certificate:
    return certify(problem, veil.MarkovPolicy.uniform(problem), gap=1e-3, progress=False)


def honest_feasible(claim: Certificate) -> Certificate:
    return replace(claim, quantities=(replace(claim.quantities[0], met=True),))


def test_both_bounds_are_stated_and_kept(problem: veil.Problem, honest: Certificate, tmp_path: Path):
    assert honest.delayed is not None
    assert honest.delayed.upper == pytest.approx(1.0785, abs=2e-3)
    assert honest.upper == pytest.approx(1.103, abs=2e-3)
    assert "that do not see the current observation: 1.07" in honest.claim
    assert "a policy can gain at most" in honest_feasible(honest).summary()
    assert "Smaller upper bound over" in honest.summary()
    assert "Smaller upper bound over" not in replace(honest, bounds=honest.bounds[:1]).summary()
    honest.save(tmp_path / "certificate.json")
    loaded = Certificate.load(tmp_path / "certificate.json")
    assert loaded == honest
    verify(loaded, problem, veil.MarkovPolicy.uniform(problem))


def test_there_is_none_where_the_agent_sees_or_the_delay_changes_nothing(problem: veil.Problem):
    history = random_policy(seeing(problem), "history", 1)
    assert certify(seeing(problem), history, time_limit=1, progress=False).delayed is None
    sharp = problem.replace(observer=veil.Observer(np.eye(problem.num_states)))
    assert certify(sharp, veil.MarkovPolicy.uniform(sharp), progress=False).delayed is None
    acting = problem.replace(observer=veil.Observer(problem.observer.emissions, sees_actions=True))
    assert certify(acting, veil.MarkovPolicy.uniform(acting), progress=False).delayed is None


def test_lies_about_it_are_refused_by_both_verifiers(problem: veil.Problem, honest: Certificate, tmp_path: Path):
    policy, (every, late) = veil.MarkovPolicy.uniform(problem), honest.bounds
    cheap = replace(late, costs=late.rules[0].costs * 0.9)
    point = np.full_like(late.rules[0].costs, np.inf)
    point[:, 0] = 2.0**-39
    for bounds, words in (
        ((every, replace(late, delay=0)), "their delays are"),
        ((late,), "their delays are"),
        ((every, replace(late, upper=late.upper - 1e-6)), "is claimed"),
        ((every, replace(late, upper=every.upper + 1e-6)), "above the other"),
        ((every, replace(every, delay=1, upper=late.upper)), "is claimed"),
        ((every, cheap), "sum to more than one"),
        ((every, replace(late, costs=point)), "excludes something"),
        ((every, replace(late, multiplier=-1.0)), "expected a finite number, 0 or more"),
        ((replace(late, delay=0), late), "is claimed"),  # a rule for these agents is none for all policies
    ):
        wrong = dressed(replace(honest, bounds=bounds, best_known=None))
        with pytest.raises(CertificateError, match=words):
            verify(wrong, problem, policy)
        if words != "above the other":  # which is true, and says nothing
            assert code(saved(tmp_path / "result", problem, policy, wrong)) == 5, words


def test_it_is_refused_beside_a_policy_that_sees_and_under_observers_who_see_actions(problem: veil.Problem):
    policy = random_policy(seeing(problem), "observations", 1)
    fine = certify(seeing(problem), policy, time_limit=2, progress=False)
    lie = dressed(replace(fine, bounds=(*fine.bounds, replace(fine.bounds[0], delay=1))))
    with pytest.raises(CertificateError, match="acts on the observations"):
        verify(lie, seeing(problem), policy)
    acting = problem.replace(observer=veil.Observer(problem.observer.emissions, sees_actions=True))
    uniform = veil.MarkovPolicy.uniform(acting)
    fine = certify(acting, uniform, time_limit=2, progress=False)
    with pytest.raises(CertificateError, match="and a delay"):
        verify(dressed(replace(fine, bounds=(*fine.bounds, replace(fine.bounds[0], delay=1)))), acting, uniform)
