"""The memory of a search on a device, counted by hand; which plan is taken; and which searches go to the device."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from tests.planning.small_problems import random_problem
from tests.planning.test_pairs import two_sensors
from tests.record.problems import endless
from veil.common.errors import InputError
from veil.planning import device_plan
from veil.planning.device_plan import COMPILE_SECONDS, Plan, Sizes, chosen_plan, make_plan, planned_bytes
from veil.planning.options import SolveOptions
from veil.planning.policy_class import any_table, make_space

pytest.importorskip("jax")
SIZES = Sizes(states=7, cells=5, actions=3, horizon=10, times=2, neighbours=4, events=6, values=2)


def test_sizes_are_those_of_the_chain_and_of_the_class():
    problem = random_problem(1).replace(observer=veil.Observer(np.eye(random_problem(1).num_states), sees_actions=True))
    space = make_space(problem)
    hidden = space.hidden
    dense = Sizes.of(hidden, 3)
    states, actions = problem.num_states, problem.num_actions
    assert (dense.states, dense.cells, dense.actions) == (hidden.num_states, problem.num_cells, actions)
    assert (dense.horizon, dense.times, dense.neighbours) == (problem.horizon, 3, hidden.num_states)
    assert (dense.events, dense.values) == (hidden.num_events * len(hidden.channels), hidden.num_values)
    assert dense.parameters == 3 * problem.num_cells * actions
    sparse = on_sparse_kernel(space.chain(any_table(space))).hidden
    entries = sparse.kernel.num_entries
    assert states * (Sizes.of(sparse, 1).neighbours - 1) < entries <= states * Sizes.of(sparse, 1).neighbours


@pytest.mark.parametrize(("starts", "chunk", "every"), [(1, 2, 0), (4, 8, 0), (8, 32, 3)])
def test_the_bytes_are_those_of_all_arrays(starts: int, chunk: int, every: int):
    """Each array by its shape: numbers of 8 bytes and of 4 where both precisions are kept, and of one of them elsewhere."""
    states, near, actions = SIZES.states, SIZES.neighbours, SIZES.actions
    transitions = states * near * actions
    places = 2 * states * near  # of the neighbours, forward and back
    seen = states * SIZES.events
    labels = 2 * states * SIZES.values
    fixed = (8 + 4) * (transitions + places + seen + labels)
    table = SIZES.times * SIZES.cells * actions
    policies = 8 * table * (5 + starts) + 4 * table * (4 * (starts + 1) + 6)
    kept = {0: SIZES.horizon, 3: 4 + 3}[every]  # all times; or every third of ten, and those between two of them
    messages = 4 * states * chunk * (kept + 8)
    soft = 8 * states * (SIZES.horizon + 3 * SIZES.values)
    assert planned_bytes(SIZES, starts, chunk, every) == fixed + policies + messages + soft


@pytest.mark.parametrize(
    ("states", "horizon", "chunk"),
    [(7, 10, 256), (2**20, 2**5, 128), (2**20, 2**5 + 1, 64), (10**7, 50, 32), (2**27, 0, 32), (2**24, 0, 256), (2**26, 1, 64)],
)  # fmt: skip
def test_a_chunk_of_messages_has_about_four_thousand_million_numbers(states: int, horizon: int, chunk: int):
    plan = make_plan(replace(SIZES, states=states, horizon=horizon), np.inf)
    assert plan is not None
    assert (plan.chunk, plan.every, plan.starts) == (chunk, 0, 8)


@pytest.mark.parametrize("horizon", [3, 10, 50])
def test_the_largest_chunk_then_the_fewest_checkpoints_then_the_most_starts_are_taken(horizon: int):
    sizes = replace(SIZES, horizon=horizon)
    every = max(2, int(horizon**0.5))
    wanted = [
        Plan(chunk, gaps, starts, planned_bytes(sizes, starts, chunk, gaps))
        for chunk, gaps, starts in itertools.product((256, 128, 64, 32, 16, 8, 4, 2), (0, every), (8, 4, 2, 1))
    ]
    for one in wanted:
        for memory in (one.planned_bytes, one.planned_bytes - 1):
            fits = [plan for plan in wanted if plan.planned_bytes <= memory]
            assert make_plan(sizes, memory) == (fits[0] if fits else None)


def on_device(problem: veil.Problem, memory: str = "timed", *, device: str = "jax", **settings: Any) -> Plan | None:
    options: dict[str, Any] = {"method": "ascent", "memory": memory, "device": device} | settings
    return chosen_plan(make_space(problem, memory), SolveOptions(**options))


def unsuitable() -> dict[str, tuple[veil.Problem, dict[str, Any], str]]:
    plain = random_problem(0)
    one_time, whole = "one secret at one time", "decisions over a horizon"
    limited = plain.replace(constraints=[veil.Probability("F s0", min=0.01)], min_return=None)
    return {
        "leakage": (plain, {"objective": "leakage"}, "the entropy of"),
        "bits": (plain, {"min_opacity": 0.1}, one_time),
        "task": (plain, {"task": "return"}, one_time),
        "starts": (plain, {"per_start": True}, one_time),
        "further": (limited, {}, one_time),
        "hide": (two_sensors(1), {"hide": "own, other"}, one_time),
        "pair": (two_sensors(1, min=0.1), {}, one_time),
        "path": (plain.replace(secret=veil.Trajectory()), {}, one_time),
        "nothing": (plain.replace(horizon=0, min_return=None, secret=veil.InitialState()), {}, whole),
        "endless": (endless(), {"memory": "markov"}, whole),
    }


@pytest.mark.parametrize("name", unsuitable())
def test_what_the_device_cannot_do_is_refused_where_it_is_asked_for_and_left_to_numpy_else(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(device_plan, "accelerator", lambda: "a stand-in")
    problem, settings, words = unsuitable()[name]
    with pytest.raises(InputError, match=words):
        on_device(problem, **settings)
    assert on_device(problem, device="auto", **settings) is None


def test_what_the_device_can_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device_plan, "accelerator", lambda: "a stand-in")
    for problem in (random_problem(0), endless(), two_sensors(1), random_problem(0).replace(min_return=None)):
        assert on_device(problem) == on_device(problem, device="auto") is not None
    assert on_device(random_problem(0), "markov") is not None
    assert on_device(random_problem(0), device="auto", time_limit=2 * COMPILE_SECONDS) is not None
    assert on_device(random_problem(0), device="auto", time_limit=2 * COMPILE_SECONDS - 0.1) is None
    assert on_device(random_problem(0), time_limit=1.0) is not None
    assert on_device(random_problem(0), device="cpu") is None


def test_without_an_accelerator_the_device_is_only_used_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device_plan, "accelerator", lambda: None)
    assert on_device(random_problem(0), device="auto") is None
    assert on_device(random_problem(0)) is not None
    monkeypatch.setattr(device_plan.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs JAX"):
        on_device(random_problem(0))


def test_transitions_to_very_different_numbers_of_states_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device_plan, "is_padded_short", lambda hidden: False)
    with pytest.raises(InputError, match="about as many states everywhere"):
        on_device(random_problem(0))


def test_all_but_a_tenth_of_the_memory_is_planned_with_and_what_is_short_is_told(monkeypatch: pytest.MonkeyPatch):
    problem = random_problem(0).replace(horizon=9, min_return=None)
    least = planned_bytes(Sizes.of(make_space(problem, "timed").hidden, 9), 1, 2, 3)
    monkeypatch.setattr(device_plan, "device_memory", lambda: int(least / 2 / 0.9) + 1)
    assert on_device(problem) == Plan(2, 3, 1, least)
    monkeypatch.setattr(device_plan, "device_memory", lambda: 0.49 * least / 0.9)
    assert on_device(problem, device="auto") is None
    shown, offered = f"{least / 2**30:.1f} GiB", f"offers {0.98 * least / 0.9 / 2**30:.1f} GiB"
    with pytest.raises(veil.TooLargeError, match=f"needs {shown}.*{offered}"):
        on_device(problem)


def test_the_least_that_is_needed_is_told_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch):
    """One start, chunks of two sequences, and a checkpoint at every third of nine times."""
    monkeypatch.setattr(
        device_plan, "planned_bytes", lambda _, starts, chunk, every: (1000 * starts + 10 * chunk + every) * 2**30
    )
    monkeypatch.setattr(device_plan, "device_memory", lambda: 2**30)
    with pytest.raises(veil.TooLargeError, match=r"needs 1023\.0 GiB on the device of JAX, which offers 2\.0 GiB"):
        on_device(random_problem(0).replace(horizon=9, min_return=None))
