"""Observers that choose where to look: against all runs and all plans, known values, and what bounds them."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import veil
from tests.seeds import in_blocks
from veil.common.clock import Clock
from veil.querying.beliefs import BeliefSteps
from veil.querying.rules import Draws, follow, greedy_rule, rollout_rule, simulate

# Least mean bits of six small problems, for one and for two steps ahead, and those of asking uniformly.
TOYS = {
    (1, 1): (0.352301, 0.625326), (2, 1): (0.487282, 0.673655), (3, 1): (0.502802, 0.662457),
    (1, 2): (0.576158, 0.830031), (2, 2): (0.705383, 0.876049), (3, 2): (0.729977, 0.865676),
}  # fmt: skip


def toy(kind: int, ahead: int) -> veil.Problem:
    """A walk past four places to the end, which may fall out at each: five queries, at times 0 … 4."""
    moves = np.zeros((6, 1, 6))
    for state, row in (
        {0: {1: 1}, 1: {2: 0.8, 5: 0.2}, 2: {3: 0.8, 5: 0.2}, 3: {4: 0.8, 5: 0.2}, 4: {4: 1}, 5: {5: 1}}
    ).items():
        moves[state, 0, list(row)] = list(row.values())
    if kind > 1:
        moves[1, 0], moves[3, 0] = [0, 0.2, 0.6, 0, 0, 0.2], [0, 0, 0, 0.2, 0.6, 0.2]
    if kind > 2:
        moves[0, 0], moves[1, 0] = [0.2, 0.8, 0, 0, 0, 0], [0.1, 0.1, 0.6, 0, 0, 0.2]
    model = veil.Model(moves, np.zeros((6, 1)), 0)
    shown = ["quiet", *(f"at {s}" for s in (1, 2, 3, 4))]
    emissions = np.eye(6)[:, [0, 1, 2, 3, 4]] + np.eye(6)[:, [5]] @ np.eye(5)[[0]]
    sensors = {f"camera {s}": {f"at {s}": "quiet"} for s in (1, 2, 3, 4)}
    observer = veil.Observer(emissions, shown, silent="quiet", sensors=sensors)
    secret = veil.StateNow([5], ahead=ahead, weights=[0.2] * 5 + [0.0] * ahead)
    problem = veil.Problem(model, observer, secret, 4 + ahead)
    return veil.Querying(walker=veil.MarkovPolicy.uniform(problem)).apply(problem)


@pytest.mark.parametrize(("kind", "ahead"), TOYS)
def test_known_values_are_found_with_matching_bounds(kind: int, ahead: int):
    problem = toy(kind, ahead)
    least, uniform = TOYS[kind, ahead]
    assert veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).bits == pytest.approx(uniform, abs=1e-6)
    plan = veil.best_queries(problem, time_limit=20, gap=1e-7)
    assert plan.gap <= 1e-6
    assert plan.upper == pytest.approx(least, abs=1e-6)
    assert veil.opacity(problem, plan.policy, "exact").bits == pytest.approx(plan.upper, abs=1e-9)
    assert plan.floor is not None
    assert plan.floor <= plan.lower + 1e-9
    assert plan.greedy is not None
    assert plan.greedy >= plan.lower
    assert plan.blind >= plan.upper - 1e-9


Asked = tuple[veil.Problem, veil.MarkovPolicy, list[np.ndarray], Callable[[tuple[int, ...], int], object], int | None]


def random_asked(seed: int) -> Asked:
    """A walker, two noisy sensors, and a secret of some kind, as veil's objects and as a function of a run and a time."""
    rng = np.random.default_rng(seed)
    states, horizon = 3, int(rng.integers(1, 3))
    model = veil.Model(
        rng.dirichlet(np.ones(states), size=(states, 2)), np.zeros((states, 2)), rng.dirichlet(np.ones(states))
    )
    walker = veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=states))
    tables = [rng.dirichlet(np.ones(2), size=states) for _ in range(2)]
    secret, value, ahead = [
        (veil.LastState([0]), lambda run, t: run[horizon] == 0, None),
        (veil.InitialState({"a": [0], "b": [1, 2]}), lambda run, t: run[0] == 0, None),
        (veil.StateAt(1, [1]), lambda run, t: run[1] == 1, None),
        (veil.Visited({"a": [2]}), lambda run, t: 2 in run[: horizon + 1], None),
        (veil.StateNow([0]), lambda run, t: run[t] == 0, 0),
        (veil.StateNow([0], ahead=1), lambda run, t: 0 in run[t : t + 2], 1),
    ][seed % 6]
    problem = veil.Problem(model, veil.Observer(np.ones((states, 1))), secret, horizon)
    return problem, walker, tables, value, ahead


