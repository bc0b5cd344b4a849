"""The ten laws of opacity, each over random models, observers, secrets, policies and horizons.

Probabilities are drawn as small integers, zeros included, so that a counterexample shrinks to something one can read.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import veil

TOLERANCE = 1e-12
lawful = settings(deadline=None, derandomize=True, max_examples=60)


@dataclass(frozen=True)
class Parts:
    """A problem with a policy, in pieces that a law can change one at a time."""

    transitions: np.ndarray  # (K, S, A, S), K models
    initial: np.ndarray  # (K, S)
    emissions: np.ndarray  # (S, O), or (A, S, O)
    policy: np.ndarray  # (T, C, A) or (C, A)
    horizon: int
    secret: Callable[["Parts"], object]
    states: tuple[int, ...] = ()  # of the secret
    starts: tuple[tuple[int, ...], ...] = ()  # groups of start states
    sees_actions: bool = False
    sees_initial: bool = True

    @property
    def size(self) -> int:
        return self.transitions.shape[1]

    def problem(self) -> veil.Problem:
        rewards = np.zeros(self.transitions.shape[1:3])
        models = [veil.Model(p, rewards, mu) for p, mu in zip(self.transitions, self.initial, strict=True)]
        observer = veil.Observer(self.emissions, sees_actions=self.sees_actions, sees_initial=self.sees_initial)
        secret = self.secret(self)
        return veil.Problem(models if len(models) > 1 else models[0], observer, secret, self.horizon)  # type: ignore[arg-type]

    def agent(self) -> veil.MarkovPolicy | veil.TimedPolicy:
        return veil.TimedPolicy(self.policy) if self.policy.ndim == 3 else veil.MarkovPolicy(self.policy)

    def opacity(self) -> veil.Opacity:
        return veil.opacity(self.problem(), self.agent(), method="exact")

    @property
    def bits(self) -> float:
        return self.opacity().bits


def last_state(parts: Parts) -> veil.LastState:
    return veil.LastState(parts.states)


def state_in_the_middle(parts: Parts) -> veil.StateAt:
    return veil.StateAt(parts.horizon // 2, parts.states)


def first_state(parts: Parts) -> veil.InitialState:
    return veil.InitialState()


def first_group(parts: Parts) -> veil.InitialState:
    return veil.InitialState({f"group {number}": members for number, members in enumerate(parts.starts) if members})


def odd_visits(parts: Parts) -> veil.Automaton:
    """Was the number of visits to the secret states odd? The agent knows the answer so far."""
    return veil.Automaton(
        transitions={("even", "in"): "odd", ("odd", "in"): "even"},
        initial="even",
        accepting={"odd"},
        labels=dict.fromkeys(parts.states, "in"),
        default_label="out",
        otherwise="stay",
        agent_knows=True,
    )


def which_model(parts: Parts) -> veil.WhichModel:
    return veil.WhichModel()


SECRETS = (last_state, state_in_the_middle, first_state, first_group, odd_visits, which_model)


def table(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Distributions along the last axis, from small integer weights."""
    size = math.prod(shape)

    def normalised(weights: Sequence[int]) -> np.ndarray:
        array = np.reshape(np.array(weights, dtype=float), shape)
        array[..., 0] += array.sum(axis=-1) == 0
        return array / array.sum(axis=-1, keepdims=True)

    return st.lists(st.sampled_from((0, 1, 1, 2, 5)), min_size=size, max_size=size).map(normalised)


EITHER, NO, YES = st.booleans(), st.just(False), st.just(True)


@st.composite
def parts(draw, secrets=SECRETS, sees_actions=EITHER, sees_initial=EITHER, on_actions=EITHER):
    secret = draw(st.sampled_from(secrets))
    size, actions, observations = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    horizon = draw(st.integers(0, 3))
    models = 2 if secret is which_model else 1
    cells = size * (2 if secret is odd_visits else 1)
    on_actions = draw(on_actions)
    members = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    return Parts(
        transitions=draw(table((models, size, actions, size))),
        initial=draw(table((models, size))),
        emissions=draw(table((actions, size, observations) if on_actions else (size, observations))),
        policy=draw(table((horizon, cells, actions) if draw(st.booleans()) and horizon else (cells, actions))),
        horizon=horizon,
        secret=secret,
        states=tuple(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size)))),
        starts=tuple(tuple(s for s in range(size) if members[s] == number) for number in (0, 1)),
        sees_actions=draw(sees_actions),
        sees_initial=draw(sees_initial),
    )


