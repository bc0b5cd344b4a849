"""The contract of a policy: all that the rest of veil asks of one, of every kind."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from jaxtyping import Int

from ..common.content import content_hash
from ..common.errors import InputError, VeilError
from ..common.values import Value
from ..problem.apart import AGENT, Apart, apart, apart_from_agent
from ..problem.observer import Observer
from ..problem.pairs import OWN
from ..problem.problem import Problem, check_problem
from .memories import PolicyMemory
from .player import Observation, Player
from .runtime import Player as NamedPlayer


def check_call(problem: object, policy: object) -> None:
    """Raise `InputError` unless the arguments of a measuring call are a problem and a policy; names the remedy."""
    if isinstance(problem, Policy) and isinstance(policy, Problem):
        raise InputError("arguments", ["the policy comes before the problem: swap them, the problem comes first"])
    check_problem(problem)
    if isinstance(policy, Policy):
        return
    found = f"it is a {type(policy).__name__}, expected a policy"
    remedy = ": veil.MarkovPolicy(probabilities) makes one from a table"
    if isinstance(policy, str | Path):
        remedy = f": read the file with veil.load_policy({str(policy)!r})"
    elif isinstance(getattr(policy, "policy", None), Policy):
        remedy = ": pass its attribute policy"
    raise InputError("policy", [found + remedy])


class Policy(Value, ABC):
    """How the agent acts: a distribution over actions for everything that it tells apart.

    There are three structures. A `TablePolicy` has one table of action probabilities, or one for each decision, over the
    states and what the agent remembers: `MarkovPolicy`, `TimedPolicy`, `MemoryPolicy`. A `HistoryPolicy` has decisions
    on a graph of observation histories. A `FeaturePolicy` computes its table from features of the states:
    `on(problem)`. `veil.engine.chain.make_chain` turns either into the chain that all measures
    work on.

    Policies are immutable and equal by content; `digest()` is a hash of that content.
    """

    _run: Player | None = None  # of `start`, for `act`
    _names: Callable[[], dict[str, Any]] | None = None  # of `with_names`

    @property
    @abstractmethod
    def memory(self) -> PolicyMemory:
        """What the choices may depend on besides the state, as `veil.solve(memory=…)` takes it.

        `"markov"`: nothing; `"timed"`: the time; an `ObservationMemory`, `StateMemory`, `ZoneMemory` or `Controller`;
        `"history"`: all that the observer has seen.
        """

    @property
    @abstractmethod
    def timed(self) -> bool:
        """Whether the choices depend on the time; then the policy makes as many decisions as the horizon has."""

    @property
    @abstractmethod
    def needs_observations(self) -> bool:
        """Whether the agent must see what the observer sees to execute the policy."""

    @property
    def executable(self) -> bool:
        """Whether an agent can execute it: False if it acts on what the agent does not know."""
        return True

    @abstractmethod
    def describe(self) -> str:
        """The kind of policy in words, such as `"a stationary Markov policy"`."""

    def more_seen(self) -> str:
        """What its agent must see besides the state, in words that end a sentence: `" and the time"`, or nothing."""
        return (" and the time" if self.timed else "") + (
            " and all that the observer sees" if self.needs_observations else ""
        )

    def on(self, problem: Problem) -> "Policy":
        """The policy as it acts in a problem: itself, and of a `FeaturePolicy` its table there."""
        return self

    def over(self, rows: Int[np.ndarray, " C"]) -> "Policy | None":
        """The same policy over larger states: row r acts as row `rows[r]` did; None if it has no such form."""
        return None

    def acting_in(self, problem: Problem, pair: str = OWN) -> Apart | None:
        """The problem of two observers together, if the policy acts on what one of them sees and the bits of the other count.

        It has the secret of the pair. None if `problem.only(pair)` alone is enough.

        **Raises:** `InputError` if there is no such problem.
        """
        if isinstance(problem.agent_sees, Observer) and self.reads(problem):
            return apart_from_agent(problem, pair)
        if self.reads(problem) and problem.channel(pair).receives:
            return apart(problem, (OWN, pair))
        return None

    def reads(self, problem: Problem) -> bool:
        """Whether what it does in a problem depends on what the agent receives: observations, or separate readings."""
        return self.needs_observations or not problem.agent.sees_state

    def acts_on_observer(self, problem: Problem, pair: str = OWN) -> bool:
        """Whether what it does depends on what the observer of a pair receives."""
        own = isinstance(problem.agent_sees, Observer) and self.memory != "history"
        return not own and problem.channel(pair).receives == 0 and self.reads(problem)

    def heard(self, together: Apart) -> tuple[np.ndarray, np.ndarray]:
        """Its own number of each first event and of each later one of a problem from `acting_in`, -1 for others."""
        view = together.view(AGENT if AGENT in together.names else OWN)
        return view.first, view.event

    @abstractmethod
    def check(self, problem: Problem) -> None:
        """Raise `InputError` if the policy does not fit the problem or takes an action that is not available."""

    @abstractmethod
    def choice_names(self, problem: Problem) -> tuple[str, ...]:
        """The names of the choices that it draws from: the actions; of a `Controller` the pairs (action, next node)."""

    @overload
    def player(self, problem: Problem, *, seed: int = 0, model: int | None = None) -> Player: ...
    @overload
    def player(self, problem: None = None, *, seed: int = 0) -> NamedPlayer: ...
    def player(
        self, problem: Problem | None = None, *, seed: int = 0, model: int | None = None
    ) -> Player | NamedPlayer:
        """Begin a run: the player keeps what the agent remembers, and its `act(state, observation)` is the next action.

        Without a problem, a policy that was read from a JSON file acts by the names in it: `step(state, reading)` is the name
        of the next action, see `veil.policy.runtime`. `veil.export_player` writes that as a file for a robot.

        **Arguments:** `seed` of the choices; `model`: the index of the model that runs, if the agent knows it
        (`WhichModel(agent_knows=True)`).

        **Raises:** `InputError` if the policy does not fit the problem, cannot be executed in it, or has no names and no
        problem is given.
        """
        if problem is not None:
            check_problem(problem)
            return self._player(problem, seed=seed, model=model)
        if self._names is None:
            remedy = "give the problem, or read the policy from a JSON file, which veil convert writes"
            raise InputError("policy", [f"it does not know the names of states and actions: {remedy}"])
        return NamedPlayer(self._names(), seed)

    @abstractmethod
    def _player(self, problem: Problem, *, seed: int, model: int | None) -> Player:
        """`player` in a problem."""

    def with_names(self, names: Callable[[], dict[str, Any]]) -> Self:
        """The same policy with the document that `veil.policy.runtime.Player` takes; it does not count for equality."""
        object.__setattr__(self, "_names", names)
        return self

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write the policy to a safetensors file, complete or not at all; the same policy gives the same bytes.

        **Raises:** `PolicyFileError` if the file cannot be written.
        """

    @abstractmethod
    def _content(self) -> tuple[str, Sequence[np.ndarray]]:
        """What `digest` hashes: the kind with all that is not an array, and the arrays."""

    def digest(self) -> str:
        """SHA-256 of the content, in hexadecimal: the kind, what is remembered, every number. The same on every machine."""
        return content_hash(*self._content())

    def memory_span(self, time: int) -> int:
        """How many steps around a time of the secret the policy remembers more than it does further away; at least 1."""
        return 1

    def start(self, problem: Problem, seed: int = 0, *, model: int | None = None) -> Player:
        """`player`, whose run `act` then continues; for one run at a time."""
        object.__setattr__(self, "_run", self.player(problem, seed=seed, model=model))
        assert self._run is not None
        return self._run

    def act(self, state: str | int | None = None, observation: Observation | None = None) -> int:
        """The next action, by index, in the run that `start` began; see `Player.act`."""
        if self._run is None:
            raise VeilError("no run has begun: call policy.start(problem) before policy.act(state, observation)")
        return self._run.act(state, observation)
