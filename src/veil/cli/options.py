"""Flags from declared options: a command takes every option of the solver that has a flag, with its type, range and help."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..common.settings import Setting, settings

_FORMS: dict[str, object] = {"switch": bool, "whole number": int, "number": float, "path": Path}
# Larger bounds say nothing to a reader of the help text; the option checks them itself.
_LARGEST_SHOWN = 10**12
# How values that are objects in Python are written here.
_WRITTEN = {
    "memory": " Written markov, timed, history, states:K, observations:K, controller:N, mixture:K, or with the name of a"
    " package's memory; finite memories may end in +clock or -clock.",
    "start": " Written as POLICY: a policy file, a result folder, or the word uniform.",
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
    if option.kind == "switch":
        default = option.flag.split("/")[0 if option.default else 1].removeprefix("--")
    described = typer.Option(
        option.flag,
        help=about.help + _WRITTEN.get(option.name, "") + only,
        show_default=default,
        min=about.least,
        max=about.most if about.most is not None and about.most < _LARGEST_SHOWN else None,
    )
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(option.name, kind, default=None, annotation=Annotated[form | None, described])
