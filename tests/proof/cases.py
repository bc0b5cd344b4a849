"""Random problems with a threshold, and policies of every kind for them."""

import random
from dataclasses import replace

import numpy as np

import veil
from tests.game.cases import small
from tests.random_problems import random_spec, to_problem
from veil.engine.compile import build
from veil.engine.feasibility import best_mixture
from veil.engine.moves import situations
from veil.game.delayed import delayed_pairs
from veil.game.pairs import FullHistory, TailEvents, make_pairs
from veil.game.solve import solve_game
from veil.policy.history import Decisions, HistoryPolicy
from veil.policy.recall import recall

KINDS = ("markov", "timed", "states", "zones", "controller", "mixture", "observations", "history", "told")


def seeing(problem: veil.Problem) -> veil.Problem:
    return problem.replace(agent_sees="state+observations")


def random_problem(seed: int, work: int = 1500, most_pairs: int = 5000) -> veil.Problem:
    """A problem whose agent sees the observations, with a threshold that binds in most cases."""
    _, problem, threshold = small(seed, work=work, most_pairs=most_pairs)
    return seeing(problem).replace(min_return=threshold)


def tiny_problem(seed: int) -> veil.Problem:
    """A problem of few steps, small enough for fractions."""
    rng = random.Random(seed)
    while True:
        problem = to_problem(random_spec(rng, work=150), rng)
        if problem.horizon <= 3:
            return seeing(problem)


def with_path(problem: veil.Problem, seed: int) -> veil.Problem:
    """The problem with the whole path of states as its secret, or for odd seeds that of two groups of them."""
    group = random.Random(seed).randrange(1, 2 ** max(1, problem.num_states - 1))
    states = [state for state in range(problem.num_states) if group >> state & 1]
    return problem.replace(secret=veil.Trajectory({"group": states} if seed % 2 else None))


def noisy_problem(seed: int, steps: tuple[int, int] = (2, 3)) -> veil.Problem:
    """A problem with noisy observations of three states: seeing the current one is worth something in a third of them."""
    rng = np.random.default_rng(seed)
    transitions, rewards = rng.dirichlet(np.full(3, 0.4), size=(3, 2)), rng.random((3, 2))
    model = veil.Model(transitions, rewards, rng.dirichlet(np.ones(3)))
    observer = veil.Observer(rng.dirichlet(np.full(2, 0.7), size=3), sees_initial=bool(seed % 3))
    secret = veil.LastState({0}) if seed % 2 else veil.InitialState()
    problem = veil.Problem(model, observer, secret, int(rng.integers(steps[0], steps[1] + 1)))
    return problem.replace(min_return=0.6 * veil.max_return(problem)) if seed % 4 == 0 else problem


def delayed_policy(problem: veil.Problem, gap: float = 1e-3, iterations: int = 60) -> HistoryPolicy:
    """The best history policy found whose choice does not depend on the current observation."""
    whole = make_pairs(build(problem), FullHistory())
    late = delayed_pairs(whole)
    game, graph = solve_game(problem, pairs=late, gap=gap, iterations=iterations), whole.graph
    decisions = []
    for time, (layer, before, table) in enumerate(zip(whole.layers, late.layers, game.tables, strict=False)):
        parent = np.zeros(graph.sizes[time], dtype=int)
        if time:
            node, event = np.nonzero(graph.following[time - 1] >= 0)
            parent[graph.following[time - 1][node, event]] = node
        keys = list(zip(before.node.tolist(), before.x.tolist(), before.z.tolist(), strict=True))
        place = [
            keys.index(key) for key in zip(parent[layer.node].tolist(), layer.x.tolist(), layer.z.tolist(), strict=True)
        ]
        rows = np.ascontiguousarray(table[:, place].T)
        decisions.append(Decisions(layer.node, situations(problem, whole.hidden)[layer.x], layer.z, rows))
    return HistoryPolicy(graph.first, graph.following, decisions, executable=game.executable)


def constrained(problem: veil.Problem, seed: int) -> veil.Problem:
    """The problem with one or two further constraints that can be met together with its threshold, if such are found."""
    rng, table = random.Random(seed), problem.secret_table
    knows = table.agent_knows and (len(problem.models) > 1 or len(table.memory_names) > 1)
    for _ in range(8):
        state = rng.randrange(problem.num_states)
        limits = [
            veil.Return(max=f"{rng.randrange(50, 100)}%"),
            veil.Probability(
                f"{rng.choice('GF')} here", f"{rng.randrange(50)}%", labels={"here": [state]}, agent_knows=knows
            ),
        ]
        made = problem.replace(constraints=rng.sample(limits, rng.choice((1, 2))))
        if best_mixture(made).slack.min() > 1e-3:
            return made
    return problem


def table(rng: np.random.Generator, mask: np.ndarray, times: int | None) -> np.ndarray:
    shape = mask.shape if times is None else (times, *mask.shape)
    weights = rng.gamma(0.4, size=shape) * (rng.random(shape) < 0.8) * mask
    weights = np.where(weights.sum(axis=-1, keepdims=True) > 0, weights, mask)
    return weights / weights.sum(axis=-1, keepdims=True)


def random_policy(problem: veil.Problem, kind: str, seed: int) -> veil.Policy:
    """A policy of a kind, stationary where there are no decisions to tell apart."""
    rng = np.random.default_rng(seed)
    if kind in ("history", "told"):
        return random_history(problem, rng, told=kind == "told")
    if kind in ("markov", "timed"):
        made = table(rng, problem.available, None if kind == "markov" else problem.horizon)
        return veil.MarkovPolicy(made) if kind == "markov" else veil.TimedPolicy(made)
    clock = bool(rng.random() < 0.5) and problem.horizon > 0
    memory = {
        "states": veil.StateMemory(int(rng.integers(1, 3)), clock),
        "zones": veil.ZoneMemory([[0], [problem.num_states - 1]], clock),
        "controller": veil.Controller(2, clock),
        "mixture": veil.Mixture(2, clock),
        "observations": veil.ObservationMemory(int(rng.integers(1, 3)), clock),
    }[kind]
    rows = recall(problem, memory)
    return veil.MemoryPolicy(memory, table(rng, rows.available, problem.horizon if clock else None))


def random_history(problem: veil.Problem, rng: np.random.Generator, *, told: bool) -> HistoryPolicy:
    """A history policy, drawn at random: the whole of it, or what came after a time and where the agent was then."""
    time = int(rng.integers(0, problem.horizon + 1))
    pairs = make_pairs(build(problem), TailEvents(time) if told else FullHistory(), told_at=time if told else None)
    found = solve_game(problem.replace(min_return=None), iterations=1, gap=1e9, pairs=pairs).policy()
    decisions = [
        replace(rows, probabilities=table(rng, problem.model.available[rows.situation % problem.num_states], None))
        for rows in found.decisions
    ]
    return HistoryPolicy(
        found.first, found.following, decisions, executable=found.executable, told_at=found.told_at, told=found.told
    )
