"""The sampled gradient of a search with and without compiled loops, beside each other in one process."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import Settings, say
from benchmarks.worlds import make
from veil.common.clock import UNLIMITED
from veil.engine.backends import compiled
from veil.planning.backend import Draw
from veil.planning.bits import EntropyMeasure
from veil.planning.layers import Layers
from veil.planning.policy_class import make_space

TITLE = "passes of a search on samples with compiled loops, beside the plain ones"
CASES = (("floors", 130), ("maps", 130), ("warehouses", 130), ("yards", 100))
SEQUENCES = (128, 1024)


def run(settings: Settings) -> str:
    began = time.process_time()
    if compiled.loops() is None:
        return "Numba is not installed: `pip install 'veil[fast]'`.\n"
    say("compiled: loops after", f"{time.process_time() - began:.2f} s of processor time")
    rows = [row(family, seed, count, settings) for family, seed in CASES for count in SEQUENCES]
    header = ["problem", "entries", "sequences", "plain", "compiled", "plain / compiled", "draws", "difference"]
    return f"""\
Value and gradient of `Layers.estimate`, time-dependent random softmax policy, both ways in turn in one process, one thread:
the least processor time of {settings.rounds(0, most=15)} rounds each, since other work on the machine only adds to it.
*Entries* are the transitions at all times; *draws* is the ratio for drawing the sequences alone; *difference* the largest in
the gradient, relative to its largest number.

{common.markdown_table(header, rows)}
"""


def row(family: str, seed: int, count: int, settings: Settings) -> list[str]:
    """One problem and number of sequences."""
    problem = make(family, seed)
    space = make_space(problem, "timed").on_reachable_rows()
    table = space.softmax(0.5 * np.random.default_rng(0).normal(size=space.shape))
    plain, fast = Layers(space.hidden), Layers(space.hidden)
    fast.expected_seconds = 10 * compiled.WORTH_SECONDS
    draw = Draw(count, 3)

    def gradient(layers: Layers) -> Any:
        return layers.estimate(table.copy(), draw, EntropyMeasure(), UNLIMITED, gradient=True)  # a new table each time

    def drawn(layers: Layers) -> Any:
        return layers.draw(table, count, np.random.default_rng(3))

    difference = common.relative_difference(gradient(fast)[2], gradient(plain)[2])
    rounds = settings.rounds(0, most=15)
    slow, quick = least_seconds(gradient, plain, fast, rounds)
    slow_draws, quick_draws = least_seconds(drawn, plain, fast, rounds)
    say(f"compiled: {family} {seed}, {count} sequences: {slow * 1e3:.1f} and {quick * 1e3:.1f} ms")
    cells = [
        f"{family} {seed}",
        f"{plain.num_entries:,}",
        f"{count:,}",
        f"{slow * 1e3:.1f} ms",
        f"{quick * 1e3:.1f} ms",
    ]
    return [*cells, f"**{slow / quick:.2f}**", f"{slow_draws / quick_draws:.1f}", f"{difference:.1e}"]


def least_seconds(work: Callable[[Layers], Any], plain: Layers, fast: Layers, rounds: int) -> tuple[float, float]:
    """The least processor time of each, in turns."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for layers in (plain, fast):
            began = time.process_time()
            work(layers)
            found[layers is fast].append(time.process_time() - began)
    return min(found[False]), min(found[True])
