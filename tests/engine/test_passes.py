"""Passes along given sequences: every one equals the joint table, a filter for each sequence, and the plain pass."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.engine.chains import chain_of, mixing_chain, on_sparse_kernel, small_cases, total_and_slope
from tests.engine.messages import forward
from tests.engine.passes import (
    PLENTY,
    AnyPass,
    any_sequences,
    assert_agree,
    by_columns,
    by_compiled_columns,
    by_prefixes,
    joint_of,
    log_likelihoods,
    posteriors,
    pulled_back,
)
from tests.random_problems import KINDS
from tests.seeds import looped
from veil.common.logs import surprisal_bits
from veil.engine.chain import Chain, make_chain
from veil.engine.columns import ColumnPass
from veil.engine.joint import JointWalk
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass

PASSES: dict[str, Callable[[Chain, np.ndarray], AnyPass]] = {
    "prefixes": by_prefixes,
    "prefixes on sparse transitions": lambda chain, events: by_prefixes(on_sparse_kernel(chain), events),
    "columns": by_columns,
    "columns, compiled": by_compiled_columns,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PASSES)
def test_every_pass_is_the_joint_table_with_the_exact_gradient(name: str, kind: str):
    horizons, impossible, rng = set(), 0, np.random.default_rng(0)
    for number, case in enumerate(small_cases(7, kind)):
        chain = chain_of(case)
        events, joint = joint_of(chain)
        likelihood = joint.sum(axis=1)
        run = PASSES[name](chain, events)
        np.testing.assert_allclose(np.exp(log_likelihoods(run)), likelihood, rtol=1e-12, err_msg=str(number))
        np.testing.assert_allclose(posteriors(run), joint / likelihood[:, None], rtol=0, atol=1e-12)
        # An action never taken has a slope from one side only, which the two need not share: weigh it with its chance.
        found = chain.table * pulled_back(run, likelihood[:, None] * surprisal_bits(joint))
        expected = chain.table * total_and_slope(JointWalk(chain))[1]
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12, err_msg=str(number))
        drawn = any_sequences(chain, 20, rng)
        run = PASSES[name](chain, drawn)
        alone = np.array([forward(chain, row)[1] for row in drawn.tolist()])
        np.testing.assert_allclose(log_likelihoods(run), alone, rtol=1e-12, atol=1e-12)
        gone = np.isneginf(alone)
        assert (posteriors(run)[gone] == 0).all()
        slope = rng.normal(size=posteriors(run).shape)
        assert_agree(run, by_prefixes(chain, drawn), slope)
        again = PASSES[name](chain, drawn)  # a pass is carried back once
        assert not pulled_back(again, np.where(gone[:, None], slope, 0.0)).any()
        horizons.add(min(case.spec.horizon, 2))
        impossible += int(gone.sum())
    assert impossible > 5
    assert len(horizons) > 1


@looped("timed", [False, True])
@looped("split", [0, 17, 40])
@pytest.mark.parametrize("make", [by_prefixes, by_columns, by_compiled_columns])
def test_little_memory_changes_no_bit(make: Callable[..., AnyPass], split: int, timed: bool):
    chain = mixing_chain(40, split, timed=timed)
    events = any_sequences(chain, 50, np.random.default_rng(1))
    slope = np.random.default_rng(2).normal(size=(50, 2))
    full, tight = make(chain, events), make(chain, events, memory_bytes=1)
    np.testing.assert_array_equal(log_likelihoods(tight), log_likelihoods(full))
    np.testing.assert_array_equal(pulled_back(tight, slope), pulled_back(full, slope))
    assert_agree(make(chain, events), by_prefixes(chain, events), slope)


@pytest.mark.parametrize("name", PASSES)
def test_neither_order_nor_repetition_of_sequences_matters(name: str):
    chain = mixing_chain(8, 5)
    events = any_sequences(chain, 40, np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(40), 3))
    once, often = PASSES[name](chain, events), PASSES[name](chain, events[order])
    np.testing.assert_allclose(log_likelihoods(often), log_likelihoods(once)[order], rtol=1e-13)
    assert often.result.count.sum() == 120
    slope = np.random.default_rng(2).normal(size=(120, 2))
    united = np.zeros((40, 2))
    np.add.at(united, order, slope)
    np.testing.assert_allclose(pulled_back(often, slope), pulled_back(once, united), rtol=1e-11)


@pytest.mark.parametrize("make", [by_prefixes, by_columns, by_compiled_columns])
def test_a_long_sequence_neither_underflows_nor_overflows(make: Callable[..., AnyPass]):
    chain = mixing_chain(3_000, 1_500)
    events = any_sequences(chain, 3, np.random.default_rng(0))
    run = make(chain, events, memory_bytes=2**16)
    expected = [forward(chain, row)[1] for row in events.tolist()]
    np.testing.assert_allclose(log_likelihoods(run), expected, rtol=1e-12)
    assert max(expected) < -1_000  # far below the smallest float
    assert np.isfinite(pulled_back(run, np.ones((3, 2)))).all()


def corridor(size: int, starts: list[int], split: int, *, timed: bool) -> Chain:
    """A long corridor, on which few states can be reached at each time from a few starts."""
    here = np.arange(size)
    ahead = sp.csr_array((np.ones(size), (here, np.minimum(here + 1, size - 1))), shape=(size, size))
    back = sp.csr_array((np.ones(size), (here, np.maximum(here - 1, 0))), shape=(size, size))
    moves = [sp.csr_array(0.75 * ahead + 0.25 * back), sp.csr_array(0.125 * ahead + 0.875 * back)]
    start = np.zeros(size)
    start[starts] = 1 / len(starts)
    emissions = np.random.default_rng(0).dirichlet(np.ones(3), size=size)
    secret = veil.StateAt(split, set(range(0, size, 3)))
    model = veil.Model(moves, np.zeros((size, 2)), start, discount=0.9)
    problem = veil.Problem(model, veil.Observer(emissions), secret, 6, return_over="infinite")
    return make_chain(problem, (veil.TimedPolicy if timed else veil.MarkovPolicy).uniform(problem))


@looped("timed", [False, True])
@looped("split", [0, 3, 6])
def test_columns_over_the_states_of_each_time_agree_with_all_states(split: int, timed: bool):
    chain = corridor(200, [40, 120], split, timed=timed)
    assert chain.hidden.kernel.is_sparse
    events = draw_events(chain, 100, np.random.default_rng(1))
    slope = np.random.default_rng(2).normal(size=(100, 2))
    for _ in range(2):  # the second time with arrays that were used before
        run = ColumnPass(chain, events, gradient=True, memory_bytes=PLENTY)
        assert_agree(run, SequencePass(chain, events, gradient=True, memory_bytes=PLENTY), slope)


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch):
    """Enough states and sequences for several lanes, each of which a thread may take."""
    chain = corridor(1_100, list(range(1_100)), 3, timed=False)
    events = draw_events(chain, 256, np.random.default_rng(1))
    slope = np.random.default_rng(2).normal(size=(256, 2))
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        run = ColumnPass(chain, events, gradient=True, memory_bytes=PLENTY)
        found.append((log_likelihoods(run), posteriors(run), pulled_back(run, slope)))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    plain = SequencePass(chain, events, gradient=True, memory_bytes=PLENTY)
    np.testing.assert_allclose(found[0][2], pulled_back(plain, slope), atol=1e-10)


# JAX, on the processor


def shaped_chain(shape: tuple[int, int, int, int, int], *, timed: bool, sees: bool = False) -> Chain:
    """States, actions, observations, horizon, the secret's time; some zeros. `sees`: actions, and nothing at time 0."""
    states, actions, observations, horizon, time = shape
    rng = np.random.default_rng(shape)

    def rows(*sizes: int) -> np.ndarray:
        kept = rng.random(sizes) < 0.7
        kept[..., 0] |= ~kept.any(axis=-1)
        found = rng.uniform(0.1, 1.0, sizes) * kept
        return found / found.sum(axis=-1, keepdims=True)

    model = veil.Model(rows(states, actions, states), rng.normal(size=(states, actions)), rows(states))
    observer = veil.Observer(rows(states, observations), sees_actions=sees, sees_initial=not sees)
    problem = veil.Problem(model, observer, veil.StateAt(time, {0}), horizon)
    table = rows(horizon, states, actions) if timed else rows(states, actions)
    return make_chain(problem, veil.TimedPolicy(table) if timed else veil.MarkovPolicy(table))


