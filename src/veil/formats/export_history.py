"""history policies as documents: the graph of what was seen, and the choices at each of its nodes."""

from typing import Any

import numpy as np

from ..engine.followed import follow
from ..engine.hidden import event_name
from ..policy.history import HistoryPolicy
from ..problem.problem import Problem

POLICY_FORMAT = "veil-policy-table-1"


def history_document(problem: Problem, policy: HistoryPolicy) -> dict[str, Any]:
    """As `veil.formats.export.policy_document`, with `graph`: the node after each first event, then after each later one.

    **Raises:** `InputError` where the policy does not fit the problem.
    """
    follow(problem, policy)  # refuses a policy that does not fit
    actions = problem.model.actions.all()
    return {
        "format": POLICY_FORMAT,
        "problem": problem.name,
        "kind": "HistoryPolicy",
        "horizon": problem.horizon,
        "actions": list(actions),
        "graph": _graph(problem, policy),
        "tables": [
            {
                "time": time,
                "rows": [
                    {
                        "row": _row_name(problem, *places),
                        "probabilities": {actions[a]: float(row[a]) for a in np.flatnonzero(row).tolist()},
                    }
                    for *places, row in zip(rows.node, rows.situation, rows.value, rows.probabilities, strict=True)
                ],
            }
            for time, rows in enumerate(policy.decisions)
        ],
    }


def _graph(problem: Problem, policy: HistoryPolicy) -> list[dict[str, Any]]:
    """The steps `{"time": t, "from": node, "event": event, "to": node}`; at time 0 from no node.

    Where the policy remembers in which state the agent was at one time, further steps of that time have its `state` in
    place of an event: they come after the event's own.
    """
    steps: list[dict[str, Any]] = []
    for event, node in enumerate(policy.first.tolist()):
        if node >= 0:
            seen = event_name(problem, event, 0) if problem.observer.sees_first else None
            steps.append({"time": 0, "from": None, "event": seen, "to": node})
    for time, table in enumerate(policy.following[:-1], 1):  # after the last decision nothing is chosen
        for node, event in np.argwhere(table >= 0).tolist():
            seen = event_name(problem, event, time)
            told = list(seen) if isinstance(seen, tuple) else seen
            steps.append({"time": time, "from": node, "event": told, "to": int(table[node, event])})
    if policy.told is not None:
        for node, situation in np.argwhere(policy.told >= 0).tolist():
            state, to = _situation_name(problem, situation), int(policy.told[node, situation])
            steps.append({"time": policy.told_at, "from": node, "state": state, "to": to})
    return steps


def _row_name(problem: Problem, node: int, situation: int, value: int) -> str:
    known = f", secret {problem.secret_values[value]}" if value >= 0 else ""
    return f"node {node}: {_situation_name(problem, situation)}{known}"


def _situation_name(problem: Problem, situation: int) -> str:
    table = problem.secret_table
    rest, state = divmod(int(situation), problem.num_states)
    model, memory = divmod(rest, len(table.memory_names))
    parts = [problem.model.states[state]]
    parts += [f"memory {table.memory_names[memory]}"] if len(table.memory_names) > 1 else []
    parts += [f"model {model}"] if len(problem.models) > 1 else []
    return ", ".join(parts)
