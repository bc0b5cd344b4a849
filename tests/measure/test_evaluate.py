"""One door for every method: what `auto` chooses and says, and what each method answers."""

import time
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import small_cases
from veil.measure import evaluate
from veil.measure.bracket import Bounds

METHODS = ("auto", "exact", "bracket", "sampled")


def large_grid() -> veil.Problem:
    """3,600 cells, a sensor and a secret near the start."""
    near = [(row, column) for row in range(28, 33) for column in range(28, 33)]
    world = veil.GridWorld(
        60, 60, starts=(30, 30), secrets=[(31, 31), (30, 31)], sensors=[veil.Sensor("camera", near[:12], 0.9)]
    )
    return world.problem(10)


def noisy_grid() -> veil.Problem:
    """The same cells, each with any observation: no history excludes a state that can be reached."""
    problem = large_grid()
    emissions = np.random.default_rng(0).dirichlet(np.ones(3), size=problem.num_states)
    return problem.replace(observer=veil.Observer(emissions), horizon=40)


def long_chain(horizon: int = 400) -> veil.Problem:
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.full(3, 5.0), size=(3, 2)), np.zeros((3, 2)), 0)
    return veil.Problem(model, veil.Observer(rng.dirichlet(np.ones(2), size=3)), veil.LastState({0}), horizon)


def uniform(problem: veil.Problem) -> veil.MarkovPolicy:
    return veil.MarkovPolicy.uniform(problem)


# What auto does, and says


def test_auto_enumerates_what_is_small():
    problem = veil.gallery.load("paper-last-state")
    found = veil.opacity(problem, uniform(problem))
    assert found.method == "exact"
    assert found.lower == found.upper == found.bits
    assert "2,579 possible sequences can be enumerated" in found.reason
    assert found.bits == veil.opacity(problem, uniform(problem), "exact").bits


def test_auto_brackets_a_long_horizon():
    found = veil.opacity(long_chain(), uniform(long_chain()), width=1e-4)
    assert found.method == "bracket"
    assert found.upper - found.lower <= 1e-4
    for part in ("bracket: more than", "too many to enumerate", "windows of", "reach the width"):
        assert part in found.reason


def test_auto_enumerates_a_large_model_with_few_possible_sequences():
    problem = large_grid()
    found = veil.opacity(problem, uniform(problem))
    assert found.method == "exact"
    assert found.num_sequences == 2**10
    assert "1,024 possible sequences can be enumerated in a few seconds, as dense messages" in found.reason
    sample = veil.opacity(problem, uniform(problem), "sampled")
    assert abs(sample.bits - found.bits) <= 5 * sample.std_error


def test_auto_samples_a_large_model_where_everything_is_possible():
    problem = noisy_grid()
    found = veil.opacity(problem, uniform(problem), time_limit=4)
    assert found.method == "sampled"
    assert "sampled: the possible sequences over" in found.reason
    assert 0 < found.std_error < 0.02
    assert found.num_sequences == 2000


def test_auto_samples_where_no_window_gets_narrow(monkeypatch: pytest.MonkeyPatch):
    """A ring seen through its parity never forgets: what the bracket proved stays as the bounds of the sample.

    Its histories all merge, so that it is exact in an instant; here that is not tried.
    """
    monkeypatch.setattr(evaluate, "_TRIAL_SECONDS", 0.0)
    transitions = np.zeros((4, 1, 4))
    for state in range(4):
        transitions[state, 0, [state, (state + 1) % 4]] = 0.5
    model = veil.Model(transitions, np.zeros((4, 1)), np.full(4, 0.25))
    problem = veil.Problem(model, veil.Observer(np.eye(2)[[0, 1, 0, 1]]), veil.LastState({0}), 300)
    found = veil.opacity(problem, uniform(problem), time_limit=20)
    assert found.method == "sampled"
    assert "the proven bounds, kept as lower and upper, are still 0.5 bits apart" in found.reason
    assert found.lower == pytest.approx(0, abs=1e-9)
    assert found.upper == pytest.approx(0.5, abs=1e-6)
    low, high = found.interval()
    assert low <= 0.5 + 1e-9
    assert high <= found.upper
    # The estimate itself is reported as it is, inside the proven bounds or not.
    assert found.bits == veil.opacity(problem, uniform(problem), "sampled").bits
    monkeypatch.undo()
    exact = veil.opacity(problem, uniform(problem), time_limit=30)
    assert exact.method == "exact"
    assert exact.bits == pytest.approx(0.5, abs=1e-9)


