"""Results kept on their owner, and hashes by content: what many problems of one shape need."""

import gc
import weakref
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

import veil
from veil.common.memo import memo


@dataclass(frozen=True, eq=False)
class Owner:
    number: int = 0


def test_a_result_is_freed_with_its_owner():
    class Result:
        pass

    owner = Owner()
    kept = weakref.ref(memo(owner, "key", Result))
    gc.collect()
    assert kept() is not None
    del owner
    gc.collect()
    assert kept() is None


def random_problem(rng: np.random.Generator) -> veil.Problem:
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 2)), np.zeros((3, 2)), [1, 0, 0])
    return veil.Problem(model, veil.Observer(rng.dirichlet(np.ones(2), size=3)), veil.LastState({1}), 2)


def test_problems_of_one_shape_have_different_hashes():
    rng = np.random.default_rng(0)
    problems = [random_problem(rng) for _ in range(100)]
    assert len({hash(one) for one in problems}) == 100
    assert hash(problems[0].replace(name="problem")) == hash(problems[0])
    assert problems[0].replace(name="problem") == problems[0]


def test_what_is_equal_has_one_hash():
    """Whatever type the numbers had, signed zeros, and sparse matrices with zeros and duplicates or without."""
    dense = np.array([[[0.5, 0.5]], [[0.0, 1.0]]])
    untidy = sp.csr_array((np.array([0.25, 0.25, 0.5, -0.0, 1.0]), np.array([1, 1, 0, 0, 1]), np.array([0, 3, 5])))
    models = [
        veil.Model(dense, [[0], [1]], [1, 0]),
        veil.Model(dense, [[-0.0], [1.0]], {"s0": 1.0}),
        veil.Model([untidy], np.array([[False], [True]]), 0, state_names=["s0", "s1"]),
    ]
    for one in models:
        assert one == models[0]
        assert hash(one) == hash(models[0])
    assert len(set(models)) == 1
    names = tuple(f"s{number}" for number in range(100))
    stay = sp.eye_array(100, format="csr")
    assert hash(veil.Model([stay], np.zeros(100), 0)) == hash(veil.Model([stay], np.zeros(100), 0, state_names=names))
