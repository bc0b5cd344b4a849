"""A whole path as a value at one time: a register of the path so far, for measures that need the value itself.

The entropy of a path is a sum over times, and needs no such register; the best guess, a table of all values, or the string of
an observer without a clock do. The register has a value for each path that can occur, so that this is for short horizons.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from ..common.errors import InputError, TooLargeError
from ..common.memo import memo
from ..common.numbering import number_keys, ragged
from ..problem.problem import Problem
from ..problem.secrets.secret import ELSEWHERE
from ..problem.secrets.trajectory import Trajectory
from .chain import Chain
from .compile import one_hot
from .hidden import Emitter, Hidden
from .kernel import make_kernel

_MOST_PLACES = 2**20  # of a path so far and a hidden state
_MOST_ENTRIES = 2**24  # of the steps between them


@dataclass(frozen=True, eq=False)
class Listed:
    """A hidden chain whose secret is the value at time T that stands for a path.

    `paths`, `(Z, T+1)`: what each of them shows at each time.
    """

    hidden: Hidden
    paths: Int[np.ndarray, "Z T+1"]

    def chain(self, chain: Chain) -> Chain:
        """The chain of the same policy and observer."""
        return chain.on(self.hidden)


def list_paths(hidden: Hidden) -> Listed:
    """The chain in product with the path so far, at each time what can be reached then.

    Cost: linear in the transitions between the pairs (path so far, hidden state).

    **Raises:** `TooLargeError` if the paths are too many.
    """
    return memo(hidden, list_paths, lambda: _listed(hidden))


def value_chain(chain: Chain) -> Chain:
    """The chain with a secret that has its value at one time: one for each path if the secret is a whole path.

    **Raises:** `InputError` if the secret has a value at every time.
    """
    refuse_each_time(chain.hidden)
    return chain if chain.hidden.path is None else list_paths(chain.hidden).chain(chain)


def refuse_each_time(hidden: Hidden) -> None:
    """Raise `InputError` if the secret has a value at every time, for what needs one value."""
    if hidden.each is not None:
        raise InputError(
            "secret",
            [
                "it has a value at every time, and this is about one value: use LastState or StateAt for one of the times"
            ],
        )


def value_names(problem: Problem, chain: Chain) -> tuple[str, ...]:
    """The names of the values of `value_chain(chain)`, of a chain of the problem."""
    if chain.hidden.path is None:
        return problem.secret_values
    secret, paths = problem.secret, list_paths(chain.hidden).paths
    names = tuple(map(str, range(int(paths.max()) + 1)))
    if isinstance(secret, Trajectory):
        names = problem.model.states.all() if secret.of is None else (*secret.of, ELSEWHERE)
    return tuple(" → ".join(names[shown] for shown in path) for path in paths.tolist())


def _listed(hidden: Hidden) -> Listed:
    assert hidden.path is not None
    size, groups, actions = hidden.num_states, int(hidden.path.max()) + 1, hidden.kernel.num_actions
    moves = sp.csr_array(hidden.kernel.stacked)
    states = [np.flatnonzero(hidden.start > 0)]
    shown, path = number_keys(hidden.path[states[0]])
    paths, begin, entries = shown[:, None], [0], list[tuple[np.ndarray, ...]]()
    for time in range(hidden.horizon):
        begin.append(begin[-1] + len(states[-1]))
        row = (states[-1][:, None] * actions + np.arange(actions)).ravel()
        degree = np.diff(moves.indptr)[row]
        owner, entry = np.repeat(np.arange(len(row)), degree), ragged(moves.indptr[row], degree)
        target = moves.indices[entry]
        keys, longer = number_keys(path[owner // actions] * np.int64(groups) + hidden.path[target])
        places, number = number_keys(longer * np.int64(size) + target)
        entries.append((owner // actions + begin[-2], number + begin[-1], owner % actions, moves.data[entry]))
        before, last = np.divmod(keys, groups)
        paths = np.concatenate([paths[before], last[:, None]], axis=1)
        path, state = np.divmod(places, size)
        states.append(state)
        if begin[-1] + len(state) > _MOST_PLACES or sum(len(one[0]) for one in entries) > _MOST_ENTRIES:
            raise TooLargeError(
                f"more than {len(paths):,} paths are possible by time {time + 1} of {hidden.horizon}, too many to list: only"
                " the entropy of a whole path is measured without a list of them, against an observer with a clock"
            )
    return Listed(_product(hidden, states, entries, begin[-1], path), paths)


def _product(hidden: Hidden, states: list[np.ndarray], entries: list, last: int, path: np.ndarray) -> Hidden:
    """The hidden chain over the pairs of all times; `last`: the first of time T, whose paths are the values."""
    state = np.concatenate(states)
    total, first = len(state), len(states[0])
    empty = [np.zeros(0, dtype=np.int64)] * 3 + [np.zeros(0)]
    row, column, action, data = (np.concatenate(part) for part in zip(empty, *entries, strict=True))
    kernel = make_kernel([
        sp.csr_array((data[mine], (row[mine], column[mine])), shape=(total, total))
        for mine in (action == number for number in range(hidden.kernel.num_actions))
    ])  # fmt: skip
    begins = np.arange(total) < first
    value = np.full(total, -1)
    value[last:] = path
    return hidden.at(
        state,
        kernel=kernel,
        start=np.where(begins, hidden.start[state], 0.0),
        first=sp.csr_array(sp.diags_array(begins.astype(float)) @ hidden.first[state]),
        emitters=tuple(Emitter(one.actions, sp.csr_array(one.table[state])) for one in hidden.emitters),
        labels=one_hot(value, int(path.max(initial=-1)) + 1),
        split_time=hidden.horizon,
        paid=(),
        path=None,
    )
