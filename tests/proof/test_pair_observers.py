"""Observers of several pairs: which games are played, the pair alone that is best, weights that sum to one exactly."""

import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import veil
from tests.proof.test_checked import example
from veil.common.clock import Clock, OutOfTime, Stop
from veil.common.errors import CertificateError, InputError, TooLargeError
from veil.game.records import PairRule, RecordsResult
from veil.proof import pair_observers
from veil.proof.observers import MARGIN, ObserverBound
from veil.proof.pair_observers import _is_played, _proven, _witness, best_observers
from veil.proof.witness import Witness

BLIND = veil.Observer(np.ones((2, 1)))
RULE = Witness(np.zeros(1, dtype=int), (), np.zeros((1, 2)), 0.0, "nothing")


def watched() -> veil.Problem:
    """The example with a second observer, a third of another secret, and a fourth of its path."""
    pairs = [
        veil.Pair("two", BLIND),
        veil.Pair("start", secret=veil.InitialState()),
        veil.Pair("path", secret=veil.Trajectory()),
    ]
    return example().replace(pairs=pairs)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("own", "two"), True),
        (("own",), False),
        (("own", "start"), True),
        (("own", "path"), False),
        (("path", "own"), False),
        (("own", "two", "path"), True),
        (("own", "path", "two"), True),
        (("path", "start", "two"), False),
    ],
)
def test_which_pairs_have_a_game(names: tuple[str, ...], expected: bool):
    """Two or more whose secrets are no paths."""
    assert _is_played(watched(), names) == expected


def test_paths_of_several_have_no_game():
    paths = example().replace(secret=veil.Trajectory(), pairs=[veil.Pair("two", BLIND)])
    assert not _is_played(paths, ("own", "two"))


class Alone:
    """Stands in for the best observer of one pair: the bound of each, and what it was called with."""

    def __init__(self, **bits: float):
        self.bits, self.games, self.left = bits, list[object](), list[float]()

    def __call__(
        self, problem: Any, bounds: Any, values: Any, gap: float, clock: Clock, memory_bytes: int, game: object
    ) -> ObserverBound:
        name = list(self.bits)[len(self.games)]
        self.games.append(game)
        self.left.append(clock.left)
        return ObserverBound(RULE, self.bits[name], 0.125)


def search(
    monkeypatch: pytest.MonkeyPatch, alone: Alone, kept: dict[str, float] | None = None, game: Any = None,
    played: Callable[..., Any] | None = None,
) -> ObserverBound:  # fmt: skip
    """The best observers of the pairs of a stand-in, of a game that ends as `played` does."""
    monkeypatch.setattr(pair_observers, "best_observer", alone)
    monkeypatch.setattr(pair_observers, "_is_played", lambda *_: played is not None)
    monkeypatch.setattr(pair_observers, "solve_records_game", played)
    return best_observers(
        watched(), tuple(alone.bits), kept or {}, (None,), None, 1e-3, Clock(30.0, now=lambda: 0.0), 2**30, game
    )


def test_the_best_of_pairs_alone(monkeypatch: pytest.MonkeyPatch):
    """The smallest bound, the first of equal ones; what is known of one pair is said of it alone."""
    for alone, pair, known in (
        (Alone(own=0.5, two=0.25), "two", None),
        (Alone(own=0.25, two=0.5), "own", None),
        (Alone(own=0.5, two=0.5), "own", None),
        (Alone(two=0.5), "two", 0.125),
    ):
        found = search(monkeypatch, alone)
        assert (found.witness.pair, found.upper, found.known) == (pair, min(alone.bits.values()), known)
        assert alone.left == [30 / (len(alone.bits) - number) for number in range(len(alone.bits))]
    assert search(monkeypatch, Alone(own=0.5), {"two": 0.25}).known is None


