"""History policies: what to do in each situation, given a node that stands for the observations so far.

The agent must see what the observer sees, or what the observers of several pairs do. Its situation is (model that runs,
private memory of the secret, state), with the value of the secret once it is settled; it keeps track of all of these from the
states it passes through.
"""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.checks import SUM_TOLERANCE, Defects
from ..common.errors import InputError, PolicyFileError
from ..common.json_text import parse_json
from ..common.values import Value
from ..problem.apart import Apart, apart, apart_for
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .files import packed, read_table, save_table, unpacked
from .player import HistoryPlayer
from .policy import Policy

_SUBJECT = "history policy"


@dataclass(frozen=True, eq=False, repr=False)
class Decisions(Value):
    """The rows of one decision: `probabilities[row]` over the actions, for the key (node, situation, value).

    `situation` is `(k · M + m) · S + s`: the model that runs, the private memory of the secret, the state. `value` is
    that of the secret, -1 while it is open. The keys increase strictly from row to row.
    """

    node: Int[np.ndarray, " n"]
    situation: Int[np.ndarray, " n"]
    value: Int[np.ndarray, " n"]
    probabilities: Float[np.ndarray, "n A"]

    def __len__(self) -> int:
        return len(self.node)

    def find(self, node: int, situation: int, value: int) -> int | None:
        """The row of a key, or None."""
        low, high = 0, len(self)
        for column, wanted in ((self.node, node), (self.situation, situation), (self.value, value)):
            left, right = np.searchsorted(column[low:high], [wanted, wanted + 1])
            low, high = low + int(left), low + int(right)
        return low if low < high else None

    @property
    def by_node(self) -> bool:
        """Whether all rows of a node are the same, so that the choice depends on the observations alone."""
        return bool(np.array_equal(self.probabilities, self.probabilities[np.searchsorted(self.node, self.node)]))

    def places(
        self, node: Int[np.ndarray, " k"], situation: Int[np.ndarray, " k"], value: Int[np.ndarray, " k"]
    ) -> Int[np.ndarray, " k"]:
        """The row of each of many keys, -1 where there is none. Cost: `O(k log n)`."""
        num_situations = 1 + max(int(part.max(initial=0)) for part in (situation, self.situation))
        num_values = 2 + max(int(part.max(initial=-1)) for part in (value, self.value))

        def code(node: np.ndarray, situation: np.ndarray, value: np.ndarray) -> np.ndarray:
            return (node.astype(np.int64) * num_situations + situation) * num_values + value + 1

        known, wanted = code(self.node, self.situation, self.value), code(node, situation, value)
        if not len(known):
            return np.full(len(wanted), -1)
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[place] == wanted, place, -1)


