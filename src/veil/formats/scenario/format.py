"""Scenario files as a file format."""

from pathlib import Path

from ...problem.problem import Problem
from ..registry import Format
from ..text import write_file
from .load import load
from .toml import to_toml


def _write(path: Path, problem: Problem) -> None:
    write_file(path, to_toml(problem))


FORMAT = Format((".toml",), "scenario files", read_problem=load, write_problem=_write)
