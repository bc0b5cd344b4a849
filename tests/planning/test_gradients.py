"""What a search evaluates: values against the public measures, gradients against differences; exact, windows, samples."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import small_case
from tests.planning.evaluated import Evaluator
from tests.planning.small_problems import (
    corridor,
    endless,
    limited,
    random_problem,
    returns_by_start,
    tiny_problem,
    two_sensors,
)
from tests.random_problems import KINDS
from veil.common.clock import UNLIMITED

NAIVE = veil.Pair("naive", belief=veil.Belief("uniform", doubt=0.1))
ENERGY = [veil.Return(max="60%", reward="energy"), veil.Probability("F s2", "20%")]
Value = Callable[[veil.Problem, veil.Policy], float]


def bits(problem: veil.Problem, policy: veil.Policy, pair: str = "own") -> float:
    return veil.opacity(problem, policy, "exact", pair=pair).bits


def quantity(problem: veil.Problem, policy: veil.Policy, name: str) -> float:
    return next(one.value for one in veil.constraint_values(problem, policy) if one.name == name)


def path_problem(groups: bool = False) -> veil.Problem:
    """A whole path of three states; with groups it is whether the second one is met, which does not tell the state."""
    return tiny_problem(1, states=3).replace(secret=veil.Trajectory({"it": [1]} if groups else None), min_return=None)


def weighed(problem: veil.Problem, policy: veil.Policy) -> float:
    gain, energy = (quantity(problem, policy, name) for name in ("return", "energy"))
    return bits(problem, policy) + 2 * gain - energy


def summed(problem: veil.Problem, policy: veil.Policy) -> float:
    return bits(problem, policy) + 0.5 * bits(problem, policy, "start") - 2 * bits(problem, policy, "other")


def least(problem: veil.Problem, policy: veil.Policy) -> float:
    return min(bits(problem, policy, name) for name in ("own", "other", "start"))


def loss(problem: veil.Problem, policy: veil.Policy) -> float:
    return veil.pair_values(problem, policy, "exact")[0].loss_bits


# Problem, class, options of `veil.solve`, and what is maximised in terms of public functions.
CASES: dict[str, tuple[veil.Problem, Any, dict[str, Any], Value]] = {
    "markov": (random_problem(0), "markov", {}, bits),
    "timed": (random_problem(3), "timed", {}, bits),
    "states": (random_problem(3), veil.StateMemory(1), {}, bits),
    "controller": (random_problem(0), veil.Controller(2), {}, bits),
    "endless": (endless(), "markov", {}, bits),
    "transparent": (random_problem(2), "markov", {"goal": "transparent"}, lambda *of: -bits(*of)),
    "leakage": (random_problem(0), "timed", {"objective": "leakage"}, lambda *of: -veil.opacity(*of).leakage_bits),
    "per start": (random_problem(3), "markov", {"per_start": True}, bits),
    "kept": (random_problem(3), "timed", {"min_opacity": 0.2}, veil.expected_return),
    "constraints": (limited(ENERGY, 3), "timed", {}, bits),
    "task": (limited(ENERGY, 3), "timed", {"task": "2*gain - energy"}, weighed),
    "bounds": (two_sensors(1, min=0.3, max=0.4), "timed", {}, bits),
    "terms": (two_sensors(1, min=0.3), "timed", {"task": "0.5*H(start) - 2*H(other)"}, summed),
    "least": (two_sensors(1), "timed", {"hide": "own, other, start"}, least),
    "path": (path_problem(), "timed", {}, bits),
    "path of groups": (path_problem(groups=True), "timed", {}, bits),
    "path leakage": (path_problem(), "timed", {"objective": "leakage"}, lambda *of: -veil.opacity(*of).leakage_bits),
    "loss": (tiny_problem(1).replace(pairs=[NAIVE]), "timed", {"hide": "naive"}, loss),
}


def evaluator(name: str, **settings: Any) -> tuple[Evaluator, Value]:
    problem, memory, options, value = CASES[name]
    return Evaluator(problem, memory, **options | settings), value


@pytest.mark.parametrize("name", CASES)
def test_what_is_maximised_is_what_the_public_measures_say_of_the_policy(name: str):
    evaluate, value = evaluator(name)
    tables = evaluate.draw(3, 2)
    found = evaluate(tables)
    assert evaluate.kind == "exact"
    for number, table in enumerate(tables):
        policy = evaluate.policy(table)
        assert found["objective"][number] == pytest.approx(value(evaluate.problem, policy), abs=1e-11)
        assert found["returns"][number] == pytest.approx(veil.expected_return(evaluate.problem, policy), abs=1e-11)
        assert found["feasible"][number] == bool(np.all(found["slacks"][number] >= 0))


@pytest.mark.parametrize("name", [*CASES, "guess"])
def test_gradients_are_those_of_central_differences(name: str):
    problem, memory, options, _ = CASES.get(name, (random_problem(0), "timed", {"objective": "guess"}, bits))
    evaluate = Evaluator(problem, memory, **options)
    table, step = evaluate.draw(1, 4, sharp=0.5), 1e-6
    here = evaluate(table)
    for change in evaluate.directions(3):
        ends = [evaluate(table + sign * step * change) for sign in (1, -1)]
        rise = (ends[0]["objective"] - ends[1]["objective"])[0] / (2 * step)
        rises = (ends[0]["slacks"] - ends[1]["slacks"])[0] / (2 * step)
        if "hide" in options:  # the slacks of what is hidden are above the least of them, their gradients are their own
            rises[: options["hide"].count(",") + 1] += rise
        else:
            assert np.sum(here["gradient"][0] * change) == pytest.approx(rise, abs=2e-5)
        np.testing.assert_allclose(np.tensordot(here["slack_gradients"][0], change, 3), rises, atol=2e-5)


@pytest.mark.parametrize("name", ["constraints", "per start", "bounds", "kept"])
def test_slacks_are_what_is_left_of_each_bound(name: str):
    evaluate, _ = evaluator(name)
    problem = evaluate.problem
    for table in evaluate.draw(3, 5):
        policy, slacks = evaluate.policy(table), evaluate(table[None])["slacks"][0]
        if name == "per start":
            wanted = list(returns_by_start(problem, policy) - problem.min_return)
        elif name == "kept":
            wanted = [bits(problem, policy) - 0.2]
            assert slacks[0] < wanted[0]  # a little is kept back, so that it holds however the bits are summed
        else:
            values = veil.constraint_values(problem, policy)
            wanted = [(1 if one.relation == "≥" else -1) * (one.value - one.bound) for one in values]
        if name == "bounds":
            other = bits(problem, policy, "other")
            wanted = [other - 0.3, 0.4 - other, *wanted]
        np.testing.assert_allclose(slacks, wanted, atol=1e-9)


def test_the_chance_of_a_guess_is_bounded_closely_from_above():
    evaluate = Evaluator(random_problem(4), "timed", objective="guess")
    tables = evaluate.draw(4, 1)
    for table, value in zip(tables, evaluate(tables)["objective"], strict=True):
        chance = veil.measures.joint_table(evaluate.problem, evaluate.policy(table)).guess_probability
        assert chance - 1e-12 <= -value <= 1.05 * chance


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_secret(kind: str):
    for seed in range(3):
        problem = small_case(f"walk {seed}", kind, work=1_000).problem
        for memory in ("markov", veil.Controller(2)):
            evaluate = Evaluator(problem.replace(horizon=max(1, problem.horizon), min_return=None), memory)
            tables = evaluate.draw(2, seed)
            expected = [bits(evaluate.problem, evaluate.policy(table)) for table in tables]
            np.testing.assert_allclose(evaluate(tables)["bits"], expected, atol=1e-12, err_msg=f"{kind} {seed}")


def test_the_gradient_is_that_of_the_public_function():
    """`∂H/∂θ` of a softmax: `π_a (g_a − Σ π g)` of the gradient g with respect to the table."""
    problem = random_problem(2)
    evaluate = Evaluator(problem, "markov")
    theta = np.random.default_rng(0).normal(size=evaluate.shape)
    table = np.exp(theta) / np.exp(theta).sum(axis=-1, keepdims=True)
    slope = evaluate(table[None])["gradient"][0]
    wanted = veil.opacity_gradient(problem, theta[0])[1]
    np.testing.assert_allclose((table * (slope - np.sum(table * slope, axis=-1, keepdims=True)))[0], wanted, atol=1e-10)


def test_the_largest_models_are_walked_one_table_after_the_other():
    """A ring of many states has few sequences: exact values, by another way, are those of the public function."""
    states = 700
    entries = [(f"s{s}", f"a{move}", f"s{(s + move) % states}", 1.0) for s in range(states) for move in (1, 2)]
    seen = np.zeros((states, 2))
    seen[np.arange(states), (np.arange(states) % 3 == 0).astype(int)] = 1
    model = veil.Model.from_entries(entries, np.zeros((states, 2)), "s0")
    problem = veil.Problem(model, veil.Observer(seen), veil.LastState(["s3", "s5"]), 4)
    evaluate = Evaluator(problem, "markov", evaluation="exact")
    table = evaluate.draw(1)
    found = evaluate(table)
    assert found["bits"][0] == pytest.approx(bits(problem, evaluate.policy(table[0])), abs=1e-12)
    for change in evaluate.directions(2):
        ends = [evaluate(table + sign * 1e-6 * change)["bits"][0] for sign in (1, -1)]
        assert np.sum(found["gradient"][0] * change) == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=2e-6)


def test_backends_reach_other_processes_as_plain_messages():
    """Without the extra for functions inside others: a backend that needs it would be evaluated by one process alone."""
    made = [evaluator(name)[0] for name in ("path leakage", "loss", "leakage")]
    for evaluate in (Evaluator(random_problem(0), evaluation="bracket"), *made):
        tables = evaluate.draw(2)
        for backend in evaluate.task.channels.used:
            here, there = (one(tables, UNLIMITED) for one in (backend, pickle.loads(pickle.dumps(backend))))
            np.testing.assert_array_equal(here.values, there.values)
            np.testing.assert_array_equal(here.gradient, there.gradient)


def test_a_window_is_a_lower_bound_with_its_own_gradient():
    for seed in range(3):
        problem = random_problem(seed)
        exact, window = Evaluator(problem), Evaluator(problem, evaluation="bracket")
        tables = exact.draw(2, seed)
        assert window.kind == "bracket"
        assert np.all(window(tables)["bits"] <= exact(tables)["bits"] + 1e-12), seed


# On samples


SAMPLED = {
    "entropy": (random_problem(10), "timed", {}),
    "stationary": (random_problem(11), "markov", {}),
    "leakage": (random_problem(10), "timed", {"objective": "leakage"}),
    "decided at the start": (random_problem(10).replace(secret=veil.InitialState()), "timed", {}),
    "constraints": (limited(ENERGY, 3), "timed", {}),
    "corridor": (corridor(veil.StateAt(2, ["r0c1", "r0c3"])), "timed", {}),
    "path": (veil.gallery.load("two-rooms").replace(secret=veil.Trajectory()), "timed", {}),
    "path leakage": (veil.gallery.load("two-rooms").replace(secret=veil.Trajectory()), "timed", {"objective": "leakage"}),
    "pairs": (two_sensors(1, min=0.3), "timed", {"task": "0.5*H(start) - 2*H(other)"}),
    "loss": (two_sensors(1).replace(pairs=[NAIVE]), "timed", {"task": "H(naive)"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_are_unbiased_in_value_and_gradient(name: str):
    problem, memory, options = SAMPLED[name]
    exact = Evaluator(problem, memory, **options)
    table = exact.draw(1, 1, sharp=0.5)
    wanted, found = exact(table), []
    changes = list(exact.directions(4))
    for seed in range(16):
        evaluate = Evaluator(problem, memory, evaluation="sampled", sequences=400, seed=seed, **options)
        assert evaluate.kind == "sampled"
        here = evaluate(table)
        found.append([here["objective"][0], *(np.sum(here["gradient"][0] * change) for change in changes)])
    expected = [wanted["objective"][0], *(np.sum(wanted["gradient"][0] * change) for change in changes)]
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    np.testing.assert_array_less(np.abs(np.mean(found, axis=0) - expected), 5 * error + 1e-9)


def test_samples_of_a_seed_are_the_same_draws_each_time():
    problem = random_problem(3)
    first, again, other = (Evaluator(problem, evaluation="sampled", sequences=100, seed=seed) for seed in (5, 5, 6))
    tables = first.draw(3)
    values = first(tables)["bits"]
    np.testing.assert_array_equal(again(tables[[2, 0]])["bits"], values[[2, 0]])
    assert np.all(other(tables)["bits"] != values)


# Which way is taken


def noisy(horizon: int) -> veil.Problem:
    problem = random_problem(1)
    observer = veil.Observer(np.full((problem.num_states, 4), 0.25))
    return problem.replace(observer=observer, horizon=horizon, secret=veil.LastState({0}), min_return=None)


def test_exact_values_are_taken_where_they_fit_and_samples_else():
    assert Evaluator(noisy(3)).kind == "exact"
    long = Evaluator(noisy(60))
    assert long.kind == "sampled"
    assert "too many to enumerate" in long.reason
    with pytest.raises(veil.TooLargeError):
        Evaluator(noisy(60), evaluation="exact")
    assert "asked for" in Evaluator(noisy(3), evaluation="sampled").reason


def test_a_symmetric_policy_does_not_decide_that_all_sequences_can_be_enumerated():
    """Under the uniform policy the histories of this hall tell the same and merge; under those of a search they do not."""
    sensor = veil.Sensor("doors", [(0, 10), (10, 0)], 0.9)
    hall = veil.GridWorld(20, 20, starts=(0, 0), goals={(19, 19): 1.0}, slip=0.05, sensors=[sensor], secrets=[(3, 3)])
    assert Evaluator(hall.problem(30)).kind == "sampled"


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (random_problem(1), {"objective": "leakage", "evaluation": "bracket"}, "'bracket' bounds the entropy only"),
        (random_problem(1), {"objective": "guess", "evaluation": "sampled"}, "'guess' needs all sequences"),
        (noisy(60), {"objective": "guess"}, "'guess' needs all sequences"),
        (random_problem(1), {"min_opacity": 0.3, "goal": "transparent"}, "min_opacity"),
        (random_problem(1), {"min_opacity": 0.3, "objective": "leakage"}, "min_opacity"),
        (path_problem(), {"objective": "guess"}, "'guess' is not available"),
        (path_problem(), {"evaluation": "bracket"}, "'bracket' is not available"),
        (two_sensors(1, min=0.3), {"objective": "leakage"}, "pairs are about the entropy"),
        (two_sensors(1, min=0.3), {"evaluation": "bracket"}, "'bracket' is not available"),
        (
            tiny_problem(1, states=3).replace(
                observer=veil.Observer(np.eye(3), sees_actions=True),
                pairs=[veil.Pair("sure", belief=veil.Belief(veil.MarkovPolicy(np.full((3, 2), [1.0, 0.0]))))],
            ),
            {"hide": "sure"},
            "rules out what some policy makes happen",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused(problem: veil.Problem, options: dict[str, Any], words: str):
    with pytest.raises(veil.InputError, match=words):
        veil.solve(problem, memory="timed", certificate=False, progress=False, **options)


def test_a_path_of_groups_that_does_not_tell_the_state_is_not_sampled():
    """Where path and observations leave the state open, a search on samples is refused, and `auto` enumerates."""
    problem = veil.gallery.load("night-round").replace(secret=veil.Trajectory({"gate": ["r2c2"]}))
    assert Evaluator(problem, "markov").kind == "exact"
    with pytest.raises(veil.TooLargeError, match="tell the hidden state"):
        Evaluator(problem, "markov", evaluation="sampled")