def by_all_plans(asked: Asked, costs: tuple[float, float] = (0.0, 0.0), price: float = 0.0) -> float:
    """The least bits over all plans, by plain recursion over all runs of the walker."""
    problem, walker, tables, value, ahead = asked
    horizon, states = problem.horizon, problem.num_states
    moves = np.sum([walker.probabilities[:, [a]] * problem.model.matrices[a].toarray() for a in range(2)], axis=0)
    runs = {}
    for run in itertools.product(range(states), repeat=horizon + 1):
        runs[run] = problem.model.initial[run[0]] * np.prod([moves[s, r] for s, r in itertools.pairwise(run)])

    def bits(weights: dict, time: int) -> float:
        sums: dict = {}
        for run, weight in weights.items():
            sums[value(run, time)] = sums.get(value(run, time), 0.0) + weight
        total = sum(sums.values())
        return -sum(p * np.log2(p / total) for p in sums.values() if p)

    def least(weights: dict, time: int) -> float:
        best = []
        for query in (0, 1, None):
            after = [weights] if query is None else [
                {run: w * tables[query][run[time], o] for run, w in weights.items()} for o in range(2)
            ]  # fmt: skip
            total = 0.0 if query is None else price * costs[query] * sum(weights.values())
            for one in after:
                counts = ahead is not None or time == horizon
                total += bits(one, time) * (1 if ahead is None else 1 / (horizon + 1)) if counts else 0.0
                total += least(one, time + 1) if time < horizon else 0.0
            best.append(total)
        return min(best)

    return least(runs, 0)


@in_blocks(12, 240, size=12)
def test_equals_all_plans(seed: int):
    asked = random_asked(seed)
    problem, walker, tables, _, _ = asked
    price = 0.1 if seed % 4 == 3 else 0.0
    querying = veil.Querying(
        {"left": veil.Observer(tables[0]), "right": veil.Observer(tables[1])},
        {"left": 0.5, "right": 1.0},
        walker=walker,
    )
    applied = querying.apply(problem)
    expected = by_all_plans(asked, (0.5, 1.0), price)
    plan = veil.best_queries(applied, gap=1e-9, price=price)
    assert plan.lower - 1e-9 <= expected <= plan.upper + 1e-9
    assert plan.gap < 1e-7
    measured = veil.opacity(applied, plan.policy, "exact").bits + price * veil.expected_return(applied, plan.policy)
    assert measured == pytest.approx(plan.upper, abs=1e-7)
    assert plan.blind >= plan.upper - 1e-9
    assert plan.greedy is None or plan.greedy >= plan.lower - 1e-9
    both = problem.replace(observer=veil.Together(*(veil.Observer(table) for table in tables)))
    if not price:
        assert plan.upper >= veil.opacity(both, walker, "exact").bits - 1e-9  # all sensors at once


def test_every_kind_of_query_policy_is_between_the_bounds():
    problem, walker, tables, _, _ = random_asked(4)
    applied = veil.Querying({"left": veil.Observer(tables[0])}, 1.0, walker=walker).apply(
        problem, [veil.Return(max=1.5)]
    )
    free = applied.replace(constraints=())
    plan = veil.best_queries(free)
    for memory in ("markov", "timed", veil.ObservationMemory(2), veil.Controller(2)):
        found = veil.solve(
            applied, memory=memory, goal="transparent", time_limit=0.4, certificate=False, progress=False
        )
        assert plan.lower - 1e-9 <= found.opacity.bits <= plan.blind + 1e-9
        assert found.expected_return <= 1.5 + 1e-6


def test_drawn_runs_agree_with_all_answers():
    """Rules in drawn runs, within their error; looking ahead to the end is never worse than the greedy rule."""
    for kind, ahead, price in ((2, 2, 0.0), (3, 1, 0.02)):
        steps, clock = BeliefSteps(toy(kind, ahead), price), Clock(60)
        greedy = greedy_rule(steps)
        values = []
        for rule in (greedy, rollout_rule(steps, greedy, steps.horizon), rollout_rule(steps, greedy, 1)):
            exact = follow(steps, rule, clock)
            assert exact is not None
            drawn = simulate(steps, rule, Draws.of(steps, 3000, 1), clock)
            assert float(drawn.mean()) == pytest.approx(exact.value, abs=5 * float(drawn.std()) / 3000**0.5)
            values.append(exact.value)
        assert values[1] <= values[0] + 1e-12


def test_a_walker_with_a_clock_or_a_memory():
    problem, _, tables, _, _ = random_asked(3)
    rng = np.random.default_rng(1)
    sensors = {"left": veil.Observer(tables[0])}
    table = rng.dirichlet(np.ones(2), size=3)
    for walker in (
        veil.TimedPolicy(np.tile(table, (problem.horizon, 1, 1))),
        veil.MemoryPolicy.lift(problem, veil.StateMemory(1, clock=False), veil.MarkovPolicy(table)),
    ):
        plans = [
            veil.best_queries(veil.Querying(sensors, walker=one).apply(problem))
            for one in (walker, veil.MarkovPolicy(table))
        ]
        assert plans[0].upper == pytest.approx(plans[1].upper, abs=1e-6)


