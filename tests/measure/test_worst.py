"""The sequences that tell most: every order by hand, ties, many rows, several blocks; and functions of rows by blocks."""

import math

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.measure.rows import Rows, best_gain, entropy, gained_bits, guesses, likeliest, norm
from veil.measure.worst import ORDERS, Worst, event_names

PRIOR = np.array([0.5, 0.5])
PROBLEM = veil.gallery.load("two-rooms")


@looped("by", ORDERS)
@looped("top", [1, 3, 5, 200])
@looped("blocks", [1, 4])
def test_the_list_is_that_of_a_plain_sort(by: str, top: int, blocks: int):
    """Ties by probability, then by position; the same in one block as in several."""
    joint = np.random.default_rng(3).integers(1, 4, size=(60, 2)) / 32
    rows, _ = Rows.of_joint(joint)
    mass, gain, certainty = joint.sum(axis=1), gained_bits(rows, PRIOR), joint.max(axis=1) / joint.sum(axis=1)
    keys = {"leaked_bits": gain * mass, "gain_bits": gain, "posterior": certainty, "probability": mass}[by]
    expected = sorted(range(60), key=lambda row: (-keys[row], -mass[row], row))[:top]
    worst = Worst(PRIOR, top, (by,))
    for part in np.split(np.arange(60), blocks):
        listed = np.array([[0, number % 2] for number in part])  # sequences `(0, o)`
        worst.add_rows(Rows.of_joint(joint[part])[0], listed.__getitem__)
    found = worst.sequences(PROBLEM, by, 2.0)
    assert [one.probability for one in found] == [2 * mass[row] for row in expected]
    assert [one.gain_bits for one in found] == [gain[row] for row in expected]
    assert [one.leaked_bits for one in found] == [2 * gain[row] * mass[row] for row in expected]
    names = PROBLEM.observer.observations
    assert [one.observations for one in found] == [(names[0], names[row % 2]) for row in expected]
    assert all(
        one.guess == PROBLEM.secret_values[joint[row].argmax()] for one, row in zip(found, expected, strict=True)
    )


def test_orders_that_are_not_known_are_refused():
    with pytest.raises(veil.InputError, match=r"by is 'likely', expected one of \['gain_bits', 'leaked_bits'"):
        Worst(PRIOR, 3, ("likely", "posterior"))
    assert Worst(PRIOR, 3, ("posterior",)).sequences(PROBLEM, "gain_bits") == []


def test_nothing_is_listed_where_nothing_is_asked_for():
    rows, _ = Rows.of_joint(np.full((2, 2), 0.25))
    for worst in (Worst(PRIOR, 0), Worst(PRIOR, 2)):
        worst.add_rows(rows, lambda chosen: np.zeros((len(chosen), 2), dtype=int))
        assert len(worst.sequences(PROBLEM, "posterior")) == worst.top


def test_events_in_the_observers_words():
    """Nothing is received at time 0 if the observer does not see it; without a clock silence leaves no trace."""
    silence, beep = PROBLEM.observer.observations
    late = PROBLEM.replace(observer=PROBLEM.observer.replace(sees_initial=False))
    assert event_names(PROBLEM, np.array([0, 1])) == (silence, beep)
    assert event_names(late, np.array([0, 1])) == (beep,)
    string = PROBLEM.replace(observer=PROBLEM.observer.replace(untimed=True))
    assert event_names(string, np.array([0, 1])) == (beep,)


def by_hand(joint: np.ndarray, gain: np.ndarray, prior: np.ndarray) -> dict[str, list[float]]:
    """Each function of a row, with loops."""
    found: dict[str, list[float]] = {
        name: [] for name in ("entropy", "guesses", "half", "two", "most", "gain", "channel", "kl")
    }
    for row in joint:
        total = math.fsum(row)
        positive = [value for value in row if value]
        found["entropy"].append(-sum(value * math.log2(value / total) for value in positive))
        found["guesses"].append(sum(turn * value for turn, value in enumerate(sorted(row, reverse=True), 1)))
        found["half"].append(sum(value**0.5 for value in positive) ** 2)
        found["two"].append(sum(value**2 for value in positive) ** 0.5)
        found["most"].append(max(row))
        found["gain"].append(max(float(np.dot(action, row)) for action in gain))
        found["channel"].append(max(value / chance for value, chance in zip(row, prior, strict=True)))
        found["kl"].append(sum(v / total * math.log2(v / total / p) for v, p in zip(row, prior, strict=True) if v))
    return found


def test_functions_of_rows_are_those_of_loops():
    rng = np.random.default_rng(1)
    joint = rng.random((9, 4)) * (rng.random((9, 4)) < 0.6)
    joint[3] = 0.0
    joint[5] = [0.25, 0.25, 0.0, 0.25]
    prior, gain = joint.sum(axis=0), rng.normal(size=(3, 4))
    rows, kept = Rows.of_joint(joint)
    assert kept.tolist() == np.flatnonzero(joint.any(axis=1)).tolist()
    assert len(rows) == len(kept)
    np.testing.assert_array_equal(rows.entries(int(np.searchsorted(kept, 5)))[0], [0, 1, 3])
    expected = by_hand(joint[kept], gain, prior)
    functions = {
        "entropy": entropy, "guesses": guesses, "half": norm(0.5), "two": norm(2.0), "most": norm(math.inf),
        "gain": best_gain(gain), "channel": likeliest(prior), "kl": lambda rows: gained_bits(rows, prior),
    }  # fmt: skip
    for name, function in functions.items():
        np.testing.assert_allclose(function(rows), expected[name], rtol=1e-12, err_msg=name)
