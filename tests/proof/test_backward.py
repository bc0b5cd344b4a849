"""The bound of a rule: against fractions where there is nothing to choose, its allowances in full, and what is refused."""

import math
import re
from dataclasses import replace as replace_plain
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veil
from tests.proof.cases import noisy_problem, tiny_problem
from tests.proof.exact import ExactProblem, play_all, runs
from tests.proof.reading import CheckedProblem, Witness, checked_pairs, replace, rule_bound
from tests.proof.test_checked import example
from tests.proof.test_delayed import random_rule
from veil.common.errors import CertificateError
from veil.proof import backward
from veil.proof.arithmetic import LARGEST, UNIT, gamma
from veil.proof.backward import earned_after
from veil.proof.certify import certify
from veil.proof.checked_problem import Bounds
from veil.proof.rules import LARGEST_WEIGHT

# Problems of one action: what every policy pays, by a sum over all paths.


def only_action(seed: int, **changes: Any) -> veil.Problem:
    """Three states of which each has one action; two rewards, both also paid at the end."""
    rng = np.random.default_rng([seed, 7])
    rewards = {"gain": rng.normal(size=(3, 1)), "energy": rng.normal(size=(3, 1))}
    ends = {"gain": rng.normal(size=3), "energy": rng.normal(size=3)}
    moves = rng.dirichlet(np.ones(3), size=(3, 1))
    model = veil.Model(moves, rewards, [0.25, 0.75, 0.0], discount=0.7, terminal_rewards=ends)
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=3), sees_initial=bool(seed % 2))
    secret = veil.InitialState() if seed % 3 == 0 else veil.LastState({0})
    return veil.Problem(model, observer, secret, 2).replace(**changes)


def paid(problem: veil.Problem, rule: Any) -> Fraction:
    """The expected cost of a rule under the only policy."""
    codes, total, rule = CheckedProblem(problem).codes, Fraction(0), rule.rules[0]
    exact = ExactProblem(problem)
    for seen, states, z, mass in runs(exact, [[Fraction(1)]] * exact.states * exact.memories):
        nodes = [int(rule.first[seen[0]])]
        for table, event in zip(rule.following, seen[1:], strict=True):
            nodes.append(int(table[nodes[-1], event]))
        cost = Fraction(float(rule.costs[nodes[-1], z]))
        if codes is not None:
            for time, (keys, costs) in enumerate(zip(rule.path_keys, rule.path_costs, strict=True)):
                ends = time == problem.horizon
                triple = (nodes[-1], 0) if ends else (nodes[time + 1], codes[states[time + 1]])
                [place] = np.flatnonzero((keys == [*triple, codes[states[time]]]).all(axis=1))
                cost += Fraction(float(costs[place]))
        total += mass * cost
    return total


def assert_just_above(found: float, exact: Fraction) -> None:
    assert exact <= Fraction(found) <= exact + Fraction(1, 10**11)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("delay", [0, 1])
def test_prices_of_three_quantities_against_fractions(seed: int, delay: int):
    """`E[w] + Σ_k λ_k s_k (V_k − δ_k)`, also for agents that learn late, as there is nothing to choose."""
    limits = [
        veil.Return(max=0.3, reward="energy"),
        veil.Probability("F two", min=0.2, labels={"two": [2]}),
    ]
    problem = only_action(seed, min_return=-5.0, constraints=limits)
    prices, bounds = (0.7, 1.3, 0.4), (-5.0, 0.3, 0.2)
    rule = replace(random_rule(problem, np.random.default_rng(seed), prices[0]), prices=prices[1:])
    _, values = play_all(ExactProblem(problem), lambda *_: [Fraction(1)])
    exact = paid(problem, rule) + sum(
        Fraction(price) * sign * (value - Fraction(bound))
        for price, sign, value, bound in zip(prices, (1, -1, 1), values, bounds, strict=True)
    )
    assert_just_above(rule_bound(CheckedProblem(problem, delay), rule, bounds, None), exact)


