"""Flags from declared options, and `--set` for everything else: keys of the scenario and keywords of the functions called."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from ..common.settings import Setting, settings
from ..planning.options import SolveOptions
from .shared import guarded

_FORMS: dict[str, object] = {"switch": bool, "whole number": int, "number": float, "path": Path}
# Larger bounds say nothing to a reader of the help text; the option checks them itself.
_LARGEST_SHOWN = 10**12
# How values that are objects in Python are written here.
_WRITTEN = {
    "memory": " Written markov, timed, history, states:K, observations:K, controller:N, mixture:K, or with the name of a"
    " package's memory; finite memories may end in +clock or -clock.",
    "start": " Written as POLICY: a policy file, a result folder, or the word uniform.",
    "checkpoint": " If the file is there, the search continues from it.",
}


def with_options(declared: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: the command's `**options` become one flag per option, between its own options and keyword-only ones.

    A flag that is not given is None: the scenario decides, and then the option's default.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())
        known = settings(declared)
        flags = [_flag(option, methods="method" in known) for option in known.values() if option.flag]
        before = [one for one in own if one.kind is one.POSITIONAL_OR_KEYWORD]
        after = [one for one in own if one.kind is one.KEYWORD_ONLY]
        signature = inspect.Signature([*before, *flags, *after])
        command.__signature__ = signature  # typer reads both
        command.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
        return command

    return decorate


def _flag(option: Setting, *, methods: bool) -> inspect.Parameter:
    """The flag of an option; `methods`: whether to say which methods have it."""
    about = option.about
    form: Any = Literal[option.choices] if option.choices else _FORMS.get(option.kind, str)
    only = f" Methods: {', '.join(about.methods)}." if about.methods and methods else ""
    default = option.default_text
    described = typer.Option(
        option.flag,
        help=about.help + _WRITTEN.get(option.name, "") + only,
        show_default=default,
        min=about.least,
        max=about.most if about.most is not None and about.most < _LARGEST_SHOWN else None,
    )
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(option.name, kind, default=None, annotation=Annotated[form | None, described])


_Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the scenario, such as horizon=20 or min_return=80%; an empty value removes the key."
        " Repeatable.",
        show_default=False,
    ),
]


def with_changes(command: Callable[..., None]) -> Callable[..., None]:
    """A decorator: the command's keyword `changes` holds the texts `KEY=VALUE` of the flag `--set`, which it gains."""
    own = [one for one in inspect.signature(command).parameters.values() if one.name != "changes"]
    rest = [one for one in own if one.kind is one.VAR_KEYWORD]
    flag = inspect.Parameter("set_", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Set)

    @functools.wraps(command)
    def wrapped(*arguments: object, set_: list[str] | None = None, **named: Any) -> None:
        command(*arguments, **named, changes=tuple(set_ or ()))

    signature = inspect.Signature([*(one for one in own if one not in rest), flag, *rest])
    wrapped.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]  # typer reads both
    wrapped.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    return wrapped


# What has gone, and the way to do it now.
NOW = {
    "gallery": "veil show gallery",
    "formats": "veil show formats",
    "schema": "veil show schema",
    "formula": "veil show formula FORMULA",
    "doctor": "veil show installation",
    "observe": "veil simulate SCENARIO POLICY --observed -",
    "queries": "veil solve SCENARIO --method queries",
    "certify": "veil measure SCENARIO POLICY --certificate FILE",
    "attack": "veil measure SCENARIO POLICY --attack",
    "diff": "veil study table FOLDER OTHER",
    "reproduce": "make reproduce, in a checkout of the project",
    "--thresholds": "--set 'frontier.thresholds=[0.1, 0.2]'",
    "--option": "--set file.NAME=VALUE",
    "--secret": "--set secret=EXPRESSION of a model file, --set fit.secret=STATES of logs",
    "--points": "veil report --frontier NUMBER, veil frontier --points NUMBER",
    "--format": "--set report.format=svg",
    "--certificate-time-limit": "--proof-time-limit SECONDS",
}


class Commands(TyperGroup):
    """The commands; one that has gone is answered with the way to do it now."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command."""
        if args and args[0] in NOW and args[0] not in self.commands:
            ctx.fail(f"No such command '{args[0]}': use {NOW[args[0]]}")
        return super().resolve_command(ctx, args)


def prepared(command: Callable[..., None]) -> Callable[..., None]:
    """A command as it is registered: with `--set` if it has the keyword `changes`, and with errors as messages."""
    return guarded(with_changes(command) if "changes" in inspect.signature(command).parameters else command)


class Command(TyperCommand):
    """A command that says of a flag that it does not have how to give the key of that name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # of the click that typer brings with it
            flag = str(getattr(error, "option_name", ""))
            key = flag[2:].replace("-", "_")
            words = f"--set {'solve.' if key in settings(SolveOptions) else ''}{key}=VALUE, for a key of the scenario"
            known = any(one.name == "set_" for one in self.params)
            if flag in NOW or (flag.startswith("--") and known):
                error.message = f"No such option: {flag}: use {NOW.get(flag, words)}"  # pyright: ignore[reportAttributeAccessIssue]
            raise


class Further:
    """What `--set COMMAND.NAME=VALUE` gives: keywords of the functions that a command calls, each declared by its function.

    **Attributes:** `changes`: the other texts `KEY=VALUE`, which are about the scenario.

    **Raises:** `InputError` for a name that none of the functions has, and for a value of another type than its default.
    """

    def __init__(self, command: str, changes: Sequence[str], *functions: Callable[..., object]):
        from ..common.errors import InputError
        from ..common.settings import unknown
        from ..formats.scenario.changes import read_change

        own = [text for text in changes if text.startswith(f"{command}.")]
        self.changes = tuple(text for text in changes if text not in own)
        self._given = {".".join(place[1:]): value for place, value in map(read_change, own)}
        known = {name: default for function in functions for name, default in _plain(function).items()}
        wrong = unknown(self._given, known)
        wrong += [
            f"{command}.{name}={value}: expected {words}"
            for name, value in self._given.items()
            if name in known and (words := _unlike(value, known[name]))
        ]
        if wrong:
            raise InputError("--set", wrong)

    def of(self, function: Callable[..., object]) -> dict[str, Any]:
        """The keywords of one function that are given."""
        known = _plain(function)
        return {name: value for name, value in self._given.items() if name in known}


def _plain(function: Callable[..., object]) -> Mapping[str, object]:
    """The keywords of a function with a default that can be written on a command line."""
    listed = inspect.signature(function).parameters.values()
    return {
        one.name: one.default
        for one in listed
        if isinstance(one.default, (int, float, str, tuple)) or _may_be_none(one)
    }


def _may_be_none(one: inspect.Parameter) -> bool:
    return (
        one.default is None and re.search(r"\b(int|float|str)\b", inspect.formatannotation(one.annotation)) is not None
    )


def _unlike(value: object, default: object) -> str:
    """What was expected in place of a value, by the default; empty if it fits."""
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(default, int):
        return "" if type(value) in (int, str) else "a whole number"
    if isinstance(default, float):
        return "" if type(value) in (int, float) else "a number"
    return ""