@lawful
@given(parts())
def test_1_opacity_lies_between_zero_and_the_prior(given_parts: Parts):
    found = given_parts.opacity()
    num_values = len(given_parts.problem().secret_values)
    assert -0.0 <= found.bits <= found.prior_bits + TOLERANCE
    assert found.prior_bits <= math.log2(num_values) + TOLERANCE
    assert abs(found.leakage_bits - (found.prior_bits - found.bits)) <= TOLERANCE


@lawful
@given(parts(sees_actions=NO), st.data())
def test_2_a_constant_observer_leaves_the_prior(given_parts: Parts, data):
    row = data.draw(table((given_parts.emissions.shape[-1],)))
    found = replace(given_parts, emissions=np.broadcast_to(row, given_parts.emissions.shape)).opacity()
    assert abs(found.bits - found.prior_bits) <= TOLERANCE


@lawful
@given(parts(secrets=(last_state, state_in_the_middle, first_state, first_group, odd_visits), on_actions=NO), st.data())
def test_3_an_observer_that_sees_the_secret_leaves_nothing(given_parts: Parts, data):
    """It sees the label that the secret is made of, told by one of two symbols each at random, from time 0 on."""
    size = given_parts.size
    labels = np.arange(size)
    if given_parts.secret in (last_state, state_in_the_middle, odd_visits):
        labels = np.isin(labels, given_parts.states).astype(int)
    elif given_parts.secret is first_group:
        labels = np.isin(labels, given_parts.starts[1]).astype(int)
    split = data.draw(table((size, 2)))
    emissions = np.zeros((size, 2 * (labels.max() + 1)))
    for state, label in enumerate(labels):
        emissions[state, 2 * label : 2 * label + 2] = split[state]
    assert replace(given_parts, emissions=emissions, sees_initial=True).bits <= TOLERANCE


@lawful
@given(parts(secrets=(which_model,), on_actions=NO, sees_initial=YES))
def test_3_an_observer_that_sees_which_model_runs_leaves_nothing(given_parts: Parts):
    """Two models that start in different states, and an observer that can tell their starts apart."""
    assume(given_parts.size > 1)
    initial = np.zeros((2, given_parts.size))
    initial[0, 0] = initial[1, 1] = 1.0
    found = replace(given_parts, initial=initial, emissions=np.eye(given_parts.size)).opacity()
    assert abs(found.prior_bits - 1) <= TOLERANCE
    assert found.bits <= TOLERANCE


@lawful
@given(parts(sees_actions=NO, sees_initial=NO))
def test_4_seeing_actions_or_the_first_observation_never_raises_opacity(given_parts: Parts):
    blind = given_parts.bits
    sees_first = replace(given_parts, sees_initial=True).bits
    sees_actions = replace(given_parts, sees_actions=True).bits
    both = replace(given_parts, sees_initial=True, sees_actions=True).bits
    assert sees_first <= blind + TOLERANCE
    assert sees_actions <= blind + TOLERANCE
    assert both <= min(sees_first, sees_actions) + TOLERANCE


@lawful
@given(parts(), st.data())
def test_4_a_second_sensor_never_raises_opacity(given_parts: Parts, data):
    """Readings of both sensors, independent given the state: the pairs are the new alphabet."""
    second = data.draw(table((*given_parts.emissions.shape[:-1], 2)))
    pairs = given_parts.emissions[..., :, None] * second[..., None, :]
    both = replace(given_parts, emissions=pairs.reshape(*second.shape[:-1], -1))
    assert both.bits <= given_parts.bits + TOLERANCE


@lawful
@given(parts(secrets=(first_state, first_group, which_model)), st.data())
def test_4_watching_for_longer_never_raises_opacity(given_parts: Parts, data):
    policy = given_parts.policy
    if policy.ndim == 3:
        policy = np.concatenate([policy, data.draw(table((1, *policy.shape[1:])))])
    longer = replace(given_parts, policy=policy, horizon=given_parts.horizon + 1)
    assert longer.bits <= given_parts.bits + TOLERANCE