def test_what_is_wrong_is_said():
    problem, walker, tables, _, _ = random_asked(0)
    with pytest.raises(veil.InputError, match="the observer has no sensors to ask"):
        veil.Querying(walker=walker).apply(problem)
    with pytest.raises(veil.InputError, match="walker is a str"):
        veil.Querying(walker="walker")  # type: ignore[arg-type]
    with pytest.raises(veil.InputError, match="cost of unknown sensor 'right'"):
        veil.Querying({"left": veil.Observer(tables[0])}, {"right": 1.0}, walker=walker).apply(problem)
    late = veil.Observer(tables[0], emissions_at={0: tables[1]})
    for observer in (veil.Observer([tables[0], tables[1]]), late):
        with pytest.raises(veil.InputError, match="depends on actions or on time"):
            veil.Querying({"left": observer}, walker=walker).apply(problem)
    with pytest.raises(veil.InputError, match="makes such a problem"):
        veil.best_queries(problem)


SCENARIO = """
horizon = 2
[graph]
states = ["left", "right"]
actions = ["go"]
initial = { left = 0.5, right = 0.5 }
transitions = [["left", "go", { left = 0.75, right = 0.25 }], ["right", "go", { left = 0.25, right = 0.75 }]]
[observer.sensors.near]
states = ["left"]
detection = 0.9
[observer.sensors.far]
states = ["right"]
detection = 0.5
[secret]
kind = "last_state"
states = ["left"]
[querying]
costs = { near = 1.0 }
[[constraints]]
reward = "querying"
max = 1.5
"""


def test_queries_in_a_file(tmp_path):
    path = tmp_path / "asked.toml"
    path.write_text(SCENARIO)
    problem = veil.load(path)
    assert problem.model.actions.all() == ("near", "far", "none")
    assert problem.horizon == 3
    assert problem.bounds[0].bound == 1.5
    again = tmp_path / "again.toml"
    problem.save(again)
    loaded = veil.load(again)
    assert veil.best_queries(loaded, gap=1e-9).upper == pytest.approx(
        veil.best_queries(problem, gap=1e-9).upper, abs=1e-9
    )
    for wrong, words in (("costs = { near = 1.0 }", 'sensors = ["neer"]'), ("[querying]", "[masks]\n[querying]")):
        path.write_text(SCENARIO.replace(wrong, words))
        with pytest.raises(veil.VeilError, match=r"did you mean|found beside \[masks\]"):
            veil.load(path)


def test_a_plan_is_played_by_its_answers_alone():
    """Drawn runs of the player cost what the plan costs, and ask what its rows ask."""
    problem, walker, tables, _, _ = random_asked(1)
    querying = veil.Querying({"left": veil.Observer(tables[0])}, 1.0, walker=walker)
    guard = querying.apply(problem)
    plan, names = veil.best_queries(guard).policy, guard.observer.observations.all()
    generator, paid = np.random.default_rng(0), []
    for seed in range(400):
        run, state, seen = plan.player(guard, seed=seed), 0, None
        total = 0.0
        for _ in range(guard.horizon):
            action = run.act(observation=seen)
            total += float(guard.model.rewards[state, action])
            state = int(generator.choice(guard.num_states, p=guard.model.matrices[action].toarray()[state]))
            shown = guard.observer.matrices[action].toarray()[state]
            seen = names[int(generator.choice(len(shown), p=shown))]
        paid.append(total)
    assert np.mean(paid) == pytest.approx(veil.expected_return(guard, plan), abs=5 * float(np.std(paid)) / 20 + 1e-9)
    with pytest.raises(veil.InputError, match="readings alone"):
        veil.export_player(plan, guard, "player.json")


def test_a_walker_that_the_horizon_cuts_off():
    """On a line, states that are first reached at the end lead on to some that no run reaches in time."""
    states, horizon = 12, 4
    moves = np.zeros((states, 1, states))
    for state in range(states):
        for step, chance in ((1, 0.5), (2, 0.3), (0, 0.2)):
            moves[state, 0, min(states - 1, state + step)] += chance
    sensors = {"near": veil.Observer(np.eye(2)[(np.arange(states) > 1).astype(int)])}
    found = []
    for size in (states, 9):  # with all states, and without those beyond the horizon
        part = moves[:size, :, :size].copy()
        part[:, 0, size - 1] += 1 - part[:, 0].sum(axis=1)
        model = veil.Model(part, np.zeros((size, 1)), 0)
        problem = veil.Problem(model, veil.Observer(np.ones((size, 1))), veil.LastState([3, 4]), horizon)
        seen = {name: veil.Observer(one.matrices[0].toarray()[:size]) for name, one in sensors.items()}
        walker = veil.MarkovPolicy.uniform(problem)
        found.append(veil.best_queries(veil.Querying(seen, walker=walker).apply(problem)).upper)
    assert found[0] == pytest.approx(found[1], abs=1e-9)
