"""The search on JAX's devices: the numbers of the NumPy search, its answers, its memory, and several devices."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from tests.planning.small_problems import drawn, random_problem
from tests.planning.test_layers import SECRETS, corridor
from tests.study.cluster import free_port
from veil.common.errors import InputError, TooLargeError
from veil.planning import device_plan
from veil.planning.device_plan import Plan, Sizes, chosen_plan, make_plan, planned_bytes
from veil.planning.layers import Layers
from veil.planning.options import SolveOptions
from veil.planning.policy_class import Space, make_space
from veil.planning.sampled_values import entropy_measure
from veil.planning.solution import Solution, Status
from veil.planning.starts import richest_table
from veil.planning.task import make_task
from veil.planning.values import make_secrecy

jax = pytest.importorskip("jax")
PLAN = Plan(chunk=8, every=0, starts=4, planned_bytes=0)
H200_BYTES = 0.75 * 139 * 2**30  # what JAX takes of it


def solve(problem: veil.Problem, **settings: Any) -> Solution:
    few = {"evaluation": "sampled", "certificate": False, "progress": False, "iterations": 40, "device": "jax"}
    options: dict[str, Any] = few | settings
    return veil.solve(problem, **options)


def slope(space: Space, table: np.ndarray, events: np.ndarray, every: int, precision: type) -> tuple[float, np.ndarray]:
    """Bits and gradient of sequences in two chunks, as the step of the search makes them."""
    from veil.engine.device_steps import Span, place
    from veil.planning.device_ascent import Setting, slope_of_chunks

    hidden, chunk = space.hidden, len(events) // 2
    setting = Setting(Span(hidden.split_time, hidden.horizon, every), chunk, 1, space.shape, None)

    @partial(jax.jit, static_argnames="setting")
    def run(fixed: Any, table: Any, events: Any, chunks: Any, setting: Setting) -> Any:
        return slope_of_chunks(fixed, table, lambda number: events[number], chunks, setting)

    parts = np.stack([events[:chunk].T, events[chunk:].T]).astype(np.int32)
    bits, found = run(place(hidden, precision), table.astype(precision), parts, np.int32(2), setting)
    return float(bits), np.asarray(found)


def assert_slopes_agree(space: Space, every: int) -> None:
    layers, table = Layers(space.hidden), drawn(space, 1)[0]
    events = layers.draw(table, 12, np.random.default_rng(0))
    halves = [layers.gradient(table, part, entropy_measure) for part in (events[:6], events[6:])]
    expected = (halves[0][1] + halves[1][1]) / 2
    bits = float(np.mean([found for found, _ in halves]))
    for precision, tolerance in ((np.float64, 1e-12), (np.float32, 2e-5)):
        value, found = slope(space, table, events, every, precision)
        assert value == pytest.approx(bits, abs=tolerance)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.slow
def test_gradients_are_those_of_numpy_on_the_same_sequences():
    assert_slopes_agree(make_space(corridor(SECRETS[1]), "timed"), every=2)


@pytest.mark.slow
@pytest.mark.parametrize("every", [0, 3])
@pytest.mark.parametrize("memory", ["markov", "timed", veil.Controller(2)])
@pytest.mark.parametrize("number", range(len(SECRETS)))
def test_gradients_of_every_class_are_those_of_numpy(number: int, memory: Any, every: int):
    space = make_space(corridor(SECRETS[number]), memory)
    assert_slopes_agree(space, every)
    sparse = on_sparse_kernel(space.chain(drawn(space, 1)[0])).hidden
    assert_slopes_agree(replace(space, hidden=sparse), every)


def assert_layers_agree(space: Space) -> None:
    layers, on_device = Layers(space.hidden), replace(space, on_device=PLAN).layers
    hidden, table = space.hidden, drawn(space, 1)[0]
    terminal = hidden.terminal + np.arange(hidden.num_states)
    value, slopes, occupied = on_device.returns(table, terminal)
    expected = layers.returns(table, terminal)
    assert value == on_device.value(table, terminal) == pytest.approx(expected[0], abs=1e-12)
    assert layers.value(table, terminal) == expected[0]
    np.testing.assert_allclose(slopes, expected[1], atol=1e-12)
    np.testing.assert_allclose(occupied, expected[2], atol=1e-12)
    for found, wanted in zip(on_device.seen(table), layers.seen(table), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    events = on_device.draw(table, 21, np.random.default_rng(3))
    np.testing.assert_allclose(on_device.posteriors(table, events), layers.posteriors(table, events), atol=1e-12)
    costs = 0.3 * np.sin(np.arange((hidden.horizon + 1) * hidden.num_events))
    wishes = np.arange(hidden.num_states), costs.reshape(-1, hidden.num_events), terminal, space.available
    rows = layers.rows(hidden.horizon)
    np.testing.assert_array_equal(on_device.rows(hidden.horizon), rows)
    for weight in (3e4, 2.0):  # the first makes weights that only differences of scores can hold
        soft = [np.asarray(one.soft_table(weight, *wishes)) for one in (on_device, layers)]
        found, wanted = (one.reshape(-1, one.shape[2])[rows] for one in soft)
        np.testing.assert_allclose(found, wanted, atol=1e-12 if weight < 10 else 1e-9)
    averages = [np.asarray(one.time_average(soft[1], terminal))[0] for one in (on_device, layers)]
    np.testing.assert_allclose(*(one[layers.rows(1)] for one in averages), atol=1e-12)


@pytest.mark.slow
def test_returns_soft_tables_and_posteriors_are_those_of_numpy():
    assert_layers_agree(make_space(corridor(SECRETS[1]), "timed"))


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["markov", "timed", veil.StateMemory(1), veil.Controller(2)])
@pytest.mark.parametrize("problem", [corridor(SECRETS[0]), corridor(SECRETS[2]), random_problem(3)])
def test_layers_of_every_class_are_those_of_numpy(problem: veil.Problem, memory: Any):
    assert_layers_agree(make_space(problem, memory))


def test_sequences_have_the_law_of_the_chain():
    """20,000 draws on the device against the exact law of each event; four standard errors, one fixed seed."""
    space = replace(make_space(random_problem(0), "timed"), on_device=replace(PLAN, chunk=20_000))
    table = drawn(space, 1)[0]
    events = space.layers.draw(table, 20_000, np.random.default_rng(0))
    occupied = space.chain(table).occupancies
    for time in range(1, space.hidden.horizon + 1):
        expected = occupied[time] @ space.hidden.channels[0].emission
        found = np.bincount(events[:, time], minlength=len(expected)) / len(events)
        np.testing.assert_array_less(np.abs(found - expected), 4 * np.sqrt(expected / len(events)) + 1e-12)


@pytest.mark.slow
def test_a_search_on_the_device_reaches_the_level_of_the_numpy_search():
    problem = random_problem(0)
    found, other = solve(problem), solve(problem, device="cpu")
    assert found.feasible
    assert found.threshold is not None
    assert found.expected_return >= found.threshold
    assert found.expected_return == veil.expected_return(problem, found.policy)
    assert found.opacity == veil.opacity(problem, found.policy, "exact")
    assert found.iterations == 40
    assert found.opacity.bits >= other.opacity.bits - 0.01
    assert found.settings["device"] == f"{jax.devices()[0].device_kind} (JAX, float32)"
    assert "device" not in other.settings
    assert solve(problem).policy == found.policy  # nothing is compiled for it


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"goal": "transparent"}, {"memory": "timed"}, {"memory": veil.Controller(2)}])
@pytest.mark.parametrize("seed", [1, 2])
def test_other_classes_and_goals_are_searched_on_the_device(seed: int, settings: dict[str, Any]):
    problem = random_problem(seed)
    found, other = solve(problem, **settings), solve(problem, **settings, device="cpu")
    sign = -1 if "goal" in settings else 1
    assert found.feasible
    assert sign * found.opacity.bits >= sign * other.opacity.bits - 0.02


@pytest.mark.slow
def test_a_state_on_the_device_can_be_written_and_read():
    from veil.planning.device_ascent import DeviceAscent

    space = replace(make_space(random_problem(1)), on_device=PLAN)
    task = make_task(space, secrecy=make_secrecy(space, evaluation="sampled"))
    method = DeviceAscent(task, richest_table(space), SolveOptions(iterations=8))
    state = method.begin()
    for _ in range(3):
        state = method.advance(state)
    one, other = method.advance(state), method.advance(method.unpack(state.arrays()))
    for name, array in one.arrays().items():
        if name != "history":  # which has the seconds in it
            np.testing.assert_array_equal(array, other.arrays()[name])


def test_without_time_to_compile_the_policy_of_largest_return_is_returned():
    found = solve(random_problem(1), time_limit=1.0)
    assert found.status is Status.NOT_SEARCHED
    assert found.feasible


TWO_DEVICES = """
import jax, numpy as np
from tests.planning.test_layers import SECRETS, corridor
from tests.study.cluster import free_port
from tests.planning.small_problems import drawn
from veil.planning.policy_class import make_space
from veil.engine.device_steps import Span, place
from veil.planning import device_ascent
from veil.planning.device_layers import Draws
assert len(jax.devices()) == 2
space = make_space(corridor(SECRETS[0]), "timed")
hidden = space.hidden
draws = Draws(hidden)
given = device_ascent.Given(place(hidden, np.float32), draws.arrays, None, None, None, None)
table = drawn(space, 1)[0].astype(np.float32)
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("sequences",))
run = jax.jit(device_ascent.sampled_slope, static_argnames="setting")
one, two = (
    run(given, table, jax.random.key(0), np.int32(3),
        device_ascent.Setting(Span(hidden.split_time, hidden.horizon, 2), 8, draws.num_first, space.shape, mesh))
    for mesh in (None, mesh)
)
assert len(two[1].sharding.device_set) == 2
np.testing.assert_allclose(one[0], two[0], rtol=1e-5)
np.testing.assert_allclose(one[1], two[1], rtol=0, atol=2e-6 * np.abs(one[1]).max())
assert np.abs(one[1]).max() > 1e-3
print("equal")
"""


def test_two_devices_share_the_sequences_and_find_the_same_gradient():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", TWO_DEVICES], capture_output=True, text=True, timeout=300, env=os.environ | flags
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "equal"


SEARCH = """
import sys
import jax
if len(sys.argv) > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))
assert len(jax.devices()) == 2
import veil
from tests.planning.test_device_ascent import solve
from tests.planning.test_layers import corridor
problem = corridor(veil.LastState(["r0c3"]))
found = solve(problem, memory="timed", iterations=4, starts=2)
print(found.settings["device"], found.opacity.bits.hex(), found.policy.probabilities.tobytes().hex())
if len(sys.argv) > 1:
    try:
        solve(problem, time_limit=5)
    except veil.InputError as error:
        assert "several processes" in str(error)
    else:
        raise AssertionError("a time limit was taken")
