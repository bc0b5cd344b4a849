"""The options of the solver: one definition, and every consumer has every option with its default, range and help text."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

import inspect
import re
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from typer.testing import CliRunner

import veil
from veil.cli import solve as cli
from veil.cli.main import app
from veil.common.settings import Setting, settings
from veil.formats.scenario.schema import Settings, schema
from veil.planning.methods import METHODS
from veil.planning.options import SolveOptions
from veil.tradeoffs.options import FrontierOptions

SOLVE, FRONTIER = settings(SolveOptions), settings(FrontierOptions)
FUNCTIONS = [(veil.solve, SOLVE), (veil.frontier, FRONTIER)]


def flags(command: Any) -> dict[str, Any]:
    """What typer is told of the parameters of a command, by name."""
    parameters = inspect.signature(command).parameters.values()
    return {one.name: one.annotation.__metadata__[0] for one in parameters if get_origin(one.annotation) is Annotated}


def test_every_option_is_well_declared():
    for name, option in SOLVE.items():
        assert re.fullmatch(r"[A-Z].*[.]", option.about.help), name
        assert option.accepts(option.default), name
        assert set(option.about.methods) <= set(METHODS.builtin), name
        assert option.default is not None or option.optional, name


@pytest.mark.parametrize(("function", "known"), FUNCTIONS)
def test_signature_and_docstring_have_each(function: Any, known: dict[str, Setting]):
    parameters = inspect.signature(function).parameters
    assert list(parameters) == ["problem", *known]
    for name, option in known.items():
        assert parameters[name].default == option.default
        assert f"- `{name}`: {option.about.help}" in function.__doc__


def test_scenario_files_have_each():
    properties = schema()["$defs"]["Settings"]["properties"]
    for option in (one for one in SOLVE.values() if one.about.in_file):
        field = Settings.model_fields[option.name]
        assert field.default == option.default
        assert field.description is not None
        assert field.description.startswith(option.about.help)
        published = properties[option.name]
        ranges = [published.get("minimum"), published.get("exclusiveMinimum"), published.get("maximum")]
        if option.name not in ("memory", "method"):
            assert ranges == [option.about.least, option.about.above, option.about.most], option.name
            assert tuple(published.get("enum", ())) == option.choices


def test_scenario_files_have_no_others():
    assert set(Settings.model_fields) == {name for name, option in SOLVE.items() if option.about.in_file}


@pytest.mark.parametrize(("command", "known"), [(cli.solve, SOLVE), (cli.frontier, FRONTIER)])
def test_commands_have_each(command: Any, known: dict[str, Setting]):
    found, parameters = flags(command), inspect.signature(command).parameters
    own = {"scenario", "output", "report", "force", "quiet", "as_json"}
    assert set(found) - own == {name for name, option in known.items() if option.flag}
    for name in set(found) - own:
        option, flag = known[name], found[name]
        assert flag.default == option.flag  # typer's place for the flag
        assert flag.help.startswith(option.about.help)
        assert flag.min == option.about.least
        assert flag.max in (option.about.most, None)
        assert parameters[name].default is None
        if option.choices:
            assert Literal[option.choices] in get_args(get_args(parameters[name].annotation)[0])


def test_commands_show_each():
    shown = CliRunner().invoke(app, ["solve", "--help"], terminal_width=200).output
    for option in SOLVE.values():
        assert option.flag in shown
        assert not option.flag or option.about.help.partition(" ")[0] in shown


def test_a_type_checker_knows_every_keyword():
    """Lines that a type checker must refuse: each comment below is itself an error once it is not needed."""
    problem = veil.gallery.load("two-rooms")
    wrong = (
        lambda: veil.solve(problem, sed=1),  # pyright: ignore[reportCallIssue]
        lambda: veil.solve(problem, seed="1"),  # pyright: ignore[reportArgumentType]
        lambda: veil.solve(problem, goal="hide"),  # pyright: ignore[reportArgumentType]
        lambda: veil.solve(problem, memory="marcov"),  # pyright: ignore[reportArgumentType]
        lambda: veil.frontier(problem, 3, goal="opaque"),  # pyright: ignore[reportCallIssue]
        lambda: veil.frontier(problem, points="3"),  # pyright: ignore[reportArgumentType]
    )
    for call in wrong:
        with pytest.raises(veil.InputError):
            call()
    solution: veil.Solution = veil.solve(problem, "ascent", starts=1, iterations=1, certificate=False)
    assert solution.seed == 0
