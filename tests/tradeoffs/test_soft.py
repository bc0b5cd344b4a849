"""The entropy-regularised baseline: the known numbers, its recursion, and both ends of the temperature."""

import math
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem

OPACITY = [0.033, 0.066, 0.139, 0.227, 0.288, 0.318, 0.330, 0.335, 0.336, 0.336]
RETURN = [0.436, 0.380, 0.293, 0.202, 0.131, 0.087, 0.060, 0.045, 0.035, 0.029]
soft_policy = veil.soft.soft_policy


def random_model(seed: int, discount: float, states: int = 4, *, masked: bool = True) -> veil.Model:
    """Three actions, of which some may not be available."""
    rng = np.random.default_rng(seed)
    available = rng.random((states, 3)) < 0.7 if masked else np.ones((states, 3), dtype=bool)
    available[np.arange(states), rng.integers(3, size=states)] = True
    transitions = rng.dirichlet(np.full(states, 0.5), size=(states, 3)) * available[:, :, None]
    rewards, initial = rng.normal(size=(states, 3)), rng.dirichlet(np.ones(states))
    return veil.Model(transitions, rewards, initial, discount, available=available)


def with_model(model: veil.Model, horizon: int = 3, secret: Any = None) -> veil.Problem:
    observer = veil.Observer(np.ones((model.num_states, 1)))
    return veil.Problem(model, observer, secret or veil.LastState({0}), horizon)


def test_the_known_numbers_of_the_baseline():
    problem = veil.gallery.load("paper-last-state")
    points = veil.soft.soft_sweep(problem)
    assert [point.temperature for point in points] == pytest.approx([n / 100 for n in range(1, 11)])
    assert [round(point.opacity.bits, 3) for point in points] == OPACITY
    assert [round(point.expected_return, 3) for point in points] == RETURN
    assert [point.feasible for point in points] == [True, True] + [False] * 8
    assert all(point.opacity.method == "exact" for point in points)


def test_a_point_is_what_its_policy_is_worth():
    problem = veil.gallery.load("paper-last-state", min_return="50%")
    (point,) = veil.soft.soft_sweep(problem, [0.04], discount=0.8, method="sampled")
    policy = soft_policy(problem, 0.04, discount=0.8)
    assert point == veil.soft.SoftPoint(
        0.04, veil.opacity(problem, policy, "sampled"), veil.expected_return(problem, policy), False
    )
    assert veil.soft.soft_sweep(problem.replace(min_return=None), [0.09])[0].feasible


# The recursion


def brute_force(model: veil.Model, horizon: int, temperature: float, discount: float) -> tuple[np.ndarray, np.ndarray]:
    """Tables `(T, S, A)` and first values by the definition, state by state, with plain exponentials."""
    table = np.zeros((horizon, model.num_states, model.num_actions))
    values = list(model.terminal_rewards)
    for time in reversed(range(horizon)):
        following = []
        for state in range(model.num_states):
            ahead = {
                action: model.rewards[state, action] + discount * float(model.transitions[state, action] @ values)
                for action in np.flatnonzero(model.available[state])
            }
            total = math.fsum(math.exp(q / temperature) for q in ahead.values())
            for action, q in ahead.items():
                table[time, state, action] = math.exp(q / temperature) / total
            following.append(temperature * math.log(total))
        values = following
    return table, np.array(values)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 30.0])
def test_the_finite_recursion_is_that_of_its_definition(temperature: float):
    for seed in range(4):
        plain = random_model(seed, 0.9)
        ends = np.random.default_rng(seed + 9).normal(size=4)
        model = veil.Model(plain.transitions, plain.rewards, plain.initial, 0.9, ends, available=plain.available)
        for discount in (None, 0.5, 1.0):
            policy = soft_policy(with_model(model, 4), temperature, discount=discount, horizon="finite")
            assert isinstance(policy, veil.TimedPolicy)
            expected = brute_force(model, 4, temperature, 0.9 if discount is None else discount)[0]
            np.testing.assert_allclose(policy.probabilities, expected, atol=1e-12, err_msg=str(seed))


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
def test_the_infinite_recursion_is_the_limit_of_the_finite_one(discount: float):
    for seed in range(2):
        model = random_model(seed, discount)
        policy = soft_policy(with_model(model), 0.7)
        assert isinstance(policy, veil.MarkovPolicy)
        table, _ = brute_force(model, 330 if discount else 2, 0.7, discount)  # 0.9 ** 330 is below 1e-15
        np.testing.assert_allclose(policy.probabilities, table[0], atol=1e-11, err_msg=str(seed))


@pytest.mark.parametrize("temperature", [0.0, 0.1])
@pytest.mark.parametrize("discount", [0.5, 0.99, 0.9999])
def test_the_policy_is_that_of_the_values_it_earns(discount: float, temperature: float):
    """`V = Σ_a π (R − τ ln π) + γ P_π V`, solved at once, gives the policy back; near 1 the steps must end, too."""
    model = random_model(2, discount)
    table = soft_policy(with_model(model), temperature).table[0]
    paid = table * (model.rewards - temperature * np.log(np.where(table > 0, table, 1.0)))
    moves = np.einsum("sa,sat->st", table, model.transitions)
    values = np.linalg.solve(np.eye(4) - discount * moves, paid.sum(axis=1))
    ahead = np.where(model.available, model.rewards + discount * model.transitions @ values, -np.inf)
    best = ahead.max(axis=1, keepdims=True)
    if temperature:
        weights = np.exp((ahead - best) / temperature)
        np.testing.assert_allclose(table, weights / weights.sum(axis=1, keepdims=True), atol=1e-6)
    else:
        assert np.all(ahead[table > 0] >= np.broadcast_to(best, ahead.shape)[table > 0] - 1e-9)


