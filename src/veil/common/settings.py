"""Settings that are declared once: a dataclass field gives signature, checks, file key, flag and documentation.

    @dataclass(frozen=True, kw_only=True)
    class Options:
        seed: Annotated[int, About("Random seed.", least=0)] = 0

    @takes(Options)
    def solve(problem: Problem, options: Options) -> Solution: ...

`solve` is then called as `solve(problem, seed=3)`: type checkers, `inspect.signature` and `help` know every keyword.
Nothing here imports NumPy or pydantic, since the command line reads the definitions when it starts.
"""

import functools
import inspect
import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Concatenate,
    ForwardRef,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from .errors import InputError
from .suggest import suggestion

P = ParamSpec("P")
Q = TypeVar("Q")
O = TypeVar("O")  # noqa: E741
R = TypeVar("R")

Given = Mapping[str, Any]
"""Options by name, as a file or a command line gives them: `checked` decides at run time whether they are right."""

Kind = Literal["switch", "whole number", "number", "choice", "text", "path", "object"]
_KINDS: dict[object, Kind] = {bool: "switch", int: "whole number", float: "number", str: "text", Path: "path"}


@dataclass(frozen=True)
class About:
    """What is said of a setting beside its type and its default.

    **Arguments:**

    - `help`: one or two sentences, for Python, the command line and the documents; no markup.
    - `least`, `above`, `most`: the range of a number; `finite`: whether infinity is refused.
    - `unset`: what the default None means, in words.
    - `methods`: the methods that have the setting; empty for all.
    - `in_file`: whether it is a key of a file; `flag`: on the command line, `--name` by default, `""` for none, and
      `"--this/--that"` for a switch.
    - `in_identity`: whether a result depends on it, so that a checkpoint belongs to its value.
    - `form`: the type in files and on the command line, where Python takes more than that.
    - `accepts`, `expected`: where type and range do not decide, whether a value is accepted, and what is, in words.
    """

    help: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    finite: bool = False
    unset: str = ""
    methods: tuple[str, ...] = ()
    in_file: bool = True
    flag: str | None = None
    in_identity: bool = True
    form: type | None = None
    accepts: Callable[[object], bool] | None = None
    expected: str = ""


@dataclass(frozen=True)
class Setting:
    """One setting as it was declared: its name, its type as `kind` and `choices`, its default, and what is said of it."""

    name: str
    annotation: object
    kind: Kind
    choices: tuple[str, ...]
    optional: bool
    default: object
    about: About

    @property
    def flag(self) -> str:
        """The flag of the command line, `""` for none."""
        return f"--{self.name.replace('_', '-')}" if self.about.flag is None else self.about.flag

    @property
    def default_text(self) -> str:
        """The default in words."""
        return self.about.unset or "none" if self.default is None else str(self.default)

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        words = {
            "switch": "True or False",
            "choice": f"one of {', '.join(map(repr, self.choices))}",
            "text": "a string",
            "path": "a path",
        }
        text = self.about.expected or words.get(self.kind) or f"a {self.kind}{self._range}"
        return f"{text}, or None" if self.optional else text

    @property
    def _range(self) -> str:
        about = self.about
        if about.above is not None:
            return f" above {about.above:g}"
        if about.least is None:
            return ""
        return f", {about.least:g} or more" if about.most is None else f" from {about.least:g} to {about.most:,}"

    def defect(self, value: object) -> str | None:
        """What is wrong with a value, as a sentence; None where nothing is."""
        if self.accepts(value):
            return None
        hint = suggestion(value, self.choices)
        return f"{self.name} is {value!r}, expected {self.expected}" + (f": {hint}" if hint.startswith("did") else "")

    def accepts(self, value: object) -> bool:
        """Whether a value is of the type and in the range."""
        if value is None:
            return self.optional
        if self.about.accepts is not None:
            return self.about.accepts(value)
        if self.kind == "switch":
            return _is_switch(value)
        if self.kind in ("whole number", "number"):
            kind = Integral if self.kind == "whole number" else Real
            return isinstance(value, kind) and not _is_switch(value) and self._contains(cast(float, value))
        if self.kind == "choice":
            return isinstance(value, str) and value in self.choices
        if self.kind in ("text", "path"):
            return isinstance(value, str if self.kind == "text" else (str, Path))
        return True

    def _contains(self, value: float) -> bool:
        about = self.about
        inside = (about.least is None or about.least <= value) and (about.above is None or about.above < value)
        bounded = (about.most is None or value <= about.most) and not (about.finite and math.isinf(value))
        return bool(inside and bounded) and not math.isnan(value)

    def plain(self, value: Any) -> Any:
        """A value that is accepted, with scalars of NumPy as Python's own, which can be written to files."""
        if value is None or self.kind not in ("switch", "whole number", "number"):
            return value
        if self.kind == "number":
            return value if type(value) in (int, float) else float(value)
        return bool(value) if self.kind == "switch" else int(value)

    def is_default(self, value: object) -> bool:
        """Whether a value is what the setting has when it is not given."""
        return value is self.default or (type(value) is type(self.default) and value == self.default)


