"""Searches against observers without a clock: on all strings and on samples, with constraints, pairs, paths and beliefs."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import central_differences, sparse_matrices
from tests.seeds import looped
from veil.common.clock import UNLIMITED
from veil.engine.kernel import DenseKernel, SparseKernel
from veil.planning.backend import Draw
from veil.planning.channels import Asked, make_backend
from veil.planning.policy_class import Space, make_space
from veil.proof.backward import rule_bound
from veil.proof.checked_problem import CheckedProblem
from veil.proof.compiled import record_of
from veil.proof.feasibility import bounds_of

QUICK = {"starts": 2, "iterations": 25, "certificate": False}


def random_problem(seed: int, *, trajectory: bool = False) -> veil.Problem:
    """A small problem whose observer sees two kinds of letters, or nothing."""
    rng = np.random.default_rng(seed)
    model = veil.Model(rng.dirichlet(np.full(3, 0.7), size=(3, 2)), rng.normal(size=(3, 2)), rng.dirichlet(np.ones(3)))
    emissions = rng.dirichlet(np.full(3, 0.6), size=3) * (rng.random((3, 3)) < 0.8)
    emissions[:, 0] += 0.1
    emissions /= emissions.sum(axis=1, keepdims=True)
    observer = veil.Observer(emissions, ["nothing", "a", "b"], silent=0, untimed=True, sees_initial=bool(seed % 3))
    secrets = [veil.LastState({1}), veil.StateAt(1, {2}), veil.InitialState(), veil.Visited({"two": {2}})]
    if trajectory:
        secrets = [veil.Trajectory(), veil.Trajectory({"low": [0], "high": [1, 2]})]
    return veil.Problem(model, observer, secrets[seed % len(secrets)], 3 + seed % 2, agent_sees="state+observations")


def random_tables(space: Space, rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.dirichlet(np.ones(space.shape[-1]), size=(count, *space.shape[:-1]))


@looped("objective", ["entropy", "leakage", "guess"])
def test_all_strings_give_values_and_gradients(objective):
    for seed in range(4):
        space = make_space(random_problem(seed), "timed")
        backend = make_backend(space, Asked(objective, "exact"))
        tables = random_tables(space, np.random.default_rng(seed), 2)
        found = backend(tables, UNLIMITED)
        values, slopes = found.values, found.gradient
        for table, value, slope in zip(tables, values, slopes, strict=True):
            policy = space.policy(table)
            table_of = veil.measures.joint_table(space.problem, policy)
            if objective == "entropy":
                assert value == pytest.approx(table_of.bits, abs=1e-12)
            if objective == "leakage":
                assert value == pytest.approx(table_of.bits - table_of.prior_bits, abs=1e-12)
            if objective == "guess":
                assert value == pytest.approx(-table_of.guess_probability, rel=0.02)

            def score(logits: np.ndarray, backend=backend, space=space) -> float:
                return float(backend(space.softmax(logits)[None], UNLIMITED).values[0])

            logits = np.log(table)
            expected = central_differences(score, logits)
            found = table * (slope - np.sum(table * slope, axis=-1, keepdims=True))
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_samples_give_unbiased_values_and_gradients():
    """On dense transitions, and on sparse ones, whose passes are made once for all policies."""
    dense = make_space(random_problem(1), "markov")
    kernel = dense.hidden.kernel
    assert isinstance(kernel, DenseKernel)
    sparse = replace(dense, hidden=replace(dense.hidden, kernel=SparseKernel(sparse_matrices(kernel))))
    table = random_tables(dense, np.random.default_rng(1), 1)[0]
    exact = make_backend(dense, Asked("entropy", "exact"))(table[None], UNLIMITED)
    for space in (dense, sparse):
        backend = make_backend(space, Asked(evaluation="sampled"))
        drawn = [backend(table[None], UNLIMITED, Draw(400, seed)) for seed in range(30)]
        check_mean(np.array([one.values[0] for one in drawn]), exact.values[0])
        check_mean(np.stack([along(one.gradient[0]) for one in drawn]), along(exact.gradient[0]))
        assert backend(table[None], UNLIMITED, Draw(4000, 1), gradient=False).values == pytest.approx(
            exact.values, abs=0.05
        )


def along(slope: np.ndarray) -> np.ndarray:
    """The part of a gradient along tables whose rows sum to one."""
    return slope - slope.mean(axis=-1, keepdims=True)


def check_mean(drawn: np.ndarray, exact: np.ndarray) -> None:
    error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - exact) <= 5 * error + 1e-12)


@looped("evaluation", ["auto", "sampled", "bracket"])
def test_a_search_hides_more_than_random_policies(evaluation):
    problem = random_problem(0).replace(min_return="30%")
    rng = np.random.default_rng(0)
    found = veil.solve(problem, evaluation=evaluation, time_limit=30, **QUICK)
    assert found.feasible
    assert found.threshold is not None
    assert found.opacity.bits == pytest.approx(veil.opacity(problem, found.policy, "exact").bits, abs=1e-12)
    others = [veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=3)) for _ in range(50)]
    fair = [one for one in others if veil.expected_return(problem, one) >= found.threshold]
    slack = {"auto": 1e-9, "sampled": 5e-3, "bracket": 0.1}[evaluation]
    assert found.opacity.bits >= max(veil.opacity(problem, one).bits for one in fair) - slack


def test_other_goals_and_classes():
    problem = random_problem(1)
    uniform = veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).bits
    assert veil.solve(problem, goal="transparent", **QUICK).opacity.bits <= uniform + 1e-9
    for memory in ("timed", veil.ObservationMemory(1), veil.Controller(2)):
        found = veil.solve(problem, memory=memory, **QUICK)
        assert found.opacity.bits >= uniform - 1e-9
        assert found.opacity.bits == pytest.approx(veil.opacity(problem, found.policy, "exact").bits, abs=1e-12)


def test_whole_paths():
    for seed in (0, 1):
        problem = random_problem(seed, trajectory=True)
        found = veil.solve(problem, **QUICK)
        assert found.opacity.bits == pytest.approx(veil.opacity(problem, found.policy, "exact").bits, abs=1e-9)
        assert found.opacity.bits >= veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).bits - 1e-9


def test_pairs_with_and_without_clocks():
    """A foe without a clock beside an observer with one, and the other way round; bounds on its bits."""
    plain = random_problem(1)
    for own, foe in ((plain.observer, plain.observer.with_clock()), (plain.observer.with_clock(), plain.observer)):
        problem = plain.replace(observer=own, pairs=[veil.Pair("foe", secret=veil.InitialState(), observer=foe)])
        hidden = veil.solve(problem, hide="own, foe", **QUICK)
        assert hidden.pairs[0].bits == pytest.approx(veil.opacity(problem, hidden.policy, pair="foe").bits, abs=1e-9)
        most = veil.pair_values(problem, veil.MarkovPolicy.uniform(problem))[0].bits
        kept = problem.replace(pairs=[veil.Pair("foe", secret=veil.InitialState(), observer=foe, min=0.9 * most)])
        assert veil.solve(kept, **QUICK).pairs[0].met


def test_an_observer_who_may_be_wrong():
    """The loss over all strings is that of the measure, and a search keeps a bound on it."""
    plain = random_problem(1)
    belief = veil.Belief(doubt=0.05)
    problem = plain.replace(pairs=[veil.Pair("fool", belief=belief, min=0.2)])
    space = make_space(problem, "markov")
    table = random_tables(space, np.random.default_rng(2), 1)
    values = make_backend(make_space(plain, "markov"), Asked(evaluation="exact", belief=belief))(
        table, UNLIMITED
    ).values
    policy = space.policy(table[0])
    assert values[0] == pytest.approx(veil.pair_values(problem, policy)[0].bits, abs=1e-12)
    assert veil.solve(problem, **QUICK).pairs[0].met
    for other in (plain.observer.with_clock(), plain.observer.replace(silent="a")):
        with pytest.raises(veil.InputError, match="in how it erases silent steps"):
            problem.replace(pairs=[veil.Pair("fool", belief=veil.Belief(observer=other))])


@looped("seed", range(4))
def test_the_game_of_strings_bounds_all_policies(seed):
    """Its policy hides nearly as much as its bound says, more than from one with a clock, and no other search finds more."""
    problem = random_problem(seed).replace(min_return="40%" if seed % 2 else None)
    found = veil.solve(problem, method="game", gap=1e-3, certificate=False)
    assert found.feasible
    assert found.opacity.bits == pytest.approx(veil.opacity(problem, found.policy, "exact").bits, abs=1e-12)
    assert found.upper_bits is not None
    assert found.opacity.bits <= found.upper_bits + 1e-9 <= found.opacity.bits + 2e-3
    for memory in ("timed", veil.ObservationMemory(1)):
        assert veil.solve(problem, memory=memory, **QUICK).opacity.bits <= found.upper_bits + 1e-9
    assert found.opacity.bits >= veil.opacity(problem.with_clock(), found.policy, "exact").bits - 1e-12


@looped("seed", [0, 2])
def test_certificates_have_rules_of_strings(seed):
    """The upper bound is near the best; a rule that knows the times, or splits a string by them, is refused."""
    problem = random_problem(seed)
    found = veil.solve(problem, method="game", gap=1e-3)
    proof = found.certificate
    assert proof is not None
    veil.verify(proof, problem, found.policy)
    assert proof.lower <= veil.opacity(problem.with_clock(), found.policy, "exact").bits
    assert found.opacity.bits <= proof.upper <= found.opacity.bits + 2e-3
    again = veil.certify(problem, found.policy, gap=1e-3, time_limit=10)
    assert again.upper <= found.opacity.bits + 5e-3
    timed = veil.certify(problem.with_clock(), found.policy, gap=1e-3, time_limit=10)
    assert timed.upper < proof.upper
    with pytest.raises(veil.CertificateError):
        veil.verify(replace(timed, problem_hash=proof.problem_hash), problem, found.policy)
    with pytest.raises(veil.CertificateError, match="more than the string"):
        rule_bound(CheckedProblem(record_of(problem)), timed.bounds[0], bounds_of(problem), None)
    rule = proof.bounds[0].rules[0]
    last, costs = rule.following[-1].copy(), rule.costs
    ways = np.bincount(last[last >= 0])
    node = next(node for node, target in enumerate(last[:, 0]) if target >= 0 and ways[target] > 1)
    costs = np.concatenate([costs, costs[last[node, 0]][None]])
    last[node, 0] = len(costs) - 1  # a silent last step leads to a copy of the node of its string
    split = replace(rule, following=(*rule.following[:-1], last), costs=costs)
    with pytest.raises(veil.CertificateError, match="more than the string"):
        rule_bound(
            CheckedProblem(record_of(problem)), replace(proof.bounds[0], rules=(split,)), bounds_of(problem), None
        )
