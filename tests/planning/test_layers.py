"""Sampled passes over the states that can be reached at each time, against the engine's passes over all states."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import drawn, random_problem
from veil.common.clock import UNLIMITED
from veil.common.workers import Team
from veil.engine.backends import column_steps
from veil.engine.returns import evaluate_returns
from veil.engine.sequences import Posteriors, SequencePass
from veil.planning import layers as module
from veil.planning.layers import Layers
from veil.planning.policy_class import make_space

MEMORIES = ["markov", "timed", veil.StateMemory(1), veil.Controller(2)]


def corridor(secret: veil.LastState | veil.StateAt | veil.InitialState, length: int = 9) -> veil.Problem:
    """A corridor whose cells are reached one after the other from the start, with a sensor in the middle."""
    world = veil.GridWorld(
        1,
        length,
        slip=0.1,
        starts=(0, 1),
        goals={(0, length - 4): 1.0},
        sensors=[veil.Sensor("a", [(0, length // 2)], 0.8, 0.1)],
    )
    return world.problem(6, secret=secret)


SECRETS = [veil.LastState(["r0c3"]), veil.StateAt(2, ["r0c1", "r0c3"]), veil.InitialState()]
PROBLEMS = [*(corridor(secret) for secret in SECRETS), random_problem(0), random_problem(3)]
PROBLEMS += [
    random_problem(1).replace(
        observer=veil.Observer(random_problem(1).observer.matrices[0].toarray(), sees_actions=True)
    )
]


def cotangent(found: Posteriors, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    posterior = found.posterior
    return posterior, np.arange(posterior.size).reshape(posterior.shape) / posterior.size + posterior


def shared(found: Posteriors, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return found.posterior, found.posterior / len(events)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("number", range(len(PROBLEMS)))
def test_posteriors_gradients_and_returns_are_those_of_the_engine(number: int, memory):
    problem = PROBLEMS[number]
    space = make_space(problem, memory)
    layers, table = Layers(space.hidden), drawn(space, 1)[0]
    events = layers.draw(table, 20, np.random.default_rng(0))
    # Equal sequences count once there: give each of them a cotangent of its own by its posterior alone.
    run = SequencePass(space.chain(table), events.astype(np.int32), gradient=True, memory_bytes=2**30)
    found, slope = layers.gradient(table, events, lambda found, _: (found.posterior, found.posterior + 0.1))
    np.testing.assert_allclose(found, run.result.posterior[run.result.index], atol=1e-12)
    expected = run.pull_back(run.result.count[:, None] * (run.result.posterior + 0.1))
    np.testing.assert_allclose(slope, expected, atol=1e-10)
    np.testing.assert_array_equal(found, layers.posteriors(table, events))
    values, slopes = evaluate_returns(problem, space.hidden, table[None], stationary=space.stationary)
    value, return_slope, occupied = layers.returns(table, space.hidden.terminal)
    assert value == pytest.approx(values[0], abs=1e-12)
    np.testing.assert_allclose(return_slope, slopes[0], atol=1e-12)
    np.testing.assert_allclose(occupied, space.chain(table).occupancies[:-1], atol=1e-12)


def test_only_reachable_states_are_carried_and_only_their_rows_used():
    space = make_space(corridor(SECRETS[0]), "timed")
    layers = Layers(space.hidden)
    assert layers.num_places < 7 * 9
    rows = layers.rows(6)
    assert rows[0] == 1  # the start, at time 0
    assert {9, 10, 11} <= set(rows)  # one step later, the cells beside it
    assert 12 not in rows
    assert len(rows) == layers.num_places - len(layers._reached[-1])
    assert set(layers.rows(1)) == {cell for reached in layers._reached[:-1] for cell in reached}


def test_where_the_layers_would_not_fit_all_times_share_one_set_of_states(monkeypatch):
    space = make_space(corridor(SECRETS[1]), "timed")
    table = drawn(space, 1)[0]
    layered = Layers(space.hidden)
    events = layered.draw(table, 12, np.random.default_rng(0))
    expected = layered.gradient(table, events, cotangent)
    monkeypatch.setattr(column_steps, "_MOST_ENTRIES", 0)
    whole = Layers(replace(space.hidden))
    assert len({id(pattern) for pattern in whole._patterns}) == 1
    for found, wanted in zip(whole.gradient(table, events, cotangent), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_sequences_that_do_not_fit_the_memory_are_worked_on_in_lanes(monkeypatch):
    space = make_space(random_problem(0))
    layers, table = Layers(space.hidden), drawn(space, 1)[0]
    events = layers.draw(table, 11, np.random.default_rng(0))
    posterior, slope = layers.gradient(table, events, shared)
    monkeypatch.setattr(module, "_MESSAGE_BYTES", 0)
    again, in_lanes = layers.gradient(table, events, shared)
    np.testing.assert_allclose(again, posterior, atol=1e-12)
    np.testing.assert_allclose(in_lanes, slope, atol=1e-12)


@pytest.mark.parametrize("number", range(len(PROBLEMS)))
def test_events_and_secret_have_the_joint_law_of_the_chain(number: int):
    space = make_space(PROBLEMS[number], "timed")
    layers, table = Layers(space.hidden), drawn(space, 1)[0]
    chain = space.chain(table)
    prior, seen = layers.seen(table)
    np.testing.assert_allclose(prior, chain.prior, atol=1e-12)
    emission = space.hidden.channels[0].emission
    for time in range(1, space.hidden.horizon + 1):
        told = chain.occupancies[time] @ emission
        np.testing.assert_allclose(seen[time].sum(axis=1), told, atol=1e-12)
        if len(space.hidden.channels) == 1:
            np.testing.assert_allclose(seen[time].sum(axis=0), prior, atol=1e-12)


def test_a_soft_table_without_wishes_spreads_over_paths_and_a_large_weight_is_greedy():
    problem = corridor(SECRETS[0])
    space = make_space(problem, "timed")
    hidden = space.hidden
    nothing = (
        np.zeros(hidden.num_states),
        np.zeros((hidden.horizon + 1, hidden.num_events)),
        hidden.terminal,
        space.available,
    )
    spread = space.layers.soft_table(0.0, *nothing)
    np.testing.assert_allclose(spread.sum(axis=2), 1.0)
    np.testing.assert_allclose(spread, 1 / problem.num_actions, atol=1e-12)
    greedy = space.layers.soft_table(1e9, *nothing)
    assert veil.expected_return(problem, space.policy(greedy)) == pytest.approx(veil.max_return(problem), rel=1e-6)


class Zeros:
    """A generator whose numbers are all zero, the least that a uniform one gives."""

    def random(self, shape: object) -> np.ndarray:
        return np.zeros(shape)  # type: ignore[call-overload]


def test_what_has_no_probability_is_never_drawn():
    space = make_space(PROBLEMS[-1], "timed")  # whose observer sees the actions
    layers = Layers(space.hidden)
    last = np.zeros(space.shape)
    last[..., -1] = 1.0
    first = np.zeros(space.shape)
    first[..., 0] = 1.0
    for table in (last, first):
        events = layers.draw(table, 3, Zeros())  # type: ignore[arg-type]
        assert np.all(np.isfinite(layers.posteriors(table, events)))
        likely = layers.passed(table, events, UNLIMITED, gradient=False).result.log_likelihood
        assert np.all(np.isfinite(likely))


def test_a_team_is_asked_where_there_is_more_than_one_part(monkeypatch: pytest.MonkeyPatch):
    space = make_space(random_problem(0), "timed")
    layers, table, asked = Layers(space.hidden), drawn(space, 1)[0], list[int]()

    class Asked(Team):
        def shares(self, work: Any, subject: Any, items: Any, clock: Any = UNLIMITED) -> Any:
            asked.append(len(items))
            return (work(subject, item, clock) for item in items)

    monkeypatch.setattr(module, "_VALUED", 5)
    events = layers.draw(table, 10, np.random.default_rng(0))
    alone = layers.measured(table, events, shared)
    np.testing.assert_array_equal(layers.measured(table, events, shared, UNLIMITED, Asked()), alone)
    assert asked == [2]
    few = events[:5]
    found = layers.measured(table, few, shared, UNLIMITED, Asked())
    np.testing.assert_array_equal(found, layers.measured(table, few, shared))
    assert asked == [2]
