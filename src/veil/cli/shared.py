"""What all commands share: arguments, exit codes, errors without tracebacks, tables, and one JSON document on demand."""

import contextlib
import functools
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO, cast

import typer

if TYPE_CHECKING:
    from ..common.settings import Given
    from ..formats.imported import Imported
    from ..formats.results.folder import Result
    from ..formats.results.scenario import Origin
    from ..policy.policy import Policy
    from ..problem.problem import Problem

SOLVED = 0
SELF_TEST_FAILED = 1
BAD_INPUT = 2
INFEASIBLE = 3
LIMIT = 4
REJECTED = 5
NOT_SEARCHED = 6
GATE_MISSED = 7
DOUBTED = 8
INTERRUPTED = 130

GALLERY = "gallery:"
_LEAST_HEADING = 8  # characters of a line of a heading
CHANGED = "has changed since"


def complete_scenario(incomplete: str) -> list[str]:
    """Completions: scenario files, folders, and the gallery."""
    if incomplete.startswith(GALLERY):
        from .. import gallery

        return [f"{GALLERY}{name}" for name in gallery.names() if f"{GALLERY}{name}".startswith(incomplete)]
    known = [GALLERY] if GALLERY.startswith(incomplete) else []
    return known + _paths(incomplete, (".toml",))


def complete_policy(incomplete: str) -> list[str]:
    """Completions: policy files, folders, and the word uniform."""
    known = ["uniform"] if "uniform".startswith(incomplete) else []
    from ..formats.registry import suffixes

    return known + _paths(incomplete, suffixes("read_policy"))


def _paths(incomplete: str, suffixes: Sequence[str]) -> list[str]:
    before = incomplete[: len(incomplete) - len(os.path.basename(incomplete))]
    try:
        entries = [entry for entry in os.scandir(before or ".") if (before + entry.name).startswith(incomplete)]
    except OSError:
        return []
    return sorted(
        before + entry.name + ("/" if entry.is_dir() else "")
        for entry in entries
        if entry.is_dir() or entry.name.endswith(tuple(suffixes))
    )


