"""Gradients: against the paper's own recursion, over an infinite horizon, and finite where it is easy to go wrong."""

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import central_differences
from tests.oracle import Spec
from tests.paper_recursion import all_sequences, paper_gradient
from tests.random_problems import KINDS, random_spec, to_policy, to_problem
from tests.seeds import in_blocks, looped

BOTH = (False, True)


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, measured by the largest entry: single entries may cancel to nothing."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def softmax(theta: np.ndarray, problem: veil.Problem) -> veil.MarkovPolicy | veil.TimedPolicy:
    kind = veil.MarkovPolicy if theta.ndim == 2 else veil.TimedPolicy
    return kind.softmax(theta, problem)


def random_theta(problem: veil.Problem, timed: bool, seed: int, spread: float = 1.0) -> np.ndarray:
    shape = (problem.num_cells, problem.num_actions)
    return spread * np.random.default_rng(seed).normal(size=(problem.horizon, *shape) if timed else shape)


# The paper's recursion


def random_rows(rng: np.random.Generator, *shape: int, zeros: float) -> np.ndarray:
    """Random distributions along the last axis with some exact zeros."""
    weights = rng.gamma(0.7, size=shape) * (rng.random(shape) >= zeros)
    weights[..., 0] += weights.sum(axis=-1) == 0
    return weights / weights.sum(axis=-1, keepdims=True)


