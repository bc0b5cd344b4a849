"""Curves for the picture: from the object, from the files that the command writes, and not from anything else."""

import functools
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

import veil
from tests.seeds import looped
from veil.formats.documents import json_text
from veil.formats.results.curve import curve_document
from veil.problem.fingerprint import fingerprint
from veil.report.curve import read_curve, sweep

KNOWN = ("threshold", "expected_return", "opacity_bits", "price_bits", "upper_bits")
CLASS = "stationary Markov policies"


@functools.cache
def written() -> str:
    """A frontier of two points as the command writes it."""
    rooms = veil.gallery.load("two-rooms")
    curve = veil.frontier(rooms, 2, starts=1, iterations=2, progress=False)
    return json_text(curve_document(rooms, curve, 2, scenario=None, changes=()))


def document(
    problem: veil.Problem, points: Sequence[Sequence[object]] = ((0, 0.5, 0.4, 0, "inf"), (1, 1.0, 0.1, 2, "inf"))
) -> str:
    """The same with other points, about a problem."""
    whole = json.loads(written())
    own = whole["points"][0]["opacity"]
    whole["problem"]["fingerprint"] = fingerprint(problem)
    whole["points"] = [dict(zip(KNOWN, point, strict=True)) | {"opacity": own} for point in points]
    return json.dumps(whole)


@pytest.fixture
def rooms() -> veil.Problem:
    return veil.gallery.load("two-rooms")


def test_a_file_of_the_command(rooms: veil.Problem, tmp_path: Path):
    (tmp_path / "curve.json").write_text(document(rooms))
    points, policy_class, bounds = read_curve(rooms, tmp_path / "curve.json")
    assert list(bounds) == [(0, math.inf), (1, math.inf)]
    assert points == [(0.5, 0.4), (1.0, 0.1)]
    assert policy_class == CLASS
    (tmp_path / "curve.csv").write_text("threshold,expected_return,opacity_bits,price_bits\n0,0.5,0.4,0\n1,1.0,0.1,2\n")
    assert read_curve(rooms, str(tmp_path / "curve.csv")) == (points, "", [])


def test_proven_bounds_are_read_as_they_were_written(rooms: veil.Problem, tmp_path: Path):
    (tmp_path / "curve.json").write_text(document(rooms, [(0.1, 0.5, 0.4, 0, "inf"), (1.1, 1.0, 0.1, 2, 0.3)]))
    assert read_curve(rooms, tmp_path / "curve.json").bounds == [(0.1, math.inf), (1.1, 0.3)]
    (tmp_path / "curve.json").write_text(document(rooms, [(0.1, 0.5, 0.4, 0, None)]))
    with pytest.raises(veil.InputError, match="not a number"):
        read_curve(rooms, tmp_path / "curve.json")


@looped("text", ["", "{}", "[1]", "nonsense", '{"format": "veil-frontier-1"}', "\x00", "[" * 100_000])
def test_no_curve(rooms: veil.Problem, tmp_path: Path, text: str):
    (tmp_path / "curve.json").write_text(text)
    with pytest.raises(veil.InputError):
        read_curve(rooms, tmp_path / "curve.json")


def test_another_problem_no_points_no_file(rooms: veil.Problem, courier: veil.Problem, tmp_path: Path):
    (tmp_path / "curve.json").write_text(document(courier))
    with pytest.raises(veil.InputError, match="another problem"):
        read_curve(rooms, tmp_path / "curve.json")
    (tmp_path / "empty.json").write_text(document(rooms, []))
    with pytest.raises(veil.InputError, match="no points"):
        read_curve(rooms, tmp_path / "empty.json")
    (tmp_path / "odd.json").write_text(document(rooms, [(0, "inf", 1, 0, "inf")]))
    with pytest.raises(veil.InputError, match="not finite numbers"):
        read_curve(rooms, tmp_path / "odd.json")
    with pytest.raises(veil.InputError, match="cannot be read"):
        read_curve(rooms, tmp_path / "missing.json")


def test_a_sweep_is_made_where_it_takes_a_moment(rooms: veil.Problem, paper: veil.Problem, solved: veil.Solution):
    solution = veil.solve(rooms, starts=2, iterations=10, certificate=False)
    curve = sweep(rooms, solution)
    assert curve is not None
    assert len(curve.points) == 6
    assert sweep(paper, solved) is None  # thousands of sequences: only where it is asked for
    asked = sweep(rooms, solution, 3)
    assert asked is not None
    assert len(asked.points) == 3
