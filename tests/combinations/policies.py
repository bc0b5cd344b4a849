"""Policies: random ones of every kind, and a plain reading of any policy that veil returns."""

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import veil
from veil.policy.history import Decisions
from veil.policy.recall import recall
from veil.problem.apart import apart

from .cases import Case
from .questions import Known, register_content
from .runs import Choose, Event, Path, Watcher, all_runs, log2

Seen = tuple[tuple[Event, ...], ...]
STEP = 1e-30
"""The size of an imaginary step: it is squared nowhere, so that it may be far below rounding."""


@dataclass(frozen=True, eq=False)
class Acting:
    """A policy in both forms: `choose` reads the events of `reads`, the names of channels, in this order.

    `theta`: the logits and the memory of a softmax policy, else None.
    """

    policy: Any
    choose: Choose
    reads: tuple[str, ...] = ()
    theta: np.ndarray | None = None
    memory: Any = None
    along: Callable[[np.ndarray], Choose] | None = None  # the policy whose logits move by an imaginary step

    def watchers(self, case: Case, channel: str) -> tuple[tuple[Watcher, ...], int]:
        """The watchers that runs must keep for this policy and a channel, and the place of the channel's own."""
        found = [case.watcher(name) for name in self.reads]
        wanted = case.channels[channel].watcher
        for place, one in enumerate(found):
            if one is wanted:
                return tuple(found), place
        return (*found, wanted), len(found)


def memory_of(case: Case) -> Any:
    """The memory of the case's policy, as `veil.solve` takes it."""
    match case.features["memory"]:
        case "markov" | "features":
            return "markov"
        case "timed" | "history" as name:
            return name
        case "states":
            return veil.StateMemory(1)
        case "states, no clock":
            return veil.StateMemory(1, clock=False)
        case "observations":
            return veil.ObservationMemory(1)
        case "observations, no clock":
            return veil.ObservationMemory(2, clock=False)
        case "zones":
            return veil.ZoneMemory([[0], [len(case.world.states) - 1]])
        case "controller":
            return veil.Controller(2)
        case "mixture, clock":
            return veil.Mixture(2, clock=True)
        case _:
            return veil.Controller(2, clock=True)


def larger_memory(case: Case) -> Any:
    """A memory that tells all that the policy of a case depends on, and more; None for a history policy."""
    match memory_of(case):
        case "history":
            return None
        case veil.StateMemory() | veil.ObservationMemory() as memory:
            return type(memory)(memory.k + 1)
        case veil.ZoneMemory() as memory:
            return veil.ZoneMemory([*memory.zones, [0, 1]])
        case veil.Controller(nodes=nodes, clock=clock):
            return veil.Controller(nodes + 1, clock=clock)
        case veil.Mixture(tables=tables):
            return veil.Mixture(tables + 1, clock=True)
        case _:
            blind = not case.problem.agent.sees_state
            return veil.Controller(2, clock=True) if blind else veil.StateMemory(1)


def random_acting(case: Case) -> Acting:
    """A random policy of the case's kind; raises `VeilError` if veil refuses it."""
    generator = np.random.default_rng(case.seed)
    problem, memory = case.problem, memory_of(case)
    if case.features["memory"] == "features":
        features = np.eye(problem.num_states) + generator.normal(size=(problem.num_states, problem.num_states)) / 4
        first = veil.FeaturePolicy.initial(problem, features, hidden=0, waves=0)
        weights = [generator.normal(size=one.shape) for one in first.weights]
        policy = veil.FeaturePolicy(features, weights, problem.model.actions.all())
        theta = np.log(np.maximum(policy.on(problem).probabilities, 1e-300))
        return _softmax_acting(case, policy, "markov", theta)
    if memory == "history":
        return _random_history(case, generator)
    rows = memory if not isinstance(memory, str) else None
    shape = _shape(case, memory)
    theta = generator.normal(size=shape) * 1.5
    if rows is not None:
        policy = veil.MemoryPolicy.softmax(theta, problem, rows)
    else:
        policy = (veil.TimedPolicy if memory == "timed" else veil.MarkovPolicy).softmax(theta, problem)
    return _softmax_acting(case, policy, memory, theta)


