"""The oracle for secrets that are whole paths: every run and every observation sequence, one by one, in plain loops."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

import veil

Choice = Callable[[Sequence[int], Sequence[object]], np.ndarray]
"""The action probabilities after the states so far and the events so far."""


def all_runs(problem: veil.Problem, choice: Choice) -> dict[tuple[tuple[int, ...], tuple[object, ...]], float]:
    """`P(s_0 … s_T, y)` of every pair that is possible."""
    model, observer = problem.model, problem.observer
    transitions = [matrix.toarray() for matrix in model.matrices]
    emissions = observer.emissions if observer.on_actions else np.stack([observer.emissions] * problem.num_actions)
    found: dict[tuple[tuple[int, ...], tuple[object, ...]], float] = {}
    for state in np.flatnonzero(model.initial):
        seen = enumerate(emissions[0][state]) if observer.sees_first else [(-1, 1.0)]
        for observation, chance in seen:
            if chance > 0:
                found[(int(state),), (observation,)] = model.initial[state] * chance
    for _ in range(problem.horizon):
        longer: dict[tuple[tuple[int, ...], tuple[object, ...]], float] = defaultdict(float)
        for (path, seen), weight in found.items():
            for action, taken in enumerate(choice(path, seen)):
                for target in np.flatnonzero(transitions[action][path[-1]]) if taken > 0 else ():
                    for observation, chance in enumerate(emissions[action][target]):
                        if chance > 0:
                            event = (action, observation) if observer.sees_actions else observation
                            chance = weight * taken * transitions[action][path[-1], target] * chance
                            longer[(*path, int(target)), (*seen, event)] += chance
        found = longer
    return found


def entropy(weights: Sequence[float]) -> float:
    """`−Σ p log2 p`."""
    return -math.fsum(weight * math.log2(weight) for weight in weights if weight > 0)


def merged(runs: dict, key: Callable) -> list[float]:
    """The probabilities of a function of (path, events)."""
    found: dict[object, list[float]] = defaultdict(list)
    for run, weight in runs.items():
        found[key(*run)].append(weight)
    return [math.fsum(weights) for weights in found.values()]


def hidden_bits(runs: dict, group: Sequence[int] | np.ndarray | None = None) -> float:
    """`H(g(s_0) … g(s_T) | Y)` from all runs."""

    def shown(path: tuple[int, ...]) -> tuple[int, ...]:
        return path if group is None else tuple(group[state] for state in path)

    return entropy(merged(runs, lambda path, seen: (shown(path), seen))) - entropy(merged(runs, lambda _, seen: seen))
