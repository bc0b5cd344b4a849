"""The design of sensors: against all designs one by one, the greedy search, and refusals."""

import itertools

import numpy as np
import pytest

import veil
from tests.problem.test_masks import distributions
from veil.planning import design
from veil.planning.game_method import search_game

GAP = 1e-4


def random_problem(seed: int) -> veil.Problem:
    """Three states and sensors `a`, `b` and `c`, each of which reports one state with some probability; two decisions."""
    rng = np.random.default_rng(seed)
    model = veil.Model(distributions(rng, 3, 2, 3), np.zeros((3, 2)), distributions(rng, 3))
    emissions = np.zeros((3, 4))
    emissions[np.arange(3), np.arange(3) + 1] = rng.uniform(0.1, 1, 3)
    emissions[:, 0] = 1 - emissions.sum(axis=1)
    observer = veil.Observer(
        emissions, ["nothing", "a", "b", "c"], silent="nothing", sensors={name: {name: "nothing"} for name in "abc"}
    )
    return veil.Problem(model, observer, veil.LastState([int(rng.integers(3))]), 2)


def best_hidden(problem: veil.Problem, muted: tuple[str, ...]) -> tuple[float, float]:
    observer = problem.observer
    for name in muted:
        observer = observer.without_sensor(name)
    found = search_game(problem.replace(observer=observer), gap=GAP)
    return found.opacity.lower, found.upper_bits


def check(seed: int, goal: design.DesignGoal) -> None:
    """The design is as good as the best of all within the budget, up to the gaps of the games."""
    problem, rng = random_problem(seed), np.random.default_rng([seed, 1])
    costs = dict(zip("abc", rng.uniform(0.2, 1, 3).tolist(), strict=True))
    budget = float(rng.uniform(0.3, 2))
    found = veil.design_sensors(problem, budget, costs=costs, goal=goal, gap=GAP)
    chosen = found.muted if goal == "opaque" else found.kept
    assert found.cost == pytest.approx(sum(costs[name] for name in chosen))
    assert found.cost <= budget
    assert found.exhaustive
    bounds = []
    for one in itertools.chain.from_iterable(itertools.combinations("abc", size) for size in range(4)):
        if sum(costs[name] for name in one) <= budget:
            bounds.append(best_hidden(problem, one if goal == "opaque" else tuple(sorted(set("abc") - set(one)))))
    if goal == "opaque":
        assert found.lower_bits >= max(lower for lower, _ in bounds) - 1e-9
        assert found.bound_bits >= max(lower for lower, _ in bounds) - 1e-9
    else:
        assert found.upper_bits <= min(upper for _, upper in bounds) + 1e-9
        assert found.bound_bits <= min(upper for _, upper in bounds) + 1e-9
    assert found.lower_bits <= found.upper_bits <= found.lower_bits + 2 * GAP


@pytest.mark.parametrize("goal", ["opaque", "transparent"])
def test_all_designs(goal: design.DesignGoal) -> None:
    """The best of all designs of a problem."""
    check(2, goal)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_all_designs_of_many_problems(block: int) -> None:
    """The same for 100."""
    for seed in range(100 + 10 * block, 110 + 10 * block):
        check(seed, "opaque" if seed % 2 else "transparent")


@pytest.mark.parametrize("goal", ["opaque", "transparent"])
def test_greedy(goal: design.DesignGoal, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sensor after the other, where there are too many designs: within the proven bound, which holds for the best."""
    problem = random_problem(2)
    whole = veil.design_sensors(problem, 2, goal=goal, gap=GAP)
    monkeypatch.setattr(design, "_MOST_SETS", 0)
    found = veil.design_sensors(problem, 2, goal=goal, gap=GAP)
    assert not found.exhaustive
    assert found.cost == 2
    if goal == "opaque":
        assert found.lower_bits <= whole.upper_bits <= found.bound_bits + GAP
    else:
        assert found.upper_bits >= whole.lower_bits >= found.bound_bits - GAP
    assert "greedy" in found.summary()


def test_refusals() -> None:
    """Every defect at once."""
    problem = random_problem(0)
    with pytest.raises(veil.InputError, match=r"budget(.|\n)*goal(.|\n)*unknown sensor 'x'"):
        veil.design_sensors(problem, -1, goal="best", costs={"x": 1})  # pyright: ignore[reportArgumentType]
    with pytest.raises(veil.InputError, match="no sensors"):
        veil.design_sensors(problem.replace(observer=problem.observer.replace(sensors={})), 1)
