"""Parts of an observer's loss: chunks by memory, rules with doubt, samples, and the time of each pair."""

import math
from typing import Any

import numpy as np
import pytest

import veil
from tests.measure.test_loss import beliefs, policies
from tests.problem.test_together import random_case
from veil.common.clock import Clock
from veil.engine.chain import make_chain
from veil.engine.filter import ObserverFilter
from veil.engine.hidden import event_name
from veil.measure import loss, pairs
from veil.measure.loss import Rule, at_once, loss_bits, posteriors, sampled_loss
from veil.measure.result import Opacity


@pytest.mark.parametrize("memory", [1, 1000, 5000, 2**14, 2**40])
def test_as_many_sequences_at_a_time_as_fit_the_memory(memory: int, monkeypatch: pytest.MonkeyPatch):
    """Four tables of states and values, and the events of a sequence, of eight bytes each; one at least."""
    chain = make_chain(random_case(0)[0], policies(0)[0])
    hidden = chain.hidden
    each = 8 * (4 * hidden.num_states * hidden.num_values + hidden.horizon + 1)
    monkeypatch.setattr(loss, "_MEMORY", memory)
    found = at_once(chain)
    if memory < each:
        assert found == 1
    elif memory > 2**30:
        assert found == loss._AT_ONCE
    else:
        assert found * each <= memory < (found + 1) * each


@pytest.mark.parametrize("step", [1, 3, 100])
def test_posteriors_chunk_by_chunk_are_those_of_the_filter(step: int, monkeypatch: pytest.MonkeyPatch):
    problem, policy = random_case(1)[0], policies(1)[0]
    events = veil.measures.joint_table(problem, policy).events
    monkeypatch.setattr(loss, "at_once", lambda chain: step)
    found = posteriors(make_chain(problem, policy), events)
    assert len(found) == len(events) > 3
    watching = ObserverFilter(problem, policy)
    for row, sequence in zip(found, events.tolist(), strict=True):
        watching.reset()
        expected = watching.posterior
        for time, event in enumerate(sequence):
            expected = watching.update(event_name(problem, event, time))
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_doubt_spreads_a_share_over_all_values():
    """`(1 − ε) q + ε / Z`."""
    problem = random_case(2)[0]
    acting, other = policies(2)
    events = veil.measures.joint_table(problem, acting).events
    certain = np.exp2(-Rule(problem, veil.Belief(other)).costs_bits(events))
    doubting = np.exp2(-Rule(problem, veil.Belief(other, doubt=0.2)).costs_bits(events))
    size = certain.shape[1]
    np.testing.assert_allclose(doubting, 0.8 * certain + 0.2 / size, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_sampled_loss_is_right_within_its_error(seed: int):
    problem = random_case(seed)[0]
    acting, other = policies(seed)
    for belief in beliefs(problem, other, seed):
        mean, error = sampled_loss(problem, acting, belief, sequences=1500, seed=seed)
        assert abs(mean - loss_bits(problem, acting, belief)) <= 5 * error + 1e-9
        assert 0 <= error < 0.1


def test_a_sampled_loss_is_infinite_where_the_truth_is_ruled_out():
    """The observer assumes that the second state is never reached, which it is."""
    model = veil.Model(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), 0)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState([1]), 2)
    policy = veil.MarkovPolicy.uniform(problem)
    stays = veil.Model(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.zeros((2, 1)), 0)
    assert sampled_loss(problem, policy, veil.Belief(policy, stays), sequences=50) == (math.inf, 0.0)
    assert loss_bits(problem, policy, veil.Belief(policy, stays)) == math.inf
    mean, _ = sampled_loss(problem, policy, veil.Belief(policy), sequences=50)
    assert mean == 0.0


# The time of each pair.


class Asked:
    """How long the opacity of each pair may take, on a clock that stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str = "exact"):
        self.limits = list[float | None]()
        monkeypatch.setattr(pairs, "Clock", lambda limit: Clock(limit, now=lambda: 0.0))
        monkeypatch.setattr(pairs, "opacity", self._opacity)
        self.found = Opacity(0.5, 0.5, 0.5, 1.0, method, 7)

    def _opacity(self, problem: Any, policy: Any, method: str, *, time_limit: float | None, **_: Any) -> Opacity:
        self.limits.append(time_limit)
        return self.found


def with_pairs(belief: veil.Belief | None = None) -> tuple[veil.Problem, veil.Policy]:
    problem, other = random_case(3)
    names = [veil.Pair(f"p{number}", other, belief=belief if number == 2 else None) for number in range(3)]
    return problem.replace(pairs=names), policies(3)[0]


def test_pairs_share_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch):
    problem, policy = with_pairs()
    asked = Asked(monkeypatch)
    assert [one.name for one in veil.pair_values(problem, policy, time_limit=6.0)] == ["p0", "p1", "p2"]
    assert asked.limits == [2.0, 3.0, 6.0]  # none of it was used
    asked = Asked(monkeypatch)
    veil.pair_values(problem, policy)
    assert asked.limits == [None] * 3


def test_half_of_a_pairs_time_is_for_its_loss(monkeypatch: pytest.MonkeyPatch):
    problem, policy = with_pairs(veil.Belief(policies(3)[1]))
    asked = Asked(monkeypatch)
    given = list[float | None]()
    monkeypatch.setattr(pairs, "loss_bits", lambda *_, time_limit, **__: given.append(time_limit) or 0.75)
    found = veil.pair_values(problem, policy, time_limit=6.0)
    assert asked.limits == [2.0, 3.0, 3.0]
    assert given == [6.0]
    assert (found[2].loss_bits, math.isnan(found[1].loss_bits)) == (0.75, True)
    veil.pair_values(problem, policy)
    assert given[1:] == [None]


@pytest.mark.parametrize(
    ("method", "fits", "sampled"), [("exact", True, False), ("exact", False, True), ("sampled", True, True)]
)
def test_a_loss_is_sampled_where_the_sequences_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, method: str, fits: bool, sampled: bool
):
    problem, policy = with_pairs(veil.Belief(policies(3)[1]))
    Asked(monkeypatch, method)

    def exactly(*_: Any, **__: Any) -> float:
        if not fits:
            raise veil.TooLargeError("too large")
        return 0.75

    monkeypatch.setattr(pairs, "loss_bits", exactly)
    monkeypatch.setattr(pairs, "sampled_loss", lambda *_, **__: (0.7, 0.01))
    value = veil.pair_values(problem, policy)[2]
    assert value.loss_bits == (0.7 if sampled else 0.75)
    assert (value.loss_std_error == 0.01) == sampled
    if not fits:
        with pytest.raises(veil.TooLargeError):
            veil.pair_values(problem, policy, "exact")
