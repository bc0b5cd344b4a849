"""The fingerprint: the same for the same problem however and wherever it is built, another for every other one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import veil
from veil.problem.fingerprint import fingerprint

TRANSITIONS = np.array([
    [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
    [[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]],
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
])  # fmt: skip
MODEL: dict[str, Any] = {
    "transitions": TRANSITIONS,
    "rewards": np.array([[0.0, 1.0], [0.5, 0.0], [0.0, -2.0]]),
    "initial": [0.5, 0.5, 0.0],
    "discount": 0.75,
    "terminal_rewards": [0.0, 0.0, 1.0],
    "state_names": ["hall", "yard", "vault"],
    "action_names": ["wait", "go"],
}
OBSERVER: dict[str, Any] = {
    "emissions": [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]],
    "observation_names": ["quiet", "beep"],
    "sees_actions": False,
    "sees_initial": True,
}
PROBLEM: dict[str, Any] = {
    "secret": veil.LastState({2}),
    "horizon": 3,
    "min_return": 0.25,
    "return_over": "horizon",
    "agent_sees": "state",
}
AUTOMATON: dict[str, Any] = {
    "transitions": {("out", "far"): "out", ("out", "near"): "in", ("in", "far"): "in", ("in", "near"): "in"},
    "initial": "out",
    "accepting": {"in"},
    "labels": {"vault": "near"},
    "default_label": "far",
}


def build(**changes: Any) -> veil.Problem:
    """The problem above with some arguments of the model, the observer or the problem changed."""
    parts = [{name: changes.pop(name, value) for name, value in part.items()} for part in (MODEL, OBSERVER, PROBLEM)]
    model = veil.Model(**parts[0], available=changes.pop("available", None))
    observer = veil.Observer(**parts[1], silent=changes.pop("silent", None), sensors=changes.pop("sensors", None))
    return veil.Problem(changes.pop("models", model), observer, **parts[2], **changes)


def model_of(transitions: Any, **changes: Any) -> veil.Model:
    """The model above with other transitions."""
    arguments: dict[str, Any] = MODEL | {"transitions": transitions} | changes
    return veil.Model(**arguments)


def changed(array: Any, index: Any, *values: float) -> np.ndarray:
    result = np.array(array, dtype=float)
    result[index] = values
    return result


def two_models(**secret: Any) -> veil.Problem:
    other = model_of(changed(TRANSITIONS, (0, 0), 0.25, 0.75, 0.0))
    return build(models=[veil.Model(**MODEL), other], secret=veil.WhichModel(**secret))


def automaton(**changes: Any) -> veil.Problem:
    return build(secret=veil.Automaton(**(AUTOMATON | changes)))


UP = np.nextafter(0.5, 1)  # the smallest change there is
MANY = {
    "as it is": build(),
    "a transition": build(transitions=changed(TRANSITIONS, (0, 0), UP, 1 - UP, 0.0)),
    "where a transition leads": build(transitions=changed(TRANSITIONS, (0, 0), 0.5, 0.0, 0.5)),
    "the actions exchanged": build(transitions=TRANSITIONS[:, ::-1]),
    "a reward": build(rewards=changed(MODEL["rewards"], 1, UP, 0.0)),
    "a terminal reward": build(terminal_rewards=[0.0, 1.0, 0.0]),
    "no terminal rewards": build(terminal_rewards=None),
    "the start": build(initial=[0.25, 0.75, 0.0]),
    "the discount": build(discount=0.5),
    "a state's name": build(state_names=["hall", "yard", "Vault"]),
    "names of states run together": build(state_names=["hally", "ard", "vault"]),
    "names of states exchanged": build(state_names=["yard", "hall", "vault"]),
    "an action's name": build(action_names=["wait", "run"]),
    "an action not available": build(
        transitions=changed(TRANSITIONS, (2, 1), 0.0, 0.0, 0.0), available=[[1, 1], [1, 1], [1, 0]]
    ),
    "an emission": build(emissions=[[1.0, 0.0], [UP, 1 - UP], [0.0, 1.0]]),
    "emissions on actions": build(emissions=[OBSERVER["emissions"]] * 2),
    "an observation more": build(
        emissions=[[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0]], observation_names=["quiet", "beep", "siren"]
    ),
    "an observation's name": build(observation_names=["silent", "beep"]),
    "actions are seen": build(sees_actions=True),
    "the first is not seen": build(sees_initial=False),
    "other secret states": build(secret=veil.LastState({"yard"})),
    "another time": build(secret=veil.StateAt(2, {"vault"})),
    "the start as the secret": build(secret=veil.InitialState()),
    "groups of starts": build(secret=veil.InitialState({"a": ["hall"], "b": ["yard"]})),
    "names of groups": build(secret=veil.InitialState({"a": ["hall"], "c": ["yard"]})),
    "an automaton": automaton(),
    "its step": automaton(transitions=AUTOMATON["transitions"] | {("in", "near"): "out"}),
    "its states' names": automaton(
        transitions={("o", "far"): "o", ("o", "near"): "in", ("in", "far"): "in", ("in", "near"): "in"}, initial="o"
    ),
    "its accepting states": automaton(accepting={"out"}),
    "its labels": automaton(labels={"yard": "near"}),
    "its state is known": automaton(agent_knows=True),
    "two models": two_models(),
    "their weights": two_models(weights=[0.25, 0.75]),
    "their names": two_models(names=["old", "new"]),
    "the model is known": two_models(agent_knows=True),
    "the horizon": build(horizon=4),
    "the threshold": build(min_return=UP),
    "a threshold of nothing": build(min_return=0),
    "no threshold": build(min_return=None),
    "a share as threshold": build(min_return="25%"),
    "a share of nothing": build(min_return="0%"),
    "over an infinite horizon": build(return_over="infinite", terminal_rewards=None),
    "the agent sees": build(agent_sees="state+observations"),
}


def test_every_change_of_content_changes_it():
    found = {name: fingerprint(problem) for name, problem in MANY.items()}
    same = {value: [name for name in found if found[name] == value] for value in found.values()}
    assert [names for names in same.values() if len(names) > 1] == []
    assert all(len(value) == 64 and set(value) <= set("0123456789abcdef") for value in found.values())


def test_equal_problems_agree_however_they_are_built():
    entries = [
        (MODEL["state_names"][s], MODEL["action_names"][a], MODEL["state_names"][n], float(TRANSITIONS[s, a, n]))
        for s, a, n in np.argwhere(TRANSITIONS)[::-1]
    ]
    named = {name: MODEL[name] for name in ("state_names", "action_names")}
    rewards = {("hall", "go"): 1.0, ("yard", "wait"): 0.5, ("vault", "go"): -2.0}
    from_entries = veil.Model.from_entries(entries, rewards, {"yard": 0.5, "hall": 0.5}, 0.75, {"vault": 1.0}, **named)
    models = [
        model_of([sp.csc_array(TRANSITIONS[:, a]) for a in range(2)]),
        model_of([with_stored_zeros(TRANSITIONS[:, a]) for a in range(2)]),
        model_of([halved_and_unsorted(TRANSITIONS[:, a]) for a in range(2)]),
        model_of(TRANSITIONS.tolist(), initial=[0.5, 0.5, -0.0]),
        from_entries,
    ]
    for model in models:
        assert fingerprint(build(models=model)) == fingerprint(build())
    assert fingerprint(build(secret=veil.LastState(["vault"]))) == fingerprint(build())
    assert fingerprint(build(secret=veil.StateAt(3, ["vault"]))) == fingerprint(build())
    assert fingerprint(build().replace()) == fingerprint(build())


def with_stored_zeros(table: np.ndarray) -> sp.csr_array:
    rows, columns = np.indices(table.shape)
    return sp.csr_array((table.ravel(), (rows.ravel(), columns.ravel())), shape=table.shape)


def halved_and_unsorted(table: np.ndarray) -> sp.coo_array:
    rows, columns = (np.tile(part[::-1], 2) for part in np.nonzero(table))
    return sp.coo_array((table[rows, columns] / 2, (rows, columns)), shape=table.shape)


def test_minus_zero_is_zero():
    problem = build(rewards=-MODEL["rewards"] * 0, min_return=-0.0, initial=[0.5, 0.5, -0.0])
    assert fingerprint(problem) == fingerprint(build(rewards=MODEL["rewards"] * 0 + 0.0, min_return=0.0))


def test_what_is_for_show_is_not_part_of_it():
    assert fingerprint(build(name="another")) == fingerprint(build())
    assert fingerprint(build(silent="quiet", sensors={"door": {"beep": "quiet"}})) == fingerprint(build())


def test_names_by_default_are_names():
    """`s0` given is `s0` by default: every report calls the state the same."""
    plain = build(state_names=None, action_names=None, observation_names=None)
    named = build(state_names=["s0", "s1", "s2"], action_names=["a0", "a1"], observation_names=["o0", "o1"])
    assert fingerprint(plain) == fingerprint(named)


def test_it_is_the_same_on_every_machine():
    """Written down once; a change means that every stored certificate becomes worthless: change the form's number too."""
    assert fingerprint(build()) == "eda7079bea231af976b62a0ba4654a09bcfd7eb6eebecea7057f3f50a31e97b5"


def test_it_is_the_same_in_every_process():
    code = (
        "import veil, sys\n"
        "from veil.problem.fingerprint import fingerprint\n"
        "p = veil.gallery.load('paper-last-state')\n"
        "names = {p.model.states[i] for i in (3, 7, 20, 31)}\n"
        "print(fingerprint(p.replace(secret=veil.LastState(names))))"
    )
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(veil.__file__).parent.parent)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        found.add(done.stdout)
    assert len(found) == 1
