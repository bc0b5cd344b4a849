"""Random problems small enough for the plain game, with thresholds that bind in most cases."""

import random

import numpy as np

import veil
from tests.random_problems import random_spec, to_problem
from veil.common.clock import Clock
from veil.engine.compile import build
from veil.game.bounds import Bounds
from veil.game.enclose import Enclosure
from veil.game.pairs import FullHistory, ObserverMemory, Pairs, make_pairs
from veil.game.responses import AgentProblem, Task


def agent_of(problem: veil.Problem, memory: ObserverMemory | None = None) -> AgentProblem:
    """The agent's decision problem against an observer with a memory, everything by default."""
    return AgentProblem(problem, make_pairs(build(problem), memory or FullHistory()))


def grown(
    problem: veil.Problem,
    *,
    threshold: float | None = None,
    gap: float = 0.05,
    nodes: int = 32,
    most_nodes: int = 4096,
    memory_bytes: int = 2**31,
    clock: Clock | None = None,
    windows: bool = True,
    task: Task = (),
) -> Bounds:
    """The bounds of memories that grow, though the whole memory may fit; without `windows` from the last event on."""
    search = Enclosure(
        problem, threshold=threshold, asked_gap=gap, nodes=nodes, most_nodes=most_nodes, memory_bytes=memory_bytes,
        clock=clock or Clock(), task=task,
    )  # fmt: skip
    return search.run(search.growing(windows=windows))


def binding_threshold(agent: AgentProblem, share: float) -> float:
    """A return between that of the uniform policy and the largest."""
    largest, even = agent.max_return_response()[0], agent.outcome(agent.uniform()).expected_return
    return even + share * (largest - even)


def small(seed: int, work: int = 3000, most_pairs: int = 20_000):
    """A random problem that the plain game can walk, its specification, and a threshold."""
    rng = random.Random(seed)
    while True:
        spec = random_spec(rng, work=work)
        problem = to_problem(spec, rng)
        agent = agent_of(problem)
        if agent.pairs.num_pairs <= most_pairs:
            break
    free = rng.random() < 0.2
    return spec, problem, None if free else binding_threshold(agent, rng.choice((0.3, 0.7, 0.95)))


def first_or_last(seed: int, kinds=("last", "initial", "automaton", "model")) -> tuple[veil.Problem, float]:
    """A small problem whose secret is settled at the first or last time, and a threshold."""
    rng = random.Random(seed)
    while True:
        problem = to_problem(random_spec(rng, kind=kinds[seed % len(kinds)], work=3000), rng)
        agent = agent_of(problem)
        if agent.pairs.num_pairs < 5000 and problem.horizon > 1:
            return problem, binding_threshold(agent, 0.7)


def labels(pairs: Pairs, remember) -> list[dict[tuple[int, ...], int]]:
    """For each layer the node of each remembered history, by walking the graph."""
    graph = pairs.graph
    layers = [{remember((e,)): int(n) for e, n in enumerate(graph.first) if n >= 0}]
    for table in graph.following:
        after = {}
        for history, node in layers[-1].items():
            for event in np.flatnonzero(table[node] >= 0):
                after[remember((*history, int(event)))] = int(table[node, event])
        layers.append(after)
    return layers
