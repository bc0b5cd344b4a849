"""The paper's initial-state formulas as printed, in which `P(y|s_0)` leaves out the first reading.

Equation for β: `β_0(i) = P(o_1 … o_T | s_0 = i)`, and the text then takes `P(y|s_0 = i) = β_0(i)`, while `P(y)` comes from the
forward messages, which hold o_0. So the "posterior" of the text is

    p(s_0|y) = μ_0(s_0) β_0(s_0) / P(y),      and its number   −Σ_y P(y) Σ_{s_0} p(s_0|y) log2 p(s_0|y).

These p do not sum to one, some are above one, and the number is no entropy: it may be negative. Made to sum to one they are
`P(s_0|o_1 … o_T)`, and the number is the opacity against an observer who does not see o_0.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from veil.common.clock import Clock
from veil.common.logs import log2_or_zero, natural_log, row_sums
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.sampling import draw_events
from veil.engine.size import tree_size
from veil.planning.backend import Backend
from veil.planning.bits import one_by_one
from veil.planning.policy_class import Space
from veil.policy.policy import Policy
from veil.problem.problem import Problem

_BITS_A_NAT = 1 / float(natural_log(np.array([2.0]))[0])


class LiteralObjective:
    """Adds up the number over suffixes `o_1 … o_T`, given the weights `w(s_0) = μ_0(s_0) β_0(s_0)` of each.

    A suffix goes with every first reading o that is possible then: `P(y) = Σ_s b_s(o) w(s)`, and its part is
    `Σ_o Σ_s w(s) (log2 P(y) − log2 w(s))`, the sums over `P(y) > 0`.

    **Arguments:** `readings`, `(Z, O)`: `b_s(o)` of each start.
    """

    def __init__(self, readings: Float[np.ndarray, "Z O"]):
        self.bits = 0.0
        self._readings = readings

    def __call__(
        self, joint: Float[np.ndarray, "m Z"], events: Callable[[np.ndarray], np.ndarray]
    ) -> Float[np.ndarray, "m Z"]:
        """See `engine.joint.Objective`."""
        given = joint @ self._readings
        firsts = np.count_nonzero(given, axis=1)[:, None]
        total, seen = row_sums(joint)[:, None], row_sums(log2_or_zero(given))[:, None]
        own = log2_or_zero(joint)
        self.bits += float(np.sum(total * seen) - np.sum(joint * own * firsts))
        inverse = np.divide(1.0, given, out=np.zeros_like(given), where=given > 0)
        return seen - firsts * (own + _BITS_A_NAT) + _BITS_A_NAT * total * (inverse @ self._readings.T)


def to_climb(space: Space, readings: Float[np.ndarray, "Z O"]) -> Backend:
    """The number as something to maximise: what the paper's algorithm climbs where its formulas are followed to the letter.

    **Arguments:** `space` of the problem whose observer does not see o_0, since the weights of the suffixes are its joint
    table; `readings` as for `LiteralObjective`.
    """

    def bits(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
        objective = LiteralObjective(readings)
        slope = _walk(chain).run(objective, gradient=True)
        assert slope is not None
        return objective.bits, slope

    return Backend(one_by_one(space, bits), "the paper's formulas as printed", 0.03)


def literal_bits(unseen: Problem, policy: Policy, readings: Float[np.ndarray, "Z O"]) -> float:
    """The number of a policy, exact, from the problem whose observer does not see o_0."""
    objective = LiteralObjective(readings)
    _walk(make_chain(unseen, policy)).run(objective)
    return objective.bits


def first_readings(problem: Problem) -> Float[np.ndarray, "Z O"]:
    """`b_s(o)` of each start, in the order of the values of an initial-state secret whose starts are not grouped."""
    starts = np.flatnonzero(problem.models[0].initial)
    return problem.observer.emissions[starts]


def sampled_literal_bits(problem: Problem, policy: Policy, seed: int, sequences: int) -> tuple[float, float]:
    """The number estimated as the paper does, `−(1/M) Σ_k Σ_{s_0} p log2 p` over sampled y, and its standard error.

    **Arguments:** `problem`: the one whose observer sees o_0.
    """
    chain = make_chain(problem, policy)
    events = draw_events(chain, sequences, np.random.default_rng([seed, 3]))
    weights = _suffix_weights(chain, events)
    starts = np.flatnonzero(chain.hidden.start)
    given = np.einsum(
        "sk,sk->k", weights, (chain.hidden.root / chain.hidden.start.clip(1e-300)[:, None])[:, events[:, 0]]
    )
    posterior = weights[starts] / given
    terms = -np.sum(posterior * log2_or_zero(posterior), axis=0)
    return float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(sequences))


def _suffix_weights(chain: Chain, events: np.ndarray) -> Float[np.ndarray, "N k"]:
    """`μ_0(s) β_0(s)` along sequences, by the paper's backward recursion."""
    hidden = chain.hidden
    emission, beta = np.asarray(hidden.emitters[0].emission), np.ones((hidden.num_states, len(events)))
    for time in range(hidden.horizon - 1, -1, -1):
        beta = chain.pull(emission[:, events[:, time + 1]] * beta, time)
    return hidden.start[:, None] * beta


def _walk(chain: Chain) -> JointWalk:
    size = tree_size(chain)
    return JointWalk(chain, meet=size.meet, outer=size.outer)
