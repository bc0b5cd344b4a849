"""The registry of secrets, and what every kind says of itself."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.common.checks import Defects
from veil.formats.scenario.load import read_scenario
from veil.formats.scenario.toml import to_toml
from veil.problem.fingerprint import fingerprint
from veil.problem.secrets import Key, Secret, SecretTable, States
from veil.problem.secrets.registry import SECRETS

CLASSES = (veil.LastState, veil.InitialState, veil.StateAt, veil.Automaton, veil.AutomatonState, veil.Holds, veil.Visited,
           veil.FirstReached, veil.Trajectory, veil.WhichModel, veil.StateNow)  # fmt: skip
MODEL = veil.Model(np.full((3, 2, 3), 1 / 3), np.zeros((3, 2)), 0, state_names=["a", "b", "c"])
OBSERVER = veil.Observer([[1, 0], [0.5, 0.5], [0, 1]])
STEP = {("no", "x"): "yes"}
CASES: list[tuple[Secret, str, list[bool]]] = [
    (veil.LastState(["b", 2]), "Is the last state, at time 2, a secret one?", [False, True, True]),
    (veil.StateAt(1, ["b"]), "Is the state at time 1 a secret one?", [False, True, False]),
    (veil.InitialState(), "Where did it start?", [True, False, False]),
    (veil.InitialState({"g": ["a", "c"]}), "Where did it start?", [True, False, False]),
    (veil.Automaton(STEP, "no", ["yes"], {"c": "x"}, "y", "stay"), "Does the automaton accept the run?", [False, False, True]),
    (veil.LastState(groups={"g": "a", "h": "c"}), "In which group of states is the last one, at time 2?", [True, False, True]),
    (veil.StateAt(1, groups={"g": ["a"]}), "In which group of states is the one at time 1?", [True, False, False]),
    (veil.AutomatonState(STEP, "no", {"c": "x"}, "y", "stay"), "In which state does the automaton end?", [False, False, True]),
    (veil.Holds("F (b & X c)"), "Does F (b & X c) hold?", [False, True, True]),
    (veil.Holds(["F x", "G !c"], {"x": ["a"]}), "Which of 2 formulas hold?", [True, False, True]),
    (veil.Visited({"x": ["a", "b"], "y": "c"}), "Which zones were visited?", [True, True, True]),
    (veil.FirstReached({"x": ["b"], "y": ["c"]}, agent_knows=True), "Which zone was reached first?", [False, True, True]),
    (veil.Trajectory(), "Through which states does the run pass, from time 0 to 2?", [False, False, False]),
    (veil.Trajectory({"g": "a"}), "Through which groups of states does the run pass, from time 0 to 2?", [True, False, False]),
    (veil.WhichModel([0.25, 0.75], ["one", "two"]), "Which of the models is running?", [False, False, False]),
]  # fmt: skip


def problem_of(secret: Secret) -> veil.Problem:
    return veil.Problem([MODEL, MODEL] if secret.several_models else MODEL, OBSERVER, secret, 2)


def test_each_kind_has_its_own_name():
    assert {SECRETS.get(kind) for kind in SECRETS.builtin} == set(CLASSES)
    assert all(SECRETS.get(kind).kind == kind for kind in SECRETS.builtin)


@looped(("secret", "question", "marked"), CASES)
def test_what_a_secret_says_of_itself(secret: Secret, question: str, marked: list[bool]):
    problem = problem_of(secret)
    assert secret.describe(problem) == question
    assert secret.marked_states(problem).tolist() == marked


@looped("secret", [case[0] for case in CASES])
def test_the_table_of_a_secret_reads_back_as_an_equal_one(secret: Secret):
    problem = problem_of(secret)
    found = read_scenario(to_toml(problem)).problem
    assert type(found.secret) is type(secret)
    assert fingerprint(found) == fingerprint(problem)
    assert set(secret.to_table(MODEL.states)) <= {key.name for key in secret.keys}


@looped(
    ("secret", "places"),
    [
        (veil.LastState(["d"]), [("secret", "states")]),
        (veil.StateAt(9, ["d"]), [("secret", "states"), ("secret", "time")]),
        (veil.InitialState({"g": ["a"], "h": ["a", "d"]}), [("secret", "groups", "h")] * 2),
        (veil.InitialState({"g": ["b"]}), [("secret", "groups")]),
        (veil.Automaton(STEP, "no", ["maybe"], {"c": "x"}, "y", "stay"), [("secret", "accepting")]),
        (veil.Automaton(STEP | {("no", "z"): "no"}, "no", ["yes"], {"c": "x"}, "y", "stay"), [("secret", "transitions", 1)]),
        (veil.Automaton(STEP, "no", ["yes"], {"c": "x"}), [("secret", "labels"), ("secret", "transitions")]),
        (veil.Trajectory({"g": ["a"], "h": ["a", "d"]}), [("secret", "of", "h")] * 2),
        (veil.WhichModel(), [("secret", "kind")]),
    ],
)  # fmt: skip
def test_defects_name_the_key(secret: Secret, places: list[tuple[str | int, ...]]):
    with pytest.raises(veil.InputError) as caught:
        veil.Problem(MODEL, OBSERVER, secret, 2)
    assert [defect.at for defect in caught.value.found] == places
    assert all(str(defect).startswith(f"secret {type(secret).__name__}") for defect in caught.value.found)


def with_keys(*forms: Any) -> type[Secret]:
    @dataclass(frozen=True)
    class Other(Secret):
        """Another?"""

        kind = "other"
        keys = tuple(Key(f"key{number}", form, "Help.") for number, form in enumerate(forms))

        def resolve(self, models: object, horizon: int, defects: Defects) -> SecretTable | None:
            return None

        def describe(self, problem: veil.Problem) -> str:
            return "Another?"

    return Other


def test_an_entry_must_be_a_secret_with_forms_that_a_file_can_hold():
    good = (
        bool,
        int,
        float,
        str,
        States,
        list[str],
        dict[str, States],
        Literal["a", "b"],
        list[Annotated[tuple[str, int], "x"]],
    )
    assert SECRETS.check(with_keys(*good)) is None
    for bad in (object, dict[int, str], list[object], set[str], Literal[3], Annotated[str, 3], str | None, 7):
        words = SECRETS.check(with_keys(str, bad))
        assert words is not None
        assert words.startswith("key 'key1' has the form")
    for entry in (LastStateLike(), int, None):
        assert SECRETS.check(entry) == "expected a subclass of veil.problem.secrets.Secret"
    nameless = type("Nameless", (Secret,), {})
    assert "kind" in str(SECRETS.check(nameless))
    assert "keys" in str(SECRETS.check(type("Keyless", (Secret,), {"kind": "x", "keys": ("a",)})))


class LastStateLike:
    kind = "like"
