"""Pairs (secret, observer) beside a problem's own: files, fingerprints, refusals."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.problem.test_together import random_case
from tests.seeds import in_blocks
from veil.formats.scenario.load import read_scenario
from veil.formats.scenario.toml import to_toml
from veil.problem.fingerprint import fingerprint


def with_pairs(seed: int) -> veil.Problem:
    """A problem with a second observer, a second secret, and both."""
    problem, two = random_case(seed, sees_actions=seed % 2 == 1)
    first = veil.InitialState()
    pairs = [veil.Pair("other", two, min=0.1), veil.Pair("start", secret=first), veil.Pair("both", two, first, max=1.5)]
    return problem.replace(pairs=pairs)


@in_blocks(3, 3, 3)
def test_files_and_fingerprints(seed: int) -> None:
    """A scenario file reads back to the same numbers; every part of a pair is part of the fingerprint."""
    problem = with_pairs(seed)
    again = read_scenario(to_toml(problem)).problem
    assert fingerprint(again) == fingerprint(problem)
    assert [one.name for one in again.pairs] == ["other", "start", "both"]
    prints = {fingerprint(problem), fingerprint(problem.replace(pairs=()))}
    for change in ({"min": 0.2}, {"max": 0.9}, {"name": "x"}, {"secret": veil.LastState([1])}, {"observer": None}):
        given: dict[str, Any] = {
            "name": "other",
            "observer": problem.pairs[0].observer,
            "min": 0.1,
            "secret": veil.LastState([0]),
        }
        parts: dict[str, Any] = given | change
        prints.add(fingerprint(problem.replace(pairs=[veil.Pair(**parts)])))
    assert len(prints) == 7


def test_what_is_refused() -> None:
    """Every defect is named at once, with the pair and the remedy."""
    with pytest.raises(veil.InputError, match=r"(?s)2 defects.*problem's own pair.*at least one of them"):
        veil.Pair("own")
    with pytest.raises(veil.InputError, match="parentheses"):
        veil.Pair("a(b)", veil.Observer([[1.0]]))
    with pytest.raises(veil.InputError, match="0 or more"):
        veil.Pair("a", veil.Observer([[1.0]]), min=-1)
    with pytest.raises(veil.InputError, match="min ≤ max"):
        veil.Pair("a", veil.Observer([[1.0]]), min=1, max=0.5)
    problem, two = random_case(0)
    pair = veil.Pair("a", two)
    with pytest.raises(veil.InputError, match=r"(?s)pair 1 is a str.*two pairs are called 'a'"):
        problem.replace(pairs=[pair, "x", pair])  # type: ignore[list-item]
    with pytest.raises(veil.InputError, match=r"pair 'a'.*emissions has shape"):
        problem.replace(pairs=[veil.Pair("a", veil.Observer(np.eye(2)))])
    whole = problem.replace(pairs=[pair])
    with pytest.raises(veil.InputError, match="there is no pair 'b'"):
        whole.only("b")


def test_a_scenario_with_pairs() -> None:
    """The tables of a file, and where a defect in them is."""
    text = """
horizon = 2
[graph]
transitions = [["a", "go", "b"], ["a", "stay", "a"], ["b", "go", "a"], ["b", "stay", "b"]]
initial = ["a", "b"]
[observer]
emissions = { a = "x", b = "y" }
[secret]
kind = "last_state"
states = ["a"]
[[pairs]]
name = "blind"
min = 0.5
observer.emissions = { a = "x", b = "x" }
[[pairs]]
name = "start"
secret = { kind = "initial_state" }
[solve]
hide = "own, blind"
"""
    read = read_scenario(text)
    policy = veil.MarkovPolicy.uniform(read.problem)
    assert [one.bits for one in veil.pair_values(read.problem, policy)] == [1.0, 0.0]
    assert read.settings["hide"] == "own, blind"
    with pytest.raises(veil.InputError, match=r"pairs.*line 13.*0 or more|line 13.*min.*0 or more"):
        read_scenario(text.replace("min = 0.5", "min = -0.5"))
    with pytest.raises(veil.InputError, match="unknown state 'c'"):
        read_scenario(text.replace('b = "x" }', 'b = "x", c = "x" }'))
    with pytest.raises(veil.InputError, match=r"initial_stat"):
        read_scenario(text.replace("initial_state", "initial_stat"))
