"""The entropy-regularised baseline: the known numbers, its recursion, and both ends of the temperature."""

import math

import numpy as np
import pytest

import veil
from tests.engine.test_returns import random_model
from tests.planning.small_problems import random_problem
from veil.common.logs import soft_maximum
from veil.engine.return_range import max_return
from veil.engine.returns import optimal_values
from veil.planning import soft
from veil.planning.best_returns import greedy_table
from veil.planning.soft import PAPER_TEMPERATURES, SoftPoint, soft_action_values, soft_policy, soft_sweep

OPACITY = [0.033, 0.066, 0.139, 0.227, 0.288, 0.318, 0.330, 0.335, 0.336, 0.336]
RETURN = [0.436, 0.380, 0.293, 0.202, 0.131, 0.087, 0.060, 0.045, 0.035, 0.029]


def test_the_known_numbers_of_the_baseline():
    problem = veil.gallery.load("paper-last-state")
    points = soft_sweep(problem)
    assert [point.temperature for point in points] == pytest.approx([n / 100 for n in range(1, 11)])
    assert [round(point.opacity.bits, 3) for point in points] == OPACITY
    assert [round(point.expected_return, 3) for point in points] == RETURN
    assert [point.feasible for point in points] == [True, True] + [False] * 8
    assert all(point.opacity.method == "exact" for point in points)


def test_a_point_is_what_its_policy_is_worth():
    problem = veil.gallery.load("paper-last-state", min_return="50%")
    (point,) = soft_sweep(problem, [0.04], discount=0.8, method="sampled")
    policy = soft_policy(problem, 0.04, discount=0.8)
    assert point == SoftPoint(
        0.04, veil.opacity(problem, policy, "sampled"), veil.expected_return(problem, policy), False
    )
    assert soft_sweep(problem.replace(min_return=None), [0.09])[0].feasible
    assert len(PAPER_TEMPERATURES) == 10


# The soft maximum


def test_the_soft_maximum_by_hand():
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, -np.inf], [-np.inf, 5.0, -np.inf]])
    expected = [0.3 * math.log(3), 0.3 * math.log(math.exp(1 / 0.3) + math.exp(2 / 0.3)), 5.0]
    np.testing.assert_allclose(soft_maximum(rows, 0.3), expected, rtol=1e-15)
    assert soft_maximum(rows, 0.3)[2] == 5.0  # exactly: what is not available adds nothing
    np.testing.assert_array_equal(soft_maximum(rows, 0.0), [0, 2, 5])
    np.testing.assert_allclose(soft_maximum(rows + 1e6, 0.3) - 1e6, expected, atol=1e-9)
    assert soft_maximum(np.full(2, -np.inf), 0.5) == -np.inf


@pytest.mark.parametrize("temperature", [1e-320, 1e-300, 1e-3, 1.0, 1e6])
def test_the_soft_maximum_lies_between_the_maximum_and_a_little_more(temperature: float):
    rows = np.random.default_rng(1).normal(size=(50, 4))
    found = soft_maximum(rows, temperature)
    assert (found >= rows.max(axis=1)).all()
    assert (found <= rows.max(axis=1) + temperature * math.log(4) * (1 + 1e-15)).all()


# The recursion


def with_model(model: veil.Model, horizon: int = 3, secret=None) -> veil.Problem:
    observer = veil.Observer(np.ones((model.num_states, 1)))
    return veil.Problem(model, observer, secret or veil.LastState({0}), horizon)


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
@pytest.mark.parametrize("seed", range(4))
def test_the_finite_recursion_is_that_of_its_definition(seed: int, temperature: float):
    plain = random_model(seed, 0.9)
    ends = np.random.default_rng(seed + 9).normal(size=4)
    model = veil.Model(plain.transitions, plain.rewards, plain.initial, 0.9, ends, available=plain.available)
    assert not model.available.all()
    for discount in (None, 0.5, 1.0):
        policy = soft_policy(with_model(model, 4), temperature, discount=discount, horizon="finite")
        assert isinstance(policy, veil.TimedPolicy)
        expected = brute_force(model, 4, temperature, 0.9 if discount is None else discount)[0]
        np.testing.assert_allclose(policy.probabilities, expected, atol=1e-12)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_the_infinite_recursion_is_the_limit_of_the_finite_one(seed: int, discount: float):
    model = random_model(seed, discount)
    policy = soft_policy(with_model(model), 0.7)
    assert isinstance(policy, veil.MarkovPolicy)
    table, values = brute_force(model, 330 if discount else 2, 0.7, discount)  # 0.9 ** 330 is below 1e-15
    np.testing.assert_allclose(policy.probabilities, table[0], atol=1e-11)
    found = soft_maximum(soft_action_values(model, 0.7, discount), 0.7)
    scale = (np.abs(model.rewards).max() + 0.7 * math.log(3)) / (1 - discount)
    np.testing.assert_allclose(found, values, atol=2e-12 * scale)


