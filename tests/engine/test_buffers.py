"""Arrays that passes take and give back: contents never shared, memory bounded."""

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from veil.engine import buffers
from veil.engine.buffers import Buffers
from veil.engine.chain import make_chain
from veil.engine.columns import ColumnPass
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass


def test_an_array_given_back_is_taken_again():
    store = Buffers()
    first = store.take(3, 4)
    address = first.ctypes.data
    store.give(first)
    assert store.take(2, 4).ctypes.data == address
    assert store.take(2, 4).ctypes.data != address  # it is in use now


def test_an_array_much_too_large_is_left_for_others():
    store = Buffers()
    store.give(np.empty((100, 4)))
    found = store.take(3, 4)
    assert found.base is not None
    assert found.base.size == 12


def test_no_more_than_the_limit_is_kept(monkeypatch):
    monkeypatch.setattr(buffers, "_MOST_KEPT", 10)
    store = Buffers()
    store.give(np.empty(8), np.empty(8), None)
    assert [len(flat) for flat in store._free] == [8]


@pytest.mark.parametrize("name", ["paper-last-state", "paper-initial-state", "badge-doors"])
def test_passes_over_used_buffers_give_the_same_numbers(name):
    problem = veil.gallery.load(name)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    events = draw_events(chain, 150, np.random.default_rng(0))
    sparse = on_sparse_kernel(chain)
    slope = np.random.default_rng(1).normal(size=(150, chain.hidden.label.shape[1]))
    found = [_pass(sparse, events, slope) for _ in range(3)]
    for posterior, gradient in found[1:]:
        np.testing.assert_array_equal(posterior, found[0][0])
        np.testing.assert_array_equal(gradient, found[0][1])
    dense = SequencePass(chain, events, gradient=False, memory_bytes=2**30).result
    np.testing.assert_allclose(found[0][0], dense.posterior[dense.index], atol=1e-12)


def _pass(chain, events, slope):
    run = ColumnPass(chain, events, gradient=True, memory_bytes=2**30)
    return run.result.posterior, run.pull_back(slope)


def test_what_is_kept_is_counted():
    """After any order of taking and giving back the count is that of the numbers in the free arrays."""
    store, taken, rng = Buffers(), [], np.random.default_rng(0)
    for _ in range(200):
        if taken and rng.random() < 0.5:
            store.give(taken.pop(int(rng.integers(len(taken)))))
        else:
            taken.append(store.take(int(rng.integers(1, 9)), int(rng.integers(1, 9))))
        assert store._kept == sum(flat.size for flat in store._free) >= 0
    assert store._free
