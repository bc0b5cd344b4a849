"""Making certificates: trivial bounds always hold, time limits and interrupts end in a proof, and the words are right."""

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import veil
from tests.game.test_records import random_pairs
from tests.problem.test_constraints import make_problem
from tests.proof.cases import KINDS, noisy_problem, random_policy, random_problem
from tests.proof.lies import dressed
from tests.proof.reading import CheckedProblem, checked_for, policy_values
from tests.proof.test_checked import example, whole
from tests.seeds import blocks
from veil.common.clock import Progress
from veil.engine.feasibility import other_targets
from veil.engine.return_range import threshold
from veil.game.bounds import Bounds
from veil.game.solve import solve_game
from veil.proof.arithmetic import FLOOR
from veil.proof.certify import certify
from veil.proof.verify import verify


def uniform(name: str, **changes) -> tuple[veil.Problem, veil.MarkovPolicy]:
    problem = veil.gallery.load(name).replace(**changes)
    return problem, veil.MarkovPolicy.uniform(problem)


@pytest.mark.parametrize("block", blocks(30, 30, 10))
def test_with_no_time_the_certificate_is_weak_and_whole(block: range):
    for seed in block:
        problem = random_problem(seed)
        policy = random_policy(problem, KINDS[seed % len(KINDS)], seed)
        certificate = certify(problem, policy, 0.0)
        verify(certificate, problem, policy)
        assert certificate.upper == CheckedProblem(problem).most_bits
        assert (
            certificate.lower > 0
            or policy_values(CheckedProblem(problem), policy, (-1, problem.horizon + 1), 0.0, None).upper < 1
        )


def test_a_threshold_beyond_reach_is_refused_at_once():
    problem, policy = uniform("paper-last-state", min_return=100.0)
    with pytest.raises(veil.InfeasibleError):
        certify(problem, policy, 0.0)


# What is claimed of pairs and of what is known.


def test_a_policy_that_does_not_fit_is_refused():
    problem, _ = uniform("two-rooms")
    with pytest.raises(veil.InputError):
        certify(problem, veil.MarkovPolicy(np.full((2, 3), 1 / 3)), 0.0)
    with pytest.raises(veil.InputError, match="policy: it is a str"):
        certify(problem, cast(Any, "uniform"), 0.0)


@pytest.mark.parametrize("agent_knows", [True, False])
def test_a_threshold_is_beyond_reach_for_agents_that_know_the_model(agent_knows: bool):
    """Where nobody knows the model, the certificate is about agents who do, and they may earn more."""
    model = veil.Model(np.full((2, 2, 2), 0.5), [[0.0, 1.0]] * 2, 0)
    other = veil.Model(np.full((2, 2, 2), 0.5), [[1.0, 0.0]] * 2, 0)
    problem = veil.Problem([model, other], veil.Observer(np.eye(2)), veil.WhichModel(agent_knows=agent_knows), 1, 5.0)
    policy = veil.MarkovPolicy.uniform(problem)
    if agent_knows:
        with pytest.raises(veil.InfeasibleError):
            certify(problem, policy, 0.0)
    else:
        assert not certify(problem, policy, 0.0).feasible


def test_what_is_known_is_at_least_what_the_policy_is_proven_to_hide():
    """If it is feasible: the policy itself is then one that hides as much."""
    problem = veil.gallery.load("two-rooms", horizon=3).replace(min_return=None)
    game = solve_game(problem, gap=1e-4)
    poor = replace(game, lower=0.01)
    policy = game.policy()
    free = certify(problem, policy, 5.0, game=Bounds.of(poor))
    assert free.best_known == free.lower > 0.01
    bounded = problem.replace(min_return="90%")
    missed = certify(bounded, policy, 5.0, game=Bounds.of(poor))
    assert not missed.feasible
    assert missed.best_known == 0.01


def test_what_a_certificate_cannot_be_asked_for():
    problem, policy = example(), veil.MarkovPolicy.uniform(example())
    for wrong in ({"time_limit": -0.5}, {"gap": -0.5}, {"gap": math.nan}, {"time_limit": True}, {"goal": "secret"}):
        with pytest.raises(veil.InputError, match=next(iter(wrong))):
            certify(problem, policy, **cast(Any, wrong))
    assert certify(problem, policy, 0, gap=0).is_exact


