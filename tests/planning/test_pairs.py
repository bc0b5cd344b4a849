"""Planning with pairs: bounds, the least of several, a friend and a foe, an observer who may be wrong, and their game."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW, two_sensors
from tests.proof.plain import code

FAST: Any = FEW | {"memory": "timed", "starts": 3, "iterations": 100}


@pytest.fixture(scope="module")
def free() -> veil.Solution:
    """The own pair alone is hidden."""
    return veil.solve(two_sensors(1), **FAST)


@pytest.fixture(scope="module")
def most() -> veil.Solution:
    """Another pair is hidden instead."""
    return veil.solve(two_sensors(1), hide="other", **FAST)


def test_the_least_of_several_lies_between_its_bounds(free: veil.Solution, most: veil.Solution):
    """`max min` is at least the least of either optimum, and at most the smaller of the two optima."""
    problem = two_sensors(1)
    least = veil.solve(problem, hide="own, other", **FAST)
    assert free.least_bits == free.opacity.bits
    assert most.least_bits == most.pairs[0].bits
    assert least.least_bits == min(least.opacity.bits, least.pairs[0].bits)
    alone = veil.solve(problem.only("other"), **FAST)
    assert most.least_bits == pytest.approx(alone.opacity.bits, abs=1e-4)
    assert least.least_bits <= min(free.least_bits, most.least_bits) + 1e-9
    for other in (free, most):
        assert least.least_bits >= min(other.opacity.bits, other.pairs[0].bits) - 1e-9
    assert f"{least.least_bits:.6f} bits, of the pairs own, other" in least.summary()
    for pair in least.pairs:
        assert pair.bits == pytest.approx(veil.opacity(problem, least.policy, pair=pair.name).bits, abs=1e-12)


def test_the_least_of_several_is_proven(free: veil.Solution):
    short = veil.solve(two_sensors(1), memory="timed", hide="own, other", iterations=40, starts=2, progress=False)
    assert short.certificate is not None
    assert short.certificate.lower == pytest.approx(short.least_bits, abs=1e-9)
    assert short.least_bits <= short.certificate.upper < short.least_bits + 0.05
    assert "in the least of own and other" in short.summary()


def test_bounds_are_met_and_have_a_price(free: veil.Solution, most: veil.Solution):
    """A bound on another pair costs bits of the own one, as its price says; a bound that is out of reach is named."""
    wanted = 0.5 * (free.pairs[0].bits + most.pairs[0].bits)
    assert free.pairs[0].bits + 0.01 < wanted < most.pairs[0].bits - 0.01
    long: dict[str, Any] = FAST | {"iterations": 120, "starts": 2}
    bounded = [veil.solve(two_sensors(1, min=bits), **long) for bits in (wanted, wanted + 1e-3)]
    assert all(one.feasible and one.pairs[0].met for one in bounded)
    assert bounded[0].pairs[0].bits == pytest.approx(wanted, abs=1e-4)
    assert bounded[0].opacity.bits <= free.opacity.bits
    cost = (bounded[0].opacity.bits - bounded[1].opacity.bits) / 1e-3
    assert bounded[0].pairs[0].price_bits == pytest.approx(cost, rel=0.1)
    short: dict[str, Any] = FAST | {"iterations": 20}
    missed = veil.solve(two_sensors(1, min=most.pairs[0].bits + 0.1), **short)
    assert (missed.status, missed.feasible) == (veil.Status.INFEASIBLE, False)
    assert "H(other) ≥" in missed.detail


def test_a_friend_and_a_foe():
    """A friend who may miss few bits, by a bound or by a term: the friend knows more than without, the foe no less."""
    problem = two_sensors(5)
    free = veil.solve(problem, **FAST)
    limit = free.pairs[0].bits - 0.03
    bounded = veil.solve(two_sensors(5, max=limit), **FAST)
    assert bounded.feasible
    assert bounded.pairs[0].bits <= limit
    assert bounded.opacity.bits <= free.opacity.bits + 1e-9
    weighed = veil.solve(problem, task="-1*H(other)", **FAST)
    assert weighed.task_value == pytest.approx(-weighed.pairs[0].bits, abs=1e-12)
    score = [one.opacity.bits - one.pairs[0].bits for one in (weighed, free, bounded)]
    assert score[0] >= max(score) - 1e-6


def test_primal_dual_keeps_bounds_on_pairs():
    """The paper's algorithm has a multiplier for each bound."""
    solution = veil.solve(two_sensors(1, min=0.6), "primal-dual", "timed", iterations=150, **FEW)
    assert solution.feasible
    assert solution.pairs[0].met


