"""Smoothed probabilities and most likely paths: by hand, and what is refused."""

import numpy as np
import pytest

import veil


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
