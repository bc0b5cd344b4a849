"""The loss of an observer who may be wrong: equal to H where it is right, never below it, and exact gradients."""

import math
from typing import Any

import numpy as np
import pytest

import veil
from tests.problem.test_together import random_case
from tests.random_problems import distributions
from tests.seeds import in_blocks
from veil.formats.scenario.load import load, read_scenario
from veil.formats.scenario.toml import to_toml
from veil.measure.loss import loss
from veil.planning.channels import Asked, make_backend
from veil.planning.policy_class import make_space
from veil.problem.fingerprint import fingerprint


def policies(seed: int) -> list[veil.MarkovPolicy]:
    rng = np.random.default_rng([seed, 3])
    return [veil.MarkovPolicy(distributions(rng, 3, 2)) for _ in range(2)]


def beliefs(problem: veil.Problem, other: veil.Policy, seed: int) -> list[veil.Belief]:
    """Wrong in the policy, the model, the sensors, and all of them."""
    rng = np.random.default_rng([seed, 4])
    model = veil.Model(distributions(rng, 3, 2, 3), np.zeros((3, 2)), distributions(rng, 3))
    sensors = problem.observer.replace(emissions=distributions(rng, 3, problem.observer.num_observations))
    return [
        veil.Belief(other),
        veil.Belief(other, model),
        veil.Belief(observer=sensors),
        veil.Belief(other, model, sensors, doubt=0.2),
    ]


@in_blocks(8, 8, 8)
def test_the_loss_is_never_below_what_is_hidden(seed: int) -> None:
    """With the right assumptions it is `H(Z|Y)`; with others, and with doubt, at least that, as brute force says."""
    problem = random_case(seed, sees_actions=seed % 2 == 1)[0]
    acting, other = policies(seed)
    hidden = veil.opacity(problem, acting, "exact").bits
    assert loss(problem, acting, veil.Belief(acting)).bits == pytest.approx(hidden, abs=1e-12)
    right = veil.Belief(acting, problem.model, problem.observer)
    assert loss(problem, acting, right).bits == pytest.approx(hidden, abs=1e-12)
    for belief in beliefs(problem, other, seed):
        assert loss(problem, acting, belief).bits >= hidden - 1e-12
    table = veil.measures.joint_table(problem, acting)
    assumed = veil.measures.joint_table(problem, other)
    rows = {tuple(events): row for events, row in zip(assumed.events.tolist(), assumed.posterior, strict=True)}
    rule = np.array([rows[tuple(events)] for events in table.events.tolist()])
    expected = -float(np.sum(table.probabilities * np.log2(rule, where=rule > 0, out=np.zeros_like(rule))))
    assert loss(problem, acting, veil.Belief(other)).bits == pytest.approx(expected, abs=1e-12)
    found = veil.attack(problem, acting, 2, observer_believes=other)
    assert found.exact_cross_entropy_bits == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_the_search_evaluates_the_same_loss_and_its_gradient(memory: str) -> None:
    """Values equal those of `loss`, gradients those of differences, and the loss of mixed occupancies is linear."""
    for seed in range(3):
        problem, other = random_case(seed, on_actions=seed == 2)[0], policies(seed)[1]
        if seed == 1:
            problem = problem.replace(secret=veil.InitialState())
        space = make_space(problem, memory)
        belief = veil.Belief(other, doubt=0.1)
        backend = make_backend(space, Asked(evaluation="exact", belief=belief))
        rng = np.random.default_rng(seed)
        table = distributions(rng, *space.shape)
        direction = distributions(rng, *space.shape) - table
        found = backend(np.stack([table, table + 1e-6 * direction, table - 1e-6 * direction]), clock=_clock())
        values, slopes = found.values, found.gradient
        assert values[0] == pytest.approx(loss(problem, space.policy(table), belief).bits, abs=1e-12)
        assert (values[1] - values[2]) / 2e-6 == pytest.approx(float(np.sum(slopes[0] * direction)), abs=1e-6)


def _clock() -> Any:
    from veil.common.clock import UNLIMITED

    return UNLIMITED


def test_the_agent_plans_against_an_observer_who_is_wrong() -> None:
    """It costs the observer more than what the best hiding policy costs it; the best of several observers loses least."""
    from tests.planning.test_pairs import FAST, two_sensors

    base = two_sensors(1).replace(pairs=())
    sure = veil.MarkovPolicy(np.tile([0.9, 0.1], (3, 1)))
    pairs = [veil.Pair("sure", belief=veil.Belief(sure)), veil.Pair("unsure", belief=veil.Belief(sure, doubt=0.5))]
    problem = base.replace(pairs=pairs)
    hiding, fooling, robust = (veil.solve(problem, hide=hide, **FAST) for hide in ("own", "sure", "sure, unsure"))
    assert fooling.pairs[0].loss_bits > hiding.pairs[0].loss_bits + 1e-3
    assert fooling.least_bits == fooling.pairs[0].loss_bits
    assert hiding.opacity.bits >= fooling.opacity.bits
    assert robust.least_bits >= max(min(one.bits for one in answer.pairs) for answer in (hiding, fooling)) - 1e-6
    for answer in (hiding, fooling, robust):
        assert all(one.loss_bits >= answer.opacity.bits - 1e-12 for one in answer.pairs)
    assert "loss" in robust.summary()


