"""The pass in JAX: the same numbers as the CPU's, whatever the device, and few compilations."""

from types import SimpleNamespace

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_case, small_cases, total_and_slope
from tests.engine.messages import forward
from tests.engine.passes import (
    any_sequences,
    assert_agree,
    by_device,
    by_prefixes,
    by_sparse_device,
    joint_of,
    log_likelihoods,
    posteriors,
    pulled_back,
)
from tests.engine.test_device_steps import on_numpy, sequences_of, shaped_chain
from tests.engine.test_sequences import mixing_chain
from tests.marks import chequered
from tests.random_problems import KINDS
from veil.common.logs import surprisal_bits
from veil.engine import device
from veil.engine.chain import Chain, make_chain
from veil.engine.device import DevicePass, accelerator, on_accelerator
from veil.engine.joint import JointWalk
from veil.measure import sampled

jax = pytest.importorskip("jax")


class Compilations:
    """Counts what XLA compiles while it is open."""

    def __init__(self):
        self.count = 0

    def _note(self, event: str, *_: float, **__: str) -> None:
        self.count += event == "/jax/core/compile/backend_compile_duration"

    def __enter__(self) -> "Compilations":
        jax.monitoring.register_event_duration_secs_listener(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        jax.monitoring.unregister_event_duration_listener(self._note)


@pytest.mark.parametrize(("kind", "timed"), chequered(KINDS, [False, True]))
def test_the_device_agrees_with_the_cpu(kind: str, timed: bool):
    """On possible and impossible sequences alike, for both layouts of the transitions."""
    rng = np.random.default_rng(0)
    case = next(case for case in small_cases(12, kind, timed=timed) if case.spec.horizon > 1 < case.spec.num_states)
    chain = chain_of(case)
    events = np.concatenate([joint_of(chain)[0][:20], any_sequences(chain, 20, rng)])
    slope = rng.normal(size=(len(events), chain.hidden.label.shape[1]))
    for run in (by_device(chain, events), by_sparse_device(chain, events)):
        assert_agree(run, by_prefixes(chain, events), slope)


@pytest.mark.parametrize(("sees_actions", "on_actions"), chequered([False, True], [False, True]))
def test_the_device_agrees_for_every_kind_of_observer(sees_actions: bool, on_actions: bool):
    rng = np.random.default_rng(0)
    case = next(
        case
        for case in small_cases(20, sees_actions=sees_actions, on_actions=on_actions)
        if case.spec.horizon > 2 and case.spec.num_actions > 1
    )
    chain = chain_of(case)
    events = np.concatenate([joint_of(chain)[0][:20], any_sequences(chain, 20, rng)])
    slope = rng.normal(size=(len(events), chain.hidden.label.shape[1]))
    for run in (by_device(chain, events), by_sparse_device(chain, events)):
        assert_agree(run, by_prefixes(chain, events), slope)


@pytest.mark.parametrize("kind", ["last", "at", "initial"])
def test_the_device_agrees_with_the_joint_table_and_the_exact_slope(kind: str):
    case = next(case for case in small_cases(20, kind) if case.spec.horizon > 2)
    chain = chain_of(case)
    events, joint = joint_of(chain)
    run = by_device(chain, events)
    likelihood = joint.sum(axis=1)
    np.testing.assert_allclose(np.exp(log_likelihoods(run)), likelihood, rtol=1e-12)
    np.testing.assert_allclose(log_likelihoods(run), [forward(chain, row)[1] for row in events.tolist()], rtol=1e-12)
    np.testing.assert_allclose(posteriors(run), joint / likelihood[:, None], rtol=0, atol=1e-12)
    found = chain.table * pulled_back(run, likelihood[:, None] * surprisal_bits(joint))
    expected = chain.table * total_and_slope(JointWalk(chain))[1]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    assert np.abs(expected).max() > 1e-3


def test_everything_is_float64():
    chain = mixing_chain(5, 3)
    run = by_device(chain, any_sequences(chain, 4, np.random.default_rng(0)))
    assert {part.dtype for part in jax.tree.leaves(run._kept)} == {np.dtype(np.float64)}
    assert run.result.posterior.dtype == run.pull_back(np.ones((4, 2))).dtype == np.float64


def test_impossible_sequences_give_nothing_and_no_nan():
    problem = veil.gallery.load("two-rooms")
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    events = np.array([[1, 0], [1, 1], [0, 0], [0, 1]])  # the first beep is impossible
    for run in (by_device(chain, events), by_sparse_device(chain, events)):
        assert np.isneginf(log_likelihoods(run)[:2]).all()
        assert (posteriors(run)[:2] == 0).all()
        np.testing.assert_allclose(np.exp(log_likelihoods(run)[2:]), [5 / 8, 3 / 8], rtol=1e-14)
        slope = np.array([[1.0, -2.0], [3.0, 4.0], [0.0, 0.0], [0.0, 0.0]])
        assert not pulled_back(run, slope).any()


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize("horizon", [0, 1])
def test_no_decision_and_one(horizon: int, timed: bool):
    case = next(
        case
        for case in (small_case(seed, "last", work=500, timed=timed) for seed in range(200))
        if case.spec.horizon == horizon and case.spec.num_states > 2
    )
    chain = chain_of(case)
    events, joint = joint_of(chain)
    for run in (by_device(chain, events), by_sparse_device(chain, events)):
        np.testing.assert_allclose(np.exp(log_likelihoods(run))[:, None] * posteriors(run), joint, atol=1e-15)
        slope = run.pull_back(np.ones_like(joint))
        assert slope.shape == chain.table.shape
        np.testing.assert_allclose(slope, pulled_back(by_prefixes(chain, events), np.ones_like(joint)), atol=1e-12)


def test_filling_up_changes_nothing():
    chain = mixing_chain(9, 4)
    events = any_sequences(chain, 13, np.random.default_rng(0))
    slope = np.random.default_rng(1).normal(size=(13, 2))
    plain = DevicePass(chain, events)
    for size in (0, 13, 32):
        filled = DevicePass(chain, events, pad_to=size)
        assert len(filled.result.log_likelihood) == len(filled.result.count) == 13
        assert_agree(filled, plain, slope)


def test_a_smaller_last_chunk_compiles_nothing():
    chain = mixing_chain(11, 4)
    events = any_sequences(chain, 32, np.random.default_rng(0))
    DevicePass(chain, events, pad_to=32).pull_back(np.ones((32, 2)))
    with Compilations() as compiled:
        DevicePass(chain, events[:5], pad_to=32).pull_back(np.ones((5, 2)))
    assert compiled.count == 0


# Compilations


def test_the_counter_counts():
    with Compilations() as compiled:
        jax.jit(lambda x: x * 3.25 + compiled.count)(np.arange(7.0)).block_until_ready()
    assert compiled.count >= 1


@pytest.mark.parametrize("iterations", [200, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
def test_many_iterations_compile_at_most_two_programs(timed: bool, layout: str, iterations: int):
    """Policies and sequences change, shapes do not. The shape is used by no other test."""
    chain, size = mixing_chain(7, 3, timed=timed), 17 + iterations // 100
    chain = chain if layout == "dense" else on_sparse_kernel(chain)
    rng = np.random.default_rng(0)
    slopes = []
    with Compilations() as compiled:
        for _ in range(iterations):
            table = rng.dirichlet(np.ones(2), size=chain.table.shape[:2])
            run = DevicePass(
                Chain(chain.hidden, table, stationary=chain.stationary), any_sequences(chain, 17, rng), pad_to=size
            )
            slopes.append(run.pull_back(-np.log2(run.result.posterior)))
    assert 1 <= compiled.count <= 2
    assert np.isfinite(slopes).all()
    assert np.ptp(slopes, axis=0).min() > 0


# The choice of the pass


def test_without_an_accelerator_the_cpu_serves():
    if accelerator() is not None:
        pytest.skip("there is an accelerator here")
    assert not on_accelerator(mixing_chain(3, 1))


def test_with_an_accelerator_the_whole_estimate_is_the_same(monkeypatch: pytest.MonkeyPatch):
    """JAX's CPU device stands in for one: values, errors and slopes agree with those without it."""
    problem = veil.gallery.load("paper-last-state")
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    expected, slope = sampled.sampled_gradient(chain, sequences=300, seed=3)
    monkeypatch.setattr(device, "accelerator", lambda: "a stand-in")
    assert on_accelerator(chain)
    run = sampled.sequence_pass(chain, np.zeros((2, 11), dtype=int), gradient=True, memory_bytes=2**30)
    assert isinstance(run, DevicePass)
    found, other = sampled.sampled_gradient(chain, sequences=300, seed=3)
    assert found.bits == pytest.approx(expected.bits, abs=1e-10)
    assert found.std_error == pytest.approx(expected.std_error, abs=1e-10)
    np.testing.assert_allclose(other, slope, rtol=0, atol=1e-10)


def test_a_sparse_chain_with_one_crowded_state_stays_on_the_cpu(monkeypatch: pytest.MonkeyPatch):
    """Lists of neighbours are padded to the longest: a hub would make them mostly padding."""
    size = 40
    ring = np.zeros((size, 1, size))
    ring[np.arange(size), 0, (np.arange(size) + 1) % size] = 1.0
    hub = ring.copy()
    hub[:, 0] *= 0.5
    hub[:, 0, 0] += 0.5
    monkeypatch.setattr(device, "accelerator", lambda: "a stand-in")
    wanted = []
    for transitions in (ring, hub):
        model = veil.Model(transitions, np.zeros((size, 1)), 0)
        problem = veil.Problem(model, veil.Observer(np.eye(2)[np.arange(size) % 2]), veil.LastState({0}), 3)
        wanted.append(on_accelerator(on_sparse_kernel(make_chain(problem, veil.MarkovPolicy.uniform(problem)))))
    assert wanted == [True, False]


def test_a_state_with_many_successors_pads_the_lists_as_one_with_many_predecessors_does():
    """40 states in a ring, one of which leads everywhere: lists of 40 for each state, of 79 transitions in all."""
    size = 40
    ring = np.zeros((size, 1, size))
    ring[np.arange(size), 0, (np.arange(size) + 1) % size] = 1.0
    fan = ring.copy()
    fan[0, 0] = 1 / size
    short = []
    for transitions in (ring, fan):
        model = veil.Model(transitions, np.zeros((size, 1)), 0)
        problem = veil.Problem(model, veil.Observer(np.ones((size, 1))), veil.LastState({0}), 2)
        chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
        assert device.is_padded_short(chain.hidden)  # dense
        short.append(device.is_padded_short(on_sparse_kernel(chain).hidden))
    assert short == [True, False]


@pytest.mark.parametrize(("installed", "kinds", "name"), [
    ((), ("gpu",), None), (("jax_plugins",), ("gpu",), None), (("jax",), ("gpu",), None),
    (("jax", "jax_plugins"), ("cpu",), None), (("jax", "jax_plugins"), ("gpu", "cpu"), "card 0"),
    (("jax", "jax_plugins"), ("cpu", "gpu"), None),
])  # fmt: skip
def test_an_accelerator_is_the_first_device_where_a_plugin_is_installed(
    installed: tuple[str, ...], kinds: tuple[str, ...], name: str | None, monkeypatch: pytest.MonkeyPatch
):
    """JAX is not asked without a plugin: that alone takes seconds."""
    cards = [SimpleNamespace(platform=kind, device_kind=f"card {number}") for number, kind in enumerate(kinds)]
    asked = []

    def devices() -> list[SimpleNamespace]:
        asked.append(1)
        return cards

    monkeypatch.setattr(
        device.importlib.util, "find_spec", lambda module: SimpleNamespace() if module in installed else None
    )
    monkeypatch.setattr(jax, "devices", devices)
    assert accelerator.__wrapped__() == name
    assert bool(asked) == (len(installed) == 2)


@pytest.mark.parametrize("horizon", [3, 10])
def test_little_memory_of_the_device_changes_nothing(horizon: int, monkeypatch: pytest.MonkeyPatch):
    """One message of √T is kept, two at least, where all of them do not fit."""
    on_numpy(monkeypatch)
    chain = shaped_chain((3, 2, 2, horizon, 2), timed=False)
    events = sequences_of(chain)
    expected = by_prefixes(chain, events)
    slope = np.random.default_rng(1).normal(size=(len(events), chain.hidden.num_values))
    needed = 8 * 3 * len(events) * (horizon + 8)
    spans = []
    for memory in (needed, needed - 1):
        monkeypatch.setattr(device, "device_memory", lambda memory=memory: memory)
        run = device.DevicePass(chain, events)
        spans.append(run._span.every)
        np.testing.assert_allclose(posteriors(run), posteriors(expected), rtol=0, atol=1e-12)
        again = pulled_back(by_prefixes(chain, events), slope)
        np.testing.assert_allclose(pulled_back(run, slope), again, rtol=1e-10, atol=1e-10)
    assert spans == [0, 2 if horizon == 3 else 3]


@pytest.mark.parametrize("timed", [False, True])
def test_no_decision_and_sequences_that_are_filled_up(timed: bool, monkeypatch: pytest.MonkeyPatch):
    """Seven sequences filled up to nine, of a chain without decisions and of one with two."""
    on_numpy(monkeypatch)
    for horizon in (0, 2):
        chain = shaped_chain((3, 2, 2, horizon, 0), timed=timed)
        events = sequences_of(chain)[:7]
        run, expected = DevicePass(chain, events, pad_to=9), by_prefixes(chain, events)
        assert run._events.shape == (horizon + 1, max(9, len(events)))
        assert run.result.index.tolist() == list(range(len(events)))
        slope = np.random.default_rng(1).normal(size=(len(events), chain.hidden.num_values))
        assert_agree(run, expected, slope)
        assert run.pull_back(slope).shape == chain.table.shape


def test_half_of_the_memory_of_the_device_is_taken(monkeypatch: pytest.MonkeyPatch):
    card, other = (SimpleNamespace(memory_stats=lambda limit=limit: {"bytes_limit": limit}) for limit in (1000, 10))
    monkeypatch.setattr(jax, "local_devices", lambda: [card, other])
    assert device.device_memory() == 500
    monkeypatch.setattr(jax, "local_devices", lambda: [SimpleNamespace(memory_stats=lambda: None)])
    assert device.device_memory() == 2**32
