import itertools

import numpy as np
import pytest

from tests.seeds import looped
from veil.common.errors import InputError
from veil.formats.expressions import Expression

X = np.array([0, 1, 2, 3, 3])
Y = np.array([2.5, -1.0, 0.0, 2.0, 1.0])
DOOR = np.array(["open", "shut", "open", "half-open", "open"])
LAMP = np.array([True, False, False, True, True])
VARIABLES = {"x": X, "y": Y, "door": DOOR, "lamp": LAMP, "other": np.array(["open", "open", "no", "shut", "open"])}
LABELS = {"goal": np.array([False, False, True, False, True]), "far away": LAMP}


@looped(
    ("text", "expected"),
    [
        ("x=3", X == 3),
        ("x!=3", X != 3),
        ("x<2 | x>=3", (X < 2) | (X >= 3)),
        ("x=3 & door=open", (X == 3) & (DOOR == "open")),
        ("door=half-open", DOOR == "half-open"),
        ("x=3 & door=open | !(y<2)", ((X == 3) & (DOOR == "open")) | ~(Y < 2)),
        ("!x=3", X != 3),
        ("!lamp", ~LAMP),
        ("lamp => x=3", ~LAMP | (X == 3)),
        ("lamp <=> x=3", (X == 3) == LAMP),
        ('door="half-open"', DOOR == "half-open"),
        ("door!=open", DOOR != "open"),
        ("x+1=y", X + 1 == Y),
        ("x-1-1=0", X == 2),
        ("-x<-2", -X < -2),
        ("2*-x=-4", X == 2),
        ("x+2*3=8", X == 2),
        ("x=1 or x=2 and not lamp", (X == 1) | ((X == 2) & ~LAMP)),
        ('"goal"', LABELS["goal"]),
        ('"far away" & x=3', LAMP & (X == 3)),
        ("goal & x=3", LABELS["goal"] & (X == 3)),
        ("1<2", np.ones(5, dtype=bool)),
        ("1e308*1e308>x", np.ones(5, dtype=bool)),
    ],
)
def test_means_what_it_says(text: str, expected: np.ndarray):
    found = Expression(text).evaluate(VARIABLES, 5, LABELS)
    assert found.dtype == bool
    assert np.array_equal(found, expected)


@looped(
    ("text", "column", "words"),
    [
        ("", 1, "found the end"),
        ("x=", 3, "found the end"),
        ("& x=3", 1, "expected a variable"),
        ("(x=3", 1, "is not closed"),
        ("x=3)", 4, "without its '('"),
        ("x ? 3", 3, "not understood"),
        ("z=3", 1, "unknown variable 'z'"),
        ("lampe", 1, "did you mean 'lamp'"),
        ("door=ajar", 6, "'door' is never 'ajar'"),
        ("door=3", 5, "is a text"),
        ("x & lamp", 3, "expected something true or false"),
        ("1<x<3", 4, "expected a number"),
        ('"nowhere"', 1, "unknown label"),
        ("__import__('os')", 11, "found '('"),
    ],
)
def test_names_the_column_of_a_fault(text: str, column: int, words: str):
    with pytest.raises(InputError, match=f"column {column}: ") as caught:
        Expression(text).evaluate(VARIABLES, 5, LABELS)
    assert words in str(caught.value)


def test_deep_and_long_ones_do_not_recurse():
    assert Expression("(" * 4990 + "x=3" + ")" * 4990).evaluate(VARIABLES, 5).sum() == 2
    assert Expression("!" * 9990 + "x=3").evaluate(VARIABLES, 5).sum() == 2
    with pytest.raises(InputError, match="10,000"):
        Expression("(" * 10_001)
    with pytest.raises(InputError, match="expected text such as"):
        Expression(None)  # pyright: ignore[reportArgumentType]


def test_agrees_with_python_on_every_small_formula():
    words = {"p": np.array([0, 0, 1, 1], dtype=bool), "q": np.array([0, 1, 0, 1], dtype=bool)}
    for a, one, b, two, c in itertools.product(("p", "!p"), "&|", ("q", "!q"), "&|", ("p", "q", "!q")):
        text = f"{a} {one} {b} {two} {c}"
        python = text.replace("!", " not ").replace("&", " and ").replace("|", " or ")
        expected = [eval(python, {"p": bool(p), "q": bool(q)}) for p, q in zip(words["p"], words["q"], strict=True)]
        assert Expression(text).evaluate(words, 4).tolist() == expected, text