def test_the_claimed_error_is_wider_than_what_is_found():
    """Twice, for machines that round otherwise; the verifier accepts up to four times."""
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.3], [1.1]], 0)
    problem = example().replace(model=model)
    policy = veil.MarkovPolicy.uniform(problem)
    found = policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None)
    assert 2 * found.return_error <= certify(problem, policy, 0.0).return_error <= 4 * found.return_error


def test_pairs_of_which_nothing_can_be_said():
    """The certificate of the own pair then tells of no other; one that is about such a pair is refused, with the reason."""
    naive = veil.Pair("naive", belief=veil.Belief(doubt=0.1), min=0.01)
    two = veil.Pair("two", veil.Observer(np.ones((2, 1))), min=0.1)
    problem = example().replace(pairs=[naive, two])
    policy = veil.MarkovPolicy.uniform(problem)
    assert certify(problem, policy, 0.0).pairs == ()
    told = problem.replace(pairs=[two])
    assert [one.name for one in certify(told, policy, 0.0).pairs] == ["two"]
    for hide, goal, words in (
        ("naive", "opaque", "the loss of an observer with a belief is no entropy"),
        ("two", "opaque", "the loss of an observer with a belief is no entropy"),
        ("two", "transparent", "a certificate is about the problem's own pair"),
    ):
        with pytest.raises(veil.InputError, match=words):
            certify(problem, policy, 0.0, hide=hide, goal=cast(Any, goal))
    assert certify(told, policy, 0.0, goal="transparent").pairs == ()


def test_claims_of_pairs_are_those_of_the_verifier():
    """Within 2^-40 bits, and never beyond what there can be; bounds are those of the pair."""
    two = veil.Pair("two", veil.Observer(np.ones((2, 1))), min=0.125, max=0.875)
    told = veil.Pair("told", veil.Observer(np.eye(2)))
    problem = example().replace(pairs=[two, told])
    policy = veil.MarkovPolicy.uniform(problem)
    proof = certify(problem, policy, 0.0, hide="own, told")
    first, second = proof.pairs
    for one in proof.pairs:
        found = policy_values(checked_for(problem, policy, one.name), policy, one.window, one.prune, None)
        assert one.lower == max(0.0, found.lower - 2.0**-40)
        assert one.upper == min(1.0, found.upper + 2.0**-40)
    assert (first.name, first.min, first.max, first.upper) == ("two", 0.125, 0.875, 1.0)
    assert (second.name, second.min, second.max, second.lower) == ("told", None, None, 0.0)
    assert proof.lower == 0.0
    verify(proof, problem, policy)


def test_a_transparent_claim_is_that_of_the_verifier():
    problem, policy = example(), veil.MarkovPolicy.uniform(example())
    proof = certify(problem, policy, 0.0, goal="transparent")
    found = policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None)
    assert (proof.lower, proof.upper, proof.bounds) == (0.0, found.upper + 2.0**-40, ())
    hidden = problem.replace(observer=veil.Observer(np.ones((2, 1))))
    assert certify(hidden, policy, 0.0, goal="transparent").upper == 1.0


# Whole certificates of small problems.


def test_a_certificate_under_constraints():
    """The threshold is that on the return; each constraint has its bound, its value and its price, and all of it verifies."""
    limits = [veil.Return(max="60%", reward="energy"), veil.Probability("F bad", max=0.9, labels={"bad": ["s2"]})]
    problem = make_problem(limits, 3, 2)
    policy = veil.MarkovPolicy.uniform(problem)
    proof = certify(problem, policy, 20.0, gap=1e-2)
    found = verify(proof, problem, policy)
    assert proof.threshold == threshold(problem)
    assert [one.name for one in proof.constraints] == [one.name for one in problem.others]
    assert [one.bound for one in proof.constraints] == [one.bound for one in other_targets(problem)]
    assert [one.met for one in proof.constraints] == [one.met for one in found.policy.quantities[1:]]
    assert proof.feasible == found.policy.feasible
    assert len(proof.prices) == 2
    free = certify(problem.replace(constraints=[]), policy, 20.0, gap=1e-2)
    assert proof.upper <= free.upper + 1e-2


