"""Feasible means feasible: what searches and certificates say of a return, against fractions, at every scale."""

import math
from dataclasses import replace as replace_plain
from fractions import Fraction

import numpy as np
import pytest

import veil
from tests.proof.exact import ExactProblem, normalised
from tests.proof.reading import CheckedProblem, policy_return
from tests.seeds import seeds
from tests.unproven import solve
from veil.common.errors import CertificateError, InfeasibleError
from veil.proof import feasibility
from veil.proof.certificate import Certificate
from veil.proof.words import claim_words, seal_of

SCALES = (1e-12, 1e-10, 1e-6, 1.0, 1e6, 1e12)
OFFSETS = (0.0, 1.0, -1e3, 1e9, -1e9, 1e12)


def random_problem(seed: int) -> veil.Problem:
    """Three states, two actions, rewards of a scale and an offset, and a threshold that is a number or a percentage."""
    rng = np.random.default_rng(seed)
    scale, offset = rng.choice(SCALES), rng.choice(OFFSETS) * rng.choice([1.0, 1e-6])
    rewards = offset + scale * rng.integers(-4, 5, size=(3, 2)) / (4 if rng.random() < 0.5 else 3)
    moves = rng.dirichlet(np.ones(3), size=(3, 2)) if rng.random() < 0.7 else np.eye(3)[rng.integers(0, 3, (3, 2))]
    model = veil.Model(moves, rewards, rng.dirichlet(np.ones(3)), rng.choice([1.0, 0.9]))
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=3))
    problem = veil.Problem(model, observer, veil.LastState({0}), int(rng.integers(1, 4)))
    share = rng.choice([0.0, 30.0, 90.0, 99.9, 100.0])
    if rng.random() < 0.5:
        return problem.replace(min_return=f"{share}%")
    largest, smallest = veil.max_return(problem), -veil.max_return(_negated(problem))
    return problem.replace(min_return=float(smallest + share / 100 * (largest - smallest)))


def _negated(problem: veil.Problem) -> veil.Problem:
    one = problem.model
    return problem.replace(model=veil.Model(one.matrices, -one.rewards, one.initial, one.discount))


def true_return(problem: veil.Problem, policy: veil.Policy) -> Fraction:
    """The expected return of a stationary or time-dependent policy, in fractions."""
    exact, tables = ExactProblem(problem), np.asarray(policy)
    tables = tables if tables.ndim == 3 else np.repeat(tables[None], problem.horizon, axis=0)
    values = [exact.last(s) for s in range(exact.states)]
    for table in tables[::-1]:
        values = [
            sum(
                share * (exact.reward(s, a) + exact.discount * sum(map(Fraction.__mul__, exact.transitions[0][s][a], values)))
                for a, share in enumerate(normalised(table[s]))
            )
            for s in range(exact.states)
        ]  # fmt: skip
    return sum(map(Fraction.__mul__, normalised(problem.model.initial), values), Fraction(0))


def check_solution(seed: int) -> bool:
    """Whether there was an answer; what is said of it must be so."""
    problem = random_problem(seed)
    memory = "timed" if seed % 2 else "markov"
    try:
        found = solve(problem, memory=memory, starts=1, iterations=3)
    except InfeasibleError:
        return False
    assert found.threshold is not None
    assert not isinstance(problem.min_return, float) or found.threshold == problem.min_return
    earned, wanted = true_return(problem, found.policy), Fraction(found.threshold)
    assert found.feasible == (earned >= wanted)
    if not found.feasible:
        assert "not decided" in found.detail or earned < wanted
    certificate = veil.certify(problem, found.policy, time_limit=0)
    assert certificate.feasible == (earned >= wanted)
    assert abs(Fraction(certificate.expected_return) - earned) <= Fraction(certificate.return_error)
    veil.verify(certificate, problem, found.policy)
    return True


@pytest.mark.parametrize(
    ("earned", "threshold", "feasible", "stated"),
    [(0.9999, 1.0, True, 1.0), (0.9999, 1.0, False, 0.9999), (1.5, 1.0, True, 1.5), (0.5, None, True, 0.5)],
)
def test_a_return_is_stated_on_its_side_of_the_threshold(
    earned: float, threshold: float | None, feasible: bool, stated: float
):
    assert feasibility.stated_return(earned, threshold, feasible) == stated


@pytest.mark.parametrize("block", seeds(5, 10))
def test_solutions_against_fractions(block: int):
    assert sum(check_solution(seed) for seed in range(10 * block, 10 * block + 10)) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(19))
def test_many_solutions_against_fractions(block: int):
    for seed in range(100 + 100 * block, 200 + 100 * block):
        check_solution(seed)


# The cases that were misreported


