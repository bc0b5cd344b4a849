"""Models of Gymnasium environments: from a transition table, such as FrozenLake's, or estimated from runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..common.checks import Defects, Names, is_number
from ..common.errors import InputError, MissingExtraError
from ..engine.compile import reachable_states
from ..problem.model import Model
from ..problem.observer import Observer
from .imported import Imported
from .rollouts import Explore, Rollouts, Steps, roll_out
from .sensing import SILENT, Observe

_ACTIONS = {
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
}
_STOPS = ("R", "G", "Y", "B")
Environment = Any  # a Gymnasium environment, or anything with a table: Gymnasium is an extra
Initial = str | int | Mapping[str | int, float] | ArrayLike
Observed = Observe | Observer | str | Sequence[str]
Variable = ArrayLike | Callable[[int], object]


def from_gymnasium(
    env: Environment,
    *,
    observe: Observed | None = None,
    noise: float = 0.0,
    sees_actions: bool = False,
    otherwise: str | None = SILENT,
    discount: float = 1.0,
    initial: Initial | None = None,
    state_names: Sequence[str] | Callable[[int], str] | None = None,
    action_names: Sequence[str] | None = None,
    variables: Mapping[str, Variable] | None = None,
    episodes: int | None = None,
    seed: int = 0,
    steps: int | None = None,
    explore: Explore | None = None,
    **options: object,
) -> Imported:
    """The model of an environment, from its table or estimated from runs.

    The table is `env.unwrapped.P[state][action] = [(chance, next, reward, ended), …]`. Without one, `episodes` are played, and
    probabilities and mean rewards are the shares that were seen; `Imported.rollouts` has the counts, the interval of each
    probability and the pairs that were never tried, which are not available in the model.

    A state in which an episode ends is made absorbing, with zero reward; if it can also be passed through, a copy
    `… (ended)` is. Rewards of transitions are averaged to `R(s, a)`. There is no time limit: choose the horizon.

    **Arguments:**

    - `env`: an environment, or the name of one, with `options` for `gymnasium.make`.
    - `observe`: what the observer sees: the name of a variable or a tuple of them (`"row"`, `("row", "col")`); a
      function of the state's index, a mapping from names or indices, or a list, giving the name of an observation or a
      mapping from names to probabilities; or an `Observer`. None: no observer yet.
    - `noise`: the probability of a wrong reading, uniform over the others.
    - `sees_actions`: whether the observer also sees each action.
    - `otherwise`: the observation of states that a mapping does not name.
    - `discount`: as for `Model`.
    - `initial`: as for `Model`; by default `env.unwrapped.initial_state_distrib`.
    - `state_names`: a list, or a function of the index; `action_names`; `variables`: name -> values, or a function of
      the index. Set automatically for FrozenLake and CliffWalking (`row`, `col`) and Taxi (and `passenger`,
      `destination`).
    - `episodes`: to play; the table is then not read. `seed`: of the environment and of the actions. `steps`: after which an
      episode is cut, if the environment has no limit. `explore`: the action to take in a state; uniformly random
      actions by default, which may never reach what takes a plan.

    **Raises:** `InputError` if there is no table and no `episodes`, or it is not understood; `MissingExtraError` if a
    name is given and Gymnasium is not installed.
    """
    if isinstance(env, str):
        env = _make(env, options)
    elif options:
        raise InputError("environment", [f"options {sorted(options)} are only for the name of an environment"])
    base = getattr(env, "unwrapped", env)
    table = getattr(base, "P", None)
    title = _title(env, base)
    if episodes is None and (not isinstance(table, Mapping) or not table):
        remedy = "estimate the model from runs with episodes=10_000"
        raise InputError(f"environment {title}", [f"it has no transition table env.unwrapped.P: {remedy}"])
    family = next((name for name in _ACTIONS if name.lower() in type(base).__name__.lower()), None)
    rollouts = _rollouts(env, episodes, seed, steps, explore, title)
    if rollouts is not None:
        listed, num_states = rollouts.steps, len(rollouts.starts)
    else:
        assert isinstance(table, Mapping)
        listed, num_states = _read_table(table, title), len(table)
    known = _family_variables(family, base, num_states) if family else {}
    known |= {name: _values(name, given, num_states) for name, given in (variables or {}).items()}
    names = _state_names(state_names, known, family, num_states)
    if len(names) != num_states:
        raise InputError("state_names", [f"there are {len(names)}, expected one for each of {num_states} states"])
    if rollouts is not None and initial is None:
        initial = rollouts.starts / rollouts.episodes
    ending = _Ending(listed, _initial(base, initial, num_states, names, title), num_states)
    actions = list(action_names or (_ACTIONS[family] if family else ())) or None
    model = _model(
        listed, ending, discount, names, actions, num_actions=None if rollouts is None else rollouts.visits.shape[1]
    )
    notes = [*ending.notes(names), "rewards of transitions were averaged to rewards of (state, action)"]
    if rollouts is not None:
        notes += rollouts.notes(names, model.actions.all())
    copies = ending.copied
    valuations = {name: np.concatenate([values, values[copies]]) for name, values in known.items()}
    imported = Imported(model, None, title, "Gymnasium environment", tuple(notes), valuations, rollouts=rollouts)
    if observe is None:
        return imported
    seen = _for_copies(observe, copies, num_states)
    # A short tuple of words names variables; a list with one entry for each state says what is seen there.
    words = _words(seen) if isinstance(seen, Sequence) and 0 < len(seen) < num_states else []
    first, more = (words[0], words[1:]) if words else (seen, [])
    return imported.observing(first, *more, noise=noise, sees_actions=sees_actions, otherwise=otherwise)


def _words(given: Sequence[object]) -> list[str]:
    """The entries of a sequence of words; empty for a single word and where an entry is something else."""
    words = [] if isinstance(given, str) else [word for word in given if isinstance(word, str)]
    return words if len(words) == len(given) else []


def _make(name: str, options: Mapping[str, Any]) -> Environment:
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError(
            f"environment {name!r} needs Gymnasium, which is not installed: pip install 'veil[gym]'"
        ) from None
    try:
        return gymnasium.make(name, **options)
    except (gymnasium.error.Error, TypeError, ValueError) as error:
        raise InputError(f"environment {name!r}", [f"Gymnasium cannot make it: {error}"]) from None


def _title(env: Environment, base: Environment) -> str:
    spec = getattr(env, "spec", None)
    return getattr(spec, "id", None) or type(base).__name__


def _read_table(table: Mapping[object, object], title: str) -> Steps:
    """The steps, in the order of the table."""
    defects = Defects(f"environment {title}")
    size = len(table)
    steps = []
    num_actions = None
    for state in range(size):
        choices = table.get(state)
        if not isinstance(choices, Mapping) or set(choices) != set(range(len(choices))) or not choices:
            defects.add(f"P[{state}] is {type(choices).__name__}, expected a mapping from actions 0, 1, … to steps")
            continue
        num_actions = num_actions or len(choices)
        if len(choices) != num_actions:
            defects.add(f"P[{state}] has {len(choices)} actions, expected {num_actions}, as in the first state")
        for action in range(len(choices)):
            given = choices[action]
            if not isinstance(given, (list, tuple)) or not given:
                defects.add(f"P[{state}][{action}] is {given!r:.60}, expected a list of steps that is not empty")
                continue
            for step in given:
                try:
                    chance, following, reward, ended = step
                    entry = (state, action, int(following), float(chance), float(reward), bool(ended))
                except (TypeError, ValueError):
                    defects.add(f"P[{state}][{action}] holds {step!r}, expected (chance, next state, reward, ended)")
                    continue
                if not 0 <= entry[2] < size:
                    defects.add(f"P[{state}][{action}] leads to {entry[2]}, expected a state from 0 to {size - 1}")
                    continue
                steps.append(entry)
    defects.raise_if_any()
    kinds = (int, int, int, float, float, bool)
    return Steps(*(np.array(one, dtype=kind) for one, kind in zip(zip(*steps, strict=True), kinds, strict=True)))


class _Ending:
    """Which states end an episode, and where the steps that end one lead instead."""

    def __init__(self, steps: Steps, initial: np.ndarray, num_states: int):
        self.initial = initial
        self.ends = np.zeros(num_states, dtype=bool)
        self.ends[steps.following[steps.ended & (steps.chance > 0)]] = True
        on = ~steps.ended & (steps.chance > 0)
        links = (np.ones(int(on.sum())), (steps.state[on], steps.following[on]))
        graph = sp.csr_array(links, shape=(num_states, num_states))
        passed = np.isin(np.arange(num_states), reachable_states([graph], initial))  # an episode can go on there
        self.copied = np.flatnonzero(self.ends & passed)
        self.absorbing = self.ends & ~passed
        target = np.arange(num_states)
        target[self.copied] = num_states + np.arange(len(self.copied))
        self.target = target
        self.num_states = num_states + len(self.copied)

    def notes(self, names: Sequence[str]) -> list[str]:
        """What was changed, in words."""
        count = int(self.absorbing.sum())
        ended = "1 state that ends an episode was" if count == 1 else f"{count} states that end an episode were"
        notes = [f"{ended} made absorbing, with zero reward"] if count else []
        if len(self.copied):
            example = names[self.copied[0]]
            notes.append(
                f"{len(self.copied)} states can end an episode or not: copies such as '{example} (ended)' were added"
            )
        return notes


def _rollouts(
    env: Environment, episodes: int | None, seed: int, steps: int | None, explore: Explore | None, title: str
) -> Rollouts | None:
    defects = Defects(f"environment {title}")
    for name, given, least in (("episodes", episodes, 1), ("steps", steps, 1), ("seed", seed, 0)):
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < least):
            defects.add(f"{name} is {given!r}, expected a whole number, {least} or more")
    if episodes is None and (steps is not None or explore is not None):
        defects.add("steps and explore are for estimates from runs: give episodes=…")
    if explore is not None and not callable(explore):
        defects.add(f"explore is {explore!r}, expected a function from the number of a state to that of an action")
    defects.raise_if_any()
    return None if episodes is None else roll_out(env, episodes, seed, steps, explore, title)


def _model(
    steps: Steps,
    ending: _Ending,
    discount: float,
    names: list[str],
    actions: list[str] | None,
    *,
    num_actions: int | None,
) -> Model:
    """The model of the steps; a state that no step leaves is absorbing, an action that was never taken is not available."""
    state, action, following, chance, reward, ended = steps
    size, count = ending.num_states, int(action.max()) + 1 if num_actions is None else num_actions
    available = np.zeros((size, count), dtype=bool)
    available[state, action] = True
    rewards = np.zeros((size, count))
    goes_on = ~ending.absorbing[state]
    np.add.at(rewards, (state[goes_on], action[goes_on]), chance[goes_on] * reward[goes_on])
    reached = np.where(ended, ending.target[following], following)
    stays = np.asarray(~available.any(axis=1))
    stays[: len(ending.absorbing)] |= ending.absorbing
    staying = np.flatnonzero(stays)
    available[staying] = True
    matrices = []
    for number in range(count):
        mine = goes_on & (action == number)
        rows = np.concatenate([state[mine], staying])
        columns = np.concatenate([reached[mine], staying])
        data = np.concatenate([chance[mine], np.ones(len(staying))])
        matrices.append(sp.csr_array((data, (rows, columns)), shape=(size, size)))
    every = [*names, *(f"{names[copy]} (ended)" for copy in ending.copied)]
    initial = np.concatenate([ending.initial, np.zeros(len(ending.copied))])
    return Model(matrices, rewards, initial, discount, state_names=every, action_names=actions, available=available)


def _initial(base: Environment, given: Initial | None, num_states: int, names: list[str], title: str) -> np.ndarray:
    if given is None:
        given = getattr(base, "initial_state_distrib", None)
    if given is None:
        raise InputError(f"environment {title}", ["it has no initial_state_distrib: give initial=…, a state or a list"])
    if isinstance(given, str | int | np.integer):
        given = {given if isinstance(given, str) else int(given): 1.0}
    if isinstance(given, Mapping):
        defects, start = Defects("initial"), np.zeros(num_states)
        states = Names("state", num_states, names, "s", defects)
        for key, chance in given.items():
            place = states.find_or_note(key, "", defects)
            if not is_number(chance):
                defects.add(f"{key!r}: {chance!r} found, expected a probability")
            elif place is not None:
                start[place] += float(chance)
        defects.raise_if_any()
        return start
    array = np.asarray(given, dtype=np.float64)
    if array.shape != (num_states,):
        raise InputError("initial", [f"it has shape {array.shape}, expected ({num_states},)"])
    return array


def _family_variables(family: str, base: Environment, num_states: int) -> dict[str, np.ndarray]:
    """The variables behind the index of a state, for the environments that we know."""
    index = np.arange(num_states)
    if family == "Taxi" and num_states == 500:
        rest, destination = np.divmod(index, 4)
        rest, passenger = np.divmod(rest, 5)
        row, col = np.divmod(rest, 5)
        stops = np.array([*_STOPS, "taxi"])
        return {"row": row, "col": col, "passenger": stops[passenger], "destination": stops[destination]}
    columns = getattr(base, "ncol", None) or (getattr(base, "shape", None) or (0, 0))[1]
    if family == "Taxi" or not columns or num_states % int(columns):
        return {}
    row, col = np.divmod(index, int(columns))
    found = {"row": row, "col": col}
    letters = getattr(base, "desc", None)
    if letters is not None and np.asarray(letters).size == num_states:
        found["cell"] = np.asarray(letters).astype(str).ravel()
    return found


def _values(name: str, given: Variable, num_states: int) -> np.ndarray:
    values = np.array([given(state) for state in range(num_states)]) if callable(given) else np.asarray(given)
    if values.shape != (num_states,) or values.dtype.kind not in "biufU":
        raise InputError(
            "variables", [f"{name!r} has shape {values.shape}, expected one value for each of {num_states}"]
        )
    return values


def _state_names(
    given: Sequence[str] | Callable[[int], str] | None,
    known: Mapping[str, np.ndarray],
    family: str | None,
    num_states: int,
) -> list[str]:
    if callable(given):
        return [str(given(state)) for state in range(num_states)]
    if given is not None:
        return [str(name) for name in given]
    if family and "row" in known:
        names = [f"r{row}c{col}" for row, col in zip(known["row"].tolist(), known["col"].tolist(), strict=True)]
        if "passenger" in known:
            riders = zip(names, known["passenger"].tolist(), known["destination"].tolist(), strict=True)
            names = [f"{name} {passenger} to {destination}" for name, passenger, destination in riders]
        return names
    return [f"s{state}" for state in range(num_states)]


def _for_copies(observe: Observed, copies: np.ndarray, num_states: int) -> Observed:
    """A copy of a state shows what the state shows."""
    if not len(copies) or isinstance(observe, (str, Observer, Mapping)):
        return observe
    if callable(observe):
        return lambda state: observe(state if state < num_states else int(copies[state - num_states]))
    listed = list(observe)
    return [*listed, *(listed[copy] for copy in copies)] if len(listed) == num_states else listed