@pytest.mark.parametrize("seed", [3, 7, 9])
def test_a_certificate_for_agents_that_learn_late(seed: int):
    """Where that bound is smaller by 0.0001 bits or more; not for a policy that acts on the observations."""
    problem = noisy_problem(seed)
    policy = veil.MarkovPolicy.uniform(problem)
    proof = certify(problem, policy, 20.0, gap=1e-3)
    found = verify(proof, problem, policy)
    assert (proof.delayed is None) == (seed == 3)
    if proof.delayed is not None:
        assert found.delayed is not None
        assert (proof.delayed.delay, proof.delayed.upper) == (1, found.delayed + 2.0**-40)
        assert proof.lower <= proof.delayed.upper <= proof.upper - 1e-4
    seeing = problem.replace(agent_sees="state+observations")
    watching = veil.MemoryPolicy.uniform(seeing, veil.ObservationMemory(1))
    assert certify(seeing, watching, 20.0, gap=1e-2).delayed is None


def test_a_certificate_of_pairs_that_are_hidden_or_must_keep_bits():
    """Their observers prove its bound, also where one must keep almost all that it can."""
    problem = random_pairs(5)
    policy = veil.MarkovPolicy.uniform(problem)
    both = certify(problem, policy, 20.0, gap=1e-2, hide="own, p0")
    alone = certify(problem, policy, 20.0, gap=1e-2)
    kept = problem.replace(pairs=[replace(problem.pairs[0], min=0.6095)])
    bounded = certify(kept, policy, 20.0, gap=1e-2)
    for proof, asked in ((both, problem), (alone, problem), (bounded, kept)):
        verify(proof, asked, policy)
    for proof in (both, bounded):  # the observers of both, or of one where that is as close
        assert {one.channel for one in proof.bounds[0].rules} <= {0, 1}
        assert proof.best_known is not None
        assert proof.upper - proof.best_known <= 1e-2
    assert (alone.pairs, both.hide, bounded.kept) == ((), ("own", "p0"), {1: 0.6095})
    assert both.lower == pytest.approx(min(alone.lower, both.pairs[0].lower), abs=1e-12)
    assert both.upper <= alone.upper + 1e-2
    assert bounded.upper <= alone.upper + 1e-2
    assert bounded.delayed is None


@pytest.mark.parametrize("reports", [0, 1, 3])
def test_an_interrupt_leaves_a_proof_that_holds(reports: int):
    """Ctrl-C at any report: what was proven until then is a whole certificate."""
    problem = veil.gallery.load("paper-initial-state", horizon=6).replace(min_return="50%")
    policy, left = veil.MarkovPolicy.uniform(problem), [reports]

    def interrupt(_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    proof = certify(problem, policy, 5.0, gap=0.0, progress=interrupt)
    assert veil.verify(proof, problem, policy).upper <= proof.upper


def test_what_is_reported_of_a_proof():
    """Its phase, and how much of its time is over."""
    problem, news = veil.gallery.load("paper-initial-state", horizon=6).replace(min_return="50%"), list[Progress]()
    certify(problem, veil.MarkovPolicy.uniform(problem), 2.0, gap=0.1, progress=news.append)
    proving = [one for one in news if one.phase == "proving"]
    assert proving
    for one in proving:
        assert 1 <= one.of <= 2
        assert 0 <= one.iteration == min(one.of, int(one.seconds))


def test_an_error_may_be_up_to_four_times_what_is_found():
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.3], [1.1]], 0)
    problem = example().replace(model=model)
    policy = veil.MarkovPolicy.uniform(problem)
    proof = certify(problem, policy, 0.0)
    found = policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None).return_error
    veil.verify(dressed(replace(proof, quantities=(replace(proof.quantities[0], error=3.9 * found),))), problem, policy)
    for error in (0.0, 0.5 * found, 100 * found, 1.0):
        with pytest.raises(veil.CertificateError, match="return"):
            veil.verify(
                dressed(replace(proof, quantities=(replace(proof.quantities[0], error=error),))), problem, policy
            )


