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
from ..engine.kernel import num_columns, num_rows
from ..engine.moves import Moves
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
    flows = agent.flows(game.tables)[1]
    backward, following, sizes = _Backward(agent, game), [], [pairs.graph.sizes[-1]]
    pace = Pace(clock, _SECONDS_A_PRODUCT)
    for time in range(pairs.hidden.horizon - 1, -1, -1):
        mass = _points(pairs, arrivals, flows, time)
        with pace.step(backward.products(time, num_rows(mass), memory_bytes)):
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


class _StateMoves:
    """One step of the hidden state with its event, the same from every node: `matrix[a · X + state, arrival] = P · b`.

    A state is x before the secret is settled and (x, z) from then on, numbered `x · Z + z`. An arrival is an (event, next
    state) that can occur, in the order of events; `state` is the next state of each, `begin[e]` the first of event e.
    """

    def __init__(self, agent: AgentProblem, moves: Moves, carried: bool, settled: bool):
        hidden, values = agent.pairs.hidden, agent.pairs.hidden.num_values
        actions, size = moves.degree.shape
        row = np.repeat(np.arange(actions * size), moves.degree.ravel())
        target, copies = moves.target.astype(np.int64), values if carried else 1
        row, target = (np.add.outer(part * copies, np.arange(copies)) for part in (row, target))
        if settled and not carried:
            target = target * values + np.maximum(hidden.value, 0)[target]
        after = size * (values if settled else 1)
        key = (moves.event.astype(np.int64)[:, None] * after + target).ravel()
        found, column = np.unique(key, return_inverse=True)
        event, self.state = np.divmod(found, after)
        self.begin = np.searchsorted(event, np.arange(hidden.num_events + 1))
        data = np.repeat(moves.probability, copies)
        shape = (actions * size * copies, len(found))
        self.matrix = sp.csr_array(sp.coo_array((data, (row.ravel(), column.ravel())), shape=shape))
        self.copies = copies


class _Backward:
    """Values `W(node, state)` of all nodes of a layer at all hidden states, moved back in time."""

    def __init__(self, agent: AgentProblem, game: GameResult):
        self.agent, self.pairs, self.multiplier = agent, game.pairs, game.multiplier
        hidden, values = game.pairs.hidden, game.pairs.hidden.num_values
        self._moves = Moves.of(hidden)
        self._kept: dict[tuple[bool, bool], _StateMoves] = {}
        costs = np.minimum(game.rules[0].costs(), _EXCLUDED)
        if self._carried(hidden.horizon):
            paid, last = np.tile(costs, hidden.num_states), np.repeat(agent.state_values(self.multiplier), values)
        else:
            paid, last = costs[:, np.maximum(hidden.value, 0)], agent.state_values(self.multiplier)
        self.value: Float[np.ndarray, "n X"] = paid + last

    def _carried(self, time: int) -> bool:
        """Whether the secret's value is part of the state: it is settled, and before the end."""
        return self.pairs.hidden.split_time <= time and self.pairs.hidden.split_time < self.pairs.hidden.horizon

    def _state_moves(self, time: int) -> _StateMoves:
        """The moves of the hidden state at a time."""
        kind = self._carried(time), self._carried(time + 1)
        if kind not in self._kept:
            self._kept[kind] = _StateMoves(self.agent, self._moves, *kind)
        return self._kept[kind]

    def products(self, time: int, points: int, memory_bytes: int) -> int:
        """How many products of two numbers a step with so many points takes.

        **Raises:** `TooLargeError` where its tables do not fit: flows and scores of each (action, state, point), and masses and
        values of each (arrival, point).
        """
        move = self._state_moves(time)
        rows, arrivals = num_rows(move.matrix), num_columns(move.matrix)
        need = 8 * points * (3 * rows + 3 * arrivals)
        if need > memory_bytes:
            raise TooLargeError(
                f"the values of {points:,} nodes at time {time} need {need / 2**30:.2g} GiB, and the budget is"
                f" {memory_bytes / 2**30:.2g} GiB: fewer nodes, or memory_bytes=…"
            )
        return points * (2 * move.matrix.nnz + arrivals * len(self.value))

    def step(self, time: int, mass: sp.csr_array, table: Float[np.ndarray, "A m"]) -> Int[np.ndarray, "n E"]:
        """Where each event leads from each point, whose `mass` is `P(point, pair)`; `value` becomes that of the points."""
        move, points = self._state_moves(time), num_rows(mass)
        joint = move.matrix.T @ self._flow(time, mass, table, move.copies)
        following = np.empty((points, len(move.begin) - 1), dtype=np.int32)
        ahead = np.empty(joint.shape)
        for event, (begin, end) in enumerate(itertools.pairwise(move.begin)):
            value, here = self.value[:, move.state[begin:end]], joint[begin:end]
            # An event that the policy never shows here is led to where it can cost least at worst.
            spare = int(np.argmin(value.max(axis=1, initial=0.0)))
            following[:, event] = np.where(here.any(axis=0), np.argmin(value @ here, axis=0), spare)
            ahead[begin:end] = value[following[:, event]].T
        reward = np.repeat(self.agent.state_rewards(time, self.multiplier) + self.agent.blocked, move.copies, axis=1)
        scores = (move.matrix @ ahead).reshape(*reward.shape, points)
        self.value = (scores + reward[:, :, None]).max(axis=0).T
        return following

    def _flow(self, time: int, mass: sp.csr_array, table: np.ndarray, copies: int) -> Float[np.ndarray, "a n"]:
        """`P(action, state, point)`, a row for each (action, state)."""
        part, layer = sp.coo_array(mass), self.pairs.layers[time]
        state = layer.x.astype(np.int64) * copies + (layer.z if copies > 1 else 0)
        flow = np.zeros((len(table), self.pairs.hidden.num_states * copies, num_rows(mass)))
        flow[:, state[part.col], part.row] = table[:, part.col] * part.data
        return flow.reshape(-1, num_rows(mass))