def _is_switch(value: object) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # Python's and NumPy's, which is not imported here


@functools.cache
def settings(declared: type) -> dict[str, Setting]:
    """The settings that a dataclass declares, by name, in the order of its signature."""
    known = {field.name: field for field in fields(declared)}
    return {name: _setting(known[name]) for name in inspect.signature(declared).parameters}


def _setting(field: Field[object]) -> Setting:
    assert get_origin(field.type) is Annotated, f"{field.name}: a setting is Annotated with About"
    assert field.default is not MISSING, f"{field.name}: a setting has a default"
    annotation, about = get_args(field.type)
    form = about.form or annotation
    members = get_args(form) if get_origin(form) in (Union, types.UnionType) else (form,)
    plain = [member for member in members if member is not type(None)]
    optional = field.default is None or len(plain) < len(members)
    choices = get_args(plain[0]) if get_origin(plain[0]) is Literal else ()
    kind: Kind = "choice" if choices else "object"
    if len(plain) == 1 and not choices:
        kind = _KINDS.get(plain[0], "object")
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    return Setting(field.name, annotation, kind, choices, optional, field.default, about)


def checked(given: O) -> tuple[O, dict[str, str]]:
    """The settings with scalars of NumPy as Python's own, and by name what is wrong with them, a sentence each."""
    values: dict[str, object] = {}
    found: dict[str, str] = {}
    for name, setting in settings(type(given)).items():
        values[name] = value = getattr(given, name)
        defect = setting.defect(value)
        if defect is None:
            values[name] = setting.plain(value)
        else:
            found[name] = defect
    return type(given)(**values), found


def unknown(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """What to say of names that are no settings, a sentence each."""
    listed = list(known)
    return [f"there is no option {name!r}: {suggestion(name, listed)}" for name in sorted(set(names) - set(listed))]


def takes(declared: Callable[P, O]) -> Callable[[Callable[[Q, O], R]], Callable[Concatenate[Q, P], R]]:
    """A decorator: `function(subject, settings)` becomes `function(subject, **settings)`, with all of them in its signature.

    The settings are listed at the end of its docstring. Values are not checked here, names are.

    **Raises:** `InputError` on names that are no settings.
    """
    assert isinstance(declared, type)
    known = settings(declared)

    def decorate(function: Callable[[Q, O], R]) -> Callable[Concatenate[Q, P], R]:
        own = inspect.signature(function)
        subject = next(iter(own.parameters.values()))
        derived = inspect.signature(declared).parameters.values()
        named = [parameter.replace(annotation=known[parameter.name].annotation) for parameter in derived]
        signature = own.replace(parameters=[subject, *named])

        @functools.wraps(function)
        def call(*arguments: P.args, **given: P.kwargs) -> R:
            wrong = unknown(given, signature.parameters)
            if wrong:
                raise InputError(function.__name__, wrong)
            bound = signature.bind(*arguments, **given).arguments
            return function(bound.pop(subject.name), declared(**bound))  # pyright: ignore[reportCallIssue]

        changes: dict[str, object] = {
            "__signature__": signature,
            "__annotations__": {p.name: p.annotation for p in (subject, *named)} | {"return": own.return_annotation},
            "__doc__": f"{inspect.cleandoc(function.__doc__ or '')}\n\n**Options:**\n\n{_listed(known)}\n",
        }
        call.__dict__.pop("__wrapped__")  # its signature is another
        for name, value in changes.items():
            setattr(call, name, value)
        return call  # pyright: ignore[reportReturnType]

    return decorate


def _listed(known: Mapping[str, Setting]) -> str:
    lines: list[str] = []
    for setting in known.values():
        only = f" Methods: {', '.join(setting.about.methods)}." if setting.about.methods and "method" in known else ""
        lines.append(f"- `{setting.name}`: {setting.about.help}{only} Default: {setting.default_text}.")
    return "\n".join(lines)
