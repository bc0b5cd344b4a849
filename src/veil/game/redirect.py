"""A better automaton for the observer: each event leads to the node whose continuation costs the observer least.

On a solved game, node c of layer t has a continuation value for each hidden state, `W_t(c, x)`: what the observer pays from
there if the agent responds as well as it can. For an observer who believes b, going on from node c costs `⟨b, W_t(c, ·)⟩`, so
nodes are what point-based methods for partially observed problems call alpha vectors. Backwards in time, each (node, event) of
the old automaton becomes a node of its own, with the belief that the agent's policy leads to there, and its events are led to
the nodes that are best at the beliefs after them. Nodes that no event leads to are dropped; those that behave alike merge.
Any automaton proves a bound; whether this one is better shows when its game is solved.
"""

import itertools

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, Pace
from ..common.errors import TooLargeError
from ..engine.kernel import num_rows
from ..engine.moves import Layer, Moves
from .arrivals import Arrivals, make_arrivals
from .ascent import GameResult
from .clusters import Automaton
from .pairs import DEFAULT_MEMORY, GivenGraph, Pairs, PublicGraph
from .responses import AgentProblem

_SECONDS_A_PRODUCT = 2e-9  # of two numbers, in the products of a step: measured on one core
_EXCLUDED = 40.0  # bits that the observer pays for what its rule excludes, here where it need not be exact


def redirected_graph(
    agent: AgentProblem, game: GameResult, clock: Clock = UNLIMITED, memory_bytes: int = DEFAULT_MEMORY
) -> Automaton:
    """The automaton of a game with its events redirected: in each node the policy does what it did where the belief was.

    **Arguments:** `agent`: of the pairs of the game, with its prices and its task.

    Cost: for each time the product of `(nodes · E) × N` and `N × (nodes · E)` tables; the clock is checked before each, with a
    forecast of its time. **Raises:** `TooLargeError` before tables are made that do not fit; `OutOfTime`.
    """
    pairs, arrivals = game.pairs, make_arrivals(game.pairs, clock, memory_bytes)
    flows = agent.flows(game.tables).flows
    backward, following, sizes = _Backward(agent, game), [], [pairs.graph.sizes[-1]]
    pace = Pace(clock, _SECONDS_A_PRODUCT)
    for time in range(pairs.hidden.horizon - 1, -1, -1):
        mass = _points(pairs, arrivals, flows, time)
        with pace.step(backward.prepare(time, num_rows(mass), memory_bytes)):
            following.append(backward.step(time, mass, game.tables[time]))
        sizes.append(num_rows(mass))
    graph = pairs.graph
    kind = f"one of {max(sizes)} nodes, led by value"
    redirected = PublicGraph(graph.first, tuple(following[::-1]), tuple(sizes[::-1]), False, kind)
    led = [table[part.node, part.event] for table, part in zip(graph.following, arrivals, strict=True)]
    origins = [np.arange(graph.sizes[0]), *led[:-1]]
    return Automaton(GivenGraph(redirected), tuple(_within(pairs, time, origin) for time, origin in enumerate(origins)))


def _within(pairs: Pairs, time: int, origin: Int[np.ndarray, " n"]) -> sp.csr_array:
    """For each new node the pairs of the old one that had its belief."""
    node, size = pairs.layers[time].node, len(pairs.layers[time])
    nodes = sp.csr_array((np.ones(size), (node, np.arange(size))), shape=(pairs.graph.sizes[time], size))
    return sp.csr_array(nodes[origin])


def _points(pairs: Pairs, arrivals: tuple[Arrivals, ...], flows: list[np.ndarray], time: int) -> sp.csr_array:
    """`P(point, pair)` of a layer: at time 0 the points are its nodes, later the edges that lead to it."""
    if time == 0:
        layer = pairs.layers[0]
        places = (layer.node, np.arange(len(layer)))
        return sp.csr_array(sp.coo_array((pairs.start, places), shape=(pairs.graph.sizes[0], len(layer))))
    part = arrivals[time - 1]
    mass = part.step.T @ flows[time - 1].ravel()
    shape = (len(part.node), len(pairs.layers[time]))
    return sp.csr_array(sp.coo_array((mass, (part.edge, part.pair)), shape=shape))