class HistoryPolicy(Policy):
    """`π_t(a | node of a graph of histories, hidden state)`.

    **Arguments:** `first`, `(F,)`, the node after each first event; `following`, for each time `(n, E)`, the node after
    the next event, -1 if it cannot come; `decisions`, for each time the rows; `executable`: False if the rows tell
    apart what the agent does not know. `told_at`: a time at which the node is changed to `told[node, situation]`, which
    remembers where the agent was then. `views`: if it acts on what the observers of pairs see, for each of these pairs
    what its observer receives at each first event `(F,)` and at each later one `(E,)`; by default it acts on what the problem's
    own observer sees.

    **Raises:** `InputError` listing what is not an integer, leads to no node, repeats a key or is not a distribution.
    """

    def __init__(
        self,
        first: Int[np.ndarray, " F"],
        following: Sequence[Int[np.ndarray, "n E"]],
        decisions: Sequence[Decisions],
        *,
        executable: bool = True,
        told_at: int | None = None,
        told: Int[np.ndarray, "m C"] | None = None,
        views: Mapping[str, tuple[Int[np.ndarray, " F"], Int[np.ndarray, " E"]]] | None = None,
    ):
        self.first = _owned(first)
        self.following = tuple(map(_owned, following))
        self.decisions = tuple(
            Decisions(*map(_owned, (rows.node, rows.situation, rows.value, rows.probabilities))) for rows in decisions
        )
        self.told_at, self.told = told_at, None if told is None else _owned(told)
        self.views = {name: (_owned(first), _owned(later)) for name, (first, later) in (views or {}).items()}
        self._executable = executable
        _check_content(self)
        self._seal()

    @property
    def memory(self) -> Literal["history"]:
        """What the choices depend on: all that the observer has seen."""
        return "history"

    @property
    def timed(self) -> bool:
        """Whether the choices depend on the time: they do."""
        return True

    @property
    def needs_observations(self) -> bool:
        """Whether the agent must see what the observer sees: it must."""
        return True

    @property
    def executable(self) -> bool:
        """Whether an agent can execute it: False if the rows tell apart what the agent does not know."""
        return self._executable

    @property
    def horizon(self) -> int:
        """How many decisions it makes."""
        return len(self.decisions)

    @property
    def sees(self) -> tuple[str, ...]:
        """The pairs whose observers see what it acts on."""
        return tuple(self.views) or (OWN,)

    def acting_in(self, problem: Problem, pair: str = OWN) -> Apart | None:
        """See `Policy.acting_in`: the problem of all observers whose observations it acts on, and of that of the pair."""
        if not self.views and pair == OWN:
            return None
        try:
            return apart_for(problem, self.sees, pair)
        except InputError as error:
            known = "what it hides in this pair cannot be told of a policy that acts on observations"
            raise InputError(f"pair {pair!r}", [f"{known}: {'; '.join(map(str, error.defects))}"]) from error

    def heard(self, together: Apart) -> tuple[Int[np.ndarray, " F"], Int[np.ndarray, " E"]]:
        """Its own number of each first event and of each later one of a problem from `acting_in`, -1 for others."""
        if not self.views:
            return super().heard(together)
        shown = [together.view(name) for name in self.views]
        known = list(self.views.values())
        opens, goes_on = _possible_events(self)
        first = _places([one for one, _ in known], [one.first for one in shown], opens)
        return first, _places([one for _, one in known], [one.event for one in shown], goes_on)

    def describe(self) -> str:
        """The kind of policy in words."""
        if not self.executable:
            return "a history policy that also acts on what the agent does not know (not executable)"
        return "a history policy"

    def more_seen(self) -> str:
        """What its agent must see besides the state; the observations tell the time."""
        told = "" if self.told is None else ", and remembers where it was at one time"
        seen = f"observers of {' and '.join(self.views)} see" if len(self.views) > 1 else "observer sees"
        return f" and all that the {seen}{told}"

    def check(self, problem: Problem) -> None:
        """Raise `InputError` if sizes or keys do not fit the problem.

        The passes that follow the policy check that it has a row for all that it reaches and takes available actions
        only.
        """
        defects, first = Defects(_SUBJECT), apart(problem, self.sees).joint if self.views else problem
        table, observer = first.secret_table, first.observer
        if self.horizon != problem.horizon:
            defects.add(f"it makes {self.horizon} decisions, and the horizon is {problem.horizon}")
        num_first = observer.num_observations if observer.sees_first else 1
        if len(self.first) != num_first and not self.views:
            defects.add(f"it knows {len(self.first)} first events, and {num_first} can come")
        num_events = observer.num_events(problem.num_actions)
        num_situations = len(problem.models) * len(table.memory_names) * problem.num_states
        if self.told is not None and self.told.shape[1] != num_situations:
            defects.add(f"it distinguishes {self.told.shape[1]} hidden states, and the problem has {num_situations}")
        for time, (rows, graph) in enumerate(zip(self.decisions, self.following, strict=True)):
            if (width := rows.probabilities.shape[1]) != problem.num_actions:
                defects.add(f"time {time}: it chooses among {width} actions, and there are {problem.num_actions}")
            if graph.shape[1] != num_events and not self.views:
                defects.add(f"time {time}: it knows {graph.shape[1]} events, and there are {num_events}")
            if rows.situation.max(initial=-1) >= num_situations:
                defects.add(f"time {time}: situation {rows.situation.max()} does not exist: there are {num_situations}")
            low, high = (-1, 0) if time < table.time else (0, len(table.value_names))
            if rows.value.min(initial=high) < low or rows.value.max(initial=-1) >= high:
                settled = "is settled" if low == 0 else "is open"
                defects.add(
                    f"time {time}: values of the secret run outside {low} … {high - 1}, though it {settled} then"
                )
        defects.raise_if_any()

    def choice_names(self, problem: Problem) -> tuple[str, ...]:
        """The names of the actions."""
        return problem.model.actions.all()

    def _player(self, problem: Problem, *, seed: int, model: int | None) -> HistoryPlayer:
        """Begin a run; see `Policy.player`."""
        self.check(problem)
        agent = problem.agent
        blind = not agent.sees_state and (self.told is not None or not all(rows.by_node for rows in self.decisions))
        knows_less = len(problem.models) > 1 and not agent.knows_model
        if blind or knows_less or agent.apart or not self.executable:
            raise InputError(
                _SUBJECT,
                [
                    "it acts on what the agent does not know (agent_knows=False, or agent_sees): it can be evaluated, not"
                    " executed"
                ],
            )
        if not self.views:
            return HistoryPlayer(problem, self, seed=seed, model=model)
        together = apart(problem, self.sees)
        return HistoryPlayer(together.joint, self, seed=seed, model=model, heard=self.heard(together))

    def memory_span(self, time: int) -> int:
        """How many steps around a time of the secret it remembers more than it does further away.

        A policy found for a stretch of times around the secret has one node elsewhere, or is told where it was.
        """
        if time == 0:
            return next((when for when, graph in enumerate(self.following, 1) if graph.max(initial=0) == 0), 1)
        return 1 if self.told_at is None else max(1, time - self.told_at)

    def save(self, path: str | Path) -> None:
        """Write the policy to a safetensors file, complete or not at all; the same policy gives the same bytes."""
        arrays = self._arrays()
        shapes, content = packed(arrays)
        said = {"executable": self.executable, "horizon": self.horizon, "told_at": self.told_at, "arrays": shapes}
        head = json.dumps(said | ({"sees": list(self.views)} if self.views else {}))
        save_table(path, f"history {head}", content)

    @classmethod
    def load(cls, path: str | Path) -> "HistoryPolicy":
        """The policy in a file that `save` wrote; raises `PolicyFileError` on anything else."""
        found, table = read_table(path)
        kind, _, head = found.partition(" ")
        if kind != "history":
            raise PolicyFileError(f"{path} holds a policy of kind {kind!r}, expected 'history'")
        return history_from(head, table, path)

    def _arrays(self) -> list[np.ndarray]:
        arrays = [self.first, *self.following]
        for rows in self.decisions:
            arrays += [rows.node, rows.situation, rows.value, rows.probabilities]
        arrays += [] if self.told is None else [self.told]
        return [*arrays, *(part for view in self.views.values() for part in view)]

    def _content(self) -> tuple[str, list[np.ndarray]]:
        sees = f", sees {json.dumps(list(self.views))}" if self.views else ""
        return f"history, executable {self.executable}, told at {self.told_at}{sees}", self._arrays()

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("a history policy has no single table: read policy.decisions[time].probabilities")

    def __repr__(self) -> str:
        return f"HistoryPolicy({self.horizon} decisions, {sum(map(len, self.decisions))} rows)"


