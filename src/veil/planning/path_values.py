"""How a solver evaluates a secret that is a whole path: entropies of event sequences, added and subtracted."""

import sys
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..common.logs import log2_or_zero
from ..engine.batch import BatchTree
from ..engine.event_entropy import UnifilarEntropy, show_path
from ..engine.hidden import Hidden
from ..engine.joint import JointWalk
from ..engine.size import TreeSize, tree_size
from ..engine.sparse_walk import SparseWalk
from ..measure.exact import COUNTED_STATES, Budget, try_sparse
from ..measure.trajectory import SequenceEntropy
from .options import Evaluation, Objective
from .policy_class import Space, any_table

_BATCH_NUMBERS = 2**22  # sequences up to which many policies are evaluated side by side: 32 MiB a policy
_MOST_SECONDS = 30.0  # forecast of one exact gradient, beyond which a search is refused

Slopes = Float[np.ndarray, "B T C A"]
Found = tuple[Float[np.ndarray, " B"], Slopes]


class PathSecrecy:
    """`H(R|Y) = H(R,Y) − H(Y)` of tables and its slope; less `H(R)` where the leakage is the objective."""

    kind, at_once = "exact", sys.maxsize

    def __init__(self, space: Space, objective: Objective):
        both, alone = show_path(space.hidden), show_path(space.hidden, alone=True)
        self._terms = [(1.0, _events(space, both.hidden, both.entropy)), (-1.0, _events(space, space.hidden, None))]
        if objective == "leakage":
            self._terms.append((-1.0, _events(space, alone.hidden, alone.entropy)))
        self.cost_seconds = sum(term.cost_seconds for _, term in self._terms)
        self.reason = "entropies of all possible sequences, with and without the path"

    def __call__(self, tables: Slopes, clock: Clock) -> Found:
        """See `Secrecy`."""
        values, slopes = np.zeros(len(tables)), np.zeros(tables.shape)
        for sign, term in self._terms:
            found, slope = term(tables, clock)
            values, slopes = values + sign * found, slopes + sign * slope
        return values, slopes


def make_path_secrecy(space: Space, objective: Objective, evaluation: Evaluation) -> PathSecrecy:
    """The evaluation of a whole path, on all possible sequences.

    **Raises:** `InputError` for another evaluation or an objective that is no entropy; `TooLargeError`.
    """
    if objective == "guess":
        raise InputError("objective", ["'guess' is not available for a whole path: use 'entropy' or 'leakage'"])
    if evaluation not in ("auto", "exact"):
        raise InputError("evaluation", [f"{evaluation!r} is not available for a whole path: use 'exact'"])
    secrecy = PathSecrecy(space, objective)
    if secrecy.cost_seconds > _MOST_SECONDS:
        raise TooLargeError(
            f"one exact gradient of the whole path is forecast to take {secrecy.cost_seconds:.2g} s, more than"
            f" {_MOST_SECONDS:g} s: shorten the horizon, or measure given policies with veil.opacity (method='sampled')"
        )
    return secrecy


def _events(space: Space, hidden: Hidden, entropy: UnifilarEntropy | None) -> "_Unifilar | _Batch | _Walk":
    """The entropy of the events of a chain, by the cheapest way."""
    space = replace(space, hidden=hidden)
    if entropy is not None:
        return _Unifilar(space, entropy)
    chain = space.chain(any_table(space))
    if hidden.num_states > COUNTED_STATES:
        begin = Clock()
        tried = try_sparse(chain, Budget(), SequenceEntropy, _MOST_SECONDS, gradient=True, keep_events=True)
        return _Walk(space, None, begin.spent if tried is not None else np.inf)
    size = tree_size(chain)
    seconds = size.seconds(chain, gradient=True) if size.exact else np.inf
    if not hidden.kernel.is_sparse and size.num_sequences <= _BATCH_NUMBERS:
        return _Batch(space, seconds)
    return _Walk(space, size, seconds)


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

    def __init__(self, space: Space, seconds: float):
        self._tree = BatchTree(space.hidden, space.available, stationary=space.stationary)
        self.cost_seconds = seconds

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
