"""`veil.smoother`: where the agent was at each time, and its most likely path, from all observations together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.errors import ImpossibleObservationError, InputError
from ..common.logs import log2_of_tables, log2_or_zero, probability_of_bits
from ..common.values import Value
from ..policy.player import Observation
from ..policy.policy import Policy
from ..problem.problem import Problem
from .chain import Chain, make_chain, sum_over
from .hidden import event_name, event_number
from .step import Extension, Step


@dataclass(frozen=True, eq=False, repr=False)
class Smoothed(Value):
    """What all observations together tell of the path.

    **Attributes:** `probability` of the observations; `states`, `(n, S)`: `P(s_t = s | y)` for each time t; `path`: the most
    likely path, by the names of its states; `path_probability`: `P(path | y)`.
    """

    probability: float
    states: Float[np.ndarray, "n S"]
    path: tuple[str, ...]
    path_probability: float


class Smoother:
    """Smoothed probabilities for an observer that knows the model and the policy.

    Unlike `ObserverFilter`, which has seen the past alone at each time, it uses later observations for earlier states. It
    does not depend on the secret, which may also be a whole path.
    """

    def __init__(self, problem: Problem, policy: Policy):
        self.problem, self._chain = problem, make_chain(problem, policy, paths=True)

    def __repr__(self) -> str:
        return f"Smoother({self.problem.name!r})"

    def smooth(self, observations: Sequence[Observation]) -> Smoothed:
        """The probabilities of all states up to the last observation, and the most likely path (Viterbi's algorithm).

        Of a policy with memory, a path is one of states and memory: where its states do not tell the memory (a controller), the
        path that is found is that of the most likely pair.

        **Arguments:** `observations`: all that were received so far, by name or index; pairs (action, observation) after
        the first where the observer sees actions.

        Cost: `O(n · nnz(P))` for the probabilities, with a sort for the path.

        **Raises:** `ImpossibleObservationError` at the first observation that is impossible after those before it;
        `InputError` where one is unknown, there is none, or there are more than the horizon allows.
        """
        events = self._events(observations)
        forward, bits = self._forward(events)
        hidden, backward = self._chain.hidden, np.ones((1, self._chain.hidden.num_states))
        states = np.empty((len(events), self.problem.num_states))
        for time in range(len(events) - 1, -1, -1):
            both = (forward[time] * backward)[0]
            states[time] = np.bincount(hidden.state, both / both.sum(), minlength=self.problem.num_states)
            if time > 0:
                level = Extension.by(events[time], np.zeros(1, dtype=int))
                backward = Step.of(self._chain, time - 1).backward(backward, level)
                backward = backward / backward.max()
        path, best = _most_likely(self._chain, events)
        names = tuple(self.problem.model.states[int(hidden.state[x])] for x in path)
        chance = probability_of_bits(best - bits)
        return Smoothed(probability_of_bits(bits), states, names, min(1.0, chance))

    def _events(self, observations: Sequence[Observation]) -> list[int]:
        """The events from time 0 on; 0 at time 0 where nothing is received then."""
        if isinstance(observations, str) or not isinstance(observations, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError("observations", [f"found {observations!r}, expected a list of observations"])
        first = 0 if self.problem.observer.sees_first else 1
        most = self.problem.horizon + 1 - first
        if not len(observations) <= most:
            raise InputError("observations", [f"found {len(observations)}, expected at most {most}"])
        if first == 0 and not observations:
            raise InputError("observations", ["found none, expected at least one"])
        return [0] * first + [event_number(self.problem, one, time) for time, one in enumerate(observations, first)]

    def _forward(self, events: list[int]) -> tuple[list[Float[np.ndarray, "1 N"]], float]:
        """`P(x_t | y_0 … y_t)` for each time, and `log2 P(y)`."""
        rows, found, bits = self._chain.hidden.root[None, :, events[0]], [], 0.0
        for time, event in enumerate(events):
            if time > 0:
                rows = Step.of(self._chain, time - 1).forward(found[-1], Extension.by(event, np.zeros(1, dtype=int)))
            total = rows.sum()
            if total == 0:
                name = event_name(self.problem, event, time)
                raise ImpossibleObservationError(
                    f"observation {name!r} at time {time} is impossible under the model and the policy after what was seen"
                    " before"
                )
            found.append(rows / total)
            bits += float(log2_or_zero(np.asarray(total)))
        return found, bits


def smoother(problem: Problem, policy: Policy) -> Smoother:
    """Smoothed probabilities of paths for an observer that knows the model and the policy: `smoother(…).smooth(observations)`.

    **Raises:** `InputError` where the policy does not fit the problem, or the observer has no clock.
    """
    return Smoother(problem, policy)


def _most_likely(chain: Chain, events: list[int]) -> tuple[Int[np.ndarray, " n"], float]:
    """The path `x_0 … x_t` of largest `P(x_0 … x_t, y)`, and the logarithm of that, in bits."""
    best = log2_of_tables(chain.hidden.root[:, events[0]])
    before: list[np.ndarray] = []
    for time, event in enumerate(events[1:]):
        parts = zip(chain.matrices(time), chain.hidden.emitters, strict=True)
        step = sum_over(
            sp.csr_array(sp.csr_array(matrix) @ sp.diags_array(emitter.by_event[event])) for matrix, emitter in parts
        )
        step = sp.coo_array(step)
        taken = np.flatnonzero((step.data > 0) & np.isfinite(best[step.row]))
        row, column = step.row[taken], step.col[taken]
        score = best[row] + log2_or_zero(step.data[taken])
        order = np.lexsort((-row, score, column))  # of equal scores the first state
        last = np.flatnonzero(np.append(column[order][1:] != column[order][:-1], True))
        best, source = np.full(len(best), -np.inf), np.full(len(best), -1)
        best[column[order][last]], source[column[order][last]] = score[order][last], row[order][last]
        before.append(source)
    path = [int(np.argmax(best))]
    for source in reversed(before):
        path.append(int(source[path[-1]]))
    return np.array(path[::-1]), float(best.max())
