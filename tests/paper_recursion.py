"""The paper's own gradient: messages and their derivatives carried along together, for tests and benchmarks only.

"Information-theoretic opacity in Markov decision processes", on last-state and initial-state opacity; the names
of its equations stand in the comments. Its cost is `O(T · S² · |θ|)` a sequence, which the adjoint recursion of veil
avoids. To be a fair baseline it is batched over sequences and does its work in matrix products.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

# Derivatives of the messages of one chunk of sequences take at most this many numbers (256 MiB).
_CHUNK_NUMBERS = 2**25


@dataclass(frozen=True)
class PaperResult:
    """`joint[k, z] = P(z, y_k)`, `(M, Z)`; `bits` and `gradient` `(S, A)` of the entropy over the given sequences."""

    joint: np.ndarray
    bits: float
    gradient: np.ndarray


def all_sequences(num_observations: int, horizon: int) -> np.ndarray:
    """Every element of `O^{T+1}`, `(O^(T+1), T+1)`: what the exact sums of the paper run over."""
    return np.array(list(product(range(num_observations), repeat=horizon + 1)), dtype=int)


def paper_gradient(
    transitions: np.ndarray,
    emissions: np.ndarray,
    initial: np.ndarray,
    theta: np.ndarray,
    sequences: np.ndarray,
    secret: Literal["initial"] | Iterable[int],
    *,
    sampled: bool = False,
) -> PaperResult:
    """The entropy of the secret given the observations, and its gradient, by the paper's recursions.

    **Arguments:** `transitions` `(S, A, S)`; `emissions` `(S, O)`; `initial` `(S,)`; `theta` `(S, A)` of a softmax
    policy; `sequences` `(M, T+1)` of observations `o_0 … o_T`; `secret`, the states of the last-state secret, or
    `"initial"` for the initial state (each start is a value). `sampled`: take the mean over the sequences, as the
    paper's estimator does, in place of the sum weighted with `P(y)`, which is exact when all sequences are given.
    """
    policy = _softmax(theta)
    chain = np.einsum("ian,ia->in", transitions, policy)  # P_θ(i,j)
    # eq:P_i_j_calculation. θ(i,·) moves row i of the chain only: slope[i, a, j] = ∂P_θ(i,j) / ∂θ(i,a).
    slope = policy[:, :, None] * (transitions - chain[:, None, :])
    num_states, num_actions = policy.shape
    chunk = max(1, _CHUNK_NUMBERS // (num_states * num_states * num_actions))
    joints, gradient, bits = [], np.zeros(num_states * num_actions), 0.0
    for begin in range(0, len(sequences), chunk):
        seen = emissions.T[sequences[begin : begin + chunk]]  # b_j(o_t), (m, T+1, S)
        if isinstance(secret, str):
            joint, joint_slope = _initial_state(chain, slope, initial, seen)
        else:
            joint, joint_slope = _last_state(chain, slope, initial, seen, sorted(secret))
        part_bits, part_gradient = _entropy(joint, joint_slope, len(sequences) if sampled else None)
        bits, gradient = bits + part_bits, gradient + part_gradient
        joints.append(joint)
    return PaperResult(np.concatenate(joints), bits, gradient.reshape(policy.shape))


def _softmax(theta: np.ndarray) -> np.ndarray:
    weights = np.exp(theta - theta.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _last_state(
    chain: np.ndarray, slope: np.ndarray, initial: np.ndarray, seen: np.ndarray, secret: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """`P(z_T, y)`, `(m, 2)`, and its derivative, `(m, 2, S·A)`, from the forward messages."""
    count, length, num_states = seen.shape
    num_actions = slope.shape[1]
    rows = np.arange(num_states)
    alpha = initial * seen[:, 0]  # α_0(j) = μ_0(j) b_j(o_0)
    gradient = np.zeros((count, num_states * num_actions, num_states))  # ∇α_0(j) = 0; (m, θ, j)
    for t in range(1, length):
        # eq:update_gradient_forward_path_probability, first sum: Σ_i P_θ(i,j) b_j(o_t) ∇α_{t-1}(i)
        gradient = gradient @ chain
        # … second sum: Σ_i α_{t-1}(i) b_j(o_t) ∇P_θ(i,j), where only i = the row of the parameter is left of the sum
        by_row = gradient.reshape(count, num_states, num_actions, num_states)
        by_row += alpha[:, rows, None, None] * slope
        gradient *= seen[:, t, None, :]
        # eq:update_forward_path_probability: α_t(j) = Σ_i α_{t-1}(i) P_θ(i,j) b_j(o_t)
        alpha = (alpha @ chain) * seen[:, t]
    inside = np.zeros(num_states)
    inside[secret] = 1.0
    label = np.stack([1 - inside, inside], axis=1)
    # eq:HMM_P_zT_y without its denominator: P(Z_T = 1, y) = Σ_{k in E} α_T(k)
    return alpha @ label, np.swapaxes(gradient @ label, 1, 2)


def _initial_state(
    chain: np.ndarray, slope: np.ndarray, initial: np.ndarray, seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`P(s_0, y)`, `(m, starts)`, and its derivative, `(m, starts, S·A)`, from the backward messages."""
    count, length, num_states = seen.shape
    num_actions = slope.shape[1]
    beta = np.ones((count, num_states))  # β_T(i) = 1
    gradient = np.zeros((count, num_states * num_actions, num_states))  # ∇β_T(i) = 0; (m, θ, i)
    rows = np.arange(num_states)
    for t in range(length - 2, -1, -1):
        onward = seen[:, t + 1] * beta
        # eq:gradient_backward_algorithm, first sum: Σ_j P_θ(i,j) b_j(o_{t+1}) ∇β_{t+1}(j)
        gradient = (gradient * seen[:, t + 1, None, :]) @ chain.T
        # … second sum: Σ_j b_j(o_{t+1}) β_{t+1}(j) ∇P_θ(i,j), which touches the parameters of row i only
        by_row = gradient.reshape(count, num_states, num_actions, num_states)
        by_row[:, rows, :, rows] += np.einsum("mj,iaj->ima", onward, slope, optimize=True)
        # eq:backward_algorithm: β_t(i) = Σ_j β_{t+1}(j) P_θ(i,j) b_j(o_{t+1})
        beta = onward @ chain.T
    starts = np.flatnonzero(initial)
    # The paper has P(y|s_0) = β_0(s_0), which leaves out o_0 as its recursion does; corrected: b_{s_0}(o_0) β_0(s_0).
    # eq:bayes_rule without its denominator: P(s_0, y) = μ_0(s_0) P(y|s_0)
    factor = initial[starts] * seen[:, 0, starts]
    joint_slope = factor[:, :, None] * np.swapaxes(gradient[:, :, starts], 1, 2)
    return factor * beta[:, starts], joint_slope