@pytest.mark.parametrize("seed", range(6))
def test_rules_for_paths_against_fractions(seed: int):
    """Each state before the next has its own cost; the path shows all of the states, or two groups of them."""
    problem = only_action(seed, secret=veil.Trajectory({"group": [0, 2]} if seed % 2 else None))
    rule, rng = certify(problem, veil.MarkovPolicy.uniform(problem), 0.0).bounds[0], np.random.default_rng(seed)
    assert rule is not None
    rule = replace(rule, path_costs=tuple(costs + rng.random(len(costs)) for costs in rule.rules[0].path_costs))
    assert_just_above(rule_bound(CheckedProblem(problem), rule, (None,), None), paid(problem, rule))


@pytest.mark.parametrize("seed", range(4))
def test_rules_for_paths_of_an_observer_who_remembers_against_fractions(seed: int):
    """Every state before every other has a cost of its own at each node."""
    problem = only_action(seed, secret=veil.Trajectory({"group": [0, 2]} if seed % 2 else None))
    rng, checked = np.random.default_rng(seed), CheckedProblem(problem)
    assert checked.codes is not None
    bound, count = random_rule(problem, rng, 0.0), int(checked.codes.max()) + 1
    graph = bound.rules[0]
    sizes = [*(len(table) for table in graph.following[1:]), len(graph.costs), len(graph.costs)]
    keys = [
        np.array([(node, after, before) for node in range(size) for after in range(count if time < 2 else 1)
                  for before in range(count)])
        for time, size in enumerate(sizes)
    ]  # fmt: skip
    costs = tuple(np.log2(count) + 0.01 + rng.random(len(part)) for part in keys)
    rule = replace(bound, costs=np.full((sizes[-1], 1), 0.25), path_keys=tuple(keys), path_costs=costs)
    assert_just_above(rule_bound(checked, rule, (None,), None), paid(problem, rule))


@pytest.mark.parametrize("seed", range(4))
def test_several_observers_against_fractions(seed: int):
    """`Σ_j w_j E[w_j]`, less the weight of a pair that must keep bits times these."""
    rng = np.random.default_rng([seed, 8])
    second = veil.Observer(rng.dirichlet(np.ones(3), size=3), sees_initial=bool(seed % 2))
    problem = only_action(seed, pairs=[veil.Pair("two", second)])
    rules = [
        replace(random_rule(problem.only(name), rng, 0.0), pair=number) for number, name in enumerate(("own", "two"))
    ]
    checked = checked_pairs(problem, ("own", "two"))
    for weights, kept in (((0.5, 0.75), {}), ((1.0, 0.375), {1: 0.25}), ((0.75, 1.5), {0: 0.5})):
        own, two = (replace(rule, weight=weight) for rule, weight in zip(rules, weights, strict=True))
        parts = [
            paid(problem.only(name), rule) - Fraction(kept.get(number, 0))
            for number, (name, rule) in enumerate(zip(("own", "two"), rules, strict=True))
        ]
        exact = sum((Fraction(weight) * part for weight, part in zip(weights, parts, strict=True)), Fraction(0))
        found = rule_bound(checked, replace(own, others=(two,)), (None,), None, kept)
        assert_just_above(found, exact)


def test_several_observers_whose_layers_grow_and_shrink_against_fractions():
    """Two nodes, then one, then two; and beside it one, then two, then three."""
    problem = example().replace(horizon=2, pairs=[veil.Pair("two", veil.Observer([[0.5, 0.5], [0.25, 0.75]]))])
    own = Witness(
        np.array([1, 0]), (np.zeros((2, 2), dtype=int), np.array([[1, 0]])), np.array([[1.5, 2.0], [3.0, 1.25]]), 0.0, "",
        weight=0.75,
    )  # fmt: skip
    costs = np.array([[2.0, 1.0], [1.75, 1.5], [4.0, 1.125]]) + 2.0**-30
    graph = (np.array([[1, 0]]), np.array([[2, 1], [0, 2]]))
    two = Witness(np.array([0, 0]), graph, costs, 0.0, "", pair=1, weight=0.5)
    exact = Fraction(3, 4) * paid(problem, own) + Fraction(1, 2) * paid(problem.only("two"), two)
    checked = checked_pairs(problem, ("own", "two"))
    assert_just_above(rule_bound(checked, replace(own, others=(two,)), (None,), None), exact)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_moves_that_are_followed_at_a_time_do_not_matter(monkeypatch: pytest.MonkeyPatch, most: int):
    for seed in range(4):
        problem = tiny_problem(seed)
        checked, rule = CheckedProblem(problem), random_rule(problem, np.random.default_rng(seed), 0.0)
        with monkeypatch.context() as patched:
            expected = rule_bound(checked, rule, (None,), None)
            patched.setattr(backward, "_AT_ONCE", most)
            assert rule_bound(checked, rule, (None,), None) == expected