def test_auto_answers_for_false_alarms_on_every_sensor():
    """No history is impossible: 5^11 sequences, within 30 s."""
    problem = veil.gallery.load("paper-false-alarms")
    begin = time.process_time()
    found = veil.opacity(problem, uniform(problem))
    assert time.process_time() - begin < 30
    low, high = found.interval()
    assert high - low <= 1e-3
    assert found.method in ("exact", "bracket")
    assert "48,828,125" in found.reason


def test_auto_brackets_false_alarms_where_enumerating_takes_too_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evaluate, "_AUTO_EXACT_SECONDS", 1e-3)
    problem = veil.gallery.load("paper-false-alarms")
    begin = time.process_time()
    found = veil.opacity(problem, uniform(problem), width=1e-2)
    assert time.process_time() - begin < 30
    assert found.method == "bracket"
    assert found.upper - found.lower <= 1e-2
    assert found.lower <= 0.331217 + 1e-6
    assert found.upper >= 0.331217 - 1e-6


def test_every_method_agrees_on_small_problems():
    for case in small_cases(30):
        exact = veil.opacity(case.problem, case.policy, "exact")
        assert veil.opacity(case.problem, case.policy).bits == exact.bits
        bracket = veil.opacity(case.problem, case.policy, "bracket", width=1e-6)
        assert bracket.lower <= exact.bits <= bracket.upper <= bracket.lower + 1e-6
        sample = veil.opacity(case.problem, case.policy, "sampled")
        assert abs(sample.bits - exact.bits) <= 5 * sample.std_error + 1e-9
        assert {one.prior_bits for one in (bracket, sample)} == {exact.prior_bits}


def test_the_defaults_are_those_of_auto():
    problem = veil.gallery.load("two-rooms")
    assert veil.opacity(problem, uniform(problem)) == veil.opacity(problem, uniform(problem), "auto")


@pytest.mark.parametrize("walked", [0, 2])
def test_auto_enumerates_or_samples_where_no_bracket_closes(walked: int, monkeypatch: pytest.MonkeyPatch):
    """Enumeration where the time left is several times its forecast; else a sample, with the bounds that are proven."""
    monkeypatch.setattr(evaluate, "_AUTO_EXACT_SECONDS", -1.0)
    monkeypatch.setattr(evaluate, "_TRIAL_SECONDS", 0.0)
    monkeypatch.setattr(evaluate, "deepen", lambda *_, **__: iter([Bounds(0.125, 1.125, walked, 5 * walked)]))
    problem, theta = veil.gallery.load("two-rooms"), np.zeros((2, 2))
    exact, wanted = veil.opacity_gradient(problem, theta, "exact")
    found, slope = veil.opacity_gradient(problem, theta, "auto")
    for one in (veil.opacity(problem, uniform(problem)), found):
        assert (one.method, one.bits, one.num_sequences) == ("exact", exact.bits, exact.num_sequences)
        assert "forecast to take 0 s: no bracket closes sooner" in one.reason
    np.testing.assert_array_equal(slope, wanted)
    monkeypatch.setattr(evaluate.TreeSize, "seconds", lambda *_, **__: 1e9)
    for one in (veil.opacity(problem, uniform(problem)), veil.opacity_gradient(problem, theta, "auto")[0]):
        assert (one.method, one.lower, one.upper, one.num_sequences) == ("sampled", 0.125, 1.125, 2000)
        assert one.reason.startswith("sampled: 2 sequences are possible, too many to enumerate within the budget")
        assert ("are still 1 bits apart" in one.reason) == (walked > 0)


def test_two_thousand_sequences_are_drawn_by_default():
    problem = veil.gallery.load("two-rooms")
    assert veil.opacity(problem, uniform(problem), "sampled").num_sequences == 2000
    assert veil.opacity_gradient(problem, np.zeros((2, 2)), "sampled")[0].num_sequences == 2000


def test_exact_refuses_before_it_starts_and_names_the_other_methods():
    with pytest.raises(veil.TooLargeError, match=r"method='bracket'.*method='sampled'.*method='auto'"):
        veil.opacity(long_chain(), uniform(long_chain()), "exact")


def test_a_bracket_keeps_to_its_time():
    problem = veil.gallery.load("paper-false-alarms", horizon=60)
    begin = time.process_time()
    found = veil.opacity(problem, uniform(problem), "bracket", width=0.0, time_limit=2.0)
    assert time.process_time() - begin < 10
    assert 0 < found.lower < found.upper < found.prior_bits + 1e-9


