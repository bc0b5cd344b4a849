"""The search on JAX's devices: the numbers of NumPy, the level of the NumPy search, its memory, and several devices."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from tests.planning.evaluated import Evaluator
from tests.planning.small_problems import (
    FEW,
    Interrupting,
    corridor,
    endless,
    random_problem,
    tiny_problem,
    two_sensors,
)
from tests.study.cluster import free_port
from veil.common.clock import UNLIMITED
from veil.common.workers import ALONE
from veil.planning import device_layout
from veil.planning.bits import EntropyMeasure
from veil.planning.device_layout import Layout, Sizes, make_layout, memory_errors
from veil.planning.layers import Layers, used_rows
from veil.planning.options import SolveOptions
from veil.planning.policy_class import Space

jax = pytest.importorskip("jax")
LAYOUT = Layout(chunk=8, every=0, starts=4, planned_bytes=0)
SECRETS = [veil.LastState(["r0c3"]), veil.StateAt(2, ["r0c1", "r0c3"]), veil.InitialState()]


def solve(problem: veil.Problem, **settings: Any) -> veil.Solution:
    options: dict[str, Any] = FEW | {"evaluation": "sampled", "iterations": 40, "device": "jax"} | settings
    return veil.solve(problem, **options)


# The numbers of NumPy


def tiny(secret: Any, **observer: Any) -> veil.Problem:
    """Three states, two actions, a discount and terminal rewards: numbers of times, cells and actions that differ."""
    plain = tiny_problem(3, states=3)
    model = veil.Model(
        plain.model.transitions, plain.model.rewards, plain.model.initial, 0.8, terminal_rewards=[0.5, -1.0, 0.25]
    )
    return veil.Problem(model, veil.Observer(plain.observer.matrices[0].toarray(), **observer), secret, 4, "60%")


def timed() -> Evaluator:
    """A table for each time; the observer sees the actions, and the secret is in the middle."""
    return Evaluator(tiny(veil.StateAt(1, {0}), sees_actions=True), "timed")


def formula() -> Evaluator:
    """A stationary class whose rows are shared by several hidden states; transitions are held sparsely."""
    made = Evaluator(tiny(veil.Holds("G s0")), "markov")
    assert made.space.hidden.num_states > made.space.hidden.num_cells
    made.space = replace(made.space, hidden=on_sparse_kernel(made.space.chain(made.draw(1)[0])).hidden)
    return made


def assert_layers_agree(space: Space, table: np.ndarray) -> None:
    """Returns with their gradients, laws of events, posteriors, soft tables and averages over time."""
    layers = Layers(space.hidden)
    on_device: Any = replace(space, on_device=LAYOUT).layers
    hidden = space.hidden
    terminal = hidden.paid[0].last
    expected, found = (one.summed(table[None], (0,)) for one in (space, on_device))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one[0], other[0], atol=1e-12)
    np.testing.assert_allclose(
        on_device.summed(table[None], (0,), gradient=False)[0], space.sums(table[None], (0,)), atol=1e-12
    )
    for one, other in zip(on_device.seen(table), layers.seen(table), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    events = on_device.draw(table, 21, np.random.default_rng(3))
    np.testing.assert_array_equal(on_device.draw(table, 21, np.random.default_rng(3)), events)
    np.testing.assert_allclose(on_device.posteriors(table, events), layers.posteriors(table, events), atol=1e-12)
    costs = 0.3 * np.sin(np.arange((hidden.horizon + 1) * hidden.num_events))
    wishes = np.arange(hidden.num_states), costs.reshape(-1, hidden.num_events), terminal, space.available
    rows = used_rows(hidden, hidden.horizon)
    for weight in (3e4, 2.0):  # the first makes weights that only differences of scores can hold
        soft = [np.asarray(one.soft_table(weight, *wishes)) for one in (on_device, layers)]
        one, other = (table.reshape(-1, table.shape[2])[rows] for table in soft)
        np.testing.assert_allclose(one, other, atol=1e-12 if weight < 10 else 1e-9)
    averages = [np.asarray(one.time_average(soft[1]))[0] for one in (on_device, layers)]
    np.testing.assert_allclose(*(one[used_rows(hidden, 1)] for one in averages), atol=1e-12)


@pytest.mark.parametrize("make", [timed, pytest.param(formula, marks=pytest.mark.slow)])
def test_layers_are_those_of_numpy(make: Any):
    evaluate = make()
    assert_layers_agree(evaluate.space, evaluate.draw(1)[0])


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["markov", "timed", veil.StateMemory(1), veil.Controller(2)])
@pytest.mark.parametrize("problem", [corridor(SECRETS[0]), corridor(SECRETS[2]), random_problem(3)])
def test_layers_of_every_class_are_those_of_numpy(problem: veil.Problem, memory: Any):
    evaluate = Evaluator(problem, memory)
    assert_layers_agree(evaluate.space, evaluate.draw(1)[0])


def slope(space: Space, table: np.ndarray, events: np.ndarray, every: int, precision: type) -> tuple[float, np.ndarray]:
    """Bits and gradient of sequences in two chunks, as the step of the search makes them."""
    from veil.engine.device_steps import Span, place
    from veil.planning.device_layers import Setting, gradient_of_chunks

    hidden, chunk = space.hidden, len(events) // 2
    setting = Setting(Span(hidden.split_time, hidden.horizon, every), chunk, 1, None)

    @partial(jax.jit, static_argnames="setting")
    def run(fixed: Any, table: Any, events: Any, chunks: Any, setting: Setting) -> Any:
        return gradient_of_chunks(fixed, table, lambda number: events[number], chunks, setting)

    parts = np.stack([events[:chunk].T, events[chunk:].T]).astype(np.int32)
    bits, found = run(place(hidden, precision), table.astype(precision), parts, np.int32(2), setting)
    return float(bits), np.asarray(found)


def assert_slopes_agree(space: Space, table: np.ndarray, every: int, precisions: tuple[type, ...]) -> None:
    layers = Layers(space.hidden)
    events = layers.draw(table, 12, np.random.default_rng(0))
    given = EntropyMeasure.of(space.hidden), UNLIMITED, ALONE
    halves: Any = [layers.along(table, [part], *given, gradient=True) for part in (events[:6], events[6:])]
    expected, bits = (halves[0][1] + halves[1][1]) / 2, float(np.mean([found for found, _ in halves]))
    for precision in precisions:
        tolerance = {np.float64: 1e-12, np.float32: 2e-5}[precision]
        value, found = slope(space, table, events, every, precision)
        assert value == pytest.approx(bits, abs=tolerance)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("make", [pytest.param(timed, marks=pytest.mark.slow), formula])
def test_gradients_are_those_of_numpy_on_the_same_sequences(make: Any):
    evaluate = make()
    assert_slopes_agree(evaluate.space, evaluate.draw(1)[0], 2, (np.float64,))


@pytest.mark.slow
@pytest.mark.parametrize("every", [0, 3])
@pytest.mark.parametrize("memory", ["markov", "timed", veil.Controller(2)])
@pytest.mark.parametrize("number", range(len(SECRETS)))
def test_gradients_of_every_class_are_those_of_numpy(number: int, memory: Any, every: int):
    evaluate = Evaluator(corridor(SECRETS[number]), memory)
    table, both = evaluate.draw(1)[0], (np.float64, np.float32)
    assert_slopes_agree(evaluate.space, table, every, both)
    sparse = on_sparse_kernel(evaluate.space.chain(table)).hidden
    assert_slopes_agree(replace(evaluate.space, hidden=sparse), table, every, both)


@pytest.mark.parametrize("on_device", [False, True])
def test_whole_sequences_are_drawn_by_their_law(on_device: bool):
    """4,096 draws against the exact law of all events at once, five standard errors, one fixed seed."""
    evaluate = timed()
    space, table = evaluate.space, evaluate.draw(1)[0]
    plain = Layers(space.hidden)
    layers: Any = replace(space, on_device=replace(LAYOUT, chunk=4096)).layers if on_device else plain
    first = space.hidden.first
    assert first is not None
    assert first.shape is not None
    sizes = (first.shape[1], *[space.hidden.num_events] * space.hidden.horizon)
    every = np.indices(sizes).reshape(len(sizes), -1).T
    law = np.exp(plain.passed(table, every, UNLIMITED, gradient=False).result.log_likelihood)
    assert law.sum() == pytest.approx(1.0)
    drawn = np.asarray(layers.draw(table, 4096, np.random.default_rng(0)))
    found = np.bincount(np.ravel_multi_index(tuple(drawn.T), sizes), minlength=len(every)) / 4096
    np.testing.assert_array_less(np.abs(found - law), 5 * np.sqrt(law / 4096) + 2 / 4096)
    # In sum the squares are those of a multinomial distribution: a dependence that single sequences do not show is seen here.
    seen = law > 0
    square = 4096 * np.sum((found - law)[seen] ** 2 / law[seen])
    assert square < seen.sum() + 5 * np.sqrt(np.sum(1 / law[seen]) / 4096 + 2 * seen.sum())


# Answers


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"goal": "transparent"}, {"memory": "timed"}, {"memory": veil.Controller(2)}])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_search_on_the_device_reaches_the_level_of_the_numpy_search(seed: int, settings: dict[str, Any]):
    problem = random_problem(seed)
    found, other = solve(problem, **settings), solve(problem, **settings, device="cpu")
    sign = -1 if "goal" in settings else 1
    assert found.feasible
    assert found.threshold is not None
    assert found.expected_return >= found.threshold
    assert found.expected_return == veil.expected_return(problem, found.policy)
    assert found.opacity == veil.opacity(problem, found.policy, "exact")
    assert found.iterations == 40
    assert sign * found.opacity.bits >= sign * other.opacity.bits - 0.02


@pytest.mark.slow
def test_a_search_on_the_device_is_feasible_and_a_checkpoint_of_it_goes_on_to_the_same_policy(tmp_path: Path):
    problem, few = tiny_problem(1), {"iterations": 4, "starts": 1}
    whole = solve(problem, **few)
    assert whole.feasible
    assert whole.opacity == veil.opacity(problem, whole.policy, "exact")
    assert whole.settings["device"] == f"{jax.devices()[0].device_kind} (JAX, float32)"
    run = tmp_path / "run"
    assert solve(problem, **few, checkpoint=run, progress=Interrupting(3)).status is veil.Status.INTERRUPTED
    assert solve(problem, **few, resume=run).policy == whole.policy


def test_without_an_accelerator_or_where_it_is_not_wanted_numpy_serves():
    problem = random_problem(0)
    assert "device" not in solve(problem, device="cpu", iterations=2).settings
    if jax.default_backend() == "cpu":
        assert "device" not in solve(problem, device="auto", iterations=2).settings


def test_exact_values_are_searched_on_the_host_with_any_device():
    problem = random_problem(0)
    found, other = (solve(problem, evaluation="auto", device=device) for device in ("jax", "cpu"))
    assert found.policy == other.policy
    assert "device" not in found.settings
    assert found.plan is not None
    assert found.plan.classes[-1].device == "NumPy"


def test_without_time_to_compile_the_policy_of_largest_return_is_returned():
    found = solve(random_problem(1), time_limit=1.0)
    assert (found.status, found.feasible) == (veil.Status.NOT_SEARCHED, True)


ONE_TIME, WHOLE = "one secret at one time", "decisions over a horizon"
UNSUITABLE: dict[str, tuple[veil.Problem, dict[str, Any], str]] = {
    "leakage": (random_problem(0), {"objective": "leakage"}, "the entropy of"),
    "bits": (random_problem(0), {"min_opacity": 0.1}, ONE_TIME),
    "task": (random_problem(0), {"task": "return"}, ONE_TIME),
    "starts": (random_problem(0), {"per_start": True}, ONE_TIME),
    "further": (
        random_problem(0).replace(constraints=[veil.Probability("F s0", min=0.01)], min_return=None), {}, ONE_TIME
    ),
    "hide": (two_sensors(1), {"hide": "own, other"}, ONE_TIME),
    "pair": (two_sensors(1, min=0.1), {}, ONE_TIME),
    "path": (random_problem(0).replace(secret=veil.Trajectory()), {}, ONE_TIME),
    "nothing": (random_problem(0).replace(horizon=0, min_return=None, secret=veil.InitialState()), {}, WHOLE),
    "endless": (endless(), {"memory": "markov"}, WHOLE),
}  # fmt: skip


def test_what_the_device_cannot_do_is_refused_where_it_is_asked_for_and_left_to_numpy_else():
    for name, (problem, settings, words) in UNSUITABLE.items():
        with pytest.raises(veil.InputError, match=words):
            solve(problem, **{"memory": "timed"} | settings)
        if name in ("path", "endless"):
            assert solve(problem, **{"memory": "timed", "device": "auto", "iterations": 1} | settings).policy


# Memory


def test_a_policy_of_250_million_numbers_fits_an_h200():
    memory = 0.9 * 0.75 * 139 * 2**30  # of which JAX takes three quarters
    sizes = Sizes(states=10**6, cells=10**6, actions=5, horizon=50, times=50, neighbours=5, events=4, values=2)
    assert sizes.parameters == 250_000_000
    layout = make_layout(sizes, memory)
    assert layout is not None
    assert layout.chunk >= 64
    assert layout.starts >= 4
    assert 4 * 3 * sizes.parameters < layout.planned_bytes <= memory


def test_a_device_without_memory_is_a_clear_error(monkeypatch: pytest.MonkeyPatch):
    space = Evaluator(random_problem(0), "timed").space
    options = SolveOptions(method="ascent", memory="timed", device="jax")
    exhausted = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 137438953472 bytes."
    with (
        pytest.raises(veil.TooLargeError, match=r"chunks of \d+ sequences.*device='cpu'"),
        memory_errors(space, options),
    ):
        raise jax.errors.JaxRuntimeError(exhausted)
    with pytest.raises(RuntimeError, match="a fault of the driver"), memory_errors(space, options):
        raise jax.errors.JaxRuntimeError("INTERNAL: a fault of the driver")
    monkeypatch.setattr(device_layout, "device_memory", lambda: 1000)
    with pytest.raises(veil.TooLargeError, match=r"GiB on the device.*use device='cpu'"):
        solve(random_problem(0))


# Several devices


SEARCH = """
import sys
import jax
if len(sys.argv) > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))
assert len(jax.devices()) == 2
import veil
from tests.planning.test_device import solve
from tests.planning.small_problems import corridor
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
def test_two_devices_and_two_processes_of_jax_find_what_one_device_finds():
    """`jax.distributed` on CPUs: each process has one device, collectives go through gloo."""
    flags = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SEARCH]
    two = flags | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    wanted = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | two, check=True)
    alone = solve(corridor(veil.LastState(["r0c3"])), memory="timed", iterations=4, starts=2)
    bits = float.fromhex(wanted.stdout.split()[-2])
    assert bits == pytest.approx(alone.opacity.bits, abs=1e-3)
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
