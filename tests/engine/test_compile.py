"""Policies with a memory over an infinite horizon, and the size of products; values are compared in `tests/combinations`."""

import numpy as np
import pytest

import veil
from tests.engine.runs import random_policy, remembering_cases
from tests.seeds import looped
from veil.engine.compile import build
from veil.engine.kernel import SparseKernel
from veil.policy.memories import Controller, Memory, ObservationMemory, StateMemory, ZoneMemory
from veil.policy.memory import MemoryPolicy


def close(found: float, expected: float) -> None:
    assert found == pytest.approx(expected, abs=1e-12, rel=1e-12)


# For ever


def forever(case, memory: Memory) -> veil.Problem:
    """The problem of a case with a return over all times."""
    model = case.problem.model
    paid = veil.Model([m.copy() for m in model.matrices], model.rewards, model.initial, 0.5, available=model.available)
    return veil.Problem(paid, case.problem.observer, case.problem.secret, case.problem.horizon,
                        return_over="infinite", agent_sees="state+observations")  # fmt: skip


@looped(
    "memory", [ObservationMemory(1, clock=False), StateMemory(2, clock=False), ZoneMemory([[0], [1]], clock=False),
               Controller(2)]
)  # fmt: skip
def test_a_policy_without_a_clock_acts_for_ever(memory: Memory):
    for case in remembering_cases(4, "last"):
        problem = forever(case, memory)
        policy = random_policy(problem, memory, seed=7)
        # Sixty steps of a discount of one half leave nothing; all rows are reached within them.
        long = problem.replace(return_over="horizon", horizon=60)
        assert MemoryPolicy.row_names(long, memory) == MemoryPolicy.row_names(problem, memory)
        assert veil.expected_return(problem, policy) == pytest.approx(veil.expected_return(long, policy), abs=1e-12)
        lifted = MemoryPolicy.lift(problem, memory, veil.MarkovPolicy.uniform(problem))
        close(veil.expected_return(problem, lifted), veil.expected_return(problem, veil.MarkovPolicy.uniform(problem)))


@looped("memory", [ObservationMemory(2), StateMemory(1), ZoneMemory([[0]]), Controller(2, clock=True)])
def test_a_policy_with_a_clock_plays_on_optimally(memory: Memory):
    for case in remembering_cases(4, "last"):
        problem = forever(case, memory)
        shape = (problem.horizon, problem.num_cells, problem.num_actions)
        policy = veil.TimedPolicy.softmax(np.random.default_rng(1).normal(size=shape), problem)
        close(
            veil.expected_return(problem, MemoryPolicy.lift(problem, memory, policy)),
            veil.expected_return(problem, policy),
        )


# Size


def test_a_product_that_is_too_large_is_refused_before_it_is_made():
    problem = veil.gallery.load("paper-last-state").replace(agent_sees="state+observations")
    with pytest.raises(veil.TooLargeError, match=r"hidden states of the 36 .* remember less"):
        MemoryPolicy.uniform(problem, StateMemory(10, clock=False))
    with pytest.raises(veil.TooLargeError, match=r"more than 2\^62 values"):
        MemoryPolicy.uniform(problem.replace(horizon=100), ObservationMemory(100))


def test_a_larger_product_is_sparse_and_right():
    problem = veil.gallery.load("paper-last-state").replace(agent_sees="state+observations")
    policy = veil.MarkovPolicy.softmax(np.random.default_rng(2).normal(size=(36, 5)), problem)
    expected = veil.opacity(problem, policy, "exact").bits
    for memory in (StateMemory(2), ObservationMemory(4), ZoneMemory([[0], [7, 8], [35]])):
        assert isinstance(build(problem, memory).kernel, SparseKernel)
        close(veil.opacity(problem, MemoryPolicy.lift(problem, memory, policy), "exact").bits, expected)


def test_an_agent_who_sees_nothing_cannot_remember_it():
    problem = veil.gallery.load("paper-last-state").replace(agent_sees="state")
    with pytest.raises(veil.InputError, match=r"StateMemory\(k\).*agent_sees='state\+observations'"):
        build(problem, ObservationMemory(1))
