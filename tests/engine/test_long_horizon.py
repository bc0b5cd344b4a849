"""Twenty thousand steps: against fifty-digit arithmetic, which needs no scaling."""

import decimal
from dataclasses import replace
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.engine.chains import on_sparse_kernel
from tests.engine.passes import log_likelihoods, posteriors
from veil.common.logs import entropy_bits
from veil.engine.chain import Chain, make_chain
from veil.engine.columns import ColumnPass
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass

HORIZON = 20_000
SPLITS = (0, HORIZON // 2, HORIZON - 3, HORIZON)
LITTLE = 2**18  # the messages alone take 480 kB


@cache
def long_chain() -> Chain:
    """Three states that stay where they are for long, so that the secret is neither clear nor lost."""
    model = veil.Model(
        [
            [[0.9, 0.07, 0.03], [0.6, 0.3, 0.1]],
            [[0.05, 0.9, 0.05], [0.2, 0.5, 0.3]],
            [[0.02, 0.08, 0.9], [0.3, 0.3, 0.4]],
        ],
        np.zeros((3, 2)),
        [0.5, 0.3, 0.2],
    )
    observer = veil.Observer([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.2, 0.2, 0.6]])
    problem = veil.Problem(model, observer, veil.InitialState(), HORIZON)
    return make_chain(problem, veil.MarkovPolicy([[0.8, 0.2], [0.6, 0.4], [0.7, 0.3]]))


def split_at(time: int) -> Chain:
    """The same chain with the whole state at a time as its secret."""
    chain = long_chain()
    return Chain(replace(chain.hidden, split_time=time, labels=sp.csr_array(np.eye(3))), chain.table, stationary=True)


@cache
def events() -> np.ndarray:
    return draw_events(long_chain(), 1, np.random.default_rng(11))


def digits(array: np.ndarray) -> list[list[Decimal]]:
    return [[Decimal(value) for value in row] for row in array.tolist()]


@cache
def reference(time: int) -> tuple[float, list[float], float]:
    """`ln P(y)`, `P(s_t | y)` and its entropy in bits, in Decimal on the very floats that the engine computes with."""
    with decimal.localcontext(prec=50):
        chain, sequence = long_chain(), events()[0].tolist()
        emission = digits(chain.hidden.emitters[0].emission)
        step = digits(np.asarray(chain.matrices(0)[0]))
        alpha = [Decimal(value) for value in chain.hidden.root[:, sequence[0]].tolist()]
        for event in sequence[1 : time + 1]:
            alpha = [sum(alpha[i] * step[i][j] for i in range(3)) * emission[j][event] for j in range(3)]
        beta = [Decimal(1)] * 3
        for event in reversed(sequence[time + 1 :]):
            ahead = [emission[j][event] * beta[j] for j in range(3)]
            beta = [sum(step[i][j] * ahead[j] for j in range(3)) for i in range(3)]
        joint = [a * b for a, b in zip(alpha, beta, strict=True)]
        total = sum(joint, Decimal(0))
        posterior = [value / total for value in joint]
        entropy = -sum(p * p.ln() for p in posterior if p) / Decimal(2).ln()
        return float(total.ln()), [float(p) for p in posterior], float(entropy)


@pytest.mark.parametrize("time", [time if time == HORIZON // 2 else pytest.param(time, marks=pytest.mark.slow)
                                  for time in SPLITS])  # fmt: skip
def test_likelihood_and_entropy_against_fifty_digits(time: int):
    likelihood, posterior, entropy = reference(time)
    assert likelihood < -10_000  # e^-10000 is far below the smallest float
    run = SequencePass(split_at(time), events(), gradient=False, memory_bytes=LITTLE)
    assert log_likelihoods(run)[0] == pytest.approx(likelihood, rel=1e-10)
    np.testing.assert_allclose(posteriors(run)[0], posterior, rtol=0, atol=1e-10)
    assert float(entropy_bits(posteriors(run))[0]) == pytest.approx(entropy, abs=1e-9)
    assert entropy > 0.1


def test_columns_against_fifty_digits():
    time = HORIZON // 2
    likelihood, posterior, entropy = reference(time)
    run = ColumnPass(on_sparse_kernel(split_at(time)), events(), gradient=False, memory_bytes=LITTLE)
    assert log_likelihoods(run)[0] == pytest.approx(likelihood, rel=1e-10)
    np.testing.assert_allclose(posteriors(run)[0], posterior, rtol=0, atol=1e-10)
    assert float(entropy_bits(posteriors(run))[0]) == pytest.approx(entropy, abs=1e-9)


def test_the_reference_agrees_with_itself_wherever_it_is_split():
    assert len({round(reference(time)[0], 9) for time in (0, HORIZON // 2, HORIZON)}) == 1


def device_slope(chain: Chain, slope: np.ndarray) -> np.ndarray:
    pytest.importorskip("jax")
    from veil.engine.device import DevicePass

    run = DevicePass(chain, events())
    likelihood, posterior, _ = reference(chain.hidden.split_time)
    assert log_likelihoods(run)[0] == pytest.approx(likelihood, rel=1e-10)
    np.testing.assert_allclose(posteriors(run)[0], posterior, rtol=0, atol=1e-10)
    return run.pull_back(slope)


@pytest.mark.slow
@pytest.mark.parametrize("time", [0, HORIZON // 2, HORIZON])
def test_the_slope_with_checkpoints_is_finite_and_that_of_the_device_without(time: int):
    slope = np.array([[1.0, -2.0, 0.5]])
    chain = split_at(time)
    run = ColumnPass(on_sparse_kernel(chain), events(), gradient=True, memory_bytes=LITTLE)
    found = run.pull_back(slope)
    assert np.isfinite(found).all()
    assert np.abs(found).max() > 100  # the likelihood alone has a slope that grows with the horizon
    np.testing.assert_allclose(found, device_slope(chain, slope), rtol=1e-10)


@pytest.mark.slow
def test_the_sampled_opacity_of_a_long_run_and_its_gradient():
    chain = long_chain()
    problem = veil.Problem(
        veil.Model(np.stack(chain.hidden.kernel.array, axis=1), np.zeros((3, 2)), chain.hidden.start),  # type: ignore[attr-defined]
        veil.Observer(chain.hidden.emitters[0].emission),
        veil.InitialState(),
        HORIZON,
    )
    short = veil.opacity(problem.replace(horizon=8), veil.MarkovPolicy(chain.table[0]), "exact")
    found, gradient = veil.opacity_gradient(problem, np.log(chain.table[0]), "sampled", sequences=20)
    assert np.isfinite(gradient).all()
    assert found.bits <= short.bits + 5 * found.std_error