# Allowances: what `src/veil/proof/README.md` derives, where all other numbers are exact.

MARGIN = 2.0**-39
COST = 1 + MARGIN


def documented(checked: Any, more: int, observers: int, sizes: float, start: float, slacks: float) -> float:
    """The error where steps are of these sizes in all: `more` roundings for constraints, a path, further observers."""
    error = (gamma(checked.terms + 12 + more) + 2.02 * checked.defect) * sizes
    error += (gamma(7 + observers) + 3.03 * checked.defect) * start + 8 * UNIT * slacks
    return 1.01 * error


def one_node(cost: float, price: float, events: int = 2, **changes: Any) -> Any:
    """An observer who remembers nothing over one step, and pays the same for both values."""
    graph = np.zeros(events, dtype=int), (np.zeros((1, events), dtype=int),)
    return replace(Witness(*graph, np.full((1, 2), cost), price, "nothing"), **changes)


def allowed(checked: Any, rule: Any, bounds: Bounds, kept: dict[int, float] | None = None) -> float:
    """The bound where the thresholds take away all of it but the allowance."""
    return rule_bound(checked, rule, bounds, None, kept)


def test_the_allowance_for_two_quantities_that_are_also_paid_at_the_end():
    """`|W_1|` is at most 3, the ends pay 2 and 8 at their prices, a decision 1 and 4; the start is worth −1/2."""
    rewards = {"gain": [[1.0], [-1.0]], "energy": [[0.5], [2.0]]}
    ends = {"gain": [0.0, 2.0], "energy": [4.0, 0.0]}
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], rewards, 0, discount=0.5, terminal_rewards=ends)
    problem = example().replace(model=model, constraints=[veil.Return(max=1.0, reward="energy")])
    checked, rule = CheckedProblem(problem), one_node(COST, 1.0, prices=(2.0,))
    assert [one.discount for one in checked.paid] == [0.5, 0.5]
    sizes = (3 - MARGIN) + 2 + 8 + (3 - MARGIN) + 1 + 4
    expected = documented(checked, 2, 1, sizes, 0.5 - MARGIN, (COST + 0.5) + 2)
    assert allowed(checked, rule, (COST + 0.5, 1.0)) == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_allowance_for_a_path():
    """A cost more for each move: at most 3.5 after a step, 1.5 at the end, and 3.125 from the start."""
    problem = example().replace(secret=veil.Trajectory(), min_return=0.0)
    checked = CheckedProblem(problem)
    assert checked.tells_state
    keys = np.array([[0, 0, 0], [0, 1, 0], [0, 1, 1]]), np.array([[0, 0, 0], [0, 0, 1]])
    costs = np.array([1.25, 2.0, 2.0]), np.array([1.5, 1.5])
    rule = one_node(0.0, 1.0, costs=np.full((1, 1), MARGIN), path_keys=keys, path_costs=costs)
    start = 3.125 + MARGIN
    expected = documented(checked, 1, 1, (1.5 + MARGIN) + (3.5 + MARGIN), start, start)
    assert allowed(checked, rule, (start,)) == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_the_allowance_for_two_observers(kept: float):
    """Three roundings more in a step and one at the start; what a pair must keep is rounded as a threshold is."""
    problem = example().replace(pairs=[veil.Pair("two", veil.Observer(np.ones((2, 1))))], min_return=0.0)
    checked = checked_pairs(problem, ("own", "two"))
    other = replace(one_node(COST, 0.0, events=1), pair=1, weight=0.5)
    rule = one_node(COST, 1.0, weight=1.0, others=(other,))
    value = 1.5 * COST
    bound = allowed(checked, rule, (value - 0.5 * kept,), {1: kept} if kept else None)
    expected = documented(checked, 3, 2, 2 * value, value, value)
    assert bound == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_allowance_for_agents_that_learn_late():
    """The mean of the costs over the last observation is one step more; costs are 1 or 2, each half of the time."""
    problem = example().replace(min_return=0.0)
    checked = CheckedProblem(problem, delay=1)
    assert checked.terms == 2
    rule, start = one_node(COST, 1.0, costs=np.array([[COST, 2.0]])), 1.5 + MARGIN / 2
    expected = documented(checked, 0, 1, 3 * 2.0, start, start)
    assert allowed(checked, rule, (start,)) == pytest.approx(expected, rel=1e-12, abs=0)


