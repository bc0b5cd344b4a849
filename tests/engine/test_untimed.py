"""Strings of an observer without a clock, against all sequences of one with a clock, silent events erased."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_case
from veil.common.errors import TooLargeError
from veil.common.logs import surprisal_bits
from veil.engine.chain import Chain, make_chain, with_clock
from veil.engine.joint import JointWalk
from veil.engine.string_walk import StringWalk
from veil.engine.written import Written
from veil.measure.exact import EntropyObjective

Listing = Callable[[np.ndarray], np.ndarray]
Strings = dict[tuple[int, ...], np.ndarray]


def string_of(chain: Chain, events: np.ndarray) -> tuple[int, ...]:
    """What the observer without a clock writes down of a sequence of events."""
    written = chain.hidden.written
    assert written is not None
    letters = np.concatenate([written.first_letter[events[:1]], written.letter[events[1:]]])
    return tuple(int(letter) for letter in letters if letter >= 0)


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

    JointWalk(with_clock(chain), keep_events=True).run(gather)
    slope = JointWalk(with_clock(chain), keep_events=True).run(slopes, gradient=True)
    assert slope is not None
    return dict(found), slope


def untimed_chain(seed: int, kind: str) -> Chain:
    """A small chain, of which one event is silent."""
    chain = chain_of(small_case(seed, kind, work=250, sees_actions=False))
    letter = np.arange(chain.hidden.num_events)
    letter[seed % len(letter)] = -1
    first = letter if chain.hidden.root.shape[1] > 1 else np.full(1, -1)
    written = Written(first, np.zeros_like(first), letter, np.zeros_like(letter))
    return Chain(replace(chain.hidden, written=written), chain.table, stationary=chain.stationary)


@pytest.mark.parametrize("kind", ["last", "at", "initial"])
def test_strings_are_sequences_without_their_silent_events(kind: str):
    """`P(z,w)`, the number of strings, `H(Z|W)` and its gradient; on dense and sparse transitions alike."""
    for seed in range(6):
        plain = untimed_chain(seed, kind)
        expected, expected_slope = erased(plain)
        for chain in (plain, on_sparse_kernel(plain)) if seed % 3 == 0 else (plain,):
            listed: Strings = {}

            def note(joint: np.ndarray, events: Listing, listed: Strings = listed, plain: Chain = plain) -> None:
                for row, sequence in zip(joint, events(np.arange(len(joint))), strict=True):
                    string = string_of(plain, sequence)
                    assert string not in listed
                    listed[string] = row

            walk = StringWalk(chain)
            assert walk.run(note) is None
            assert listed.keys() == expected.keys()
            assert walk.num_sequences == len(expected)
            for string, row in expected.items():
                np.testing.assert_allclose(listed[string], row, rtol=0, atol=1e-13)
            objective = EntropyObjective()
            slope = StringWalk(chain).run(objective, gradient=True)
            assert slope is not None
            bits = sum(float(row @ surprisal_bits(row[None])[0]) for row in expected.values())
            assert objective.bits == pytest.approx(bits, abs=1e-12)
            taken = chain.table > 0
            np.testing.assert_allclose(slope[taken], expected_slope[taken], rtol=1e-9, atol=1e-10)


def test_strings_that_do_not_fit_are_refused():
    """The sets of states of the strings count; with little memory the strings are worked on in several parts."""
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 1)), np.zeros((3, 1)), 0)
    observer = veil.Observer(np.eye(3), silent=0, untimed=True)
    problem = veil.Problem(model, observer, veil.LastState({0}), 6)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    with pytest.raises(
        TooLargeError, match=r"the 1 strings up to time 0 need more than 1\.9e-09 GiB: give memory_bytes=…"
    ):
        StringWalk(chain, memory_bytes=2).run(EntropyObjective())
    needed = next(power for power in range(4, 40) if _fits(StringWalk(chain, memory_bytes=2**power)))
    with pytest.raises(TooLargeError, match=r"strings up to time [1-6]"):
        StringWalk(chain, memory_bytes=2 ** (needed - 1)).run(EntropyObjective())
    parts, whole = EntropyObjective(), EntropyObjective()
    slope = StringWalk(chain, memory_bytes=2**needed).run(parts, gradient=True)
    expected = StringWalk(chain).run(whole, gradient=True)
    assert slope is not None
    assert expected is not None
    assert parts.bits == pytest.approx(whole.bits, abs=1e-12)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-12)


def _fits(walk: StringWalk) -> bool:
    try:
        walk.run(EntropyObjective())
    except TooLargeError:
        return False
    return True
