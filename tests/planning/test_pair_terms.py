"""What pairs ask of a search, against the opacity of each pair: the least, bounds, terms; and what is sampled together."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import drawn
from tests.planning.test_pairs import task_of, two_sensors
from veil.planning import pair_terms
from veil.planning.options import SolveOptions
from veil.planning.pair_terms import PairTask, Wanted, make_pair_task
from veil.planning.policy_class import make_space
from veil.planning.sampled_values import SampleSecrecy
from veil.planning.values import make_secrecy

NAMES = ("own", "other", "start")


def hidden_in(problem: veil.Problem, policy: veil.Policy) -> dict[str, float]:
    return {name: veil.opacity(problem, policy, "exact", pair=name).bits for name in NAMES}


@pytest.mark.parametrize("hide", ["own, other, start", "own, other", "start, own", "other"])
def test_the_least_is_that_of_the_pairs_named(hide: str):
    problem = two_sensors(1)
    task, wanted = task_of(problem, hide=hide), [name.strip() for name in hide.split(",")]
    tables, seen = drawn(task.space, 6, 2, 3.0), set[str]()
    values = task.evaluate(tables)
    for number, table in enumerate(tables):
        bits = hidden_in(problem, task.space.policy(table))
        least = min(wanted, key=lambda name, bits=bits: bits[name])
        seen.add(least)
        assert values.score[number] == pytest.approx(bits[least])
        assert values.secrecy[number] == pytest.approx(bits["own"])
        slacks = [bits[name] - bits[least] for name in wanted]
        np.testing.assert_allclose(values.slack[number, : len(wanted)], slacks, atol=1e-12)
    assert values.num_least == len(wanted)
    assert task.pairs.num_slacks == len(wanted)


def test_bounds_and_terms_are_of_the_pairs_named():
    problem = two_sensors(1, min=0.3, max=0.4)
    task = task_of(problem, task="0.5*H(start) - 2*H(other) + 3*H(own)")
    tables = drawn(task.space, 3, 2, 3.0)
    values = task.evaluate(tables)
    for number, table in enumerate(tables):
        bits = hidden_in(problem, task.space.policy(table))
        np.testing.assert_allclose(values.slack[number, :2], [bits["other"] - 0.3, 0.4 - bits["other"]], atol=1e-11)
        earned = 0.5 * bits["start"] - 2 * bits["other"] + 3 * bits["own"]
        assert values.score[number] * task.score_unit == pytest.approx(bits["own"] + earned)
    assert task.pairs.spread == 5.5
    assert task.score_unit == 5.5
    assert task.pair_prices(np.array([0.5, 0.25, 1.0])) == [0.5 * 5.5, 0.25 * 5.5]
    assert task.pairs.cost_seconds == sum(one.cost_seconds for one in task.pairs.secrecies if one is not None)
    assert task.cost_seconds == task.secrecy.cost_seconds + task.pairs.cost_seconds


def test_pairs_that_nothing_asks_for_are_not_evaluated():
    task = task_of(two_sensors(1), hide="own, start")
    assert [one is None for one in task.pairs.secrecies] == [True, False]
    assert not task_of(two_sensors(1)).pairs
    assert not task_of(two_sensors(1, min=0.0)).pairs
    assert task_of(two_sensors(1, max=0.0)).pairs
    bound = task_of(two_sensors(1, min=0.3)).pairs.bounds[0]
    assert (bound.column, bound.sign, bound.bits) == (1, 1.0, 0.3 + 2e-12)
    bound = task_of(two_sensors(1, max=0.4)).pairs.bounds[0]
    assert (bound.column, bound.sign, bound.bits) == (1, -1.0, 0.4 - 2e-12)


@pytest.mark.parametrize(("given", "raised", "friends"), [
    ({}, (0,), False), ({"bounds": (Wanted(1, 1.0, 0.3),)}, (0, 1), False), ({"bounds": (Wanted(1, -1.0, 0.3),)}, (0,), True),
    ({"terms": ((0.5, 2), (-1.0, 1))}, (0, 2), True), ({"least": (Wanted(2, 1.0, 0.0), Wanted(1, 1.0, 0.0))}, (2, 1), False),
    ({"least": (Wanted(0, 1.0, 0.0),), "terms": ((1.0, 1), (2.0, 1))}, (0, 1), False), ({"terms": ((-1.0, 2),)}, (0,), True),
    ({"terms": ((0.0, 2),)}, (0,), False), ({"least": (Wanted(2, -1.0, 0.0),)}, (0,), True),
])  # fmt: skip
def test_starts_hide_what_is_wanted_more_of_and_a_friend_is_who_is_to_see(given: dict[str, Any], raised, friends: bool):
    task = PairTask((None, None), **given)
    assert task.raised == raised
    assert task.has_friends is friends
    assert bool(task) is bool(given)


def test_to_meet_all_bounds_their_least_slack_is_maximised():
    bound, kept = Wanted(1, -1.0, 0.3), Wanted(0, 1.0, 0.2)
    inward = PairTask((None,), (bound,), ((1.0, 1),), (Wanted(1, 1.0, 0.0),)).inward([kept])
    assert (inward.least, inward.bounds, inward.terms) == ((bound, kept), (), ())
    found = inward.joined([np.array([0.5]), np.array([0.25])], [np.zeros((1, 2)), np.ones((1, 2))])
    assert found.least.tolist() == [pytest.approx(0.05)]
    np.testing.assert_allclose(found.slack, [[0.0, 0.25]], atol=1e-12)
    np.testing.assert_array_equal(found.slack_slope, [[[-1.0, -1.0], [0.0, 0.0]]])


def test_margins_are_those_of_the_columns_of_bounds():
    task = PairTask((None, None), (Wanted(2, 1.0, 0.25), Wanted(1, -1.0, 0.5)), (), (Wanted(0, 1.0, 0.0),))
    bits, slopes = [np.array([0.5]), np.array([0.25]), np.array([0.75])], [np.zeros((1, 1))] * 3
    np.testing.assert_allclose(task.joined(bits, slopes).slack, [[0.0, 0.5, 0.25]])
    np.testing.assert_allclose(task.joined(bits, slopes, [9.0, 0.125, 0.0625]).slack, [[0.0, 0.4375, 0.125]])


def made(monkeypatch: pytest.MonkeyPatch | None = None, **settings: Any) -> tuple[Any, PairTask]:
    problem = two_sensors(1, min=0.3)
    space, options = make_space(problem, "timed"), SolveOptions(method="ascent", memory="timed", **settings)
    own = make_secrecy(space, options.objective, options.evaluation)
    return make_pair_task(space, options, own, None)


def test_where_one_pair_is_sampled_all_are(monkeypatch: pytest.MonkeyPatch):
    own, pairs = made()
    assert own.kind == "exact"
    assert [one if one is None else one.kind for one in pairs.secrecies] == ["exact", None]
    own, pairs = made(evaluation="sampled")
    assert [one if one is None else one.kind for one in pairs.secrecies] == ["sampled", None]
    assert isinstance(pairs.sampled[0], SampleSecrecy)
    monkeypatch.setattr(pair_terms, "_exact_column", lambda *_: None)
    own, pairs = made()
    assert own.kind == "sampled"
    assert [one if one is None else one.kind for one in pairs.secrecies] == ["sampled", None]


@pytest.mark.parametrize(("settings", "words"), [
    ({"objective": "leakage"}, "pairs are about the entropy"),
    ({"hide": "own, start", "goal": "transparent"}, "with hide goal='opaque'"),
    ({"hide": "own, start", "min_opacity": 0.1}, "and hide maximises others: use one"),
    ({"evaluation": "bracket"}, "'bracket' is not available"),
])  # fmt: skip
def test_what_does_not_go_with_pairs_is_refused(settings: dict[str, Any], words: str):
    with pytest.raises(veil.InputError, match=words):
        made(**settings)
    assert made(goal="transparent")[1].bounds
    assert made(min_opacity=0.1)[1].bounds


def test_a_pair_that_is_too_large_is_named_where_exact_values_were_asked_for(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any, **__: Any) -> Any:
        raise veil.TooLargeError("too many sequences")

    problem = two_sensors(1, min=0.3)
    space = make_space(problem, "timed")
    own = make_secrecy(space)
    monkeypatch.setattr(pair_terms, "make_secrecy", refuse)
    with pytest.raises(veil.TooLargeError, match="pair 'other': too many sequences"):
        make_pair_task(space, SolveOptions(method="ascent", memory="timed", evaluation="exact"), own, None)
    assert make_pair_task(space, SolveOptions(method="ascent", memory="timed"), own, None)[0].kind == "sampled"
