"""The loss of an observer who may be wrong: `E[−log2 q(Z|Y)]` of the rule that follows from what it assumes."""

import itertools
import math

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.logs import code_lengths_bits
from ..engine.chain import Chain, make_chain
from ..engine.sampling import draw_events
from ..policy.markov import MarkovPolicy
from ..policy.policy import Policy
from ..problem.belief import Belief
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .exact import EXACT_SECONDS
from .measures import joint_table
from .sampled import Tally, chunks_of, late, sequence_pass, timely_sizes

_MEMORY = 2**29  # bytes of messages
_AT_ONCE = 2**15  # sequences; more at a time are no faster


def at_once(chain: Chain) -> int:
    """How many sequences fit the memory at a time."""
    hidden = chain.hidden
    numbers = hidden.num_states * hidden.label.shape[1] * 4 + hidden.horizon + 1
    return max(1, min(_AT_ONCE, _MEMORY // (8 * numbers)))


def posteriors(chain: Chain, events: Int[np.ndarray, "n L"]) -> Float[np.ndarray, "n Z"]:
    """`P(z|y)` of whole sequences under a chain; a row of zeros for one that is impossible."""
    parts, step = [], at_once(chain)
    for begin in range(0, len(events), step):
        part = events[begin : begin + step]
        run = sequence_pass(chain, part, gradient=False, memory_bytes=_MEMORY, pad_to=min(step, len(events)))
        parts.append(run.result.posterior[run.result.index])
    return np.concatenate(parts)


def or_prior(posterior: Float[np.ndarray, "n Z"], prior: Float[np.ndarray, " Z"]) -> Float[np.ndarray, "n Z"]:
    """What an observer goes by: its posterior, or its prior after a sequence that it held impossible (a row of zeros)."""
    return np.where(posterior.any(axis=1, keepdims=True), posterior, prior)


class Rule:
    """The rule of an observer, from what it assumes: `(1 − ε) q(z|y) + ε / Z`, with its prior as q for what it held impossible.

    Without doubt (ε = 0) what it held impossible costs infinitely many bits.

    **Raises:** `InputError` where the belief does not fit the problem.
    """

    def __init__(self, problem: Problem, belief: Belief):
        assumed = belief.problem(problem)
        policy = belief.policy if isinstance(belief.policy, Policy) else MarkovPolicy.uniform(assumed)
        self._chain, self._doubt = make_chain(assumed, policy), belief.doubt

    def costs_bits(self, events: Int[np.ndarray, "n L"]) -> Float[np.ndarray, "n Z"]:
        """`−log2` of the rule for each sequence and value; infinite where the value was ruled out."""
        found = posteriors(self._chain, events)
        if self._doubt:  # added as it is: a difference from one would round a small doubt away
            found = (1 - self._doubt) * or_prior(found, self._chain.prior) + self._doubt / found.shape[1]
        return code_lengths_bits(found)


def sampled_loss(
    problem: Problem,
    policy: Policy,
    belief: Belief,
    *,
    pair: str = OWN,
    sequences: int = 2000,
    seed: int = 0,
    clock: Clock = UNLIMITED,
) -> tuple[float, float]:
    """`E[−log2 q(Z|Y)]` in bits, the mean of `Σ_z P(z|y) c(z,y)` over drawn sequences, and its standard error.

    Infinite, with error 0, where the observer rules out what happens in one of them. `clock`: where the time does not
    suffice, the estimate is that of the sequences so far.

    **Raises:** `InputError` where the belief does not fit the problem; `TooLargeError` where no sequences fit the time.
    """
    rule = Rule(problem.only(pair), belief)
    chain, tally = make_chain(problem, policy, pair=pair), Tally()
    sizes = timely_sizes(chain, sequences, _MEMORY, clock, gradient=False)
    try:
        for chunk in itertools.islice(chunks_of(sizes, sequences, seed, _MEMORY), len(sizes)):
            events = draw_events(chain, chunk.size, chunk.generator(), clock)
            joint = posteriors(chain, events)
            clock.check()
            costs = np.where(joint > 0, rule.costs_bits(events), 0.0)
            tally.add(Tally.of(np.ones(len(events)), np.sum(joint * costs, axis=1)))
    except OutOfTime:
        late(tally, f"{sequences:,}", "")
    return (tally.mean, tally.std_error) if math.isfinite(tally.total) else (math.inf, 0.0)


def loss_bits(
    problem: Problem, policy: Policy, belief: Belief, *, pair: str = OWN, time_limit: float | None = None
) -> float:
    """`E[−log2 q(Z|Y)]` in bits under a policy, exact; infinite where the observer may rule out what happens.

    At least `H(Z|Y)`, and equal to it where the belief is right. **Arguments:** `pair`: whose secret and observer;
    `time_limit`: seconds, 300 by default.

    **Raises:** `InputError` where the belief does not fit the problem; `TooLargeError` where the sequences are too many.
    """
    rule = Rule(problem.only(pair), belief)
    table = joint_table(problem, policy, pair=pair, time_limit=EXACT_SECONDS if time_limit is None else time_limit)
    joint, costs = table.probabilities, rule.costs_bits(table.events)
    happens = joint > 0
    return float(joint[happens] @ costs[happens])
