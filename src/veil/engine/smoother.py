"""`veil.smoother`: where the agent was at each time, and its most likely path, from all observations together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.errors import ImpossibleObservationError, InputError
from ..common.logs import log2_of_tables, log2_or_zero, natural_log, probability_of_bits
from ..common.values import Value
from ..policy.player import Observation
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .chain import Chain, make_chain, sum_over
from .hidden import event_name, event_number
from .sequences import Trie, TrieSide
from .strings import StringSide, ratio
from .written import Strings

_NATS_A_BIT = float(natural_log(np.array(2.0)))


@dataclass(frozen=True, eq=False, repr=False)
class Smoothed(Value):
    """What all observations together tell of the path.

    **Attributes:** `probability` of the observations; `states`, `(n, S)`: `P(s_t = s | y)` for each time t; `path`: the most
    likely path, by the names of its states; `path_probability`: `P(path | y)`, without a clock that of the path together with
    the times of the observations.
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

    def __init__(self, problem: Problem, policy: Policy, *, pair: str = OWN):
        self._chain = make_chain(problem, policy, pair=pair)
        self.problem = problem.only(pair)

    def __repr__(self) -> str:
        return f"Smoother({self.problem.name!r})"

    def smooth(self, observations: Sequence[Observation]) -> Smoothed:
        """The probabilities of all states up to the last observation, and the most likely path (Viterbi's algorithm).

        Of a policy with memory, a path is one of states and memory: where its states do not tell the memory (a controller), the
        path that is found is that of the most likely pair. For an observer without a clock the run is over, with the string of
        these observations: all times from 0 to T are smoothed, and the path is that of the most likely pair of a path and the
        times of the observations.

        **Arguments:** `observations`: all that were received so far, by name or index; pairs (action, observation) after
        the first where the observer sees actions. Silent ones count for nothing if the observer has no clock.

        Cost: `O(n · nnz(P))` for the probabilities, with a sort for the path; without a clock times the number of
        observations.

        **Raises:** `ImpossibleObservationError` at the first observation that is impossible after those before it;
        `InputError` where one is unknown, there is none, or there are more than the horizon allows.
        """
        if isinstance(observations, str) or not isinstance(observations, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError("observations", [f"found {observations!r}, expected a list of observations"])
        found = _Lattice(self, observations)
        hidden = self._chain.hidden
        states = np.stack([np.bincount(hidden.state, row, minlength=self.problem.num_states) for row in found.states()])
        path, best = _most_likely(*found.steps(), hidden.num_states)
        names = tuple(self.problem.model.states[int(hidden.state[x % hidden.num_states])] for x in path)
        return Smoothed(
            probability_of_bits(found.bits), states, names, min(1.0, probability_of_bits(best - found.bits))
        )


class _Lattice:
    """The messages of some observations: at each time one for each number of letters that may have been written.

    With a clock that is one, and `letters` are left empty.
    """

    def __init__(self, smoother: Smoother, observations: Sequence[Observation]):
        self.problem, self.chain, self.letters = smoother.problem, smoother._chain, list[int]()
        self.events, hidden, written = np.zeros(0, dtype=np.int64), self.chain.hidden, self.chain.hidden.written
        if written is None:
            self.events = np.array(self._events(observations))
            chain, rows = self.chain.during(0, len(self.events) - 1), self.events[None]
            sides = TrieSide(chain, Trie.of(rows)), TrieSide(chain, Trie.of(rows[:, :0:-1]), backward=True)
        else:
            events = [event_number(self.problem, one, 1) for one in observations]
            self.letters = [int(letter) for letter in written.letter[events] if letter >= 0] if events else []
            most = hidden.horizon + int(written.starts)
            if len(self.letters) > most:
                words = f"found {len(self.letters)} that are not silent, expected at most {most}"
                raise InputError("observations", [words])
            row = np.full((1, hidden.horizon + 1), -1, dtype=np.int32)
            row[0, : len(self.letters)] = self.letters
            tries, last = Strings(row, np.zeros_like(row)), hidden.horizon
            sides = (
                StringSide(self.chain, tries.prefixes, last),
                StringSide(self.chain, tries.suffixes, last, backward=True),
            )
        self.forward, self.backward = list(sides[0].walk()), list(sides[1].walk())[::-1]
        possible = [len(logs) > len(self.letters) and logs[len(self.letters)] > -np.inf for _, logs in self.forward]
        if not possible[-1]:
            words = "under the model and the policy no run shows exactly these observations"
            if written is None:
                time = possible.index(False)
                name = event_name(self.problem, int(self.events[time]), time)
                words = f"observation {name!r} at time {time} is impossible under the model and the policy after what was seen"
                words += " before"
            raise ImpossibleObservationError(words)
        self.bits = float(self.forward[-1][1][len(self.letters)]) / _NATS_A_BIT

    def _events(self, observations: Sequence[Observation]) -> list[int]:
        """The events from time 0 on; 0 at time 0 where nothing is received then."""
        first = 0 if self.problem.observer.sees_first else 1
        most = self.problem.horizon + 1 - first
        if not len(observations) <= most:
            raise InputError("observations", [f"found {len(observations)}, expected at most {most}"])
        if first == 0 and not observations:
            raise InputError("observations", ["found none, expected at least one"])
        return [0] * first + [event_number(self.problem, one, time) for time, one in enumerate(observations, first)]

    def states(self) -> Iterator[Float[np.ndarray, " N"]]:
        """`P(x_t | the string)` for each time."""
        for (alpha, before), (beta, after) in zip(self.forward, self.backward, strict=True):
            # j letters written leave the others to write: nodes are numbered by their letters
            number = np.arange(max(0, len(self.letters) - len(beta) + 1), min(len(alpha) - 1, len(self.letters)) + 1)
            left = len(self.letters) - number
            logs = before[number] + after[left]
            both = (ratio(logs, logs.max())[:, None] * alpha[number, 0] * beta[left, 0]).sum(axis=0)
            yield both / both.sum()

    def steps(self) -> "tuple[np.ndarray, Iterable[sp.coo_array]]":
        """`P(x_0, first event)` of each pair (letters written, state), and the steps between such pairs."""
        hidden, written, size = self.chain.hidden, self.chain.hidden.written, len(self.letters) + 1
        if written is None:
            each = (_step(self.chain, time, event) for time, event in enumerate(self.events[1:].tolist()))
            return hidden.root[:, self.events[0]], each
        none, letters = np.zeros(size, dtype=int), np.array([-1, *self.letters])
        first, later = (written.events(time, none, letters).tolist() for time in (0, 1))
        start = np.zeros((size, hidden.num_states))
        for number, event in enumerate(first[:2]):
            if event >= 0:
                start[number] = hidden.root[:, event]

        def step(time: int) -> sp.coo_array:
            by_event = {event: _step(self.chain, time, event) for event in set(later)}
            blocks: list[list[sp.coo_array | None]] = [[None] * size for _ in range(size)]
            for number in range(size):
                blocks[number][number] = by_event[later[0]]
                if number:
                    blocks[number - 1][number] = by_event[later[number]]
            return sp.coo_array(sp.block_array(blocks))

        return start.ravel(), map(step, range(hidden.horizon))


def smoother(problem: Problem, policy: Policy, *, pair: str = OWN) -> Smoother:
    """Smoothed probabilities of paths for an observer that knows the model and the policy: `smoother(…).smooth(observations)`.

    **Arguments:** `problem`, `policy`; `pair`: the pair whose observer counts, by name; the problem's own by default.

    **Raises:** `InputError` if the policy does not fit the problem.
    """
    return Smoother(problem, policy, pair=pair)


def _step(chain: Chain, time: int, event: int) -> sp.coo_array:
    """`P(x', event | x)` at a step."""
    parts = zip(chain.matrices(time), chain.hidden.emitters, strict=True)
    return sp.coo_array(
        sum_over(
            sp.csr_array(sp.csr_array(matrix) @ sp.diags_array(emitter.by_event[event])) for matrix, emitter in parts
        )
    )


def _most_likely(
    start: Float[np.ndarray, " N"], steps: Iterable[sp.coo_array], num_last: int
) -> tuple[Int[np.ndarray, " n"], float]:
    """The path of largest probability from the start by all steps, and the logarithm of that, in bits.

    It ends in one of the last states, of which there are `num_last`.
    """
    best = log2_of_tables(start)
    before: list[np.ndarray] = []
    for step in steps:
        taken = np.flatnonzero((step.data > 0) & np.isfinite(best[step.row]))
        row, column = step.row[taken], step.col[taken]
        score = best[row] + log2_or_zero(step.data[taken])
        order = np.lexsort((-row, score, column))  # of equal scores the first state
        last = np.flatnonzero(np.append(column[order][1:] != column[order][:-1], True))
        best, source = np.full(len(best), -np.inf), np.full(len(best), -1)
        best[column[order][last]], source[column[order][last]] = score[order][last], row[order][last]
        before.append(source)
    path = [len(best) - num_last + int(np.argmax(best[-num_last:]))]
    for source in reversed(before):
        path.append(int(source[path[-1]]))
    return np.array(path[::-1]), float(best[-num_last:].max())
