"""Playing a policy with memory: seeds, the agent's knowledge, and what cannot happen."""

import itertools

import numpy as np
import pytest

import veil
from tests.policy.masked import masked_problem
from veil.policy.memories import ObservationMemory, StateMemory
from veil.policy.memory import MemoryPolicy


def watched(horizon: int = 3, **changes) -> veil.Problem:
    return masked_problem(horizon).replace(agent_sees="state+observations", **changes)


def test_the_same_seed_plays_the_same():
    problem = watched(5)
    policy = MemoryPolicy.uniform(problem, StateMemory(1))

    def played(seed: int) -> list[int]:
        player, state, actions = policy.start(problem, seed), "hall", []
        for _ in range(5):
            action = player.act(state)
            actions.append(action)
            state = problem.model.matrices[action].toarray()[problem.model.states.find(state)].argmax()
        return actions

    assert played(3) == played(3)
    assert len({tuple(played(seed)) for seed in range(20)}) > 3


def test_playing_before_the_start_is_refused():
    with pytest.raises(veil.VeilError, match=r"call policy.start\(problem\) before policy.act\(state, observation\)"):
        MemoryPolicy.uniform(watched(), StateMemory(1)).act("hall")


def test_playing_beyond_the_horizon_is_refused():
    problem = watched(1)
    policy = MemoryPolicy.uniform(problem, StateMemory(1))
    policy.start(problem)
    policy.act("hall")
    with pytest.raises(veil.VeilError, match="the horizon is 1: there is no decision at time 1"):
        policy.act("hall")


def test_a_policy_for_ever_plays_beyond_the_horizon():
    model = veil.Model(np.eye(2)[:, None, :], [0, 1], [1, 0], 0.9)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({0}), 1, return_over="infinite")
    player = MemoryPolicy.uniform(problem, StateMemory(1, clock=False)).start(problem)
    assert [player.act(0) for _ in range(5)] == [0] * 5
    player = MemoryPolicy.uniform(problem, StateMemory(1)).start(problem)
    player.act(0)
    with pytest.raises(veil.VeilError, match="no decision at time 1"):
        player.act(0)


def test_what_cannot_happen_is_refused_and_the_run_goes_on():
    problem = watched(3)
    table = MemoryPolicy.uniform(problem, ObservationMemory(1, clock=False)).probabilities.copy()
    table[:] = [1, 0, 0]  # always stay
    player = MemoryPolicy(ObservationMemory(1, clock=False), table).start(problem)
    with pytest.raises(veil.InputError, match="state 'pit' is impossible at time 0"):
        player.act("pit", 2)
    with pytest.raises(veil.InputError, match="unknown state 'attic'"):
        player.act("attic", 0)
    with pytest.raises(veil.InputError, match="observation 'o2' is impossible at time 0"):
        player.act("hall", 2)
    with pytest.raises(veil.InputError, match="it is missing at time 0: the policy reads observations"):
        player.act("hall")
    with pytest.raises(veil.InputError, match="observation 7 does not exist"):
        player.act("hall", 7)
    assert player.time == 0
    assert player.act("hall", "o0") == 0
    with pytest.raises(veil.InputError, match="state 'pit' is impossible at time 1, after 'stay' in 'hall'"):
        player.act("pit", 2)
    assert player.act(0, 0) == 0


def test_where_no_first_observation_comes_none_is_taken():
    problem = watched(3, observer=veil.Observer(np.eye(3), sees_initial=False))
    player = MemoryPolicy.uniform(problem, ObservationMemory(1)).start(problem)
    with pytest.raises(veil.InputError, match="no observation comes then, expected None"):
        player.act("hall", 0)
    player.act("hall")


def test_where_actions_are_seen_an_event_is_the_pair_or_the_observation():
    problem = watched(3, observer=veil.Observer(np.eye(3), sees_actions=True))
    policy = MemoryPolicy.uniform(problem, ObservationMemory(2))
    for given, message in itertools.product((lambda a, o: (a, o), lambda a, o: o), (None, "the action taken was")):
        player = policy.start(problem, seed=1)
        action = player.act("hall", 0)
        state = int(problem.model.matrices[action].toarray()[0].argmax())
        if message:
            with pytest.raises(veil.InputError, match=message):
                player.act(state, ((action + 1) % 3, state))
        player.act(state, given(action, state))


def test_the_agent_may_know_the_model():
    models = [veil.Model(np.array([[[1 - p, p]], [[p, 1 - p]]]), [0, 0], [1, 0]) for p in (0.0, 1.0)]

    def problem(knows: bool) -> veil.Problem:
        return veil.Problem(models, veil.Observer(np.eye(2)), veil.WhichModel(agent_knows=knows), 3)

    policy = MemoryPolicy.uniform(problem(True), StateMemory(1))
    with pytest.raises(veil.InputError, match="expected the index of the model that runs"):
        policy.start(problem(True))
    with pytest.raises(veil.InputError, match="it is 2, expected the index"):
        policy.start(problem(True), model=2)
    player = policy.start(problem(True), model=0)
    player.act(0)
    with pytest.raises(veil.InputError, match="state 's1' is impossible at time 1"):
        player.act(1)
    policy = MemoryPolicy.uniform(problem(False), StateMemory(1))
    with pytest.raises(veil.InputError, match="the agent does not know which model runs: leave it out"):
        policy.start(problem(False), model=0)
    player = policy.start(problem(False))
    player.act(0)
    player.act(1)
    with pytest.raises(veil.InputError, match="state 's1' is impossible at time 2"):  # only the second model is left
        player.act(1)
    player.act(0)
