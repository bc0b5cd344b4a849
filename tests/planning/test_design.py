"""The design of sensors: against all designs one by one, the greedy search, and refusals."""

import itertools
from dataclasses import replace
from typing import Any

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


def silenced(problem: veil.Problem) -> tuple[str, ...]:
    """The sensors whose readings are never seen."""
    seen = problem.observer.matrices[0].toarray().sum(axis=0)
    return tuple(name for name in "abc" if seen[problem.observer.observations.index(name)] == 0)


class Games:
    """Stands in for the game: designs hide what the muted sensors are worth, less an eighth and plus a fourth."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, worth: dict[frozenset[str], float]):
        self.problem, self.worth, self.limits = random_problem(0), worth, list[float | None]()
        self.base = search_game(self.problem, gap=0.5)
        monkeypatch.setattr(design, "search_game", self)

    def __call__(self, problem: veil.Problem, *, gap: float, time_limit: float | None) -> Any:
        self.limits.append(time_limit)
        bits = self.worth[frozenset(silenced(problem))]
        return replace(self.base, opacity=replace(self.base.opacity, lower=bits - 0.125), upper_bits=bits + 0.25)


SUBSETS = [frozenset(one) for size in range(4) for one in itertools.combinations("abc", size)]
ADDED = {one: sum({"a": 0.125, "b": 0.25, "c": 0.5}[name] for name in one) for one in SUBSETS}


def test_the_design_says_what_it_mutes_keeps_costs_and_proves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sensors may be muted: the two that are worth most, and no other two are proven to be worth more."""
    games = Games(monkeypatch, ADDED)
    found = veil.design_sensors(games.problem, 2)
    assert (found.muted, found.kept, found.cost, found.exhaustive) == (("b", "c"), ("a",), 2.0, True)
    assert (found.lower_bits, found.upper_bits, found.bound_bits) == (0.625, 1.0, 1.0)
    assert found.solution.upper_bits == found.upper_bits
    tried = {one.muted: (one.lower_bits, one.upper_bits) for one in found.tried}
    assert tried == {one: (ADDED[frozenset(one)] - 0.125, ADDED[frozenset(one)] + 0.25) for one in
                     [("a", "b"), ("a", "c"), ("b", "c")]}  # fmt: skip
    assert games.limits == [None] * 3
    assert found.summary().splitlines()[-5:] == [
        "muted   b, c", "kept    a", "cost    2", "hidden  0.625000 … 1.000000 bits by the best policy",
        "proven  at most 1.000000 bits under every design within the budget (all designs evaluated)",
    ]  # fmt: skip


def test_sensors_to_place_leave_least_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sensor may be placed: that with which least is hidden at most; the bound over all is the least lower one."""
    games = Games(monkeypatch, ADDED | {frozenset("ab"): 0.375, frozenset("ac"): 0.25})
    found = veil.design_sensors(games.problem, 1, goal="transparent")
    assert (found.muted, found.kept, found.cost) == (("a", "c"), ("b",), 1.0)
    assert (found.lower_bits, found.upper_bits, found.bound_bits) == (0.125, 0.5, 0.125)
    words = found.summary().splitlines()
    assert words[-1].startswith("proven  at least 0.125000")
    none = veil.design_sensors(games.problem, 0, goal="transparent")
    assert (none.muted, none.kept, none.cost) == (("a", "b", "c"), (), 0.0)
    assert "kept    none" in none.summary()
    every = veil.design_sensors(games.problem, 3, goal="transparent")
    assert (every.muted, every.kept) == ((), ("a", "b", "c"))
    assert "muted   none" in every.summary()


def test_of_designs_that_hide_the_same_at_least_the_one_that_may_hide_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that differ by rounding are the same; then the other bound decides."""
    games = Games(monkeypatch, dict.fromkeys(SUBSETS, 0.5))
    plain = games.__call__

    def uneven(problem: veil.Problem, **given: Any) -> Any:
        found, (muted,) = plain(problem, **given), silenced(problem)
        more = {"a": (-3e-11, 0.05), "b": (0.0, 0.1), "c": (3e-11, 0.0)}[muted]
        hidden = replace(found.opacity, lower=found.opacity.lower + more[0])
        return replace(found, opacity=hidden, upper_bits=found.upper_bits + more[1])

    monkeypatch.setattr(design, "search_game", uneven)
    assert veil.design_sensors(games.problem, 1).muted == ("b",)


