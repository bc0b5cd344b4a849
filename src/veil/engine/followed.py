"""What a history policy reaches: the situations of each time, the steps between them, and one chain of them all.

For the observer everything that the policy reads is hidden. A situation is (node of the policy's graph, hidden state, value
of the secret once it is settled, newest event); only those are kept that the policy itself reaches. Laid side by side over
all times they are the states of one chain, in which the newest event tells what was emitted and one table serves all times.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.errors import InputError, TooLargeError
from ..common.memo import memo
from ..common.numbering import ragged
from ..policy.history import HistoryPolicy
from ..problem.apart import apart
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..problem.secrets.secret import SecretTable
from ..problem.together import Together
from .compile import build, build_following, one_hot
from .hidden import Emitter, Hidden
from .kernel import make_kernel
from .moves import Moves, situations
from .written import Written

_MOST_NUMBERS = 2**26  # transitions of all times together: 1 GiB with their places
_WHERE = "history policy"


@dataclass(frozen=True, eq=False)
class Situations:
    """Those of one time: situation i is (`node[i]`, `x[i]`, `z[i]`, `event[i]`); `choice[i]` its action probabilities.

    `z` is the value of the secret that the policy knows of, -1 while it is open. At time T there is nothing to choose: the
    rows of `choice` are zero.
    """

    node: Int[np.ndarray, " n"]
    x: Int[np.ndarray, " n"]
    z: Int[np.ndarray, " n"]
    event: Int[np.ndarray, " n"]
    choice: Float[np.ndarray, "n A"]

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, eq=False)
class FollowedStep:
    """The transitions from one time to the next: `P(there | here, action)`, where the policy takes the action."""

    action: Int[np.ndarray, " m"]
    here: Int[np.ndarray, " m"]
    there: Int[np.ndarray, " m"]
    probability: Float[np.ndarray, " m"]

    def matrix(self, before: Situations, after: Situations) -> sp.csr_array:
        """`P(there | here)` under the policy, `(n, n')`."""
        weight = self.probability * before.choice[self.here, self.action]
        return sp.csr_array(sp.coo_array((weight, (self.here, self.there)), shape=(len(before), len(after))))


@dataclass(frozen=True, eq=False)
class Followed:
    """All that a policy reaches. `start[i]` is the probability of situation i of time 0.

    Events are those that the observer receives, of which there are `num_first` and `num_events`; the policy may act on others.
    `written`: what an observer without a clock holds of them; see `Hidden`.
    """

    hidden: Hidden
    start: Float[np.ndarray, " n"]
    layers: tuple[Situations, ...]
    steps: tuple[FollowedStep, ...]
    num_first: int
    num_events: int
    written: Written | None = None

    def matrices(self) -> list[sp.csr_array]:
        """The steps under the policy, one for each time."""
        return [step.matrix(*self.layers[t : t + 2]) for t, step in enumerate(self.steps)]

    def occupancies(self) -> list[Float[np.ndarray, " n"]]:
        """The probability of each situation, for each time."""
        found = [self.start]
        for matrix in self.matrices():
            found.append(matrix.T @ found[-1])
        return found

    def chain_parts(self) -> tuple[Hidden, Float[np.ndarray, "1 C A"]]:
        """All situations of all times as the states of one hidden chain, and the policy as its table."""
        sizes = [len(layer) for layer in self.layers]
        begin = np.concatenate([[0], np.cumsum(sizes)])
        total, hidden, split = int(begin[-1]), self.hidden, self.hidden.split_time
        x = np.concatenate([layer.x for layer in self.layers])
        event = np.concatenate([layer.event for layer in self.layers])
        first = self.layers[0]
        places = (np.arange(len(first)), first.event)
        root = sp.csr_array((self.start, places), shape=(total, self.num_first))
        places = (np.arange(sizes[0], total), event[sizes[0] :])
        emission = sp.csr_array((np.ones(total - sizes[0]), places), shape=(total, self.num_events))
        value = np.full(total, -1)
        value[begin[split] : begin[split + 1]] = hidden.value[self.layers[split].x]
        product = hidden.at(
            x,
            kernel=make_kernel(self._by_action(begin)),
            start=np.concatenate([self.start, np.zeros(total - sizes[0])]),
            first=root,
            emitters=(Emitter(np.ones(hidden.kernel.num_actions, dtype=bool), emission),),
            cell=np.arange(total),
            num_cells=total,
            labels=one_hot(value, hidden.num_values),
            written=self.written,
        )
        return product, np.concatenate([layer.choice for layer in self.layers])[None]

    def _by_action(self, begin: np.ndarray) -> list[sp.csr_array]:
        total, none = int(begin[-1]), np.zeros(0, dtype=np.int64)
        action = np.concatenate([none, *(step.action for step in self.steps)])
        rows = np.concatenate([none, *(step.here + begin[time] for time, step in enumerate(self.steps))])
        columns = np.concatenate([none, *(step.there + begin[time + 1] for time, step in enumerate(self.steps))])
        data = np.concatenate([np.zeros(0), *(step.probability for step in self.steps)])
        matrices = []
        for number in range(self.hidden.kernel.num_actions):
            part = np.flatnonzero(action == number)
            places = (rows[part], columns[part])
            matrices.append(sp.csr_array(sp.coo_array((data[part], places), shape=(total, total))))
        return matrices


def _with_secret(problem: Problem, table: SecretTable) -> tuple[Hidden, Hidden]:
    """The chain of a problem that also follows another secret, and the same with that secret in place of its own."""
    hidden, held = build_following(problem, table.register)
    label = np.broadcast_to(table.label, (len(problem.models), *table.label.shape[1:]))
    labels = one_hot(label[hidden.model_index, held, hidden.state], len(table.value_names))
    path = None if table.path is None else table.path[hidden.state]
    each = None if table.each is None else table.each.at(hidden.state)
    return hidden, replace(hidden, labels=labels, split_time=table.time, path=path, each=each)


def follow(problem: Problem, policy: HistoryPolicy, pair: str = OWN) -> Followed:
    """The situations that a policy reaches in a problem; found once for each policy, problem and pair.

    **Arguments:** `pair`: whose secret and observer count; the policy may act on what others see.

    Cost: linear in the transitions between them.

    **Raises:** `InputError` where the policy does not fit the problem; `TooLargeError` where they are too many.
    """
    return memo(policy, (follow, problem, pair), lambda: _Follower(problem, policy, pair).all())


class _Follower:
    """Grows the situations layer by layer."""

    def __init__(self, problem: Problem, policy: HistoryPolicy, pair: str):
        channel = problem.channel(pair)
        self.written = Written.by(channel.observer)
        policy.check(problem)
        acts = apart(problem, policy.sees)
        sources = [problem.channel(name).receives for name in policy.sees]
        if channel.receives in sources:
            place = acts.places[sources.index(channel.receives)]
        else:  # another observer, who receives its own observations
            place, other = len(acts.observers), channel.observer.replace(sensors=None).with_clock()
            observers = (*(one.with_clock() for one in acts.observers), other)
            acts = replace(acts, joint=acts.joint.replace(observer=Together(*observers)), observers=observers)
        self.problem, self.policy = acts.joint.with_clock(), policy  # what the policy reads has its time
        self.heard = policy.heard(acts)
        first, later, self.num_first, self.num_events = acts.events[place]
        self.seen = first, later
        if pair in policy.sees:
            number = policy.sees.index(pair)
            self.hidden = build(self.problem)
            asked = one_hot(acts.values[number], acts.nums_values[number])
            self.asked = replace(self.hidden, labels=sp.csr_array(self.hidden.labels @ asked))
        else:
            self.hidden, self.asked = _with_secret(self.problem, channel.alone)
        self.moves = Moves.of(self.hidden)
        self.situation = situations(self.problem, self.hidden)
        self.values = self.hidden.num_values
        self.used = 0

    def all(self) -> Followed:
        x, event = np.nonzero(self.hidden.root > 0)
        heard = self.heard[0][event]
        node = np.where(heard < 0, -1, self.policy.first[heard])
        layer, number = self._distinct(0, node, x, np.full(len(x), -1), self.seen[0][event])
        start = np.bincount(number, weights=self.hidden.root[x, event])
        layers, steps = [layer], []
        for time in range(self.hidden.horizon):
            step, layer = self._step(time, layer)
            steps.append(step)
            layers.append(layer)
        return Followed(self.asked, start, tuple(layers), tuple(steps), self.num_first, self.num_events, self.written)

    def _step(self, time: int, layer: Situations) -> tuple[FollowedStep, Situations]:
        moves, actions, here, taken = self.moves, [], [], []
        for action in range(self.problem.num_actions):
            rows = np.flatnonzero(layer.choice[:, action] > 0)
            degree = moves.degree[action, layer.x[rows]]
            pair = np.repeat(rows, degree)
            actions.append(np.full(len(pair), action))
            here.append(pair)
            taken.append(ragged(moves.begin[action, layer.x[rows]], degree))
        action, pair, move = np.concatenate(actions), np.concatenate(here), np.concatenate(taken)
        self.used += len(pair)
        if self.used > _MOST_NUMBERS:
            raise TooLargeError(
                f"the history policy reaches more than {_MOST_NUMBERS:,} transitions by time {time + 1} of"
                f" {self.hidden.horizon}: a policy on fewer nodes, or a shorter horizon"
            )
        event = moves.event[move]
        heard = self.heard[1][event]
        node = np.where(heard < 0, -1, self.policy.following[time][layer.node[pair], heard])
        after, number = self._distinct(time + 1, node, moves.target[move], layer.z[pair], self.seen[1][event])
        return FollowedStep(action, pair, number, moves.probability[move]), after

    def _distinct(
        self, time: int, node: np.ndarray, x: np.ndarray, z: np.ndarray, event: np.ndarray
    ) -> tuple[Situations, np.ndarray]:
        """The different situations in order, with the policy's choice, and the number of each entry among them."""
        if self.policy.told is not None and self.policy.told_at == time:
            node = np.where(node >= 0, self.policy.told[node, self.situation[x]], -1)
        if time == self.hidden.split_time:
            z = self.hidden.value[x]
        if (node < 0).any():
            raise InputError(_WHERE, [f"it reaches an event at time {time} that its graph holds impossible"])
        sizes = (self.hidden.num_states, self.values + 1, max(self.num_events, self.num_first))
        key = ((node.astype(np.int64) * sizes[0] + x) * sizes[1] + z + 1) * sizes[2] + event
        found, number = np.unique(key, return_inverse=True)
        rest, event = np.divmod(found, sizes[2])
        rest, z = np.divmod(rest, sizes[1])
        node, x = np.divmod(rest, sizes[0])
        return Situations(node, x, z - 1, event, self._choice(time, node, x, z - 1)), number.ravel()

    def _choice(self, time: int, node: np.ndarray, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        if time == self.hidden.horizon:
            return np.zeros((len(node), self.problem.num_actions))
        rows = self.policy.decisions[time]
        row = rows.places(node, self.situation[x], z)
        missing = np.flatnonzero(row < 0)
        if len(missing):
            at = int(missing[0])
            name = self.problem.model.states[int(self.hidden.state[x[at]])]
            raise InputError(
                _WHERE, [f"time {time}: it has no row for state {name!r} in node {node[at]}, which it reaches"]
            )
        choice = rows.probabilities[row]
        wrong = np.argwhere((choice > 0) & ~self.problem.model.available[self.hidden.state[x]])
        if len(wrong):
            name = self.problem.model.states[int(self.hidden.state[x[wrong[0][0]]])]
            action = self.problem.model.actions[int(wrong[0][1])]
            raise InputError(
                _WHERE, [f"time {time}: state {name!r} takes action {action!r}, which is not available there"]
            )
        return choice
