"""Observers that prove a bound: those that need no search, those of games, and which of them is kept."""

import numpy as np

import veil
from veil.common.clock import Clock
from veil.proof.observers import Asked, best_observers


def observer_of(problem: veil.Problem, clock: Clock, **given):
    values = {"bounds": (None,), "values": None, "gap": 1e-3, "memory_bytes": 2**30} | given
    return best_observers(problem, Asked(**values), clock)


def test_with_no_time_there_is_a_bound():
    for name, most in (("paper-last-state", 1.0), ("paper-initial-state", 2.0)):
        found = observer_of(veil.gallery.load(name, min_return=None), Clock(0.0))
        assert found.bounds[0].upper == most
        assert found.bounds[0].rules[0].memory == "nothing"
        assert found.known is None


def test_more_time_proves_more():
    problem = veil.gallery.load("two-rooms")
    found = observer_of(problem, Clock(20.0), bounds=(0.6,))
    assert found.bounds[0].rules[0].memory == "the whole history"
    assert found.known is not None
    assert 0 <= found.bounds[0].upper - found.known <= 2e-3


def test_a_stop_request_ends_with_the_best_so_far():
    calls = []

    def stop() -> bool:
        calls.append(1)
        return len(calls) > 200

    found = observer_of(veil.gallery.load("paper-last-state", min_return=None), Clock(60.0, stop=stop), gap=0.0)
    assert found.bounds[0].upper <= 1.0


def test_the_rule_of_a_path_is_about_states_that_are_reached():
    """Beside an automaton the first of four states is left out of the game, in which states have other numbers then."""
    moves = np.zeros((4, 2, 4))
    moves[0, :, 0] = 1
    moves[1:, 0, 1:], moves[1:, 1, 1:] = [0.5, 0.25, 0.25], [0.125, 0.375, 0.5]
    model = veil.Model(moves, np.zeros((4, 2)), 1)
    observer = veil.Observer([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    limits = [veil.Probability("F three", max=1.0, labels={"three": [3]})]
    problem = veil.Problem(model, observer, veil.Trajectory(), 2, constraints=limits)
    found = observer_of(problem, Clock(20.0), bounds=(None, 1.0))
    assert found.bounds[0].rules[0].memory == "the whole history"
    assert found.known is not None
    assert found.bounds[0].upper <= found.known + 2e-3
