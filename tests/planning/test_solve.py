"""`veil.solve` joins the search with the proof: what comes with an answer, why sometimes nothing does, and the game."""

import math
import time as clock
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from veil.planning import solve as module
from veil.planning.methods import options_of
from veil.planning.options import SolveOptions
from veil.planning.solution import Solution

QUICK: dict[str, Any] = {"starts": 2, "iterations": 20}


@pytest.fixture(scope="module")
def problem() -> veil.Problem:
    return veil.gallery.load("two-rooms", min_return="50%")


def test_an_answer_comes_with_a_proof_that_verifies(problem: veil.Problem):
    solution = veil.solve(problem, starts=4)
    assert solution.certificate is not None
    veil.verify(solution.certificate, problem, solution.policy)
    assert solution.certificate.lower <= solution.opacity.bits <= solution.certificate.upper
    assert solution.certificate_note == ""
    assert solution.proof is None
    assert "proven  this policy at least 0." in solution.summary()


def test_the_game_is_the_best_of_all_and_proves_it(problem: veil.Problem):
    game = veil.solve(problem, "game", gap=1e-4)
    assert game.method == "game"
    assert game.status is veil.Status.CONVERGED
    assert game.upper_bits - game.opacity.bits <= 1e-4
    assert game.expected_return >= (game.threshold or 0.0)
    assert game.certificate is not None
    veil.verify(game.certificate, problem, game.policy)
    assert game.certificate.gap <= 1.01e-4
    for memory in ("markov", "timed"):
        assert veil.solve(problem, memory=memory, starts=4, certificate=False).opacity.bits <= game.upper_bits


def test_the_policy_of_the_game_hides_and_earns_what_is_said(problem: veil.Problem):
    game = veil.solve(problem, "game", certificate=False)
    assert veil.opacity(problem, game.policy).bits == pytest.approx(game.opacity.bits, abs=1e-9)
    assert veil.expected_return(problem, game.policy) == pytest.approx(game.expected_return, abs=1e-12)


def test_why_there_is_no_proof(problem: veil.Problem, monkeypatch: pytest.MonkeyPatch):
    def note(**options: Any) -> str:
        solution = veil.solve(problem, **QUICK, **options)
        assert solution.certificate is None
        return solution.certificate_note

    assert note(certificate=False) == "it was not asked for"
    assert "and the objective was 'guess'" in note(objective="guess")
    assert "not about the most return for some bits" in note(min_opacity=0.1)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("veil.planning.solve.certify", interrupted)
    solution = veil.solve(problem, **QUICK)
    assert solution.status is veil.Status.INTERRUPTED
    assert solution.certificate_note == "the proof was interrupted"
    assert solution.feasible


def test_transparent_answers_say_what_is_proven(problem: veil.Problem):
    solution = veil.solve(problem, goal="transparent", **QUICK)
    assert solution.certificate is not None
    assert solution.certificate.goal == "transparent"
    assert solution.certificate.lower == 0
    veil.verify(solution.certificate, problem, solution.policy)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"goal": "transparent"}, "goal"),
        ({"objective": "leakage"}, "objective"),
        ({"per_start": True}, "per_start"),
        ({"min_opacity": 0.5}, "min_opacity"),
        ({"memory": "timed"}, "memory"),
        ({"start": veil.MarkovPolicy(np.ones((1, 1)))}, "start"),
    ],
)
def test_the_game_refuses_what_it_would_have_to_ignore(problem: veil.Problem, options: dict[str, Any], name: str):
    with pytest.raises(veil.InputError, match=f"{name}: method='game'"):
        veil.solve(problem, "game", **options)


def test_what_is_refused_before_any_work(problem: veil.Problem):
    refused: list[tuple[dict[str, Any], str]] = [
        ({"gap": 0.1}, "gap: method='auto' does not have this option, only 'game'"),
        ({"method": "game", "gap": -1}, "gap is -1, expected a number above 0"),
        ({"method": "magic"}, "method is 'magic', expected one of 'auto', 'ascent', 'primal-dual', 'game'"),
        ({"certificate_time_limit": -1}, "certificate_time_limit is -1, expected a number, 0 or more"),
        ({"memory": "history"}, "memory: method='auto' has 'markov' and .*, found 'history': use method='game'"),
        ({"certificate_time_limit": "long"}, "certificate_time_limit is 'long'"),
    ]
    for options, message in refused:
        with pytest.raises(veil.InputError, match=message):
            veil.solve(problem, **options)


