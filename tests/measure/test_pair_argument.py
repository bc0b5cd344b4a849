"""Every measuring call with `pair=`: the same as on the problem of that pair's own secret and observer, and as all runs say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.test_followed import full_history
from tests.measure.test_pairs_by_all_runs import HORIZON, World, hidden_bits, secret, watcher
from tests.seeds import blocks

STATES, ACTIONS = 3, 2
MODEL = veil.Model(
    np.random.default_rng(5).dirichlet(np.ones(STATES), size=(STATES, ACTIONS)),
    np.random.default_rng(6).normal(size=(STATES, ACTIONS)),
    [0.2, 0.3, 0.5],
)
OWN = veil.Observer([[0.5, 0.5], [0.1, 0.9], [1.0, 0.0]], silent=0)
FOE = veil.Observer(
    [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.6, 0.4, 0.0]],
    silent=0,
    sees_actions=True,
    sensors={"left": {"o1": "o0"}, "right": {"o2": "o0"}},
)
PAIRS: dict[str, dict[str, Any]] = {
    "foe": {"observer": FOE},
    "asks": {"secret": veil.InitialState()},
    "other": {"observer": FOE, "secret": veil.StateAt(1, {2})},
    "visits": {"secret": veil.Visited({"c": {2}})},
}
PROBLEM = veil.Problem(MODEL, OWN, veil.LastState({1}), 3, pairs=[veil.Pair(name, **p) for name, p in PAIRS.items()])


def alone(name: str) -> veil.Problem:
    """The problem whose own secret and observer are the pair's."""
    parts = {"observer": OWN, "secret": veil.LastState({1})} | PAIRS[name]
    return veil.Problem(MODEL, parts["observer"], parts["secret"], 3)


def policies() -> dict[str, veil.Policy]:
    """One of each kind that does not act on observations."""
    rng = np.random.default_rng(7)
    memory = veil.StateMemory(1)
    remembering = veil.MemoryPolicy.uniform(PROBLEM, memory)
    table = remembering.probabilities * rng.uniform(0.5, 1.5, size=remembering.probabilities.shape)
    return {
        "markov": veil.MarkovPolicy(rng.dirichlet(np.ones(ACTIONS), size=STATES)),
        "timed": veil.TimedPolicy(rng.dirichlet(np.ones(ACTIONS), size=(3, STATES))),
        "memory": veil.MemoryPolicy(memory, table / table.sum(axis=-1, keepdims=True)),
        "features": veil.FeaturePolicy.initial(PROBLEM, "one-hot", hidden=3, seed=1),
    }


def numbers(found: veil.measures.Quantities) -> dict[str, Any]:
    return found.document()


CALLS: dict[str, Callable[..., Any]] = {
    "opacity": lambda p, pi, **k: veil.opacity(p, pi, **k),
    "sampled": lambda p, pi, **k: veil.opacity(p, pi, "sampled", sequences=300, **k),
    "bracket": lambda p, pi, **k: veil.opacity(p, pi, "bracket", **k),
    "gradient": lambda p, pi, **k: veil.opacity_gradient(p, pi, **k)[1].tolist(),
    "quantities": lambda p, pi, **k: numbers(veil.measures.quantities(p, pi, **k)),
    "sampled quantities": lambda p, pi, **k: numbers(veil.measures.quantities(p, pi, "sampled", sequences=200, **k)),
    "over time": lambda p, pi, **k: veil.measures.bits_over_time(p, pi, **k).tolist(),
    "observations": lambda p, pi, **k: veil.measures.observation_costs(p, pi, **k),
    "table": lambda p, pi, **k: veil.measures.joint_table(p, pi, **k).probabilities.tolist(),
}


@pytest.mark.parametrize("kind", ["markov", "timed", "memory", "features"])
def test_a_call_with_a_pair_is_the_call_on_the_problem_of_the_pair(kind: str):
    policy = policies()[kind]
    for name in PAIRS:
        for call, measured in CALLS.items():
            assert measured(PROBLEM, policy, pair=name) == measured(alone(name), policy), (name, call)
    for name in ("foe", "other"):
        costs = veil.measures.sensor_costs(PROBLEM, policy, pair=name)
        assert costs == veil.measures.sensor_costs(alone(name), policy)
        assert min(costs.values()) > 0
    with pytest.raises(veil.InputError, match="no sensors"):
        veil.measures.sensor_costs(PROBLEM, policy, pair="asks")


def test_a_pair_that_does_not_exist_is_named_with_those_that_do():
    policy = policies()["markov"]
    for measured in CALLS.values():
        with pytest.raises(veil.InputError, match=r"there is no pair 'fo'.*foe"):
            measured(PROBLEM, policy, pair="fo")


def test_a_history_policy_acts_on_the_own_observer_and_is_measured_by_each_pair():
    """Its events are those of the problem's own observer: a pair with that observer is the problem of another secret."""
    asks = veil.Problem(MODEL, OWN, veil.InitialState(), 3, agent_sees="state+observations")
    policy = full_history(asks, np.random.default_rng(3))
    problem = veil.Problem(
        MODEL, OWN, veil.InitialState(), 3, pairs=[veil.Pair("foe", observer=FOE)], agent_sees="state+observations"
    )
    for name in ("opacity", "quantities", "over time", "table"):
        assert CALLS[name](problem, policy, pair="own") == CALLS[name](asks, policy)
    table = veil.measures.joint_table(problem, policy, pair="foe")
    assert veil.opacity(problem, policy, pair="foe").bits == pytest.approx(table.bits, abs=1e-12)
    found = veil.measures.quantities(problem, policy, pair="foe")
    assert found.guess_probability.posterior == pytest.approx(table.guess_probability, abs=1e-12)
    assert veil.measures.bits_over_time(problem, policy, pair="foe")[-1] == pytest.approx(table.bits, abs=1e-12)


@pytest.mark.parametrize("feature", ["plain", "times", "emissions_at", "late start", "actions", "on actions, seen"])
@pytest.mark.parametrize("block", blocks(4, 40, 2))
def test_what_a_pair_learns_is_what_all_runs_say(block: range, feature: str):
    for seed in block:
        rng = np.random.default_rng([seed, 1])
        world = World(rng, timed=bool(seed % 2))
        own, foe, kind = watcher("plain", rng), watcher(feature, rng), ("last", "at", "initial", "visited")[seed % 4]
        pair = veil.Pair("foe", observer=foe.observer, secret=secret(kind))
        problem = veil.Problem(world.model, own.observer, secret("automaton"), HORIZON, pairs=[pair])
        joint = world.joint(foe, kind)
        found = veil.measures.quantities(problem, world.policy, pair="foe")
        assert found.entropy_bits.posterior == pytest.approx(hidden_bits(joint), abs=1e-10), seed
        best = sum(max(row.values()) for row in joint.values())
        assert found.guess_probability.posterior == pytest.approx(best, abs=1e-10), seed
        over_time = veil.measures.bits_over_time(problem, world.policy, pair="foe")
        for length in range(HORIZON + 1):
            kept = length + 1 if foe.sees_first else length
            prefixes: dict[tuple, dict[object, float]] = {}
            for written, row in joint.items():
                for value, chance in row.items():
                    begun = prefixes.setdefault(written[:kept], {})
                    begun[value] = begun.get(value, 0.0) + chance
            assert over_time[length] == pytest.approx(hidden_bits(prefixes), abs=1e-10), (seed, length)
