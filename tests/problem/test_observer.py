"""Sparse emissions: the same observer as with dense ones, never made dense on the way to an exact value."""

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.engine.chains import small_cases
from tests.seeds import looped
from veil.problem.fingerprint import fingerprint


def as_sparse(observer: veil.Observer) -> veil.Observer:
    """The same observer, its emissions given as sparse matrices."""
    matrices = [sp.coo_array(matrix) for matrix in observer.matrices]
    given = matrices if observer.on_actions else matrices[0]
    return veil.Observer(given, sees_actions=observer.sees_actions, sees_initial=observer.sees_initial)


def test_sparse_and_dense_emissions_are_the_same_problem():
    for case in small_cases(30):
        problem = case.problem.replace(observer=as_sparse(case.problem.observer))
        assert fingerprint(problem) == fingerprint(case.problem)
        np.testing.assert_array_equal(problem.observer.emissions, case.problem.observer.emissions)
        assert veil.opacity(problem, case.policy) == veil.opacity(case.problem, case.policy)


def test_a_channel_and_muted_observations_keep_emissions_sparse():
    table = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    dense, sparse = veil.Observer(table, silent=0), veil.Observer(sp.csr_array(table), silent=0)
    noise = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    np.testing.assert_allclose(sparse.garbled(noise).emissions, table @ noise, rtol=1e-15)
    np.testing.assert_array_equal(sparse.without({1, 2}).emissions, dense.without({1, 2}).emissions)
    np.testing.assert_array_equal(sparse.without({1}).emissions, [[1.0, 0, 0], [0.25, 0, 0.75]])


@looped(
    ("emissions", "expected"),
    [
        (sp.csr_array([[0.5, 0.4], [0.0, 1.0]]), r"emission row \(state 's0'\) sums to 0.9, expected 1"),
        (sp.csr_array([[1.5, -0.5], [0.0, 1.0]]), r"emission \(state 's0', observation 'o1'\) is -0.5"),
        (sp.csr_array([[np.nan, 1.0], [0.0, 1.0]]), r"observation 'o0'\) is nan, expected a finite number"),
        (sp.csr_array(np.eye(3)), r"emissions has shape \(3, 3\), expected \(2, O\)"),
    ],
)
def test_what_is_wrong_with_sparse_emissions_is_named(emissions: sp.csr_array, expected: str):
    model = veil.Model(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), 0)
    with pytest.raises(veil.InputError, match=expected):
        veil.Problem(model, veil.Observer(emissions), veil.LastState({0}), 2)


@looped(
    "emissions",
    [
        sp.csr_array((0, 3)),
        [sp.csr_array(np.eye(2)), np.eye(2)],
        [sp.csr_array(np.eye(2)), sp.csr_array(np.eye(3))],
        sp.csr_array(np.eye(2) * 1j),
    ],
)
def test_sparse_emissions_of_a_wrong_form_are_refused(emissions):
    with pytest.raises(veil.InputError, match="emission matrix"):
        veil.Observer(emissions)


@pytest.mark.slow
def test_many_states_with_many_observations_are_never_made_dense():
    """A million states with a million symbols: eight terabytes as a dense table."""
    size = 10**6
    following = sp.csr_array((np.ones(size), ((np.arange(size) + 1) % size, np.arange(size))), shape=(size, size))
    model = veil.Model([following], np.zeros((size, 1)), {0: 0.5, 7: 0.5})
    problem = veil.Problem(model, veil.Observer(sp.eye_array(size, format="csr")), veil.InitialState(), 3)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem))
    assert (found.method, found.bits, found.num_sequences) == ("exact", 0.0, 2)
    with pytest.raises(veil.TooLargeError, match=r"observer\.matrices"):
        _ = problem.observer.emissions
