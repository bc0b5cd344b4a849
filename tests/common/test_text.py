"""Text for terminals and spreadsheets: what is in a name is shown, and not obeyed."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import veil
from tests.seeds import looped
from veil.cli.main import app
from veil.common.json_text import parse_json
from veil.common.text import csv_cell, csv_name, printable
from veil.formats.policies.text import policy_from_csv, policy_to_csv

ESCAPE = "\x1b[2J\x9b31m=HYPERLINK(1)"


@given(st.text())
def test_cells_are_read_as_they_were_written(name: str):
    assert csv_name(csv_cell(name)) == name
    assert not csv_cell(name).startswith(("=", "+", "-", "@", "\t", "\r"))


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_printed(name: str):
    found = printable(name)
    assert all(letter in "\n\t" or ord(letter) >= 32 for letter in found)
    assert not any(127 <= ord(letter) < 160 for letter in found)
    assert json.loads(printable(json.dumps(name, ensure_ascii=False))) == name


def dangerous() -> veil.Problem:
    model = veil.Model(
        np.full((2, 1, 2), 0.5), [[0.0], [0.0]], [0.5, 0.5], state_names=[ESCAPE, "=1+1"], action_names=["@go"]
    )
    observer = veil.Observer(np.eye(2), ["+seen", "-seen"])
    return veil.Problem(model, observer, veil.LastState({"=1+1"}), 2, name=ESCAPE)


def test_policies_are_written_without_formulas_and_read_again(tmp_path: Path):
    problem = dangerous()
    policy_to_csv(tmp_path / "policy.csv", problem, veil.MarkovPolicy.uniform(problem))
    text = (tmp_path / "policy.csv").read_text(encoding="utf-8")
    assert ",'=1+1,'@go,1.0" in text
    assert np.array_equal(np.asarray(policy_from_csv(tmp_path / "policy.csv", problem)), np.ones((2, 1)))


@looped("arguments", [["inspect"], ["measure", "uniform"], ["simulate", "uniform"]])
def test_commands_print_names_without_escapes(arguments: list[str], tmp_path: Path):
    path = tmp_path / "dangerous.toml"
    dangerous().save(path)
    command, *rest = arguments
    found = CliRunner().invoke(app, [command, str(path), *rest])
    assert found.exit_code == 0, found.output
    assert "\x1b" not in found.output
    assert "\x9b" not in found.output


JSON = st.recursive(
    st.none() | st.text('[]{}\\"a') | st.integers(), lambda one: st.lists(one) | st.dictionaries(st.text("[{"), one)
)


@given(JSON)
def test_json_is_read_as_the_standard_library_reads_it(value: object):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value).encode()) == value


@looped("deep", ["[" * 100_000, '{"a":' * 100_000, '["' + "]" * 200 + '",' + "[" * 101, '"\\"' + "[" * 101])
def test_deep_json_is_refused_before_a_parser_recurses(deep: str):
    with pytest.raises(ValueError, match=r"nested [\d,]+ levels deep, expected at most 100|Invalid|Unterminated"):
        parse_json(deep)


def test_brackets_in_strings_are_no_levels():
    assert parse_json(json.dumps(["[" * 500])) == ["[" * 500]
    assert parse_json("[" * 100 + "]" * 100)
