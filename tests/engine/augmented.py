"""The paper's way to let the observer see actions: a larger model over `S ∪ (S × A)`, built by hand as an ordinary one.

The paper leaves open what a state of `S × A` is, so both readings are here. Arrivals: `s_0`, then pairs (s', a) of a state
and the action that led there, over the same horizon. Choices: states and pairs (s, a) of a state and the action just
taken in it, in turn, over twice the horizon.
"""

from dataclasses import replace

import numpy as np

import veil


def arrivals(problem: veil.Problem, table: np.ndarray) -> tuple[veil.Problem, np.ndarray, np.ndarray]:
    """The larger problem without `sees_actions`, its policy's table, and the state behind each of its states."""
    size, actions, seen = problem.num_states, problem.num_actions, problem.observer.num_observations
    base = np.tile(np.arange(size), actions + 1)  # state s, then (s', a) at place S + a·S + s'
    models = []
    for model in problem.models:
        transitions = np.zeros((len(base), actions, len(base)))
        for action in range(actions):
            arrived = slice((action + 1) * size, (action + 2) * size)
            transitions[:, action, arrived] = model.transitions[base, action]
        initial = np.concatenate([model.initial, np.zeros(size * actions)])
        available = model.available[base]
        models.append(veil.Model(transitions, np.zeros(available.shape), initial, available=available))
    emissions = np.zeros((len(base), seen * (actions + 1)))
    emissions[:size, :seen] = [1] + [0] * (seen - 1) if problem.observer.on_actions else problem.observer.emissions
    for action in range(actions):
        own = problem.observer.emissions[action] if problem.observer.on_actions else problem.observer.emissions
        emissions[(action + 1) * size : (action + 2) * size, (action + 1) * seen : (action + 2) * seen] = own
    observer = veil.Observer(emissions, sees_initial=problem.observer.sees_first)
    larger = _problem(models, observer, _secret(problem, base, len(base)), problem.horizon)
    return larger, _joined(_rows(table, size)[:, :, base]), base


def choices(problem: veil.Problem, table: np.ndarray, *, timed: bool) -> tuple[veil.Problem, np.ndarray]:
    """The problem of twice the horizon, and its policy's table; for emissions on states."""
    size, actions, seen = problem.num_states, problem.num_actions, problem.observer.num_observations
    total = size + size * actions  # state s, then (s, a) at place S + s·A + a
    models = []
    for model in problem.models:
        transitions = np.zeros((total, actions, total))
        for state in range(size):
            for action in range(actions):
                taken = size + state * actions + action
                possible = model.available[state, action]
                transitions[state, action, taken] = possible
                transitions[taken, :, :size] = model.transitions[state, action] if possible else np.eye(size)[state]
        available = np.concatenate([model.available, np.ones((size * actions, actions), dtype=bool)])
        initial = np.concatenate([model.initial, np.zeros(size * actions)])
        models.append(veil.Model(transitions, np.zeros(available.shape), initial, available=available))
    emissions = np.zeros((total, seen + actions))
    emissions[:size, :seen] = problem.observer.emissions
    emissions[size:, seen:] = np.tile(np.eye(actions), (size, 1))
    observer = veil.Observer(emissions, sees_initial=problem.observer.sees_initial)
    larger = _problem(models, observer, _secret(problem, np.arange(size), total, steps=2), 2 * problem.horizon)
    known = _rows(table, size)
    idle = np.zeros((len(table), known.shape[1], size * actions, actions))
    idle[..., 0] = 1.0  # once an action is taken, what is "chosen" next does not matter
    doubled = _joined(np.concatenate([known, idle], axis=2))
    return larger, np.repeat(doubled, 2, axis=0) if timed else doubled


def _rows(table: np.ndarray, size: int) -> np.ndarray:
    """`(T, what the agent knows, S, A)`."""
    return table.reshape(len(table), table.shape[1] // size, size, table.shape[2])


def _joined(rows: np.ndarray) -> np.ndarray:
    """`(T, C, A)` again."""
    steps, known, states, actions = rows.shape
    return rows.reshape(steps, known * states, actions)


def _problem(models: list[veil.Model], observer: veil.Observer, secret, horizon: int) -> veil.Problem:
    return veil.Problem(models if len(models) > 1 else models[0], observer, secret, horizon)


def _secret(problem: veil.Problem, base: np.ndarray, total: int, steps: int = 1):
    """The same secret of the state behind; `base` covers the first states, the rest are passed through."""
    secret, names = problem.secret, problem.model.states
    if isinstance(secret, (veil.LastState, veil.StateAt)):
        assert secret.states is not None
        wanted = {names.find(state) for state in secret.states}
        members = [x for x, state in enumerate(base.tolist()) if state in wanted]
        return (
            veil.LastState(members)
            if isinstance(secret, veil.LastState)
            else veil.StateAt(secret.time * steps, members)
        )
    if isinstance(secret, veil.Automaton):
        letters = {names.find(state): letter for state, letter in secret.labels.items()}
        labels: dict[str | int, str] = {x: letters[state] for x, state in enumerate(base.tolist())}
        labels |= dict.fromkeys(range(len(base), total), "passing")
        states = {q for q, _ in secret.transitions}
        passing = {(q, "passing"): q for q in states} if len(base) < total else {}
        return replace(secret, transitions={**secret.transitions, **passing}, labels=labels)
    return secret
