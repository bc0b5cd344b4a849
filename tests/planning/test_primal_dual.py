"""The paper's algorithm: its steps by hand, its convergence on the paper's problems, and its settings."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem
from tests.record.planned import constrained
from tests.unproven import solve
from veil.common.clock import UNLIMITED
from veil.planning import primal_dual
from veil.planning.ascent import repair
from veil.planning.options import SolveOptions
from veil.planning.policy_class import make_space
from veil.planning.primal_dual import PrimalDual, describe_optimizer
from veil.planning.soft_starts import soft_starts
from veil.planning.starts import richest_table
from veil.planning.task import make_task


def make_method(problem: veil.Problem, per_start: bool = False, **settings: Any) -> PrimalDual:
    space = make_space(problem, "markov")
    return PrimalDual(make_task(space, per_start=per_start), richest_table(space), SolveOptions(**settings, seed=3))


def returns_by_start(problem: veil.Problem, policy: veil.MarkovPolicy) -> np.ndarray:
    """The exact return from each start state alone, by the recursion on values."""
    model, chosen = problem.model, policy.probabilities
    value = np.zeros(problem.num_states)
    for _ in range(problem.horizon):
        value = np.einsum("sa,sa->s", chosen, model.rewards + np.einsum("sat,t->sa", model.transitions, value))
    return value[np.flatnonzero(model.initial)]


def changed(model: veil.Model, *, scale: float = 1.0, discount: float = 1.0) -> veil.Model:
    """The model with other units of reward, or another discount."""
    paid = scale * model.terminal_rewards if discount == 1 else None
    return veil.Model(model.transitions, scale * model.rewards, model.initial, discount, paid)


# Where it begins.


def test_where_exact_values_take_long_it_begins_at_a_soft_start(monkeypatch: pytest.MonkeyPatch):
    problem = veil.gallery.load("paper-last-state", horizon=5, min_return=0.02)
    monkeypatch.setattr("veil.planning.primal_dual._FOLLOWED_SECONDS", 0.0)
    method = make_method(problem, gradients="sampled")
    soft = next(soft_starts(method.task, UNLIMITED))
    np.testing.assert_allclose(method.task.space.softmax(method.begin().theta), soft, atol=0.02)
    assert np.abs(make_method(problem).begin().theta).max() < 0.1


# The steps.


def test_two_steps_are_those_of_the_paper():
    """`θ ← θ + η ∇(H + λV)`, `λ ← max(0, λ − κ(V − δ))`, with the gradients of the public functions."""
    problem = veil.gallery.load("paper-last-state", horizon=5, min_return=0.02)
    method = make_method(problem, step=0.7, multiplier_step=40.0)
    state = method.begin()
    theta, price = state.theta[0], 0.0
    for _ in range(3):
        state = method.advance(state)
        hidden, slope = veil.opacity_gradient(problem, theta)
        value, value_slope = veil.measures.return_gradient(problem, theta)
        row = state.history[-1]
        np.testing.assert_allclose(row[[1, 2, 3, 4, 6]], [hidden.bits, value, price, 0.7, price], rtol=1e-9)
        theta = theta + 0.7 * (slope + price * value_slope)
        price = max(0.0, price - 40.0 * (value - 0.02))
        np.testing.assert_allclose(state.theta[0], theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(state.multiplier, price, rtol=1e-9)
    assert price > 0


def test_sampled_gradients_are_those_of_the_paper_on_average():
    problem = veil.gallery.load("paper-initial-state", horizon=5, min_return=0.1)
    for per_start in (False, True):
        method = make_method(problem, per_start, gradients="sampled", sequences=3000)
        table = method.task.space.softmax(np.random.default_rng(0).normal(size=method.task.space.shape))
        drawn = [method._sampled(table, iteration) for iteration in range(60)]
        exact = method.task.evaluate(table[None])
        for name in ("score", "slack", "score_slope", "slack_slope"):
            values = np.stack([getattr(one, name)[0] for one in drawn])
            expected = getattr(exact, name)[0]
            if name.endswith("slope"):  # what a softmax can follow
                weights = table
                values = weights * (values - np.sum(weights * values, axis=-1, keepdims=True))
                expected = weights * (expected - np.sum(weights * expected, axis=-1, keepdims=True))
            error = values.std(axis=0, ddof=1) / np.sqrt(len(drawn))
            # States that are hardly ever visited have no error to speak of.
            assert np.all(np.abs(values.mean(axis=0) - expected) <= 5 * error + 2e-5), name
        np.testing.assert_allclose([one.returns[0] for one in drawn], exact.returns[0])


def test_the_unit_of_the_reward_does_not_matter():
    """λ is in bits for one unit of return, and the usual κ follows: scaled rewards give the same policies."""
    plain = veil.gallery.load("two-rooms")
    scaled = veil.Problem(changed(plain.model, scale=1000.0), plain.observer, veil.LastState([1]), 1, min_return=750.0)
    first, second = (solve(one, method="primal-dual", iterations=100) for one in (plain, scaled))
    np.testing.assert_allclose(first.history.opacity_bits, second.history.opacity_bits, rtol=1e-6)
    np.testing.assert_allclose(first.history.multiplier, 1000 * second.history.multiplier, rtol=1e-6, atol=1e-9)


# Convergence.


def test_a_problem_solved_by_hand():
    """Two rooms: the iterates tend to the optimum from outside, and the answer is feasible all the same.

    In the vault with chance p, which is the return, the observer hears nothing with chance `q = 1 − 3p/4`, and then
    knows that it is the vault with chance `p/4q`: `H = q h(p/4q)`, `−dH/dp = log2(q/(1−p)) − log2(4q/p)/4`.
    """
    found = solve(veil.gallery.load("two-rooms"), method="primal-dual")
    p, q = 0.75, 0.4375
    hidden = -(p / 4) * math.log2(p / 4 / q) - (1 - p) * math.log2((1 - p) / q)
    assert found.feasible
    assert found.expected_return >= 0.75
    assert found.opacity.bits == pytest.approx(hidden, abs=1e-9)
    assert found.price_bits == pytest.approx(math.log2(q / (1 - p)) - math.log2(4 * q / p) / 4, abs=1e-6)
    assert found.status is veil.Status.CONVERGED


def test_the_papers_last_state_problem_with_exact_gradients():
    problem = veil.gallery.load("paper-last-state")
    found = solve(problem, method="primal-dual")
    assert found.feasible
    assert found.expected_return >= 0.3
    assert found.opacity.bits >= 0.93
    assert found.price_bits == pytest.approx(1.75, abs=0.15)
    assert found.settings["step"] == pytest.approx(10.8)


def test_the_papers_last_state_problem_with_few_samples():
    """A short run on few samples is noisy; it is far above what entropy regularisation reaches (0.4) all the same."""
    problem = veil.gallery.load("paper-last-state")
    found = solve(
        problem, method="primal-dual", gradients="sampled", sequences=300, iterations=300, multiplier_step=2.0
    )
    assert found.feasible
    assert found.expected_return >= 0.3
    assert found.opacity.bits >= 0.6


@pytest.mark.slow
@pytest.mark.parametrize("gradients", ["exact", "sampled"])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("name", "bits"), [("paper-last-state", 0.93), ("paper-initial-state", 0.312)])
def test_both_problems_of_the_paper_with_the_usual_settings(name: str, bits: float, seed: int, gradients: Any):
    found = solve(veil.gallery.load(name), method="primal-dual", gradients=gradients, sequences=3000, seed=seed)
    assert found.feasible
    assert found.expected_return >= 0.3
    assert found.opacity.bits >= bits


@pytest.mark.parametrize("gradients", ["exact", "sampled"])
def test_every_start_keeps_the_threshold_with_a_multiplier_of_its_own(gradients: Any):
    problem = veil.gallery.load("paper-initial-state", min_return=0.15)
    found = solve(problem, method="primal-dual", per_start=True, iterations=150, gradients=gradients, sequences=200)
    assert found.feasible
    assert found.history.multipliers.shape == (150, 4)
    np.testing.assert_array_equal(found.history.multipliers.max(axis=1), found.history.multiplier)
    assert np.all(found.history.multipliers >= 0)
    assert len({tuple(column) for column in found.history.multipliers.T}) == 4
    policy = found.policy
    assert isinstance(policy, veil.MarkovPolicy)
    assert np.all(returns_by_start(problem, policy) >= 0.15 - 1e-12)


def test_other_questions():
    problem = veil.gallery.load("two-rooms")
    shown = solve(problem, method="primal-dual", goal="transparent", iterations=200)
    assert shown.feasible
    assert shown.opacity.bits < 1e-3
    free = solve(veil.gallery.load("two-rooms", min_return=None), method="primal-dual", iterations=300)
    assert free.feasible
    assert free.history.multipliers.shape == (300, 0)
    richest = solve(problem, method="primal-dual", min_opacity=0.4, iterations=500)
    assert richest.feasible
    assert richest.opacity.bits >= 0.4 - 1e-12  # the tree is summed in another order
    assert richest.expected_return > 0.75
    leaking = solve(problem, method="primal-dual", objective="leakage", iterations=200, gradients="sampled")
    assert leaking.feasible
    assert leaking.opacity.leakage_bits <= solve(problem, objective="leakage").opacity.leakage_bits + 0.02


# Settings.


@pytest.mark.parametrize(
    "wrong",
    [{"step": 0}, {"step": float("nan")}, {"multiplier_step": -1.0}, {"gradients": "some"}, {"optimizer": "nobody"},
     {"optimizer": "apply_updates"}, {"optimizer": 3}],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]):
    if "optimizer" in wrong:
        pytest.importorskip("optax")
    with pytest.raises(veil.InputError, match=next(iter(wrong))):
        solve(veil.gallery.load("two-rooms"), method="primal-dual", **wrong)


@pytest.mark.parametrize("part", ["init", "update"])
def test_half_of_a_transformation_is_refused(part: str):
    pytest.importorskip("optax")
    half: Any = SimpleNamespace(**{part: lambda *given: given})
    with pytest.raises(veil.InputError, match="or an optax transformation"):
        describe_optimizer(half)


def test_what_cannot_be_sampled_is_refused():
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match="guess"):
        solve(problem, method="primal-dual", gradients="sampled", objective="guess")
    with pytest.raises(veil.InputError, match="min_opacity"):
        solve(problem, method="primal-dual", gradients="sampled", min_opacity=0.1)
    forever = veil.Problem(
        changed(problem.model, discount=0.5), problem.observer, veil.LastState([1]), 1, return_over="infinite"
    )
    with pytest.raises(veil.InputError, match="infinite"):
        solve(forever, method="primal-dual", gradients="sampled")


# Steps of optax.


def test_plain_descent_of_optax_is_the_plain_step():
    pytest.importorskip("optax")
    problem = veil.gallery.load("office-patrol")
    plain, same = (
        solve(problem, method="primal-dual", iterations=20, step=2.0, optimizer=own) for own in (None, "sgd")
    )
    np.testing.assert_allclose(plain.history.opacity_bits, same.history.opacity_bits, rtol=1e-12)


def test_adam_by_name_and_as_an_object():
    optax = pytest.importorskip("optax")
    problem = veil.gallery.load("paper-last-state")
    named = solve(problem, method="primal-dual", optimizer="adam", iterations=600)
    assert named.feasible
    assert named.opacity.bits >= 0.85
    settings: dict[str, Any] = {"method": "primal-dual", "iterations": 5}
    first = solve(problem, **settings, optimizer="adam", step=0.1)
    second = solve(problem, **settings, optimizer=optax.adam(0.1))
    np.testing.assert_array_equal(first.history.opacity_bits, second.history.opacity_bits)


def test_the_state_of_adam_is_in_double_precision():
    pytest.importorskip("optax")
    method = make_method(veil.gallery.load("two-rooms"), optimizer="adam")
    state = method.advance(method.begin())
    assert state.theta.dtype == np.float64
    assert sorted(leaf.dtype.name for leaf in state.optimizer) == ["float64", "float64", "int32"]


def test_a_transformation_is_told_by_what_it_does():
    optax = pytest.importorskip("optax")
    first, same, other = (describe_optimizer(optax.adam(rate)) for rate in (0.1, 0.1, 0.2))
    assert first == same != other


# The parts.


def test_candidates_are_the_best_and_the_newest_table_made_feasible():
    method = make_method(random_problem(1))
    state = method.begin()
    low = replace(state, theta=np.zeros_like(state.theta))
    found = method.candidates(low)
    assert found.shape == (2, *method.task.space.shape)
    np.testing.assert_array_equal(found[0], state.best)
    np.testing.assert_array_equal(found[1], repair(method.task, method.task.space.softmax(low.theta), state.best))
    assert len(method.candidates(replace(low, best_score=-np.inf))) == 1
    assert len(method.candidates(replace(low, theta=np.zeros((0, 0, 0))))) == 1
    assert method.is_done(replace(low, theta=np.zeros((0, 0, 0))))
    assert method.is_done(replace(low, iteration=method.iterations))
    assert not method.is_done(replace(low, iteration=method.iterations - 1))


@pytest.mark.parametrize(("sequences", "share"), [(60, 60), (3, 3), (2, 2)])
def test_sampled_returns_share_the_sequences_among_the_constraints(
    monkeypatch: pytest.MonkeyPatch, sequences: int, share: int
):
    drawn, plain = [], primal_dual.draw_runs
    monkeypatch.setattr(
        primal_dual, "draw_runs", lambda chain, count, generator: drawn.append(count) or plain(chain, count, generator)
    )
    method = make_method(random_problem(1), gradients="sampled", sequences=sequences)
    method._sampled(method._safe, 0)
    assert drawn == [share]
    drawn.clear()
    space = make_space(constrained(), "markov")
    several = PrimalDual(make_task(space), richest_table(space), SolveOptions(gradients="sampled", sequences=sequences))
    found = several._sampled(several._safe, 0)
    assert drawn == [max(2, share // 3)] * 3
    assert found.slack.shape == (1, 3)
    assert found.slack_slope.shape == (1, 3, *space.shape)
    drawn.clear()
    free = make_method(random_problem(1).replace(min_return=None), gradients="sampled", sequences=sequences)
    assert free._sampled(free._safe, 0).slack.shape == (1, 0)
    assert drawn == []


def test_the_best_feasible_table_and_the_newest_multipliers_are_noted():
    method = make_method(random_problem(1))
    state, safe = method.begin(), method._safe
    low = method.task.space.softmax(np.zeros(method.task.space.shape))
    for table, better in ((safe, False), (0.99 * safe + 0.01 * low, True), (low, False)):
        values = method.task.evaluate(table[None])
        found = method._noted(replace(state, iteration=4), table, values, np.array([0.5]))
        assert (found.best is table) is better
        assert found.history[-1, :5].tolist() == [4, values.secrecy[0], values.returns[0], 0.5, method.step]
        np.testing.assert_array_equal(found.best_multiplier, 0.5 * method.task.units)


def test_on_samples_alone_exact_returns_tell_what_is_feasible(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("veil.planning.primal_dual._FOLLOWED_SECONDS", 0.0)
    method = make_method(random_problem(1), gradients="sampled")
    state = replace(method.begin(), best_score=-np.inf)
    values = method.task.evaluate(method._safe[None])
    for slacks, feasible in (([0.0], True), ([0.5], True), ([-1e-9], False), ([0.5, -0.5], False), ([0.5, 0.0], True)):
        monkeypatch.setattr(type(method.task), "slacks", lambda self, tables, found=slacks: np.array([found]))
        for estimated in (-1.0, 1.0):
            guessed = replace(values, slack=np.full_like(values.slack, estimated))
            found = method._noted(state, method._safe, guessed, np.array([0.5]))
            assert (found.best_score > -np.inf) is feasible


def test_usual_steps_grow_with_the_rows_up_to_a_limit():
    assert make_method(random_problem(1)).step == pytest.approx(0.3 * random_problem(1).num_cells)
    task = SimpleNamespace(space=SimpleNamespace(shape=(50, 4, 2)), unit=2.0, units=np.array([2.0]), min_opacity=None)
    found = PrimalDual(task, np.zeros(1), SolveOptions())  # type: ignore[arg-type]
    assert (found.step, found.multiplier_step) == (30.0, 0.2 / 4)
    task.min_opacity = 0.5
    assert PrimalDual(task, np.zeros(1), SolveOptions()).multiplier_step == 0.2  # type: ignore[arg-type]
    assert PrimalDual(task, np.zeros(1), SolveOptions(step=0.5, multiplier_step=3.0)).multiplier_step == 3.0  # type: ignore[arg-type]
