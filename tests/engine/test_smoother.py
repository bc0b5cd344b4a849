"""Smoothed probabilities and most likely paths, against all runs one by one."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

import veil
from tests.measure.test_trajectory import random_problem, random_table
from tests.paths import all_runs
from tests.seeds import in_blocks


@in_blocks(25, 100, 25)
def test_all_runs(seed: int) -> None:
    """Every possible sequence: its probability, every state at every time, and a path as likely as the likeliest."""
    problem, _ = random_problem(seed)
    timed = seed % 2 == 0 and problem.horizon > 0
    table = random_table(problem, np.random.default_rng([seed, 5]), timed)
    found = veil.smoother(problem, veil.TimedPolicy(table) if timed else veil.MarkovPolicy(table))
    by_events = defaultdict(dict)

    def choice(path: Sequence[int], _: object) -> np.ndarray:
        return table[len(path) - 1, path[-1]] if timed else table[path[-1]]

    for (path, events), weight in all_runs(problem, choice).items():
        by_events[events][path] = weight
    names = problem.model.states
    for events, paths in list(by_events.items())[:20]:
        given = events if problem.observer.sees_first else events[1:]
        smoothed, total = found.smooth(list(given)), sum(paths.values())
        assert smoothed.probability == pytest.approx(total, rel=1e-12)
        states = np.zeros((problem.horizon + 1, problem.num_states))
        for path, weight in paths.items():
            states[np.arange(len(path)), list(path)] += weight / total
        np.testing.assert_allclose(smoothed.states, states, atol=1e-12)
        chosen = tuple(names.find(name) for name in smoothed.path)
        assert paths[chosen] == pytest.approx(max(paths.values()), rel=1e-12)
        assert smoothed.path_probability == pytest.approx(paths[chosen] / total, rel=1e-12)


def test_fewer_observations() -> None:
    """Up to the last observation it is what the filter believes; earlier states profit from later observations."""
    problem = veil.gallery.load("paper-last-state")
    policy = veil.MarkovPolicy.uniform(problem)
    seen = [problem.observer.observations[0]] * 4
    watcher = veil.ObserverFilter(problem, policy)
    for one in seen:
        watcher.update(one)
    smoothed = veil.smoother(problem, policy).smooth(seen)
    np.testing.assert_allclose(smoothed.states[-1], watcher.state_belief, atol=1e-12)
    assert smoothed.states.shape == (4, problem.num_states)
    assert len(smoothed.path) == 4


def test_what_is_refused() -> None:
    """Impossible, unknown, none and too many observations."""
    problem = veil.gallery.load("two-rooms")
    found = veil.smoother(problem, veil.MarkovPolicy.uniform(problem))
    names = problem.observer.observations.all()
    with pytest.raises(veil.InputError, match="expected at least one"):
        found.smooth([])
    with pytest.raises(veil.InputError, match="expected at most"):
        found.smooth([names[0]] * 9)
    with pytest.raises(veil.InputError, match="list of observations"):
        found.smooth("light")
    with pytest.raises(veil.InputError):
        found.smooth(["nowhere"])
    blocked = problem.replace(observer=veil.Observer(np.eye(2), ["o", "v"]))
    with pytest.raises(veil.VeilError, match="time 0 is impossible"):
        veil.smoother(blocked, veil.MarkovPolicy.uniform(blocked)).smooth(["v"])


def test_as_many_observations_as_the_horizon_has() -> None:
    """One more than the steps where the first state is observed, none is needed where it is not."""
    problem = veil.gallery.load("two-rooms")
    silence, policy = problem.observer.observations[0], veil.MarkovPolicy.uniform(problem)
    late = problem.replace(observer=problem.observer.replace(sees_initial=False))
    for watched, most in ((problem, problem.horizon + 1), (late, problem.horizon)):
        found = veil.smoother(watched, policy)
        assert repr(found) == f"Smoother({problem.name!r})"
        assert len(found.smooth([silence] * most).path) == problem.horizon + 1
        with pytest.raises(veil.InputError, match=f"found {most + 1}, expected at most {most}"):
            found.smooth([silence] * (most + 1))
    nothing = veil.smoother(late, policy).smooth([])
    assert (nothing.probability, len(nothing.path)) == (1.0, 1)
    np.testing.assert_allclose(nothing.states, problem.model.initial[None])
    assert nothing.path_probability == pytest.approx(problem.model.initial.max())
