"""The small values of a scenario file: state sets, cells, transitions, rows of probabilities, each with one message."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

LONGEST_NAME = 200

_NAME_SCHEMA = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_NUMBER_SCHEMA = {"type": "number"}
_ROW_SCHEMA = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}


@dataclass(frozen=True)
class StateSet:
    """States by name or index, by an expression over variables (`where`), or by a sign of the drawing (`drawn`)."""

    names: tuple[str | int, ...] = ()
    where: str | None = None
    drawn: str | None = None


@dataclass(frozen=True)
class Step:
    """One entry of a transition list: from a state, by an action, to each next state with its probability."""

    state: str
    action: str
    following: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Sign:
    """What a character of a drawing stands for: roles, and the reward of its goals or the weight of its starts."""

    roles: tuple[str, ...]
    reward: float | None = None
    weight: float | None = None


@dataclass
class ErrorBudget:
    """How many more wrong values are worth an error of their own; handed to pydantic as its context."""

    left: int = 100


def wrong(expected: str) -> PydanticCustomError:
    """The error of a value that is not what is expected; the text says what is."""
    return PydanticCustomError("expected", "{expected}", {"expected": expected})


def is_name(value: Any) -> bool:
    """Whether a value is a name: a string that is not empty and not endless."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME


def is_real(value: Any) -> bool:
    """Whether a value is a finite number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_chance(value: Any) -> bool:
    """Whether a value is a probability."""
    return is_real(value) and 0 <= value <= 1


def _is_key(value: Any) -> bool:
    return is_name(value) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _state_set(value: Any) -> StateSet:
    if _is_key(value):
        return StateSet((value,))
    if isinstance(value, list) and value and all(map(_is_key, value)):
        return StateSet(tuple(value))
    if isinstance(value, dict) and len(value) == 1:
        ((key, text),) = value.items()
        if key == "where" and isinstance(text, str) and 0 < len(text) <= 10_000:
            return StateSet(where=text)
        if key == "drawn" and isinstance(text, str) and len(text) == 1:
            return StateSet(drawn=text)
    raise wrong('a state, a list of states (names or indices), { where = "expression" } or { drawn = "sign" }')


def _cell(value: Any) -> tuple[int, int]:
    if isinstance(value, list) and len(value) == 2 and all(type(part) is int and part >= 0 for part in value):
        return value[0], value[1]
    raise wrong("a cell [row, column], two whole numbers counted from 0")


def _step(value: Any) -> Step:
    if isinstance(value, list) and len(value) in (3, 4) and is_name(value[0]) and is_name(value[1]):
        state, action = value[:2]
        rest: list[Any] = value[2:]
        if is_name(rest[0]) and (len(rest) == 1 or is_chance(rest[1])):
            return Step(state, action, ((rest[0], float(rest[1]) if len(rest) == 2 else 1.0),))
        if len(rest) == 1 and _is_row(rest[0]):
            return Step(state, action, tuple((name, float(chance)) for name, chance in rest[0].items()))
    raise wrong(
        '["state", "action", "next state"], ["state", "action", "next state", probability]'
        ' or ["state", "action", { "next state" = probability, … }], probabilities from 0 to 1'
    )


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(is_name, value)) and all(map(is_chance, value.values()))


def _row(value: Any) -> dict[str, float]:
    if is_name(value):
        return {value: 1.0}
    if _is_row(value):
        return {name: float(chance) for name, chance in value.items()}
    raise wrong("an observation, or { observation = probability, … } with probabilities from 0 to 1")


def _start(value: Any) -> dict[str, float]:
    if is_name(value):
        return {value: 1.0}
    if isinstance(value, list) and value and all(map(is_name, value)) and len(set(value)) == len(value):
        return dict.fromkeys(value, 1 / len(value))
    if isinstance(value, dict) and _is_row(value):
        return {name: float(chance) for name, chance in value.items()}
    raise wrong("a state, a list of distinct states (equally likely), or { state = probability, … }")


def _reward(value: Any) -> float | dict[str, float]:
    if is_real(value):
        return float(value)
    if isinstance(value, dict) and value and all(map(is_name, value)) and all(map(is_real, value.values())):
        return {name: float(paid) for name, paid in value.items()}
    raise wrong("a finite number, or { action = number, … }")


def _sign(value: Any) -> Sign:
    table = value if isinstance(value, dict) else {"is": value}
    roles = table.get("is")
    roles = [roles] if isinstance(roles, str) else roles
    good = (
        isinstance(roles, list)
        and bool(roles)
        and all(map(is_name, roles))
        and set(table) <= {"is", "reward", "weight"}
    )
    reward, weight = table.get("reward"), table.get("weight")
    good = good and (reward is None or is_real(reward)) and (weight is None or (is_real(weight) and weight > 0))
    if not good or roles is None:
        raise wrong(
            "a word among floor, wall, start, goal, secret, absorbing, or the character of a sensor; a list of such;"
            " or { is = …, reward = number, weight = number above 0 }"
        )
    return Sign(tuple(roles), None if reward is None else float(reward), None if weight is None else float(weight))


def _threshold(value: Any) -> float | str:
    if is_real(value) or (isinstance(value, str) and len(value) <= 32):
        return value
    raise wrong('a finite number, or a percentage such as "80%"')


def _edge(value: Any) -> tuple[str, str, str]:
    if isinstance(value, list) and len(value) == 3 and all(map(is_name, value)):
        return value[0], value[1], value[2]
    raise wrong('["automaton state", "label", "next automaton state"]')


def _constant(value: Any) -> bool | int | float | str:
    if isinstance(value, bool) or is_real(value) or is_name(value):
        return value
    raise wrong("a truth value, a number or a name")


def _checked(read: Callable[[Any], Any]) -> PlainValidator:
    """A validator whose errors come out of a budget: a file with a hundred of them is refused all the same."""

    def check(value: Any, info: ValidationInfo) -> Any:
        try:
            return read(value)
        except PydanticCustomError:
            budget = info.context
            if isinstance(budget, ErrorBudget):
                if budget.left == 0:
                    return None  # never used: the file has been refused already
                budget.left -= 1
            raise

    return PlainValidator(check)


def _schema(form: str, *choices: dict[str, Any]) -> WithJsonSchema:
    """The published form of a value; `x-form` is what the reference goes by."""
    return WithJsonSchema({"x-form": form} | (choices[0] if len(choices) == 1 else {"anyOf": list(choices)}))


def _several(items: dict[str, Any], least: int = 1, most: int | None = None) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least} | ({} if most is None else {"maxItems": most})


def _one_key(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"}},
        "required": [name],
        "additionalProperties": False,
    }


_KEY_SCHEMA = {"anyOf": [_NAME_SCHEMA, {"type": "integer", "minimum": 0}]}
_SIGN_SCHEMA = {
    "type": "object",
    "properties": {
        "is": {"anyOf": [_NAME_SCHEMA, _several(_NAME_SCHEMA)]},
        "reward": _NUMBER_SCHEMA,
        "weight": {"type": "number", "exclusiveMinimum": 0},
    },
    "required": ["is"],
    "additionalProperties": False,
}

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), _schema("name", _NAME_SCHEMA)]
Chance = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
States = Annotated[
    StateSet,
    _checked(_state_set),
    _schema("states", *_KEY_SCHEMA["anyOf"], _several(_KEY_SCHEMA), _one_key("where"), _one_key("drawn")),
]
Cell = Annotated[tuple[int, int], _checked(_cell), _schema("cell", _several({"type": "integer", "minimum": 0}, 2, 2))]
Transition = Annotated[Step, _checked(_step), _schema("transition", _several({}, 3, 4))]
Emission = Annotated[dict[str, float], _checked(_row), _schema("emission", _NAME_SCHEMA, _ROW_SCHEMA)]
Start = Annotated[
    dict[str, float], _checked(_start), _schema("start", _NAME_SCHEMA, _several(_NAME_SCHEMA), _ROW_SCHEMA)
]
Reward = Annotated[
    float | dict[str, float],
    _checked(_reward),
    _schema("reward", _NUMBER_SCHEMA, {"type": "object", "additionalProperties": _NUMBER_SCHEMA}),
]
Meaning = Annotated[Sign, _checked(_sign), _schema("meaning", _NAME_SCHEMA, _several(_NAME_SCHEMA), _SIGN_SCHEMA)]
Threshold = Annotated[
    float | str,
    _checked(_threshold),
    _schema("threshold", _NUMBER_SCHEMA, {"type": "string", "pattern": r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*%\s*$"}),
]
Edge = Annotated[tuple[str, str, str], _checked(_edge), _schema("edge", _several(_NAME_SCHEMA, 3, 3))]
Constant = Annotated[
    bool | int | float | str,
    _checked(_constant),
    _schema("constant", {"type": "boolean"}, _NUMBER_SCHEMA, _NAME_SCHEMA),
]
