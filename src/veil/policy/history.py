"""history policies: what to do in each situation, given what the observer can remember of the events so far.

The agent must see the events that the observer sees. Its situation is (model that runs, private memory of the secret,
state, value of the secret once it is settled); it keeps track of all of these from the states it passes through.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.checks import Defects, Names
from ..common.errors import InputError, PolicyFileError, VeilError
from ..problem.problem import Problem
from .files import read_table, save_table

_NONE = -1
_TYPE = re.compile(r"[<>|]?[if][1248]")


@dataclass(frozen=True, eq=False)
class Decisions:
    """The rows of one decision, ordered by (node, situation, value): `probabilities[row]` over the actions.

    `situation` is `(k · M + m) · S + s`: the model that runs, the private memory of the secret, the state. `value` is
    that of the secret, -1 while it is open.
    """

    node: Int[np.ndarray, " n"]
    situation: Int[np.ndarray, " n"]
    value: Int[np.ndarray, " n"]
    probabilities: Float[np.ndarray, "n A"]

    def find(self, node: int, situation: int, value: int) -> int | None:
        """The row of a situation, or None."""
        low, high = np.searchsorted(self.node, [node, node + 1])
        rows = np.flatnonzero((self.situation[low:high] == situation) & (self.value[low:high] == value))
        return int(low + rows[0]) if len(rows) else None


class HistoryPolicy:
    """`π_t(a | node of the public graph, situation)`.

    **Arguments:** `first`, `(F,)`, the node after each first event; `following`, for each time `(n, E)`, the node after
    the next event, -1 where it cannot come; `decisions`, for each time the rows; `executable`: False where the rows tell
    apart what the agent does not know. `told_at`: a time at which the node is changed to `told[node, situation]`, which
    remembers where the agent was then.
    """

    timed = True

    def __init__(
        self,
        first: Int[np.ndarray, " F"],
        following: Sequence[Int[np.ndarray, "n E"]],
        decisions: Sequence[Decisions],
        *,
        executable: bool = True,
        told_at: int | None = None,
        told: Int[np.ndarray, "m C"] | None = None,
    ):
        self.told_at, self.told = told_at, told
        self.first, self.following, self.decisions = first, tuple(following), tuple(decisions)
        self.executable = executable
        self._run: HistoryPlayer | None = None
        defects = Defects("history policy")
        if len(self.following) != len(self.decisions):
            defects.add(f"it has {len(self.decisions)} decisions and {len(self.following)} steps of its graph")
        shapes = [(first, 1, "the first nodes"), *((table, 2, "the graph") for table in self.following)]
        shapes += [(rows.probabilities, 2, "the rows") for rows in self.decisions]
        for array, dimensions, what in shapes:
            if array.ndim != dimensions or (what != "the rows" and array.dtype.kind != "i"):
                defects.add(f"{what}: an array of {array.dtype} with shape {array.shape}, expected {dimensions} axes")
        for time, rows in enumerate(self.decisions):
            sizes = {array.shape for array in (rows.node, rows.situation, rows.value)}
            if sizes != {rows.probabilities.shape[:1]} or (np.diff(rows.node) < 0).any():
                defects.add(f"time {time}: nodes, situations, values and rows are not lists of one length, by node")
        defects.raise_if_any()
        for time, rows in enumerate(self.decisions):
            wrong = (rows.probabilities < 0).any(axis=1) | (np.abs(rows.probabilities.sum(axis=1) - 1) > 1e-9)
            for row in np.flatnonzero(wrong | ~np.isfinite(rows.probabilities).all(axis=1))[:3]:
                defects.add(f"row {row} at time {time} is {rows.probabilities[row]}, expected a distribution")
        defects.raise_if_any()

    @property
    def horizon(self) -> int:
        """How many decisions it makes."""
        return len(self.decisions)

    def start(self, problem: Problem, seed: int = 0, *, model: int | None = None) -> "HistoryPlayer":
        """Begin a run; `act` of the policy uses the newest.

        **Arguments:** `seed` of the choices; `model`: the index of the model that runs, where there are several.

        **Raises:** `InputError` where the policy does not fit the problem or cannot be executed in it.
        """
        self._run = HistoryPlayer(problem, self, seed=seed, model=model)
        return self._run

    def act(self, state: str | int, observation: Any = None) -> int:
        """The next action, by index, in the run that `start` began; see `HistoryPlayer.act`."""
        if self._run is None:
            raise VeilError("no run has begun: call policy.start(problem) before policy.act(state, observation)")
        return self._run.act(state, observation)

    def save(self, path: str | Path) -> None:
        """Write the policy to a safetensors file, complete or not at all; the same policy gives the same bytes."""
        arrays = [self.first, *self.following]
        for rows in self.decisions:
            arrays += [rows.node, rows.situation, rows.value, rows.probabilities]
        if self.told is not None:
            arrays.append(self.told)
        shapes = [[array.dtype.str, *array.shape] for array in arrays]
        head = json.dumps(
            {"executable": self.executable, "horizon": self.horizon, "told_at": self.told_at, "arrays": shapes}
        )
        content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        save_table(path, f"history {head}", np.frombuffer(content, dtype=np.uint8))

    @classmethod
    def load(cls, path: str | Path) -> "HistoryPolicy":
        """The policy in a file that `save` wrote; raises `PolicyFileError` on anything else."""
        found, packed = read_table(path)
        kind, _, head = found.partition(" ")
        if kind != "history":
            raise PolicyFileError(f"{path} holds a policy of kind {kind!r}, expected 'history'")
        return history_from(head, packed, path)

    def __repr__(self) -> str:
        rows = sum(len(rows.node) for rows in self.decisions)
        return f"HistoryPolicy({self.horizon} decisions, {rows} rows)"


def history_from(head: str, packed: np.ndarray, path: str | Path) -> HistoryPolicy:
    """The policy that `HistoryPolicy.save` wrote: what its arrays are, and their bytes one after the other.

    **Raises:** `PolicyFileError` where the two do not belong together; `InputError` where its rows are not distributions.
    """
    try:
        described = json.loads(head)
        horizon, told_at = int(described["horizon"]), described["told_at"]
        arrays, begin, content = [], 0, packed.tobytes()
        for name, *shape in described["arrays"]:
            # Compared before NumPy sees it, which knows many more names, and warns of some.
            if not _TYPE.fullmatch(name) or not all(isinstance(size, int) and size >= 0 for size in shape):
                raise ValueError(f"an array of {name!r} with shape {shape}")
            dtype = np.dtype(name)
            count = int(np.prod(shape)) * dtype.itemsize
            arrays.append(np.frombuffer(content[begin : begin + count], dtype=dtype).reshape(shape))
            begin += count
        if begin != len(content) or len(arrays) != 1 + 5 * horizon + (told_at is not None):
            raise ValueError(f"{len(content)} bytes in {len(arrays)} arrays")
        rest = arrays[1 + horizon :]
        return HistoryPolicy(
            arrays[0],
            arrays[1 : 1 + horizon],
            [Decisions(*rest[4 * time : 4 * time + 4]) for time in range(horizon)],
            executable=bool(described["executable"]),
            told_at=told_at,
            told=None if told_at is None else arrays[-1],
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise PolicyFileError(f"{path} cannot be read as a history policy: {error}") from None


class HistoryPlayer:
    """One run of a history policy: the node that the events led to, and the agent's own situation."""

    def __init__(self, problem: Problem, policy: HistoryPolicy, *, seed: int = 0, model: int | None = None):
        defects = Defects("history policy")
        if not policy.executable:
            defects.add(
                "it acts on what the agent does not know (agent_knows=False): it can be evaluated, not executed"
            )
        if policy.horizon != problem.horizon:
            defects.add(f"it makes {policy.horizon} decisions, and the horizon is {problem.horizon}")
        if policy.decisions and policy.decisions[0].probabilities.shape[1] != problem.num_actions:
            width = policy.decisions[0].probabilities.shape[1]
            defects.add(f"it chooses among {width} actions, and the problem has {problem.num_actions}")
        if len(problem.models) > 1 and (model is None or not 0 <= int(model) < len(problem.models)):
            defects.add(f"model is {model!r}, expected the index of the model that runs, below {len(problem.models)}")
        defects.raise_if_any()
        self.problem, self.policy = problem, policy
        self._model = int(model or 0)
        self._generator = np.random.default_rng(seed)
        self._time, self._node, self._memory, self._value, self._action = 0, _NONE, 0, _NONE, _NONE

    @property
    def time(self) -> int:
        """How many actions were chosen so far."""
        return self._time

    def act(self, state: str | int, observation: Any = None) -> int:
        """Enter a state, take in what was observed there, and choose the next action.

        **Arguments:** `state` and `observation`, by name or index; None where nothing arrives (at time 0, if the observer
        does not see the start). Where the observer sees actions, the observation alone is given: the agent knows its action.

        **Returns:** the index of the action.

        **Raises:** `InputError` where state or observation cannot occur after the run so far; `VeilError` beyond the horizon.
        The run is then as before the call.
        """
        if self._time >= self.policy.horizon:
            raise VeilError(f"the horizon is {self.policy.horizon}: there is no decision at time {self._time}")
        problem, table = self.problem, self.problem.secret_table
        reached = _find(problem.model.states, state, self._time)
        event = self._event(observation)
        memory = int(table.memory_step[self._memory, reached] if self._time else table.memory_start[reached])
        places = self.policy.following[self._time - 1][self._node] if self._time else self.policy.first
        node = int(places[event])
        value = self._value
        if self._time == table.time:
            value = int(table.label[self._model if len(table.label) > 1 else 0, memory, reached])
        situation = (self._model * len(table.memory_names) + memory) * problem.num_states + reached
        if node >= 0 and self.policy.told is not None and self._time == self.policy.told_at:
            node = int(self.policy.told[node, situation])
        row = None if node < 0 else self.policy.decisions[self._time].find(node, situation, value)
        if row is None:
            raise InputError(
                "run",
                [f"state {problem.model.states[reached]!r} with observation {observation!r} cannot occur at time"
                 f" {self._time} after the run so far"],
            )  # fmt: skip
        sums = np.cumsum(self.policy.decisions[self._time].probabilities[row])
        pick = int(np.searchsorted(sums, self._generator.random() * sums[-1], side="right"))
        self._node, self._memory, self._value, self._action = node, memory, value, pick
        self._time += 1
        return pick

    def _event(self, observation: Any) -> int:
        observer = self.problem.observer
        if self._time == 0 and not observer.sees_first:
            if observation is not None:
                raise InputError("observation", [f"{observation!r} at time 0: none comes then, expected None"])
            return 0
        if observation is None:
            raise InputError(
                "observation", [f"it is missing at time {self._time}: the policy reads what the observer sees"]
            )
        shown = _find(observer.observations, observation, self._time)
        return self._action * observer.num_observations + shown if observer.sees_actions and self._time else shown


def _find(names: Names, key: Any, time: int) -> int:
    defects = Defects(names.kind)
    found = names.find_or_note(key, f"time {time}", defects)
    defects.raise_if_any()
    assert found is not None
    return found
