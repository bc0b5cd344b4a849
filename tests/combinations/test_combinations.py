"""Every combination is answered as a brute force over all runs answers it, or refused for a reason of docs/limits.md."""

import itertools
from functools import cache

import pytest

from veil.engine import compile, kernel

from .limits import reason_of, reasons
from .questions import FORMULAS
from .run import run
from .sample import Combination, covering, drawn, each_value, parse

_QUICK, _BLOCK = 1_000, 125
_SHARE = 0.05  # of combinations that may be refused
_SLACK = 0.05  # more in a single block, which is a small sample


@cache
def _every_pair() -> list[Combination]:
    return list(covering(0))


def _check(combinations: list[Combination], share: float) -> None:
    tally = run(combinations)
    assert not tally.failed + tally.unlisted, tally.text()
    assert sum(tally.refused.values()) <= share * tally.count, tally.text()


@pytest.mark.parametrize("block", range(_QUICK // _BLOCK))
def test_random_triples(block: int) -> None:
    """Three features and a call, in blocks for the workers."""
    _check(list(itertools.islice(drawn(_QUICK, 26), block * _BLOCK, (block + 1) * _BLOCK)), _SHARE + _SLACK)


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("seed", range(4))
def test_every_value_with_every_call(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value of every feature meets every call that takes no search, beside two others; four times, 2,600 in all.

    Transitions are held sparsely in every other run.
    """
    if seed % 2:
        for module in (kernel, compile):
            monkeypatch.setattr(module, "ALWAYS_DENSE_STATES", 0)
        monkeypatch.setattr(kernel, "_DENSE_FILL", 2.0)
    _check(list(each_value(seed))[block::4], _SHARE + _SLACK)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_every_pair_of_values_with_every_call(block: int) -> None:
    """About 20,000 combinations: every pair of values of two features meets every call."""
    _check(_every_pair()[block::40], _SHARE + 0.02)


def test_the_page_lists_each_reason_once() -> None:
    """The phrases of the page are distinct, and none is a part of another, so that a message has one reason."""
    listed = reasons()
    assert listed
    for one, two in itertools.permutations(listed, 2):
        assert one not in two
    assert reason_of("nothing of the kind", listed) is None


def test_a_combination_is_repeated_from_its_text() -> None:
    """What a failure prints is what `--one` reads."""
    for one in drawn(20, 3):
        assert parse(one.text) == one


@pytest.mark.parametrize(("text", "meaning"), FORMULAS)
def test_the_meanings_of_the_formulas(text: str, meaning) -> None:
    """The plain functions that stand for formulas agree with veil's semantics on all short words."""
    import veil

    letters = [set(), {"a"}, {"b"}, {"a", "b"}]
    for length in (1, 2, 3):
        for word in itertools.product(letters, repeat=length):
            assert veil.Formula(text).holds(word) == meaning(list(word))