@pytest.mark.parametrize("temperature", [0.0, 0.1])
@pytest.mark.parametrize("discount", [0.5, 0.99, 0.9999])
def test_the_fixed_point_is_what_its_own_policy_earns(discount: float, temperature: float):
    """`V = Σ_a π (R − τ ln π) + γ P_π V`, solved at once; near 1 rounding must not keep the steps from ending."""
    model = random_model(2, discount)
    values = soft_maximum(soft_action_values(model, temperature, discount), temperature)
    table = soft_policy(with_model(model), temperature).table[0]
    paid = table * (model.rewards - temperature * np.log(np.where(table > 0, table, 1.0)))
    moves = np.einsum("sa,sat->st", table, model.transitions)
    expected = np.linalg.solve(np.eye(4) - discount * moves, paid.sum(axis=1))
    scale = (np.abs(model.rewards).max() + temperature * math.log(3)) / (1 - discount)
    np.testing.assert_allclose(values, expected, atol=(1e-10 if discount > 0.999 else 2e-12) * scale)


def test_steps_end_where_nothing_is_forgotten():
    """Two states that change places over an infinite horizon: differences between them shrink by the discount and no faster."""
    transitions = np.zeros((2, 1, 2))
    transitions[[0, 1], 0, [1, 0]] = 1
    found = soft_action_values(veil.Model(transitions, [1.0, 0.0], 0), 0.3, 0.99)
    np.testing.assert_allclose(found[:, 0], [1 / (1 - 0.99**2), 0.99 / (1 - 0.99**2)], rtol=1e-11)