def choice(scale: float, offset: float, min_return: float | str | None) -> veil.Problem:
    """One step: the first action stays hidden and earns `offset`; the second pays `scale` more, and shows the secret."""
    moves = np.zeros((4, 2, 4))
    moves[:2, 0, 0] = moves[:2, 0, 1] = 0.5
    moves[0, 1, 2] = moves[1, 1, 3] = 1
    moves[2:, :] = np.eye(4)[2:, None]
    model = veil.Model(moves, offset + scale * np.array([[0.0, 1.0]] * 4), [0.5, 0.5, 0, 0])
    observer = veil.Observer([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    return veil.Problem(model, observer, veil.LastState({1, 3}), 1, min_return)


@pytest.mark.parametrize(("scale", "offset"), [(1e-10, 0.0), (1e-12, 0.0), (1.0, 1e9), (1.0, 1e12), (1e-3, 1e9)])
def test_who_misses_the_threshold_is_said_to(scale: float, offset: float):
    problem = choice(scale, offset, offset + scale * 0.75)
    idle = veil.MarkovPolicy(np.tile([1.0, 0.0], (4, 1)))
    certificate = veil.certify(problem, idle, time_limit=5)
    assert not certificate.feasible
    assert "misses the threshold" in certificate.claim
    veil.verify(certificate, problem, idle)
    found = veil.solve(problem, starts=2, iterations=20, progress=False, certificate_time_limit=2)
    assert found.feasible
    assert found.threshold is not None
    assert found.threshold == problem.min_return
    assert true_return(problem, found.policy) >= Fraction(found.threshold)
    assert found.certificate is not None
    assert found.certificate.feasible
    assert found.certificate.lower <= found.certificate.upper
    assert found.certificate.upper < 0.4  # three quarters of the time the secret is seen


def test_a_lie_about_feasibility_is_refused():
    problem = choice(1e-10, 0.0, 0.75e-10)
    idle = veil.MarkovPolicy(np.tile([1.0, 0.0], (4, 1)))
    honest = veil.certify(problem, idle, time_limit=2)
    lie = _forged(honest, quantities=(replace_plain(honest.quantities[0], met=True),))
    with pytest.raises(CertificateError, match=r"met is|bounds"):
        veil.verify(lie, problem, idle)


def _forged(honest: Certificate, **changes: object) -> Certificate:
    lie = replace_plain(honest, **changes)  # type: ignore[arg-type]
    return replace_plain(lie, claim=claim_words(lie), seal=seal_of(lie))


def test_ties_are_decided_to_the_last_bit():
    """One step that pays 0.1, three times over: the return is three times the float nearest to 0.1, and no more."""
    model = veil.Model(np.ones((1, 1, 1)), [[0.1]], [1.0])
    problem = veil.Problem(model, veil.Observer(np.ones((1, 1))), veil.LastState({0}), 3)
    policy, earned = veil.MarkovPolicy([[1.0]]), 3 * Fraction(0.1)
    for threshold in (0.3, math.nextafter(0.3, 1), float(earned), math.nextafter(float(earned), 1)):
        found = policy_return(CheckedProblem(problem), policy, None, (threshold,))
        assert found.reaches == (earned >= Fraction(threshold))
    assert Fraction(veil.max_return(problem)) <= earned < Fraction(math.nextafter(veil.max_return(problem), 1))


@pytest.mark.parametrize("discount", [0.9, 0.7])
def test_ties_of_an_upper_bound_are_decided_to_the_last_bit(discount: float):
    """The floats around the exact sum lie within its rounding error: one is met, the other is not."""
    exact = Fraction(0.1) * sum(Fraction(discount) ** time for time in range(3))
    near = float(exact)
    above = near if Fraction(near) >= exact else math.nextafter(near, math.inf)
    model = veil.Model(np.ones((1, 2, 1)), {"gain": [[0.0, 0.0]], "energy": [[0.1, 1.0]]}, [1.0], discount)
    for bound, met in ((above, True), (math.nextafter(above, -math.inf), False)):
        limit = veil.Return(max=bound, reward="energy")
        problem = veil.Problem(model, veil.Observer([[1.0]]), veil.LastState({0}), 3, constraints=[limit])
        (found,) = policy_return(CheckedProblem(problem), veil.MarkovPolicy([[1.0, 0.0]]), None, (None, bound)).others
        assert found.met is met


def test_what_cannot_be_decided_is_said_with_how_far_it_is():
    """Over an infinite horizon there is no exact pass: the words say within which distance the return lies."""
    model = veil.Model(np.ones((1, 1, 1)), [[0.1]], [1.0], 0.9)
    problem = veil.Problem(model, veil.Observer(np.ones((1, 1))), veil.LastState({0}), 3, 1.0, return_over="infinite")
    certificate = veil.certify(problem, veil.MarkovPolicy([[1.0]]), time_limit=1)
    assert not certificate.feasible
    assert "not proven: the return lies within" in certificate.claim
    veil.verify(certificate, problem, veil.MarkovPolicy([[1.0]]))


def test_what_is_earned_after_the_horizon():
    """By an optimal continuation, where there is one."""
    assert feasibility.after_horizon(choice(1.0, 0.0, None)) is None
    model = veil.Model(np.repeat(np.eye(2)[:, None], 2, axis=1), [[1.0, 0.0], [0.0, -1.0]], 0, discount=0.5)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({0}), 1, return_over="infinite")
    found = feasibility.after_horizon(problem)
    assert found is not None
    np.testing.assert_allclose(found, [[2.0, 0.0], [0.0, 2.0]], atol=1e-9)


def paying(
    reward: float, steps: int, relation: str, bound: float, rare: float = 0.0
) -> tuple[veil.Problem, veil.Policy]:
    """A reward at every step under the policy, another under others; `rare`: the probability of another state."""
    moves = np.tile([[[1.0, 0.0], [1.0 - rare, rare]]], (2, 1, 1))
    model = veil.Model(moves, {"return": [[1.0, 1.0]] * 2, "energy": [[reward, 1.0]] * 2}, 0)
    limit = veil.Return(reward="energy", **{relation: bound})  # pyright: ignore
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({0}), steps, constraints=[limit])
    return problem, veil.MarkovPolicy([[1.0, 0.0]] * 2)


