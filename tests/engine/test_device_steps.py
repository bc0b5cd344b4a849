"""The steps of the passes in JAX, by NumPy in its place, against those on the CPU: odd shapes, and few messages kept.

Compiling takes seconds for each shape; what is tested here is the arithmetic, in the same code, on many shapes.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from tests.engine.passes import any_sequences, by_prefixes, joint_of, log_likelihoods, posteriors, pulled_back
from veil.common.logs import natural_log
from veil.engine.chain import Chain, make_chain
from veil.engine.hidden import build

pytest.importorskip("jax")

SHAPES = (  # states, actions, observations, horizon, time of the secret
    (1, 1, 1, 0, 0),
    (3, 2, 2, 0, 0),
    (2, 1, 3, 1, 1),
    (1, 3, 2, 3, 1),
    (4, 2, 1, 2, 0),
    (3, 2, 2, 5, 5),
    (3, 1, 2, 5, 0),
    (4, 3, 3, 6, 2),
    (3, 2, 2, 7, 4),
)


class Numbers(np.ndarray):
    """An array whose entries can be added to as those of JAX are."""

    @property
    def at(self) -> "Places":
        return Places(self)


class Places:
    """`array.at[places].add(values)`."""

    def __init__(self, array: np.ndarray, places: Any = None):
        self.array, self.places = array, places

    def __getitem__(self, places: Any) -> "Places":
        return Places(self.array, places)

    def add(self, values: np.ndarray) -> np.ndarray:
        result = self.array.copy()
        np.add.at(result, self.places, values)
        return result


def zeros(shape: Any, dtype: Any) -> np.ndarray:
    return np.zeros(shape, dtype).view(Numbers)


def scan(step: Callable, carry: Any, given: Any, reverse: bool = False) -> tuple[Any, Any]:
    """`jax.lax.scan` as a loop."""
    count, found = len(_leaves(given)[-1]), []
    for place in reversed(range(count)) if reverse else range(count):
        carry, one = step(carry, _taken(given, place))
        found.append(one)
    return carry, _stacked(found)


def _leaves(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, tuple) else [tree]


def _taken(tree: Any, place: int) -> Any:
    return tuple(_taken(part, place) for part in tree) if isinstance(tree, tuple) else tree[place]


def _stacked(found: list[Any]) -> Any:
    if not found or found[0] is None:
        return None
    if isinstance(found[0], tuple):
        return tuple(_stacked(list(parts)) for parts in zip(*found, strict=True))
    return np.stack(found)


def on_numpy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of steps, on NumPy for as long as the patch lasts."""
    from veil.engine import device_steps

    names = {name: getattr(np, name) for name in ("where", "sum", "stack", "append")}
    products = {
        name: lambda *given, precision, by=by: by(*given) for name, by in (("einsum", np.einsum), ("matmul", np.matmul))
    }
    numbers = SimpleNamespace(**names, **products, zeros=zeros, zeros_like=lambda one: zeros(one.shape, one.dtype))
    monkeypatch.setattr(device_steps, "jnp", SimpleNamespace(**vars(numbers)))
    monkeypatch.setattr(
        device_steps, "jax", SimpleNamespace(lax=SimpleNamespace(scan=scan), device_put=lambda fixed: fixed)
    )
    monkeypatch.setattr(device_steps, "device_log", natural_log)
    monkeypatch.setattr(device_steps, "jit_forward", device_steps.forward)
    monkeypatch.setattr(device_steps, "jit_backward", device_steps._whole_backward)
    return device_steps


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Any:
    return on_numpy(monkeypatch)


def shaped_chain(shape: tuple[int, int, int, int, int], *, timed: bool, sees: bool = False, seed: int = 0) -> Chain:
    """A chain of a shape, with zeros in its transitions and emissions; `sees`: the observer sees actions, and nothing first."""
    states, actions, observations, horizon, time = shape
    rng = np.random.default_rng([seed, *shape])

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


def sequences_of(chain: Chain) -> np.ndarray:
    """Possible sequences and any others."""
    return np.concatenate([joint_of(chain)[0][:6], any_sequences(chain, 4, np.random.default_rng(0))])


