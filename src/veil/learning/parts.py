"""The parts of a problem that are estimated, and the problem and policy with given values of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..common.errors import InputError
from ..policy.markov import MarkovPolicy
from ..policy.policy import Policy
from ..policy.tables import uniform_table
from ..problem.model import Model
from ..problem.problem import Problem
from .counting import actions_taken, choice_counts, emission_counts, start_counts, transition_counts
from .logs import UNKNOWN, Logs
from .tables import Interval, Table

START, TRANSITION, EMISSION, CHOICE = "start", "transition", "emission", "choice"
PARTS = {"model": (START, TRANSITION), "sensors": (EMISSION,), "policy": (CHOICE,)}
"""The tables that are estimated for each word of `what`."""

Values = Mapping[str, np.ndarray]
"""The values of the entries of each table."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The tables that are estimated, over a problem and a policy that give the rest."""

    problem: Problem
    policy: Policy
    tables: Mapping[str, Table]

    def mean(self) -> Values:
        """The posterior means."""
        return {name: table.mean() for name, table in self.tables.items()}

    def draw(self, generator: np.random.Generator) -> Values:
        """One draw from the posterior of all tables."""
        return {name: table.draw(generator) for name, table in self.tables.items()}

    def log_likelihood(self) -> float:
        """Natural logarithm of the probability of what was counted, at the means."""
        return sum(table.log_likelihood() for table in self.tables.values())

    def assembled(self, values: Values) -> tuple[Problem, Policy]:
        """The problem and the policy with these values."""
        problem = self.problem
        if TRANSITION in values:
            problem = problem.replace(model=self._model(values), layout=problem.layout)
        if EMISSION in values:
            stacked = self.tables[EMISSION].into(stacked_emissions(problem), values[EMISSION])
            size = problem.num_states
            tables = [stacked[a * size : (a + 1) * size] for a in range(len(problem.observer.matrices))]
            emissions = tables if problem.observer.on_actions else tables[0]
            problem = problem.replace(observer=problem.observer.replace(emissions=emissions))
        policy = self.policy
        if CHOICE in values:
            base = sp.csr_array(uniform_table(problem)[: problem.num_states])
            table = self.tables[CHOICE].into(base, values[CHOICE]).toarray()
            policy = MarkovPolicy(np.tile(table, (problem.num_cells // problem.num_states, 1)))
        return problem, policy

    def intervals(self, confidence: float | None) -> Iterator[Interval]:
        """Every estimated probability, in the order of the tables; NaN as ends where the confidence is None."""
        model, observer, size = self.problem.model, self.problem.observer, self.problem.num_states

        def pair(row: int) -> str:
            return f"{model.states[row % size]}, {model.actions[row // size]}"

        def state(row: int) -> str:
            return model.states[row]

        named: dict[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
            START: (lambda _: "", state),
            TRANSITION: (pair, state),
            EMISSION: (pair if observer.on_actions else state, lambda column: observer.observations[column]),
            CHOICE: (state, lambda column: model.actions[column]),
        }
        for name, table in self.tables.items():
            yield from table.intervals(confidence, *named[name])

    def _model(self, values: Values) -> Model:
        old, size = self.problem.model, self.problem.num_states
        table = self.tables[TRANSITION]
        stacked = table.into(sp.csr_array(sp.vstack(old.matrices)), values[TRANSITION])
        initial = old.initial
        if START in values:
            initial = self.tables[START].into(sp.csr_array(initial[None]), values[START]).toarray()[0]
        return Model(
            [stacked[a * size : (a + 1) * size] for a in range(old.num_actions)],
            old.all_rewards,
            initial,
            old.discount,
            old.all_terminal_rewards,
            old.states,
            old.actions,
            available=old.available | table.rows.reshape(old.num_actions, size).T,
        )


def stacked_emissions(problem: Problem) -> sp.csr_array:
    """The emissions `(S, O)`, or `(A · S, O)` on (action, next state)."""
    return sp.csr_array(sp.vstack(problem.observer.matrices))


def counted(logs: Logs, problem: Problem, policy: Policy, names: set[str], prior: float) -> Parts:
    """The tables of these names from logs whose states are known, numbered as those of the problem.

    **Raises:** `InputError` where nothing of a table was recorded, or an action was taken where it is not available.
    """
    size, actions, model = problem.num_states, problem.num_actions, problem.model
    counts = {
        START: (start_counts(logs, size), sp.csr_array(model.initial[None])),
        TRANSITION: (transition_counts(logs, size, actions), sp.csr_array(sp.vstack(model.matrices))),
        EMISSION: (
            emission_counts(
                logs, size, actions, problem.observer.num_observations, on_actions=problem.observer.on_actions
            ),
            stacked_emissions(problem),
        ),
    }
    tables = {name: Table.of(name, *pair, prior) for name, pair in counts.items() if name in names and pair[0].nnz > 0}
    missing = names - set(tables) - {CHOICE, START}
    if missing:
        needs = {TRANSITION: "a state, an action and the next state", EMISSION: "a state and its observation"}
        words = ", or ".join(needs[name] for name in sorted(missing))
        raise InputError(logs.source, [f"no moment has {words}: record them, or estimate other parts (what=…)"])
    if CHOICE in names:
        available = model.available
        if TRANSITION in tables:
            available = available | tables[TRANSITION].rows.reshape(actions, size).T
        _check_choices(logs, problem, available)
        taken = choice_counts(logs, size, actions)
        if not taken.nnz:
            raise InputError(
                logs.source, ["no moment has a state and its action: record them, or leave the policy out"]
            )
        tables[CHOICE] = Table.of(CHOICE, taken, sp.csr_array(available.astype(float)), prior)
    return Parts(problem, policy, tables)


def _check_choices(logs: Logs, problem: Problem, available: np.ndarray) -> None:
    action = actions_taken(logs, problem.num_actions)
    known = np.flatnonzero((logs.state != UNKNOWN) & (action != UNKNOWN))
    wrong = known[~available[logs.state[known], action[known]]]
    if len(wrong):
        one = int(wrong[0])
        state, taken = problem.model.states[int(logs.state[one])], problem.model.actions[int(action[one])]
        found = f"{logs.where(one)}: action {taken!r} is not available in state {state!r}"
        raise InputError(logs.source, [f"{found}: estimate the model too, or correct the scenario"])
