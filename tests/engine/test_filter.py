"""What the observer believes, live."""

import numpy as np
import pytest

import veil
from tests.engine.chains import small_case, small_cases
from tests.random_problems import KINDS
from tests.seeds import looped


def two_rooms() -> tuple[veil.Problem, veil.MarkovPolicy]:
    problem = veil.gallery.load("two-rooms")
    return problem, veil.MarkovPolicy.uniform(problem)


def seeing_actions(horizon: int = 3, secret=None, sees_initial: bool = True) -> tuple[veil.Problem, veil.MarkovPolicy]:
    """Two states; `stay` stays, `move` moves with probability 3/4; the observation is right with probability 3/4."""
    transitions = np.array([[[1, 0], [0.25, 0.75]], [[0, 1], [0.75, 0.25]]])
    states, actions = ["left", "right"], ["stay", "move"]
    model = veil.Model(transitions, np.zeros((2, 2)), [0.5, 0.5], state_names=states, action_names=actions)
    observer = veil.Observer([[0.75, 0.25], [0.25, 0.75]], ["l", "r"], sees_actions=True, sees_initial=sees_initial)
    problem = veil.Problem(model, observer, secret or veil.LastState({"right"}), horizon)
    return problem, veil.MarkovPolicy([[0.5, 0.5], [0.25, 0.75]])


# Impossible observations


def test_an_impossible_observation_says_what_would_be_possible():
    problem, policy = two_rooms()
    watcher = veil.ObserverFilter(problem, policy)
    with pytest.raises(
        veil.errors.ImpossibleObservationError, match=r"'beep' at time 0 is impossible .* possible are '0'"
    ):
        watcher.update("beep")
    watcher.update("0")
    certain = veil.ObserverFilter(problem, veil.MarkovPolicy([[1, 0], [0.5, 0.5]]))
    certain.update("0")
    with pytest.raises(veil.errors.ImpossibleObservationError, match=r"at time 1 .*after what was seen before"):
        certain.update("beep")


def test_an_impossible_pair_is_named_with_its_action():
    problem, _ = seeing_actions()
    watcher = veil.ObserverFilter(problem, veil.MarkovPolicy([[1, 0], [1, 0]]))
    watcher.update("l")
    with pytest.raises(veil.errors.ImpossibleObservationError, match=r"\('move', 'r'\) at time 1") as caught:
        watcher.update(("move", "r"))
    assert "('stay', 'l'), ('stay', 'r')" in str(caught.value)


def test_a_refused_observation_changes_nothing():
    for wrong, error in (("beep", veil.errors.ImpossibleObservationError), ("boop", veil.InputError)):
        problem = veil.gallery.load("two-rooms")
        policy = veil.MarkovPolicy([[1, 0], [0.5, 0.5]])
        watcher, other = veil.ObserverFilter(problem, policy), veil.ObserverFilter(problem, policy)
        for filter_ in (watcher, other):
            filter_.update("0")
        belief, posterior = watcher.belief, watcher.posterior
        with pytest.raises(error):
            watcher.update(wrong)
        assert watcher.time == 0
        np.testing.assert_array_equal(watcher.belief, belief)
        np.testing.assert_array_equal(watcher.posterior, posterior)
        np.testing.assert_array_equal(watcher.update("0"), other.update("0"))


# Names, pairs, the horizon


def test_names_and_indices_are_the_same():
    problem, policy = seeing_actions()
    by_name, by_index, mixed = (veil.ObserverFilter(problem, policy) for _ in range(3))
    assert by_name.update("r").tolist() == by_index.update(1).tolist() == mixed.update("r").tolist()
    found = [by_name.update(("move", "l")), by_index.update((1, 0)), mixed.update(("move", 0))]
    assert found[0].tolist() == found[1].tolist() == found[2].tolist()


@looped("wrong", ["l", 0, ("stay",), ("stay", "l", "l"), ["stay", "l"], None])
def test_who_sees_actions_must_be_given_pairs(wrong):
    problem, policy = seeing_actions()
    watcher = veil.ObserverFilter(problem, policy)
    watcher.update("l")
    with pytest.raises(veil.InputError, match=r"expected \(action, observation\)"):
        watcher.update(wrong)
    assert watcher.time == 0


def test_the_first_observation_comes_alone():
    problem, policy = seeing_actions()
    with pytest.raises(veil.InputError, match="time 0"):
        veil.ObserverFilter(problem, policy).update(("stay", "l"))


@looped(
    ("event", "expected"),
    [
        (("fly", "l"), "unknown action 'fly'"),
        (("stay", "x"), "unknown observation 'x'"),
        ((5, "l"), "action 5 does not exist"),
        (("stay", 7), "observation 7 does not exist"),
        (("stay", True), "is a bool"),
    ],
)
def test_an_unknown_event_is_named(event, expected: str):
    problem, policy = seeing_actions()
    watcher = veil.ObserverFilter(problem, policy)
    watcher.update("l")
    with pytest.raises(veil.InputError, match=expected) as caught:
        watcher.update(event)
    assert "time 1" in str(caught.value)


def test_past_the_horizon_there_is_nothing_to_see():
    problem, policy = two_rooms()
    watcher = veil.ObserverFilter(problem, policy)
    watcher.update("0")
    last = watcher.update("0")
    with pytest.raises(veil.VeilError, match=r"the horizon is 1: there is no observation at time 2; reset\(\) first"):
        watcher.update("0")
    assert watcher.time == 1
    np.testing.assert_array_equal(watcher.posterior, last)


@pytest.mark.parametrize("kind", KINDS)
def test_a_reset_forgets_everything(kind: str):
    for case in small_cases(6, kind):
        table = veil.measures.joint_table(case.problem, case.policy)
        sequence = table.sequences[len(table.sequences) // 2]
        watcher = veil.ObserverFilter(case.problem, case.policy)
        before = watcher.posterior, watcher.belief, watcher.time
        first = [watcher.update(event) for event in sequence]
        watcher.reset()
        np.testing.assert_array_equal(watcher.posterior, before[0])
        np.testing.assert_array_equal(watcher.belief, before[1])
        assert watcher.time == before[2]
        np.testing.assert_array_equal([watcher.update(event) for event in sequence], first)


def test_a_policy_that_does_not_fit_is_refused():
    case = small_case(0, "last", timed=False)
    with pytest.raises(veil.InputError, match="policy"):
        veil.ObserverFilter(case.problem, veil.MarkovPolicy(np.ones((97, 1))))


def test_the_belief_is_about_models_and_states_where_both_are_hidden():
    """Two models of two states: four hidden states, of which the states are the sums."""
    models = [veil.Model(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), start) for start in ([1.0, 0.0], [0.25, 0.75])]
    problem = veil.Problem(models, veil.Observer(np.ones((2, 1))), veil.WhichModel([0.5, 0.5]), 1)
    watcher = veil.ObserverFilter(problem, veil.MarkovPolicy.uniform(problem))
    assert watcher.belief.tolist() == [0.5, 0.0, 0.125, 0.375]
    assert watcher.state_belief.tolist() == [0.625, 0.375]
    alone = veil.Problem(models[1], veil.Observer(np.ones((2, 1))), veil.LastState({0}), 1)
    assert veil.ObserverFilter(alone, veil.MarkovPolicy.uniform(alone)).belief.tolist() == [0.25, 0.75]
