"""Policies that act on what several observers see: each pair's bits by all paths, files, runs, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.formats.test_policies import comes_back
from tests.game.all_paths import hidden_bits
from tests.game.test_records import random_pairs, random_secrets
from tests.problem.test_together import random_case
from tests.proof.plain import code, saved
from tests.random_problems import distributions
from tests.seeds import in_blocks
from veil.game.solve import solve_game


def measured(problem: veil.Problem, policy: veil.HistoryPolicy, method: str = "exact") -> dict[str, veil.Opacity]:
    """What is found in each pair."""
    own = veil.opacity(problem, policy, method)  # type: ignore[arg-type]
    return {"own": own} | {one.name: one.opacity for one in veil.pair_values(problem, policy, method)}  # type: ignore[arg-type]


def small_pairs(seed: int) -> veil.Problem:
    """Two observers of one secret, who sometimes see actions, and a third of another secret of the last time."""
    problem, two = random_case(seed, sees_actions=seed % 2 == 1)
    secret = problem.secret if isinstance(problem.secret, veil.LastState) else veil.LastState([0])
    third = veil.Observer(distributions(np.random.default_rng([seed, 9]), 3, 2))
    pairs = [
        veil.Pair("two", two),
        veil.Pair("third", third, veil.LastState([1])),
        veil.Pair("same", secret=veil.LastState([2])),
    ]
    return problem.replace(secret=secret, horizon=2, pairs=pairs)


@in_blocks(1, 4, size=1)
def test_each_pair_hides_what_all_paths_say(seed: int) -> None:
    """In pairs that the policy watches, in one that it does not, and in one that shares the problem's own observer."""
    problem = small_pairs(seed + 1)
    for hide in (("own", "two"), ("two",), ("own",))[: 3 if seed else 1]:
        policy = solve_game(problem, hide=hide, gap=0.1).policy()
        assert policy.sees == hide
        wanted, found = hidden_bits(problem, policy), measured(problem, policy)
        assert found.keys() == wanted.keys() == {"own", "two", "third", "same"}
        for name, bits in wanted.items():
            assert found[name].bits == pytest.approx(bits, abs=1e-12)
        for name, one in measured(problem, policy, "bracket").items():
            assert one.lower - 1e-12 <= wanted[name] <= one.upper + 1e-12


@in_blocks(3, 6, size=3)
def test_several_secrets_are_hidden_as_all_paths_say(seed: int) -> None:
    """Where each pair asks something else, of an earlier time or with a memory."""
    problem = random_secrets(seed + 1)
    policy = solve_game(problem, hide=("own", *(one.name for one in problem.pairs)), gap=0.05).policy()
    wanted = hidden_bits(problem, policy)
    for method in ("exact", "bracket"):
        for name, one in measured(problem, policy, method).items():
            assert one.lower - 1e-12 <= wanted[name] <= one.upper + 1e-12


@pytest.mark.slow
def test_each_pair_hides_what_all_paths_say_on_many_problems() -> None:
    """The same for the games of sixty problems with two or three observers, of one secret and of several."""
    for seed in range(120):
        problem = random_pairs(seed // 2) if seed % 2 else random_secrets(seed // 2)
        policy = solve_game(problem, hide=("own", *(one.name for one in problem.pairs)), gap=0.05).policy()
        wanted = hidden_bits(problem, policy)
        for name, one in measured(problem, policy).items():
            assert one.bits == pytest.approx(wanted[name], abs=1e-12)


@pytest.mark.slow
def test_one_certificate_for_pairs_that_are_watched_or_not(tmp_path: Path) -> None:
    """A lower bound on a pair that the policy does not watch is proven by both verifiers."""
    problem = small_pairs(1)
    policy = solve_game(problem, hide=("own",), gap=0.1).policy()
    bits = hidden_bits(problem, policy)
    problem = problem.replace(pairs=[replace(one, min=0.5 * bits[one.name]) for one in problem.pairs])
    proof = veil.certify(problem, policy, 2, progress=False)
    veil.verify(proof, problem, policy)
    assert code(saved(tmp_path / "result", problem, policy, proof)) == 0
    for one in proof.pairs:
        assert one.lower == pytest.approx(bits[one.name], abs=1e-9)
        assert one.met


@pytest.mark.parametrize(
    "problem", [random_pairs(5), random_secrets(11), pytest.param(random_secrets(17), marks=pytest.mark.slow)]
)
def test_files_and_runs(problem: veil.Problem, tmp_path: Path) -> None:
    """Both kinds of files bring the policy back; a run takes what the observers see together."""
    policy = solve_game(problem, hide=("own", "p0"), gap=0.1).policy()
    policy.save(tmp_path / "policy.safetensors")
    assert veil.HistoryPolicy.load(tmp_path / "policy.safetensors") == policy
    plain = veil.HistoryPolicy(policy.first, policy.following, policy.decisions)
    assert plain.digest() != policy.digest()
    comes_back(problem, policy, tmp_path)
    together = veil.Together(problem.observer, problem.only("p0").observer)
    player = policy.player(problem, seed=1)
    for time in range(problem.horizon):
        state = player.act(int(np.argmax(problem.model.initial)) if time == 0 else 0, together.observations[time % 2])
        assert 0 <= state < problem.num_actions
    assert "observers of own and p0" in veil.certify(problem, policy, 1, hide="own, p0", progress=False).policy_class


def test_what_is_refused() -> None:
    """Pairs that are not there, and views that tell no events apart."""
    problem = random_pairs(5)
    policy = solve_game(problem, hide=("own", "p0"), gap=0.1).policy()
    with pytest.raises(veil.InputError, match="there is no pair 'p0'"):
        veil.opacity(problem.replace(pairs=()), policy)
    first, later = policy.views["own"]
    with pytest.raises(veil.InputError, match="does not tell its events apart"):
        veil.HistoryPolicy(policy.first, policy.following, policy.decisions, views={"own": (first, later)})
    with pytest.raises(veil.InputError, match="one whole number for each"):
        veil.HistoryPolicy(policy.first, policy.following, policy.decisions, views={"own": (first[:1], later)})


def test_secrets_that_the_policy_does_not_know_of() -> None:
    """They are measured all the same: what the policy acts on, and what is asked, are followed side by side."""
    problem = random_pairs(5)
    policy = solve_game(problem, hide=("own", "p0"), gap=0.1).policy()
    other = problem.replace(pairs=[*problem.pairs, veil.Pair("start", secret=veil.InitialState())])
    values = veil.StateAt(1, [0]), veil.StateAt(1, [1])
    settled = problem.replace(secret=values[0], pairs=[veil.Pair("p0", secret=values[1])])
    early = veil.solve(settled.replace(pairs=()), "game", certificate=False, progress=False).policy
    assert isinstance(early, veil.HistoryPolicy)
    for whole, acting in ((other, policy), (settled, early)):
        wanted = hidden_bits(whole, acting)
        found = {one.name: one.bits for one in veil.pair_values(whole, acting)}
        assert found == pytest.approx({name: wanted[name] for name in found}, abs=1e-9)