def blind_chain(*, timed: bool) -> Chain:
    """Two models that share the rows of one table, because the agent does not know which of them runs."""
    rng = np.random.default_rng(5)
    models = [veil.Model(rng.dirichlet(np.ones(2), size=(2, 3)), np.zeros((2, 3)), 0) for _ in range(2)]
    problem = veil.Problem(models, veil.Observer(rng.dirichlet(np.ones(2), size=2)), veil.WhichModel(), 3)
    table = rng.dirichlet(np.ones(3), size=(3, 2))
    return make_chain(problem, veil.TimedPolicy(table) if timed else veil.MarkovPolicy(table[0]))


CHAINS: dict[str, Callable[[], Chain]] = {
    "in the middle, actions seen": lambda: shaped_chain((3, 2, 2, 4, 2), timed=True, sees=True),
    "at the end, sparse": lambda: on_sparse_kernel(shaped_chain((4, 2, 2, 3, 3), timed=False)),
}
MORE: dict[str, Callable[[], Chain]] = {
    "one model or the other, sparse": lambda: on_sparse_kernel(blind_chain(timed=True)),
    "no decision": lambda: shaped_chain((3, 2, 2, 0, 0), timed=False),
    "one of everything": lambda: shaped_chain((1, 1, 1, 0, 0), timed=False),
    "one step": lambda: shaped_chain((2, 1, 3, 1, 1), timed=True),
    "one state, sparse": lambda: on_sparse_kernel(shaped_chain((1, 3, 2, 3, 1), timed=False)),
    "one observation": lambda: shaped_chain((4, 2, 1, 2, 0), timed=True, sees=True),
    "at the start": lambda: shaped_chain((3, 2, 2, 5, 0), timed=False),
    "actions seen, sparse": lambda: on_sparse_kernel(shaped_chain((4, 3, 3, 6, 2), timed=False, sees=True)),
    "one model or the other": lambda: blind_chain(timed=False),
}


