"""Making certificates: trivial bounds always hold, time limits and interrupts end in a proof, and the words are right."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import veil
from tests.game.test_records import random_pairs
from tests.problem.test_constraints import make_problem
from tests.proof.cases import KINDS, noisy_problem, random_policy, random_problem
from tests.proof.test_checked import example, whole
from veil.common.clock import Clock, Progress
from veil.common.errors import TooLargeError
from veil.common.logs import conditional_entropy_bits, entropy_bits
from veil.engine.feasibility import further_targets
from veil.engine.return_range import threshold
from veil.game.solve import solve_game
from veil.planning.game_method import search_game
from veil.policy.history import HistoryPolicy
from veil.proof import certify as certify_module
from veil.proof import observers
from veil.proof.arithmetic import FLOOR
from veil.proof.certify import certify
from veil.proof.checked_problem import CheckedProblem, checked_for
from veil.proof.forward import MOST_MOVES
from veil.proof.policy_values import PolicyValues, policy_values
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
    begin = time.process_time()  # of the processor: others may hold it
    certificate = certify(problem, policy, limit)
    assert time.process_time() - begin < limit + 5
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


# The search for a policy's own bound, with stand-ins for what it tries.

TRIED = list[tuple[tuple[int, int], float, int]]


class Tries:
    """Stands in for `policy_values`: what was tried, each try of a second of a clock that only it moves.

    `bits`: what a way proves by its window, weights left out and histories kept apart; None where it does not fit.
    """

    def __init__(self, bits: Callable[[tuple[int, int], float, int], float | None], seconds: float = 1.0):
        self.bits, self.seconds, self.now = bits, seconds, 0.0
        self.tried, self.limits = TRIED(), list[tuple[float, int]]()

    def __call__(self, *_: Any, window: tuple[int, int], prune: float, merge: int, **named: Any) -> PolicyValues:
        self.tried.append((window, prune, merge))
        self.limits.append((named["clock"].left, named["most_moves"]))
        self.now += self.seconds
        found = self.bits(window, prune, merge)
        if found is None:
            raise TooLargeError("too many histories")
        return PolicyValues(0.0, 0.0, True, (), found, 1.0 - found)

    def best(
        self, monkeypatch: pytest.MonkeyPatch, limit: float = 1e6, gap: float = 1e-3, goal: str = "opaque",
        path: object = None, secret_time: int = 2,
    ) -> tuple[PolicyValues, Any, bool]:  # fmt: skip
        """The search over five steps, its secret settled at time 2 by default, for a policy that remembers one step then."""
        monkeypatch.setattr(certify_module, "policy_values", self)
        problem: Any = SimpleNamespace(path=path, horizon=5, secret_time=secret_time)
        policy: Any = SimpleNamespace(memory_span=lambda time: abs(time - 1))
        part = certify_module._PolicyPart(problem, policy, None, (), goal)
        return part.best(Clock(limit, now=lambda: self.now), gap)


WHOLE, PRUNINGS, MERGINGS = (-1, 6), (FLOOR, 1e-12, 1e-10, 1e-8, 1e-7), (256, 1024, 4096, 16384)


def test_where_all_histories_fit_nothing_else_is_tried(monkeypatch: pytest.MonkeyPatch):
    tries = Tries(lambda *_: 0.5)
    values, how, finished = tries.best(monkeypatch, 30.0)
    assert (values.lower, how, finished) == (0.5, {"window": WHOLE, "prune": FLOOR, "merge": 0}, True)
    assert tries.tried == [(WHOLE, FLOOR, 0)]
    assert tries.limits == [(30 / 3 + 0.5, 2**23)]


def test_windows_grow_until_they_are_the_whole_and_then_histories_are_merged(monkeypatch: pytest.MonkeyPatch):
    """First one that needs no histories, without a limit; then around the secret, less rare weights where it does not fit."""

    def bits(window: tuple[int, int], prune: float, merge: int) -> float | None:
        if merge:
            return 0.7 if merge == 1024 else 0.65
        return None if window == WHOLE and prune < 1e-8 else (window[1] - window[0]) / 10

    tries = Tries(bits)
    values, how, _ = tries.best(monkeypatch)
    windows: TRIED = [((2, 2), FLOOR, 0), ((1, 3), FLOOR, 0), ((0, 4), FLOOR, 0), ((-1, 5), FLOOR, 0)]
    pruned: TRIED = [(WHOLE, prune, 0) for prune in PRUNINGS[:4]]
    merged: TRIED = [(WHOLE, 1e-9, most) for most in MERGINGS]
    assert tries.tried == [(WHOLE, FLOOR, 0), *windows, *pruned, *merged]
    assert tries.limits[1][1] == MOST_MOVES
    assert (values.lower, how) == (0.7, {"window": WHOLE, "prune": 1e-8, "merge": 0})


def test_the_best_way_is_kept_and_of_equal_ones_the_first(monkeypatch: pytest.MonkeyPatch):
    """Wider windows that do not fit end the search for them, and merged histories are tried all the same."""

    def bits(window: tuple[int, int], prune: float, merge: int) -> float | None:
        if window == (1, 3) or merge == 256:
            return 0.25
        return 0.0 if window == (2, 2) else None

    tries = Tries(bits)
    values, how, _ = tries.best(monkeypatch)
    assert (values.lower, how["window"], how["merge"]) == (0.25, (1, 3), 0)
    wider: TRIED = [((0, 4), prune, 0) for prune in PRUNINGS]
    merged: TRIED = [(WHOLE, 1e-9, 256), (WHOLE, 1e-9, 1024)]
    assert tries.tried[2:] == [((1, 3), FLOOR, 0), *wider, *merged]


def test_the_goal_says_which_way_is_better(monkeypatch: pytest.MonkeyPatch):
    """The stand-in's upper bound is one less its lower one."""
    tries = Tries(lambda window, prune, merge: None if window == WHOLE and not merge else 1 / (1 + window[1]))
    assert tries.best(monkeypatch)[1]["window"] == (2, 2)
    values, how, _ = tries.best(monkeypatch, goal="transparent")
    assert (values.upper, how["window"]) == (1 - 1 / 3, (2, 2))
    tries = Tries(lambda window, prune, merge: None if window == WHOLE and not merge else window[1] / 10)
    assert tries.best(monkeypatch)[1]["merge"] == 256
    assert tries.best(monkeypatch, goal="transparent")[1]["merge"] == 256


