"""Settings that are declared once: what is derived from a field, which values are accepted, and how names are checked."""

import inspect
import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from tests.seeds import looped
from veil.common.errors import InputError
from veil.common.settings import About, checked, settings, takes


@dataclass(frozen=True)
class Some:
    """Settings of every kind."""

    colour: Annotated[Literal["red", "blue"], About("The colour.")] = "red"
    _: KW_ONLY
    count: Annotated[int, About("How many.", least=1, most=9)] = 3
    size: Annotated[float | None, About("How large.", above=0, finite=True, unset="as it fits")] = None
    seconds: Annotated[float, About("How long.", least=0)] = 1.5
    loud: Annotated[bool, About("Whether it is loud.", flag="--loud/--quiet", methods=("this", "that"))] = False
    place: Annotated[str | Path | None, About("Where.", form=Path)] = None
    word: Annotated[str, About("Which.", in_file=False, flag="")] = "x"
    thing: Annotated["Path | int", About("What.", accepts=lambda value: value == 7, expected="seven")] = 7


@takes(Some)
def make(subject: list[Any], options: Some) -> Some:
    """Make something."""
    subject.append(options)
    return options


GOOD: list[tuple[str, Any]] = [
    ("colour", "blue"),
    ("count", 1),
    ("count", np.int64(9)),
    ("size", None),
    ("size", 1),
    ("size", np.float32(0.5)),
    ("seconds", math.inf),
    ("loud", True),
    ("loud", np.bool_(False)),
    ("place", "here"),
    ("place", Path("here")),
    ("place", None),
    ("thing", 7),
]
BAD: list[tuple[str, Any, str]] = [
    ("colour", "green", "colour is 'green', expected one of 'red', 'blue'"),
    ("colour", "rred", "did you mean 'red'?"),
    ("colour", None, "colour is None"),
    ("colour", ["red"], "colour is"),
    ("count", 0, "count is 0, expected a whole number from 1 to 9"),
    ("count", 10, "count is 10"),
    ("count", 2.0, "count is 2.0"),
    ("count", True, "count is True"),
    ("count", "3", "count is '3'"),
    ("count", np.array([3]), "count is"),
    ("count", None, "count is None"),
    ("size", 0, "size is 0, expected a number above 0, or None"),
    ("size", math.inf, "size is inf"),
    ("size", math.nan, "size is nan"),
    ("size", 1j, "size is 1j"),
    ("seconds", -1, "seconds is -1, expected a number, 0 or more"),
    ("seconds", math.nan, "seconds is nan"),
    ("seconds", True, "seconds is True"),
    ("loud", 1, "loud is 1, expected True or False"),
    ("place", 3, "place is 3, expected a path, or None"),
    ("word", 3, "word is 3, expected a string"),
    ("thing", 8, "thing is 8, expected seven"),
]


@looped(("name", "value"), GOOD)
def test_a_good_value_is_accepted(name: str, value: Any):
    assert checked(Some(**{name: value}))[1] == {}


@looped(("name", "value", "said"), BAD)
def test_a_bad_value_is_named_with_what_was_expected(name: str, value: Any, said: str):
    found = checked(Some(**{name: value}))[1]
    assert list(found) == [name]
    assert said in found[name]


def test_all_defects_come_at_once():
    wrong: dict[str, Any] = {"count": 0, "size": 0, "colour": "green"}
    assert set(checked(Some(**wrong))[1]) == set(wrong)


def test_scalars_become_those_of_python():
    given: dict[str, Any] = {
        "count": np.int64(4),
        "size": np.float32(0.5),
        "loud": np.bool_(True),
        "seconds": Fraction(1, 2),
    }
    plain = checked(Some(**given))[0]
    assert [plain.count, plain.size, plain.loud, plain.seconds] == [4, 0.5, True, 0.5]
    assert [type(value) for value in (plain.count, plain.size, plain.loud, plain.seconds)] == [int, float, bool, float]
    assert type(checked(Some(seconds=2))[0].seconds) is int


def test_the_signature_and_the_docstring_have_every_setting():
    signature = inspect.signature(make)
    assert list(signature.parameters) == ["subject", *settings(Some)]
    assert signature.parameters["colour"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert signature.parameters["count"].kind is inspect.Parameter.KEYWORD_ONLY
    assert [signature.parameters[name].default for name in settings(Some)] == [
        one.default for one in settings(Some).values()
    ]
    assert str(signature.parameters["count"]) == "count: int = 3"
    assert signature.return_annotation is Some
    assert make.__doc__ is not None
    assert make.__doc__.startswith("Make something.\n")
    for name, one in settings(Some).items():
        assert f"- `{name}`: {one.about.help}" in make.__doc__


def test_it_is_called_with_keywords():
    seen: list[Any] = []
    assert make(seen, "blue", count=4) == Some("blue", count=4) == seen[0]
    assert make([]) == Some()
    with pytest.raises(TypeError, match="too many positional arguments"):
        make([], "blue", 4)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="subject"):
        make(count=4)  # pyright: ignore[reportCallIssue]


def test_unknown_names_are_told_with_what_may_have_been_meant():
    with pytest.raises(InputError) as caught:
        make([], cuont=4, zz=3)  # pyright: ignore[reportCallIssue]
    assert caught.value.subject == "make"
    assert caught.value.defects[0] == "there is no option 'cuont': did you mean 'count'?"
    assert caught.value.defects[1].startswith("there is no option 'zz': known are ")
