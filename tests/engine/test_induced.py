"""The hidden Markov model that a policy makes: its names, and its size."""

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from veil.common.errors import TooLargeError
from veil.engine.induced import InducedHMM, induced_hmm
from veil.formats import gallery


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