def test_steps_end_where_rounding_keeps_them_from_their_goal(monkeypatch: pytest.MonkeyPatch):
    model = random_model(1, 0.9, states=6)
    expected, steps = soft_action_values(model, 0.7, 0.9), 0

    def counted(values: np.ndarray, temperature: float) -> np.ndarray:
        nonlocal steps
        steps += 1
        found = soft_maximum(values, temperature)
        return found * (1 + 1e-15 * (-1) ** steps * np.arange(found.size).reshape(found.shape))

    monkeypatch.setattr(soft, "soft_maximum", counted)
    monkeypatch.setattr(soft, "_ERROR", 0.0)
    found = soft_action_values(model, 0.7, 0.9)
    assert steps < 500
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_the_policy_maximises_return_plus_entropy():
    """One state, discount 1/2: `π ∝ exp(R/τ)`; any other choice has less of `E[R] + τ H`."""
    model = veil.Model(np.ones((1, 3, 1)), [[0.0, 0.5, 1.0]], 0, 0.5)
    table = soft_policy(with_model(model), 0.5).table[0, 0]
    weights = np.exp(np.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(table, weights / weights.sum(), rtol=1e-12)

    def objective(choice: np.ndarray) -> float:
        return float(choice @ [0.0, 0.5, 1.0] - 0.5 * choice @ np.log(choice))

    for other in np.random.default_rng(0).dirichlet(np.ones(3), size=200):
        assert objective(other) <= objective(table)


# Both ends


@pytest.mark.parametrize("horizon", ["infinite", "finite"])
@pytest.mark.parametrize("seed", range(4))
def test_hot_policies_are_uniform_and_cold_ones_greedy(seed: int, horizon):
    problem = with_model(random_model(seed, 0.8, masked=False))
    hot = soft_policy(problem, 1e9, horizon=horizon).table
    np.testing.assert_allclose(hot, np.broadcast_to(veil.MarkovPolicy.uniform(problem).table, hot.shape), atol=1e-7)
    for temperature in (0.0, 5e-324, 1e-6):
        cold = soft_policy(problem, temperature, horizon=horizon)
        if horizon == "finite":
            np.testing.assert_allclose(cold.table, greedy_table(problem), atol=1e-12)
            assert veil.expected_return(problem, cold) == pytest.approx(max_return(problem), abs=1e-12)
        else:
            forever = problem.replace(return_over="infinite")
            assert veil.expected_return(forever, cold) == pytest.approx(max_return(forever), abs=1e-10)


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
        assert soft_policy(with_model(model, 1), 0.0, horizon=horizon).table.tolist() == [[[0.5, 0.5, 0.0]]]


@pytest.mark.parametrize("temperature", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_soft_values_and_returns_are_near_the_best(seed: int, temperature: float):
    """`V* ≤ V_τ ≤ V* + τ ln A / (1 − γ)`, so the return of the soft policy lacks no more than that."""
    model = random_model(seed, 0.8)
    best = optimal_values(model)
    values = soft_maximum(soft_action_values(model, temperature, 0.8), temperature)
    room = temperature * math.log(3) / (1 - 0.8)
    assert (values >= best - 1e-11).all()
    assert (values <= best + room + 1e-11).all()
    forever = with_model(model).replace(return_over="infinite")
    gained = veil.expected_return(forever, soft_policy(forever, temperature))
    assert max_return(forever) - room - 1e-11 <= gained <= max_return(forever) + 1e-11


# What the agent knows


def test_a_known_model_is_valued_by_itself_and_an_automaton_adds_nothing():
    first, second = (random_model(seed, 0.8, masked=False) for seed in (1, 2))
    secret = veil.WhichModel(agent_knows=True)
    both = veil.Problem([first, second], veil.Observer(np.ones((4, 1))), secret, 3)
    for horizon in ("infinite", "finite"):
        each = [soft_policy(with_model(model), 0.4, horizon=horizon).table for model in (first, second)]
        np.testing.assert_array_equal(soft_policy(both, 0.4, horizon=horizon).table, np.concatenate(each, axis=1))
    odd = veil.Automaton(
        {("even", "x"): "odd", ("odd", "x"): "even"}, "even", {"odd"}, {0: "x"}, "-", "stay", agent_knows=True
    )
    product = with_model(first, secret=odd)
    assert product.num_cells == 8
    for horizon in ("infinite", "finite"):
        plain = soft_policy(with_model(first), 0.4, horizon=horizon).table
        np.testing.assert_array_equal(soft_policy(product, 0.4, horizon=horizon).table, np.tile(plain, (1, 2, 1)))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"temperature": -0.1}, ["temperature is -0.1", "0 or more"]),
        ({"temperature": math.nan}, ["temperature is nan"]),
        ({"temperature": "hot"}, ["temperature is 'hot'"]),
        ({"temperature": 0.1}, ["discount below 1", "found 1", "discount=0.9"]),
        ({"temperature": 0.1, "discount": 1.5}, ["discount is 1.5", "[0, 1]"]),
        ({"temperature": 0.1, "discount": 0.9, "horizon": 10}, ["horizon is 10", "'finite'"]),
        ({"temperature": -1, "discount": -1}, ["2 defects"]),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict, parts: list[str]):
    problem = veil.gallery.load("paper-last-state")
    with pytest.raises(veil.InputError) as caught:
        soft_policy(problem, **arguments)
    for part in parts:
        assert part in str(caught.value)


def test_an_agent_who_does_not_know_the_model_has_no_baseline():
    models = [random_model(seed, 0.6, masked=False) for seed in (1, 2)]
    blind = veil.Problem(models, veil.Observer(np.ones((4, 1))), veil.WhichModel(), 2)
    with pytest.raises(veil.InputError, match="does not know which model runs"):
        soft_policy(blind, 0.1)


def test_the_temperatures_of_the_paper():
    assert list(PAPER_TEMPERATURES) == [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1]


@pytest.mark.parametrize(("given", "words"), [
    ({"temperature": -0.1}, "temperature is -0.1, expected a number, 0 or more"),
    ({"temperature": float("inf")}, "temperature is inf"),
    ({"temperature": "x"}, "temperature is 'x'"), ({"discount": 1.5}, r"discount is 1.5, expected a number in \[0, 1\]"),
    ({"discount": -0.5}, "discount is -0.5"), ({"discount": 1.0}, "an infinite horizon needs a discount below 1, found 1"),
    ({"horizon": "long", "discount": 0.5}, "horizon is 'long', expected 'infinite' or 'finite'"),
])  # fmt: skip
def test_each_setting_that_makes_no_sense_is_told(given: dict, words: str):
    problem = random_problem(0)
    settings: dict = {"temperature": 0.5, "discount": 0.9} | given
    with pytest.raises(veil.InputError, match=words) as error:
        soft_policy(problem, **settings)
    assert len(error.value.defects) == 1
    for temperature, discount in ((0.0, 0.9), (0.5, 0.0)):
        assert soft_policy(problem, temperature, discount=discount).probabilities.shape[1] == problem.num_actions
    assert soft_policy(problem, 0.5, discount=1.0, horizon="finite").probabilities.shape[0] == problem.horizon