def test_windows_and_merged_histories_prove_a_part_where_the_tree_does_not_fit():
    """Every sensor has false alarms: the lower bound is below the true value and above what the last event alone proves."""
    problem, policy = uniform("paper-false-alarms", horizon=6, min_return=None)
    proof = certify(problem, policy, 1.5)
    low, high = veil.opacity(problem, policy, method="bracket").interval()
    assert not proof.is_exact
    assert proof.channels[0].window[0] > 0 or proof.channels[0].merge > 0
    assert 0.25 < proof.lower <= high
    assert low <= proof.upper
    assert verify(proof, problem, policy)


# What does not fit in the time.


def loud(size: int, events: int, noise: float, actions: int = 2, **changes: Any) -> veil.Problem:
    """Every state has one successor, so that nothing is hidden from who is told one; and there are too many histories."""
    rng = np.random.default_rng(0)
    moves = np.repeat(np.eye(size)[rng.permutation(size)][:, None], actions, axis=1)
    model = veil.Model(moves, rng.random((size, actions)), np.full(size, 1 / size), discount=0.9)
    observer = veil.Observer(rng.dirichlet(np.full(events, noise), size=size))
    return veil.Problem(model, observer, veil.LastState(list(range(size // 2))), 3, **changes)


@pytest.mark.parametrize(("goal", "noise"), [("opaque", 5.0), ("transparent", 1.0)])
def test_bits_that_cannot_be_proven_are_drawn(goal: Any, noise: float):
    """The claim is 1.8 widths of the interval from the mean of so many draws, and other draws bear it out."""
    problem = loud(120, 300, noise)
    policy = veil.MarkovPolicy.uniform(problem)
    proof = certify(problem, policy, 10.0, goal=goal, memory_bytes=0)
    (one,), found = proof.channels, verify(proof, problem, policy, seed=1).sampled[0]
    assert one.sampled is not None
    assert not proof.is_exact
    assert proof.is_sampled
    assert one.sampled.sequences >= 256
    logarithm, steps = math.log(8e6), one.sampled.sequences - 1
    if goal == "opaque":
        assert (one.lower, proof.likely_lower) == (0.0, one.sampled.lower)
        off = found.mean - one.sampled.lower
    else:
        assert (proof.lower, proof.likely_upper) == (0.0, one.sampled.upper)
        assert one.sampled.upper < one.upper - 0.02
        off = one.sampled.upper - found.mean
    least = 1.8 * 7 * logarithm / (3 * steps)
    assert 0.9 * least < off < least + 1.8 * math.sqrt(2 * 0.1 * logarithm / steps) + 0.01
    assert "with confidence" in proof.claim


def test_a_return_that_cannot_be_proven_is_drawn():
    """A step of a policy that remembers what it heard has too many moves, however much time there is; without end nothing
    can be drawn."""
    limits = [veil.Probability("F x", max=0.9, labels={"x": [3]})]
    problem = loud(4, 730, 5.0, 16, agent_sees="state+observations", constraints=limits)
    problem = problem.replace(min_return=veil.max_return(problem))
    policy = veil.MemoryPolicy.uniform(problem, veil.ObservationMemory(1, clock=False))
    proof = certify(problem, policy, 5.0, memory_bytes=0)
    first, second = proof.quantities
    assert (first.met, second.met, proof.feasible, proof.likely_feasible) == (False, True, False, False)
    for one, value in zip(proof.quantities, veil.constraint_values(problem, policy), strict=True):
        assert one.sequences == 20_000
        assert abs(one.value - value.value) < one.error < 0.1
    assert "with confidence 1 − 1e-6, which misses the threshold. P(F x) is at most" in proof.claim
    verify(proof, problem, policy)
    endless = problem.replace(return_over="infinite", min_return=None, constraints=[])
    with pytest.raises(veil.TooLargeError, match="could not be proven in"):
        certify(endless, policy, 0.0)
