"""A problem whose states do not all allow every action, for the tests of policies."""

import numpy as np

import veil


def masked_problem(horizon: int = 2, secret: object = None) -> veil.Problem:
    """Three states, three actions: everything in `hall`, not `up` in `shaft`, only `stay` in `pit`."""
    entries = [
        ("hall", "stay", "hall", 1.0), ("hall", "up", "shaft", 1.0), ("hall", "down", "pit", 1.0),
        ("shaft", "stay", "shaft", 1.0), ("shaft", "down", "hall", 1.0),
        ("pit", "stay", "pit", 1.0),
    ]  # fmt: skip
    states, actions = ["hall", "shaft", "pit"], ["stay", "up", "down"]
    model = veil.Model.from_entries(entries, np.zeros((3, 3)), "hall", state_names=states, action_names=actions)
    return veil.Problem(model, veil.Observer(np.eye(3)), secret or veil.LastState({"pit"}), horizon)  # type: ignore[arg-type]


AVAILABLE = np.array([[1, 1, 1], [1, 0, 1], [1, 0, 0]], dtype=bool)


def knowing_problem(horizon: int = 2) -> veil.Problem:
    """The same with an automaton (was the shaft visited) whose state the agent knows: two rows for each state."""
    secret = veil.Automaton(
        transitions={("no", "shaft"): "yes"},
        initial="no",
        accepting={"yes"},
        labels={"shaft": "shaft"},
        default_label="plain",
        otherwise="stay",
        agent_knows=True,
    )
    return masked_problem(horizon, secret)
