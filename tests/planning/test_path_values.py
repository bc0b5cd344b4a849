"""Whole paths in a search: each way to the entropy of events against the others, and which of them is taken."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from tests.planning.small_problems import drawn, tiny_problem
from veil.common.clock import UNLIMITED, Clock
from veil.engine.event_entropy import show_path
from veil.planning import path_values
from veil.planning.path_values import PathSecrecy, _Batch, _events, _Unifilar, _Walk, make_path_secrecy
from veil.planning.policy_class import Space, any_table, make_space


def space_of(groups: bool = False) -> Space:
    """Two states; with groups the path is whether the second one is met, so that it does not tell the state."""
    problem = tiny_problem(1, states=3).replace(
        secret=veil.Trajectory({"it": [1]} if groups else None), min_return=None
    )
    return make_space(problem, "timed")


def on_sparse(space: Space) -> Space:
    return replace(space, hidden=on_sparse_kernel(space.chain(any_table(space))).hidden)


def test_all_ways_find_the_same_entropy_and_slope(monkeypatch: pytest.MonkeyPatch):
    space = space_of()
    shown, tables = show_path(space.hidden), drawn(space, 2)
    ways = [_events(space, shown, 1.0, UNLIMITED), _events(space, None, 1.0, UNLIMITED)]
    assert [type(one) for one in ways] == [_Unifilar, _Batch]
    others = [_events(on_sparse(space), None, 1.0, UNLIMITED)]
    monkeypatch.setattr(path_values, "_BATCH_NUMBERS", 0)
    others.append(_events(space, None, 1.0, UNLIMITED))
    monkeypatch.setattr(path_values, "COUNTED_STATES", 0)
    others.append(_events(space, None, 60.0, UNLIMITED))
    assert [type(one) for one in others] == [_Walk] * 3
    wanted, slope = ways[1](tables, UNLIMITED)
    for number, table in enumerate(tables):
        bits = veil.opacity(space.problem, space.policy(table), "exact")
        both = ways[0](tables, UNLIMITED)[0][number]
        assert both - wanted[number] == pytest.approx(bits.bits)
    change = tables[1] - tables[0]
    for other in others:
        found, slopes = other(tables, UNLIMITED)
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        np.testing.assert_allclose(
            np.sum(slopes * change, axis=(1, 2, 3)), np.sum(slope * change, axis=(1, 2, 3)), atol=1e-10
        )
        assert 0 <= other.cost_seconds < 60


@pytest.mark.parametrize("objective", ["entropy", "leakage"])
@pytest.mark.parametrize("groups", [False, True])
def test_the_secrecy_of_a_path_is_its_entropy_given_the_events(objective: Any, groups: bool):
    space = space_of(groups)
    secrecy = PathSecrecy(space, objective, 1.0, UNLIMITED)
    tables = drawn(space, 2)
    bits, slopes = secrecy(tables, UNLIMITED)
    for number, table in enumerate(tables):
        found = veil.opacity(space.problem, space.policy(table), "exact")
        assert bits[number] == pytest.approx(found.bits - (found.prior_bits if objective == "leakage" else 0.0))
    step = 1e-6
    ends = [secrecy((tables[0] + sign * step * (tables[1] - tables[0]))[None], UNLIMITED)[0][0] for sign in (1, -1)]
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(np.sum(slopes[0] * (tables[1] - tables[0])), abs=1e-6)
    assert secrecy.cost_seconds == sum(term.cost_seconds for _, term in secrecy._terms)


def test_the_way_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch):
    space, cost, clocks = space_of(), [0.5], list[tuple[float, float]]()

    def made(space: Space, objective: str, seconds: float, clock: Clock) -> Any:
        clocks.append((seconds, clock.time_limit))
        return SimpleNamespace(kind="exact", cost_seconds=cost[0])

    monkeypatch.setattr(path_values, "PathSecrecy", made)
    samples: list[str] = []

    def sample(reason: str) -> Any:
        samples.append(reason)
        return SimpleNamespace(kind="sampled")

    def refuse(reason: str) -> Any:
        raise veil.TooLargeError("no samples")

    def kind(evaluation: Any = "auto", how: Any = sample, limit: float | None = None) -> str:
        return make_path_secrecy(space, "entropy", evaluation, how, 1.0, limit).kind

    assert kind() == "exact"
    assert clocks.pop() == (1.0, 2.0)
    kind(limit=10.0)
    assert clocks.pop() == (1.0, pytest.approx(0.3))
    assert kind("sampled") == "sampled"
    cost[0] = 1.5
    assert kind() == "sampled"
    assert samples == ["asked for", "too many to enumerate"]
    assert kind(how=refuse) == "exact"
    assert kind("exact") == "exact"
    assert clocks[-1] == (30.0, np.inf)
    cost[0] = 30.5
    for how, evaluation in ((refuse, "auto"), (sample, "exact")):
        with pytest.raises(veil.TooLargeError, match="more than 30 s: shorten the horizon"):
            kind(evaluation, how)


def test_what_a_path_does_not_have_is_refused():
    for objective, evaluation, words in (
        ("guess", "auto", "'guess' is not available"),
        ("entropy", "bracket", "'bracket' is not available"),
    ):
        with pytest.raises(veil.InputError, match=words):
            make_path_secrecy(space_of(), objective, evaluation, lambda reason: None, 1.0, None)  # type: ignore[arg-type,return-value]


def test_sequences_that_are_not_counted_in_time_have_an_infinite_cost(monkeypatch: pytest.MonkeyPatch):
    found = _events(space_of(), None, 1.0, Clock(0.0))
    assert isinstance(found, _Walk)
    assert found.cost_seconds == np.inf
    monkeypatch.setattr(path_values, "COUNTED_STATES", 0)
    monkeypatch.setattr(path_values, "try_sparse", lambda *_, **__: None)
    assert _events(space_of(), None, 1.0, UNLIMITED).cost_seconds == np.inf