# Declarations whose help says what there is by default.
option, argument = (functools.partial(one, show_default=False) for one in (typer.Option, typer.Argument))
Document = dict[str, Any]  # what --json prints: texts, numbers, lists and tables of them
ScenarioArgument = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A scenario file (.toml), gallery:NAME, or a result folder.",
        show_default=False,
        autocompletion=complete_scenario,
    ),
]
PolicyArgument = Annotated[
    str,
    typer.Argument(
        metavar="POLICY",
        help="A policy file, a result folder, or the word uniform.",
        show_default=False,
        autocompletion=complete_policy,
    ),
]
PairOption = Annotated[
    str,
    typer.Option(
        "--pair",
        metavar="NAME",
        help="The pair to use, by its name in [[pairs]]; own is the problem's secret and observer.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
MinOpacityOption = Annotated[
    float | None,
    typer.Option(min=0, help="Exit with 7 unless at least this many bits stay hidden, proven or with 95% confidence."),
]
MaxLeakageOption = Annotated[
    float | None,
    typer.Option(min=0, help="Exit with 7 unless at most this many bits leak, proven or with 95% confidence."),
]
SeedOption = Annotated[int, typer.Option(help="Random seed.", min=0)]
TimeLimitOption = Annotated[float | None, typer.Option("--time-limit", min=0, help="Time limit in seconds.")]


@dataclass(frozen=True)
class Opened:
    """A scenario as a command uses it: the problem, how to solve it, and where it came from."""

    problem: "Problem"
    source: str
    settings: "Given" = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    text: str | None = None

    @property
    def origin(self) -> "Origin":
        """What a result folder keeps of it."""
        from ..formats.results.scenario import Origin

        return Origin(self.source, self.changes, self.text)


def open_scenario(text: str, changes: Sequence[str] = ()) -> Opened:
    """The scenario of a file, of a result folder, or of the gallery if the text is `gallery:NAME`; `changes` of `--set`."""
    from .. import gallery
    from ..formats.results.scenario import SCENARIO

    if not text.startswith(GALLERY) and is_model_file(text):
        raise no_scenario(text)
    found = gallery.open_scenario(os.path.join(text, SCENARIO) if is_result(text) else text, changes)
    return Opened(found.problem, text, dict(found.settings), tuple(changes), found.text)


def is_result(text: str) -> bool:
    """Whether a text names a result folder."""
    from ..formats.results.folder import DOCUMENT

    return os.path.isfile(os.path.join(text, DOCUMENT))


def open_recorded(result: "Result", changes: Sequence[str] = ()) -> "Problem":
    """The problem of a result folder."""
    from ..common.errors import InputError

    if changes:
        raise InputError("--set", ["a result is about the problem that was solved: solve the changed one"])
    told = told_of_source(result)
    if told.endswith(CHANGED):
        note(f"veil: {told}; the result is about the problem in its folder")
    return result.problem


def told_of_source(result: "Result") -> str:
    """Whether the scenario that a result came from is still there and is still the same problem, in words."""
    from ..common.errors import VeilError
    from ..problem.fingerprint import fingerprint

    source, known = result.scenario, result.document.problem
    if source is None:
        return "none is recorded"
    if not source.startswith(GALLERY) and not os.path.exists(source):
        return f"{source} is not there"
    try:
        same = fingerprint(open_scenario(source, known.changes).problem) == known.fingerprint
    except VeilError:
        same = False
    return f"{source} is unchanged" if same else f"{source} {CHANGED}"


@dataclass(frozen=True)
class OpenedModel:
    """A model file as a command uses it; `secret`: the expression of the secret states that `--set secret=` gives."""

    model: "Imported"
    secret: str | None
    changes: tuple[str, ...]

    def problem(self, horizon: int | None = None, name: str | None = None) -> "Problem":
        """The problem, with horizon and threshold as `--set` gives them; `horizon`: the default."""
        from ..common.errors import InputError
        from ..formats.scenario.changes import read_change

        given = {".".join(place): value for place, value in map(read_change, self.changes)}
        asked, least = given.pop("horizon", horizon), given.pop("min_return", None)
        if given:
            words = f"this is a model file: --set can give horizon, min_return, secret and file.NAME, found {', '.join(given)}"
            raise InputError(self.model.source, [words])
        if asked is None:
            words = "this is a model file, which has no horizon: give one, such as --set horizon=4"
            raise InputError(self.model.source, [words])
        return self.model.problem(self.secret, asked, min_return=least, name=name)


def open_model(path: str, changes: Sequence[str] = ()) -> OpenedModel:
    """The model in a file, read with the options `file.NAME` among the changes, as a scenario's table [file] has them."""
    from ..formats.registry import read_model
    from ..formats.scenario.changes import read_change

    options, secret, rest = dict[str, Any](), None, list[str]()
    for text in changes:
        place, value = read_change(text)
        if place[0] == "file" and len(place) == 2:
            options[place[1]] = text.partition("=")[2]
        elif place == ("secret",):
            secret = None if value is None else str(value)
        else:
            rest.append(text)
    return OpenedModel(read_model(path, options), secret, tuple(rest))


def is_model_file(text: str) -> bool:
    """Whether the extension is that of a model file, which holds a model but neither secret nor horizon."""
    from ..formats.registry import can

    return not text.lower().endswith(".toml") and can("read_model", text)


def open_measured(text: str, changes: tuple[str, ...]) -> Opened:
    """The problem of a scenario, or of a model file that has an observer and a secret, with the horizon of `changes`."""
    if not is_model_file(text):
        return open_scenario(text, changes)
    return Opened(open_model(text, changes).problem(), text, changes=changes)


def no_scenario(text: str) -> Exception:
    """What to raise for a model file where a scenario is needed."""
    from ..common.errors import InputError

    remedy = f"make a scenario of it with veil convert {text} {Path(text).stem}.toml --set secret=… --set horizon=…"
    return InputError(text, [f"this is a model file, expected a scenario: {remedy}"])


def open_policy(problem: "Problem", text: str) -> "Policy":
    """The policy of a file, of a result folder, or the uniform one; raises where it does not fit the problem."""
    from ..formats.results.folder import named_policy

    return named_policy(problem, text)


def stop(code: int) -> NoReturn:
    """End the command with an exit code."""
    raise typer.Exit(code)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command that reports user errors without a traceback: a message on standard error, and an exit code.

    With `as_json` the message is also printed as a JSON document on standard output.
    """

    @functools.wraps(command)
    def wrapped(*arguments: object, **named: object) -> None:
        try:
            from ..common.errors import VeilError
        except KeyboardInterrupt:
            stop(INTERRUPTED)
        try:
            try:
                with contextlib.redirect_stdout(cast(TextIO, _Console(sys.stdout))):
                    command(*arguments, **named)
            finally:
                sys.stdout.flush()  # here, where a closed pipe can be handled
        except BrokenPipeError:
            # The reader closed the pipe: nothing more may be written, not even by the interpreter as it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            stop(SOLVED)
        except KeyboardInterrupt as error:
            _fail(str(error) or "interrupted", INTERRUPTED, named)
        except VeilError as error:
            _fail(error, code_of(error), named)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}", BAD_INPUT, named)
        except MemoryError:
            _fail("not enough memory: use a smaller problem or a sampled method", BAD_INPUT, named)

    return wrapped


class _Console:
    """Standard output, to which names from files are written without the control characters in them."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        from ..common.text import printable

        return self._stream.write(printable(text))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def code_of(error: Exception) -> int:
    """The exit code that stands for an error."""
    from ..common.errors import CertificateError, CertificateFileError, InfeasibleError

    if isinstance(error, InfeasibleError):
        return INFEASIBLE
    rejected = isinstance(error, CertificateError) and not isinstance(error, CertificateFileError)
    return REJECTED if rejected else BAD_INPUT


def _fail(error: Exception | str, code: int, named: dict[str, object]) -> NoReturn:
    from ..common.text import printable

    message = str(error)
    print(f"veil: {printable(message)}", file=sys.stderr)
    if named.get("as_json"):
        kind = type(error).__name__ if isinstance(error, Exception) else "Error"
        defects = list(getattr(error, "defects", ()))
        print_json({"error": {"kind": kind, "message": message, "defects": defects, "exit_code": code}})
    stop(code)


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    from ..formats.documents import json_text

    print(json_text(document), end="", flush=True)


def note(text: str) -> None:
    """A line for a person, on standard error, so that standard output holds results alone."""
    print(text, file=sys.stderr, flush=True)


def print_table(headings: Sequence[str], rows: Iterable[Iterable[object]], title: str | None = None) -> None:
    """A table: drawn on a terminal, else plain columns that other programs can cut; numbers to the right."""
    given = [list(row) for row in rows]
    cells = [[_text(entry) for entry in row] for row in given]
    right = [bool(given) and all(isinstance(row[i], (int, float)) for row in given) for i in range(len(headings))]
    if sys.stdout.isatty():
        _draw_table(headings, cells, right, title)
        return
    widths = [max([len(head), *(len(row[i]) for row in cells)]) for i, head in enumerate(headings)]
    for line in [*([[title]] if title else []), list(headings), *cells]:
        placed = [
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=False)
        ]
        print("  ".join(placed if len(line) == len(headings) else line).rstrip())


def _draw_table(headings: Sequence[str], cells: list[list[str]], right: list[bool], title: str | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    words = None if title is None else Text(title)
    plain: dict[str, Any] = {"title_style": "", "header_style": "", "show_edge": False, "padding": (0, 1, 0, 0)}
    table = Table(title=words, box=box.SIMPLE_HEAD, title_justify="left", **plain)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    widths = [max([len(head), *(len(row[number]) for row in cells)]) for number, head in enumerate(headings)]
    fits = sum(widths) + 2 * len(widths) <= console.width
    for number, (head, is_right) in enumerate(zip(headings, right, strict=True)):
        if is_right:  # numbers are not broken, their headings may be
            most = widths[number] if fits else max(_LEAST_HEADING, *(len(row[number]) for row in cells))
            table.add_column(Text("\n".join(textwrap.wrap(head, most))), justify="right", no_wrap=True)
        else:
            table.add_column(Text(head), overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Names and values in two columns; None leaves a line out."""
    from ..common.text import aligned

    print(aligned((name, _text(value)) for name, value in facts if value is not None))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def check_free(path: Path, *, force: bool) -> None:
    """Raise `InputError` where a file exists and may not be replaced."""
    from ..common.errors import InputError

    if path.exists() and not force:
        raise InputError(str(path), ["the file already exists: choose another name, or pass --force to replace it"])


def check_output(path: Path | None, marker: str = "") -> None:
    """Raise `InputError` if a file cannot be written, before the work whose result it is for."""
    from ..common.files import check_replaceable, file_errors

    if path is not None:
        with file_errors(path, "cannot be written"):
            check_replaceable(path, marker.encode())
            if not os.access(path.parent, os.W_OK):
                known = path.parent.exists()
                raise OSError(None, f"the folder {path.parent} {'is not writable' if known else 'does not exist'}")


def write_text(path: Path, text: str, *, force: bool, marker: str = "") -> None:
    """Write a file for the user, complete or not at all; raises `InputError` where one is there and may not be replaced.

    `force`: a file may be replaced, if it contains the marker.
    """
    from ..common.files import file_errors, write_whole

    check_free(path, force=force)
    with file_errors(path, "cannot be written"):
        write_whole(path, text.encode(), marker=marker.encode())


def event_text(event: str | Sequence[str]) -> str:
    """An event in the form that `veil simulate --observed` reads."""
    return event if isinstance(event, str) else ",".join(event)
