"""Random small problems, seeded: the exact integer form that the oracle reads, and the same thing as veil's objects.

Sizes are drawn up to S = 6, O = 4, T = 6, A = 3 and then shrunk until a bound on the oracle's work holds, so that the
average call of the oracle takes about 15 ms while the largest sizes still occur.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

import veil
from tests.oracle import REWARD_UNIT, ModelSpec, SecretSpec, Spec

KINDS = ("last", "at", "initial", "automaton", "model")
# Awkward denominators round in float64, powers of two do not; the large one allows for rare events.
_UNITS = (12, 60, 64, 97, 1000, 1_000_003)
_LETTERS = ("plain", "marked", "rare")


@dataclass(frozen=True)
class Case:
    """One random problem in both forms."""

    spec: Spec
    problem: veil.Problem
    policy: veil.MarkovPolicy | veil.TimedPolicy


def random_case(seed: int) -> Case:
    """The problem and policy of a seed."""
    rng = random.Random(seed)
    spec = random_spec(rng)
    problem = to_problem(spec, rng)
    return Case(spec, problem, to_policy(spec, problem))


def random_spec(
    rng: random.Random,
    kind: str | None = None,
    *,
    work: int | None = None,
    timed: bool | None = None,
    sees_actions: bool | None = None,
    on_actions: bool | None = None,
) -> Spec:
    """A random problem with a policy, in integers; arguments that are given fix what is otherwise drawn.

    `work` bounds the number of steps of the oracle; by default it is small, and large in one case of forty.
    """
    kind = kind or rng.choice(KINDS)
    sees_actions = rng.random() < 0.25 if sees_actions is None else sees_actions
    on_actions = rng.random() < 0.25 if on_actions is None else on_actions
    timed = rng.random() < 0.5 if timed is None else timed
    work = work or (1_000_000 if rng.random() < 0.02 else 250_000)
    states, actions, observations, horizon, sparsity = _sizes(rng, kind, sees_actions, work)
    unit = rng.choice(_UNITS)
    available = [_mask(rng, actions) for _ in range(states)] if rng.random() < 0.4 else [[True] * actions] * states
    count = rng.choice((2, 2, 3)) if kind == "model" else 1
    models = tuple(_model(rng, unit, available, sparsity) for _ in range(count))
    silent = observations > 1 and rng.random() < 0.25  # the last observation is then never emitted
    secret = _secret(rng, kind, unit, states, horizon, models)
    known = {"automaton": len(secret.step), "model": count}.get(kind, 1) if secret.agent_knows else 1
    return Spec(
        unit=unit,
        models=models,
        available=available,
        discount=rng.choice((Fraction(1), Fraction(1), Fraction(9, 10), Fraction(1, 3), Fraction(0))),
        emissions=_emissions(rng, unit, actions if on_actions else 0, states, observations, silent, sparsity),
        on_actions=on_actions,
        sees_actions=sees_actions,
        sees_initial=rng.random() < 0.6,
        secret=secret,
        horizon=horizon,
        policy=[
            [_spread(rng, unit, [a for a in range(actions) if available[c % states][a]], actions, rng.random() ** 2)
             for c in range(known * states)]
            for _ in range(horizon if timed else 1)
        ],
        timed=timed,
    )  # fmt: skip


def _sizes(rng: random.Random, kind: str, sees_actions: bool, work: int) -> tuple[int, int, int, int, float]:
    """S, A, O, T and the chance that an entry is zero, shrunk until the tree of all histories is small enough."""
    # One of anything makes a dull problem: rare, but it must occur.
    states = rng.choice((1, *range(2, 7), *range(2, 7), *range(3, 7)))
    actions = rng.choice((1, 2, 2, 3, 3))
    observations = rng.choice((1, *[2, 3, 3, 4] * 3))
    horizon = rng.choice((0, 1, 2, 3, 4, 5, 6, 6))
    sparsity = rng.choice((0.0, 0.2, 0.3, 0.5, 0.7))
    hidden = states * (2 if kind in ("automaton", "model", "initial", "at") else 1)
    while True:
        alphabet = observations * (actions if sees_actions else 1)
        # What the zeros prune is a guess, a mild one, so that sparse problems may be larger.
        branching = max(1.0, alphabet * (1 - 0.35 * sparsity))
        degree = max(1.0, states * (1 - 0.7 * sparsity))
        if branching**horizon * hidden * degree <= work:
            return states, actions, observations, horizon, sparsity
        shrink = rng.randrange(4)
        if shrink == 0 and states > 2:
            states, hidden = states - 1, hidden * (states - 1) // states
        elif shrink == 1 and observations > 2:
            observations -= 1
        elif shrink == 2 and actions > 2:
            actions -= 1
        elif shrink == 3 and horizon > 2:
            horizon -= 1
        elif (states, actions, observations, horizon) <= (2, 2, 2, 2):
            return states, actions, observations, horizon, sparsity


def _spread(rng: random.Random, unit: int, support: list[int], size: int, sparsity: float) -> list[int]:
    """A random distribution over `support`, as numerators over `unit`; each place is dropped with chance `sparsity`."""
    chosen = [place for place in support if rng.random() >= sparsity] or [rng.choice(support)]
    row = [0] * size
    if len(chosen) == 1:
        cuts = []
    elif rng.random() < 0.15:  # all but one as rare as the unit allows
        cuts = list(range(1, len(chosen)))
    else:
        cuts = sorted(rng.sample(range(1, unit), len(chosen) - 1))
    rng.shuffle(chosen)
    for place, low, high in zip(chosen, [0, *cuts], [*cuts, unit], strict=True):
        row[place] = high - low
    return row


def _mask(rng: random.Random, actions: int) -> list[bool]:
    mask = [rng.random() < 0.6 for _ in range(actions)]
    mask[rng.randrange(actions)] = True
    return mask


def _model(rng: random.Random, unit: int, available: list[list[bool]], sparsity: float) -> ModelSpec:
    states = len(available)
    everywhere = list(range(states))
    transitions = []
    for s, mask in enumerate(available):
        absorbing = rng.random() < 0.1
        rows = [_spread(rng, unit, [s] if absorbing else everywhere, states, sparsity) for _ in mask]
        transitions.append([row if allowed else [0] * states for row, allowed in zip(rows, mask, strict=True)])
    return ModelSpec(
        transitions=transitions,
        initial=_spread(rng, unit, everywhere, states, rng.choice((0.0, 0.0, 0.2, 0.3, 0.5, 1.0))),
        rewards=[[rng.randint(-10, 10) if allowed else 0 for allowed in mask] for mask in available],
        terminal=[rng.randint(-10, 10) for _ in everywhere] if rng.random() < 0.4 else [0] * states,
    )


def _emissions(
    rng: random.Random, unit: int, actions: int, states: int, observations: int, silent: bool, sparsity: float
) -> list:
    support = list(range(observations - silent))

    def table() -> list[list[int]]:
        return [_spread(rng, unit, support, observations, sparsity) for _ in range(states)]

    return [table() for _ in range(actions)] if actions else table()


def _secret(
    rng: random.Random, kind: str, unit: int, states: int, horizon: int, models: tuple[ModelSpec, ...]
) -> SecretSpec:
    some = frozenset(rng.sample(range(states), rng.randint(1, max(1, states - 1))))
    if kind == "last":
        return SecretSpec("last", states=some)
    if kind == "at":
        return SecretSpec("at", states=some, time=rng.randint(0, horizon))
    if kind == "initial":
        if rng.random() < 0.5:
            return SecretSpec("initial")
        count = rng.choice((1, 2, 2, 2, 3, 3, 3))
        drawn = [rng.randrange(count) for _ in range(states)]
        groups = tuple(tuple(s for s in range(states) if drawn[s] == number) for number in range(count))
        return SecretSpec("initial", groups=tuple(members for members in groups if members))
    if kind == "automaton":
        size, alphabet = rng.randint(2, 3), rng.choice((1, *[2, 3] * 4))
        offset = rng.randrange(alphabet)
        letters = tuple((s + offset) % alphabet for s in rng.sample(range(states), states))
        # Most random automata forget at once: count the marked states modulo or up to something, mostly.
        shapes: tuple[Callable[[int, int], int], ...] = (
            lambda q, letter: (q + letter) % size,
            lambda q, letter: min(q + letter, size - 1),
            lambda q, letter: rng.randrange(size),
        )
        shape = rng.choice(shapes)
        return SecretSpec(
            "automaton",
            step=tuple(tuple(shape(q, letter) for letter in range(alphabet)) for q in range(size)),
            letters=letters,
            accepting=frozenset(rng.sample(range(size), rng.choice((0, *[1] * 12, size - 1)))),
            agent_knows=rng.random() < 0.5,
        )
    weights = _spread(rng, unit, list(range(len(models))), len(models), 0.05)
    return SecretSpec("model", weights=tuple(weights), agent_knows=rng.random() < 0.5)


def floats(spec: Spec, numerators: list) -> np.ndarray:
    """Numerators as float64 probabilities."""
    return np.array(numerators, dtype=np.float64) / spec.unit


def to_problem(spec: Spec, rng: random.Random, return_over: str = "horizon") -> veil.Problem:
    """The specification as a veil problem, its model through one of the three ways to build one."""
    build = rng.choice((_dense, _sparse, _from_entries))
    models = [build(spec, model) for model in spec.models]
    observer = veil.Observer(
        floats(spec, spec.emissions), sees_actions=spec.sees_actions, sees_initial=spec.sees_initial
    )
    model = models if spec.secret.kind == "model" else models[0]
    return veil.Problem(model, observer, to_secret(spec), spec.horizon, return_over=return_over)  # type: ignore[arg-type]


def _names(letter: str, size: int) -> list[str]:
    return [f"{letter}{number}" for number in range(size)]


def _parts(spec: Spec, model: ModelSpec, scale: int = REWARD_UNIT) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    rewards, terminal = np.array(model.rewards) / scale, np.array(model.terminal) / scale
    return rewards, floats(spec, model.initial), float(spec.discount), terminal


def _dense(spec: Spec, model: ModelSpec) -> veil.Model:
    return veil.Model(
        floats(spec, model.transitions), *_parts(spec, model),
        _names("s", spec.num_states), _names("a", spec.num_actions), available=spec.available,
    )  # fmt: skip


def _sparse(spec: Spec, model: ModelSpec) -> veil.Model:
    transitions = floats(spec, model.transitions)
    matrices = [sp.csr_array(transitions[:, action]) for action in range(spec.num_actions)]
    return veil.Model(matrices, *_parts(spec, model), available=spec.available)


def _from_entries(spec: Spec, model: ModelSpec) -> veil.Model:
    entries = [
        (f"s{s}", f"a{a}", f"s{n}", weight / spec.unit)
        for s, rows in enumerate(model.transitions)
        for a, row in enumerate(rows)
        for n, weight in enumerate(row)
        if weight
    ]
    names = {"state_names": _names("s", spec.num_states), "action_names": _names("a", spec.num_actions)}
    return veil.Model.from_entries(entries, *_parts(spec, model), **names)


def to_secret(spec: Spec) -> "veil.LastState | veil.StateAt | veil.InitialState | veil.Automaton | veil.WhichModel":
    """The specification's secret as veil's."""
    secret = spec.secret
    makers: dict[str, Callable] = {
        "last": lambda: veil.LastState(set(secret.states)),
        "at": lambda: veil.StateAt(secret.time, set(secret.states)),
        "initial": lambda: veil.InitialState(
            None if secret.groups is None else {f"group {n}": members for n, members in enumerate(secret.groups)}
        ),
        "automaton": lambda: _automaton(spec),
        "model": lambda: veil.WhichModel([w / spec.unit for w in secret.weights], agent_knows=secret.agent_knows),
    }
    return makers[secret.kind]()


def _automaton(spec: Spec) -> veil.Automaton:
    secret = spec.secret
    used = set(secret.letters)  # a letter that no state carries is refused
    return veil.Automaton(
        transitions={
            (f"q{q}", _LETTERS[letter]): f"q{row[letter]}" for q, row in enumerate(secret.step) for letter in used
        },
        initial="q0",
        accepting={f"q{q}" for q in secret.accepting},
        labels={f"s{s}": _LETTERS[letter] for s, letter in enumerate(secret.letters)},
        agent_knows=secret.agent_knows,
    )


def to_policy(spec: Spec, problem: veil.Problem) -> veil.MarkovPolicy | veil.TimedPolicy:
    """The specification's policy as veil's; rows are matched by the names of the cells, not by their order."""
    order = list(range(problem.num_cells))
    if spec.secret.agent_knows:
        prefix = "q" if spec.secret.kind == "automaton" else "model "
        known = range(problem.num_cells // spec.num_states)
        number = {f"{prefix}{k}/s{s}": k * spec.num_states + s for k in known for s in range(spec.num_states)}
        order = [number[name] for name in problem.cell_names]
    if not spec.timed:
        return veil.MarkovPolicy(floats(spec, spec.policy)[0][order])
    shape = (spec.horizon, len(order), spec.num_actions)  # NumPy cannot tell the shape of no tables at all
    return veil.TimedPolicy(floats(spec, spec.policy).reshape(shape)[:, order])


def distributions(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random distributions along the last axis, with some entries near zero."""
    found = rng.uniform(0.05, 1, shape) * (rng.random(shape) < 0.8) + 1e-3
    return found / found.sum(axis=-1, keepdims=True)