def _entropy(joint: np.ndarray, joint_slope: np.ndarray, num_samples: int | None) -> tuple[float, np.ndarray]:
    """`H` and `∇H` over some sequences: eq:HMM_entropy and eq:HMM_gradient_entropy, or their sample means."""
    chance = joint.sum(axis=1)  # P(y)
    possible = chance > 0
    joint, joint_slope, chance = joint[possible], joint_slope[possible], chance[possible]
    posterior = joint / chance[:, None]
    chance_slope = joint_slope.sum(axis=1)  # ∇P(y)
    # eq:HMM_gradient_P_zT_y, eq:gradient_bayes_rule
    posterior_slope = joint_slope / chance[:, None, None]
    posterior_slope -= (posterior / chance[:, None])[:, :, None] * chance_slope[:, None, :]
    # 0 · log 0 = 0; a posterior that is zero for every θ has slope zero, so its logarithm does not matter.
    logs = np.log2(posterior, out=np.zeros_like(posterior), where=posterior > 0)
    log_slope = chance_slope / chance[:, None]  # ∇ log P(y)
    # eq:HMM_gradient_entropy, its three summands
    inner = np.einsum("mz,mzp->mp", logs, posterior_slope)
    inner += (posterior * logs).sum(axis=1)[:, None] * log_slope
    inner += posterior_slope.sum(axis=1) / np.log(2)
    weight = chance if num_samples is None else np.full(len(chance), 1 / num_samples)
    return float(-weight @ (posterior * logs).sum(axis=1)), -weight @ inner
