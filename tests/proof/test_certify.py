"""Making certificates: trivial bounds always hold, time limits and interrupts end in a proof, and the words are right."""

import time

import numpy as np
import pytest

import veil
from tests.proof.cases import KINDS, random_policy, random_problem
from veil.common.clock import Clock, Progress
from veil.common.logs import conditional_entropy_bits, entropy_bits
from veil.game.solve import solve_game
from veil.planning.game_method import search_game
from veil.policy.history import HistoryPolicy
from veil.proof import certify as certify_module
from veil.proof import observers
from veil.proof.arithmetic import FLOOR
from veil.proof.certify import certify
from veil.proof.checked_problem import CheckedProblem
from veil.proof.policy_values import policy_values
from veil.proof.verify import verify


def uniform(name: str, **changes) -> tuple[veil.Problem, veil.MarkovPolicy]:
    problem = veil.gallery.load(name).replace(**changes)
    return problem, veil.MarkovPolicy.uniform(problem)


@pytest.mark.parametrize("seed", range(30))
def test_with_no_time_the_certificate_is_weak_and_whole(seed):
    problem = random_problem(seed)
    policy = random_policy(problem, KINDS[seed % len(KINDS)], seed)
    certificate = certify(problem, policy, 0.0)
    verify(certificate, problem, policy)
    assert certificate.upper == CheckedProblem(problem).most_bits
    assert (
        certificate.lower > 0
        or policy_values(CheckedProblem(problem), policy, (-1, problem.horizon + 1), 0.0, None).upper < 1
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_is_never_above_the_trivial_ones(seed, monkeypatch):
    problem = random_problem(300 + seed).replace(min_return=None)
    monkeypatch.setattr(observers._Search, "solve", lambda self: None)  # only what needs no memory
    policy = veil.MarkovPolicy.uniform(problem)
    certificate = certify(problem, policy, 20.0)
    verify(certificate, problem, policy)
    assert certificate.upper <= CheckedProblem(problem).most_bits
    if problem.secret_table.time == 0:
        checked = CheckedProblem(problem)
        x, event, mass = checked.start
        joint = np.zeros((event.max() + 1, checked.values))
        np.add.at(joint, (event, checked.label[x]), mass)
        assert certificate.upper == pytest.approx(conditional_entropy_bits(joint), abs=1e-9)
        assert certificate.upper <= float(entropy_bits(joint.sum(axis=0))) + 1e-9
    else:
        blind = problem.replace(observer=veil.Observer(np.ones((problem.num_states, 1))))
        largest = solve_game(blind, gap=1e-4, iterations=500)
        assert certificate.upper <= largest.upper + 2e-4
        assert certificate.upper >= largest.lower - 1e-9


@pytest.mark.parametrize("limit", [0.0, 0.3, 1.5])
@pytest.mark.parametrize("name", ["later-initial-state", "later-last-state", "paper-last-state"])
def test_the_time_limit_is_kept(name, limit):
    problem, policy = uniform(name, horizon=60 if name == "paper-last-state" else 11)
    begin = time.monotonic()
    certificate = certify(problem, policy, limit)
    assert time.monotonic() - begin < limit + 5  # two seconds on an idle machine, more where others work
    verify(certificate, problem, policy)


def test_an_interrupt_in_the_game_leaves_the_proof_so_far(monkeypatch):
    problem, policy = uniform("paper-initial-state")

    def interrupt(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(observers, "make_pairs", interrupt)
    certificate = certify(problem, policy, 20.0)
    verify(certificate, problem, policy)
    assert certificate.witness is not None
    assert certificate.witness.memory == "the first event"
    assert certificate.best_known is None


def test_an_interrupted_game_still_counts(monkeypatch):
    problem, policy = uniform("paper-initial-state", horizon=6, min_return="50%")

    def interrupt(news: Progress) -> None:
        if news.iteration >= 30:
            raise KeyboardInterrupt

    def interrupted(*arguments, **named):
        return solve_game(*arguments, **named | {"gap": 0.0, "clock": Clock(progress=interrupt)})

    monkeypatch.setattr(observers, "solve_game", interrupted)
    certificate = certify(problem, policy, 60.0)
    verify(certificate, problem, policy)
    assert certificate.witness is not None
    assert certificate.witness.memory == "the whole history"


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_an_interrupt_in_the_policys_part(monkeypatch, calls):
    problem, policy = uniform("paper-last-state", horizon=40)
    made = []

    def values(*arguments, **named):
        if len(made) > calls:
            raise KeyboardInterrupt
        made.append(1)
        return policy_values(*arguments, **named)

    monkeypatch.setattr(certify_module, "policy_values", values)
    if calls == 0:  # the first try is too large, and nothing is proven yet
        with pytest.raises(KeyboardInterrupt):
            certify(problem, policy, 3.0)
        return
    certificate = certify(problem, policy, 3.0)
    verify(certificate, problem, policy)
    assert certificate.witness is not None
    assert certificate.witness.memory == "nothing"


@pytest.mark.parametrize("horizon", [5, 40])
def test_a_game_that_was_played_is_not_played_again(monkeypatch, horizon):
    problem = veil.gallery.load("paper-last-state").replace(horizon=horizon, min_return="90%")
    solution = search_game(problem, gap=0.05, time_limit=60.0, progress=False)

    def played(*arguments, **named):
        raise AssertionError("the game was played again")

    monkeypatch.setattr(observers._Search, "solve", played)
    certificate = certify(problem, solution.policy, 6.0, game=solution.proof)
    verify(certificate, problem, solution.policy)
    assert certificate.upper <= solution.upper_bits + 1e-9
    assert certificate.lower >= solution.opacity.lower - 1e-3
    assert certificate.feasible


def test_a_lower_bound_that_did_not_finish_is_said_to_be_none(monkeypatch):
    problem = veil.gallery.load("paper-last-state", horizon=6).replace(min_return=None)
    policy = veil.MarkovPolicy.uniform(problem)
    exact = certify(problem, policy, 5.0, gap=0.1)
    assert exact.is_exact
    assert exact.claim.startswith("hides at least 0.")
    told_all = {"window": (6, 7), "prune": FLOOR, "merge": 0}  # the only way that is tried
    monkeypatch.setattr(certify_module._PolicyPart, "_way", lambda *_, **__: told_all)
    none = certify(problem, policy, 5.0, gap=0.1)
    verify(none, problem, policy)
    assert none.lower == 0
    assert not none.proves_policy
    assert none.claim.startswith(
        "What the policy hides is not proven within the time limit: allow more time; proven upper"
    )
    assert "0.0000" not in none.summary().replace("1.0000", "")
    assert none.class_gap is None
    assert none.solver_gap is None
    assert "parts of the gap are not known" in none.summary()


def test_words_for_each_kind_of_gap():
    problem = veil.gallery.load("later-last-state", horizon=6).replace(min_return="50%")
    solution = search_game(problem, gap=5e-3, progress=False)
    own = certify(problem, solution.policy, game=solution.proof)
    assert isinstance(solution.policy, HistoryPolicy)
    assert own.class_gap == 0.0
    assert own.solver_gap == own.gap <= 5.1e-3
    assert "all of it due to the solver" in own.summary()
    timed = veil.solve(problem, memory="timed", starts=2, iterations=40, progress=False, certificate=False).policy
    less = certify(problem, timed, game=solution.proof)
    assert less.class_gap is not None
    assert less.solver_gap is not None
    assert less.class_gap + less.solver_gap == pytest.approx(less.gap)
    assert "due to the policy class" in less.summary()
    unknown = certify(problem, timed, 0.0)
    assert unknown.class_gap is None
    assert "no game was solved" in unknown.summary()
    for certificate in (own, less, unknown):
        assert "proven upper bound over all policies with return ≥ " in certificate.summary()
        assert "(witness attached)" in certificate.summary()


def test_a_threshold_beyond_reach_is_refused_at_once():
    problem, policy = uniform("paper-last-state", min_return=100.0)
    with pytest.raises(veil.InfeasibleError):
        certify(problem, policy, 0.0)