# After the horizon.


def endless(rewards: list[list[float]], discount: float = 0.5) -> veil.Problem:
    """Two states that stay, each with two actions, for ever."""
    moves = np.repeat(np.eye(2)[:, None], 2, axis=1)
    model = veil.Model(moves, rewards, [0.5, 0.5], discount=discount)
    return veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), 1, return_over="infinite")


def test_values_after_the_horizon_are_wrong_by_at_most_their_residual():
    """`max |v − max_a (R + γ P v)| / (1 − γ)` and the rounding of one step; the values are as claimed."""
    checked = CheckedProblem(endless([[1.0, 0.0], [0.0, -3.0]], 0.75))
    for values, residual, largest in (([4.0, 0.0], 0.0, 4.0), ([4.0, 2.0], 0.5, 4.0), ([0.0, 8.0], 2.0, 8.0)):
        value, error = earned_after(checked, np.array([values, [0.0, 0.0]]))
        assert value.tolist() == values
        rounding = (gamma(checked.terms + 8) + 2.02 * checked.defect) * (largest + 3)
        assert error == pytest.approx(1.02 * (residual + rounding) / 0.25, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("values", "accepted"),
    [
        (np.array([[LARGEST, -LARGEST], [0.0, 0.0]]), True),
        (np.array([[0.0, np.nextafter(LARGEST, np.inf)], [0.0, 0.0]]), False),
        (np.array([[0.0, -np.inf], [0.0, 0.0]]), False),
        (np.zeros((2, 3)), False),
        (np.array([[0.0], [0.0]]), False),
        (np.zeros((1, 2)), False),
        (np.array([0.0, 0.0]), False),
        (np.array([[0, 0], [0, 0]]), False),
        (np.zeros((0, 0)), False),
        (None, False),
        ([[0.0, 0.0], [0.0, 0.0]], False),
    ],
)
def test_which_values_after_the_horizon_are_read(values: Any, accepted: bool):
    checked = CheckedProblem(endless([[1.0, 0.0], [0.0, -3.0]]))
    if accepted:
        assert earned_after(checked, values)[1] > LARGEST
    else:
        plain = not isinstance(values, np.ndarray)
        found = type(values).__name__ if plain else rf"{values.dtype} of shape {re.escape(str(values.shape))}"
        with pytest.raises(CertificateError, match=f"^values: (it is {found}, expected|they are not finite)"):
            earned_after(checked, values)


# What is refused.


@pytest.fixture(scope="module")
def watched() -> tuple[Any, Any]:
    """Two observers of the example, both with a rule."""
    problem = example().replace(pairs=[veil.Pair("two", veil.Observer(np.ones((2, 1))))])
    other = one_node(COST, 0.0, events=1, pair=1, weight=0.5)
    return checked_pairs(problem, ("own", "two")), replace(one_node(COST, 0.0, weight=0.5), others=(other,))