def test_an_observer_who_may_be_wrong_is_misled():
    """Who assumes the uniform policy loses more bits than one who knows the policy; a search for that raises the loss."""
    naive = veil.Pair("naive", belief=veil.Belief("uniform", doubt=0.1))
    problem = two_sensors(1).replace(pairs=[naive])
    plain = veil.solve(problem, **FAST | {"iterations": 40})
    misled = veil.solve(problem, hide="naive", **FAST | {"iterations": 40})
    for found in (plain, misled):
        exact = veil.pair_values(problem, found.policy, "exact")[0]
        assert found.pairs[0].loss_bits == pytest.approx(exact.loss_bits, abs=1e-9)
        assert exact.loss_bits >= found.opacity.bits - 1e-9
    assert misled.pairs[0].loss_bits >= plain.pairs[0].loss_bits - 1e-6
    bound = 0.5 * (plain.pairs[0].loss_bits + misled.pairs[0].loss_bits)
    kept = veil.solve(problem.replace(pairs=[replace(naive, min=bound)]), **FAST | {"iterations": 40})
    assert kept.feasible
    assert kept.pairs[0].loss_bits >= bound
    assert kept.opacity.bits <= plain.opacity.bits + 1e-3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hide": "foe"}, "there is no pair 'foe'"),
        ({"task": "H(foe)"}, "column 1: there is no pair 'foe'"),
        ({"hide": "other", "objective": "guess"}, "objective='entropy'"),
        ({"hide": "other", "goal": "transparent"}, "goal='opaque'"),
        ({"hide": "other", "min_opacity": 0.1}, "use one"),
        ({"hide": "other", "method": "primal-dual"}, "hide: method='primal-dual' does not have this option"),
        ({"task": "H(other", "method": "ascent"}, "never closed"),
        ({"features": "one-hot"}, "trained on samples"),
    ],
)
def test_what_is_refused(options: dict[str, object], words: str):
    """Options that do not go together are refused before any work, with the remedy."""
    with pytest.raises(veil.VeilError, match=words):
        veil.solve(two_sensors(0, min=0.1), **options)  # type: ignore[arg-type]


def test_a_pair_that_is_too_large_is_named_where_exact_values_are_asked_for():
    """The own observer sees one thing for ever, another sees noise: its sequences cannot be enumerated."""
    problem = two_sensors(1)
    noise = veil.Observer(np.full((3, 4), 0.25))
    wide = problem.replace(observer=veil.Observer(np.ones((3, 1))), horizon=20, pairs=[veil.Pair("noise", noise)])
    with pytest.raises(veil.TooLargeError, match="pair 'noise'"):
        veil.solve(wide, hide="own, noise", evaluation="exact", **FAST)
    found = veil.solve(wide, hide="own, noise", **FAST | {"iterations": 1, "starts": 1})
    assert found.settings["gradients"] == "fresh samples"


# The game against the observers of several pairs


def sensors(**bounds: Any) -> veil.Problem:
    """The problem with the pair of another observer alone, whose secret is the same."""
    return two_sensors(1, **bounds).replace(pairs=two_sensors(1, **bounds).pairs[:1])