class _Backward:
    """Values `W(node, state)` of all nodes of a layer at all states that occur in it, moved back in time.

    A state is a hidden state with the value of the secret once settled: a pair of a memory of one node.
    """

    def __init__(self, agent: AgentProblem, game: GameResult):
        self._agent, self._pairs, self._multiplier = agent, game.pairs, game.multiplier
        self._moves, last = Moves.of(game.pairs.hidden), self._states(game.pairs.hidden.horizon)
        self._ends: tuple[Layer, Layer] | None = None  # of the moves that are made
        costs = np.minimum(game.rules[0].costs(), _EXCLUDED)
        self.value: Float[np.ndarray, "n X"] = costs[:, last.z] + agent.state_values(self._multiplier)[last.x]

    def _states(self, time: int) -> Layer:
        """The states that occur in a layer."""
        x, z = np.divmod(np.unique(self._pairs.states(time)), self._pairs.hidden.num_values)
        return Layer(np.zeros_like(x), x, z)

    def prepare(self, time: int, points: int, memory_bytes: int) -> int:
        """Make the moves of the states of a time; says how many products of two numbers a step with so many points takes.

        **Raises:** `TooLargeError` where its tables do not fit: flows and scores of each (action, state, point), and masses and
        values of each (arrival, point).
        """
        hidden, ends = self._pairs.hidden, (self._states(time), self._states(time + 1))
        if self._ends is None or not all(one.equals(other) for one, other in zip(ends, self._ends, strict=True)):
            self._ends, every = ends, np.arange(hidden.num_events)[None]  # the nodes after a step are its events
            arrived, self._step = self._moves.advance(hidden, time, ends[0], every)
            self._begin = np.searchsorted(arrived.node, np.arange(hidden.num_events + 1))
            self._arrived = np.searchsorted(self._pairs.state_of(ends[1]), self._pairs.state_of(arrived))
        self._here = ends[0]
        need = 8 * points * 3 * (num_rows(self._step) + len(self._arrived))
        if need > memory_bytes:
            raise TooLargeError(
                f"the values of {points:,} nodes at time {time} need {need / 2**30:.2g} GiB, and the budget is"
                f" {memory_bytes / 2**30:.2g} GiB: fewer nodes, or memory_bytes=…"
            )
        return points * (2 * self._step.nnz + len(self._arrived) * len(self.value))

    def step(self, time: int, mass: sp.csr_array, table: Float[np.ndarray, "A m"]) -> Int[np.ndarray, "n E"]:
        """Where each event leads from each point, whose `mass` is `P(point, pair)`; `value` becomes that of the points."""
        points = num_rows(mass)
        joint = self._step.T @ self._flow(time, mass, table)
        following = np.empty((points, len(self._begin) - 1), dtype=np.int32)
        ahead = np.empty(joint.shape)
        for event, (begin, end) in enumerate(itertools.pairwise(self._begin)):
            value, here = self.value[:, self._arrived[begin:end]], joint[begin:end]
            # An event that the policy never shows here is led to where it can cost least at worst.
            spare = int(np.argmin(value.max(axis=1, initial=0.0)))
            following[:, event] = np.where(here.any(axis=0), np.argmin(value @ here, axis=0), spare)
            ahead[begin:end] = value[following[:, event]].T
        paid = (self._agent.state_rewards(time, self._multiplier) + self._agent.blocked)[:, self._here.x]
        scores = (self._step @ ahead).reshape(*paid.shape, points)
        self.value = (scores + paid[:, :, None]).max(axis=0).T
        return following

    def _flow(self, time: int, mass: sp.csr_array, table: np.ndarray) -> Float[np.ndarray, "a n"]:
        """`P(action, state, point)`, a row for each (action, state)."""
        part, states = sp.coo_array(mass), self._pairs.states(time)
        state = np.searchsorted(self._pairs.state_of(self._here), states)
        flow = np.zeros((len(table), len(self._here), num_rows(mass)))
        flow[:, state[part.col], part.row] = table[:, part.col] * part.data
        return flow.reshape(-1, num_rows(mass))
