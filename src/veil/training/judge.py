"""The answer of a training: a fresh observer on fresh runs, and the true values where a model is known."""

from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Float

from ..common.logs import entropy_bits, log2_or_zero
from ..learning.audited import mean_estimate
from ..learning.recurrent import fitted, predict
from ..measure.evaluate import expected_return, opacity
from ..policy.markov import MarkovPolicy, TimedPolicy
from ..problem.problem import Problem
from .coding import Coding
from .search import Search
from .trained import Trained, flat

_CERTAIN = "The secret is {!r} in every fresh run: there is nothing to hide."
_FITTED_SHARE = 2 / 3  # of the fresh runs, to which the fresh observer is fitted


def judged(search: Search, runs: int, confidence: float, notes: list[str]) -> Trained:
    """The best agent of a training, with what fresh runs say of it."""
    state, settings = search.state, search.settings
    values, readings, returns = search.sample(state.best, runs)
    code, shares = code_lengths(values, readings, search.playing.horizon + 1, settings.seed)
    found = Trained(
        loss_bits=mean_estimate(code, confidence),
        prior_bits=float(entropy_bits(shares)),
        expected_return=mean_estimate(returns, confidence),
        min_return=settings.min_return,
        opacity=None,
        true_return=None,
        history=tuple(state.history),
        num_episodes=state.iteration * search.playing.env.num_envs,
        evaluation_runs=runs,
        confidence=confidence,
        seed=settings.seed,
        notes=tuple(notes if np.count_nonzero(shares) > 1 else [*notes, _CERTAIN.format(values[0])]),
        shape=search.shape,
        arrays=flat(jax.tree.map(np.asarray, state.best)),
        allowed=None if search.allowed is None else np.asarray(search.allowed),
    )
    return found if search.playing.problem is None else _with_truth(found, search.playing.problem)


def code_lengths(
    values: list[str], readings: list[list[object]], longest: int, seed: int
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " Z"]]:
    """`−log2 q(z|y)` of a third of the runs, for a fresh observer fitted to the others, and the shares of the values.

    The observer's rule is mixed with `1/n` of the uniform one, so that no run can cost more than a few bits.
    """
    coding = Coding.of(values, readings, longest)
    secret, (inputs, lengths) = coding.secret(values), coding.inputs(readings)
    cut = round(_FITTED_SHARE * len(values))
    params = fitted(inputs[:cut], lengths[:cut], secret[:cut], len(coding.values), coding.num_inputs, seed)
    chances = predict(params, inputs[cut:], lengths[cut:])
    doubt = 1 / (cut + 2)
    mixed = (1 - doubt) * chances + doubt / chances.shape[1]
    right = mixed[np.arange(len(values) - cut), secret[cut:]]
    return -log2_or_zero(right), np.bincount(secret, minlength=len(coding.values)) / len(secret)


def _with_truth(found: Trained, problem: Problem) -> Trained:
    """The same with the opacity and the return under the model, whose further states are never met by the agent."""
    table = found.policy().table
    more = np.broadcast_to(
        MarkovPolicy.uniform(problem).probabilities[table.shape[1] :],
        (len(table), problem.num_cells - table.shape[1], table.shape[2]),
    )
    rows = np.concatenate([table, more], axis=1)
    policy = MarkovPolicy(rows[0]) if len(rows) == 1 else TimedPolicy(rows[: problem.horizon])
    return replace(found, opacity=opacity(problem, policy), true_return=expected_return(problem, policy))