@pytest.mark.parametrize("every", [0, 1, 2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_steps_agree_with_those_on_the_cpu(sparse: bool, every: int, steps: Any):
    for number, shape in enumerate(SHAPES):
        chain = shaped_chain(shape, timed=number % 2 == every % 2, sees=number % 3 == 0)
        events = sequences_of(chain)
        expected = by_prefixes(chain, events)
        slope = np.random.default_rng(1).normal(size=(len(events), chain.hidden.num_values))
        chain = on_sparse_kernel(chain) if sparse else chain
        span = steps.Span(chain.hidden.split_time, chain.hidden.horizon, every)
        fixed = steps.place(chain.hidden)
        table = chain.table if len(chain.table) else np.zeros((1, *chain.table.shape[1:]))
        posterior, logs, kept = steps.forward(fixed, table, events.T, span)
        assert steps.forward(fixed, table, events.T, span, keep=False)[2] is None
        gathered = steps.no_gradient(fixed, table)
        found = steps.backward(fixed, table, kept, events.T, span, slope.T, gathered)
        found = steps.gradient_of(fixed, table, found)
        np.testing.assert_allclose(logs, log_likelihoods(expected), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(posterior.T, posteriors(expected), rtol=0, atol=1e-12)
        if len(chain.table):
            np.testing.assert_allclose(found, pulled_back(expected, slope), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("count", "every", "alone", "segments"), [
    (7, 0, 7, []), (0, 0, 0, []), (7, 3, 1, [[1, 2, 3], [4, 5, 6]]), (6, 3, 0, [[0, 1, 2], [3, 4, 5]]), (2, 3, 2, []),
    (0, 2, 0, []),
])  # fmt: skip
def test_the_times_of_which_messages_are_kept(
    count: int, every: int, alone: int, segments: list[list[int]], steps: Any
):
    """The first ones one by one, so that the others are whole segments."""
    head, parts = steps.Span(count, count, every).parts(np.arange(count))
    assert head.tolist() == list(range(alone))
    assert parts.tolist() == segments


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_of_an_agent_who_does_not_know_the_model(sparse: bool, timed: bool, steps: Any):
    """Two models of two states that share the rows of one table."""
    rng = np.random.default_rng(5)
    models = [veil.Model(rng.dirichlet(np.ones(2), size=(2, 3)), np.zeros((2, 3)), 0) for _ in range(2)]
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=2))
    problem = veil.Problem(models, observer, veil.WhichModel(), 3)
    table = rng.dirichlet(np.ones(3), size=(3, 2))
    chain = make_chain(problem, veil.TimedPolicy(table) if timed else veil.MarkovPolicy(table[0]))
    events = sequences_of(chain)
    slope = rng.normal(size=(len(events), 2))
    expected = pulled_back(by_prefixes(chain, events), slope)
    chain = on_sparse_kernel(chain) if sparse else chain
    span, fixed = steps.Span(chain.hidden.split_time, 3), steps.place(chain.hidden)
    _, _, kept = steps.forward(fixed, chain.table, events.T, span)
    found = steps.jit_backward(fixed, chain.table, kept, events.T, span, slope.T)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_the_times_of_either_way(steps: Any):
    span = steps.Span(2, 5)
    assert (span.before.tolist(), span.after.tolist(), span.every) == ([0, 1], [4, 3, 2], 0)


def test_neighbour_lists_and_sums_over_actions(steps: Any):
    """`Kᵀ c`, `K c` and `Σ_x' P(x'|x,a) v(x')` are the same by lists of neighbours and by dense matrices."""
    rng = np.random.default_rng(3)
    for shape in SHAPES:
        dense = shaped_chain(shape, timed=False)
        kernel = np.asarray(dense.hidden.kernel.stacked).reshape(shape[0], shape[1], shape[0])
        weights, columns = rng.random((shape[0], shape[1])), rng.normal(size=(shape[0], 2))
        mixed = np.einsum("xa,xay->xy", weights, kernel)
        for chain in (dense, on_sparse_kernel(dense)):
            fixed = steps.place(chain.hidden)
            matrix = steps.mix_rows(fixed, weights)
            np.testing.assert_allclose(steps.push(fixed, matrix, columns), mixed.T @ columns, atol=1e-13)
            np.testing.assert_allclose(steps.pull(fixed, matrix, columns), mixed @ columns, atol=1e-13)
            np.testing.assert_allclose(steps.expect(fixed, columns[:, 0]), kernel @ columns[:, 0], atol=1e-13)


def test_rows_of_states_that_the_agent_cannot_tell_apart(steps: Any):
    """An agent that does not know which model runs has one row for several hidden states; its gradients are summed."""
    rng = np.random.default_rng(4)
    models = [veil.Model(rng.dirichlet(np.ones(3), size=(3, 2)), np.zeros((3, 2)), 0) for _ in range(2)]
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=3))
    blind, knowing = (
        build(veil.Problem(models, observer, veil.WhichModel(agent_knows=knows), 2)) for knows in (False, True)
    )
    values = rng.normal(size=(6, 2))
    fixed = steps.place(blind)
    np.testing.assert_allclose(steps.by_cell(fixed, values, 3), values[:3] + values[3:], atol=1e-14)
    np.testing.assert_array_equal(steps.by_state(fixed, values[:3]), values[[0, 1, 2, 0, 1, 2]])
    fixed = steps.place(knowing)
    assert steps.by_cell(fixed, values, 6) is values
    assert steps.by_state(fixed, values) is values
