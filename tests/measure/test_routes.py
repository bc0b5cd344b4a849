"""Which way an evaluation takes, by sizes, forecasts and the time that is left, all of which are given here."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from veil.common.clock import Clock
from veil.measure import evaluate, exact
from veil.measure import quantities as quantities_module
from veil.measure.bracket import Bounds
from veil.measure.evaluate import _Auto, _Settings
from veil.measure.exact import Budget, walk_all
from veil.measure.quantities import quantities
from veil.measure.result import Opacity

WIDTH = 2.0**-10
FOUND = Opacity(0.5, 0.5, 0.5, 1.0, "exact", 7, reason="found")


def chain_of(states: int = 3, events: int = 4, **more: Any) -> Any:
    parts: dict[str, Any] = {"silent": None, "followed": None} | more
    return SimpleNamespace(hidden=SimpleNamespace(num_states=states, num_events=events), **parts)


def size_of(seconds: float, whole: bool = True) -> Any:
    return SimpleNamespace(
        seconds=lambda chain, gradient: seconds * (3 if gradient else 1), exact=whole, text=lambda: "12"
    )


# All sequences through an objective.


class Walks:
    """What `walk_all` tried, in order; rows with sparse support end in time where `sparse` says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: float, seconds: float, *, sparse: bool = False):
        self.log = list[Any]()
        monkeypatch.setattr(exact, "naive_bound", lambda chain: number)
        monkeypatch.setattr(exact, "tree_size", lambda chain, clock: size_of(seconds))
        walk = SimpleNamespace(run=lambda objective, gradient: "slope")

        def try_sparse(chain: Any, budget: Any, make: Any, most: float, **given: Any) -> Any:
            self.log.append(most)
            return ("objective", walk, None) if sparse else None

        monkeypatch.setattr(exact, "try_sparse", try_sparse)
        monkeypatch.setattr(exact, "SparseWalk", lambda *_: self.log.append("rows") or walk)
        monkeypatch.setattr(exact, "UntimedWalk", lambda *_: self.log.append("strings") or walk)
        monkeypatch.setattr(exact, "prepare", lambda *_, **__: self.log.append("dense") or walk)


@pytest.mark.parametrize(
    ("number", "seconds", "events", "tried"),
    [
        (20_000, 1e9, 500, ["dense"]),  # small: not even counted
        (1e6, 0.4, 4, ["dense"]),
        (1e6, 4.0, 4, [0.2, "dense"]),  # a twentieth of what dense messages take
        (1e6, 1e9, 4, [1.0, "dense"]),  # a second at most
        (1e6, 0.4, 101, [0.1, "dense"]),  # with many events no forecast holds
        (1e6, 4.0, 101, [0.1, 0.2, "dense"]),
        (1e6, 0.4, 100, ["dense"]),
    ],
)
def test_dense_messages_or_rows_with_sparse_support(
    monkeypatch: pytest.MonkeyPatch, number: float, seconds: float, events: int, tried: list[Any]
):
    walks = Walks(monkeypatch, number, seconds)
    walk_all(chain_of(events=events), Budget(), object, gradient=False)  # type: ignore[type-var]
    assert walks.log == [pytest.approx(one) if isinstance(one, float) else one for one in tried]
    if tried[0] != "dense":
        walks = Walks(monkeypatch, number, seconds, sparse=True)
        found = walk_all(chain_of(events=events), Budget(), object, gradient=False)  # type: ignore[type-var]
        assert (found[0], walks.log) == ("objective", [pytest.approx(tried[0])])


def test_a_trial_is_no_longer_than_a_twentieth_of_the_limit(monkeypatch: pytest.MonkeyPatch):
    walks = Walks(monkeypatch, 1e6, 1e9)
    walk_all(chain_of(), Budget(time_limit=10.0), object, gradient=False)  # type: ignore[type-var]
    assert walks.log == [pytest.approx(0.5), "dense"]
    walks = Walks(monkeypatch, 1e6, 0.3)
    walk_all(chain_of(), Budget(), object, gradient=True)  # type: ignore[type-var]
    assert walks.log == [pytest.approx(0.045), "dense"]  # a gradient takes longer


def test_merging_is_dense_and_what_is_not_counted_is_sparse(monkeypatch: pytest.MonkeyPatch):
    for chain, budget, tried in (
        (chain_of(), Budget(merge_tolerance=1e-9), "dense"),
        (chain_of(states=2001), Budget(), "rows"),
        (chain_of(states=2001), Budget(merge_tolerance=1e-9), "rows"),
        (chain_of(followed="policy"), Budget(), "rows"),
        (chain_of(silent=0), Budget(), "strings"),
        (chain_of(silent=0, states=2001), Budget(), "strings"),
    ):
        walks = Walks(monkeypatch, 1e6, 100.0)
        found = walk_all(chain, budget, object, gradient=True)  # type: ignore[type-var]
        assert walks.log == [tried]
        assert found[2] == "slope"


# The choice of `auto`.