def history_from(head: str, table: np.ndarray, path: str | Path) -> HistoryPolicy:
    """The policy that `HistoryPolicy.save` wrote: what its arrays are, and their bytes one after the other.

    **Raises:** `PolicyFileError` where the two do not belong together; `InputError` where its content is no policy.
    """
    try:
        described = parse_json(head)
        horizon, told_at = described["horizon"], described["told_at"]
        arrays = unpacked(described["arrays"], table)
        sees, rest = described.get("sees", []), arrays[1 + horizon :]
        told = rest[4 * horizon : 4 * horizon + (told_at is not None)]
        if len(arrays) != 1 + 5 * horizon + (told_at is not None) + 2 * len(sees):
            raise ValueError(f"{len(arrays)} arrays for a horizon of {horizon}")
        parts = rest[4 * horizon + len(told) :]
        return HistoryPolicy(
            arrays[0],
            arrays[1 : 1 + horizon],
            [Decisions(*rest[4 * time : 4 * time + 4]) for time in range(horizon)],
            executable=described["executable"],
            told_at=told_at,
            told=told[0] if told else None,
            views={name: (parts[2 * number], parts[2 * number + 1]) for number, name in enumerate(sees)},
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise PolicyFileError(f"{path} cannot be read as a history policy: {error}") from None


def _possible_events(policy: HistoryPolicy) -> tuple[Bool[np.ndarray, " F"], Bool[np.ndarray, " E"]]:
    """The first and the later events that lead to a node at some time."""
    later = [table.max(axis=0, initial=-1) >= 0 for table in policy.following]
    size = len(next(iter(policy.views.values()))[1]) if policy.views else 0
    return policy.first >= 0, np.any(later, axis=0) if later else np.zeros(size, dtype=bool)


def _places(
    known: list[Int[np.ndarray, " n"]], wanted: list[Int[np.ndarray, " m"]], possible: Bool[np.ndarray, " n"]
) -> Int[np.ndarray, " m"]:
    """The number of each wanted tuple among the known ones that are possible, -1 if there is none; the tuples are columns."""
    listed = enumerate(zip(*(part.tolist() for part in known), strict=True))
    number = {one: place for place, one in listed if possible[place]}
    found = zip(*(part.tolist() for part in wanted), strict=True)
    return np.array([number.get(one, -1) for one in found], dtype=np.int64)


def _owned(array: np.ndarray) -> np.ndarray:
    """The array as one that is read-only; a copy unless it already is."""
    if not isinstance(array, np.ndarray):
        raise InputError(_SUBJECT, [f"it is given a {type(array).__name__}, expected NumPy arrays"])
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if root.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def _check_content(policy: HistoryPolicy) -> None:
    """Raise `InputError` unless every array has its type and shape, every node exists and every key comes once."""
    defects = Defects(_SUBJECT)
    if len(policy.following) != policy.horizon:
        defects.add(f"it has {policy.horizon} decisions and {len(policy.following)} steps of its graph")
    if not isinstance(policy.executable, bool):
        defects.add(f"executable is {policy.executable!r}, expected True or False")
    _check_telling(policy, defects)
    _check_views(policy, defects)
    for array, dimensions, what in (
        (policy.first, 1, "the first nodes"),
        *((table, 2, f"the graph at time {time}") for time, table in enumerate(policy.following)),
        *(() if policy.told is None else ((policy.told, 2, "the nodes that it is told"),)),
    ):
        _check_array(array, dimensions, "i", what, defects)
    for time, rows in enumerate(policy.decisions):
        for column in (rows.node, rows.situation, rows.value):
            _check_array(column, 1, "i", f"the keys at time {time}", defects)
        _check_array(rows.probabilities, 2, "f", f"the rows at time {time}", defects)
    defects.raise_if_any()
    _check_graph(policy, defects)
    for time, rows in enumerate(policy.decisions):
        _check_rows(rows, time, len(policy.following[time]), defects)
    defects.raise_if_any()


def _check_array(array: np.ndarray, dimensions: int, kind: str, what: str, defects: Defects) -> None:
    if array.ndim != dimensions or array.dtype.kind != kind:
        wanted = "integers" if kind == "i" else "floats"
        defects.add(f"{what}: {array.dtype} with shape {array.shape}, expected {wanted} with {dimensions} axes")


def _check_telling(policy: HistoryPolicy, defects: Defects) -> None:
    when = policy.told_at
    if (when is None) != (policy.told is None):
        defects.add("told_at and told are given one without the other")
    elif when is not None and (isinstance(when, bool) or not isinstance(when, int) or not 0 <= when <= policy.horizon):
        defects.add(f"told_at is {when!r}, expected a time from 0 to {policy.horizon}")


def _check_views(policy: HistoryPolicy, defects: Defects) -> None:
    """Note every view that is not one event of an observer for each event of the policy, and events that none tells apart."""
    sizes = len(policy.first), *{table.shape[-1] for table in policy.following}
    for name, parts in policy.views.items():
        fits = isinstance(name, str) and all(one.ndim == 1 and one.dtype.kind == "i" for one in parts)
        if not fits or (*map(len, parts),)[: len(sizes)] != sizes:
            defects.add(f"what it sees of {name!r} is not one whole number for each of its events")
            return
    for parts, possible in zip(zip(*policy.views.values(), strict=True), _possible_events(policy), strict=False):
        if len(set(zip(*(one[possible].tolist() for one in parts), strict=True))) < np.count_nonzero(possible):
            defects.add("what it sees of several observers does not tell its events apart")


def _check_graph(policy: HistoryPolicy, defects: Defects) -> None:
    """Note every edge that leads to a node that is not there; at time T there are no nodes to count."""
    sizes: list[float] = [*map(len, policy.following), np.inf]
    arriving = sizes.copy()  # how many nodes there are before the telling
    if policy.told is not None and policy.told_at is not None:
        arriving[policy.told_at] = len(policy.told)
        _check_edges(policy.told, sizes[policy.told_at], "the nodes that it is told", defects)
    _check_edges(policy.first, arriving[0], "the first nodes", defects)
    for time, table in enumerate(policy.following):
        _check_edges(table, arriving[time + 1], f"the graph at time {time}", defects)


def _check_edges(nodes: Int[np.ndarray, "..."], size: float, what: str, defects: Defects) -> None:
    if nodes.min(initial=0) < -1 or nodes.max(initial=-1) >= size:
        defects.add(f"{what}: nodes from {nodes.min()} to {nodes.max()}, expected -1 or a node below {size:g}")


def _check_rows(rows: Decisions, time: int, num_nodes: int, defects: Defects) -> None:
    if {len(column) for column in (rows.node, rows.situation, rows.value)} != {len(rows.probabilities)}:
        defects.add(f"time {time}: nodes, situations, values and rows are not lists of one length")
        return
    for name, column, low, high in (
        ("nodes", rows.node, 0, num_nodes),
        ("situations", rows.situation, 0, np.inf),
        ("values", rows.value, -1, np.inf),
    ):
        if len(column) and (column.min() < low or column.max() >= high):
            defects.add(f"time {time}: {name} from {column.min()} to {column.max()}, expected {low} … {high - 1:g}")
    if not _increase(rows.node, rows.situation, rows.value):
        defects.add(f"time {time}: the keys (node, situation, value) do not increase strictly from row to row")
    wrong = ~np.isfinite(rows.probabilities).all(axis=1) | (rows.probabilities < 0).any(axis=1)
    wrong |= ~(np.abs(rows.probabilities.sum(axis=1) - 1) <= SUM_TOLERANCE)
    for row in np.flatnonzero(wrong)[:3]:
        defects.add(f"row {row} at time {time} is {rows.probabilities[row]}, expected a distribution")


def _increase(*columns: Int[np.ndarray, " n"]) -> bool:
    """Whether rows increase strictly, compared column by column from the first."""
    more, tied = np.zeros(max(0, len(columns[0]) - 1), dtype=bool), True
    for column in columns:
        more |= tied & (column[1:] > column[:-1])
        tied = tied & (column[1:] == column[:-1])
    return bool(more.all())
