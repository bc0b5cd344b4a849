"""The pass on an accelerator: agreement with the CPU, and a gradient over a million states with its bandwidth.

Run by hand on a machine with one: `PYTHONPATH=src python3 -m benchmarks.gpu`. Needs JAX with a plugin for the device, not
matplotlib. Prints Markdown for `RESULTS.md`.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np

import veil
from veil.engine.chain import make_chain
from veil.engine.columns import ColumnPass
from veil.engine.device import DevicePass, accelerator
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass

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


def main() -> None:
    """Print both sections."""
    import jax

    jax.config.update("jax_enable_x64", True)
    print(f"Device: {accelerator() or jax.devices()[0]}; JAX {jax.__version__}, NumPy {np.__version__}.\n")
    print("\n".join(agreement()), "\n", flush=True)
    print("\n".join(million()), flush=True)


if __name__ == "__main__":
    main()
