"""How a solver evaluates a secret that is a whole path: entropies of event sequences, added and subtracted."""

import contextlib
import math
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.errors import InputError, TooLargeError
from ..common.logs import log2_or_zero
from ..engine.batch import BatchTree
from ..engine.event_entropy import Shown, UnifilarEntropy, show_path
from ..engine.joint import JointWalk
from ..engine.size import TreeSize, tree_size
from ..engine.sparse_walk import SparseWalk
from ..engine.string_walk import StringBatch
from ..measure.exact import COUNTED_STATES, Budget, sparse_seconds, try_sparse
from ..measure.trajectory import SequenceEntropy
from .options import Evaluation, Objective
from .policy_class import Space, all_strings, any_table
from .sampled_values import SampleSecrecy

_BATCH_NUMBERS = 2**22  # sequences up to which many policies are evaluated side by side: 32 MiB a policy
_MOST_SECONDS = 30.0  # forecast of one exact gradient, beyond which a search is refused
_COUNT_SECONDS, _COUNT_SHARE = 2.0, 0.03  # in which sequences are counted, where samples can serve instead

Slopes = Float[np.ndarray, "B T C A"]
Found = tuple[Float[np.ndarray, " B"], Slopes]


class PathSecrecy:
    """`H(R|Y) = H(R,Y) − H(Y)` of tables and its slope; less `H(R)` where the leakage is the objective.

    **Arguments:** `seconds`: that one gradient may take; what is found to take longer has an infinite cost. `clock`: limits
    the count of the sequences.
    """

    kind, at_once = "exact", sys.maxsize

    def __init__(self, space: Space, objective: Objective, seconds: float, clock: Clock):
        both, alone = show_path(space.hidden), show_path(space.hidden, alone=True)
        given = seconds, clock
        self._terms = [(1.0, _events(space, both, *given)), (-1.0, _events(space, None, *given))]
        if objective == "leakage":
            self._terms.append((-1.0, _events(space, alone, *given)))
        self.cost_seconds = sum(term.cost_seconds for _, term in self._terms)
        self.reason = "entropies of all possible sequences, with and without the path"

    def __call__(self, tables: Slopes, clock: Clock) -> Found:
        """See `Secrecy`."""
        values, slopes = np.zeros(len(tables)), np.zeros(tables.shape)
        for sign, term in self._terms:
            found, slope = term(tables, clock)
            values, slopes = values + sign * found, slopes + sign * slope
        return values, slopes


def make_path_secrecy(
    space: Space,
    objective: Objective,
    evaluation: Evaluation,
    sample: Callable[[str], SampleSecrecy],
    seconds: float,
    time_limit: float | None,
) -> "PathSecrecy | SampleSecrecy":
    """The evaluation of a whole path: on all possible sequences where one gradient takes about so many seconds, else sampled.

    Where it cannot be sampled either, all sequences are used up to half a minute a gradient.

    **Raises:** `InputError` for another evaluation or an objective that is no entropy; `TooLargeError`.
    """
    if objective == "guess":
        raise InputError("objective", ["'guess' is not available for a whole path: use 'entropy' or 'leakage'"])
    if evaluation == "bracket":
        raise InputError("evaluation", ["'bracket' is not available for a whole path: use 'exact' or 'sampled'"])
    if evaluation == "sampled":
        return sample("asked for")
    limit = math.inf if time_limit is None else time_limit
    if evaluation == "auto":
        found = PathSecrecy(space, objective, seconds, Clock(min(_COUNT_SECONDS, _COUNT_SHARE * limit)))
        if found.cost_seconds <= seconds:
            return found
        with contextlib.suppress(TooLargeError):
            return sample("too many to enumerate")
    secrecy = PathSecrecy(space, objective, _MOST_SECONDS, UNLIMITED)
    if secrecy.cost_seconds > _MOST_SECONDS:
        raise TooLargeError(
            f"one exact gradient of the whole path is forecast to take more than {_MOST_SECONDS:g} s: shorten the horizon, or"
            " measure given policies with veil.opacity (method='sampled')"
        )
    return secrecy


def _events(space: Space, shown: Shown | None, seconds: float, clock: Clock) -> "_Unifilar | _Batch | _Walk":
    """The entropy of the events of a chain, or of one whose observer is shown the path, by the cheapest way."""
    if shown is not None and shown.entropy is not None:
        return _Unifilar(space, shown.entropy)
    space = space if shown is None else replace(space, hidden=shown.hidden)
    if space.hidden.written is not None:
        strings = all_strings(space, min(_MOST_SECONDS, clock.left), None)
        return _Batch(strings, strings.cost_seconds) if strings is not None else _Walk(space, None, np.inf)
    chain, hidden = space.chain(any_table(space)), space.hidden
    if hidden.num_states > COUNTED_STATES:
        tried = try_sparse(chain, Budget(), SequenceEntropy, seconds, gradient=True, keep_events=True)
        return _Walk(space, None, np.inf if tried is None else sparse_seconds(tried[1]))
    try:
        size = tree_size(chain, clock)
    except OutOfTime:
        return _Walk(space, None, np.inf)
    cost = size.seconds(chain, gradient=True) if size.exact else np.inf
    if not hidden.kernel.is_sparse and size.num_sequences <= _BATCH_NUMBERS:
        return _Batch(BatchTree(hidden, space.available, stationary=space.stationary), cost)
    return _Walk(space, size, cost)


class _Unifilar:
    """A sum over times, for all policies side by side."""

    def __init__(self, space: Space, entropy: UnifilarEntropy):
        self._entropy, self._stationary = entropy, space.stationary
        self.cost_seconds = 1e-8 * space.hidden.horizon * space.hidden.kernel.num_entries

    def __call__(self, tables: Slopes, clock: Clock) -> Found:
        clock.check()
        return self._entropy.evaluate(tables, stationary=self._stationary)


class _Batch:
    """All sequences, for all policies side by side."""

    def __init__(self, tree: BatchTree | StringBatch, seconds: float):
        self._tree, self.cost_seconds = tree, seconds

    def __call__(self, tables: Slopes, clock: Clock) -> Found:
        return self._tree.evaluate(tables, _entropy, clock)


class _Walk:
    """All sequences, one policy after the other: dense messages where the sequences were counted, else sparse rows."""

    def __init__(self, space: Space, size: TreeSize | None, seconds: float):
        self._space, self._size, self.cost_seconds = space, size, seconds

    def __call__(self, tables: Slopes, clock: Clock) -> Found:
        values, slopes = np.empty(len(tables)), np.empty(tables.shape)
        for number, table in enumerate(tables):
            clock.check()
            chain, objective = self._space.chain(table), SequenceEntropy()
            if self._size is None:
                walk = SparseWalk(chain, clock=clock, keep_events=True)
            else:
                walk = JointWalk(chain, clock=clock, meet=self._size.meet, outer=self._size.outer)
            slope = walk.run(objective, gradient=True)
            assert slope is not None
            values[number], slopes[number] = objective.bits, slope
        return values, slopes


def _entropy(joint: Float[np.ndarray, "B Y 1"]) -> tuple[np.ndarray, np.ndarray]:
    """`H(Y)` of each policy, and its slope up to a constant that changes no policy."""
    slope = -log2_or_zero(joint)
    return np.einsum("byz,byz->b", joint, slope), slope
