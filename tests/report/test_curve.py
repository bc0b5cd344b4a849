"""Curves for the picture: from the object, from the files that the command writes, and not from anything else."""

import json
import math
from pathlib import Path

import pytest

import veil
from tests.seeds import looped
from veil.problem.fingerprint import fingerprint
from veil.report.curve import read_curve, sweep

POINTS = [{"expected_return": 0.5, "opacity_bits": 0.4}, {"expected_return": 1.0, "opacity_bits": 0.1}]


def document(problem: veil.Problem, **changes: object) -> str:
    whole = {
        "format": "veil-frontier-1",
        "problem": {"fingerprint": fingerprint(problem)},
        "policy_class": "stationary Markov policies",
        "points": POINTS,
    }
    return json.dumps(whole | changes)


@pytest.fixture
def rooms() -> veil.Problem:
    return veil.gallery.load("two-rooms")


def test_a_file_of_the_command(rooms: veil.Problem, tmp_path: Path):
    (tmp_path / "curve.json").write_text(document(rooms))
    points, policy_class, bounds = read_curve(rooms, tmp_path / "curve.json")
    assert list(bounds) == []
    assert points == [(0.5, 0.4), (1.0, 0.1)]
    assert policy_class == "stationary Markov policies"
    (tmp_path / "curve.csv").write_text("threshold,expected_return,opacity_bits,price_bits\n0,0.5,0.4,0\n1,1.0,0.1,2\n")
    assert read_curve(rooms, str(tmp_path / "curve.csv")) == (points, "", [])


def test_proven_bounds_are_read_as_they_were_written(rooms: veil.Problem, tmp_path: Path):
    rows = [POINTS[0] | {"threshold": 0.1, "upper_bits": "inf"}, POINTS[1] | {"threshold": 1.1, "upper_bits": 0.3}]
    (tmp_path / "curve.json").write_text(document(rooms, points=rows))
    assert read_curve(rooms, tmp_path / "curve.json").bounds == [(0.1, math.inf), (1.1, 0.3)]
    (tmp_path / "curve.json").write_text(document(rooms, points=[rows[0] | {"upper_bits": "nan"}]))
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
    (tmp_path / "empty.json").write_text(document(rooms, points=[]))
    with pytest.raises(veil.InputError, match="no points"):
        read_curve(rooms, tmp_path / "empty.json")
    (tmp_path / "odd.json").write_text(document(rooms, points=[{"expected_return": "inf", "opacity_bits": 1}]))
    with pytest.raises(veil.InputError, match="not finite numbers"):
        read_curve(rooms, tmp_path / "odd.json")
    with pytest.raises(veil.InputError, match="cannot be read"):
        read_curve(rooms, tmp_path / "missing.json")


def test_a_sweep_is_made_where_it_takes_a_moment(rooms: veil.Problem, paper: veil.Problem, solved: veil.Solution):
    solution = veil.solve(rooms, starts=2, iterations=10, certificate=False)
    curve = sweep(rooms, solution, iterations=10, starts=2)
    assert curve is not None
    assert len(curve.points) == 6
    assert sweep(paper, solved) is None  # thousands of sequences: only where it is asked for
    asked = sweep(rooms, solution, 3, iterations=10, starts=2)
    assert asked is not None
    assert len(asked.points) == 3