"""


@pytest.mark.slow
def test_two_processes_of_jax_find_what_two_devices_of_one_find():
    """`jax.distributed` on CPUs: each process has one device, collectives go through gloo."""
    flags = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SEARCH]
    one = flags | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    wanted = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | one, check=True)
    address = f"127.0.0.1:{free_port()}"
    each = os.environ | flags | {"XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    pipe = subprocess.PIPE
    both = [
        subprocess.Popen([*command, address, str(number)], stdout=pipe, stderr=pipe, text=True, env=each)
        for number in range(2)
    ]
    for process in both:
        found, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        assert found.strip().splitlines()[-1] == wanted.stdout.strip()


# The plan


def million(times: int = 50) -> Sizes:
    return Sizes(states=10**6, cells=10**6, actions=5, horizon=50, times=times, neighbours=5, events=4, values=2)


def test_a_policy_of_250_million_numbers_fits_an_h200():
    sizes = million()
    assert sizes.parameters == 250_000_000
    plan = make_plan(sizes, 0.9 * H200_BYTES)
    assert plan is not None
    assert plan.chunk >= 64
    assert plan.starts >= 4
    moments = 4 * 3 * sizes.parameters
    assert moments < plan.planned_bytes <= 0.9 * H200_BYTES


def test_less_memory_means_checkpoints_fewer_starts_and_smaller_chunks():
    plans = [make_plan(million(), gib * 2**30) for gib in (90, 48, 36, 30)]
    needed = [plan.planned_bytes for plan in plans if plan is not None]
    assert len(needed) == 4
    assert needed == sorted(needed, reverse=True)
    assert plans[0] is not None
    assert plans[-1] is not None
    assert plans[-1].starts < plans[0].starts
    assert make_plan(million(), 2**30) is None
    long = replace(million(1), horizon=500)
    tight = make_plan(long, 24 * 2**30)
    assert tight is not None
    assert tight.every == 22


@pytest.mark.parametrize("field", ["states", "actions", "horizon", "times", "neighbours", "events", "values"])
def test_more_of_anything_needs_more_memory(field: str):
    sizes = million(10)
    larger = replace(sizes, **{field: 2 * getattr(sizes, field)})
    assert planned_bytes(larger, 2, 64, 0) > planned_bytes(sizes, 2, 64, 0)
    assert planned_bytes(sizes, 2, 64, 7) < planned_bytes(sizes, 2, 64, 0)


def test_an_accelerator_is_taken_where_there_is_time_and_the_task_allows_it(monkeypatch: pytest.MonkeyPatch):
    space = make_space(random_problem(0), "timed")
    choose = partial(chosen_plan, space)
    assert choose(SolveOptions(method="ascent")) is None
    monkeypatch.setattr(device_plan, "accelerator", lambda: "a stand-in")
    assert choose(SolveOptions(method="ascent")) is not None
    assert choose(SolveOptions(method="ascent", time_limit=60.0)) is not None
    for settings in ({"time_limit": 5.0}, {"device": "cpu"}, {"objective": "leakage"}, {"method": "primal-dual"}):
        assert choose(SolveOptions(**{"method": "ascent"} | settings)) is None  # pyright: ignore[reportArgumentType]


def test_asking_for_a_device_that_cannot_serve_is_an_error(monkeypatch: pytest.MonkeyPatch):
    problem = random_problem(0)
    with pytest.raises(InputError, match="'jax' maximises the entropy"):
        solve(problem, objective="leakage")
    monkeypatch.setattr(device_plan, "device_memory", lambda: 1000)
    with pytest.raises(TooLargeError, match="GiB on the device"):
        solve(problem)


@pytest.mark.parametrize(
    ("message", "error", "told"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 137438953472 bytes.", TooLargeError,
         r"chunks of \d+ sequences, for which .* GiB were planned: .*device='cpu'"),
        ("INTERNAL: a fault of the driver", RuntimeError, "INTERNAL: a fault of the driver"),
    ],
)  # fmt: skip
def test_a_device_without_memory_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, message: str, error: type[Exception], told: str
):
    from veil.planning.device_ascent import DeviceAscent

    def fails(*arguments: Any) -> Any:
        raise jax.errors.JaxRuntimeError(message)

    monkeypatch.setattr(DeviceAscent, "begin", fails)
    with pytest.raises(error, match=told):
        solve(corridor(SECRETS[1]), iterations=2)
