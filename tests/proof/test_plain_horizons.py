"""The second verifier at horizons at which not all histories can be followed: windows, merged histories, draws."""

from dataclasses import replace
from pathlib import Path

import pytest

import veil
from tests.proof.lies import dressed
from tests.proof.plain import saved, second, with_claim
from tests.proof.reading import Setting
from veil.proof.certificate import Certificate
from veil.proof.claims import ProvenChannel, Sampled
from veil.proof.compiled import record_of
from veil.proof.described import described
from veil.proof.policy_values import policy_values

Case = tuple[veil.Problem, veil.Policy, Certificate]


def case(name: str, window: tuple[int, int], prune: float, merge: int) -> Case:
    """A problem of the gallery over 60 steps, the uniform policy, and what a window and merged histories prove."""
    problem = veil.gallery.load(name).replace(horizon=60)
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, 0.5, gap=10, progress=False)
    content = described(problem, policy)
    found = policy_values(Setting(record_of(problem)), content, window, prune, None, merge=merge, quantities=False)
    one, off = claim.channels[0], 2.0**-40
    upper = max(one.upper, min(found.upper + off, Setting(record_of(problem)).most_bits))
    told = ProvenChannel(0, one.name, None, None, max(0.0, found.lower - off), upper, window, prune, merge)
    return problem, policy, with_channel(claim, told)


def with_channel(claim: Certificate, told: ProvenChannel) -> Certificate:
    return dressed(replace(claim, channels=(told,), best_known=None))


CASES = {
    "merged histories": ("badge-doors", (-1, 61), 1e-9, 256),
    "a window before the end": ("paper-last-state", (54, 61), 1e-9, 0),
    "a window after the start": ("paper-initial-state", (-1, 6), 1e-9, 0),
    "a whole path": ("smart-meter", (-1, 61), 1e-9, 64),
}


@pytest.mark.parametrize("which", CASES.values(), ids=list(CASES))
def test_what_the_first_verifier_proves_is_held(which: tuple[str, tuple[int, int], float, int], tmp_path: Path):
    problem, policy, claim = case(*which)
    folder, one = saved(tmp_path / "result", problem, policy, claim), claim.channels[0]
    veil.verify(claim, problem, policy)
    assert one.lower > 0
    assert second.main([str(folder)])[1] == 0
    far = with_channel(claim, replace(one, lower=one.upper - 1e-6, merge=min(one.merge, 1)))
    assert second.main([str(with_claim(folder, far))])[1] in (2, 5)


def test_a_false_bound_of_merged_histories_is_refused(tmp_path: Path):
    """More than the policy can hide with these histories, and less than it is proven to hide."""
    problem, policy, claim = case(*CASES["merged histories"])
    folder, one = saved(tmp_path / "result", problem, policy, claim), claim.channels[0]
    for changes in ({"lower": 0.999, "upper": 1.0}, {"lower": 0.0, "upper": one.lower / 2}):
        told = with_channel(claim, replace(one, **changes))
        answer = second.main([str(with_claim(folder, told))])
        assert answer[1] == 5, answer


def test_more_than_this_program_can_tell_is_not_checked(tmp_path: Path):
    """What lies between the bounds that are found is neither held nor refused, and the remedy is named."""
    problem, policy, claim = case("badge-doors", (-1, 61), 1e-9, 1024)
    told = with_channel(claim, replace(claim.channels[0], merge=1))
    answer = second.main([str(saved(tmp_path / "result", problem, policy, told))])
    assert answer[1] == 2
    assert "veil verify" in answer[0]


def test_draws_at_a_long_horizon(tmp_path: Path):
    problem, policy, claim = case(*CASES["a window before the end"])
    one = claim.channels[0]
    told = with_channel(claim, replace(one, sampled=Sampled(max(0.0, one.lower - 0.3), 1.0, 400)))
    folder = saved(tmp_path / "result", problem, policy, told)
    assert second.main([str(folder), "--seed", "1"])[1] == 0
    false = with_channel(claim, replace(one, sampled=Sampled(0.0, one.lower - 0.1, 30)))
    assert second.main([str(with_claim(folder, false)), "--seed", "1"])[1] == 5
