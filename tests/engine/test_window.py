"""Windows around the secret's time: which they are, and that either end is the entropy that it claims to be."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp

from tests.engine.chains import chain_of, small_cases, total_of
from tests.random_problems import KINDS
from veil.engine.chain import Chain
from veil.engine.joint import JointWalk
from veil.engine.window import Cut, Window

Path = tuple[tuple[int, ...], tuple[int, ...]]  # hidden states x_0 … x_T and events e_0 … e_T


def dense(matrix: np.ndarray | sp.csr_array) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def runs(chain: Chain) -> dict[Path, float]:
    """The probability of every run of hidden states and events."""
    hidden = chain.hidden
    found = {((int(x),), (int(e),)): float(hidden.root[x, e]) for x, e in np.argwhere(hidden.root > 0)}
    for time in range(hidden.horizon):
        step = sum(
            np.einsum("xy,ye->xye", dense(matrix), emitter.emission)
            for matrix, emitter in zip(chain.matrices(time), hidden.emitters, strict=True)
        )
        step = np.asarray(step)
        following: dict[Path, float] = {}
        for (states, events), chance in found.items():
            for y, e in np.argwhere(step[states[-1]] > 0):
                following[(*states, int(y)), (*events, int(e))] = chance * step[states[-1], y, e]
        found = following
    return found


def entropy_given(chain: Chain, all_runs: dict[Path, float], known: Callable[[Path], object]) -> float:
    """`H(Z | known)` by grouping all runs."""
    joint: dict[object, np.ndarray] = defaultdict(lambda: np.zeros(chain.hidden.label.shape[1]))
    for run, chance in all_runs.items():
        joint[known(run)] += chance * chain.hidden.label[run[0][chain.hidden.split_time]]
    return math.fsum(-p * math.log2(p / row.sum()) for row in joint.values() for p in row if p > 0)


def tiny_chains(count: int, kind: str) -> Iterator[Chain]:
    """Chains with few enough runs to go through all of them."""
    for case in small_cases(10**6, kind, work=150):
        chain = chain_of(case)
        hidden = chain.hidden
        if hidden.horizon and (hidden.num_states * hidden.num_events) ** (hidden.horizon + 1) < 100_000:
            count -= 1
            yield chain
        if count == 0:
            return


@pytest.mark.parametrize("kind", KINDS)
def test_both_ends_are_the_entropies_of_section_5(kind: str):
    """`H(Z | S_a, O_{a+1:b}, S_b)` and `H(Z | O_{a:b})`, for every radius, by brute force over runs."""
    open_ends = 0
    for chain in tiny_chains(6, kind):
        everything, time, horizon = runs(chain), chain.hidden.split_time, chain.hidden.horizon
        assert math.fsum(everything.values()) == pytest.approx(1, abs=1e-12)
        for radius in range(horizon + 2):
            left = None if time == 0 or radius > time else time - radius
            right = None if time == horizon or time + radius > horizon else time + radius
            first, last = (0 if left is None else left), (horizon if right is None else right)

            def revealed(run: Path, left=left, right=right, last=last) -> object:
                states, events = run
                begin = 0 if left is None else left + 1
                ends = [states[t] if t is not None else None for t in (left, right)]
                return (*ends, events[begin : last + 1])

            def forgotten(run: Path, first=first, last=last) -> object:
                return run[1][first : last + 1]

            window = Window.around(chain, radius)
            for reveal, known in ((True, revealed), (False, forgotten)):
                found = total_of(JointWalk(Cut(chain, window, reveal=reveal).chain))
                assert found == pytest.approx(entropy_given(chain, everything, known), abs=1e-12)
                open_ends += found > 0.01
    assert open_ends > 8
