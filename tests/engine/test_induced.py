"""The hidden Markov model that a policy makes: its sequences are those of the problem, and its rewards too."""

import random

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.random_problems import random_case, random_spec, to_policy, to_problem
from tests.seeds import in_blocks, looped
from veil.common.errors import TooLargeError
from veil.engine.induced import InducedHMM, induced_hmm
from veil.formats import gallery


def likelihood(hmm: InducedHMM, symbols: list[int]) -> float:
    """The probability of a sequence of symbols, by the forward algorithm."""
    message = hmm.start * hmm.emissions[:, symbols[0]]
    for symbol in symbols[1:]:
        message = (message @ hmm.transitions) * hmm.emissions[:, symbol]
    return float(message.sum())


def check(problem: veil.Problem, policy: object, hmm: InducedHMM) -> None:
    """Every sequence has the probability that the joint table says; expected returns agree; rows are distributions."""
    assert hmm.start.sum() == pytest.approx(1)
    assert hmm.emissions.sum(axis=1) == pytest.approx(np.ones(hmm.num_states))
    assert hmm.transitions.sum(axis=1) == pytest.approx(np.ones(hmm.num_states))
    table = veil.measures.joint_table(problem, policy)  # pyright: ignore[reportArgumentType]
    place = {name: number for number, name in enumerate(hmm.symbols)}
    opening = [] if problem.observer.sees_first else ["(nothing)"]
    for seen, joint in list(zip(table.sequences, table.probabilities, strict=True))[:300]:
        names = [event if isinstance(event, str) else "/".join(event) for event in seen]
        sequence = [place[name] for name in opening + names]
        assert likelihood(hmm, sequence) == pytest.approx(joint.sum(), rel=1e-9, abs=1e-15)
    if problem.return_over == "horizon":
        row, total, worth = hmm.start, 0.0, 1.0
        for _ in range(problem.horizon):
            total, row, worth = total + worth * (row @ hmm.rewards), row @ hmm.transitions, worth * problem.discount
        total += worth * (row @ hmm.terminal_rewards)
        assert total == pytest.approx(veil.expected_return(problem, policy), abs=1e-9)  # pyright: ignore[reportArgumentType]


@in_blocks(20, 60, 20)
def test_random_problems(seed: int):
    case = random_case(seed)
    check(case.problem, case.policy, induced_hmm(case.problem, case.policy))


@looped("timed", [False, True])
@looped("sees_actions", [False, True])
@looped("on_actions", [False, True])
def test_every_kind_of_watcher(timed: bool, sees_actions: bool, on_actions: bool):
    rng = random.Random(1)
    spec = random_spec(rng, "last", work=3000, timed=timed, sees_actions=sees_actions, on_actions=on_actions)
    problem = to_problem(spec, rng)
    check(problem, to_policy(spec, problem), induced_hmm(problem, to_policy(spec, problem)))


@looped("memory", [veil.ObservationMemory(1), veil.ObservationMemory(2), veil.StateMemory(1), veil.Controller(2)])
def test_policies_that_remember(memory: object):
    problem = gallery.load("two-rooms")
    problem = veil.Problem(problem.model, problem.observer, problem.secret, 3, agent_sees="state+observations")
    rows = len(veil.MemoryPolicy.row_names(problem, memory))  # pyright: ignore[reportArgumentType]
    uniform = veil.MemoryPolicy.uniform(problem, memory)  # pyright: ignore[reportArgumentType]
    noise = np.random.default_rng(rows).normal(size=uniform.probabilities.shape)
    policy = veil.MemoryPolicy.softmax(noise, problem, memory)  # pyright: ignore[reportArgumentType]
    check(problem, policy, induced_hmm(problem, policy))


def test_what_hmmlearn_calls_them():
    problem = gallery.load("two-rooms")
    hmm = induced_hmm(problem, veil.MarkovPolicy.uniform(problem))
    arrays = hmm.hmmlearn()
    assert set(arrays) == {"startprob_", "transmat_", "emissionprob_"}
    assert np.array_equal(arrays["transmat_"], hmm.transitions.toarray())
    states, symbols = len(hmm.states), len(hmm.symbols)
    assert (arrays["startprob_"].shape, arrays["emissionprob_"].shape) == ((states,), (states, symbols))
    assert len(set(hmm.states)) == states


def test_two_million_states_are_allowed_and_half_a_gibibyte_of_dense_transitions():
    """One state for each time and one more; dense transitions of 8,192 states, which are zero and take no memory here."""
    model = veil.Model(np.ones((1, 1, 1)), np.zeros((1, 1)), 0)
    problem = veil.Problem(model, veil.Observer(np.ones((1, 1))), veil.LastState({0}), 2**21)
    with pytest.raises(TooLargeError, match="would have 2,097,153 states, expected at most 2,097,152"):
        induced_hmm(problem, veil.TimedPolicy(np.ones((2**21, 1, 1))))
    for states in (2**13, 2**13 + 1):
        nothing, one = sp.csr_array((states, states)), np.zeros((states, 1))
        hmm = InducedHMM(one[:, 0], nothing, one, one[:, 0], one[:, 0], (), (), one, (), 1)
        if states == 2**13:
            assert hmm.hmmlearn()["transmat_"].shape == (states, states)
            continue
        with pytest.raises(TooLargeError, match=r"dense transitions of 8,193 states would take 0\.5 GiB"):
            hmm.hmmlearn()
