"""Statistical claims: draws have the exact value as their mean, no claim is false, and none is much weaker than theory says."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

import veil
from tests.game.test_records import random_pairs
from tests.proof.cases import KINDS, constrained, random_policy, random_problem, tiny_problem, with_path
from tests.proof.exact import ExactProblem, chooser, entropy, played
from tests.proof.reading import checked_for
from tests.seeds import blocks
from veil.common.errors import CertificateError, TooLargeError
from veil.proof.arithmetic import UNIT, gamma
from veil.proof.described import described
from veil.proof.sampling import DOUBT, Sampler, interval

DRAWS = 1500


def case(seed: int) -> tuple[veil.Problem, veil.Policy, str]:
    """A problem over the horizon, a policy of any kind, and a channel."""
    if seed % 5 == 4:
        problem = random_pairs(seed)
        return problem, random_policy(problem, ("markov", "timed", "states")[seed % 3], seed), "p0"
    problem = random_problem(seed, work=300, most_pairs=400).replace(return_over="horizon")
    if seed % 5 == 3 and len(problem.models) == 1:
        problem = with_path(problem, seed)
    if seed % 3 == 0:
        problem = constrained(problem, seed)
    return problem, random_policy(problem, KINDS[seed % len(KINDS)], seed), "own"


def claims(seeds: range, count: int = DRAWS) -> int:
    """How many claims were made: none of them false, each within twice the width that theory gives for its draws."""
    made = 0
    for seed in seeds:
        problem, policy, name = case(seed)
        bits = veil.opacity(problem, policy, pair=name, method="exact").bits
        sampler = Sampler(checked_for(problem, policy, name), described(problem, policy))
        try:
            draws = sampler.draw(count, np.random.default_rng(seed))
        except TooLargeError:  # a path that does not tell the hidden state
            continue
        made += 1
        most = sampler.most_bits
        assert -1e-9 <= draws.min() <= draws.max() <= most + 1e-9
        found = interval(draws, 0.0, most, DOUBT, sampler.error)
        assert found.lower - 1e-9 <= bits <= found.upper + 1e-9, seed
        logarithm = math.log(4 / DOUBT)
        width = math.sqrt(2 * draws.var(ddof=1) * logarithm / count) + 7 * most * logarithm / (3 * (count - 1))
        assert (
            bits - max(0.0, found.mean - 1.8 * found.width) <= 2 * width + 5 * draws.std() / math.sqrt(count) + 1e-9
        ), seed
    return made


@pytest.mark.parametrize("block", blocks(40, 40, 10))
def test_no_claim_is_false(block: range):
    assert claims(block) >= 7


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(2000, 2000, 200))
def test_no_claim_about_two_thousand_policies_is_false(block: range):
    assert claims(block, 1000) >= 150


@pytest.mark.parametrize("seed", range(10))
def test_what_runs_pay_has_the_exact_value_as_its_mean(seed: int):
    problem, policy, _ = case(seed)
    sampler = Sampler(checked_for(problem, policy), described(problem, policy))
    sums = sampler.earn(2000, np.random.default_rng(seed))
    values = {one.name: one.value for one in veil.constraint_values(problem, policy)}
    exact = [veil.expected_return(problem, policy), *(values[one.name] for one in problem.others)]
    for number, value in enumerate(exact):
        low, high = sampler.range(number)
        assert low <= sums[number].min() <= sums[number].max() <= high
        found = interval(sums[number], low, high, DOUBT)
        assert found.lower <= value <= found.upper


@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_a_draw_is_what_one_sequence_leaves(seed: int):
    """Each draw is the entropy that some sequence of events leaves, as often as that sequence comes."""
    problem = tiny_problem(seed)
    policy = random_policy(problem, ("markov", "timed", "history")[seed % 3], seed)
    joint, _ = played(ExactProblem(problem), chooser(problem, policy))
    left, masses = defaultdict[float, float](float), {seen: float(sum(row.values())) for seen, row in joint.items()}
    for seen, row in joint.items():
        left[round(float(entropy({(): row})) / masses[seen], 7)] += masses[seen]
    draws = Sampler(checked_for(problem, policy), described(problem, policy)).draw(DRAWS, np.random.default_rng(seed))
    drawn = Counter(np.round(draws, 7).tolist())
    assert sum(drawn.values()) == DRAWS
    for bits, mass in left.items():
        assert abs(drawn.pop(bits, 0) - mass * DRAWS) <= 6 * math.sqrt(DRAWS * mass * (1 - mass)) + 1
    assert not drawn


def test_the_interval_is_that_of_the_formula():
    draws = np.array([0.0, 1.0, 1.0, 0.0, 0.5] * 40)
    logarithm, variance = math.log(4 / 0.01), draws.var(ddof=1)
    off = math.sqrt(2 * variance * logarithm / 200) + 7 * 2 * logarithm / (3 * 199)
    found = interval(draws, 0.0, 2.0, 0.01)
    assert found.mean == pytest.approx(0.5)
    assert found.upper == pytest.approx(min(2.0, 0.5 + off), rel=1e-3)
    assert found.lower == pytest.approx(max(0.0, 0.5 - off), rel=1e-3)
    assert found.lower <= 0.5 - off
    assert interval(draws, 0.0, 2.0, 0.001).width > found.width
    exact = interval(draws, -4.0, 2.0, 0.01, 0.125)
    off = 1.0001 * (math.sqrt(2 * variance * logarithm / 200) + 7 * 6 * logarithm / (3 * 199) + 0.125) + 16 * UNIT * 4
    assert (exact.lower, exact.upper) == pytest.approx((0.5 - off, 0.5 + off), rel=1e-12)
    with pytest.raises(CertificateError, match=r"^sequences: two or more"):
        interval(draws[:1], 0.0, 2.0, 0.01)


def false_alarms(side: int = 9, horizon: int = 12) -> veil.Problem:
    """A yard whose sensors have false alarms everywhere and tell little: windows prove nothing of it."""
    cells = side * side
    grid = np.arange(cells).reshape(side, side)
    moves = np.zeros((cells, 4, cells))
    for action, (down, right) in enumerate(((0, 1), (1, 0), (0, -1), (-1, 0))):
        for (row, column), cell in np.ndenumerate(grid):
            there = grid[np.clip(row + down, 0, side - 1), np.clip(column + right, 0, side - 1)]
            moves[cell, action, there] += 0.9
            moves[cell, action, cell] += 0.1
    rows, columns = np.divmod(np.arange(cells), side)
    near = [
        np.exp(-((rows - a * side) ** 2 + (columns - b * side) ** 2) / side) for a in (0.3, 0.7) for b in (0.3, 0.7)
    ]
    shown = np.column_stack([0.1 + 0.03 * one for one in near])
    shown = np.column_stack([shown, 1 - shown.sum(axis=1)])
    quarter = 2 * (rows >= side / 2) + (columns >= side / 2)
    groups = {f"q{number}": np.flatnonzero(quarter == number).tolist() for number in range(4)}
    model = veil.Model(moves, np.zeros((cells, 4)), int(grid[side // 2, side // 2]))
    return veil.Problem(model, veil.Observer(shown), veil.LastState(groups=groups), horizon)


@pytest.mark.slow
def test_where_windows_prove_little_draws_do():
    """The certificate claims with confidence what it cannot prove; the verifier bears it out with its own draws."""
    problem = false_alarms()
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, 6, progress=False)
    (one,) = claim.channels
    assert one.sampled is not None
    assert claim.likely_lower > claim.lower + 0.02
    assert "with confidence 1 − 1e-6, over the verifier's own draws; proven: at least" in claim.claim
    assert "bits with confidence 1 − 1e-6;" in claim.summary()
    found = veil.verify(claim, problem, policy)
    assert found.sampled[0].lower >= one.sampled.lower
    again = [veil.verify(claim, problem, policy, seed=5).sampled[0] for _ in range(2)]
    assert again[0] == again[1]
    assert veil.verify(claim, problem, policy, confidence=0.99).sampled[0].width < found.sampled[0].width


def test_the_error_of_a_draw_counts_running_sums_over_all_moves():
    """Moves are drawn by sums over all of them, which are rounded in units of the last: many states, a larger error."""
    states = 4000
    moves = 0.5 * (np.eye(states) + np.roll(np.eye(states), 1, axis=1))
    problem = veil.Problem(
        veil.Model(moves[:, None], np.zeros((states, 1)), 0),
        veil.Observer(np.ones((states, 1))),
        veil.LastState({1}),
        3,
    )
    policy = veil.MarkovPolicy.uniform(problem)
    sampler = Sampler(checked_for(problem, policy), described(problem, policy))
    counted = 4 * (4 + 2 + 2 * 2 * states)
    eta = gamma(counted) + 5 * 4 * sampler.problem.defect
    assert sampler.error == pytest.approx(8 * eta * 3 + 1e-12, rel=1e-9)
    assert len(sampler.draw(3, np.random.default_rng(0))) == 3
