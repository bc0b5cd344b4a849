"""Places of the states of a graph: near where few steps lie between, apart enough to read, always the same."""

import numpy as np
import scipy.sparse as sp

from veil.report.placing import place


def ring(size: int) -> sp.csr_array:
    here = np.arange(size)
    return sp.csr_array((np.ones(size), (here, (here + 1) % size)), shape=(size, size))


def gaps(places: np.ndarray) -> np.ndarray:
    return np.linalg.norm(places[:, None] - places[None], axis=2)


def test_no_two_states_meet():
    star = sp.csr_array((np.ones(30), (np.zeros(30, dtype=int), np.arange(1, 31))), shape=(31, 31))
    for graph in (
        star,
        sp.csr_array(np.ones((12, 12))),
        sp.csr_array((9, 9)),
        sp.csr_array(np.kron(np.eye(3), np.ones((4, 4)))),
    ):
        places = place(graph)
        apart = gaps(places)[~np.eye(len(places), dtype=bool)]
        assert np.isfinite(places).all()
        assert apart.min() > 0.5
        assert places.min() == 0


def test_one_state_and_the_same_places_again():
    assert place(sp.csr_array((1, 1))).tolist() == [[0.0, 0.0]]
    assert np.array_equal(place(ring(9)), place(ring(9)))
