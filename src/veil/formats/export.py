"""Results for other programs: policies as JSON and CSV, an agent to play them, and the chain that a policy makes."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import Names
from ..common.errors import InputError, PolicyFileError, VeilError
from ..common.files import write_whole
from ..engine.induced import InducedHMM, induced_hmm
from ..policy.history import HistoryPolicy
from ..policy.tables import Policy, check_fits, policy_is_stationary, rows_of
from ..problem.problem import Problem
from .arrays import packed
from .drn.writer import save_drn
from .export_history import POLICY_FORMAT, history_document


def policy_document(problem: Problem, policy: Policy | HistoryPolicy) -> dict[str, Any]:
    """A policy as one JSON document.

    Fields: `format` (`"veil-policy-table-1"`), `problem`, `kind`, `horizon`, `actions`, and `tables`: one for each time, or
    one for all (`"time": null`), each with `rows`: `{"row": name, "probabilities": {action: probability}}`, zeros left out.
    The rows of a history policy are `"node N: state"`, and `graph` says to which node the events lead.

    **Raises:** `InputError` where the policy does not fit the problem.
    """
    if isinstance(policy, HistoryPolicy):
        return history_document(problem, policy)
    table, rows = check_fits(policy, problem), rows_of(policy, problem)
    actions = _entry_names(rows)
    names = rows.cell_names
    stationary = policy_is_stationary(policy)
    memory = getattr(policy, "memory", None)
    return {
        "format": POLICY_FORMAT,
        "problem": problem.name,
        "kind": type(policy).__name__ + ("" if memory is None else f": {memory.describe()}"),
        "horizon": problem.horizon,
        "actions": list(actions),
        "tables": [
            {
                "time": None if stationary else time,
                "rows": [
                    {
                        "row": names[row],
                        "probabilities": {
                            actions[action]: float(here[row, action]) for action in np.flatnonzero(here[row]).tolist()
                        },
                    }
                    for row in range(len(here))
                ],
            }
            for time, here in enumerate(table)
        ],
    }


def policy_to_json(path: str | Path, problem: Problem, policy: Policy | HistoryPolicy) -> None:
    """Write `policy_document` to a file, complete or not at all."""
    _write(path, json.dumps(policy_document(problem, policy), indent=1, ensure_ascii=False) + "\n")


def policy_to_csv(path: str | Path, problem: Problem, policy: Policy | HistoryPolicy) -> None:
    """Write a policy as lines `time,row,action,probability`, zeros left out; the time is empty where one table serves all.

    **Raises:** `InputError` where the policy does not fit the problem; `PolicyFileError` where it cannot be written.
    """
    document = policy_document(problem, policy)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["time", "row", "action", "probability"])
    for table in document["tables"]:
        time = "" if table["time"] is None else table["time"]
        for row in table["rows"]:
            for action, probability in row["probabilities"].items():
                writer.writerow([time, row["row"], action, repr(probability)])
    _write(path, buffer.getvalue())


def chain_to_drn(path: str | Path, problem: Problem, policy: Policy | HistoryPolicy) -> InducedHMM:
    """Write the Markov chain that a policy makes as a DTMC in a DRN file; labels `secret_VALUE` mark the secret's values.

    The labels hold for the state at the secret's time; what Storm cannot read in a label is written as `_`. A start
    spread over several states becomes a first step of its own, without reward. Rewards of decisions are the reward model
    `reward`, those of the last state `terminal`: without discount the expected return is `R{"reward"}=? [C<=T]` and
    `R{"terminal"}=? [I=T]` together, with T + 1 in place of T where the start is spread. What the observer sees is not
    part of the file: it is in what is returned.

    **Raises:** `InputError` where the policy does not fit; `ModelFileError` where it cannot be written.
    """
    chain = induced_hmm(problem, policy)
    names = _label_names(chain.secret_values)
    labels = {name: chain.secret[:, number] > 0 for number, name in enumerate(names)}
    save_drn(path, chain.model(problem.discount), labels=labels, chain=True)
    return chain


def chain_to_arrays(path: str | Path, problem: Problem, policy: Policy | HistoryPolicy) -> InducedHMM:
    """Write the hidden Markov model that a policy makes as a `.npz` file with the names of `hmmlearn.hmm.CategoricalHMM`.

    Arrays: `startprob_` `(M,)`, `transmat_` `(M, M)`, `emissionprob_` `(M, E)`, and `rewards` `(M,)`,
    `terminal_rewards` `(M,)`, `states` `(M,)`, `symbols` `(E,)`.
    """
    chain = induced_hmm(problem, policy)
    arrays = {
        **chain.hmmlearn(),
        "rewards": chain.rewards,
        "terminal_rewards": chain.terminal_rewards,
        "states": np.array(chain.states),
        "symbols": np.array(chain.symbols),
    }
    _write(path, packed(arrays))
    return chain


class Agent:
    """Plays a policy in an environment, as agents for Gymnasium do: `agent.reset()`, then `agent.act(state)` each step.

    **Arguments:** `problem`, `policy`; `seed` of its choices; `model`: which model runs, where the agent knows it.

    `state` is what the environment shows of the state: its index in the problem's model (Gymnasium's own numbers, for
    models that `from_gymnasium` made), or its name. Where the policy remembers observations, `observation` is what the
    observer saw. Time-dependent policies end with the horizon.

    **Raises:** `InputError` where the policy does not fit the problem.
    """

    def __init__(self, problem: Problem, policy: Any, *, seed: int = 0, model: int | None = None):
        self.problem = problem
        self.policy = policy
        self._model = model
        self._player: Any = None
        self._keeps_own = hasattr(policy, "start")
        self._table = None if self._keeps_own else check_fits(policy, problem)
        self._knows = problem.secret_table.agent_knows
        if self._knows and not self._keeps_own and len(problem.models) > 1 and model is None:
            raise InputError(
                "agent", [f"the policy depends on which model runs: give model=0 … {len(problem.models) - 1}"]
            )
        self.reset(seed=seed)

    def reset(self, *, seed: int | None = None) -> None:
        """Begin a new run; a seed begins the choices anew, else they go on from where they are."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._time, self._memory = 0, 0
        if self._keeps_own:
            self._player = self.policy.start(self.problem, int(self._generator.integers(2**63)), model=self._model)

    def act(self, state: str | int, observation: Any = None) -> int:
        """The action to take in a state, by index.

        **Raises:** `InputError` on an unknown state; `VeilError` when the policy's clock has run out.
        """
        if self._player is not None:
            return self._player.act(state, observation)
        assert self._table is not None
        if len(self._table) > 1 and self._time >= len(self._table):
            raise VeilError(f"the policy has {len(self._table)} decisions and all are made: call agent.reset()")
        row = self._row(_find(self.problem.model.states, state))
        here = self._table[0 if policy_is_stationary(self.policy) else self._time][row]
        self._time += 1
        return int(self._generator.choice(len(here), p=here / here.sum()))

    def _row(self, state: int) -> int:
        """The row of the table: the state, with the secret's memory and the model where the agent knows them."""
        if not self._knows:
            return state
        table = self.problem.secret_table
        self._memory = int(table.memory_start[state] if self._time == 0 else table.memory_step[self._memory, state])
        count = len(table.memory_names)
        return ((self._model or 0) * count + self._memory) * self.problem.num_states + state


def _label_names(values: Sequence[str]) -> list[str]:
    """A label for each value that can be used in a property of Storm: letters, digits and `_`, and no two alike."""
    names = [f"secret_{re.sub('[^A-Za-z0-9_]', '_', value)}" for value in values]
    return names if len(set(names)) == len(names) else [f"{name}_{number}" for number, name in enumerate(names)]


def _find(states: Names, key: Any) -> int:
    try:
        return states.find(key)
    except KeyError as error:
        raise InputError("state", [error.args[0]]) from None


def _entry_names(rows: Any) -> tuple[str, ...]:
    return rows.model.actions.all() if isinstance(rows, Problem) else rows.action_names


def _write(path: str | Path, content: str | bytes) -> None:
    try:
        write_whole(path, content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise PolicyFileError(f"{path} cannot be written: {error.strerror}") from None
