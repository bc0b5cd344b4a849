"""What a policy does, seen from the states: occupancy, actions and moves, also where it remembers or knows more."""

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.report.behaviour import behave

GALLERY = ("two-rooms", "paper-last-state", "courier-depots", "network-probe", "badge-doors")


@looped("name", GALLERY)
def test_everything_is_a_distribution(name: str):
    problem = veil.gallery.load(name)
    seen = behave(problem, veil.MarkovPolicy.uniform(problem))
    assert seen.occupancy.shape == (problem.horizon + 1, problem.num_states)
    assert seen.occupancy.sum(axis=1) == pytest.approx(1)
    assert seen.occupancy[0] == pytest.approx(problem.model.initial)
    here = seen.visits > 0
    assert seen.actions().sum(axis=1)[here] == pytest.approx(1)
    assert seen.moves().sum(axis=1)[here] == pytest.approx(1)
    for time in range(problem.horizon):
        step = seen.occupancy[time] @ seen.moves(time)
        assert step == pytest.approx(seen.occupancy[time + 1])


def test_a_plain_policy_is_shown_as_it_is(paper: veil.Problem, courier: veil.Problem, timed: veil.TimedPolicy):
    policy = veil.MarkovPolicy.softmax(np.random.default_rng(0).normal(size=(36, 5)), paper)
    seen = behave(paper, policy)
    assert not seen.timed
    assert np.array_equal(seen.actions(), policy.probabilities)
    clock = behave(courier, timed)
    assert clock.timed
    assert np.array_equal(clock.actions(3), timed.probabilities[3])
    weights = clock.occupancy[:-1]
    expected = np.einsum("ts,tsa->sa", weights, timed.probabilities)[weights.sum(axis=0) > 0]
    expected /= expected.sum(axis=1, keepdims=True)
    assert clock.actions()[weights.sum(axis=0) > 0] == pytest.approx(expected)


@looped("memory", [veil.StateMemory(1), veil.Controller(2)])
def test_memory_is_averaged_over(courier: veil.Problem, memory: veil.StateMemory):
    markov = veil.MarkovPolicy.uniform(courier)
    lifted = veil.MemoryPolicy.lift(courier, memory, markov)
    plain, with_memory = behave(courier, markov), behave(courier, lifted)
    here = plain.visits > 0
    assert with_memory.actions()[here] == pytest.approx(plain.actions()[here])
    assert with_memory.occupancy == pytest.approx(plain.occupancy)
    assert with_memory.moves().toarray() == pytest.approx(plain.moves().toarray())


def test_the_occupancy_of_each_model():
    probe = veil.gallery.load("network-probe")
    seen = behave(probe, veil.MarkovPolicy.uniform(probe))
    each = np.array([seen.occupancy_in(number) for number in range(len(probe.models))])
    assert each.sum(axis=2) == pytest.approx(np.ones(each.shape[:2]))
    assert each.mean(axis=0) == pytest.approx(seen.occupancy)  # its models are equally likely
    assert not np.allclose(each[0], each[1])
