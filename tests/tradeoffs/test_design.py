"""The design of sensors: against all designs one by one, the greedy search, and refusals."""

import itertools
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW
from tests.random_problems import distributions
from tests.seeds import blocks

GAP = 1e-3


def random_problem(seed: int, sensors: str = "abc", horizon: int = 2) -> veil.Problem:
    """A state for each sensor, which reports that state with some probability."""
    rng, count = np.random.default_rng(seed), len(sensors)
    model = veil.Model(distributions(rng, count, 2, count), np.zeros((count, 2)), distributions(rng, count))
    emissions = np.zeros((count, count + 1))
    emissions[np.arange(count), np.arange(count) + 1] = rng.uniform(0.1, 1, count)
    emissions[:, 0] = 1 - emissions.sum(axis=1)
    observer = veil.Observer(
        emissions, ["nothing", *sensors], silent="nothing", sensors={name: {name: "nothing"} for name in sensors}
    )
    return veil.Problem(model, observer, veil.LastState([int(rng.integers(count))]), horizon)


def best_hidden(problem: veil.Problem, muted: tuple[str, ...]) -> tuple[float, float]:
    """Proven bounds of the best policy where some sensors are muted."""
    observer = problem.observer
    for name in muted:
        observer = observer.without_sensor(name)
    found = veil.solve(problem.replace(observer=observer), "game", gap=GAP, **FEW)
    return found.opacity.lower, found.upper_bits


def check(seed: int, goal: Any) -> None:
    """The design is as good as the best of all within the budget, up to the gaps of the games."""
    problem, rng = random_problem(seed), np.random.default_rng([seed, 1])
    costs = dict(zip("abc", rng.uniform(0.2, 1, 3).tolist(), strict=True))
    budget = float(rng.uniform(0.3, 2))
    found = veil.design_sensors(problem, budget, costs=costs, goal=goal, gap=GAP)
    chosen = found.muted if goal == "opaque" else found.kept
    assert sorted((*found.muted, *found.kept)) == ["a", "b", "c"]
    assert found.cost == pytest.approx(sum(costs[name] for name in chosen)), seed
    assert found.cost <= budget
    assert found.exhaustive
    bounds = []
    for one in itertools.chain.from_iterable(itertools.combinations("abc", size) for size in range(4)):
        if sum(costs[name] for name in one) <= budget:
            bounds.append(best_hidden(problem, one if goal == "opaque" else tuple(sorted(set("abc") - set(one)))))
    lowest, highest = max(lower for lower, _ in bounds), min(upper for _, upper in bounds)
    if goal == "opaque":
        assert found.lower_bits >= lowest - 1e-9, seed
        assert found.bound_bits >= lowest - 1e-9, seed
    else:
        assert found.upper_bits <= highest + 1e-9, seed
        assert found.bound_bits <= highest + 1e-9, seed
    assert found.lower_bits <= found.upper_bits <= found.lower_bits + 2 * GAP
    assert found.solution.upper_bits == found.upper_bits
    for one in found.tried:
        assert one.lower_bits <= one.upper_bits


@pytest.mark.parametrize("goal", ["opaque", "transparent"])
@pytest.mark.parametrize("block", blocks(1, 51, 5))
def test_the_best_of_all_designs(block: range, goal: Any):
    for seed in block:
        check(seed + 2, goal)


@pytest.mark.parametrize("goal", ["opaque", "transparent"])
def test_where_there_are_too_many_designs_the_search_is_greedy_within_a_bound_that_holds_for_all(goal: Any):
    """Four of eight sensors: 70 designs."""
    problem = random_problem(2, "abcdefgh", horizon=1)
    found = veil.design_sensors(problem, 4, goal=goal, gap=0.02)
    assert not found.exhaustive
    assert found.cost == 4
    assert "found by a greedy search" in found.summary()
    rng = np.random.default_rng(0)
    for _ in range(3):
        chosen = tuple(sorted(rng.permutation(list("abcdefgh"))[:4].tolist()))
        lower, upper = best_hidden(problem, chosen)
        if goal == "opaque":
            assert lower <= found.bound_bits + 1e-9
        else:
            assert upper >= found.bound_bits - 1e-9
    if goal == "opaque":
        assert found.lower_bits <= found.bound_bits + 1e-9
    else:
        assert found.upper_bits >= found.bound_bits - 1e-9


def test_only_designs_that_cannot_be_extended_within_the_budget_are_tried():
    def tried(budget: float) -> set[tuple[str, ...]]:
        costs = {"a": 1.0, "b": 2.0, "c": 2.5}
        return {
            one.muted for one in veil.design_sensors(random_problem(0, horizon=1), budget, costs=costs, gap=0.05).tried
        }

    assert tried(3.0) == {("a", "b"), ("c",)}
    assert tried(3.5) == {("a", "b"), ("a", "c")}
    assert tried(5.5) == {("a", "b", "c")}
    assert tried(0.5) == {()}


def test_the_summary_says_what_is_muted_kept_paid_and_proven():
    problem = random_problem(0, horizon=1)
    found = veil.design_sensors(problem, 2)
    lines = found.summary().splitlines()[-5:]
    assert [line.split()[0] for line in lines] == ["muted", "kept", "cost", "hidden", "proven"]
    assert lines[0].split(None, 1)[1] == ", ".join(found.muted)
    assert lines[2] == "cost    2"
    assert lines[4].endswith("bits under every design within the budget (all designs evaluated)")
    low, high = (float(word) for word in lines[3].split()[1:4:2])
    assert low <= found.lower_bits
    assert high >= found.upper_bits
    assert float(lines[4].split()[3]) >= found.bound_bits  # rounded to its own side
    shown = veil.design_sensors(problem, 0, goal="transparent")
    assert (shown.muted, shown.kept, shown.cost) == (("a", "b", "c"), (), 0.0)
    assert "kept    none" in shown.summary()
    assert "proven  at least" in shown.summary()
    every = veil.design_sensors(problem, 3, goal="transparent")
    assert (every.muted, every.kept) == ((), ("a", "b", "c"))
    assert "muted   none" in every.summary()