# Gradients


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
def test_every_method_gives_a_gradient(timed: bool):
    problem = long_chain(5)
    theta = np.random.default_rng(1).normal(size=(5, 3, 2) if timed else (3, 2))
    exact, expected = veil.opacity_gradient(problem, theta)
    assert exact.method == "exact"
    assert expected.shape == theta.shape
    assert np.abs(expected).max() > 1e-3
    for method in METHODS:
        found, gradient = veil.opacity_gradient(problem, theta, method, width=1e-9, sequences=20_000)  # type: ignore[arg-type]
        assert gradient.shape == theta.shape
        np.testing.assert_allclose(gradient.sum(axis=-1), 0, atol=1e-12)  # a shift of theta changes nothing
        np.testing.assert_allclose(gradient, expected, atol=0.01 if method == "sampled" else 1e-9)
        assert found.method == ("exact" if method == "auto" else method)


def test_the_gradient_of_auto_follows_the_size():
    for problem, method in ((long_chain(5), "exact"), (large_grid(), "exact"), (noisy_grid(), "sampled"),
                            (long_chain(), "bracket")):  # fmt: skip
        theta = np.zeros((problem.num_states, problem.num_actions))
        found, gradient = veil.opacity_gradient(problem, theta, "auto", sequences=200, width=1e-2, time_limit=4)
        assert found.method == method
        assert np.isfinite(gradient).all()
        assert gradient.any()


@pytest.mark.parametrize("horizon", [5, 400])
def test_the_gradient_of_auto_says_why(horizon: int):
    problem = long_chain(horizon)
    found, _ = veil.opacity_gradient(problem, np.zeros((3, 2)), "auto", width=1e-2)
    assert "sequences" in found.reason


# Settings and results


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"method": "guess"}, "method is 'guess', expected one of 'auto', 'exact', 'bracket', 'sampled'"),
        ({"width": -1.0}, "width is -1.0, expected bits, 0 or more"),
        ({"width": float("nan")}, "width is nan"),
        ({"sequences": 1}, "sequences is 1"),
        ({"seed": -1}, "seed is -1"),
        ({"memory_bytes": 10}, "memory_bytes is 10"),
        ({"time_limit": 0}, "time_limit is 0"),
        ({"time_limit": float("nan")}, "time_limit is nan"),
        ({"merge_tolerance": 2.0}, "merge_tolerance is 2.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_value_and_gradient(settings: dict[str, Any], says: str):
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match=says):
        veil.opacity(problem, uniform(problem), **settings)
    with pytest.raises(veil.InputError, match=says):
        veil.opacity_gradient(problem, np.zeros((2, 2)), **settings)


@pytest.mark.parametrize("width", ["narrow", None])
def test_a_width_that_is_no_number_is_refused(width: Any):
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match="width"):
        veil.opacity(problem, uniform(problem), "bracket", width=width)


def test_a_policy_that_does_not_fit_is_refused_by_every_method():
    problem = veil.gallery.load("two-rooms")
    for method in METHODS:
        with pytest.raises(veil.InputError):
            veil.opacity(problem, veil.MarkovPolicy(np.full((3, 2), 0.5)), method)  # type: ignore[arg-type]


def test_the_text_of_each_method():
    problem = veil.gallery.load("two-rooms")
    exact, bracket, sample = (veil.opacity(problem, uniform(problem), method) for method in METHODS[1:])  # type: ignore[arg-type]
    assert str(exact) == "hidden 0.451205 of 1.000000 bits (exact, 2 sequences); leaked 0.548795 bits"
    assert "(bracket" in str(bracket)
    assert f"{sample.bits:.6f} ± {sample.std_error:.2g} of 1.000000 bits" in str(sample)
    assert "(sampled, 2,000 sequences)" in str(sample)


def test_the_interval_of_each_method():
    found = veil.Opacity(bits=0.5, lower=0.4, upper=0.6, prior_bits=1.0, method="bracket", num_sequences=3)
    assert found.interval() == found.interval(0.5) == (0.4, 0.6)
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    sample = veil.Opacity(**{**values, "method": "sampled", "std_error": 0.01})
    assert sample.interval() == pytest.approx((0.5 - 0.0195996, 0.5 + 0.0195996), abs=1e-6)
    assert sample.interval(0.5) == pytest.approx((0.5 - 0.00674490, 0.5 + 0.00674490), abs=1e-6)
    wide = veil.Opacity(**{**values, "method": "sampled", "std_error": 1.0})
    assert wide.interval() == (0.4, 0.6)  # never outside what is proven
    for confidence in (0.0, 1.0, -0.5, float("nan")):
        with pytest.raises(veil.InputError, match="confidence is"):
            sample.interval(confidence)