def _softmax_acting(case: Case, policy: Any, memory: Any, theta: np.ndarray) -> Acting:
    reading = _Rows(case, memory)

    def along(direction: np.ndarray) -> Choose:
        return reading.choose(_softmax(theta + 1j * STEP * direction, reading.available()))

    own = _softmax(theta, reading.available())
    return Acting(policy, reading.choose(own), reading.reads, theta, None if isinstance(memory, str) else memory, along)


def _shape(case: Case, memory: Any) -> tuple[int, ...]:
    problem = case.problem
    if not isinstance(memory, str):
        return veil.MemoryPolicy.uniform(problem, memory).probabilities.shape
    rows = (problem.num_cells, problem.num_actions)
    return (problem.horizon, *rows) if memory == "timed" else rows


def _softmax(theta: np.ndarray, available: list[list[bool]]) -> list[list[list[Any]]]:
    """`exp θ` over the available entries of each row, in plain numbers: `[time][row][entry]`."""
    tables = theta if theta.ndim == 3 else theta[None]
    found = []
    for table in tables.tolist():
        rows = []
        for row, mask in zip(table, available, strict=True):
            powers = [
                (cmath.exp(x) if isinstance(x, complex) else math.exp(x)) if ok else 0.0
                for x, ok in zip(row, mask, strict=True)
            ]
            total = sum(powers)
            rows.append([power / total for power in powers])
        found.append(rows)
    return found


def _known(case: Case) -> list[Known]:
    """What the agent knows, in the order of names: the model, then every register once, those of secrets first."""
    asked = [one.question for one in case.channels.values()]
    models = [one.known for one in asked if one.which_model and one.known is not None][:1]
    secrets = [one for one in asked if not one.which_model]
    registers = [(one.secret, one.known) for one in (*secrets, *case.bounds) if one.known is not None]
    found, known = list[bytes](), list[Known]()
    for secret, name in registers:
        content = register_content(secret, len(case.base.states), case.horizon)
        if content not in found:
            found.append(content)
            known.append(name)
    return [*models, *known]