def test_a_game_of_one_pair_is_used_for_that_pair_alone(monkeypatch: pytest.MonkeyPatch):
    """Not for several, nor for one under bounds on others."""
    game = object()
    for alone, kept, used in (
        (Alone(own=0.5), {}, game),
        (Alone(two=0.5), {}, game),
        (Alone(own=0.5, two=0.5), {}, None),
        (Alone(own=0.5), {"two": 0.25}, None),
    ):
        search(monkeypatch, alone, kept, game)
        assert alone.games == [used] * len(alone.bits)
    none = Alone(own=0.5)
    search(monkeypatch, none)
    assert none.games == [None]


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (TooLargeError("large"), 30.0),
        (InputError("pairs", ["wrong"]), 30.0),
        (CertificateError("wrong"), 30.0),
        (OutOfTime(Stop.INTERRUPTED), 0.0),
    ],
)
def test_where_a_game_does_not_end_one_pair_alone_has_a_bound(
    monkeypatch: pytest.MonkeyPatch, error: Exception, left: float
):
    """In what is left of the time; after an interrupt without any."""
    seconds = list[float]()

    def played(problem: veil.Problem, hide: tuple[str, ...], *, clock: Clock, **_: Any) -> RecordsResult:
        seconds.append(clock.left)
        raise error

    alone = Alone(own=0.5)
    assert search(monkeypatch, alone, played=played).upper == 0.5
    assert alone.left == [left]
    assert seconds == [pytest.approx(24.0)]


def records(*weights: float, lower: float = 0.25) -> RecordsResult:
    """A game of pairs named a, b, c … with these weights."""
    graph = SimpleNamespace(first=np.zeros(1, dtype=int), following=())
    rules = [
        PairRule(**{"name": name, "weight": weight, "records": graph, "costs": np.ones((1, 2))})
        for name, weight in zip("abc", weights, strict=False)
    ]
    game = SimpleNamespace(rules=tuple(rules), lower=lower, game=SimpleNamespace(multiplier=2.0, prices=(3.0,)))
    return cast(Any, game)


def test_a_game_that_was_solved_is_not_solved_again(monkeypatch: pytest.MonkeyPatch):
    proven = ObserverBound(RULE, 0.375)
    monkeypatch.setattr(pair_observers, "_proven", lambda *_: proven)
    solved = object.__new__(RecordsResult)
    assert search(monkeypatch, Alone(own=0.5), game=solved, played=lambda *_, **__: pytest.fail("again")) is proven
    assert search(monkeypatch, Alone(own=0.5), played=lambda *_, **__: solved) is proven


@pytest.mark.parametrize(
    ("weights", "kept", "expected"),
    [
        ((0.5, 0.5), {}, (0.5, 0.5)),
        ((0.75, 0.5), {}, (0.75, 0.5)),
        ((0.25, math.nextafter(0.75, 0)), {}, (0.25, 0.75)),
        ((math.nextafter(0.75, 0), 0.25), {}, (0.75, 0.25)),
        ((math.nextafter(1, 0), 0.5), {"b": 0.1}, (1.0, 0.5)),
        ((2.0, math.nextafter(1, 0)), {"a": 0.1}, (2.0, 1.0)),
        ((math.nextafter(1, 0),), {}, (1.0,)),
        ((math.nextafter(1, 2),), {}, (1.0,)),
    ],
)
def test_weights_of_the_hidden_pairs_sum_to_one_or_more(
    weights: tuple[float, ...], kept: dict[str, float], expected: tuple[float, ...]
):
    """The largest of them grows until they do, by as little as floats can; one observer alone counts once."""
    witness = _witness(records(*weights), kept)
    assert tuple(one.weight for one in witness.rules) == expected
    assert [one.pair for one in witness.rules] == list("abc"[: len(weights)])
    assert sum(Fraction(one.weight) for one in witness.rules if one.pair not in kept) >= 1
    assert (witness.multiplier, witness.prices) == (2.0, (3.0,))
    assert all((one.costs == 1 + MARGIN).all() for one in witness.rules)
    assert all((one.multiplier, one.prices, one.memory) == (0.0, (), "the whole history") for one in witness.others)


@pytest.mark.parametrize(
    ("bound", "lower", "upper", "known"),
    [(0.5, 0.25, 0.5, 0.25), (0.5, 0.75, 0.5, 0.5), (3.0, 0.25, 2.0, 0.25), (0.5, -math.inf, 0.5, None)],
)
def test_the_bound_of_a_game_is_that_of_the_verifier(
    monkeypatch: pytest.MonkeyPatch, bound: float, lower: float, upper: float, known: float | None
):
    """Or the most bits that there are; what is known is never above it."""
    monkeypatch.setattr(pair_observers, "checked_pairs", lambda *_: SimpleNamespace(most_bits=2.0))
    monkeypatch.setattr(pair_observers, "rule_bound", lambda *_: bound)
    found = _proven(example(), records(0.5, 0.5, lower=lower), {}, (None,), None)
    assert (found.upper, found.known) == (upper, known)