# Both ends


@pytest.mark.parametrize("horizon", ["infinite", "finite"])
def test_hot_policies_are_uniform_and_cold_ones_greedy(horizon: Any):
    for seed in range(4):
        problem = with_model(random_model(seed, 0.8, masked=False))
        hot = soft_policy(problem, 1e9, horizon=horizon).table
        np.testing.assert_allclose(hot, np.broadcast_to(veil.MarkovPolicy.uniform(problem).table, hot.shape), atol=1e-7)
        for temperature in (0.0, 5e-324, 1e-6):
            cold = soft_policy(problem, temperature, horizon=horizon)
            judged = problem if horizon == "finite" else problem.replace(return_over="infinite")
            assert veil.expected_return(judged, cold) == pytest.approx(veil.max_return(judged), abs=1e-10), seed


def test_hot_policies_are_drawn_to_where_there_are_more_actions():
    """State 0 leads to 1, which has no choice, or to itself: staying keeps the choice, worth more than half."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, 0, 1] = 1
    model = veil.Model(transitions, [[0.0, 1.0], [0.0, 0.0]], 0, 0.5, available=[[1, 1], [1, 0]])
    stays = soft_policy(with_model(model), 1e9).table[0, 0, 0]
    # v = ln(e^(v/2) + 1), with w = e^(v/2): w² = w + 1, the golden ratio; π = w / (w + 1) = 1/w.
    assert stays == pytest.approx(2 / (1 + math.sqrt(5)), abs=1e-8)


def test_without_temperature_equal_actions_share():
    model = veil.Model(np.ones((1, 3, 1)), [[1.0, 1.0, 0.0]], 0, 0.5)
    for horizon in ("infinite", "finite"):
        assert soft_policy(with_model(model, 1), 0.0, horizon=horizon).table.tolist() == [[[0.5, 0.5, 0.0]]]  # type: ignore[arg-type]


# What the agent knows


def test_a_known_model_is_valued_by_itself_and_an_automaton_adds_nothing():
    first, second = (random_model(seed, 0.8, masked=False) for seed in (1, 2))
    both = veil.Problem([first, second], veil.Observer(np.ones((4, 1))), veil.WhichModel(agent_knows=True), 3)
    odd = veil.Automaton(
        {("even", "x"): "odd", ("odd", "x"): "even"}, "even", {"odd"}, {0: "x"}, "-", "stay", agent_knows=True
    )
    product = with_model(first, secret=odd)
    assert product.num_cells == 8
    for horizon in ("infinite", "finite"):
        each = [soft_policy(with_model(model), 0.4, horizon=horizon).table for model in (first, second)]  # type: ignore[arg-type]
        np.testing.assert_array_equal(soft_policy(both, 0.4, horizon=horizon).table, np.concatenate(each, axis=1))  # type: ignore[arg-type]
        found = soft_policy(product, 0.4, horizon=horizon).table  # type: ignore[arg-type]
        np.testing.assert_array_equal(found, np.tile(each[0], (1, 2, 1)))


def test_an_agent_who_does_not_know_the_model_has_no_baseline():
    models = [random_model(seed, 0.6, masked=False) for seed in (1, 2)]
    blind = veil.Problem(models, veil.Observer(np.ones((4, 1))), veil.WhichModel(), 2)
    with pytest.raises(veil.InputError, match="does not know which model runs"):
        soft_policy(blind, 0.1)


def test_settings_that_make_no_sense_are_told_each_and_together():
    problem = random_problem(0)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"temperature": -0.1}, "temperature is -0.1, expected a number, 0 or more"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"discount": 1.5}, r"discount is 1.5, expected a number in \[0, 1\]"),
        ({"discount": -0.5}, "discount is -0.5"),
        ({"discount": 1.0}, "an infinite horizon needs a discount below 1, found 1"),
        ({"horizon": "long"}, "horizon is 'long', expected 'infinite' or 'finite'"),
        ({"horizon": 10}, "horizon is 10"),
    ]
    for given, words in wrong:
        settings: dict[str, Any] = {"temperature": 0.5, "discount": 0.9} | given
        with pytest.raises(veil.InputError, match=words) as error:
            soft_policy(problem, **settings)
        assert len(error.value.defects) == 1
    with pytest.raises(veil.InputError, match="2 defects"):
        soft_policy(problem, -1, discount=-1)
    for temperature, discount in ((0.0, 0.9), (0.5, 0.0)):
        assert soft_policy(problem, temperature, discount=discount).probabilities.shape[1] == problem.num_actions
    assert soft_policy(problem, 0.5, discount=1.0, horizon="finite").probabilities.shape[0] == problem.horizon
