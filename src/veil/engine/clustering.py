"""Merging of histories by what they can still lose: beliefs that nearly agree, the more nearly the more is at stake.

Let `f(b)` be what the secret keeps hidden from a belief b of `X_t` and all that is observed after t. It is concave and
homogeneous, and a merge of `b_i`, with weights w_i and mean b̄, raises H by `f(b̄) - Σ_i w_i f(b_i)`. Where
`(1-ε) b̄ ≤ b_i ≤ (1+δ) b̄` in each state, that is at most

`min(1, ε (ε+δ) / (1-ε)) · G(b̄)`,  `G(b) = f(b) - Σ_x b(x) f(e_x) = I(Z; X_t | O_{t+1} …)`:

the square of how much the beliefs differ, times what the state of that time would still tell, which falls with the steps that
are left. The proof is in `README.md`. G is concave, so a tangent bounds it: `G(b) ≤ Σ_x g(x) b(x)`. The same holds
for continuations after the secret's time, with histories and continuations exchanged.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import BITS_PER_NAT, log2_of_count, natural_log, surprisal_bits
from .chain import Chain
from .tree import Block, Prefixes, Suffixes, beliefs_of, means, walk
from .window import Cut, Window

# Numbers in the messages of the last window that is enumerated for the tangents: a tenth of a second.
_TANGENT_NUMBERS = 4e6
# Rows beyond the secret's time that are kept apart, all of them, on the side that is not merged.
_ROWS_APART = 5_000


@dataclass(frozen=True)
class Stakes:
    """For each time t the tangent `g_t`, `(N,)`: merging messages m at t can raise H by at most `Σ m(x) g_t(x)` in all.

    `before` is for forward messages up to the secret's time, `after` for backward messages from there on. `steps`: how far
    beyond the secret's time, on the side without a cut, all rows are few enough to be kept apart.
    """

    before: dict[int, Float[np.ndarray, " N"]]
    after: dict[int, Float[np.ndarray, " N"]]
    steps: int

    @staticmethod
    def of(chain: Chain, clock: Clock = UNLIMITED) -> "Stakes":
        """The tangents at `P(x_t)`, from windows that are enumerated as far as that is quick; beyond, they are carried on.

        For a window of k steps around the secret's time τ, `g = ∇f - f(e_x)` at time τ - k, with f of the window that forgets
        in the gradient and f of the one that reveals in `f(e_x)`; and `g_{t-1} = P_{t-1} g_t`, since the state of an earlier
        time tells no more. Continuations are merged last. Where histories were merged before them, only what holds for all
        merges is used: `KL ≤ ε δ / ln 2`, and at most `log2 |Z|`. Cost: the windows, and T vector products.
        """
        hidden = chain.hidden
        split, horizon = hidden.split_time, hidden.horizon
        before, after, steps, rows = {}, {}, 0, 1
        for radius in range(max(split, horizon - split) + 1):
            cuts = [Cut(chain, Window.around(chain, radius), reveal=reveal).chain for reveal in (False, True)]
            earlier = rows
            if split > 0 or radius == 0:
                before[split - radius], rows = _tangent(cuts, chain.occupancies[split - radius], clock, before=True)
            else:
                reachable = np.where(chain.occupancies[radius] > 0, 1.0, 0.0)
                after[radius], rows = _tangent(cuts, reachable, clock, before=False)
            steps = radius if rows <= _ROWS_APART else steps
            next_numbers = rows**2 / earlier * hidden.num_states * hidden.num_values
            if radius > 0 and (radius == split or next_numbers > _TANGENT_NUMBERS):
                break
        for time in range(min(before) - 1, -1, -1):
            before[time] = chain.pull(before[time + 1], time)
        if split == 0:
            for time in range(len(after) + 1, horizon + 1):
                after[time] = chain.push(after[time - 1], time - 1)
        else:
            most = max(log2_of_count(hidden.num_values), BITS_PER_NAT)
            after = {time: most * chain.occupancies[time] for time in range(split + 1, horizon + 1)}
        return Stakes(before, after, steps)

    def meet(self, cut: Cut) -> int:
        """Where histories and continuations of a window meet: at the secret's time, or beyond it where one side is short."""
        hidden = cut.chain.hidden
        if hidden.split_time == hidden.horizon:
            return hidden.split_time - min(self.steps, hidden.split_time)
        return min(self.steps, hidden.horizon) if hidden.split_time == 0 else hidden.split_time