def test_search_and_proof_together_keep_the_limit():
    problem = veil.gallery.load("later-initial-state")
    begin = clock.monotonic()
    solution = veil.solve(problem, time_limit=4)
    assert (
        clock.monotonic() - begin < 4 + 20
    )  # far more than is allowed, for busy machines; far less than without a limit
    assert solution.feasible
    assert solution.certificate is not None
    veil.verify(solution.certificate, problem, solution.policy)


@pytest.mark.parametrize(
    ("method", "limits", "seconds"),
    [
        ("ascent", {}, 20.0),
        ("ascent", {"time_limit": 1e4}, 20.0),
        ("game", {"iterations": 1}, 20.0),
        ("game", {"iterations": 1, "time_limit": 1e4}, 5e3),
        ("game", {"iterations": 1, "time_limit": 1e4, "certificate_time_limit": 3.0}, 3.0),
    ],
)
def test_the_proof_of_a_game_has_all_that_is_left(monkeypatch, problem: veil.Problem, method, limits, seconds):
    given = []
    monkeypatch.setattr(veil.planning.solve, "certify", lambda problem, policy, limit, **_: given.append(limit) or None)
    veil.solve(problem, method, iterations=limits.pop("iterations", 3), progress=False, **limits)
    assert given[0] == seconds if seconds <= 20 else given[0] > seconds


class Asked:
    """A method in the place of `ascent`, which notes its options and gives the same answer with some changes."""

    options, given, changes = options_of("ascent"), list[SolveOptions](), dict[str, Any]()
    answer: Solution

    def solve(self, problem: veil.Problem, options: SolveOptions) -> Solution:
        self.given.append(options)
        return replace(self.answer, **self.changes)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> type[Asked]:
    """The method, for a problem with a pair and a further constraint; nothing is proven, pairs have no bits."""
    problem = pairs_problem()
    found = veil.solve(problem, starts=1, iterations=0, certificate=False, progress=False)
    Asked.answer = replace(found, certificate_note="", method="ascent")
    Asked.given, Asked.changes = [], {}
    plain = module.METHODS.get
    monkeypatch.setattr(module.METHODS, "get", lambda name: Asked if name == "ascent" else plain(name))
    return Asked


def pairs_problem(**bounds: Any) -> veil.Problem:
    rng = np.random.default_rng(1)
    model = veil.Model(
        rng.dirichlet(np.ones(3), size=(3, 2)),
        {"gain": rng.normal(size=(3, 2)), "fuel": np.ones((3, 2))},
        [0.2, 0.3, 0.5],
    )
    pair = veil.Pair("other", veil.Observer(np.eye(3)), **bounds)
    limits = [veil.Return(max=5.0, reward="fuel")]
    return veil.Problem(
        model, veil.Observer(np.ones((3, 1))), veil.LastState({0}), 2, "20%", constraints=limits, pairs=[pair]
    )


@pytest.mark.parametrize(("certificate", "limit", "part", "rest"), [
    (True, 1000.0, 750.0, 750.0), (False, 1000.0, 1000.0, 1000.0), (True, None, None, None), (True, 0.0, 0.0, 1.0),
])  # fmt: skip
def test_the_proof_is_left_a_fourth_of_the_time(monkeypatch, asked: type[Asked], certificate, limit, part, rest):
    measured = []
    asked.changes = {"pairs": ()}
    monkeypatch.setattr(
        module, "pair_values", lambda *_, **given: measured.append(given["time_limit"]) or asked.answer.pairs
    )
    monkeypatch.setattr(module, "certify", lambda *_, **__: None)
    found = veil.solve(pairs_problem(), "ascent", time_limit=limit, certificate=certificate, progress=False)
    assert asked.given[0].time_limit == part
    assert measured == [rest if rest is None else pytest.approx(rest, abs=5.0)]
    assert found.certificate is None
    assert found.certificate_note == ("" if certificate else "it was not asked for")


