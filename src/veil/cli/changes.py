"""The flags `--set`, `--horizon` and `--min-return`, which every command has that reads a scenario."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

_Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the scenario, such as grid.slip=0.2; an empty value removes the key. Repeatable.",
        show_default=False,
    ),
]
_Horizon = Annotated[int | None, typer.Option("--horizon", min=0, help="Short for --set horizon=.", show_default=False)]
_MinReturn = Annotated[
    str | None,
    typer.Option(
        "--min-return", help="Short for --set min_return=: a number, or a percentage such as '80%'.", show_default=False
    ),
]
_FLAGS = {"set_": _Set, "horizon": _Horizon, "min_return": _MinReturn}


def with_changes(command: Callable[..., None]) -> Callable[..., None]:
    """A decorator: the command's keyword `changes` holds the texts `KEY=VALUE` of these three flags, which it gains."""
    own = [one for one in inspect.signature(command).parameters.values() if one.name != "changes"]
    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _FLAGS.items()
    ]
    rest = [one for one in own if one.kind is one.VAR_KEYWORD]

    @functools.wraps(command)
    def wrapped(*arguments: object, **named: Any) -> None:
        given = {name: named.pop(name, None) for name in _FLAGS}
        changes = list(given["set_"] or ())
        changes += [f"{name}={given[name]}" for name in ("horizon", "min_return") if given[name] is not None]
        command(*arguments, **named, changes=tuple(changes))

    signature = inspect.Signature([*(one for one in own if one not in rest), *flags, *rest])
    wrapped.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]  # typer reads both
    wrapped.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    return wrapped
