"""The command `veil`: its subcommands and their order; what each needs is imported when it runs."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from .compare import compare
from .demo import demo
from .fit import audit, fit
from .inspect import inspect
from .measure import measure
from .models import convert, new
from .options import Command, Commands, prepared
from .report import report
from .show import show
from .simulate import simulate
from .solve import frontier, solve
from .studio import studio
from .study import studies
from .verify import verify

app = typer.Typer(
    name="veil",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Exit codes: 0 solved and feasible, 2 bad input, 3 infeasible, 4 limit reached (best so far saved),"
    " 5 certificate rejected, 6 no time to search, 7 a limit in bits missed, 8 answer doubtful, 130 interrupted.",
)

# In the order in which a new user needs them, each with its line in `veil --help`.
_COMMANDS: dict[Callable[..., None], str] = {
    demo: "Solve, prove and report two problems, in under a minute.",
    new: "Write a scenario file to start from.",
    inspect: "Describe a scenario: size, returns, the plan of a search.",
    solve: "Find the policy that hides the most.",
    frontier: "Find the most that can be hidden for each return.",
    compare: "Compare policy classes: bits, return, time, proven bound.",
    report: "Write an HTML page about a result or a study, and figures.",
    studio: "Draw, plan, look and play on a page in the browser.",
    measure: "Measure what a policy hides, leaks and earns; prove it, attack it.",
    simulate: "Simulate a policy, or track the belief of its observer.",
    fit: "Estimate a model, sensors or a policy from logs.",
    audit: "Bound what observations leak, from samples alone.",
    verify: "Check a certificate.",
    convert: "Convert models and policies between formats.",
    show: "Show the gallery, formats, schemas, formulas, the installation.",
}

for _command, _line in _COMMANDS.items():
    app.command(short_help=_line, cls=Command)(prepared(_command))
app.add_typer(studies, name="study", short_help="Run many scenarios and settings, on all cores or a cluster.")


def _tell_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"veil {__version__}")
        raise typer.Exit


@app.callback()
def veil(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plan under observation: keep a secret from an observer, measure what leaks, prove how good the answer is.

    To start: veil new patrol, then veil solve patrol.toml
    """


def run() -> None:
    """Start the command line."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # characters that cannot be encoded are escaped
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
    app(prog_name="veil")