def test_pairs_that_a_method_has_measured_are_not_measured_again(monkeypatch, asked: type[Asked]):
    monkeypatch.setattr(module, "pair_values", lambda *_, **__: pytest.fail("measured again"))
    found = veil.solve(pairs_problem(), "ascent", certificate=False)
    assert found.pairs[0].name == "other"
    assert math.isnan(found.pairs[0].price_bits)


@pytest.mark.parametrize(("bounds", "prices", "wanted"), [
    ({"min": 0.1}, (0.5,), 0.5), ({"max": 0.9}, (0.25,), 0.25), ({"min": 0.1, "max": 0.9}, (0.5, 0.75), 0.75),
    ({"min": 0.1, "max": 0.9}, (0.75, 0.5), 0.75), ({"min": 0.0, "max": 0.9}, (0.5, 0.75), 0.5),
    ({"min": 0.1, "max": 0.9}, (0.5,), 0.5),
])  # fmt: skip
def test_the_price_of_a_pair_is_the_largest_of_its_bounds(asked: type[Asked], bounds, prices, wanted):
    asked.changes = {"pair_prices": prices}
    found = veil.solve(pairs_problem(**bounds), "ascent", certificate=False)
    assert found.pairs[0].price_bits == wanted


def test_constraints_have_their_values_and_prices(asked: type[Asked]):
    asked.changes = {"price_bits": 0.375, "further_prices": (0.125, 7.0)}
    found = veil.solve(pairs_problem(), "ascent", certificate=False)
    assert [one.name for one in found.constraints] == ["return", "fuel"]
    assert [one.price_bits for one in found.constraints] == [0.375, 0.125]
    assert found.further_prices == (0.125,)
    assert found.constraints[1].value == pytest.approx(2.0)
    asked.changes = {"further_prices": ()}
    found = veil.solve(pairs_problem(), "ascent", certificate=False)
    assert math.isnan(found.constraints[1].price_bits)
    assert len(found.further_prices) == 1


def test_an_answer_that_misses_a_constraint_which_its_method_does_not_know_is_not_feasible(asked: type[Asked]):
    strict = pairs_problem().replace(constraints=[veil.Return(max=1.5, reward="fuel")])
    tight = pairs_problem(min=1.5)
    for problem, words in ((strict, "fuel ≤"), (tight, r"H(other) ≥ 1.5")):
        asked.changes = {"pairs": ()}
        found = veil.solve(problem, "ascent")
        assert (found.feasible, found.status) == (False, veil.Status.INFEASIBLE)
        assert found.detail.startswith("method 'ascent' returned a policy that misses")
        assert words in found.detail
        assert found.certificate_note == "no feasible policy was found"
        asked.changes = {"pairs": (), "feasible": False, "status": veil.Status.TIME_LIMIT, "detail": "its own"}
        same = veil.solve(problem, "ascent")
        assert (same.status, same.detail) == (veil.Status.TIME_LIMIT, "its own")


def test_a_task_has_its_value_and_bits_that_are_kept_have_no_price(asked: type[Asked]):
    problem = pairs_problem()
    asked.changes = {"price_bits": 0.375}
    found = veil.solve(problem, "ascent", task="2*gain - 3*fuel + 0.5*H(other) - H(own)", certificate=False)
    policy = asked.answer.policy
    gain, bits = (
        veil.expected_return(problem, policy),
        [veil.opacity(problem, policy, pair=one).bits for one in ("other", "own")],
    )
    assert found.task_value == pytest.approx(2 * gain - 6 + 0.5 * bits[0] - bits[1])
    assert found.price_bits == 0.375
    assert found.problem is problem
    asked.changes = {"price_bits": 0.375, "threshold": 0.5}
    assert math.isnan(veil.solve(problem, "ascent", min_opacity=0.1, certificate=False).price_bits)
    asked.changes = {"price_bits": 0.375, "threshold": None}
    assert veil.solve(problem, "ascent", min_opacity=0.1, certificate=False).price_bits == 0.375
