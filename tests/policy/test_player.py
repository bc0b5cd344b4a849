"""Playing a policy with memory: frequencies, the agent's knowledge, and what cannot happen."""

import itertools

import numpy as np
import pytest

import veil
from tests.engine.runs import MEMORIES, Enumerator, random_policy, remembering_cases
from tests.marks import chequered
from tests.policy.masked import masked_problem
from veil.policy.memories import Controller, Mixture, ObservationMemory, StateMemory
from veil.policy.memory import MemoryPolicy
from veil.policy.recall import recall


def watched(horizon: int = 3, **changes) -> veil.Problem:
    return masked_problem(horizon).replace(agent_sees="state+observations", **changes)


def simulate(problem: veil.Problem, policy: MemoryPolicy, generator: np.random.Generator, seed: int):
    """One run of the models under the policy; yields (states, events, action) before each decision."""
    table, observer = problem.secret_table, problem.observer
    weights = np.ones(1) if table.weights is None else table.weights
    k = int(generator.choice(len(weights), p=weights))
    model = problem.models[k]
    player = policy.start(problem, seed, model=k if table.agent_knows and len(problem.models) > 1 else None)
    assert player.time == 0
    state = int(generator.choice(problem.num_states, p=model.initial))
    shown = None
    if observer.sees_first:
        shown = int(generator.choice(observer.num_observations, p=observer.emissions[state]))
    states = [state]
    events: list[str | tuple[str, str]] = [] if shown is None else [f"o{shown}"]
    for time in range(problem.horizon):
        given = f"s{state}" if seed % 2 else state
        action = policy.act(given, None if shown is None else [shown, f"o{shown}"][seed % 2])
        assert player.time == time + 1
        yield k, tuple(states), tuple(events), time, action
        row = model.matrices[action].toarray()[state]
        state = int(generator.choice(problem.num_states, p=row / row.sum()))
        emissions = observer.emissions[action, state] if observer.on_actions else observer.emissions[state]
        shown = int(generator.choice(observer.num_observations, p=emissions / emissions.sum()))
        events.append((f"a{action}", f"o{shown}") if observer.sees_actions else f"o{shown}")
        states.append(state)


@pytest.mark.parametrize(
    ("kind", "name"),
    chequered(
        ["last", "automaton", "model"],
        [name for name in MEMORIES if not isinstance(MEMORIES[name], Controller | Mixture)],
    ),
)
def test_what_is_played_has_the_frequencies_of_the_table(kind: str, name: str):
    """Rows are found by name from the whole past, as in the enumeration of runs."""
    for fixed in ({"sees_actions": False}, {"sees_actions": True}):
        (case,) = remembering_cases(1, kind, **fixed)
        policy = random_policy(case.problem, MEMORIES[name], sparse=True)
        names = Enumerator(case.spec, case.problem, policy)
        generator = np.random.default_rng(4)
        counts = np.zeros(policy.table.shape)
        for seed in range(250):
            for k, states, events, time, action in simulate(case.problem, policy, generator, seed):
                counts[time if policy.timed else 0, names.number[names.row_name(k, states, events, 0)], action] += 1
        total = counts.sum(axis=-1, keepdims=True)
        assert total.sum() == 250 * case.problem.horizon
        spread = np.sqrt(np.maximum(total, 1) * policy.table * (1 - policy.table))
        assert (np.abs(counts - total * policy.table) <= 5 * spread + 3).all()
        assert (counts[policy.table == 0] == 0).all()


@pytest.mark.parametrize(
    "memory", [Controller(2), Controller(3, clock=True), Controller(1), Mixture(2), Mixture(3, clock=True)]
)
def test_a_controller_plays_the_law_of_its_runs(memory: Controller | Mixture):
    """Its nodes are not seen: the law of (states, actions) is compared, with the nodes summed out."""
    cases = remembering_cases(20, "last", on_actions=False)
    case = next(c for c in cases if c.spec.horizon >= 2 and c.problem.available.sum(axis=1).min() > 1)
    problem, runs = case.problem, 3000
    policy = random_policy(problem, memory)
    generator = np.random.default_rng(5)
    found: dict[tuple, int] = {}
    for seed in range(runs):
        steps = [(states[-1], action) for _, states, _, _, action in simulate(problem, policy, generator, seed)]
        found[tuple(steps)] = found.get(tuple(steps), 0) + 1
    expected = law_of_actions(problem, policy)
    assert sum(expected.values()) == pytest.approx(1)
    assert set(found) <= set(expected)
    for key, chance in expected.items():
        assert abs(found.get(key, 0) / runs - chance) <= 5 * np.sqrt(chance * (1 - chance) / runs) + 1e-3


def law_of_actions(problem: veil.Problem, policy: MemoryPolicy) -> dict[tuple, float]:
    """`P(s_0, a_0, …, s_{T-1}, a_{T-1})`, by the definition of a controller."""
    names = {name: row for row, name in enumerate(MemoryPolicy.row_names(problem, policy.memory))}
    nodes = recall(problem, policy.memory).register.nodes  # type: ignore[arg-type]
    model, name = problem.model, recall(problem, policy.memory).register.name  # type: ignore[arg-type]
    law: dict[tuple, np.ndarray] = {
        (s,): p * np.eye(nodes)[0] for s, p in enumerate(model.initial) if p
    }  # the last state is open; a vector over the node
    result: dict[tuple, float] = {}
    for time in range(problem.horizon):
        following: dict[tuple, np.ndarray] = {}
        for key, chance in law.items():
            s = key[-1]
            for a in range(problem.num_actions):
                after = np.zeros(nodes)
                for node in np.flatnonzero(chance):
                    row = policy.table[time if policy.timed else 0, names[f"s{s} ({name(int(node))})"]]
                    after += chance[node] * row[a * nodes : (a + 1) * nodes]
                done = (*key[:-1], (s, a))
                if time == problem.horizon - 1:
                    if after.sum():
                        result[done] = after.sum()
                    continue
                for n, p in enumerate(model.matrices[a].toarray()[s]):
                    if p * after.sum():
                        following[(*done, n)] = p * after
        law = following
    return result


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