@lawful
@given(parts(), st.data())
def test_5_garbling_never_lowers_opacity(given_parts: Parts, data):
    problem, agent = given_parts.problem(), given_parts.agent()
    channel = data.draw(table((given_parts.emissions.shape[-1], data.draw(st.integers(1, 3)))))
    garbled = problem.replace(observer=problem.observer.garbled(channel))
    found = veil.opacity(garbled, agent, method="exact")
    assert found.bits >= given_parts.bits - TOLERANCE
    assert found.bits <= found.prior_bits + TOLERANCE
    # The same by hand, so that `garbled` is more than a name.
    assert abs(replace(given_parts, emissions=given_parts.emissions @ channel).bits - found.bits) <= TOLERANCE


@lawful
@given(parts())
def test_6_the_chain_rule(given_parts: Parts):
    """`H(Z|Y) = H(Z,Y) − H(Y)`, from the joint table."""
    joint = veil.measures.joint_table(given_parts.problem(), given_parts.agent()).probabilities
    assert abs(joint.sum() - 1) <= TOLERANCE
    found = given_parts.opacity()
    assert abs(found.bits - (entropy(joint) - entropy(joint.sum(axis=1)))) <= TOLERANCE
    assert abs(found.prior_bits - entropy(joint.sum(axis=0))) <= TOLERANCE


def entropy(probabilities: np.ndarray) -> float:
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log2(positive)).sum())


