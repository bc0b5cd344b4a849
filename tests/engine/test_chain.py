"""The hidden chain under a policy: what it does in a step, and slopes back to the policy."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from tests.engine.chains import central_differences, chain_of, on_sparse_kernel, small_case, small_cases, with_table
from tests.oracle import evaluate
from tests.seeds import in_blocks
from veil.engine.chain import Chain, Slopes


def as_array(matrix: np.ndarray | sp.csr_array) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def occupied_by_paths(chain: Chain, time: int) -> np.ndarray:
    """`P(x_t)` by going through every path."""
    hidden = chain.hidden
    totals = np.zeros(hidden.num_states)
    for path in itertools.product(range(hidden.num_states), repeat=time + 1):
        chance = hidden.start[path[0]]
        for step, (here, there) in enumerate(itertools.pairwise(path)):
            chance *= sum(as_array(matrix)[here, there] for matrix in chain.matrices(step))
        totals[path[-1]] += chance
    return totals


@in_blocks(20, 40, 20)
def test_push_and_pull_are_adjoint_and_conserve_probability(seed: int):
    for chain in (chain_of(small_case(seed)), on_sparse_kernel(chain_of(small_case(seed)))):
        rng = np.random.default_rng(seed)
        size = chain.hidden.num_states
        row, column = rng.random((3, size)), rng.random((size, 2))
        for time in range(chain.hidden.horizon):
            np.testing.assert_allclose(chain.push(row, time) @ column, row @ chain.pull(column, time), rtol=1e-12)
            np.testing.assert_allclose(chain.push(row, time).sum(axis=1), row.sum(axis=1), rtol=1e-12)
            np.testing.assert_allclose(chain.pull(np.ones(size), time), 1, rtol=1e-12)


def test_occupancies_are_the_sums_over_paths():
    checked = 0
    for case in small_cases(40):
        chain = chain_of(case)
        if chain.hidden.num_states ** (case.spec.horizon + 1) > 2_000:
            continue
        checked += case.spec.horizon > 1
        assert chain.occupancies.shape == (case.spec.horizon + 1, chain.hidden.num_states)
        for time in range(case.spec.horizon + 1):
            np.testing.assert_allclose(chain.occupancies[time], occupied_by_paths(chain, time), atol=1e-14)
    assert checked >= 5


@in_blocks(20, 40, 20)
def test_the_prior_is_that_of_the_oracle(seed: int):
    case = small_case(seed)
    answer = evaluate(case.spec)
    rows = answer.weights.values()
    expected = [sum(row.get(z, 0) for row in rows) / answer.denominator for z in range(answer.num_values)]
    np.testing.assert_allclose(chain_of(case).prior, expected, atol=1e-13)


@in_blocks(20, 40, 20)
def test_a_forecast_of_the_label_agrees_with_the_prior_at_every_time(seed: int):
    chain = chain_of(small_case(seed, "last"))
    for time in range(chain.hidden.split_time + 1):
        label = chain.forecasts[time]
        np.testing.assert_allclose(chain.occupancies[time] @ label, chain.prior, atol=1e-13)
        np.testing.assert_allclose(label.sum(axis=1), 1, atol=1e-13)
    np.testing.assert_array_equal(chain.forecasts[chain.hidden.split_time], chain.hidden.label)


@pytest.mark.parametrize("sparse", [False, True])
@in_blocks(10, 40, 20)
def test_slopes_are_those_of_the_matrices_in_the_table(seed: int, sparse: bool):
    """`Σ_t Σ_c left_t K_t^c right_tc` is linear in the table: its slope is what central differences say."""
    chain = chain_of(small_case(seed, work=500))
    if sparse:
        chain = on_sparse_kernel(chain)
    rng = np.random.default_rng(seed)
    size, emitters = chain.hidden.num_states, len(chain.hidden.emitters)
    left = rng.normal(size=(chain.hidden.horizon, 2, size))
    right = rng.normal(size=(chain.hidden.horizon, emitters, 2, size))

    def value(table: np.ndarray) -> float:
        moved = with_table(chain, table)
        return float(sum(
            np.sum(left[time] @ as_array(matrix) * right[time, emitter])
            for time in range(chain.hidden.horizon)
            for emitter, matrix in enumerate(moved.matrices(time))
        ))  # fmt: skip

    slopes = Slopes(chain)
    for time in range(chain.hidden.horizon):
        for emitter in range(emitters):
            slopes.add(time, emitter, left[time], right[time, emitter])
    assert slopes.table().shape == chain.table.shape
    np.testing.assert_allclose(slopes.table(), central_differences(value, chain.table, 1e-3), atol=1e-10)
