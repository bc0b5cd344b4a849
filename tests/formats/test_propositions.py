"""Propositions that are expressions over variables or signs of a drawing, directly in formulas."""

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.formats.scenario.load import read_scenario

GRID = """
horizon = 4

[grid]
drawing = '''
  S  a  .
  .  c  b
'''
legend = { a = "floor", b = "floor" }
sensors.c.detection = 0.8

[secret]
kind = "formula"
formulas = ["F (a & X row=1)"]

[[constraints]]
formula = "F b & G (column<2 | b)"
min = 0.1
"""


def test_signs_and_comparisons_mean_the_states_where_they_are_true():
    problem = read_scenario(GRID).problem
    states = problem.model.states.all()
    named = {
        "a": ["r0c1"], "b": ["r1c2"], "row=1": [name for name in states if name[1] == "1"],
        "column<2": [name for name in states if int(name[3]) < 2],
    }  # fmt: skip
    same = problem.replace(
        secret=veil.Holds("F (a & X row=1)", named),
        constraints=[veil.Probability("F b & G (column<2 | b)", min=0.1, labels=named)],
    )
    policy = veil.MarkovPolicy.uniform(problem)
    assert veil.opacity(problem, policy).bits == veil.opacity(same, policy).bits
    assert [one.value for one in veil.constraint_values(problem, policy)] == [
        one.value for one in veil.constraint_values(same, policy)
    ]


def test_labels_and_names_of_states_go_first():
    secret = read_scenario(GRID.replace("formulas =", 'labels.a = ["r0c0"]\nformulas =')).problem.secret
    assert isinstance(secret, veil.Holds)
    assert secret.labels["a"] == (0,)
    assert "r0c0" not in secret.labels


@looped(
    ("old", "new", "words"),
    [
        ("row=1", "rwo=1", "column 10: .*rwo.*did you mean 'row'"),
        ("row=1", "row=9", "column 10: .*'row=9' holds in no state"),
        ("F b &", "F bb &", "proposition 'bb' is neither in labels nor the name of a state"),
        ("column<2", "colum<2", "column 10: .*colum.*did you mean 'column'"),
    ],
)
def test_what_no_state_has_is_said_with_its_column(old: str, new: str, words: str):
    with pytest.raises(veil.InputError, match=words):
        read_scenario(GRID.replace(old, new))


def imported() -> veil.Imported:
    model = veil.gallery.load("two-rooms").model
    return veil.Imported(model, valuations={"x": np.arange(model.num_states), "open": np.arange(model.num_states) > 0})


def test_imported_models_take_expressions_in_formulas():
    known = imported()
    observer = veil.gallery.load("two-rooms").observer
    problem = known.problem(
        veil.Holds("F (x>0 & open)"), 2, observer=observer, constraints=[veil.Probability("G x<1", max=0.9)]
    )
    assert isinstance(problem.secret, veil.Holds)
    assert problem.secret.labels == dict.fromkeys(("x>0", "open"), tuple(range(1, problem.num_states)))
    with pytest.raises(veil.InputError, match=r"formula 'F y>0': column 3: .*y"):
        known.problem(veil.Holds("F y>0"), 2, observer=observer)
