"""The return and its gradient estimated from drawn runs: the score-function estimate of the paper, unbiased."""

import numpy as np
from jaxtyping import Float

from ..common.errors import InputError
from .chain import Chain
from .paid import Paid
from .sampling import Runs


def sampled_gradient(chain: Chain, paid: Paid, runs: Runs) -> tuple[float, float, Float[np.ndarray, "T C A"]]:
    """The mean sum of a quantity over the runs, its standard error, and an estimate of the gradient `∂V/∂π_t(a|c)`.

    `∂V/∂π_t(a|c) ≈ (1/n) Σ_k 1[c_t^k = c, a_t^k = a] (G_t^k − b_t^k) / π_t(a|c)`, with the return still to come
    `G_t = Σ_{u=t}^{T-1} γ^u R(x_u,a_u) + γ^T R_T(x_T)` and `b_t^k` the mean of `G_t` over the *other* runs, which is
    independent of run k. The baseline moves all entries of a row alike, which a distribution cannot follow: the
    estimate is unbiased along every change that keeps the rows' sums, so `softmax_pull_back(chain.table, slope)` is an
    unbiased estimate of the gradient in θ. Entries that the policy never takes stay 0, as softmax has them.

    **Arguments:** `paid`: a quantity of the chain; `runs` drawn from that chain by `draw_runs`, two or more.

    Cost: `O(T · n)`.

    **Raises:** `InputError` where returns go on over an infinite horizon, or where there are fewer than two runs.
    """
    _check(paid, runs)
    hidden, number = chain.hidden, len(runs)
    times = np.arange(hidden.horizon)
    to_come = paid.discount**hidden.horizon * paid.terminal[runs.states[:, -1]][:, None]
    if hidden.horizon:
        gained = paid.discount**times * paid.reward[runs.states[:, :-1], runs.actions]
        to_come = to_come + np.cumsum(gained[:, ::-1], axis=1)[:, ::-1]
    total = to_come[:, 0]
    std_error = float(total.std(ddof=1) / np.sqrt(number))
    slope = np.zeros(chain.table.shape)
    if hidden.horizon:
        cells = hidden.cell[runs.states[:, :-1]]
        rows = np.zeros_like(times) if chain.stationary else times
        place = np.broadcast_to(rows, cells.shape), cells, runs.actions
        # G − (mean of the others) is n/(n−1) times G − (mean of all).
        advantage = (to_come - to_come.mean(axis=0)) / (number - 1)
        np.add.at(slope, place, advantage / chain.table[place])
    return float(total.mean()), std_error, slope


def _check(paid: Paid, runs: Runs) -> None:
    if paid.after is not None:
        raise InputError(
            "sampled return",
            ["the return goes on over an infinite horizon (return_over='infinite') and a run ends at the horizon, expected"
             " return_over='horizon': use the exact value and gradient, veil.measures.return_gradient"],
        )  # fmt: skip
    if len(runs) < 2:
        raise InputError("sampled return", [f"{len(runs)} runs are given, expected 2 or more for an error"])
