"""Rules for secrets that are whole paths: when a path tells the state, which rules are refused, what a rule pays."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from veil.common.errors import CertificateError
from veil.proof.path_rules import checked_path, path_costs, tells_state


def moving(path: list[int], start: list[int], source: list[int], target: list[int]) -> Any:
    """A problem of one action and one event with these moves, within one step."""
    x, events = np.array(start), np.zeros(len(source), dtype=int)
    shown = None if path == [] else np.array(path)
    return SimpleNamespace(
        path=shown, start=(x, np.zeros(len(x), dtype=int), np.full(len(x), 1 / len(x))), row=np.array(source), actions=1,
        target=np.array(target), event=events, size=2, horizon=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "start", "source", "target", "expected"),
    [
        ([], [0], [0], [0], False),  # no path is secret
        ([0, 0], [0], [0], [1], True),
        ([0, 0], [0, 1], [0, 1], [0, 1], False),  # the start is not told, though each move is
        ([0, 1], [0, 1], [0, 1], [0, 1], True),
        ([0, 0], [0], [0, 0], [0, 1], False),  # the move is not told
        ([0, 1], [0], [0, 0], [0, 1], True),
    ],
)
def test_whether_a_path_tells_the_state(path, start, source, target, expected):
    assert tells_state(moving(path, start, source, target)) == expected


def rule(*, keys: list[int], costs: list[float]) -> Any:
    return SimpleNamespace(path_keys=[np.array(keys)], path_costs=[np.array(costs)])


def test_what_a_rule_leaves_out_costs_infinitely_much():
    problem: Any = SimpleNamespace(codes=np.array([0, 1]), values=1, size=2, horizon=1)
    reached, before = np.array([0, 0, 1, 3]), np.array([0, 1, 1, 1])
    found = path_costs(problem, rule(keys=[0, 3], costs=[0.5, 2.0]), 0, reached, before)
    assert found.tolist() == [0.5, np.inf, 2.0, np.inf]  # the last key is above all that the rule has
    second = rule(keys=[0, 3, 4, 7], costs=[0.5, 2.0, 3.0, 4.0])
    assert path_costs(problem, second, 0, reached, before).tolist() == [0.5, np.inf, 2.0, 4.0]  # that of a second node
    assert path_costs(problem, rule(keys=[], costs=[]), 0, reached, before).tolist() == [np.inf] * 4
    last: Any = SimpleNamespace(
        path_keys=[np.zeros(0), np.array([0, 1])], path_costs=[np.zeros(0), np.array([0.5, 2.0])]
    )
    assert path_costs(problem, last, 1, np.array([0, 1]), np.array([0, 1])).tolist() == [0.5, 2.0]  # nothing follows


def test_more_nodes_than_keys_have_room_for_are_refused():
    problem: Any = SimpleNamespace(codes=np.arange(2**11))
    witness: Any = SimpleNamespace(path_keys=[np.zeros((0, 3), dtype=int)], path_costs=[np.zeros(0)])
    checked_path(problem, witness, [2**39])
    with pytest.raises(CertificateError, match="has too many nodes"):
        checked_path(problem, witness, [2**40])


HONEST = [[0, 0, 0], [0, 0, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("keys", "costs", "words"),
    [
        (HONEST, [1.1, 1.1, 0.1], ""),
        (HONEST, [np.inf, 0.1, 2.0**900], ""),
        ([[0, 0, 0], [0, 0, 0], [1, 1, 1]], [1.1, 1.1, 0.1], "out of order"),
        ([[0, 0, 1], [0, 0, 0], [1, 1, 1]], [1.1, 1.1, 0.1], "out of order"),
        (HONEST, [1.1, 1.1], "not one for each cost"),
        ([[0, 0, 0], [0, 0, 1], [1, 2, 1]], [1.1, 1.1, 0.1], "not triples of numbers"),
        ([[0, 0], [0, 1], [1, 1]], [1.1, 1.1, 0.1], "not triples of numbers"),
        ([[-1, 0, 0], [0, 0, 1], [1, 1, 1]], [1.1, 1.1, 0.1], "a number is outside"),
        (HONEST, [1.1, 1.1, -0.1], "a cost is negative"),
        (HONEST, [1.1, 1.1, 2.0**901], "above 2"),
        (HONEST, [1.0, 0.9, 0.1], "sum to more than one"),
        (HONEST, [1.1, 1.1, 0.0], "sum to more than one"),  # the margin for rounding is missing
    ],
)
def test_which_rules_are_refused(keys, costs, words):
    problem: Any = SimpleNamespace(codes=np.array([0, 1]))
    witness: Any = SimpleNamespace(path_keys=[np.array(keys)], path_costs=[np.array(costs)])
    if words:
        with pytest.raises(CertificateError, match=words):
            checked_path(problem, witness, [3])
    else:
        read, kept = checked_path(problem, witness, [3])
        assert read[0].tolist() == [0, 1, 7]
        assert kept[0].tolist() == costs


def test_a_rule_for_paths_has_a_part_for_each_time_and_a_secret_path():
    for problem, parts in (((SimpleNamespace(codes=None)), 1), (SimpleNamespace(codes=np.array([0, 1])), 2)):
        witness: Any = SimpleNamespace(
            path_keys=[np.array(HONEST)] * parts, path_costs=[np.array([1.1, 1.1, 0.1])] * parts
        )
        given: Any = problem
        with pytest.raises(CertificateError, match=r"no path is secret|one part for each state"):
            checked_path(given, witness, [2])
    none: Any = SimpleNamespace(codes=None)
    assert checked_path(none, SimpleNamespace(path_keys=(), path_costs=()), [2]) == ((), ())  # type: ignore[arg-type]


@pytest.mark.parametrize(("nodes", "fits"), [((3, 3), True), ((4, 3), False), ((3, 4), False)])
def test_the_nodes_of_a_part_are_those_of_the_next_time_and_last_those_of_the_last(nodes: tuple[int, int], fits: bool):
    problem: Any = SimpleNamespace(codes=np.array([0, 1]))
    parts = [np.array([[0, 0, 0], [node - 1, 0, 0]]) for node in nodes]
    witness: Any = SimpleNamespace(path_keys=parts, path_costs=[np.array([0.1, 0.1])] * 2)
    if fits:
        assert len(checked_path(problem, witness, [1, 3])[0]) == 2
    else:
        with pytest.raises(CertificateError, match=r"not triples of numbers|outside"):
            checked_path(problem, witness, [1, 3])
