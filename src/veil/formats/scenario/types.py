"""The small values of a scenario file: state sets, cells, transitions, rows of probabilities, each with one message."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class Table(BaseModel):
    """What all tables share: no unknown keys, no conversions, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass
class ErrorBudget:
    """How many more wrong values are worth an error of their own; handed to pydantic as its context."""

    left: int = 100


@dataclass(frozen=True)
class Form:
    """A value that can be written in several forms, with one message whichever of them is wrong.

    **Arguments:** `expected`: what a message says is expected; `name`: what the reference calls the form; `given`: the type
    of the value in the file, where it differs from the annotated one; `read`: makes the latter of it.
    """

    expected: str
    name: str
    given: object = None
    read: Callable[[Any], object] | None = None

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler(source) if self.given is None else handler.generate_schema(self.given)
        if self.read is not None:
            inner = core_schema.no_info_after_validator_function(self.read, inner)
        return core_schema.with_info_wrap_validator_function(self._check, inner)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"x-form": self.name}

    def _check(self, value: object, inner: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
        budget = info.context if isinstance(info.context, ErrorBudget) else ErrorBudget()
        if budget.left == 0:
            return None  # never used: the file has been refused already
        try:
            return inner(value)
        except ValidationError:
            budget.left -= 1
            raise PydanticCustomError("expected", "{expected}", {"expected": self.expected}) from None


Name = Annotated[str, Field(min_length=1, max_length=200)]
FilePath = Annotated[str, Field(min_length=1, max_length=1000)]
Probability = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Coordinate = Annotated[float, Field(ge=-1e9, le=1e9)]
_Index = Annotated[int, Field(ge=0)]
_Names = Annotated[list[Name], Field(min_length=1)]
_Row = Annotated[dict[Name, Probability], Field(min_length=1)]
listed = Strict(False)  # for tuples, which a file writes as lists


class Where(Table):
    """The states in which an expression over variables holds."""

    where: Annotated[str, Field(min_length=1, max_length=10_000)]


class Drawn(Table):
    """The states of the cells in which a character is drawn."""

    drawn: Annotated[str, Field(min_length=1, max_length=1)]


class Sign(Table):
    """The meaning of a character of a drawing: roles, the reward of its goals, the weight of its starts, and its zone."""

    roles: Name | _Names = Field(alias="is")
    reward: Finite | None = None
    weight: Weight | None = None
    zone: Name | None = None


@dataclass(frozen=True)
class Step:
    """One entry of a transition list: from a state, by an action, to each next state with its probability."""

    state: str
    action: str
    following: dict[str, float]


def _step(value: tuple[str, str, str] | tuple[str, str, str, float] | tuple[str, str, dict[str, float]]) -> Step:
    state, action, following, *chance = value
    return Step(state, action, following if isinstance(following, dict) else {following: chance[0] if chance else 1.0})


def _row(value: str | dict[str, float]) -> dict[str, float]:
    return {value: 1.0} if isinstance(value, str) else value


def _start(value: str | list[str] | dict[str, float]) -> dict[str, float]:
    if not isinstance(value, list):
        return _row(value)
    if len(set(value)) < len(value):
        raise ValueError("a state is given twice")
    return dict.fromkeys(value, 1 / len(value))


def _sign(value: str | list[str] | Sign) -> Sign:
    roles = value.roles if isinstance(value, Sign) else value
    found = value if isinstance(value, Sign) else Sign.model_construct()
    return found.model_copy(update={"roles": (roles,) if isinstance(roles, str) else tuple(roles)})


StateSet = Name | _Index | Annotated[list[Name | _Index], Field(min_length=1)] | Where | Drawn
States = Annotated[
    StateSet,
    Form('a state, a list of states (names or indices), { where = "expression" } or { drawn = "sign" }', "states"),
]
Cell = Annotated[
    tuple[_Index, _Index],
    listed,
    Form("a cell [row, column], two whole numbers counted from 0", "`[row, column]`"),
]
Position = Annotated[
    tuple[float, float],
    listed,
    Form(
        "a position [x, y], two numbers",
        "`[x, y]`",
        Annotated[tuple[_Coordinate, _Coordinate], listed],
        lambda value: (float(value[0]), float(value[1])),
    ),
]
Direction = Annotated[
    float | str,
    Form(
        'degrees counterclockwise from east, or "east", "north", "west" or "south"',
        "number, or compass point",
        Finite | Literal["east", "north", "west", "south"],
    ),
]
Transition = Annotated[
    Step,
    Form(
        '["state", "action", "next state"], ["state", "action", "next state", probability]'
        ' or ["state", "action", { "next state" = probability, … }], probabilities from 0 to 1',
        "transition",
        Annotated[tuple[Name, Name, Name], listed]
        | Annotated[tuple[Name, Name, Name, Probability], listed]
        | Annotated[tuple[Name, Name, _Row], listed],
        _step,
    ),
]
Emission = Annotated[
    dict[str, float],
    Form(
        "an observation, or { observation = probability, … } with probabilities from 0 to 1",
        "observation, or table",
        Name | _Row,
        _row,
    ),
]
Times = Annotated[
    list[Annotated[int, Field(ge=0, le=100_000)]] | Literal["end"],
    Form('"end", or a list of whole numbers from 0 to 100,000', '`"end"`, or list of times'),
]
Start = Annotated[
    dict[str, float],
    Form(
        "a state, a list of distinct states (equally likely), or { state = probability, … }",
        "state, list, or table",
        Name | _Names | _Row,
        _start,
    ),
]
Reward = Annotated[
    Finite | Annotated[dict[Name, Finite], Field(min_length=1)],
    Form("a finite number, or { action = number, … }", "number, or table"),
]
Meaning = Annotated[
    Sign,
    Form(
        "one of the words floor, wall, start, goal, secret, absorbing, or the character of a sensor; a list of these;"
        ' or { is = …, reward = number, weight = number above 0, zone = "name" }',
        "word, list, or table",
        Name | _Names | Sign,
        _sign,
    ),
]
Threshold = Annotated[
    Finite | Annotated[str, Field(max_length=32, pattern=r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*%\s*$")],
    Form('a finite number, or a percentage such as "80%"', "number, or percentage"),
]
Constant = Annotated[
    bool | int | Finite | Name, Form("a truth value, a number or a name", "truth value, number or name")
]