def _tangent(
    cuts: list[Chain], at: Float[np.ndarray, " N"], clock: Clock, *, before: bool
) -> tuple[Float[np.ndarray, " N"], int]:
    """`∇f` of the first window at a message less `f(e_x)` of the second, and the rows that were enumerated."""
    hidden, result, count = cuts[0].hidden, np.zeros(len(at)), 0
    together = max(1, int(_TANGENT_NUMBERS / (hidden.num_states * hidden.num_values * hidden.num_events)))

    def add_slope(block: Block) -> None:
        nonlocal count
        count += len(block)
        np.add(result, np.einsum("nzx,nz->x", block.true, surprisal_bits(block.true @ at)), out=result)

    def take_values(block: Block) -> None:
        table = block.true.transpose(0, 2, 1)
        np.subtract(result, np.sum(table * surprisal_bits(table), axis=(0, 2)), out=result)

    for chain, leaf in zip(cuts, (add_slope, take_values), strict=True):
        direction = Suffixes(chain, 0) if before else Prefixes(chain, chain.hidden.horizon)
        walk(direction, leaf, rows_at_once=together, clock=clock)
    return np.maximum(result, 0.0) * (at > 0), count


@dataclass
class Clustering:
    """Rows are gathered in clusters, each of which may raise H by about `threshold` bits.

    **Arguments:** `stakes`: of the whole chain; `begin`: the time at which the window begins; `threshold`: bits. After a walk,
    `error_bits` bounds what all merges together have raised H by. Messages that carry the secret are not merged.
    """

    stakes: Stakes
    begin: int
    threshold: float
    error_bits: float = field(default=0.0, init=False)

    def apply(self, block: Block, prior: np.ndarray | None, time: int) -> tuple[Block, np.ndarray | None]:
        """See `Merger`."""
        tangents = self.stakes.before if prior is None else self.stakes.after
        if len(block) < 2 or self.begin + time not in tangents or block.message.shape[1] > 1:
            return block, None
        beliefs, mass = beliefs_of(block, prior)
        bits = block.weight * (block.message[:, 0] @ tangents[self.begin + time])
        _, index, inverse = np.unique(clusters(beliefs, bits, self.threshold), return_index=True, return_inverse=True)
        if len(index) == len(block):
            return block, None
        self.error_bits += float(np.bincount(inverse, bits) @ _shares(beliefs, means(beliefs, mass, inverse), inverse))
        return block.merged(index, inverse, forward=prior is None), inverse


def clusters(
    beliefs: Float[np.ndarray, "n N"], bits: Float[np.ndarray, " n"], threshold: float
) -> Int[np.ndarray, " n"]:
    """The cluster of each row: rows of one support, halved in the state whose probability varies most while much is at stake.

    A cluster whose beliefs vary by a factor of `1 + r` may raise H by about `r²/2` times the bits at stake in it. Rows of
    supports in which no more than the threshold is at stake are left to one cluster, however they differ.
    """
    label, used = _by_support(beliefs, bits, threshold)
    active = np.flatnonzero(label > 0)
    logs = natural_log(beliefs[active].astype(np.float32))
    logs[np.isneginf(logs)] = 0.0  # the same for all rows of one support
    order = np.argsort(label[active], kind="stable")
    active, logs = active[order], logs[order]
    while len(active):
        starts = np.flatnonzero(np.diff(label[active], prepend=-1))
        cluster = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(active)))
        lowest, highest = np.minimum.reduceat(logs, starts), np.maximum.reduceat(logs, starts)
        state = (highest - lowest).argmax(axis=1)
        lowest, highest = lowest[np.arange(len(state)), state], highest[np.arange(len(state)), state]
        share = np.minimum((highest - lowest) ** 2 / 2, 1.0)
        wide = (highest > lowest) & (share * np.add.reduceat(bits[active], starts) > threshold)
        upper = logs[np.arange(len(active)), state[cluster]] > ((lowest + highest) / 2)[cluster]
        label[active] = np.where(wide[cluster] & upper, (used + np.cumsum(wide))[cluster], label[active])
        used += np.count_nonzero(wide)
        order = np.flatnonzero(wide[cluster])
        order = order[np.argsort(label[active[order]], kind="stable")]
        active, logs = active[order], logs[order]
    return label


def _by_support(
    beliefs: Float[np.ndarray, "n N"], bits: Float[np.ndarray, " n"], threshold: float
) -> tuple[Int[np.ndarray, " n"], int]:
    """A label from 1 on for each support in which more than the threshold is at stake, 0 for all others; the last label."""
    packed = np.packbits(beliefs > 0, axis=1)
    _, support = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_inverse=True)
    large = np.bincount(support, bits) > threshold
    return np.where(large, np.cumsum(large), 0)[support], int(np.count_nonzero(large))


def _shares(
    beliefs: Float[np.ndarray, "n N"], mean: Float[np.ndarray, "m N"], inverse: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " m"]:
    """`min(1, ε (ε+δ) / (1-ε))` of each cluster: the share of the bits at stake by which merging it may raise H."""
    ratio = np.divide(beliefs, mean[inverse], out=np.ones_like(beliefs), where=mean[inverse] > 0)
    below, above = np.zeros(len(mean)), np.zeros(len(mean))
    np.maximum.at(below, inverse, 1 - ratio.min(axis=1))
    np.maximum.at(above, inverse, ratio.max(axis=1) - 1)
    return np.where(below * (1 + below + above) < 1, below * (below + above) / np.maximum(1 - below, 0.1), 1.0)
