"""The functions of a search on JAX's devices on tiny problems: the numbers of NumPy, and one step of Adam by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from tests.planning.small_problems import drawn, tiny_problem
from tests.planning.test_device_ascent import PLAN, assert_layers_agree
from veil.common.clock import UNLIMITED, Clock
from veil.planning.best_returns import time_average
from veil.planning.device_plan import COMPILE_SECONDS
from veil.planning.layers import Layers
from veil.planning.options import SolveOptions
from veil.planning.policy_class import Space, make_space
from veil.planning.sampled_points import Point
from veil.planning.sampled_values import entropy_measure
from veil.planning.starts import richest_table
from veil.planning.stochastic_state import Pace
from veil.planning.task import Task, make_task
from veil.planning.values import make_secrecy

jax = pytest.importorskip("jax")


def tiny(secret: Any, horizon: int, **observer: Any) -> veil.Problem:
    """Three states, two actions, a discount and terminal rewards: numbers of times, cells and actions that differ."""
    plain = tiny_problem(3, states=3)
    model = veil.Model(
        plain.model.transitions,
        plain.model.rewards,
        plain.model.initial,
        0.8,
        terminal_rewards=np.array([0.5, -1.0, 0.25]),
    )
    return veil.Problem(model, veil.Observer(plain.observer.matrices[0].toarray(), **observer), secret, horizon, "60%")


def timed() -> Space:
    """A table for each time; the observer sees the actions, and the secret is in the middle."""
    return make_space(tiny(veil.StateAt(1, {0}), 4, sees_actions=True), "timed")


def formula() -> Space:
    """A stationary class whose rows are shared by several hidden states; transitions are held sparsely."""
    space = make_space(tiny(veil.Holds("G s0"), 4))
    assert space.hidden.num_states > space.hidden.num_cells
    return replace(space, hidden=on_sparse_kernel(space.chain(drawn(space, 1)[0])).hidden)


@pytest.mark.parametrize("make", [timed, formula])
def test_layers_are_those_of_numpy(make: Any):
    assert_layers_agree(make())


def on_device(space: Space, **settings: Any) -> Task:
    space = replace(space, on_device=replace(PLAN, every=2))
    return make_task(space, secrecy=make_secrecy(space, evaluation="sampled"), **settings)


@pytest.mark.parametrize("goal", ["opaque", "transparent"])
def test_a_step_is_that_of_adam_on_the_lagrangian(goal: str):
    """Bits and gradient are those of NumPy on the sequences that the key draws; the rest is by hand."""
    from veil.planning.device_ascent import DeviceAscent

    task = on_device(timed(), goal=goal)
    method = DeviceAscent(task, richest_table(task.space), SolveOptions())
    layers, space = Layers(task.space.hidden), task.space
    table, rng = drawn(space, 1)[0], np.random.default_rng(2)
    theta = np.log(table).reshape(-1, table.shape[2]).astype(np.float32)
    mean, square = (0.1 * rng.uniform(size=theta.shape).astype(np.float32) for _ in range(2))
    pace = Pace(3, 0.05, 0.3, 0.04, 0.25)
    given = theta, mean, square, theta + 1
    moved, bits, value = method._move(given, np.array([2.5]), 11, 13, pace)
    parts = []
    for number in range(2):  # of 8 sequences each
        events = _events(method, table, 11, number)
        parts.append(layers.gradient(table, events, entropy_measure))
    assert bits == pytest.approx(np.mean([found for found, _ in parts]), abs=1e-5)
    returns, earned, _ = layers.returns(table, method._terminal)
    assert value == pytest.approx(returns, abs=1e-5)
    price = max(0.0, 2.5 - 20.0 * (returns - task.aim) / task.unit)
    assert price > 0
    slope = task.sign * (parts[0][1] + parts[1][1]) / 2 + price / task.unit * earned
    gradient = (table * (slope - np.sum(table * slope, axis=2, keepdims=True))).reshape(theta.shape)
    mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
    stepped = theta + 0.05 * (mean / 0.3) / np.sqrt(square / 0.04)
    stepped = stepped - stepped.max(axis=1, keepdims=True)
    average = theta + 1 + 0.25 * (stepped - theta - 1)
    for found, wanted in zip(moved, (stepped, mean, square, average), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, atol=2e-4)
    rows = np.asarray(method._table(moved[0]))
    np.testing.assert_allclose(rows.sum(axis=2), 1.0)
    np.testing.assert_allclose(
        np.log(rows).reshape(theta.shape) - np.log(rows).max(axis=2).reshape(-1, 1), stepped, atol=2e-4
    )


def _events(method: Any, table: np.ndarray, seed: int, number: int) -> np.ndarray:
    from veil.planning.device_layers import _draw

    layers, setting = method._layers, method._setting
    key = jax.random.key(seed)
    given = table.astype(np.float32)
    found = _draw(
        method._given.fixed, method._given.sums, given, key, number, setting.chunk, setting.num_first, layers.span
    )
    return np.asarray(found).T


def test_a_start_after_a_step_has_its_multiplier_and_its_worth():
    from veil.planning.device_ascent import DeviceAscent

    task = on_device(timed())
    method = DeviceAscent(task, richest_table(task.space), SolveOptions())
    theta = method._parameters(method._safe)
    state = method._first_state([theta, theta], np.asarray(method._safe), 0.0)
    state = replace(state, multiplier=np.array([[0.3], [2.5]]), batch=8)
    pace = Pace.of(state)
    found = method._step(state, 1, pace)
    slack = np.array([(found.point.returns - task.aim) / task.unit])
    np.testing.assert_array_equal(found.point.slack, slack)
    assert found.point.score == task.sign * found.point.bits
    multiplier, worth = method._priced(state, 1, Point(found.point.bits, found.point.returns, found.point.bits, slack))
    np.testing.assert_array_equal(found.multiplier, multiplier)
    assert found.worth == worth
    written = method.unpack(replace(state, theta=[found.theta] * 2).arrays())
    assert written.theta[0].dtype == np.float32
    np.testing.assert_array_equal(written.theta[1], found.theta)


def test_parameters_on_the_device_are_those_of_numpy():
    from veil.planning.device_ascent import DeviceAscent
    from veil.planning.stochastic import StochasticAscent

    task = on_device(timed())
    method = DeviceAscent(task, richest_table(task.space), SolveOptions())
    plain = StochasticAscent(
        replace(task, space=replace(task.space, on_device=None)), richest_table(task.space), SolveOptions()
    )
    table = drawn(task.space, 1, 3)[0]
    for share in (0.02, 0.5):
        theta = method._parameters(table, share)
        np.testing.assert_allclose(np.asarray(theta), plain._parameters(table, share), atol=1e-6)
        np.testing.assert_allclose(
            np.asarray(method._table(theta)), plain._table(plain._parameters(table, share)), atol=1e-6
        )


def test_a_search_on_the_device_keeps_time_to_compile_and_to_answer(monkeypatch: pytest.MonkeyPatch):
    from veil.planning import device_ascent
    from veil.planning.device_ascent import DeviceAscent

    monkeypatch.setattr(device_ascent, "_PER_NUMBER", 0.01)
    task = on_device(timed())
    hidden = task.space.hidden
    for limit in (None, 100.0):
        limited = replace(task, clock=Clock(limit, now=lambda: 0.0))
        method = DeviceAscent(limited, richest_table(task.space), SolveOptions())
        answering = 0.01 * hidden.horizon * hidden.reward.size
        closing = 0.0 if limit is None else 6.0 + answering
        assert (method._closing, method._reserved) == (pytest.approx(closing), pytest.approx(closing))
        left = method._checking_clock().left
        assert left == (np.inf if limit is None else pytest.approx(100.0 - closing))
        fixed = method._first_state([method._parameters(method._safe)], np.asarray(method._safe), 0.0)
        assert method.candidates(fixed).shape == (1, *task.space.shape)
        assert method._reserved == pytest.approx(0.0 if limit is None else answering)
        assert (method._most_starts, method._most_restarts) == (PLAN.starts, 0)
        assert method._first_batch == 512  # the most, since a sequence takes next to no time
    late = replace(task, clock=Clock(COMPILE_SECONDS - 0.1, now=lambda: 0.0))
    with pytest.raises(veil.common.clock.OutOfTime):
        DeviceAscent(late, richest_table(task.space), SolveOptions()).begin()


def test_a_drawn_index_is_that_of_the_running_sum():
    from veil.planning.device_layers import pick

    weights = np.array([[0.25, 0.5, 0.0, 0.25], [0.0, 2.0, 2.0, 0.0]], dtype=np.float32)
    for uniform, wanted in (
        (0.0, [0, 1]),
        (0.24, [0, 1]),
        (0.25, [1, 1]),
        (0.74, [1, 2]),
        (0.75, [3, 2]),
        (0.999, [3, 2]),
    ):
        assert pick(weights, np.full(2, uniform)).tolist() == wanted


def test_first_events_have_their_law_and_rows_that_are_never_met_are_the_first_ones():
    """4,096 draws against the exact law of the first event, four standard errors, one fixed seed."""
    space = replace(timed(), on_device=replace(PLAN, chunk=4096))
    layers: Any = space.layers
    hidden = space.hidden
    events = layers.draw(drawn(space, 1)[0], 4096, np.random.default_rng(0))
    law = np.asarray(hidden.first.sum(axis=0)).ravel()
    found = np.bincount(events[:, 0], minlength=len(law)) / len(events)
    np.testing.assert_array_less(np.abs(found - law), 4 * np.sqrt(law / len(events)) + 1e-12)
    from veil.planning.device_layers import _time_average

    fixed, table = layers.fixed, drawn(space, 1)[0]
    occupied = np.array([[0.25, 0.0, 0.5]] * 4)
    average = np.asarray(_time_average(fixed, table, occupied))[0]
    np.testing.assert_allclose(average[0], table[:, 0].mean(axis=0))
    np.testing.assert_allclose(average[1], table[0, 1])


@pytest.mark.parametrize("make", [timed, formula])
@pytest.mark.parametrize("on_device", [False, True])
def test_whole_sequences_are_drawn_by_their_law(make: Any, on_device: bool):
    """4,096 draws against the exact law of all events at once, five standard errors, one fixed seed."""
    space = make()
    plain, table = Layers(space.hidden), drawn(space, 1)[0]
    layers: Any = replace(space, on_device=replace(PLAN, chunk=4096)).layers if on_device else plain
    events, first = space.hidden.num_events, space.hidden.first.shape[1]
    sizes = (first, *[events] * space.hidden.horizon)
    every = np.indices(sizes).reshape(len(sizes), -1).T
    law = np.exp(plain.passed(table, every, UNLIMITED, gradient=False).result.log_likelihood)
    assert law.sum() == pytest.approx(1.0)
    drawn_events = np.asarray(layers.draw(table, 4096, np.random.default_rng(0)))
    found = np.bincount(np.ravel_multi_index(tuple(drawn_events.T), sizes), minlength=len(every)) / 4096
    np.testing.assert_array_less(np.abs(found - law), 5 * np.sqrt(law / 4096) + 2 / 4096)
    # In sum the squares are those of a multinomial distribution: a dependence that single sequences do not show is seen here.
    seen = law > 0
    square = 4096 * np.sum((found - law)[seen] ** 2 / law[seen])
    assert square < seen.sum() + 5 * np.sqrt(np.sum(1 / law[seen]) / 4096 + 2 * seen.sum())


@pytest.mark.parametrize(("count", "used"), [(1, 1), (2, 2), (3, 2), (4, 4), (7, 4)])
def test_chunks_are_shared_by_as_many_devices_as_a_power_of_two(count: int, used: int, monkeypatch: pytest.MonkeyPatch):
    from veil.planning import device_ascent

    task, device = on_device(timed()), jax.devices()[0]
    monkeypatch.setattr(jax, "devices", lambda: [device] * count)
    monkeypatch.setattr(device_ascent, "Mesh", lambda devices, axes: (len(devices), axes))
    method = device_ascent.DeviceAscent(task, richest_table(task.space), SolveOptions())
    assert method._setting.mesh == (None if used == 1 else (used, (device_ascent._AXIS,)))
    where = f"{device.device_kind} (JAX, float32)" if count == 1 else f"{count} × {device.device_kind}"
    assert method.describe()["device"] == where


def test_rows_of_cells_are_those_of_their_reachable_states_and_uniform_where_there_is_none():
    """Of three cells with two hidden states each: both are reachable, one is, and none is."""
    from veil.planning.device_layers import _rows_of_cells

    fixed: Any = SimpleNamespace(cell=np.array([0, 1, 2, 0, 1, 2]))
    available = np.array([[True, True, False, True], [True, True, True, True], [False, True, True, True]])
    rows = np.random.default_rng(0).dirichlet(np.ones(4), size=6)
    rows[3] = rows[0]
    found = np.asarray(_rows_of_cells(fixed, rows, np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0]), available))
    np.testing.assert_allclose(found[:2], [rows[0], rows[4]], atol=1e-15)
    np.testing.assert_allclose(found[2], [0.0, 1 / 3, 1 / 3, 1 / 3], atol=1e-15)
    assert _rows_of_cells(fixed, rows, None, available) is rows


def test_parameters_are_of_the_rows_that_are_used_and_the_others_are_those_of_the_base():
    from veil.planning.device_ascent import _filled, _rows_of

    base = np.random.default_rng(0).uniform(size=(2, 3, 4))
    jax_base, rows = jax.numpy.asarray(base), np.array([1, 2, 5])
    given: Any = SimpleNamespace(rows=rows)
    every: Any = SimpleNamespace(rows=None)
    np.testing.assert_array_equal(_rows_of(jax_base, given), base.reshape(6, 4)[rows])
    np.testing.assert_array_equal(_rows_of(jax_base, every), base.reshape(6, 4))
    moved = base.reshape(6, 4)[rows] + 1
    wanted = base.copy()
    wanted.reshape(6, 4)[rows] = moved
    np.testing.assert_array_equal(_filled(jax.numpy.asarray(moved), given, jax_base), wanted)
    np.testing.assert_array_equal(_filled(jax_base.reshape(6, 4), every, jax_base + 1), base)


def test_posteriors_on_the_device_check_the_clock():
    space = replace(timed(), on_device=PLAN)
    layers, table = space.layers, drawn(space, 1)[0]
    with pytest.raises(veil.common.clock.OutOfTime):
        layers.posteriors(table, np.zeros((3, space.hidden.horizon + 1), dtype=np.int32), Clock(0.0))


def test_a_time_average_on_the_device_is_that_of_numpy():
    """With three actions, a row that two hidden states share, and a cell that is never met."""
    from veil.engine.device_steps import Fixed
    from veil.planning.device_layers import _time_average

    rng = np.random.default_rng(0)
    hidden: Any = SimpleNamespace(cell=np.array([0, 1, 0, 2]), num_cells=3)
    given, occupied = rng.dirichlet(np.ones(3), size=(2, 3)), rng.dirichlet(np.ones(4), size=2)
    occupied[:, 3] = 0.0
    unused: Any = None
    found = np.asarray(_time_average(Fixed(unused, unused, unused, unused, unused, hidden.cell), given, occupied))
    np.testing.assert_allclose(found[0], time_average(hidden, given, occupied), atol=1e-15)


def test_sequences_on_the_device_are_those_of_the_generator():
    """The same from one seed, others from the next one, and others again from the same generator."""
    layers = replace(timed(), on_device=PLAN).layers
    table, generator = drawn(timed(), 1)[0], np.random.default_rng(0)
    first, again = (layers.draw(table, 24, generator) for _ in range(2))
    np.testing.assert_array_equal(layers.draw(table, 24, np.random.default_rng(0)), first)
    other = layers.draw(table, 24, np.random.default_rng(1))
    assert (first != again).any()
    assert (first != other).any()


def test_a_table_of_one_time_serves_all_and_one_of_two_times_each_its_own():
    from veil.planning.device_layers import _at

    table = np.arange(12.0).reshape(2, 3, 2)
    np.testing.assert_array_equal(_at(table, 1), table[1])
    np.testing.assert_array_equal(_at(table, 0), table[0])
    np.testing.assert_array_equal(_at(table[1:], 4), table[1])


@pytest.mark.parametrize(("processes", "limit", "refused"), [
    (1, 60.0, False), (2, 60.0, True), (3, 60.0, True), (2, None, False),
])  # fmt: skip
def test_several_processes_of_jax_take_no_time_limit(
    processes: int, limit: float | None, refused: bool, monkeypatch: pytest.MonkeyPatch
):
    from veil.planning.device_ascent import DeviceAscent

    task = replace(on_device(timed()), clock=Clock(limit))
    monkeypatch.setattr(jax, "process_count", lambda: processes)
    given = task, richest_table(task.space), SolveOptions()
    if refused:
        with pytest.raises(veil.InputError, match="set iterations instead of time_limit"):
            DeviceAscent(*given)
    else:
        assert DeviceAscent(*given).task is task


def test_actions_on_the_device_are_drawn_from_the_rows_of_their_time():
    """One state, whose first action is taken at time 0 and the second at time 1; the observer sees them and nothing else."""
    model = veil.Model(np.ones((1, 2, 1)), np.zeros((1, 2)), [1.0])
    observer = veil.Observer(np.ones((1, 1)), sees_actions=True, sees_initial=False)
    space = make_space(veil.Problem(model, observer, veil.InitialState(), 2), "timed")
    assert space.shape == (2, 1, 2)
    events = replace(space, on_device=PLAN).layers.draw(np.eye(2)[:, None], 8, np.random.default_rng(0))
    np.testing.assert_array_equal(events[:, 1:], [[0, 1]] * 8)
