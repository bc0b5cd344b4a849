"""Observers for models from elsewhere: what is seen of each state, by its variables, its name or a function."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from ..common.checks import Defects, Names, is_number
from ..problem.observer import Observer
from .text import joined_values

SILENT = "nothing"
Seen = str | int | Mapping[str | int, float] | Mapping[str, float]
Observe = Callable[[int], Seen] | Mapping[str | int, Seen] | Mapping[str, Seen] | Mapping[int, Seen] | Sequence[Seen]


def observer_from_values(
    columns: Mapping[str, np.ndarray], sees_actions: bool = False, sees_initial: bool = True
) -> Observer:
    """The observer that sees the exact values of some variables.

    **Arguments:** `columns`: the value of each variable in each state, `(S,)` each.

    Observations are named after the values, as `"x=3, door=open"`, in order of their first occurrence.
    """
    seen = joined_values(columns, ", ")
    return observer_from(seen, len(seen), None, sees_actions, sees_initial)


def observer_from(
    observe: Observe,
    num_states: int,
    states: Names | None,
    sees_actions: bool = False,
    sees_initial: bool = True,
    *,
    otherwise: str | None = SILENT,
) -> Observer:
    """The observer that a function, a mapping or a list describes.

    **Arguments:**

    - `observe`: what is seen in a state: the name of an observation, or a mapping from names to probabilities. Given
      as a function of the state's index; as a mapping from states (names or indices); or as a list with one for each.
    - `states`: the names of the states, where a mapping uses them.
    - `otherwise`: what is seen in states that a mapping leaves out; None refuses such states.

    Observations are in order of their first occurrence.

    **Raises:** `InputError` naming each state whose observation is not understood.
    """
    defects = Defects("observer")
    seen = _one_for_each(observe, num_states, states, otherwise, defects)
    defects.raise_if_any()
    names: dict[str, int] = {}
    rows, columns, chances = [], [], []
    for state, shown in enumerate(seen):
        law = shown if isinstance(shown, Mapping) else {shown: 1.0}
        for name, chance in law.items():
            if not is_number(chance) or isinstance(name, bool) or not isinstance(name, (str, int, np.integer)):
                defects.add(
                    f"state {state}: {shown!r} found, expected a name, or a mapping from names to probabilities"
                )
                break
            rows.append(state)
            columns.append(names.setdefault(str(name), len(names)))
            chances.append(float(chance))
    defects.raise_if_any()
    shape = (num_states, max(len(names), 1))
    emissions = sp.csr_array(sp.coo_array((chances, (rows, columns)), shape=shape))
    silent = otherwise if otherwise in names else None
    return Observer(emissions, list(names), sees_actions, sees_initial, silent=silent)


def _one_for_each(
    observe: object, num_states: int, states: Names | None, otherwise: str | None, defects: Defects
) -> Iterable[object]:
    """What is seen in each state, as it was given."""
    if isinstance(observe, Mapping):
        named = states or Names("state", num_states, None, "s", defects)
        seen: list[object] = [otherwise] * num_states
        for key, shown in observe.items():
            state = named.find_or_note(key, "observe", defects)
            if state is not None:
                seen[state] = shown
        for state in [state for state, shown in enumerate(seen) if shown is None][:21]:
            defects.add(f"observe has no entry for state {named[state]!r}, expected what is seen there")
        return seen
    if callable(observe):
        return [observe(state) for state in range(num_states)]
    if isinstance(observe, (Sequence, np.ndarray)) and not isinstance(observe, str):
        if len(observe) != num_states:
            defects.add(f"observe has {len(observe)} entries, expected one for each of the {num_states} states")
        return [entry.item() if isinstance(entry, np.generic) else entry for entry in observe]
    defects.add(f"observe is {observe!r}, expected a function of the state's index, a mapping or a list")
    return ()
