"""Memories of what the observer receives: a class of one's own, infinite horizons, and playing."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.policy.memories import Key, Memory, Numbers, Register, clock_key

# A class of one's own, whose value does not tell the newest event


@dataclass(frozen=True)
class Parity(Memory):
    """Whether an observation came an even or an odd number of times."""

    kind = "parity"
    keys = (Key("parity", int, "The number of the observation."), clock_key(False))
    needs_observations = True

    observation: int
    clock: bool = False

    @property
    def name(self) -> str:
        return "memory of a parity"

    def register(self, problem: veil.Problem) -> Register:
        return _Bit(self.observation)


class _Bit(Register):
    size = 2
    reads_events = True

    def __init__(self, counted: int):
        self.counted = counted

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        return (event == self.counted).astype(np.int64)

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        return (memory + (event == self.counted)) % 2

    def name(self, memory: int) -> str:
        return ["even", "odd"][memory]


def _problem(**observer) -> veil.Problem:
    generator = np.random.default_rng(5)
    model = veil.Model(
        generator.dirichlet(np.ones(2), size=(2, 2)), generator.random((2, 2)), generator.dirichlet(np.ones(2))
    )
    seen = veil.Observer(generator.dirichlet(np.ones(2), size=2), **observer)
    other = veil.Pair("other", veil.Observer(generator.dirichlet(np.ones(2), size=2)))
    return veil.Problem(model, seen, veil.LastState([0]), 2, agent_sees="state+observations", pairs=[other])


def _endless(problem: veil.Problem) -> veil.Problem:
    model = veil.Model(problem.model.transitions, problem.model.rewards, problem.model.initial, discount=0.8)
    return problem.replace(return_over="infinite", model=model)


def _bits(joint: dict) -> float:
    rows = [np.array(row) for row in joint.values()]
    return float(-sum((row[row > 0] * np.log2(row[row > 0] / row.sum())).sum() for row in rows))


@pytest.mark.parametrize(
    "observer", [{}, {"times": [0, 2], "silent": 0}, {"untimed": True, "silent": 0}, {"sees_initial": False}]
)
def test_a_memory_of_events_of_ones_own(observer: dict):
    problem, memory = _problem(**observer), Parity(1)
    names = veil.MemoryPolicy.row_names(problem, memory)
    theta = np.random.default_rng(2).normal(size=(len(names), 2))
    policy = veil.MemoryPolicy.softmax(theta, problem, memory)
    foe, horizon = problem.channel("other").observer, problem.horizon
    own_joint, other_joint = {}, {}
    for states in itertools.product(range(2), repeat=3):
        for seen in itertools.product(range(2), repeat=3):
            if observer.get("sees_initial") is False and seen[0]:
                continue  # nothing comes then: counted once
            for actions in itertools.product(range(2), repeat=2):
                chance, odd = problem.model.initial[states[0]], 0
                for time, state in enumerate(states):
                    if time or observer.get("sees_initial", True):
                        chance *= problem.observer.matrices_at(time, horizon)[0][state, seen[time]]
                        odd = (odd + seen[time]) % 2
                    if time < horizon and chance:
                        row = names.index(f"s{state} ({['even', 'odd'][odd]})")
                        chance *= policy.probabilities[row, actions[time]]
                        chance *= problem.model.transitions[state, actions[time], states[time + 1]]
                if not chance:
                    continue
                kept = tuple(one for one in seen if one) if observer.get("untimed") else seen
                own_joint.setdefault(kept, [0.0, 0.0])[states[-1] == 0] += chance
                for heard in itertools.product(range(2), repeat=3):
                    emitted = np.prod([foe.emissions[state, one] for state, one in zip(states, heard, strict=True)])
                    other_joint.setdefault(heard, [0.0, 0.0])[states[-1] == 0] += chance * emitted
    assert veil.opacity(problem, policy, "exact").bits == pytest.approx(_bits(own_joint), abs=1e-12)
    assert veil.opacity(problem, policy, "exact", pair="other").bits == pytest.approx(_bits(other_joint), abs=1e-12)


ENDLESS: list[dict] = [
    {},
    {"times": [0, 2], "silent": 0},
    {"times": "end", "silent": 0},
    {"times": [1], "silent": 0, "sees_actions": True},
    {"emissions_at": {1: [[0.3, 0.7], [0.9, 0.1]]}},
]


@looped("observer", ENDLESS)
def test_the_return_over_an_infinite_horizon(observer: dict):
    """Against 150 steps one by one: after the horizon everything is received as at its end."""
    problem = _endless(_problem(**observer))
    model, seen, horizon = problem.model, problem.observer, problem.horizon
    memory = veil.ObservationMemory(1, clock=False)
    names = veil.MemoryPolicy.row_names(problem, memory)
    theta = np.random.default_rng(2).normal(size=(len(names), 2))
    policy = veil.MemoryPolicy.softmax(theta, problem, memory)
    first = seen.matrices_at(0, horizon)[0]
    chances = {(s, f"o{o}"): model.initial[s] * first[s, o] for s in range(2) for o in range(2) if first[s, o]}
    total = 0.0
    for time in range(150):
        table, ahead = seen.matrices_at(min(time + 1, horizon), horizon)[0], {}
        for (s, event), chance in chances.items():
            for a, chosen in enumerate(policy.probabilities[names.index(f"s{s} (seen {event})")]):
                total += model.discount**time * chance * chosen * model.rewards[s, a]
                for n, o in itertools.product(range(2), repeat=2):
                    shown = (n, f"(a{a}, o{o})" if seen.sees_actions else f"o{o}")
                    if table[n, o]:
                        more = chance * chosen * model.transitions[s, a, n] * table[n, o]
                        ahead[shown] = ahead.get(shown, 0.0) + more
        chances = ahead
    assert veil.expected_return(problem, policy) == pytest.approx(total, abs=1e-11)


def test_a_register_that_reads_events_needs_a_memory_that_says_so():
    class Silent(Parity):
        needs_observations = False

    with pytest.raises(veil.InputError, match="reads events: set needs_observations on its class"):
        veil.MemoryPolicy.uniform(_problem(), Silent(1))


def test_the_player_takes_what_comes_at_each_time():
    """An observer that looks at times 0 and 2, who has no clock: the agent is told at every time."""
    problem = _problem(times=[0, 2], silent=0, untimed=True)  # T = 2
    policy = veil.MemoryPolicy.uniform(problem, veil.ObservationMemory(2))
    player = policy.player(problem)
    player.act("s0", 1)
    with pytest.raises(veil.InputError, match="observation 'o1' is impossible at time 1"):
        player.act("s1", "o1")
    with pytest.raises(veil.InputError, match="missing at time 1"):
        player.act("s1")
    player.act("s1", "o0")
    endless = _endless(problem)
    player = veil.MemoryPolicy.uniform(endless, veil.ObservationMemory(1, clock=False)).player(endless)
    player.act(0, 1)
    for time in range(1, 6):  # after the horizon everything is received as at its end
        player.act(0, int(time >= 2))
