"""On an accelerator: agreement with the CPU, a gradient over a million states with its bandwidth, and planning.

Run by hand on a machine with one: `PYTHONPATH=src python3 -m benchmarks.gpu` for the pass, `… -m benchmarks.gpu rates` for
iterations a second, and `… -m benchmarks.gpu plan 300 60 timed 60` to plan a grid of 300×300 cells, T = 60, in 60 s beside
the baselines. Needs JAX with a plugin for the device, not matplotlib. Prints Markdown for `RESULTS.md`.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import veil
from benchmarks.common import say
from benchmarks.planning_baselines import softened, straight_line_jax, twenty_lines
from veil.common.clock import UNLIMITED
from veil.engine.chain import make_chain
from veil.engine.columns import ColumnPass
from veil.engine.device import DevicePass, accelerator
from veil.engine.return_range import threshold
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass
from veil.planning.backend import Draw
from veil.planning.bits import sampled
from veil.planning.device_layout import chosen_layout
from veil.planning.objective import Channels, make_objective
from veil.planning.options import SolveOptions
from veil.planning.policy_class import Space, make_space
from veil.planning.safe_tables import richest_table

GALLERY = ("paper-last-state", "paper-initial-state", "convoy-checkpoint", "network-probe", "badge-doors")


def large_grid(side: int, horizon: int, *, everywhere: bool = False) -> veil.Problem:
    """An open square with two cameras that give false alarms everywhere, and a secret quarter in the middle.

    From one start few cells can be reached within a short horizon; `everywhere` starts in all of them alike.
    """
    near, far = range(side // 3, side // 2), range(side // 2, 2 * side // 3)
    cameras = [
        veil.Sensor("a", [(r, c) for r in near for c in near], detection=0.9, false_alarm=0.01),
        veil.Sensor("b", [(r, c) for r in far for c in near], detection=0.9, false_alarm=0.01),
    ]
    middle = [(r, c) for r in range(2 * side // 5, 3 * side // 5) for c in range(2 * side // 5, side // 2)]
    starts = [(r, c) for r in range(side) for c in range(side)] if everywhere else (side // 2, side // 2)
    world = veil.GridWorld(side, side, starts=starts, goals={(0, 0): 1.0}, slip=0.1, sensors=cameras, secrets=middle)
    return world.problem(horizon)


def random_policy(problem: veil.Problem, seed: int = 0) -> veil.MarkovPolicy:
    theta = np.random.default_rng(seed).normal(size=(problem.num_cells, problem.num_actions))
    return veil.MarkovPolicy.softmax(theta, problem)


def agreement() -> list[str]:
    """The largest differences between device and CPU on problems of every kind, and on a sparse grid."""
    problems = [veil.gallery.load(name) for name in GALLERY] + [large_grid(40, 30)]
    rows = ["| problem | states | log-likelihood | posterior | gradient, relative |", "| :-- | --: | --: | --: | --: |"]
    for name, problem in zip((*GALLERY, "40×40 grid, T=30"), problems, strict=True):
        chain = make_chain(problem, random_policy(problem))
        events = draw_events(chain, 512, np.random.default_rng(1))
        kind = ColumnPass if chain.hidden.kernel.is_sparse else SequencePass
        here = kind(chain, events, gradient=True, memory_bytes=2**31)
        there = DevicePass(chain, events)
        slope = np.random.default_rng(2).normal(size=there.result.posterior.shape)
        gathered = np.zeros_like(here.result.posterior)
        np.add.at(gathered, here.result.index, slope)
        expected, found = here.pull_back(gathered), there.pull_back(slope)
        index = here.result.index
        rows.append(
            f"| {name} | {chain.hidden.num_states:,} |"
            f" {np.abs(here.result.log_likelihood[index] - there.result.log_likelihood).max():.1e} |"
            f" {np.abs(here.result.posterior[index] - there.result.posterior).max():.1e} |"
            f" {np.abs(found - expected).max() / np.abs(expected).max():.1e} |"
        )
    return rows


def median_ms(work: Callable[[], object], rounds: int = 9) -> float:
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def copy_bandwidth() -> float:
    """Bytes read and written a second by a plain copy of 4 GiB, the ceiling that the rest is held against."""
    import jax
    import jax.numpy as jnp

    source = jnp.ones(2**29)
    scale = jax.jit(lambda a: a * 1.5)
    scale(source).block_until_ready()
    return 2 * source.nbytes / (median_ms(lambda: scale(source).block_until_ready()) * 1e-3)


def million(side: int = 1000, horizon: int = 50, sequences: int = 64) -> list[str]:
    """One gradient over a million states: on the device alone, and as a whole call with transfers."""
    import jax

    from veil.engine.device_steps import Span, jit_backward, jit_forward, place

    problem = large_grid(side, horizon, everywhere=True)
    chain = make_chain(problem, random_policy(problem))
    events = draw_events(chain, sequences, np.random.default_rng(0))
    slope = np.full((sequences, 2), 1.0 / sequences)
    fixed, span = place(chain.hidden), Span(chain.hidden.split_time, horizon)
    table, columns = jax.device_put(chain.table), jax.device_put(np.ascontiguousarray(events.T))
    cotangent = jax.device_put(np.ascontiguousarray(slope.T))

    def ahead():
        return jax.block_until_ready(jit_forward(fixed, table, columns, span))

    def gradient():
        _, _, kept = jit_forward(fixed, table, columns, span)
        return jax.block_until_ready(jit_backward(fixed, table, kept, columns, span, cotangent))

    begin = time.perf_counter()
    gradient()
    compile_s = time.perf_counter() - begin
    forward_ms, both_ms = median_ms(ahead), median_ms(gradient)
    whole_ms = median_ms(lambda: DevicePass(chain, events).pull_back(slope), rounds=5)
    message = 8 * problem.num_states * sequences
    # The least that must move: forward reads and writes a message a step; the way back reads the kept message, reads and
    # writes the slope, and writes and reads the product of slope and emission.
    least = horizon * message * (2 + 5)
    ceiling = copy_bandwidth()
    return [
        f"{problem.num_states:,} states, T={horizon}, {sequences} sequences, one message {message / 2**20:,.0f} MiB;"
        f" first call {compile_s:.1f} s with compilation.",
        "",
        "| what | ms | bytes that must move | TB/s | of a copy's bandwidth |",
        "| :-- | --: | --: | --: | --: |",
        f"| forward | {forward_ms:.1f} | {2 * horizon * message / 1e9:.0f} GB |"
        f" {2 * horizon * message / forward_ms / 1e9:.2f} | {2 * horizon * message / forward_ms * 1e3 / ceiling:.0%} |",
        f"| value and gradient | {both_ms:.1f} | {least / 1e9:.0f} GB | {least / both_ms / 1e9:.2f} |"
        f" {least / both_ms * 1e3 / ceiling:.0%} |",
        f"| the same with transfers and host work | {whole_ms:.1f} | | | |",
        f"| copy of 4 GiB | | | {ceiling / 1e12:.2f} | 100% |",
    ]


def planning_grid(side: int, horizon: int) -> veil.Problem:
    """The large grid with starts everywhere, and half of the range of returns to be kept."""
    return large_grid(side, horizon, everywhere=True).replace(min_return="50%")


def on_device(problem: veil.Problem, memory: Any) -> Space:
    """The class of policies with its passes on JAX's device."""
    space = make_space(problem, memory)
    options = SolveOptions(method="ascent", device="jax")
    return replace(space, on_device=chosen_layout(space, options))