@pytest.mark.parametrize(
    ("weights", "kept", "words"),
    [
        ((0.5, 0.5), (), ""),
        ((5e-324, 1.0), (), ""),
        ((LARGEST_WEIGHT, LARGEST_WEIGHT), (), ""),
        ((1.0, 1e-9), (1,), ""),
        ((1e-9, 1), (0,), ""),
        ((0.5, math.nextafter(0.5, 0)), (), "sum to 1.0, expected one or more"),
        ((0.5, 0.5), (1,), "sum to 0.5, expected one or more"),
        ((0.5, 2.0), (1,), "sum to 0.5, expected one or more"),
        ((0.0, 1.0), (), "the weight of 0 is 0.0"),
        ((1.0, 0.0), (1,), "the weight of 1 is 0.0"),
        ((1.0, -5e-324), (), "the weight of 1 is"),
        ((1.0, math.nextafter(LARGEST_WEIGHT, math.inf)), (), "the weight of 1 is"),
        ((math.nan, 1.0), (), "the weight of 0 is nan"),
        (("1", 1.0), (), "the weight of 0 is '1'"),
        ((True, 1.0), (), "the weight of 0 is True"),
    ],
)
def test_weights_of_observers(watched: tuple[Any, Any], weights: Any, kept: Any, words: str):
    """Positive numbers; those of the pairs that are hidden sum to one or more, in fractions."""
    checked, rule = watched
    changed = replace_plain(
        rule, rules=tuple(replace_plain(one, weight=weight) for one, weight in zip(rule.rules, weights, strict=True))
    )
    if words:
        with pytest.raises(CertificateError, match=f"^rule: the weights? of .*{words.removeprefix('the weight of ')}"):
            rule_bound(checked, changed, (None,), None, dict.fromkeys(kept, 0.25))
    else:
        assert rule_bound(checked, changed, (None,), None, dict.fromkeys(kept, 0.25)) > 0


@pytest.mark.parametrize(
    ("own", "two", "words"),
    [
        (2, 3, ""),
        (3, 3, "expected floats of shape"),
        (6, 3, "expected floats of shape"),
        (2, 2, "expected floats of shape"),
        (2, 6, "expected floats of shape"),
    ],
)
def test_each_observer_has_a_cost_for_each_value_of_its_own_secret(own: int, two: int, words: str):
    """One asks for one of two values, the other for one of three: six together."""
    model = veil.Model(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), np.full(3, 1 / 3))
    pair = veil.Pair("two", secret=veil.InitialState())
    problem = veil.Problem(model, veil.Observer(np.ones((3, 1))), veil.LastState({0}), 1, pairs=[pair])
    checked = checked_pairs(problem, ("own", "two"))
    assert [one.size for one in checked.labels] == [2, 3]
    other = replace(one_node(0.0, 0.0, checked.num_events[0], pair=1, weight=0.5), costs=np.full((1, two), 2.6))
    rule = replace(one_node(0.0, 0.0, checked.num_events[0], weight=0.5, others=(other,)), costs=np.full((1, own), 2.6))
    if words:
        with pytest.raises(CertificateError, match=f"^rule: costs: .*{words}"):
            rule_bound(checked, rule, (None,), None)
    else:
        assert rule_bound(checked, rule, (None,), None) == pytest.approx(2.6, abs=1e-9)