def test_of_a_path_there_are_no_windows(monkeypatch: pytest.MonkeyPatch):
    """They hold its last part only."""
    tries = Tries(lambda window, prune, merge: None if window == WHOLE and not merge else 0.5)
    tries.best(monkeypatch, 30.0, path=object())
    assert tries.tried == [(WHOLE, FLOOR, 0), ((2, 2), FLOOR, 0), *((WHOLE, 1e-9, most) for most in MERGINGS)]
    assert tries.limits[0] == (30 / 2 + 0.5, 2**23)


def test_windows_end_where_the_next_one_would_take_too_long(monkeypatch: pytest.MonkeyPatch):
    """A try of 10 s in 100 s: half of what is left after two tries, 40.5 s, are for windows, and one takes three times as long
    as the one before; merged histories get the rest, and four times as long is too long."""
    tries = Tries(lambda window, prune, merge: None if window == WHOLE and not merge else window[1] / 10, 10.0)
    tries.best(monkeypatch, 100.0)
    windows: TRIED = [((1, 3), FLOOR, 0), ((0, 4), FLOOR, 0)]
    assert tries.tried[2:] == [*windows, *((WHOLE, 1e-9, most) for most in MERGINGS[:3])]


@pytest.mark.parametrize(("seconds", "gap", "goes_on"), [(1.0, 1e-3, False), (1.0, 1e-6, True), (0.5, 1e-3, True)])
def test_windows_end_where_they_gain_little_and_take_long(
    monkeypatch: pytest.MonkeyPatch, seconds: float, gap: float, goes_on: bool
):
    """Less than a twentieth of the gap, and more than two seconds for the next one."""
    tries = Tries(
        lambda window, prune, merge: None if window == WHOLE and not merge else 0.5 + window[1] * 1e-6, seconds
    )
    tries.best(monkeypatch, gap=gap)
    windows = [window for window, _, merge in tries.tried[2:] if not merge]
    assert windows[0] == (1, 3)
    assert (len(windows) > 1) == goes_on


@pytest.mark.parametrize("secret_time", [0, 5])
def test_windows_around_an_end_of_the_horizon_grow_to_the_whole(monkeypatch: pytest.MonkeyPatch, secret_time: int):
    """One side of them is whole already; the last one is tried without rare weights."""
    tries = Tries(
        lambda window, prune, merge: None if window == WHOLE and prune < 1e-12 else 0.5 + window[1] - window[0]
    )
    tries.best(monkeypatch, secret_time=secret_time)
    windows = [window for window, _, merge in tries.tried if not merge]
    if secret_time == 0:
        assert windows == [WHOLE, (-1, 0), (-1, 1), (-1, 2), (-1, 3), (-1, 4), (-1, 5), WHOLE, WHOLE]
    else:
        assert windows == [WHOLE, (5, 6), (1, 6), (0, 6), WHOLE, WHOLE]


def test_windows_grow_while_nothing_is_proven_yet(monkeypatch: pytest.MonkeyPatch):
    """A policy may hide nothing from who is told its state soon before and after, and more from others."""
    tries = Tries(lambda window, *_: None if window == WHOLE else 0.0 if window[0] >= 0 else 0.5)
    values, how, _ = tries.best(monkeypatch)
    assert (values.lower, how["window"]) == (0.5, (-1, 5))