@lawful
@given(parts(), st.data())
def test_7_names_do_not_matter(given_parts: Parts, data):
    """States, actions and observations in another order."""
    size, actions = given_parts.transitions.shape[1:3]
    states = np.array(data.draw(st.permutations(range(size))))
    moves = np.array(data.draw(st.permutations(range(actions))))
    symbols = np.array(data.draw(st.permutations(range(given_parts.emissions.shape[-1]))))
    position = np.argsort(states)  # new number of an old state
    cells = np.concatenate([block * size + states for block in range(given_parts.policy.shape[-2] // size)])
    emissions = given_parts.emissions[..., states, :][..., symbols]
    permuted = replace(
        given_parts,
        transitions=given_parts.transitions[:, states][:, :, moves][:, :, :, states],
        initial=given_parts.initial[:, states],
        emissions=emissions[moves] if emissions.ndim == 3 else emissions,
        policy=given_parts.policy[..., cells, :][..., moves],
        states=tuple(int(position[s]) for s in given_parts.states),
        starts=tuple(tuple(int(position[s]) for s in members) for members in given_parts.starts),
    )
    before, after = given_parts.opacity(), permuted.opacity()
    assert abs(before.bits - after.bits) <= TOLERANCE
    assert abs(before.prior_bits - after.prior_bits) <= TOLERANCE
    assert before.num_sequences == after.num_sequences


@lawful
@given(parts(), st.data())
def test_8_merging_proportional_observations_changes_nothing(given_parts: Parts, data):
    """An observation is told by one of two symbols, whose shares are the same everywhere."""
    column = data.draw(st.integers(0, given_parts.emissions.shape[-1] - 1))
    share = data.draw(st.sampled_from((0.0, 0.25, 0.5, 1 / 3)))
    split = np.concatenate([given_parts.emissions, share * given_parts.emissions[..., [column]]], axis=-1)
    split[..., column] *= 1 - share
    assert abs(replace(given_parts, emissions=split).bits - given_parts.bits) <= TOLERANCE


@lawful
@given(parts(secrets=(last_state, state_in_the_middle, first_group, odd_visits, which_model)), st.data())
def test_9_splitting_a_state_into_copies_changes_nothing(given_parts: Parts, data):
    """Copies that emit, move, act and count alike; what leads to the state leads to either, in any proportion."""
    size = given_parts.size
    state = data.draw(st.integers(0, size - 1))
    source = [*range(size), state]  # of which old state each new one is a copy
    share = data.draw(table((len(given_parts.transitions), size + 1, given_parts.transitions.shape[2], 2)))
    transitions = given_parts.transitions[:, source][:, :, :, source]
    transitions[..., state] *= share[..., 0]
    transitions[..., size] *= share[..., 1]
    initial = given_parts.initial[:, source]
    start_share = data.draw(table((2,)))
    initial[:, state] *= start_share[0]
    initial[:, size] *= start_share[1]
    cells = [block * size + s for block in range(given_parts.policy.shape[-2] // size) for s in source]

    def with_copy(members: tuple[int, ...]) -> tuple[int, ...]:
        return (*members, size) if state in members else members

    copied = replace(
        given_parts,
        transitions=transitions,
        initial=initial,
        emissions=given_parts.emissions[..., source, :],
        policy=given_parts.policy[..., cells, :],
        states=with_copy(given_parts.states),
        starts=tuple(with_copy(members) for members in given_parts.starts),
    )
    before, after = given_parts.opacity(), copied.opacity()
    assert abs(before.bits - after.bits) <= TOLERANCE
    assert abs(before.prior_bits - after.prior_bits) <= TOLERANCE
    assert before.num_sequences == after.num_sequences


@lawful
@given(parts(secrets=(first_state,)))
def test_10_coarsening_the_secret_never_raises_opacity(given_parts: Parts):
    """From each start to the group of starts, from the groups to nothing at all."""
    fine = given_parts.opacity()
    coarse = replace(given_parts, secret=first_group).opacity()
    nothing = replace(given_parts, secret=first_group, starts=(tuple(range(given_parts.size)), ())).opacity()
    assert coarse.bits <= fine.bits + TOLERANCE
    assert coarse.prior_bits <= fine.prior_bits + TOLERANCE
    assert nothing.bits <= TOLERANCE


# Laws of the observers and secrets that protocols need.


def erased(parts: Parts) -> veil.Problem:
    """The problem with its first observation silent, for an observer without a clock."""
    made = veil.Observer(parts.emissions, sees_initial=parts.sees_initial, silent=0, untimed=True)
    return parts.problem().replace(observer=made)


@lawful
@given(parts(sees_actions=NO))
def test_an_observer_without_a_clock_never_knows_more(given_parts: Parts):
    found = veil.opacity(erased(given_parts), given_parts.agent(), method="exact")
    assert given_parts.bits <= found.bits + TOLERANCE
    assert found.bits <= found.prior_bits + TOLERANCE


@lawful
@given(parts(), st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)))
def test_an_observer_who_receives_at_fewer_times_never_knows_more(given_parts: Parts, some: set[int], more: set[int]):
    def bits(times: set[int]) -> float:
        inside = [time for time in times if time <= given_parts.horizon]
        problem = given_parts.problem()
        problem = problem.replace(observer=problem.observer.replace(times=inside))
        return veil.opacity(problem, given_parts.agent(), method="exact").bits

    few, many, all_times = bits(some), bits(some | more), bits(set(range(4)))
    assert many <= few + TOLERANCE
    assert all_times <= many + TOLERANCE
    assert abs(all_times - given_parts.bits) <= TOLERANCE


@lawful
@given(parts(secrets=(last_state, state_in_the_middle)), st.integers(0, 2**8 - 1))
def test_grouped_secrets_are_coarser_ones(given_parts: Parts, merge: int):
    """States told apart one by one, then by groups: the groups hide no more, and a garbled label is the coarser secret."""
    problem, states = given_parts.problem(), range(given_parts.size)

    def bits(groups: dict[str, list[int]]) -> tuple[float, np.ndarray]:
        time = problem.secret_table.time
        secret = veil.StateAt(time, groups=groups)
        table = veil.measures.joint_table(problem.replace(secret=secret), given_parts.agent())
        return table.bits, table.probabilities

    fine, joint = bits({f"s{s}": [s] for s in states})
    group = [merge >> (2 * s) & 3 for s in states]
    named = {f"g{g}": [s for s in states if group[s] == g] for g in dict.fromkeys(group)}
    coarse, merged = bits(named)
    assert coarse <= fine + TOLERANCE
    order = list(dict.fromkeys(group))
    summed = np.stack([joint[:, [s for s in states if group[s] == g]].sum(axis=1) for g in order], axis=1)
    np.testing.assert_allclose(merged, summed, atol=TOLERANCE)