class Choice:
    """What `auto` did, in order, and its result."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        size: Any = None,
        fits: bool = True,
        sparse: bool = False,
        width: float = 1.0,
        states: int = 3,
        limit: float = 20.0,
        gradient: bool = False,
        met: tuple[int, int] = (2, 9),
    ):
        self.log, self.now, self.part, self.reason = list[Any](), 0.0, math.nan, ""
        self.result: Any
        budget = Budget(time_limit=limit)
        object.__setattr__(budget, "clock", Clock(limit, now=lambda: self.now))
        slope = np.ones(2) if gradient else None

        def enumerated(chain: Any, part: Budget) -> Any:
            self.log.append("exact")
            if not fits:
                raise veil.TooLargeError("too large")
            return (FOUND, slope) if gradient else FOUND

        def tried(chain: Any, part: Any, make: Any, most: float, **_: Any) -> Any:
            self.log.append(("sparse", round(most, 9)))
            return ("objective", SimpleNamespace(num_sequences=1234.0), slope) if sparse else None

        def deepened(chain: Any, part: Budget, *, width: float, worth_seconds: float) -> Any:
            self.log.append(("bracket", worth_seconds))
            self.part = part.clock.time_limit / limit
            return [bounds]

        bounds = Bounds(0.25, 0.25 + width, *met)
        sampled = Opacity(0.4, 0.0, 1.0, 1.0, "sampled", 5)

        def drawn(chain: Any, settings: Any, reason: str) -> Any:
            self.log.append("sampled")
            self.reason = reason
            return (sampled, slope) if gradient else sampled

        name = "exact_gradient" if gradient else "exact_opacity"
        monkeypatch.setattr(evaluate, name, enumerated)
        monkeypatch.setattr(evaluate, "tree_size", lambda *_: size)
        monkeypatch.setattr(evaluate, "try_sparse", tried)
        monkeypatch.setattr(evaluate, "deepen", deepened)
        monkeypatch.setattr(evaluate, "exact_result", lambda chain, walk, objective, reason: reason)
        monkeypatch.setattr(evaluate, "_sampled_gradient" if gradient else "_sampled", drawn)
        monkeypatch.setattr(evaluate, "bracket_result", lambda chain, best, reason: reason)
        monkeypatch.setattr(evaluate, "bracket_slope", lambda chain, best, budget, reason: (reason, slope))
        settings = _Settings("auto", WIDTH, 2000, None, 0, budget)
        self.result, self.slope = _Auto(chain_of(states), settings, gradient).run()


@pytest.mark.parametrize("gradient", [False, True])
def test_auto_enumerates_within_seconds(monkeypatch: pytest.MonkeyPatch, gradient: bool):
    """Five at most, or a third of the time that is left."""
    scale = 3 if gradient else 1
    found = Choice(monkeypatch, size=size_of(4.9 / scale), gradient=gradient)
    assert found.log == ["exact"]
    assert found.result.reason == "all 12 possible sequences can be enumerated in a few seconds, as found"
    assert (found.slope is not None) == gradient
    for one in (
        Choice(monkeypatch, size=size_of(5.1 / scale), gradient=gradient),
        Choice(monkeypatch, size=size_of(2.1 / scale), limit=6.0, gradient=gradient),
        Choice(monkeypatch, size=size_of(1.0 / scale, whole=False), gradient=gradient),
    ):
        assert one.log[0][0] == "sparse"


def test_auto_goes_on_where_a_forecast_was_wrong(monkeypatch: pytest.MonkeyPatch):
    found = Choice(monkeypatch, size=size_of(1.0), fits=False, width=WIDTH)
    assert [one if isinstance(one, str) else one[0] for one in found.log] == ["exact", "sparse", "bracket"]


def test_auto_tries_rows_with_sparse_support(monkeypatch: pytest.MonkeyPatch):
    """For three tenths of a second, or a tenth of the time; for five seconds where nothing can be counted."""
    cases: list[tuple[dict[str, Any], float]] = [
        ({}, 0.3),
        ({"limit": 2.0}, 0.2),
        ({"states": 2001, "limit": 100.0}, 5.0),
    ]
    for settings, most in cases:
        found = Choice(monkeypatch, size=size_of(9.0), sparse=True, **settings)
        assert found.log == [("sparse", most)]
        assert found.result == "all 1,234 possible sequences enumerated as rows with sparse support"


@pytest.mark.parametrize("gradient", [False, True])
def test_auto_brackets_where_the_bounds_reach_the_width(monkeypatch: pytest.MonkeyPatch, gradient: bool):
    found = Choice(monkeypatch, size=size_of(100.0), width=WIDTH, gradient=gradient)
    assert found.log[-1] == ("bracket", 300.0 if gradient else 100.0)
    assert found.part == pytest.approx(0.2 if gradient else 0.5)
    assert found.result.startswith(
        "bracket: 12 sequences are possible, too many to enumerate within the budget; windows"
    )
    assert found.result.endswith("reach the width")
    assert (found.slope is not None) == gradient
    many = Choice(monkeypatch, states=2001, width=WIDTH, gradient=gradient)
    assert many.log[-1] == ("bracket", math.inf)
    assert "the possible sequences over 2,001 hidden states are too many" in many.result


def test_auto_enumerates_where_no_bracket_closes_and_there_is_time(monkeypatch: pytest.MonkeyPatch):
    """Three times the forecast has to be left."""
    found = Choice(monkeypatch, size=size_of(6.5), width=0.1)
    assert found.log[-1] == "exact"
    assert found.result.reason.startswith(
        "all possible sequences enumerated, forecast to take 6 s: no bracket closes sooner"
    )
    late = Choice(monkeypatch, size=size_of(6.8), width=0.1)
    assert late.log[-1] == "sampled"
    wrong = Choice(monkeypatch, size=size_of(6.5), width=0.1, fits=False)
    assert wrong.log[-2:] == ["exact", "sampled"]


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize(("met", "said"), [((2, 9), True), ((0, 3), True), ((1, 0), True), ((0, 0), False)])
def test_auto_samples_and_keeps_the_bounds(
    monkeypatch: pytest.MonkeyPatch, gradient: bool, met: tuple[int, int], said: bool
):
    found = Choice(monkeypatch, size=size_of(100.0), width=0.5, met=met, gradient=gradient)
    assert found.log[-1] == "sampled"
    assert (found.result.lower, found.result.upper, found.result.bits) == (0.25, 0.75, 0.4)
    assert found.reason.startswith("sampled: 12 sequences are possible")
    assert ("proven bounds, kept as lower and upper, are still 0.5 bits apart" in found.reason) == said


def test_chains_of_two_thousand_states_are_counted(monkeypatch: pytest.MonkeyPatch):
    walks = Walks(monkeypatch, 1e6, 4.0)
    walk_all(chain_of(states=2000), Budget(), object, gradient=False)  # type: ignore[type-var]
    assert walks.log == [pytest.approx(0.2), "dense"]
    assert Choice(monkeypatch, states=2000, size=size_of(1.0)).log == ["exact"]
    assert Choice(monkeypatch, states=2000, size=size_of(9.0), sparse=True, limit=100.0).log == [("sparse", 0.3)]


def test_numbers_of_sequences_in_words():
    assert evaluate._number_text(999_999_999_999_999) == "999,999,999,999,999"
    assert evaluate._number_text(1e15) == "1e+15"


# The way to every quantity at once.


class Passes:
    """The passes that `quantities` makes: whether sequences are kept apart, and the seconds each may take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fits: int = 0):
        self.log = list[Any]()

        def walk(chain: Any, budget: Budget, make: Any, *, gradient: bool, keep_events: bool) -> Any:
            self.log.append((keep_events, budget.time_limit))
            if len(self.log) <= fits:
                raise veil.TooLargeError("too large")
            return walk_all(chain, budget, make, gradient=gradient, keep_events=keep_events)

        monkeypatch.setattr(quantities_module, "walk_all", walk)


