"""The loss of an observer who may be wrong: `E[−log2 q(Z|Y)]` of the rule that follows from what it assumes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock
from ..common.logs import code_lengths_bits
from ..engine.chain import Chain, make_chain
from ..policy.markov import MarkovPolicy
from ..policy.policy import Policy
from ..problem.belief import Belief
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .exact import Budget, walk_all
from .ladder import Method, Settings, answer, seconds_of
from .merged import Merged
from .question import Bounds, Gradient, Question, SecretValue, TooMany
from .result import Measured, Opacity
from .sampled import Chunk, Tally, sequence_pass

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

    @property
    def most_bits(self) -> float:
        """The most that a value can cost."""
        return math.inf if not self._doubt else float(code_lengths_bits(np.array(self._doubt / len(self._chain.prior))))

    def costs_bits(self, events: Int[np.ndarray, "n L"]) -> Float[np.ndarray, "n Z"]:
        """`−log2` of the rule for each sequence and value; infinite where the value was ruled out."""
        found = posteriors(self._chain, events)
        if self._doubt:  # added as it is: a difference from one would round a small doubt away
            found = (1 - self._doubt) * or_prior(found, self._chain.prior) + self._doubt / found.shape[1]
        return code_lengths_bits(found)


class _LossObjective:
    """Adds up `E[c(Z,Y)] = Σ P(z,y) c(z,y)`; its gradient is `c(z,y)`."""

    def __init__(self, rule: Rule):
        self.bits, self._rule = 0.0, rule

    def __call__(self, joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """See `Objective`."""
        possible, costs = np.flatnonzero(joint.any(axis=1)), np.zeros(joint.shape)
        if len(possible):
            costs[possible] = self._rule.costs_bits(events(possible))
        happens = joint > 0
        costs[~happens] = 0.0
        self.bits += float(joint[happens] @ costs[happens])
        return costs


@dataclass(frozen=True, eq=False)
class Loss(SecretValue):
    """`E[−log2 q(Z|Y)]` of the rule of an observer; infinite if the observer may rule out what happens."""

    rule: Rule

    def exact(self, budget: Budget, *, gradient: bool = False, reason: str = "") -> Measured:
        """Over all possible sequences."""
        objective, walk, slope = walk_all(
            self.chain, budget, lambda: _LossObjective(self.rule), gradient=gradient, keep_events=True
        )
        bits, prior = objective.bits, self.prior_bits(budget)
        return Measured(Opacity(bits, bits, bits, prior, "exact", int(walk.num_sequences), reason=reason), slope)

    def quick(self, budget: Budget, *, gradient: bool) -> Measured | TooMany:
        """All sequences, if they fit half of the time."""
        return Question.quick(self, budget, gradient=gradient)

    def bounds(self, budget: Budget, width: float, worth_seconds: float | None = None) -> Iterator[Bounds]:
        """Those that hold for every policy: a wrong rule may cost anything up to what its doubt allows."""
        yield Merged(0.0, self.rule.most_bits, 0)

    def draw(self, chunk: Chunk, clock: Clock, *, gradient: bool) -> tuple[Tally, Gradient | None]:
        """`Σ_z P(z|y) c(z,y)` of drawn sequences."""
        events = chunk.events(self.chain, clock)
        run = chunk.run(self.chain, events, clock, gradient=gradient)
        posterior, (_, first) = run.result.posterior, np.unique(run.result.index, return_index=True)
        costs = np.where(posterior > 0, self.rule.costs_bits(events[first]), 0.0)
        return chunk.estimate(run, np.sum(posterior * costs, axis=1), costs if gradient else None)


def loss(
    problem: Problem,
    policy: Policy,
    belief: Belief,
    method: Method = "exact",
    *,
    pair: str = OWN,
    sequences: int = 2000,
    seed: int = 0,
    time_limit: float | None = None,
) -> Opacity:
    """The loss `E[−log2 q(Z|Y)]` in bits under a policy; infinite if the observer may rule out what happens.

    At least `H(Z|Y)`, and equal to it if the belief is right. **Arguments:** as for `veil.opacity`; `belief`: what the observer
    of the pair assumes.

    **Raises:** `InputError` if the belief does not fit the problem; `TooLargeError` if the sequences are too many.
    """
    question = Loss(make_chain(problem, policy, pair=pair), Rule(problem.only(pair), belief))
    settings = Settings(method, Budget(_MEMORY, seconds_of(method, time_limit)), sequences=sequences, seed=seed)
    return answer(question, settings).opacity
