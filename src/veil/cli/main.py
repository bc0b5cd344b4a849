"""The command `veil`: names the commands and starts them; what each needs is imported when it runs."""

import sys
from typing import Annotated, Any

import typer

from .doctor import doctor
from .measure import inspect, measure
from .models import convert, gallery, new, schema
from .observe import attack, observe, simulate
from .prove import certify, verify
from .report import report
from .reproduce import reproduce
from .solve import frontier, solve

app = typer.Typer(
    name="veil",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Exit codes: 0 solved and feasible, 2 bad input, 3 infeasible, 4 a limit was hit and the best so far saved,"
    " 5 certificate rejected, 130 interrupted.",
)

# In the order of a first acquaintance, each with the line that `veil --help` shows.
_COMMANDS: dict[Any, str] = {
    new: "Write a commented scenario to begin from.",
    gallery: "List the problems that come with veil, or write one.",
    inspect: "Look at a scenario: size, returns, which methods fit.",
    solve: "Find the policy that hides the most.",
    frontier: "The most that can be hidden for each return.",
    report: "A page about a result, and figures.",
    measure: "What a policy hides and earns.",
    attack: "Play the best attack on the secret.",
    observe: "Watch along: observations in, posteriors out.",
    simulate: "Play a policy.",
    certify: "Prove how good a policy is.",
    verify: "Check a certificate.",
    convert: "Convert models and policies between formats.",
    schema: "The JSON schema of scenario files.",
    reproduce: "Run the paper's experiments.",
    doctor: "Check the installation.",
}

for _command, _line in _COMMANDS.items():
    app.command(short_help=_line)(_command)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"veil {__version__}")
        raise typer.Exit


@app.callback()
def veil(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Plan under observation: keep a secret from an observer, measure what leaks, prove how good the answer is.

    Begin with: veil new patrol, then veil solve patrol.toml
    """


def run() -> None:
    """Start the command line; the entry point of the command `veil`."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what cannot be read or written is escaped, never an exception
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
    app(prog_name="veil")