@pytest.mark.parametrize(
    ("reward", "steps", "relation", "bound", "met", "stated"),
    [  # in fractions the sum is 0.30000000000000001665…, 2.09999999999999986677…, 1.00000000000000005551…
        (0.1, 3, "max", 0.29999999999999993, False, 0.30000000000000004),
        (0.1, 3, "max", 0.3, False, 0.30000000000000004),
        (0.1, 3, "max", 0.30000000000000004, True, 0.30000000000000004),
        (0.1, 3, "min", 0.3, True, 0.30000000000000004),
        (0.1, 3, "min", 0.30000000000000004, False, 0.3),
        (0.7, 3, "max", 2.0999999999999996, False, 2.1),
        (0.7, 3, "max", 2.1, True, 2.0999999999999996),
        (0.7, 3, "min", 2.0999999999999996, True, 2.0999999999999996),
        (0.7, 3, "min", 2.1, False, 2.0999999999999996),
        (0.1, 10, "min", 1.0, True, 1.0),
        (0.1, 10, "max", 1.0, False, 1.0000000000000002),
        (-0.1, 10, "max", -1.0, True, -1.0),
        (-0.1, 10, "min", -1.0, False, -1.0000000000000002),
    ],
)
def test_further_constraints_are_decided_to_the_last_bit(
    reward: float, steps: int, relation: str, bound: float, met: bool, stated: float
):
    """By fractions, whatever a sum of floats ends at; it is stated if it is on that side of the bound, else the next one."""
    problem, policy = paying(reward, steps, relation, bound)
    assert feasibility.meets_constraints(problem, policy, veil.expected_return(problem, policy)) is met
    (found,) = feasibility.proven_others(problem, policy)
    assert (found.met, found.value) == (met, stated)


def test_what_is_far_from_its_bound_is_stated_as_it_was_evaluated():
    """Beside a constraint that only fractions decide; and what every policy meets needs no verifier, discounted or not."""
    rewards = {"return": [[1.0, 1.0]], "near": [[0.1, 1.0]], "far": [[0.7, 0.0]], "sure": [[1.0, 1.0]]}
    limits = [("near", 0.3), ("far", 1.0), ("far", 5.0), ("sure", 3.0)]
    for discount, values in (
        (1.0, (0.30000000000000004, 2.0999999999999996, 2.0999999999999996, 3.0)),
        (0.5, (0.175, 1.225, 1.225, 1.75)),
    ):
        model = veil.Model(np.ones((1, 2, 1)), rewards, [1.0], discount)
        asked = [veil.Return(max=bound if name != "sure" else values[-1], reward=name) for name, bound in limits]
        problem = veil.Problem(model, veil.Observer([[1.0]]), veil.LastState({0}), 3, constraints=asked)
        found = feasibility.proven_others(problem, veil.MarkovPolicy([[1.0, 0.0]]))
        assert [one.met for one in found] == [discount < 1, False, True, True]
        assert [one.value for one in found] == pytest.approx(values, abs=0 if discount == 1 else 1e-15)


@pytest.mark.parametrize(("relation", "stated"), [("max", 0.30000000000000004), ("min", 0.3)])
def test_a_constraint_that_the_verifier_cannot_decide_is_not_met(relation: str, stated: float):
    """A move of probability 1e-300 is below what it computes with."""
    problem, policy = paying(0.1, 3, relation, 0.3 if relation == "max" else 0.30000000000000004, rare=1e-300)
    assert not feasibility.meets_constraints(problem, policy, veil.expected_return(problem, policy))
    (found,) = feasibility.proven_others(problem, policy)
    assert (found.met, found.value) == (False, stated)
    easy, policy = paying(0.1, 3, relation, 0.5 if relation == "max" else 0.2, rare=1e-300)
    assert feasibility.meets_constraints(easy, policy, veil.expected_return(easy, policy))  # far inside, floats decide