def iterations_a_second(side: int, horizon: int, memory: Any, sequences: int) -> str:
    """A row: how often a second one start is moved, sampling, constraint and Adam included."""
    from veil.planning.device_layers import DeviceParameters
    from veil.planning.sampled_ascent import SampledAscent
    from veil.planning.schedule import Schedule

    problem = planning_grid(side, horizon)
    space = on_device(problem, memory)
    objective = make_objective(space, Channels((sampled(space, Draw(sequences, 0)),)))
    safe = space.softmax(np.zeros(space.shape))
    parameters, options = DeviceParameters(space, safe), SolveOptions(seed=0, starts=1)
    known = space.layers.send(safe)  # pyright: ignore[reportAttributeAccessIssue]
    method = SampledAscent(objective, parameters, [safe], [known], Schedule((), 10**6), options, sequences)
    state = replace(method.begin(), check_at=10**9)
    theta = state.theta[0]

    def step() -> None:
        nonlocal state
        state = method.advance(state)
        state.theta[0].block_until_ready()

    begin = time.perf_counter()
    step()
    first = time.perf_counter() - begin
    milliseconds, plan = median_ms(step), space.on_device
    assert plan is not None
    return (
        f"| {side}×{side} | {horizon} | {memory} | {theta.size:,} | {sequences} | {plan.chunk} |"
        f" {plan.planned_bytes / 2**30:.1f} GiB | {first:.1f} s | {milliseconds:.1f} | {1e3 / milliseconds:.1f} |"
    )