def random_arrays(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    states, actions, observations = (int(rng.integers(2, most)) for most in (7, 4, 5))
    zeros = rng.choice([0.0, 0.3, 0.6])
    return {
        "transitions": random_rows(rng, states, actions, states, zeros=zeros),
        "emissions": random_rows(rng, states, observations, zeros=zeros),
        "initial": random_rows(rng, states, zeros=0.2),
        "theta": rng.normal(size=(states, actions)),
    }


def paper_problem(arrays: dict[str, Any], secret, horizon: int) -> veil.Problem:
    model = veil.Model(arrays["transitions"], np.zeros(arrays["theta"].shape), arrays["initial"])
    kind = veil.InitialState() if secret == "initial" else veil.LastState(secret)
    return veil.Problem(model, veil.Observer(arrays["emissions"]), kind, horizon)


@pytest.mark.parametrize("secret", ["initial", {0, 1}])
def test_the_paper_recursion_is_the_derivative_of_its_entropy(secret):
    """The reference is itself checked, so that two equal mistakes cannot pass for agreement."""
    arrays = random_arrays(3)
    sequences = all_sequences(arrays["emissions"].shape[1], 3)

    def entropy(theta: np.ndarray) -> float:
        return paper_gradient(**{**arrays, "theta": theta}, sequences=sequences, secret=secret).bits

    found = paper_gradient(**arrays, sequences=sequences, secret=secret)
    assert found.joint.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(found.gradient, central_differences(entropy, arrays["theta"], 1e-5), rtol=0, atol=1e-8)
    assert np.abs(found.gradient).max() > 1e-3


@pytest.mark.parametrize("secret", ["last", "initial"])
@pytest.mark.parametrize("horizon", [0, 1, 2, 4])
@in_blocks(6, 12, 6)
def test_equals_the_paper_recursion(seed: int, horizon: int, secret: str):
    arrays = random_arrays(100 * horizon + seed)
    inside = "initial" if secret == "initial" else {0, len(arrays["initial"]) // 2}
    problem = paper_problem(arrays, inside, horizon)
    expected = paper_gradient(**arrays, sequences=all_sequences(arrays["emissions"].shape[1], horizon), secret=inside)
    value, gradient = veil.opacity_gradient(problem, arrays["theta"], method="exact")
    assert value.bits == pytest.approx(expected.bits, abs=1e-12)
    assert value.num_sequences == np.count_nonzero(expected.joint.sum(axis=1))
    assert gradient.shape == arrays["theta"].shape
    if np.abs(expected.gradient).max() > 1e-9:
        assert relative_error(gradient, expected.gradient) < 1e-10
    else:  # the policy does not matter (T = 0, or a secret that is certain): both are rounding errors
        np.testing.assert_allclose(gradient, expected.gradient, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("name", "horizon"), [("paper-last-state", 7), ("paper-initial-state", 5)])
def test_equals_the_paper_recursion_on_the_grid_of_the_paper(name: str, horizon: int):
    problem = veil.gallery.load(name, horizon=horizon)
    model, secret = problem.model, problem.secret
    inside = [int(state) for state in secret.states or ()] if isinstance(secret, veil.LastState) else "initial"
    theta = np.random.default_rng(7).normal(size=(36, 5))
    table = veil.measures.joint_table(problem, veil.MarkovPolicy.softmax(theta))
    assert table.probabilities.sum() == pytest.approx(1, abs=1e-12)  # so these are all sequences
    expected = paper_gradient(
        model.transitions, problem.observer.emissions, model.initial, theta, table.events, secret=inside
    )
    np.testing.assert_allclose(table.probabilities, expected.joint, rtol=1e-11, atol=0)
    value, gradient = veil.opacity_gradient(problem, theta, method="exact")
    assert value.bits == pytest.approx(expected.bits, abs=1e-12)
    assert relative_error(gradient, expected.gradient) < 1e-10


# The return


def forever(spec: Spec) -> Spec:
    """The same problem with a discount below 1 and without terminal rewards, as an infinite return needs."""
    models = tuple(replace(model, terminal=[0] * spec.num_states) for model in spec.models)
    return replace(spec, discount=Fraction(4, 5), models=models)


@looped("timed", BOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_infinite_return_gradient(kind: str, timed: bool):
    largest = 0.0
    for seed in range(3):
        rng = random.Random(f"{kind}{timed}{seed}")
        spec = random_spec(rng, kind, work=2_000, timed=timed)
        secret = replace(spec.secret, agent_knows=spec.secret.agent_knows or (timed and kind == "model"))
        problem = to_problem(forever(replace(spec, secret=secret)), rng, "infinite")
        theta = random_theta(problem, timed, seed)
        value, gradient = veil.measures.return_gradient(problem, theta)
        assert value == pytest.approx(veil.expected_return(problem, softmax(theta, problem)), abs=1e-13)
        expected = central_differences(lambda t, p=problem: veil.expected_return(p, softmax(t, p)), theta, 1e-5)
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-6)
        assert not np.any(gradient[..., ~problem.available])
        largest = max(largest, np.abs(gradient).max(initial=0))
    assert largest > 1e-3


@in_blocks(30, 120, 30)
def test_infinite_return(seed: int):
    """Of a stationary policy that of a long horizon; time-dependent ones are checked by the verifier in `tests/proof`."""
    rng = random.Random(seed)
    spec = forever(random_spec(rng, work=2_000))
    problem = to_problem(spec, rng, "infinite")
    policy = to_policy(spec, problem)
    if spec.timed and spec.secret.kind == "model" and not spec.secret.agent_knows:
        with pytest.raises(veil.InputError, match="which model"):
            veil.expected_return(problem, policy)
    elif not spec.timed:
        long = problem.replace(return_over="horizon", horizon=200)
        assert veil.expected_return(problem, policy) == pytest.approx(veil.expected_return(long, policy), abs=1e-11)


# Where it is easy to go wrong


def assert_finite(problem: veil.Problem, theta: np.ndarray) -> tuple[veil.Opacity, np.ndarray]:
    value, gradient = veil.opacity_gradient(problem, theta, method="exact")
    total, slope = veil.measures.return_gradient(problem, theta)
    numbers = [value.bits, value.lower, value.upper, value.prior_bits, value.leakage_bits, total]
    assert np.isfinite(numbers).all()
    assert gradient.shape == slope.shape == theta.shape
    assert np.isfinite(gradient).all()
    assert np.isfinite(slope).all()
    return value, gradient


@in_blocks(30, 120, 30)
def test_deterministic_policies(seed: int):
    """θ of -inf keeps an action at zero: its own slope is zero, and nothing becomes NaN on the way."""
    rng = random.Random(seed)
    spec = random_spec(rng, work=2_000)
    problem = to_problem(spec, rng)
    actions = [[rng.choice(np.flatnonzero(row).tolist()) for row in problem.available] for _ in range(spec.horizon)]
    if spec.timed:
        policy = veil.TimedPolicy.deterministic(problem, np.reshape(actions, (spec.horizon, problem.num_cells)))
    else:
        row = actions[0] if actions else [int(np.argmax(row)) for row in problem.available]
        policy = veil.MarkovPolicy.deterministic(problem, row)
    theta = policy.logits()
    assert (np.exp(theta) == policy.probabilities).all()
    value, gradient = assert_finite(problem, theta)
    assert value.bits == pytest.approx(veil.opacity(problem, policy, method="exact").bits, abs=1e-13)
    assert not gradient.any()  # a softmax row with one entry left has nowhere to move to


def small_problem(secret, horizon: int = 3, *, emissions=None, initial=(0.5, 0.5, 0.0), available=None) -> veil.Problem:
    """Two states that mix and an absorbing third."""
    transitions = np.array(
        [[[0.5, 0.3, 0.2], [0.1, 0.9, 0.0]], [[0.7, 0.3, 0.0], [0.2, 0.2, 0.6]], [[0, 0, 1.0], [0, 0, 1.0]]]
    )
    if available is not None:
        transitions = transitions * np.array(available)[:, :, None]
    model = veil.Model(transitions, np.array([[1, 0], [0, 2], [0, 0.0]]), list(initial), available=available)
    emissions = [[0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.5, 0.5, 0.0]] if emissions is None else emissions
    return veil.Problem(model, veil.Observer(emissions), secret, horizon)


DEGENERATE = {
    "never emitted": small_problem(veil.LastState({2})),
    "absorbing everywhere": small_problem(veil.LastState({2}), initial=(0, 0, 1)),
    "certain secret": small_problem(veil.LastState({0, 1, 2})),
    "secret that cannot be": small_problem(veil.StateAt(0, {2})),
    "one start": small_problem(veil.InitialState(), initial=(1, 0, 0)),
    "masked": small_problem(veil.LastState({2}), available=[[True, False], [True, True], [False, True]]),
    "all masked but one": small_problem(veil.LastState({2}), available=[[True, False], [False, True], [True, False]]),
    "sees everything": small_problem(veil.LastState({2}), emissions=np.eye(3)),
    "sees nothing": small_problem(veil.InitialState(), emissions=np.ones((3, 1))),
    "T = 0": small_problem(veil.LastState({0}), 0),
    "T = 0, initial state": small_problem(veil.InitialState(), 0),
    "T = 1": small_problem(veil.LastState({0}), 1),
    "T = 1, state at 0": small_problem(veil.StateAt(0, {0}), 1),
}


@looped("timed", BOTH)
@looped("name", DEGENERATE)
def test_degenerate_problems(name: str, timed: bool):
    problem = DEGENERATE[name]
    theta = random_theta(problem, timed, 5)
    value, gradient = assert_finite(problem, theta)
    expected = central_differences(lambda t: veil.opacity(problem, softmax(t, problem), method="exact").bits, theta)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-6)
    if name in ("absorbing everywhere", "certain secret", "secret that cannot be", "one start"):
        assert value.bits == 0
        assert value.prior_bits == pytest.approx(0, abs=1e-14)
        assert not gradient.any()
    if name == "sees everything":
        assert value.bits == 0
    if name == "sees nothing":
        assert value.bits == pytest.approx(1, abs=1e-14)
        assert value.prior_bits == pytest.approx(1, abs=1e-14)
        assert value.num_sequences == 1


@looped("size", [50.0, 800.0, 1e6])
@looped("name", ["never emitted", "masked", "T = 1"])
def test_parameters_so_large_that_the_softmax_saturates(name: str, size: float):
    problem = DEGENERATE[name]
    assert_finite(problem, random_theta(problem, False, 2, spread=size))


def test_gradient_of_a_policy_does_not_depend_on_a_shift_of_its_rows():
    problem = DEGENERATE["never emitted"]
    theta = random_theta(problem, False, 3)
    _, gradient = veil.opacity_gradient(problem, theta, method="exact")
    _, shifted = veil.opacity_gradient(problem, theta + np.array([[5.0], [-3.0], [700.0]]), method="exact")
    assert relative_error(shifted, gradient) < 1e-12
    np.testing.assert_allclose(gradient.sum(axis=1), 0, atol=1e-15)
