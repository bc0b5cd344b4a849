"""Strings of an observer without a clock, against all sequences of one with a clock, silent events erased."""

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_case
from veil.common.errors import TooLargeError
from veil.common.logs import surprisal_bits
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.untimed import UntimedWalk
from veil.measure.exact import EntropyObjective

Listing = Callable[[np.ndarray], np.ndarray]
Strings = dict[tuple[int, ...], np.ndarray]


def string_of(chain: Chain, events: np.ndarray) -> tuple[int, ...]:
    """What the observer without a clock writes down of a sequence of events."""
    first = events[:1] if chain.hidden.root.shape[1] > 1 else events[:0]
    return tuple(int(event) for event in (*first, *events[1:]) if event != chain.silent)


def erased(chain: Chain) -> tuple[Strings, np.ndarray]:
    """`P(z,w)` of every string, and the gradient of `H(Z|W)` in the policy's table, by sequences with a clock."""
    found: Strings = defaultdict(lambda: np.zeros(chain.hidden.num_values))

    def gather(joint: np.ndarray, events: Listing) -> None:
        for row, sequence in zip(joint, events(np.arange(len(joint))), strict=True):
            if row.any():
                found[string_of(chain, sequence)] += row

    def slopes(joint: np.ndarray, events: Listing) -> np.ndarray:
        sequences = events(np.arange(len(joint)))
        strings = [string_of(chain, sequence) for sequence in sequences]
        rows = np.stack([found[string] if string in found else np.ones(joint.shape[1]) for string in strings])
        return surprisal_bits(rows)

    JointWalk(chain, keep_events=True).run(gather)
    slope = JointWalk(chain, keep_events=True).run(slopes, gradient=True)
    assert slope is not None
    return dict(found), slope


def untimed_chain(seed: int, kind: str) -> Chain:
    """A small chain, of which one event is silent."""
    chain = chain_of(small_case(seed, kind, work=250, sees_actions=False))
    chain.silent = seed % chain.hidden.num_events
    return chain


@pytest.mark.parametrize("kind", ["last", "at", "initial"])
def test_strings_are_sequences_without_their_silent_events(kind: str):
    """`P(z,w)`, the number of strings, `H(Z|W)` and its gradient; on dense and sparse transitions alike."""
    for seed in range(12):
        plain = untimed_chain(seed, kind)
        expected, expected_slope = erased(plain)
        for chain in (plain, on_sparse_kernel(plain)) if seed % 3 == 0 else (plain,):
            chain.silent = plain.silent
            listed: Strings = {}

            def note(joint: np.ndarray, events: Listing, listed: Strings = listed) -> None:
                for row, string in zip(joint, events(np.arange(len(joint))).tolist(), strict=True):
                    length = string.index(-1) if -1 in string else len(string)
                    assert set(string[length:]) <= {-1}
                    assert tuple(string[:length]) not in listed
                    listed[tuple(string[:length])] = row

            walk = UntimedWalk(chain, keep_events=True)
            assert walk.run(note) is None
            assert listed.keys() == expected.keys()
            assert walk.num_sequences == len(expected)
            for string, row in expected.items():
                np.testing.assert_allclose(listed[string], row, rtol=0, atol=1e-13)
            objective = EntropyObjective()
            slope = UntimedWalk(chain).run(objective, gradient=True)
            assert slope is not None
            bits = sum(float(row @ surprisal_bits(row[None])[0]) for row in expected.values())
            assert objective.bits == pytest.approx(bits, abs=1e-12)
            taken = chain.table > 0
            np.testing.assert_allclose(slope[taken], expected_slope[taken], rtol=1e-9, atol=1e-10)


def test_strings_that_do_not_fit_are_refused():
    """Messages count without a gradient; with one, dense rows over all places count too."""
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 1)), np.zeros((3, 1)), 0)
    observer = veil.Observer(np.eye(3), silent=0, untimed=True)
    problem = veil.Problem(model, observer, veil.LastState({0}), 4)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem), untimed=True)
    with pytest.raises(TooLargeError, match=r"up to 0 symbols need more than 1\.9e-09 GiB: give memory_bytes=…"):
        UntimedWalk(chain, memory_bytes=2).run(EntropyObjective())
    needed = next(power for power in range(4, 40) if _fits(UntimedWalk(chain, memory_bytes=2**power), gradient=False))
    with pytest.raises(TooLargeError, match=r"up to [1-3] symbols"):
        UntimedWalk(chain, memory_bytes=2 ** (needed - 1)).run(EntropyObjective())
    assert not _fits(UntimedWalk(chain, memory_bytes=2**needed), gradient=True)
    assert _fits(UntimedWalk(chain, memory_bytes=2**30), gradient=True)


def _fits(walk: UntimedWalk, *, gradient: bool) -> bool:
    try:
        walk.run(EntropyObjective(), gradient=gradient)
    except TooLargeError:
        return False
    return True