def test_what_rules_out_what_happens() -> None:
    """The loss is then infinite; a search refuses it, and a doubt makes it finite."""
    problem = random_case(0)[0].replace(observer=veil.Observer(np.eye(3)))
    acting = policies(0)[0]
    blind = veil.Observer(np.eye(3)[[1, 2, 0]])
    assert loss(problem, acting, veil.Belief(observer=blind)).bits == np.inf
    assert np.isfinite(loss(problem, acting, veil.Belief(observer=blind, doubt=0.01)).bits)
    with pytest.raises(veil.InputError, match="give it a doubt"):
        veil.solve(problem.replace(pairs=[veil.Pair("a", belief=veil.Belief(observer=blind))]), hide="a")


def test_what_is_refused() -> None:
    """Beliefs that do not fit the problem, each with what is expected."""
    problem, two = random_case(0)
    with pytest.raises(veil.InputError, match=r"(?s)policy is 3.*doubt is 2"):
        veil.Belief(3, doubt=2)  # type: ignore[arg-type]
    cases: list[tuple[veil.Belief, str]] = [
        (veil.Belief(observer=two), "same names"),
        (veil.Belief(observer=problem.observer.replace(sees_actions=True)), "sees actions"),
        (veil.Belief(model=veil.Model(np.ones((1, 1, 1)), np.zeros((1, 1)), [1.0])), "states or actions"),
        (veil.Belief(veil.MarkovPolicy([[1.0]])), "its table"),
    ]
    for belief, words in cases:
        with pytest.raises(veil.InputError, match=words):
            problem.replace(pairs=[veil.Pair("a", belief=belief)])
    with pytest.raises(veil.InputError, match="whole path"):
        problem.replace(secret=veil.Trajectory(), pairs=[veil.Pair("a", belief=veil.Belief())])


def test_files(tmp_path: Any) -> None:
    """A belief in a scenario file: its model by differences, its sensors, its policy from a file beside it."""
    problem, _ = random_case(0)
    model, sensors = beliefs(problem, policies(0)[1], 0)[1].model, beliefs(problem, policies(0)[1], 0)[2].observer
    whole = problem.replace(pairs=[veil.Pair("a", belief=veil.Belief("uniform", model, sensors, 0.125))])
    again = read_scenario(to_toml(whole)).problem
    assert fingerprint(again) == fingerprint(whole) != fingerprint(problem)
    with pytest.raises(veil.InputError, match="name its file"):
        to_toml(problem.replace(pairs=[veil.Pair("a", belief=veil.Belief(policies(0)[1]))]))
    policies(0)[1].save(tmp_path / "believed.safetensors")
    text = to_toml(problem) + '\n[[pairs]]\nname = "a"\nbelief.policy = "believed.safetensors"\n'
    (tmp_path / "it.toml").write_text(text)
    assert load(tmp_path / "it.toml").pairs[0].belief == veil.Belief(policies(0)[1])
    for wrong, words in (("../believed.safetensors", "leaves the folder"), ("none.safetensors", "none.safetensors")):
        (tmp_path / "it.toml").write_text(text.replace("believed.safetensors", wrong))
        with pytest.raises(veil.VeilError, match=words):
            load(tmp_path / "it.toml")


@in_blocks(4, 4, 4)
def test_a_sampled_loss_is_right_within_its_error(seed: int):
    problem = random_case(seed)[0]
    acting, other = policies(seed)
    for belief in beliefs(problem, other, seed):
        sampled = loss(problem, acting, belief, "sampled", sequences=1500, seed=seed)
        assert abs(sampled.bits - loss(problem, acting, belief).bits) <= 5 * sampled.std_error + 1e-9
        assert 0 <= sampled.std_error < 0.1


def test_a_sampled_loss_is_infinite_where_the_truth_is_ruled_out():
    """The observer assumes that the second state is never reached, which it is."""
    model = veil.Model(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), 0)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState([1]), 2)
    policy = veil.MarkovPolicy.uniform(problem)
    stays = veil.Model(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.zeros((2, 1)), 0)
    found = loss(problem, policy, veil.Belief(policy, stays), "sampled", sequences=50)
    assert (found.bits, found.std_error) == (math.inf, 0.0)
    assert loss(problem, policy, veil.Belief(policy, stays)).bits == math.inf
    mean = loss(problem, policy, veil.Belief(policy), "sampled", sequences=50).bits
    assert mean == 0.0
