"""Policies with memory by their definition: every run is enumerated, and what is remembered is read off its whole past."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

import veil
from tests.oracle import REWARD_UNIT, Spec, read
from tests.random_problems import random_spec, to_problem
from veil.policy.memories import Controller, Memory, Mixture, ObservationMemory, StateMemory, ZoneMemory
from veil.policy.memory import MemoryPolicy

MEMORIES = {
    "observation": ObservationMemory(1),
    "observation, no clock": ObservationMemory(1, clock=False),
    "two observations": ObservationMemory(2),
    "all observations": ObservationMemory(9, clock=False),
    "state": StateMemory(1),
    "two states": StateMemory(2, clock=False),
    "all states": StateMemory(9),
    "zones": ZoneMemory([["s0"]]),
    "two zones": ZoneMemory([[0, 1], ["s1"]], clock=False),
    "controller": Controller(2),
    "controller with a clock": Controller(3, clock=True),
    "one node": Controller(1),
    "mixture": Mixture(2),
    "mixture with a clock": Mixture(3, clock=True),
}


@dataclass(frozen=True)
class RememberingCase:
    """A random problem, in both forms, whose agent sees the observations."""

    spec: Spec
    problem: veil.Problem


def remembering_cases(count: int, kind: str, most_runs: int = 20_000, **fixed: bool) -> Iterator[RememberingCase]:
    """`count` random problems of a kind, with two states at least and few enough runs to list them all."""
    seed = 0
    while count:
        rng = random.Random(f"remembering {kind} {sorted(fixed.items())} {seed}")
        seed += 1
        spec = random_spec(rng, kind, work=400, **fixed)
        fan = spec.num_states * spec.num_actions * spec.num_observations
        if spec.num_states > 1 and spec.horizon > 0 and spec.num_states * fan**spec.horizon < most_runs:
            count -= 1
            yield RememberingCase(spec, to_problem(spec, rng).replace(agent_sees="state+observations"))


def random_policy(problem: veil.Problem, memory: Memory, seed: int = 0, *, sparse: bool = False) -> MemoryPolicy:
    """A policy with random rows; with `sparse`, some available actions are never taken."""
    generator = np.random.default_rng(seed)
    shape = MemoryPolicy.uniform(problem, memory).probabilities.shape
    theta = 2 * generator.normal(size=shape)
    if sparse:
        closed = generator.random(shape) < 0.3
        open_rows = (MemoryPolicy.uniform(problem, memory).probabilities > 0) & ~closed
        theta = np.where(closed & open_rows.any(axis=-1, keepdims=True), -np.inf, theta)
    return MemoryPolicy.softmax(theta, problem, memory)


@dataclass
class Runs:
    """What the runs of a problem under a policy add up to."""

    joint: dict[tuple, dict[int, float]] = field(default_factory=dict)
    expected_return: float = 0.0
    rows: set[str] = field(default_factory=set)

    @property
    def bits(self) -> float:
        """`H(Z|Y)`."""
        rows = [np.array(list(row.values())) for row in self.joint.values()]
        return float(sum(-(row * np.log2(row / row.sum())).sum() for row in rows))


class Enumerator:
    """All runs of a problem under a policy with memory, from the specification in integers."""

    def __init__(self, spec: Spec, problem: veil.Problem, policy: MemoryPolicy):
        self.spec, self.policy = spec, policy
        self.number = {name: row for row, name in enumerate(MemoryPolicy.row_names(problem, policy.memory))}
        self.nodes = getattr(policy.memory, "nodes", getattr(policy.memory, "tables", 0) + 1)
        self.found = Runs()

    def run(self) -> Runs:
        """List every run."""
        spec = self.spec
        for k, model in enumerate(spec.models):
            prior = spec.secret.weights[k] / spec.unit if spec.secret.kind == "model" else 1.0
            for s, weight in enumerate(model.initial):
                first = spec.emissions[s] if spec.sees_first else [spec.unit]
                for o, emission in enumerate(first):
                    chance = prior * weight * emission / spec.unit**2
                    if chance:
                        self.visit(k, (s,), (f"o{o}",) if spec.sees_first else (), 0, chance)
        return self.found

    def visit(self, k: int, states: tuple[int, ...], events: tuple, node: int, chance: float) -> None:
        """Go on from a run so far."""
        spec, found, time, s = self.spec, self.found, len(states) - 1, states[-1]
        name = self.row_name(k, states, events, node)
        found.rows.add(name)
        gain = float(spec.discount) ** time * chance / REWARD_UNIT
        if time == spec.horizon:
            found.expected_return += gain * spec.models[k].terminal[s]
            row = found.joint.setdefault(events, {})
            z = self.secret(k, states)
            row[z] = row.get(z, 0.0) + chance
            return
        choices = self.policy.table[time if self.policy.timed else 0, self.number[name]]
        for entry, choice in enumerate(choices.tolist()):
            a, following = divmod(entry, self.nodes)
            if choice == 0:
                continue
            found.expected_return += gain * choice * spec.models[k].rewards[s][a]
            for n, weight in enumerate(spec.models[k].transitions[s][a]):
                emissions = spec.emissions[a][n] if spec.on_actions else spec.emissions[n]
                for o, emission in enumerate(emissions if weight else ()):
                    if emission:
                        event = (f"a{a}", f"o{o}") if spec.sees_actions else f"o{o}"
                        ahead = chance * choice * weight * emission / spec.unit**2
                        self.visit(k, (*states, n), (*events, event), following, ahead)

    def row_name(self, k: int, states: tuple[int, ...], events: tuple, node: int) -> str:
        """The name of the row that the agent reads, from the whole past."""
        memory, spec = self.policy.memory, self.spec
        here = f"s{states[-1]}"
        if spec.secret.agent_knows:
            here = f"model {k}/{here}" if spec.secret.kind == "model" else f"q{self.automaton(states)}/{here}"
        if isinstance(memory, ObservationMemory):
            seen = [event if isinstance(event, str) else f"({event[0]}, {event[1]})" for event in events[-memory.k :]]
            return f"{here} (seen {', '.join(seen)})" if seen else f"{here} (nothing seen)"
        if isinstance(memory, StateMemory):
            past = [f"s{s}" for s in states[:-1][-memory.k :]]
            return f"{here} (coming from {', '.join(past)})" if past else f"{here} (at the start)"
        if isinstance(memory, ZoneMemory):
            been = set(states) | {f"s{s}" for s in states}
            zones = [str(number) for number, zone in enumerate(memory.members) if been & set(zone)]
            return f"{here} (visited zone {', '.join(zones)})" if zones else f"{here} (no zone visited)"
        if isinstance(memory, Mixture):
            return f"{here} (table {node})" if node else f"{here} (coin not tossed)"
        return f"{here} (node {node})"

    def automaton(self, states: tuple[int, ...]) -> int:
        """The state of the automaton after it has read the states."""
        q = 0
        for s in states:
            q = read(self.spec, q, s)
        return q

    def secret(self, k: int, states: tuple[int, ...]) -> int:
        """The value of the secret, by its definition."""
        secret = self.spec.secret
        if secret.kind == "model":
            return k
        if secret.kind == "automaton":
            return int(self.automaton(states) in secret.accepting)
        if secret.kind == "initial":
            if secret.groups is None:
                return self.spec.starts.index(states[0])
            return next(number for number, members in enumerate(secret.groups) if states[0] in members)
        return int(states[-1 if secret.kind == "last" else secret.time] in secret.states)
