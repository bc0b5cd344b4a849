"""history policies measured: the same numbers as plain enumeration and as the game, and files that open again."""

import random

import numpy as np
import pytest

import veil
from tests.policy.test_history import play
from tests.random_problems import random_spec, to_problem
from tests.seeds import in_blocks
from veil.engine.compile import build
from veil.game.pairs import FullHistory, LastEvents, TailEvents, make_pairs
from veil.game.solve import solve_game
from veil.policy.files import save_table


def case(seed: int):
    """A random problem and a policy on one of several graphs."""
    rng = random.Random(seed)
    while True:
        spec = random_spec(rng, work=3000)
        problem = to_problem(spec, rng)
        if make_pairs(build(problem), FullHistory()).num_pairs < 5000:
            break
    memory = (FullHistory(), LastEvents(1), LastEvents(2), LastEvents(0))[seed % 4]
    result = solve_game(problem, memory, gap=0.05, iterations=10)
    return spec, problem, result, result.policy()


@in_blocks(12, 40, 14)
def test_a_bracket_holds_the_exact_value(seed):
    _, problem, _, policy = case(seed)
    exact = veil.opacity(problem, policy, method="exact")
    found = veil.opacity(problem, policy, method="bracket", width=0.0)
    assert found.lower - 1e-9 <= exact.bits <= found.upper + 1e-9
    assert found.prior_bits == pytest.approx(exact.prior_bits, abs=1e-9)


@in_blocks(6, 12, 6)
def test_a_policy_that_was_told_is_measured(seed):
    rng = random.Random(seed)
    while True:
        problem = to_problem(random_spec(rng, kind="last", work=3000), rng)
        if problem.horizon > 1:
            break
    pairs = make_pairs(build(problem), TailEvents(1), told_at=1)
    result = solve_game(problem, gap=1e-2, iterations=50, pairs=pairs)
    policy = result.policy()
    assert veil.expected_return(problem, policy) == pytest.approx(result.expected_return, abs=1e-10)
    assert result.lower - 1e-9 <= veil.opacity(problem, policy).bits
    play(problem, policy, np.random.default_rng(seed), seed)


def test_damaged_files_are_refused(tmp_path):
    for head in ("{}", "[1]", '{"horizon": 1, "told_at": null, "executable": true, "arrays": [["|O", 1]]}', "nonsense",
                 '{"horizon": 0, "told_at": null, "executable": true, "arrays": [["<i4", -1]]}'):  # fmt: skip
        save_table(tmp_path / "policy", f"history {head}", np.zeros(4, dtype=np.uint8))
        with pytest.raises(veil.VeilError, match="cannot be read as a history policy"):
            veil.load_policy(tmp_path / "policy")


def test_a_policy_for_another_problem_is_refused():
    _, problem, _, policy = case(4)
    with pytest.raises(veil.InputError, match="history policy"):
        veil.opacity(problem.replace(horizon=problem.horizon + 1), policy)
    with pytest.raises(veil.InputError, match="history policy"):
        veil.expected_return(veil.gallery.load("paper-last-state"), policy)


def test_over_an_infinite_horizon_it_plays_on_optimally():
    problem = veil.gallery.load("two-rooms", min_return=None)
    model = problem.model
    paying = veil.Model(
        model.matrices, np.array([[0.0, 0.5], [1.0, 0.0]]), model.initial, 0.9,
        state_names=model.states.all(), action_names=model.actions.all(),
    )  # fmt: skip
    forever = problem.replace(model=paying, return_over="infinite", horizon=3)
    result = solve_game(forever, gap=1e-2, iterations=50)
    assert veil.expected_return(forever, result.policy()) == pytest.approx(result.expected_return, abs=1e-10)


def test_histories_of_no_decisions_are_the_first_events():
    problem = veil.gallery.load("paper-initial-state", horizon=0).replace(min_return=None)
    policy = solve_game(problem).policy()
    found = veil.opacity(problem, policy, "bracket")
    exact = veil.opacity(problem, policy, "exact")
    assert found.num_sequences == exact.num_sequences == int(build(problem).root.any(axis=0).sum())
    assert found.lower == pytest.approx(exact.bits, abs=1e-12)
    assert found.upper == pytest.approx(exact.bits, abs=1e-12)