@pytest.mark.parametrize(("method", "seconds"), [("exact", 150.0), ("auto", 5.0)])
def test_quantities_keep_sequences_apart_where_they_fit(monkeypatch: pytest.MonkeyPatch, method: Any, seconds: float):
    """Half of the time for a pass, a quarter where a sample may follow; merged sequences are not listed."""
    problem = veil.gallery.load("two-rooms", horizon=3)
    policy = veil.MarkovPolicy.uniform(problem)
    passes = Passes(monkeypatch)
    whole = quantities(problem, policy, method)
    assert passes.log == [(True, seconds)]
    assert whole.worst["leaked_bits"]
    assert whole.reason == "all possible sequences were enumerated"
    passes = Passes(monkeypatch, fits=1)
    merged = quantities(problem, policy, method)
    assert passes.log == [(True, seconds), (False, seconds)]
    assert merged.reason.endswith("merged where they tell the same, so that the worst ones are not listed")
    assert not any(merged.worst.values())
    assert merged.entropy_bits.posterior == pytest.approx(whole.entropy_bits.posterior, abs=1e-12)
    passes = Passes(monkeypatch)
    assert not any(quantities(problem, policy, method, top=0, time_limit=8.0).worst.values())
    assert passes.log == [(False, 2.0 if method == "auto" else 4.0)]


def test_quantities_are_sampled_where_no_pass_fits(monkeypatch: pytest.MonkeyPatch):
    problem = veil.gallery.load("two-rooms", horizon=3)
    policy = veil.MarkovPolicy.uniform(problem)
    Passes(monkeypatch, fits=2)
    found = quantities(problem, policy, "auto", sequences=40)
    assert (found.method, found.num_sequences) == ("sampled", 40)
    assert found.reason == "all possible sequences were too many to enumerate within the budget"
    Passes(monkeypatch, fits=2)
    with pytest.raises(veil.TooLargeError):
        quantities(problem, policy, "exact")
    drawn = quantities(problem, policy, "sampled", sequences=40)
    assert (drawn.reason, drawn.entropy_bits.posterior) == ("40 drawn sequences", found.entropy_bits.posterior)
