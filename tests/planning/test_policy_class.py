"""The classes of policies that a solver searches."""

import numpy as np
import pytest

import veil
from tests.policy.masked import AVAILABLE, knowing_problem, masked_problem
from veil.measure.exact import Budget, exact_opacity
from veil.planning.policy_class import Space, any_table, make_space, smaller_classes
from veil.policy.memories import Controller, ObservationMemory, StateMemory, ZoneMemory
from veil.policy.memory import MemoryPolicy

CLASSES = {
    "stationary Markov policies": "markov",
    "time-dependent policies": "timed",
    "policies with memory of the last observation": ObservationMemory(1, clock=False),
    "policies with memory of the last 2 observations and a clock": ObservationMemory(2),
    "policies with memory of the last state and a clock": StateMemory(1),
    "policies with memory of the last 3 states": StateMemory(3, clock=False),
    "policies with memory of whether a zone was visited": ZoneMemory([["shaft"]], clock=False),
    "policies with memory of which of 2 zones were visited and a clock": ZoneMemory([[0], ["shaft", "pit"]]),
    "policies with a controller of 2 nodes": Controller(2),
    "policies with a controller of 3 nodes and a clock": Controller(3, clock=True),
}
HORIZON = 3


def problem() -> veil.Problem:
    return masked_problem(HORIZON).replace(agent_sees_observations=True)


@pytest.fixture(params=CLASSES)
def space(request) -> Space:
    return make_space(problem(), CLASSES[request.param])


def drawn(space: Space, seed: int = 0) -> np.ndarray:
    return space.softmax(np.random.default_rng(seed).normal(size=space.shape))


@pytest.mark.parametrize("words", CLASSES)
def test_a_class_is_named_in_words(words: str):
    found = make_space(problem(), CLASSES[words])
    assert found.describe == words
    assert found.needs_observations == isinstance(found.memory, ObservationMemory)
    assert found.stationary == ("clock" not in words and "time-dependent" not in words)


def test_the_shapes_agree(space: Space):
    assert space.shape == (1 if space.stationary else HORIZON, *space.available.shape)
    assert space.hidden.num_cells == space.available.shape[0]
    assert space.hidden.reward.shape[1] == space.hidden.kernel.num_actions == space.available.shape[1]


def test_softmax_gives_distributions_over_what_is_available(space: Space):
    table = drawn(space)
    np.testing.assert_allclose(table.sum(axis=-1), 1, atol=1e-15)
    np.testing.assert_array_equal(table > 0, np.broadcast_to(space.available, space.shape))
    theta = np.random.default_rng(0).normal(size=space.shape)
    np.testing.assert_array_equal(space.softmax(np.where(space.available, theta, -np.inf)), table)
    large = space.softmax(1e6 * theta)
    assert np.isfinite(large).all()


def test_a_table_becomes_the_policy_whose_table_it_is(space: Space):
    table = drawn(space)
    policy = space.policy(table)
    expected = {"markov": veil.MarkovPolicy, "timed": veil.TimedPolicy}
    assert type(policy) is (expected[space.memory] if isinstance(space.memory, str) else MemoryPolicy)
    np.testing.assert_array_equal(policy.table, table)
    np.testing.assert_array_equal(space.table_of(policy), table)
    chain = space.chain(table)
    bits = veil.opacity(space.problem, policy, "exact").bits
    assert chain.hidden is space.hidden
    np.testing.assert_allclose(chain.occupancies.sum(axis=1), 1)
    assert exact_opacity(chain, Budget()).bits == bits


def test_every_class_plays_like_a_markov_policy(space: Space):
    policy = veil.MarkovPolicy.softmax(np.random.default_rng(1).normal(size=(3, 3)), space.problem)
    table = space.table_of(policy)
    assert table.shape == space.shape
    lifted = space.policy(table)
    assert veil.opacity(space.problem, lifted, "exact").bits == pytest.approx(
        veil.opacity(space.problem, policy, "exact").bits, abs=1e-14
    )


def test_a_time_dependent_policy_needs_a_time_dependent_class(space: Space):
    policy = veil.TimedPolicy.softmax(np.random.default_rng(1).normal(size=(HORIZON, 3, 3)), space.problem)
    if space.stationary:
        with pytest.raises(veil.InputError, match="it depends on the time"):
            space.table_of(policy)
    else:
        assert space.table_of(policy).shape == space.shape


def test_a_policy_that_does_not_fit_is_refused(space: Space):
    with pytest.raises(veil.InputError, match="has shape"):
        space.table_of(veil.MarkovPolicy(np.full((2, 3), 1 / 3)))
    with pytest.raises(veil.InputError, match="the action is not available there"):
        space.table_of(veil.MarkovPolicy(np.full((3, 3), 1 / 3)))
    with pytest.raises(veil.InputError, match="expected a policy"):
        space.table_of(3)  # type: ignore[arg-type]


def test_a_policy_with_memory_is_none_without():
    policy = MemoryPolicy.uniform(problem(), StateMemory(1))
    for memory in ("markov", "timed"):
        with pytest.raises(veil.InputError, match="memory of the last state"):
            make_space(problem(), memory).table_of(policy)


@pytest.mark.parametrize("memory", ["Markov", "memory", "", None, 2, StateMemory, ["timed"], np.ones(2)])
def test_another_class_is_refused_with_the_choices(memory):
    with pytest.raises(veil.InputError, match=r"expected 'markov', 'timed', or one of veil.ObservationMemory\(k\)"):
        make_space(problem(), memory)


def test_an_agent_who_does_not_see_cannot_remember_observations():
    with pytest.raises(veil.InputError, match="does not see the observations"):
        make_space(masked_problem(), ObservationMemory(1))


def test_what_the_agent_knows_of_the_secret_is_part_of_a_row():
    found = make_space(knowing_problem(), "timed")
    assert found.shape == (2, 6, 3)
    np.testing.assert_array_equal(found.available, np.tile(AVAILABLE, (2, 1)))
    assert make_space(knowing_problem(), Controller(2)).available.shape[1] == 6


def test_no_decisions_need_no_tables():
    found = make_space(masked_problem(0), "timed")
    assert found.softmax(np.zeros(found.shape)).shape == (0, 3, 3)
    remembering = make_space(masked_problem(0), StateMemory(1))
    assert remembering.shape[0] == 0
    assert veil.opacity(masked_problem(0), remembering.policy(np.zeros(remembering.shape)), "exact").bits == 0


def test_a_table_with_no_symmetry_has_distributions_over_what_is_available(space: Space):
    table = any_table(space)
    np.testing.assert_allclose(table.sum(axis=-1), 1, atol=1e-12)
    np.testing.assert_array_equal(table > 0, np.broadcast_to(space.available, space.shape))
    several = np.broadcast_to(space.available.sum(axis=-1) > 1, space.shape[:2])
    chances = np.sort(table[several][table[several] > 0])
    assert np.diff(chances).min() > 0


@pytest.mark.parametrize(("memory", "smaller"), [
    ("markov", ()), ("timed", ("markov",)), (StateMemory(1), ("markov", "timed")), (Controller(2), ("markov",)),
])  # fmt: skip
def test_a_class_contains_those_without_its_memory_or_clock(memory, smaller):
    assert smaller_classes(memory) == smaller