@pytest.mark.parametrize(("goal", "bound", "parts"), [("opaque", 1.125, 7), ("transparent", -0.125, 7)])
def test_the_greedy_search_takes_the_best_next_sensor(
    goal: design.DesignGoal, bound: float, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`c` first, then the better of the others, and what is proven is what all sensors together are worth."""
    games = Games(monkeypatch, ADDED)
    monkeypatch.setattr(design, "_MOST_SETS", 0)
    found = veil.design_sensors(games.problem, 2, goal=goal, time_limit=7000.0)
    chosen = found.muted if goal == "opaque" else found.kept
    assert (chosen, found.cost, found.exhaustive) == (("b", "c"), 2.0, False)
    assert found.bound_bits == pytest.approx(bound)
    given = [7000.0 / part for part in (parts, parts - 1, parts - 2, parts - 3, parts - 4, parts - 5)]
    assert games.limits == pytest.approx(given, rel=0.01)
    assert "found by a greedy search" in found.summary()
    cheap = veil.design_sensors(games.problem, 2, goal=goal, costs={"b": 2.5, "c": 1.5})
    assert (cheap.muted if goal == "opaque" else cheap.kept) == ("c",)
    assert cheap.cost == 1.5
    nothing = veil.design_sensors(games.problem, 0.5, goal=goal)
    assert (nothing.cost, nothing.muted) == (0, () if goal == "opaque" else ("a", "b", "c"))


def test_up_to_64_designs_are_all_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are more the search is greedy."""
    games = Games(monkeypatch, ADDED)
    sets = [("a",), ("b",)] * 32
    monkeypatch.setattr(design, "_maximal", lambda *_: sets)
    assert veil.design_sensors(games.problem, 1).exhaustive
    sets.append(("c",))
    assert not veil.design_sensors(games.problem, 1).exhaustive
    monkeypatch.setattr(design, "_maximal", lambda *_: None)
    assert not veil.design_sensors(games.problem, 1).exhaustive


def test_all_designs_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """To n games that are to come each is given the n-th part of what is left."""
    games = Games(monkeypatch, ADDED)
    veil.design_sensors(games.problem, 2, time_limit=6000.0)
    assert games.limits == pytest.approx([2000.0, 3000.0, 6000.0], rel=0.01)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"budget": float("nan")}, "budget is nan"),
        ({"budget": "1"}, "budget is '1', expected a number, 0 or more"),
        ({"gap": 0.0}, "gap is 0.0, expected bits above 0"),
        ({"gap": "x"}, "gap is 'x'"),
        ({"goal": "both"}, "goal is 'both', expected 'opaque' or 'transparent'"),
        ({"sensors": ("a", "a")}, "expected different names of sensors"),
        ({"sensors": ()}, "expected different names of sensors"),
        ({"sensors": 3}, "unknown sensor 3"),
        ({"sensors": ("a", "d")}, "unknown sensor 'd'"),
        ({"costs": [1, 2]}, "expected a mapping from sensor to number"),
        ({"costs": {"a": -0.5}}, "the cost of 'a' is -0.5, expected a number, 0 or more"),
        ({"costs": {"a": "x"}}, "the cost of 'a' is 'x'"),
        ({"costs": {"b": 1.0}, "sensors": ("a",)}, "cost of unknown sensor 'b'"),
    ],
)
def test_each_defect_is_told(given: dict[str, Any], words: str) -> None:
    """By its name and with what is expected."""
    settings: dict[str, Any] = {"budget": 1.0} | given
    with pytest.raises(veil.InputError, match=words) as error:
        veil.design_sensors(random_problem(0), **settings)
    assert len(error.value.defects) == 1


def test_a_cost_and_a_budget_of_nothing_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs nothing is always muted; sensors that are not asked about stay."""
    games = Games(monkeypatch, ADDED)
    found = veil.design_sensors(games.problem, 0, costs={"a": 0}, sensors=("a", "b"))
    assert (found.muted, found.kept, found.cost) == (("a",), ("b", "c"), 0.0)


@pytest.mark.parametrize(("goal", "bound"), [("opaque", "at most 0.777778"), ("transparent", "at least 0.777777")])
def test_a_summary_rounds_bounds_to_their_own_side(
    goal: design.DesignGoal, bound: str, monkeypatch: pytest.MonkeyPatch
):
    """Six digits: a lower bound down, an upper bound up."""
    base = search_game(random_problem(0), gap=0.5)
    found = design.SensorDesign(("a", "b"), (), 1.5, goal, 2 / 3, 5 / 6, 7 / 9, True, True, base, ())
    assert found.summary().splitlines() == [
        "muted   a, b",
        "kept    none",
        "cost    1.5",
        "hidden  0.666666 … 0.833334 bits by the best policy",
        f"proven  {bound} bits under every design within the budget (all designs evaluated)",
    ]
