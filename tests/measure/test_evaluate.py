"""One door for every method: what `auto` chooses and says, and what each method answers."""

import time
from typing import Any

import numpy as np
import pytest

import veil
from tests.seeds import looped

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


@pytest.mark.slow
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


def test_exact_refuses_before_it_starts_and_names_the_other_methods():
    with pytest.raises(veil.TooLargeError, match=r"method='bracket'.*method='sampled'.*method='auto'"):
        veil.opacity(long_chain(), uniform(long_chain()), "exact")


def test_a_bracket_keeps_to_its_time():
    problem = veil.gallery.load("paper-false-alarms", horizon=60)
    begin = time.process_time()
    found = veil.opacity(problem, uniform(problem), "bracket", width=0.0, time_limit=0.7)
    assert time.process_time() - begin < 10
    assert 0 < found.lower < found.upper < found.prior_bits + 1e-9


# Gradients


def test_the_gradient_of_auto_follows_the_size():
    for problem, method in ((long_chain(5), "exact"), (large_grid(), "exact"), (noisy_grid(), "sampled"),
                            (long_chain(), "bracket")):  # fmt: skip
        theta = np.zeros((problem.num_states, problem.num_actions))
        found, gradient = veil.opacity_gradient(problem, theta, "auto", sequences=200, width=1e-2, time_limit=4)
        assert found.method == method
        assert np.isfinite(gradient).all()
        assert gradient.any()


# Settings and results


@looped(
    ("settings", "says"),
    [
        ({"method": "guess"}, "method is 'guess', expected one of 'auto', 'exact', 'bracket', 'sampled'"),
        ({"width": -1.0}, "width is -1.0, expected bits, 0 or more"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_value_and_gradient(settings: dict[str, Any], says: str):
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match=says):
        veil.opacity(problem, uniform(problem), **settings)
    with pytest.raises(veil.InputError, match=says):
        veil.opacity_gradient(problem, np.zeros((2, 2)), **settings)


def test_the_text_of_each_method():
    problem = veil.gallery.load("two-rooms")
    exact, bracket, sample = (veil.opacity(problem, uniform(problem), method) for method in METHODS[1:])  # type: ignore[arg-type]
    assert str(exact) == "hidden 0.451205 of 1.000000 bits (exact, 2 sequences); leaked 0.548795 bits"
    assert "(bracket" in str(bracket)
    assert f"{sample.bits:.6f} ± {sample.std_error:.2g} of 1.000000 bits" in str(sample)
    assert "(sampled, 2,000 sequences)" in str(sample)
