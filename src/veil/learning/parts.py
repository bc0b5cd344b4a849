"""The parts of a problem that are estimated, and the problem and policy with given values of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from ..common.errors import InputError
from ..policy.markov import MarkovPolicy
from ..policy.policy import Policy
from ..policy.tables import uniform_table
from ..problem.model import Model
from ..problem.problem import Problem
from ..problem.secrets.which_model import WhichModel
from .counting import (
    Rewards,
    actions_taken,
    choice_counts,
    emission_counts,
    rewards_of,
    start_counts,
    transition_counts,
)
from .logs import UNKNOWN, Logs
from .tables import Interval, Table

START, TRANSITION, EMISSION, CHOICE, REWARD, SECRET = "start", "transition", "emission", "choice", "reward", "secret"
PARTS = {"model": (START, TRANSITION), "sensors": (EMISSION,), "policy": (CHOICE,), "rewards": (REWARD,)}
"""What is estimated for each word of `what`; of several models, also how often each of them runs (`SECRET`)."""


def of_model(part: str, number: int) -> str:
    """The name of a table of one of several models: the part itself for the first."""
    return f"{part} {number}" if number else part


Values = Mapping[str, np.ndarray]
"""The values of the entries of each table."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The tables that are estimated, over a problem and a policy that give the rest; and mean rewards, if they are."""

    problem: Problem
    policy: Policy
    tables: Mapping[str, Table]
    rewards: Rewards | None = None

    def mean(self) -> Values:
        """The posterior means."""
        return {name: table.mean() for name, table in self.tables.items()}

    def resampled(self, generator: np.random.Generator) -> "Parts":
        """The same after other counts, as many in each row, drawn from the means."""
        return replace(self, tables={name: table.resampled(generator) for name, table in self.tables.items()})

    def log_likelihood(self) -> float:
        """Natural logarithm of the probability of what was counted, at the means."""
        return sum(table.log_likelihood() for table in self.tables.values())

    def assembled(self, values: Values) -> tuple[Problem, Policy]:
        """The problem and the policy with these values."""
        problem = self.problem
        if self._has_models or self.rewards is not None:
            models = [self._model(values, number) for number in range(len(problem.models))]
            problem = problem.replace(model=models if len(models) > 1 else models[0], layout=problem.layout)
        if SECRET in values:
            assert isinstance(problem.secret, WhichModel)
            problem = problem.replace(secret=replace(problem.secret, weights=values[SECRET]), layout=problem.layout)
        if EMISSION in values:
            stacked = self.tables[EMISSION].into(stacked_emissions(problem), values[EMISSION])
            size = problem.num_states
            tables = [stacked[a * size : (a + 1) * size] for a in range(len(problem.observer.matrices))]
            emissions = tables if problem.observer.on_actions else tables[0]
            problem = problem.replace(observer=problem.observer.replace(emissions=emissions))
        policy = self.policy
        if CHOICE in values:
            rows = self.tables[CHOICE].shape[0]
            base = sp.csr_array(uniform_table(problem)[:rows])
            table = self.tables[CHOICE].into(base, values[CHOICE]).toarray()
            policy = MarkovPolicy(np.tile(table, (problem.num_cells // rows, 1)))
        return problem, policy

    def intervals(self, confidence: float | None) -> Iterator[Interval]:
        """Every estimated probability, in the order of the tables; NaN as ends where the confidence is None."""
        model, observer, size = self.problem.model, self.problem.observer, self.problem.num_states
        values = self.problem.secret_values

        def pair(row: int) -> str:
            return f"{model.states[row % size]}, {model.actions[row // size]}"

        def state(row: int) -> str:
            return model.states[row]

        def cell(row: int) -> str:
            return self.problem.cell_names[row] if self.tables[CHOICE].shape[0] > size else model.states[row]

        named: dict[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
            START: (lambda _: "", state),
            TRANSITION: (pair, state),
            EMISSION: (pair if observer.on_actions else state, lambda column: observer.observations[column]),
            CHOICE: (cell, lambda column: model.actions[column]),
            SECRET: (lambda _: "", lambda column: values[column]),
        }
        for name, table in self.tables.items():
            _, _, number = name.partition(" ")
            several = len(self.problem.models) > 1 and table.part in (START, TRANSITION)
            before = values[int(number or 0)] if several else ""
            given, value = named[table.part]
            yield from table.intervals(confidence, _behind(before, given), value)

    @property
    def _has_models(self) -> bool:
        return any(table.part == TRANSITION for table in self.tables.values())

    def _model(self, values: Values, number: int) -> Model:
        old, size = self.problem.models[number], self.problem.num_states
        stacked, available, initial = sp.csr_array(sp.vstack(old.matrices)), old.available, old.initial
        start, moves = of_model(START, number), of_model(TRANSITION, number)
        if moves in values:
            stacked = self.tables[moves].into(stacked, values[moves])
            available = available | self.tables[moves].rows.reshape(old.num_actions, size).T
        if start in values:
            initial = self.tables[start].into(sp.csr_array(initial[None]), values[start]).toarray()[0]
        paid, terminal = old.all_rewards, old.all_terminal_rewards
        if self.rewards is not None:
            first, found = next(iter(paid)), self.rewards
            paid = paid | {first: np.where(found.counts > 0, found.means, paid[first])}
            terminal = terminal | {first: np.where(found.ends > 0, found.last, terminal[first])}
        return Model(
            [stacked[a * size : (a + 1) * size] for a in range(old.num_actions)],
            paid,
            initial,
            old.discount,
            terminal,
            old.states,
            old.actions,
            available=available,
        )


def _behind(before: str, given: Callable[[int], str]) -> Callable[[int], str]:
    """Names of rows behind that of their model."""
    return (lambda row: ": ".join(filter(None, (before, given(row))))) if before else given


def stacked_emissions(problem: Problem) -> sp.csr_array:
    """The emissions `(S, O)`, or `(A · S, O)` on (action, next state)."""
    return sp.csr_array(sp.vstack(problem.observer.matrices))


def counted(
    logs: Logs, problem: Problem, policy: Policy, names: set[str], prior: float, runs: np.ndarray | None = None
) -> Parts:
    """The tables of these names from logs whose states are known, numbered as those of the problem.

    **Arguments:** `runs`: of several models, the number of the one that each run is from, `UNKNOWN` where that is not known.

    **Raises:** `InputError` where nothing of a table was recorded, or an action was taken where it is not available.
    """
    size, actions, observer = problem.num_states, problem.num_actions, problem.observer
    moments = None if runs is None else runs[np.cumsum(logs.begins) - 1]
    tables: dict[str, Table] = {}
    if SECRET in names or START in names:
        tables |= _of_models(logs, problem, prior, runs, moments)
    if EMISSION in names:
        counts = emission_counts(logs, size, actions, observer.num_observations, on_actions=observer.on_actions)
        if counts.nnz:
            tables[EMISSION] = Table.of(EMISSION, counts, stacked_emissions(problem), prior)
    missing = names & {TRANSITION, EMISSION} - {table.part for table in tables.values()}
    if missing:
        needs = {TRANSITION: "a state, an action and the next state", EMISSION: "a state and its observation"}
        words = ", or ".join(needs[name] for name in sorted(missing))
        raise InputError(logs.source, [f"no moment has {words}: record them, or estimate other parts (what=…)"])
    if CHOICE in names:
        tables[CHOICE] = _choices(logs, problem, tables, prior, moments)
    rewards = None
    if REWARD in names:
        rewards = rewards_of(logs, size, actions)
        if not (rewards.counts.any() or rewards.ends.any()):
            raise InputError(logs.source, ["no reward was recorded with its state and action: leave the rewards out"])
    return Parts(problem, policy, tables, rewards)


def _of_models(
    logs: Logs, problem: Problem, prior: float, runs: np.ndarray | None, moments: np.ndarray | None
) -> dict[str, Table]:
    """Start and transitions of each model from its runs, and how often each of them runs.

    What a model was never seen to do stays as the problem has it; what the problem does not allow, but other models were seen
    to do, is as it is in all runs together.
    """
    size, actions = problem.num_states, problem.num_actions
    everything = transition_counts(logs, size, actions)
    tables: dict[str, Table] = {}
    for number, model in enumerate(problem.models):
        own = logs
        if moments is not None:
            own = replace(logs, state=np.where(moments == number, logs.state, UNKNOWN))
        counts, allowed = transition_counts(own, size, actions), sp.csr_array(sp.vstack(model.matrices))
        if moments is not None:
            nowhere = (np.asarray(counts.sum(axis=1) + allowed.sum(axis=1)).ravel() == 0).astype(float)
            counts = sp.csr_array(counts + sp.diags_array(nowhere) @ everything)
        if counts.nnz:
            tables[of_model(TRANSITION, number)] = Table.of(TRANSITION, counts, allowed, prior)
        first = start_counts(own, size)
        if first.nnz:
            tables[of_model(START, number)] = Table.of(START, first, sp.csr_array(model.initial[None]), prior)
    if runs is not None:
        known = np.bincount(runs[runs != UNKNOWN], minlength=len(problem.models))
        tables[SECRET] = Table.of(
            SECRET, sp.csr_array(known[None].astype(float)), sp.csr_array(np.ones((1, len(known)))), prior
        )
    order = {START: 0, TRANSITION: 1, SECRET: 2}
    return dict(sorted(tables.items(), key=lambda item: order[item[1].part]))


def _choices(
    logs: Logs, problem: Problem, tables: Mapping[str, Table], prior: float, moments: np.ndarray | None
) -> Table:
    """How often each action was taken: in each state, or in each model and state if the agent knows which model runs."""
    size, actions = problem.num_states, problem.num_actions
    available = problem.model.available
    for table in tables.values():
        if table.part == TRANSITION:
            available = available | table.rows.reshape(actions, size).T
    _check_choices(logs, problem, available)
    count = len(problem.models)
    by_model = moments is not None and problem.agent.knows_model and problem.num_cells == count * size
    taken = choice_counts(logs, size, actions, moments if by_model else None)
    if by_model:
        taken.resize((count * size, actions))
        available = np.tile(available, (count, 1))
    if not taken.nnz:
        raise InputError(logs.source, ["no moment has a state and its action: record them, or leave the policy out"])
    return Table.of(CHOICE, taken, sp.csr_array(available.astype(float)), prior)


def _check_choices(logs: Logs, problem: Problem, available: np.ndarray) -> None:
    action = actions_taken(logs, problem.num_actions)
    known = np.flatnonzero((logs.state != UNKNOWN) & (action != UNKNOWN))
    wrong = known[~available[logs.state[known], action[known]]]
    if len(wrong):
        one = int(wrong[0])
        state, taken = problem.model.states[int(logs.state[one])], problem.model.actions[int(action[one])]
        found = f"{logs.where(one)}: action {taken!r} is not available in state {state!r}"
        raise InputError(logs.source, [f"{found}: estimate the model too, or correct the scenario"])
