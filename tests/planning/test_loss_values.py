"""The loss of an observer who may be wrong in a search: against the loss of the policy, its slope, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from tests.planning.small_problems import drawn, tiny_problem
from veil.common.clock import UNLIMITED
from veil.planning import loss_values
from veil.planning.loss_values import LossSecrecy
from veil.planning.policy_class import any_table, make_space

BELIEF = veil.Belief("uniform", doubt=0.1)


def test_the_loss_is_that_of_the_policy_and_linear_in_the_joint_table():
    problem = tiny_problem(1).replace(min_return=None, pairs=[veil.Pair("naive", belief=BELIEF)])
    space = make_space(problem, "timed")
    secrecy = LossSecrecy(space, BELIEF)
    tables = drawn(space, 3)
    values, slopes = secrecy(tables, UNLIMITED)
    for number, table in enumerate(tables):
        found = veil.pair_values(problem, space.policy(table), "exact")[0]
        assert values[number] == pytest.approx(found.loss_bits)
    step, change = 1e-6, tables[1] - tables[0]
    ends = [secrecy((tables[0] + sign * step * change)[None], UNLIMITED)[0][0] for sign in (1, -1)]
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(np.sum(slopes[0] * change), abs=1e-7)
    assert secrecy.kind == "exact"
    assert secrecy.reason.endswith("possible sequences, policies side by side")


def test_what_does_not_fit_and_what_is_ruled_out_is_refused(monkeypatch: pytest.MonkeyPatch):
    problem = tiny_problem(1, states=3).replace(min_return=None, observer=veil.Observer(np.eye(3), sees_actions=True))
    space = make_space(problem, "timed")
    sparse = replace(space, hidden=on_sparse_kernel(space.chain(any_table(space))).hidden)
    with pytest.raises(veil.TooLargeError, match="and those over 3 hidden states are too many"):
        LossSecrecy(sparse, BELIEF)
    never = veil.Belief(veil.MarkovPolicy(np.full((3, 2), [1.0, 0.0])))
    with pytest.raises(veil.InputError, match="rules out what some policy brings about"):
        LossSecrecy(space, never)
    numbers = LossSecrecy(space, BELIEF)._costs.size
    monkeypatch.setattr(loss_values, "_BATCH_NUMBERS", numbers - 1)
    with pytest.raises(veil.TooLargeError, match="use evaluation='sampled', or shorten the horizon"):
        LossSecrecy(space, BELIEF)
    monkeypatch.setattr(loss_values, "_BATCH_NUMBERS", numbers)
    assert LossSecrecy(space, BELIEF).kind == "exact"