@pytest.mark.parametrize("name", [*CHAINS, *(pytest.param(one, marks=pytest.mark.slow) for one in MORE)])
def test_the_pass_in_jax_is_the_plain_one(name: str):
    """On possible and impossible sequences alike, filled up to a larger number; all numbers are float64."""
    pytest.importorskip("jax")
    from veil.engine.device import DevicePass

    chain = (CHAINS | MORE)[name]()
    events = np.concatenate([joint_of(chain)[0][:6], any_sequences(chain, 4, np.random.default_rng(0))])
    run = DevicePass(chain, events, pad_to=len(events) + 3)
    assert (len(run.result.log_likelihood), run.result.posterior.dtype) == (len(events), np.float64)
    slope = np.random.default_rng(1).normal(size=(len(events), chain.hidden.num_values))
    assert run.pull_back(slope).shape == chain.table.shape
    assert_agree(run, by_prefixes(chain, events), slope)


@pytest.mark.parametrize("sparse", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("every", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_few_messages_kept_in_jax_give_the_same_gradient(every: int, sparse: bool):
    pytest.importorskip("jax")
    from veil.engine import device_steps

    chain = shaped_chain((3, 2, 2, 7, 4), timed=sparse)
    events = any_sequences(chain, 10, np.random.default_rng(0))
    plain = by_prefixes(chain, events)
    slope = np.random.default_rng(1).normal(size=(10, 2))
    fixed = device_steps.place((on_sparse_kernel(chain) if sparse else chain).hidden)
    span = device_steps.Span(chain.hidden.split_time, chain.hidden.horizon, every)
    posterior, logs, kept = device_steps.jit_forward(fixed, chain.table, events.T, span)
    np.testing.assert_allclose(logs, log_likelihoods(plain), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.asarray(posterior).T, posteriors(plain), rtol=0, atol=1e-12)
    found = device_steps.jit_backward(fixed, chain.table, kept, events.T, span, slope.T)
    np.testing.assert_allclose(found, pulled_back(plain, slope), rtol=1e-10, atol=1e-10)