def test_a_policy_that_cannot_be_evaluated_is_too_large(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(TooLargeError, match="time_limit"):
        Tries(lambda *_: None).best(monkeypatch)


# What is claimed of pairs and of what is known.


def test_a_policy_that_does_not_fit_is_refused():
    problem, _ = uniform("two-rooms")
    with pytest.raises(veil.InputError):
        certify(problem, veil.MarkovPolicy(np.full((2, 3), 1 / 3)), 0.0)
    with pytest.raises(veil.InputError, match="policy is a str"):
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
    policy = game.policy(problem)
    free = certify(problem, policy, 5.0, game=poor)
    assert free.best_known == free.lower > 0.01
    bounded = problem.replace(min_return="90%")
    missed = certify(bounded, policy, 5.0, game=poor)
    assert not missed.feasible
    assert missed.best_known == 0.01


def test_reports_never_pass_the_seconds_of_the_limit():
    found, times = list[Progress](), iter([0.0, 100.0, 100.0, 100.0, 100.0])
    line = Clock(progress=found.append, now=lambda: next(times))
    certify_module._proving(line, 0.2)(Progress("game", 3, 5, 0.5, 0.0, 0.0, 1.0))
    [news] = found
    assert (news.iteration, news.of, news.seconds) == (1, 1, 100.0)


@pytest.mark.parametrize(
    ("time", "radius", "expected"),
    [
        (0, 2, (-1, 2)),
        (5, 2, (3, 6)),
        (2, 1, (1, 3)),
        (2, 0, (2, 2)),
        (2, 3, (-1, 5)),
        (2, 9, (-1, 6)),
        (0, 9, (-1, 6)),
    ],
)
def test_windows_of_certificates(time: int, radius: int, expected: tuple[int, int]):
    """They grow on both sides, and at an end of the horizon they need one side only."""
    problem = cast(Any, SimpleNamespace(secret_time=time, horizon=5))
    assert certify_module._around(problem, radius) == expected


def test_what_a_certificate_cannot_be_asked_for():
    problem, policy = example(), veil.MarkovPolicy.uniform(example())
    for wrong in ({"time_limit": -0.5}, {"gap": -0.5}, {"gap": math.nan}, {"time_limit": True}, {"goal": "secret"}):
        with pytest.raises(veil.InputError, match=next(iter(wrong))):
            certify(problem, policy, **cast(Any, wrong))
    assert certify(problem, policy, 0, gap=0).is_exact


def test_reports_of_a_proof_count_seconds_of_its_limit():
    found = list[Progress]()
    report = certify_module._proving(Clock(progress=found.append), 7.4)
    report(Progress("game", 3, 5, 0.5, 0.0, 0.0, 1.0))
    [news] = found
    assert (news.phase, news.iteration, news.of) == ("proving", 0, 7)
    certify_module._proving(Clock(progress=found.append), math.inf)(news)
    assert found[-1].of == 10**9


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
    assert (proof.lower, proof.upper, proof.witness) == (0.0, found.upper + 2.0**-40, None)
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
    assert [one.name for one in proof.constraints] == [one.name for one in problem.further]
    assert [one.bound for one in proof.constraints] == [one.bound for one in further_targets(problem)]
    assert [one.met for one in proof.constraints] == [one.met for one in found.policy.further]
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
    seeing = problem.replace(agent_sees_observations=True)
    watching = veil.MemoryPolicy.uniform(seeing, veil.ObservationMemory(1))
    assert certify(seeing, watching, 20.0, gap=1e-2).delayed is None


def test_a_certificate_of_pairs_that_are_hidden_or_must_keep_bits():
    """The observers of both prove its bound, also where one must keep almost all that it can."""
    problem = random_pairs(5)
    policy = veil.MarkovPolicy.uniform(problem)
    both = certify(problem, policy, 20.0, gap=1e-2, hide="own, p0")
    alone = certify(problem, policy, 20.0, gap=1e-2)
    kept = problem.replace(pairs=[replace(problem.pairs[0], min=0.6095)])
    bounded = certify(kept, policy, 20.0, gap=1e-2)
    for proof, asked in ((both, problem), (alone, problem), (bounded, kept)):
        verify(proof, asked, policy)
    assert both.witness is not None
    assert bounded.witness is not None
    assert [one.pair for one in both.witness.rules] == [one.pair for one in bounded.witness.rules] == ["own", "p0"]
    assert (alone.pairs, both.hide, bounded.kept) == ((), ("own", "p0"), {"p0": 0.6095})
    assert both.lower == min(alone.lower, both.pairs[0].lower)
    assert both.upper <= alone.upper + 1e-2
    assert bounded.upper <= alone.upper + 1e-2
    assert bounded.delayed is None
