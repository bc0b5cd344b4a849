"""Observers that depend on time, and observers without a clock: what they write, and what is refused."""

import numpy as np
import pytest

import veil
from tests.seeds import looped


def test_strings_are_written_without_silence():
    problem = veil.gallery.load("two-rooms").replace(horizon=2)
    observer = problem.observer
    problem = problem.replace(
        observer=veil.Observer(observer.emissions, observer.observations, silent="0", untimed=True)
    )
    table = veil.measures.joint_table(problem, veil.MarkovPolicy.uniform(problem))
    assert set(table.sequences) == {(), ("beep",), ("beep", "beep")}
    assert {one.observations for one in table.revealing()} == set(table.sequences)


def small() -> veil.Problem:
    return veil.gallery.load("two-rooms", min_return=None).replace(horizon=2)


def without_clock() -> veil.Problem:
    observer = small().observer
    made = veil.Observer(observer.emissions, observer.observations, silent="0", untimed=True)
    return small().replace(observer=made)


def test_the_game_of_a_whole_path_is_played_with_a_clock():
    """It counts bits step by step; what its policy hides is measured against the observer without a clock."""
    problem = without_clock().replace(secret=veil.Trajectory())
    found = veil.solve(problem, method="game", certificate=False, time_limit=2)
    assert found.opacity.bits == pytest.approx(veil.opacity(problem, found.policy, "exact").bits, abs=1e-9)
    assert np.isnan(found.upper_bits)


@looped(
    ("parts", "words"),
    [
        ({"times": [-1]}, "times are"),
        ({"times": "start"}, "times are 'start'"),
        ({"times": 1.5}, "times are 1.5"),
        ({"untimed": True}, "name the silent observation"),
        ({"untimed": True, "silent": 0, "sees_actions": True}, "every step is seen by its action"),
        ({"emissions_at": [np.eye(2)]}, "expected a mapping from times"),
        ({"emissions_at": {"1": np.eye(2)}}, "has the time '1'"),
        ({"emissions_at": {1: np.eye(3)}}, r"emissions_at 1 has shape \(3, 3\)"),
    ],
)
def test_wrong_schedules_are_refused(parts: dict, words: str):
    with pytest.raises(veil.InputError, match=words):
        veil.Observer(np.eye(2), **parts)


@looped("parts", [{"times": [3]}, {"emissions_at": {3: np.eye(2)}}])
def test_times_beyond_the_horizon_are_refused(parts: dict):
    with pytest.raises(veil.InputError, match="the time 3, expected times from 0 to the horizon 2"):
        small().replace(observer=veil.Observer(np.eye(2), **parts))


def test_wrong_rows_of_single_times_are_named():
    with pytest.raises(veil.InputError, match=r"time 1, state 'office'.*sums to"):
        small().replace(observer=veil.Observer(np.eye(2), emissions_at={1: [[0.5, 0.4], [0, 1]]}))


def test_observers_are_told_apart():
    plain = veil.Observer(np.eye(2), silent=0)
    kinds = [
        plain,
        veil.Observer(np.eye(2), silent=0, times="end"),
        veil.Observer(np.eye(2), silent=0, times=[1]),
        veil.Observer(np.eye(2), silent=0, emissions_at={1: np.ones((2, 2)) / 2}),
        veil.Observer(np.eye(2), silent=0, untimed=True),
    ]
    problems = [small().replace(observer=one) for one in kinds]
    from veil.problem.fingerprint import fingerprint

    assert len({fingerprint(one) for one in problems}) == len(kinds)
    assert len(set(map(repr, kinds))) == 3
    for number, one in enumerate(kinds):
        assert [other == one for other in kinds] == [place == number for place in range(len(kinds))]
    assert kinds[1].without([1]).times == "end"
    assert kinds[4].without([1]).untimed


def test_a_solution_against_an_observer_without_a_clock_says_what_is_proven():
    found = veil.solve(without_clock(), starts=1, iterations=2)
    assert found.certificate is not None
    assert "proven against an observer with a clock" in found.summary()
    assert "not proven" not in found.summary()