class _Rows:
    """What the rows of a table stand for, by their names: what the agent knows, the state, what it remembers."""

    def __init__(self, case: Case, memory: Any):
        self.case, self.memory = case, memory
        self.nodes = memory.nodes if isinstance(memory, veil.Controller) else 1
        self.nodes = memory.tables + 1 if isinstance(memory, veil.Mixture) else self.nodes
        self.reads = (case.reads,) if isinstance(memory, veil.ObservationMemory) or case.is_blind else ()
        problem = case.problem
        names = problem.cell_names if isinstance(memory, str) else veil.MemoryPolicy.row_names(problem, memory)
        self.names = names
        self.place = {name: place for place, name in enumerate(names)}
        self.known = _known(case)

    def available(self) -> list[list[bool]]:
        """Which entries of each row can be taken: by the state that the row's name ends with."""
        world = self.case.world
        if self.case.is_blind:  # a policy that takes what is not available loses runs, which every comparison shows
            problem = self.case.problem
            rows = problem if isinstance(self.memory, str) else recall(problem, self.memory)
            return rows.available.tolist()
        by_state = dict(zip(world.states, world.available, strict=True))
        found = []
        for name in self.names:
            plain = name if isinstance(self.memory, str) else name[: name.index(" (")]
            state = next(s for s in by_state if plain == s or plain.endswith("/" + s))
            found.append([ok and self._may_choose(name, node) for ok in by_state[state] for node in range(self.nodes)])
        return found

    def _may_choose(self, name: str, node: int) -> bool:
        """Whether a row may choose a node: the table of a coin stays once it is chosen."""
        if not isinstance(self.memory, veil.Mixture):
            return True
        return node > 0 if "coin not tossed" in name else f"(table {node})" in name

    def name(self, time: int, k: int, path: Path, node: int, seen: Seen) -> str:
        """The name of the row of a part of a run."""
        world = self.case.world
        base = tuple(world.base[s] for s in path)
        last = self._reading(time, seen[0]) if self.case.is_blind else world.states[path[-1]]
        cell = "/".join([*(one(k, base) for one in self.known), last])
        return cell if isinstance(self.memory, str) else f"{cell} ({self._text(time, path, node, seen)})"

    def _text(self, time: int, path: Path, node: int, seen: Seen) -> str:
        memory, world = self.memory, self.case.world
        if isinstance(memory, veil.Controller):
            return f"node {node}"
        if isinstance(memory, veil.Mixture):
            return f"table {node}" if node else "coin not tossed"
        if isinstance(memory, veil.StateMemory):
            past = [world.states[s] for s in path[:-1][-memory.k :]]
            return f"coming from {', '.join(past)}" if past else "at the start"
        if isinstance(memory, veil.ZoneMemory):
            visited = [str(n) for n, zone in enumerate(memory.members) if set(zone) & set(path)]
            return f"visited zone {', '.join(visited)}" if visited else "no zone visited"
        return self._events(time, seen[0])

    def _reading(self, time: int, events: tuple[Event, ...]) -> str:
        """The newest reading."""
        if events[time] is None:
            return "nothing yet"
        written = self.case.watcher(self.case.reads).written(events[time], self.case.world.actions, time)
        return written if isinstance(written, str) else f"({written[0]}, {written[1]})"

    def _events(self, time: int, events: tuple[Event, ...]) -> str:
        watcher = self.case.watcher(self.case.reads)
        received = [(t, event) for t, event in enumerate(events) if event is not None][-self.memory.k :]
        names = []
        for t, event in received:
            written = watcher.written(event, self.case.world.actions, t)
            names.append(written if isinstance(written, str) else f"({written[0]}, {written[1]})")
        return f"seen {', '.join(names)}" if names else "nothing seen"

    def choose(self, tables: list[list[list[Any]]]) -> Choose:
        """The policy of a table `[time or 0][row][entry]`."""
        nodes, timed = self.nodes, len(tables) > 1

        def chosen(time: int, k: int, path: Path, node: int, seen: Seen) -> list[tuple[int, int, Any]]:
            row = tables[time if timed else 0][self.place[self.name(time, k, path, node, seen)]]
            return [(entry // nodes, entry % nodes, p) for entry, p in enumerate(row)]

        return chosen


def read(case: Case, policy: Any) -> Acting:
    """A plain reading of any policy of veil, by its tables."""
    if isinstance(policy, veil.HistoryPolicy):
        return _read_history(case, policy)
    plain = policy.on(case.problem)
    reading = _Rows(case, plain.memory)
    tables = plain.table.tolist()
    if plain.timed and len(tables) == 1:  # of a horizon of one decision
        tables = tables * 2
    return Acting(policy, reading.choose(tables), reading.reads)


class _Situations:
    """How history policies number what the agent is in: by the memory of the secret's table, read step by step."""

    def __init__(self, case: Case, table: Any = None):
        self.case, self.table = case, case.problem.secret_table if table is None else table

    def of(self, k: int, path: Path) -> tuple[int, int]:
        """The number of a situation, and the value of the secret, -1 while it is open."""
        table, states = self.table, len(self.case.world.states)
        memory, value = int(table.memory_start[path[0]]), -1
        for time, s in enumerate(path):
            if time:
                memory = int(table.memory_step[memory, s])
            if time == table.time:
                value = int(table.label[k if len(table.label) > 1 else 0, memory, s])
        return (k * len(table.memory_names) + memory) * states + path[-1], value


def _number(case: Case, channel: str, event: Event, time: int) -> int:
    """The number of an event for a history policy; nothing received is event 0."""
    if event is None:
        return 0
    watcher = case.channels[channel].watcher
    problem = case.problem if channel == "own" else case.problem.only(channel)
    if watcher.sees_actions and time > 0:
        action, o = event
        return action * problem.observer.num_observations + problem.observer.find(watcher.name(o))
    return problem.observer.find(watcher.name(event))


def _random_history(case: Case, generator: np.random.Generator) -> Acting:
    """A policy on all histories: a node for each, random rows for all that can be reached."""
    watcher, world, situations = case.channels["own"].watcher, case.world, _Situations(case)
    observer = case.problem.observer
    num_events = observer.num_observations * (len(world.actions) if watcher.sees_actions else 1)
    reached: list[set] = [set() for _ in range(case.horizon)]
    rows: dict[tuple, list[float]] = {}

    def spread(time: int, k: int, path: Path, node: int, seen: Seen) -> list[tuple[int, int, float]]:
        reached[time].add((seen[0], *situations.of(k, path), path[-1]))
        return [(a, 0, 1.0) for a, ok in enumerate(world.available[path[-1]]) if ok]

    all_runs(world, spread, (watcher,))
    nodes = [{y: n for n, y in enumerate(sorted({one[0] for one in layer}, key=repr))} for layer in reached]
    first = np.full(observer.num_observations if observer.sees_first else 1, -1)
    following, decisions = [], []
    for time, layer in enumerate(reached):
        if time == 0:
            for y, node in nodes[0].items():
                first[_number(case, "own", y[0], 0)] = node
        graph = np.full((len(nodes[time]), num_events), -1)
        for y, node in nodes[time + 1].items() if time + 1 < case.horizon else ():
            graph[nodes[time][y[:-1]], _number(case, "own", y[-1], time + 1)] = node
        following.append(graph)
        keys = sorted({(nodes[time][y], situation, value): s for y, situation, value, s in layer}.items())
        for (node, situation, value), s in keys:
            powers = [math.exp(generator.normal()) if ok else 0.0 for ok in world.available[s]]
            rows[time, node, situation, value] = [power / sum(powers) for power in powers]
        key = np.array([one for one, _ in keys])
        table = np.array([rows[time, *map(int, one)] for one in key])
        decisions.append(Decisions(key[:, 0].copy(), key[:, 1].copy(), key[:, 2].copy(), table))
    if case.horizon:  # the last graph leads to no decision: any node will do
        following[-1] = np.zeros_like(following[-1])
    policy = veil.HistoryPolicy(first, following, decisions)
    policy.check(case.problem)

    def choose(time: int, k: int, path: Path, node: int, seen: Seen) -> list[tuple[int, int, float]]:
        row = rows[time, nodes[time][seen[0]], *situations.of(k, path)]
        return [(a, 0, p) for a, p in enumerate(row)]

    return Acting(policy, choose, ("own",))


def _read_history(case: Case, policy: Any) -> Acting:
    """A history policy by its graph and its rows; with several views, what each channel's observer receives."""
    reads = tuple(policy.sees)
    situations = _Situations(case, apart(case.problem, reads).joint.secret_table if policy.views else None)
    leads = policy.first >= 0, np.any([table.max(axis=0) >= 0 for table in policy.following], axis=0)

    # Channels with the same observer receive one sequence of observations.
    watchers = [case.channels[name].watcher for name in reads]
    kept = [name for place, name in enumerate(reads) if watchers.index(watchers[place]) == place]
    places = [kept.index(reads[watchers.index(watcher)]) for watcher in watchers]

    def event(time: int, seen: Seen) -> int:
        numbers = [_number(case, name, seen[place][time], time) for name, place in zip(reads, places, strict=True)]
        if not policy.views:
            return numbers[0]
        views = [policy.views[name][time > 0] for name in reads]
        for number, known in enumerate(zip(*(one.tolist() for one in views), strict=True)):
            if list(known) == numbers and leads[time > 0][number]:
                return number
        return -1

    def choose(time: int, k: int, path: Path, node: int, seen: Seen) -> list[tuple[int, int, float]]:
        place = -1
        for t in range(time + 1):
            number = event(t, seen)
            place = int(policy.following[t - 1][place, number] if t else policy.first[number])
            situation, value = situations.of(k, path[: t + 1])
            if policy.told is not None and t == policy.told_at:
                place = int(policy.told[place, situation])
        situation, value = situations.of(k, path)
        row = policy.decisions[time].find(place, situation, value)
        return [(a, 0, p) for a, p in enumerate(policy.decisions[time].probabilities[row].tolist())]

    return Acting(policy, choose, tuple(kept))


__all__ = ["STEP", "Acting", "log2", "memory_of", "random_acting", "read"]