def test_a_cost_and_a_budget_of_nothing_are_allowed():
    """What costs nothing is always muted; sensors that are not asked about stay."""
    found = veil.design_sensors(random_problem(0, horizon=1), 0, costs={"a": 0}, sensors=("a", "b"))
    assert (found.muted, found.kept, found.cost) == (("a",), ("b", "c"), 0.0)


def test_a_time_limit_leaves_bounds_that_hold():
    problem = random_problem(0)
    found = veil.design_sensors(problem, 1, time_limit=0.5, gap=1e-9)
    lower, upper = best_hidden(problem, found.muted)
    assert found.lower_bits <= upper + 1e-9
    assert found.upper_bits >= lower - 1e-9


def test_every_defect_is_told_at_once_and_each_by_its_name():
    problem = random_problem(0)
    with pytest.raises(veil.InputError, match=r"budget(.|\n)*goal(.|\n)*unknown sensor 'x'"):
        veil.design_sensors(problem, -1, goal="best", costs={"x": 1})  # pyright: ignore[reportArgumentType]
    with pytest.raises(veil.InputError, match="no sensors"):
        veil.design_sensors(problem.replace(observer=problem.observer.replace(sensors={})), 1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"budget": float("nan")}, "budget is nan"),
        ({"budget": "1"}, "budget is '1', expected a number, 0 or more"),
        ({"gap": 0.0}, "gap is 0.0, expected bits above 0"),
        ({"goal": "both"}, "goal is 'both', expected 'opaque' or 'transparent'"),
        ({"sensors": ("a", "a")}, "expected different names of sensors"),
        ({"sensors": ()}, "expected different names of sensors"),
        ({"sensors": 3}, "unknown sensor 3"),
        ({"sensors": ("a", "d")}, "unknown sensor 'd'"),
        ({"costs": [1, 2]}, "expected a mapping from sensor to number"),
        ({"costs": {"a": -0.5}}, "the cost of 'a' is -0.5, expected a number, 0 or more"),
        ({"costs": {"a": "x"}}, "the cost of 'a' is 'x'"),
        ({"costs": {"b": 1.0}, "sensors": ("a",)}, "cost of unknown sensor 'b'"),
    ]
    for given, words in wrong:
        settings: dict[str, Any] = {"budget": 1.0} | given
        with pytest.raises(veil.InputError, match=words) as error:
            veil.design_sensors(problem, **settings)
        assert len(error.value.defects) == 1


# Designs that leave no policy, that cannot be told apart, or whose sensors cannot be muted in any order


@pytest.mark.parametrize("goal", ["opaque", pytest.param("transparent", marks=pytest.mark.slow)])
def test_a_bound_on_a_pair_that_no_design_can_meet_is_infeasible(goal: Any):
    problem = random_problem(0, horizon=1).replace(pairs=[veil.Pair("x", veil.Observer(np.eye(3)), min=0.5)])
    with pytest.raises(veil.InfeasibleError, match="no policy meets the constraints"):
        veil.design_sensors(problem, 1, goal=goal, gap=0.05)


def test_sensors_are_placed_only_as_far_as_a_policy_can_keep_the_bound_of_a_pair():
    problem = random_problem(0, horizon=1).replace(pairs=[veil.Pair("x", secret=veil.InitialState(), min=1.5)])
    found = veil.design_sensors(problem, 1, goal="transparent", gap=0.05)
    assert found.muted == ("a", "b", "c")
    assert found.decided
    assert found.solution.feasible
    assert found.lower_bits <= found.upper_bits


def test_a_design_that_the_time_does_not_decide_says_so():
    rng = np.random.default_rng(5)
    states, names = 40, tuple("abcd")
    model = veil.Model(rng.dirichlet(np.full(states, 0.2), size=(states, 2)), np.zeros((states, 2)), np.eye(states)[0])
    emissions = np.zeros((states, 5))
    emissions[np.arange(states), rng.integers(1, 5, states)] = 0.5
    emissions[:, 0] = 1 - emissions.sum(axis=1)
    observer = veil.Observer(emissions, ["nothing", *names], sensors={name: {name: "nothing"} for name in names})
    problem = veil.Problem(model, observer, veil.LastState(range(states // 2)), 30)
    found = veil.design_sensors(problem, 2, time_limit=1.0)
    assert not found.decided
    assert found.summary().startswith("undecided")


def test_a_design_that_is_proven_best_is_decided():
    found = veil.design_sensors(random_problem(2), 1)
    assert found.decided
    assert "undecided" not in found.summary()


def test_sensors_whose_order_matters_are_refused():
    """Muting `second` alone hides everything, muting `first` before it nothing."""
    emissions = np.eye(3)[[1, 2]]
    sensors = {"first": {1: 0}, "second": {2: 1}}
    model = veil.Model(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(emissions, sensors=sensors), veil.LastState([0]), 1)
    with pytest.raises(veil.InputError, match="'first' and then 'second'"):
        veil.design_sensors(problem, 2)
    assert veil.design_sensors(problem, 1, sensors=["second"]).lower_bits == pytest.approx(1.0, abs=1e-3)