@pytest.mark.parametrize("hide", ["own, other", "other"])
def test_the_game_of_pairs_is_proven_from_both_sides(hide: str, tmp_path: Path):
    """Its answer hides no less than time-dependent policies, comes back from its folder, and is verified there."""
    problem = sensors().replace(horizon=2)
    best = veil.solve(problem, "game", hide=hide, progress=False)
    timed = veil.solve(problem, hide=hide, **FAST)
    assert best.certificate is not None
    assert isinstance(best.policy, veil.HistoryPolicy)
    assert best.policy.sees == tuple(hide.split(", "))
    assert timed.least_bits - 1e-3 <= best.least_bits <= best.certificate.upper
    assert best.certificate.lower == pytest.approx(best.least_bits, abs=1e-9)
    assert best.certificate.upper - best.certificate.lower <= 2e-3
    best.save(tmp_path / "result")
    assert veil.load_policy(tmp_path / "result" / "policy.safetensors") == best.policy
    assert code(tmp_path / "result") == 0


def test_the_game_keeps_a_bound_on_a_pair_at_a_price():
    free = veil.solve(sensors().replace(horizon=2), "game", hide="own, other", **FEW)
    wanted = free.pairs[0].bits + 0.01
    strict = sensors(min=wanted).replace(horizon=2)
    kept = veil.solve(strict, "game", **FEW)
    assert kept.feasible
    assert kept.pairs[0].bits >= wanted - 1e-9
    assert kept.pairs[0].price_bits >= 0
    timed = veil.solve(strict, **FAST)
    assert not timed.feasible or kept.opacity.bits >= timed.opacity.bits - 2e-3


@pytest.mark.parametrize("bounds", [{"max": 0.5}, {"min": 0.1, "max": 0.5}])
def test_the_game_refuses_a_bound_from_above(bounds: dict[str, float]):
    for hide in ("own", "own, other", "other"):
        with pytest.raises(veil.InputError, match=r"pair 'other'.*H\(other\) ≤ 0.5 is not convex"):
            veil.solve(sensors(**bounds), "game", hide=hide, progress=False)


def test_the_game_refuses_paths_beside_other_secrets():
    problem = two_sensors().replace(pairs=[veil.Pair("path", secret=veil.Trajectory())])
    with pytest.raises(veil.InputError, match=r"pair 'path'.*a whole path or several models and another secret"):
        veil.solve(problem, "game", hide="own, path", progress=False)


def test_the_game_of_one_pair_tells_what_is_hidden_in_another():
    problem = two_sensors().replace(pairs=[veil.Pair("start", secret=veil.InitialState())])
    found = veil.solve(problem, "game", hide="start", progress=False, time_limit=2)
    (start,) = veil.pair_values(problem, found.policy)
    assert found.pairs[0].bits == pytest.approx(start.bits)
    assert found.opacity.bits == pytest.approx(veil.opacity(problem, found.policy).bits)
    assert start.bits <= found.upper_bits + 1e-9


def test_the_game_against_an_observer_without_a_clock_is_played_as_if_it_had_one():
    problem = two_sensors()
    seen = problem.observer.replace(silent=problem.observer.observations[0], untimed=True)
    found = veil.solve(problem.replace(observer=seen), "game", progress=False, time_limit=2)
    assert found.opacity.bits == pytest.approx(veil.opacity(problem.replace(observer=seen), found.policy).bits)
    assert found.opacity.bits >= veil.opacity(problem.replace(observer=seen).with_clock(), found.policy).bits - 1e-9
    assert found.certificate is not None
    assert found.certificate.lower <= found.opacity.bits


@pytest.mark.slow
def test_a_game_of_pairs_that_does_not_fit_gives_a_time_dependent_policy():
    found = veil.solve(sensors().replace(horizon=60), "game", hide="own, other", time_limit=1, **FEW)
    assert "does not fit" in found.policy_class
    assert (found.feasible, found.method, found.opacity.method) == (True, "game", "sampled")
