"""All possible sequences of a small chain with their joint table, and the passes along sequences behind one call."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.engine.chains import on_sparse_kernel
from veil.engine.backends.column_steps import ColumnSteps
from veil.engine.chain import Chain
from veil.engine.columns import ColumnPass
from veil.engine.device import DevicePass
from veil.engine.joint import JointWalk
from veil.engine.sequences import SequencePass

AnyPass = SequencePass | ColumnPass | DevicePass
PLENTY = 2**30


def joint_of(chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    """All possible event sequences `(k, T+1)` and their rows `P(z,y)`, by enumeration."""
    sequences, rows = [], []

    def objective(joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> None:
        possible = np.flatnonzero(joint.sum(axis=1) > 0)
        sequences.append(events(possible))
        rows.append(joint[possible])

    JointWalk(chain, keep_events=True).run(objective)
    return np.concatenate(sequences), np.concatenate(rows)


def any_sequences(chain: Chain, count: int, generator: np.random.Generator) -> np.ndarray:
    """Sequences of events drawn evenly, most of which may be impossible."""
    first = generator.integers(chain.hidden.root.shape[1], size=(count, 1))
    later = generator.integers(chain.hidden.num_events, size=(count, chain.hidden.horizon))
    return np.concatenate([first, later], axis=1)


def by_prefixes(chain: Chain, events: np.ndarray, memory_bytes: int = PLENTY) -> SequencePass:
    return SequencePass(chain, events, gradient=True, memory_bytes=memory_bytes)


def by_columns(chain: Chain, events: np.ndarray, memory_bytes: int = PLENTY) -> ColumnPass:
    return ColumnPass(on_sparse_kernel(chain), events, gradient=True, memory_bytes=memory_bytes)


def by_compiled_columns(chain: Chain, events: np.ndarray, memory_bytes: int = PLENTY) -> ColumnPass:
    """As `by_columns`, with compiled loops."""
    pytest.importorskip("numba")
    return compiled_pass(on_sparse_kernel(chain), events, memory_bytes)


def compiled_pass(chain: Chain, events: np.ndarray, memory_bytes: int = PLENTY) -> ColumnPass:
    """The pass with compiled loops over a sparse chain."""
    steps = ColumnSteps(chain.hidden, chain.table, is_compiled=True)
    return ColumnPass(chain, events, gradient=True, memory_bytes=memory_bytes, steps=steps)


def log_likelihoods(run: AnyPass) -> np.ndarray:
    """`log P(y)` of each sequence, in the order given."""
    return run.result.log_likelihood[run.result.index]


def posteriors(run: AnyPass) -> np.ndarray:
    """`P(z|y)` of each sequence, in the order given."""
    return run.result.posterior[run.result.index]


def pulled_back(run: AnyPass, slope: np.ndarray) -> np.ndarray:
    """The slope in the policy's table from that of each sequence, in the order given."""
    united = np.zeros_like(run.result.posterior)
    np.add.at(united, run.result.index, slope)
    return run.pull_back(united)


def assert_agree(found: AnyPass, expected: AnyPass, slope: np.ndarray) -> None:
    """Both passes say the same, to rounding, of values and of the slope `(k, Z)` pulled back."""
    assert not any(np.isnan(part).any() for part in (log_likelihoods(found), posteriors(found)))
    np.testing.assert_allclose(log_likelihoods(found), log_likelihoods(expected), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(posteriors(found), posteriors(expected), rtol=0, atol=1e-12)
    first, second = pulled_back(found, slope), pulled_back(expected, slope)
    np.testing.assert_allclose(first, second, rtol=1e-12, atol=1e-12 * (1 + np.abs(second).max(initial=0)))