def rates() -> list[str]:
    """Iterations a second of the search."""
    cases = ((300, 60, "markov", 256), (300, 60, "timed", 256), (1000, 50, "markov", 64), (1000, 50, "timed", 64))
    return [
        "| grid | T | class | parameters | sequences | in chunks of | planned | first, compiled | ms | iterations a second |",
        "| :-- | --: | :-- | --: | --: | --: | --: | --: | --: | --: |",
        *(iterations_a_second(*case) for case in cases),
    ]


def bits_of(space: Space, policy: veil.Policy, sequences: int) -> tuple[float, float]:
    """Bits and their standard error on new sequences, the same for all policies."""
    table = space.table_of(policy)
    found = sampled(space, Draw(sequences, 12345))(table[None], UNLIMITED, gradient=False)
    return float(found.values[0]), float(found.errors[0])


BASELINES: dict[str, Callable[[veil.Problem, Any, float], veil.Policy]] = {
    "uniform": lambda problem, memory, seconds: veil.MarkovPolicy.uniform(problem),
    "largest return": lambda problem, memory, seconds: make_space(problem, memory).policy(
        richest_table(make_space(problem, memory))
    ),
    "soft": softened,
    "Adam, 20 lines": twenty_lines,
    "straight-line JAX": straight_line_jax,
}


def plan(side: int, horizon: int, memory: Any, seconds: float, names: list[str]) -> Iterator[str]:
    """Rows of `veil.solve` and of the baselines named, each with so many seconds, on one problem."""
    problem = planning_grid(side, horizon)
    space, wanted = on_device(problem, memory), threshold(problem)
    yield f"{side}×{side} cells, starts everywhere, T={horizon}, {memory}, return at least {wanted:.6g}.\n"
    yield "| contender | bits | standard error | return | seconds | iterations |"
    yield "| :-- | --: | --: | --: | --: | --: |"
    for name in names:
        begin, iterations = time.perf_counter(), ""
        if name == "veil.solve":
            found = veil.solve(problem, memory=memory, time_limit=seconds, certificate=False, progress=False)
            policy, iterations = found.policy, f"{found.iterations:,}"
            say(found.summary() + f"\n{found.settings}")
        else:
            policy = BASELINES[name](problem, memory, seconds)
        taken = time.perf_counter() - begin
        bits, error = bits_of(space, policy, 2048)
        value = veil.expected_return(problem, policy)
        short = " (too little)" if wanted is not None and value < wanted else ""
        yield f"| {name} | {bits:.4f} | {error:.4f} | {value:.6g}{short} | {taken:.1f} | {iterations} |"


def main() -> None:
    """Print the section asked for."""
    import jax

    jax.config.update("jax_enable_x64", True)
    print(f"Device: {accelerator() or jax.devices()[0]}; JAX {jax.__version__}, NumPy {np.__version__}.\n")
    what, *rest = sys.argv[1:] or ["pass"]
    if what == "rates":
        print("\n".join(rates()), flush=True)
    elif what == "plan":
        side, horizon, memory, seconds, *names = rest
        for row in plan(int(side), int(horizon), memory, float(seconds), names or ["veil.solve", *BASELINES]):
            print(row, flush=True)
    else:
        print("\n".join(agreement()), "\n", flush=True)
        print("\n".join(million()), flush=True)


if __name__ == "__main__":
    main()
