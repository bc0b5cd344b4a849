"""The public contract: every name with its signature, and one walk that uses them together as a program outside would."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.formats.results.folder import read_result
from veil.problem.fingerprint import fingerprint

# Each callable with the parameters that callers may rely on, in order; what follows them is free to grow.
SIGNATURES: dict[str, str] = {
    "Model": "transitions rewards initial discount terminal_rewards state_names action_names",
    "Observer": "emissions observation_names sees_actions sees_initial",
    "Problem": "model observer secret horizon min_return return_over",
    "Problem.save": "self path",
    "LastState": "states",
    "InitialState": "groups",
    "StateAt": "time states",
    "load": "path",
    "load_policy": "path problem",
    "from_gymnasium": "env",
    "from_prism": "path constants",
    "from_pomdp": "path",
    "from_arrays": "path",
    "expected_return": "problem policy",
    "opacity": "problem policy",
    "opacity_gradient": "problem theta",
    "max_return": "problem",
    "frontier": "problem points",
    "attack": "problem policy",
    "ObserverFilter": "problem policy",
    "solve": "problem method memory goal",
    "Solution.save": "self folder",
    "certify": "problem policy time_limit",
    "verify": "certificate problem policy",
    "Certificate.save": "self path",
    "Certificate.load": "path",
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "Model": {"discount": 1.0, "terminal_rewards": None, "state_names": None, "action_names": None},
    "Observer": {"observation_names": None, "sees_actions": False, "sees_initial": True},
    "Problem": {"min_return": None, "return_over": "horizon"},
    "solve": {
        "method": "auto", "memory": "markov", "goal": "opaque", "seed": 0, "time_limit": None, "iterations": None,
        "certificate": True,
    },
}  # fmt: skip
ATTRIBUTES = {
    "Solution": "policy opacity expected_return status feasible history iterations certificate summary save",
    "Certificate": "lower upper gap feasible save load",
    "Imported": "observing sensing problem mask valuations",
    "Policy": "memory needs_observations describe digest save player",
}


def named(path: str) -> Any:
    found: Any = veil
    for part in path.split("."):
        found = getattr(found, part)
    return found


@looped("path", SIGNATURES)
def test_the_signature_is_as_promised(path: str):
    promised = SIGNATURES[path].split()
    assert list(inspect.signature(named(path)).parameters)[: len(promised)] == promised


@looped("path", DEFAULTS)
def test_the_defaults_are_as_promised(path: str):
    parameters = inspect.signature(named(path)).parameters
    assert {name: parameters[name].default for name in DEFAULTS[path]} == DEFAULTS[path]


@looped("name", ATTRIBUTES)
def test_the_attributes_are_as_promised(name: str):
    kind = getattr(veil, name)
    fields = {field for one in kind.__mro__ for field in getattr(one, "__annotations__", {})}
    assert set(ATTRIBUTES[name].split()) <= fields | set(dir(kind))


def test_from_arrays_to_a_verified_answer(tmp_path: Path):
    transitions = np.zeros((2, 2, 2))
    transitions[0] = [[1, 0], [0.5, 0.5]]
    transitions[1] = [[0, 1], [0, 1]]
    model = veil.Model(transitions, [[0, 0], [1, 1]], [1, 0], state_names=["hall", "vault"])
    observer = veil.Observer([[1, 0], [0.25, 0.75]], observation_names=["quiet", "alarm"])
    problem = veil.Problem(model, observer, veil.LastState(["vault"]), horizon=2, min_return=0.3)
    problem.save(tmp_path / "hall.toml")
    assert fingerprint(veil.load(tmp_path / "hall.toml")) == fingerprint(problem)
    solution = veil.solve(problem, method="auto", memory="markov", goal="opaque", seed=0, iterations=20)
    assert solution.feasible
    assert solution.opacity.bits == veil.opacity(problem, solution.policy).bits
    assert solution.expected_return == veil.expected_return(problem, solution.policy) >= 0.3 - 1e-9
    solution.save(tmp_path / "result", scenario=str(tmp_path / "hall.toml"))
    policy = veil.load_policy(tmp_path / "result" / "policy.safetensors", problem)
    assert policy.digest() == solution.policy.digest()
    certificate = solution.certificate
    assert certificate is not None
    assert veil.verify(certificate, problem, policy)
    assert certificate.lower <= solution.opacity.bits <= certificate.upper
    written = read_result(tmp_path / "result")
    assert written.scenario == str(tmp_path / "hall.toml")
    assert written.document.answer.opacity.bits == solution.opacity.bits


def test_what_cannot_be_saved_says_why(tmp_path: Path):
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match=r"unsupported extension '\.tml'; known: \.toml"):
        problem.save(tmp_path / "rooms.tml")
    solution = veil.solve(problem, iterations=0, certificate=False)
    (tmp_path / "mine").write_text("notes")
    with pytest.raises(veil.InputError, match="is not a directory"):
        solution.save(tmp_path / "mine")
    with pytest.raises(veil.InputError, match="does not know its problem"):
        replace(solution, problem=None).save(tmp_path / "result")
    assert (tmp_path / "mine").read_text() == "notes"
    assert not (tmp_path / "result").exists()