@pytest.mark.parametrize("weight", [0.5, 2.0, math.nextafter(1, 2)])
def test_one_observer_alone_counts_once(weight: float):
    """A smaller weight would prove too much; a larger one is no rule of one observer."""
    with pytest.raises(CertificateError, match=r"its weight is|sum to 0.5"):
        rule_bound(CheckedProblem(example()), one_node(COST, 0.0, weight=weight), (None,), None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"multiplier": 0}, ""),
        ({"multiplier": LARGEST / 4}, ""),
        ({"prices": (LARGEST,)}, ""),
        ({"multiplier": math.nextafter(LARGEST / 4, math.inf)}, "its price is"),
        ({"prices": (math.nextafter(LARGEST, math.inf),)}, "its price is"),
        ({"multiplier": -5e-324}, "its price is"),
        ({"prices": (-1.0,)}, "its price is"),
        ({"prices": (math.nan,)}, "its price is"),
        ({"prices": ("1",)}, "its price is"),
        ({"prices": ()}, "not one for each quantity"),
        ({"prices": (1.0, 1.0)}, "not one for each quantity"),
        ({"first": np.array([1, 0]), "costs": np.full((2, 2), COST)}, "its first nodes: a number is outside -1 … 0"),
        ({"following": (np.ones((2, 2), dtype=int),)}, "its graph at time 0: a number is outside -1 … 0"),
        ({"first": np.zeros(3, dtype=int)}, "expected integers of shape"),
        ({"following": (np.zeros((1, 3), dtype=int),)}, "expected integers of shape"),
        ({"following": ()}, "one table for each step"),
        ({"following": (np.zeros((1, 2), dtype=int),) * 2}, "one table for each step"),
        ({"costs": np.array([[-0.5, 3.0]])}, r"a cost is negative|sum to more than one"),
        ({"costs": np.array([2.0, 3.0])}, "expected floats of shape"),
        ({"costs": np.array([[math.nan, 2.0]])}, "not NaN"),
        ({"costs": np.zeros((0, 2))}, "its graph at time 0: a number is outside -1 … -1"),
        ({"path_keys": (np.zeros((0, 3), dtype=int),)}, "no path is secret"),
    ],
)
def test_prices_and_shapes_of_a_rule(changes: dict[str, Any], words: str):
    """Rewards of up to 4, and an expense of up to 1/2: a price times the largest reward stays below 2^900."""
    rewards = {"gain": [[4.0], [-4.0]], "energy": [[0.5], [0.0]]}
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], rewards, 0)
    problem = example().replace(model=model, constraints=[veil.Return(max=1.0, reward="energy")])
    rule = replace(one_node(COST, 1.0, prices=(1.0,)), **changes)
    if words:
        with pytest.raises(CertificateError, match=rf"^rule: .*({words})"):
            rule_bound(CheckedProblem(problem), rule, (1.0, 1.0), None)
    else:
        assert rule_bound(CheckedProblem(problem), rule, (1.0, 1.0), None) < math.inf


def test_a_price_of_return_needs_a_threshold():
    """Without one, rewards below zero would lower the bound."""
    assert rule_bound(CheckedProblem(example()), one_node(COST, 1.0), (0.0,), None) > 1
    with pytest.raises(CertificateError, match="there is a price, and no bound for it"):
        rule_bound(CheckedProblem(example()), one_node(COST, 1.0), (None,), None)
    rewards = {"gain": [[-1.0], [-1.0]], "energy": [[0.5], [0.0]]}
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], rewards, 0)
    limited = CheckedProblem(example().replace(model=model, constraints=[veil.Return(max=1.0, reward="energy")]))
    assert rule_bound(limited, one_node(COST, 0.0, prices=(1.0,)), (None, 1.0), None) < math.inf
    with pytest.raises(CertificateError, match="there is a price, and no bound for it"):
        rule_bound(limited, one_node(COST, 1.0, prices=(1.0,)), (None, 1.0), None)


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("seed", [1, 4])
def test_each_edge_that_is_missing_makes_the_bound_infinite(seed: int, delay: int):
    """All are reached: every state shows every observation. So does each cost that is."""
    problem = noisy_problem(seed, (2, 2)).replace(min_return=None)
    checked, rule = CheckedProblem(problem, delay), random_rule(problem, np.random.default_rng(seed), 0.0)
    assert rule_bound(checked, rule, (None,), None) < math.inf
    tables = [rule.rules[0].first[None], *rule.rules[0].following]
    for place, table in enumerate(tables):
        for edge in np.argwhere(table >= 0):
            changed = [one.copy() for one in tables]
            changed[place][tuple(edge)] = -1
            missing = replace(rule, first=changed[0][0], following=tuple(changed[1:]))
            assert rule_bound(checked, missing, (None,), None) == math.inf
    for node in range(len(rule.rules[0].costs)):
        costs = rule.rules[0].costs.copy()
        costs[node] = math.inf
        assert rule_bound(checked, replace(rule, costs=costs), (None,), None) == math.inf
